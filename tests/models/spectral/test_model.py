"""DPSVD: its bounds, what it spends, that it learns, and that it shows what little is known of."""

import tracemalloc
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import discreet
from discreet.audit.neighbors import long_tail
from discreet.audit.subjects import shipped
from discreet.audit.suite import designed
from discreet.data import Interactions
from discreet.engine import batches as users_rows
from discreet.engine.batches import FOLDS, parts, standing
from discreet.errors import BudgetExceeded, DataError, NotPublic, PrivacyError
from discreet.models.base import Model
from discreet.models.choices import POWER_STEP, SECOND_MOMENT, Residuals
from discreet.models.spectral.model import POPULARITY
from discreet.models.taste import Chosen, Directions, exploration
from discreet.privacy import Noisy, statistics
from discreet.privacy import statistics as sums
from discreet.privacy.statistics import UserBatch
from discreet.testing import InsecureSeededNoise, ModelConformance
from tests.models.replay import record, replay

DELTA = 1e-6


def seeded(seed: int = 1, **settings: Any) -> discreet.Ledger:
    return discreet.Ledger(delta=DELTA, noise_source=InsecureSeededNoise(seed), **settings)


def model(epsilon: float = 30.0, **params: Any) -> discreet.DPSVD:
    return discreet.DPSVD(epsilon=epsilon, delta=DELTA, **params)


class TestWithExploration(ModelConformance):
    explicit = False
    personal = False  # half of the checkerboard is outside J
    n_users = 500

    def model(self, **params: Any) -> Model:
        return model(50.0, **{"max_items": 10, "explore": 0.2, **params})

    def fit(self, model: Model, ratings: Interactions) -> Model:
        return model.fit(ratings, ledger=seeded())


def world(*extra: tuple[str, list[int]], n_items: int = 50) -> Interactions:
    """Some ordinary users, and all others that are given."""
    rng = np.random.default_rng(0)
    rows = [(f"user {i:04}", int(j)) for i in range(200) for j in rng.choice(n_items, 12, replace=False)]
    rows += [(name, item) for name, items in extra for item in items]
    return discreet.read(rows, items=list(range(n_items)))


# The bounds


@pytest.mark.parametrize("items", [[7], [3, 30], list(range(20)), list(range(50))])
def test_one_person_moves_each_statistic_by_its_bound_and_no_more(monkeypatch: Any, items: list[int]) -> None:
    found = replay(monkeypatch, model, world(("x", items)), world())
    assert set(found) == {POPULARITY, SECOND_MOMENT, POWER_STEP}
    assert max(found.values()) <= 1
    if len(items) < 50:  # a user who likes everything has (nearly) no taste of their own
        assert min(found.values()) >= 0.95, found


@pytest.mark.parametrize("epsilon", [0.5, 30.0])
@pytest.mark.parametrize(("one", "other"), [([7], [8]), ([1, 2], [3, 4, 5]), ([7], [7, 8]), ([], [9])])
def test_replacing_a_person_moves_each_statistic_by_its_bound_and_no_more(
    monkeypatch: Any, one: list[int], other: list[int], epsilon: float
) -> None:
    def make() -> discreet.DPSVD:
        return model(epsilon, adjacency="replace")

    ballast = ("z", [0])  # so that someone is there even if nobody is replaced by somebody
    found = replay(monkeypatch, make, world(ballast, ("x", one)), world(ballast, ("x", other)), adjacency="replace")
    assert max(found.values()) <= 1
    if epsilon == 30.0 and one and not set(one) & set(other):
        assert min(found.values()) >= 0.95, found


def test_the_second_moment_is_the_sum_of_what_the_definition_says(monkeypatch: Any) -> None:
    data = world(("nobody's friend", [49]))
    seen = record(monkeypatch, lambda paid: model().fit(data, ledger=paid), None)
    popularity, released, again = seen.statistics
    floored = np.maximum(seen.answers[0], 1 + seen.stds[0])
    expected, counts = np.zeros((50, 50)), np.zeros(50)
    assert released.shape == expected.shape
    p = floored**0.7 / np.linalg.norm(floored**0.7)
    for user in range(data.n_users):
        items = data.indices[data.indptr[user] : data.indptr[user + 1]]
        w = np.zeros(50)
        w[items] = floored[items] ** -0.3
        w /= np.linalg.norm(w)
        r = (w - (w @ p) * p) / np.sqrt(max(1 - (w @ p) ** 2, 0.25))
        expected += np.outer(r, r)
        counts[items] += 1 / np.sqrt(len(items))
    assert np.allclose(popularity, counts, atol=1e-5)
    assert np.allclose(released, expected, atol=0.03)  # each entry of 201 rows is cut off below 2^-14
    assert np.allclose(again, expected, atol=0.03)


def test_the_power_step_is_the_sum_of_what_the_definition_says(monkeypatch: Any) -> None:
    data = long_tail({0: 1.0, 5: 1.0})
    seen = record(monkeypatch, lambda paid: model(max_items=4).fit(data, ledger=paid), None)
    assert seen.labels == [POPULARITY, SECOND_MOMENT, POWER_STEP]
    popularity = Noisy(seen.answers[0], seen.stds[0])
    chosen = Chosen.of(popularity, np.arange(4))
    found = Directions.of(Noisy(seen.answers[1], seen.stds[1]), chosen)
    assert found.vectors.shape == (4, 1)
    a = chosen.popularity**-0.3
    expected = np.zeros((64, 1))
    for user in range(data.n_users):
        items = data.indices[data.indptr[user] : data.indptr[user + 1]]
        weights = a[items] / np.linalg.norm(a[items])
        for at, item in enumerate(items):
            others = [other for place, other in enumerate(items) if (place - at) % 4 and other < 4]
            if others:
                expected[item] += weights[at] * np.sign((a[others, None] * found.vectors[others]).sum(axis=0))
    assert seen.statistics[2].shape == expected.shape
    assert np.allclose(seen.statistics[2], expected, atol=0.05)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_one_person_moves_the_power_step_by_its_bound_and_no_more(monkeypatch: Any, adjacency: Any) -> None:
    subject = shipped()[f"DPSVD with a power step, {adjacency}"]
    most: dict[str, float] = {}
    for one, other in subject.pairs:
        found = replay(monkeypatch, subject.make, subject.data(one), subject.data(other), adjacency=adjacency)
        assert max(found.values()) <= 1
        most = {label: max(share, most.get(label, 0.0)) for label, share in found.items()}
    assert set(most) == {POPULARITY, SECOND_MOMENT, POWER_STEP}
    assert min(most.values()) >= 0.93, most


def test_sums_are_the_same_however_they_are_cut(monkeypatch: Any) -> None:
    data = world()
    whole = record(monkeypatch, lambda paid: model().fit(data, ledger=paid), None)
    monkeypatch.setattr(statistics, "SMALL", 7)
    monkeypatch.setattr(sums, "STRIPES", 7)
    monkeypatch.setattr(users_rows, "PART", 100)
    monkeypatch.setattr(users_rows, "DENSE_CELLS", 50 * 3)
    cut = record(monkeypatch, lambda paid: model(n_jobs=3).fit(data, ledger=paid), None)
    assert all(np.array_equal(one, other) for one, other in zip(whole.statistics, cut.statistics, strict=True))


@pytest.mark.parametrize("options", [{}, {"most_users": 40}, {"most": 900}])
def test_batches_have_everyone_once_and_are_equal_for_one_thread_and_smaller_and_smaller_for_several(
    monkeypatch: Any, options: dict[str, int]
) -> None:
    monkeypatch.setattr(users_rows, "LEAST", 50)
    data = discreet.datasets.movielens_like(400, 30, 6000, random_state=0)
    longest = np.diff(data.indptr).max()
    for threads in (1, 4):
        found = list(parts(data, data.values, n_jobs=threads, **options))
        assert np.array_equal(np.concatenate([part.indices for part in found]), data.indices)
        assert np.array_equal(np.concatenate([part.counts for part in found]), np.diff(data.indptr))
        assert max(len(part.counts) for part in found) <= options.get("most_users", data.n_users)
        sizes = [len(part.indices) for part in found]
        assert max(sizes) <= options.get("most", len(data)) + longest
        if "most_users" not in options:
            assert all(later <= earlier + 2 * longest for earlier, later in pairwise(sizes))
        if threads == 1:
            assert max(sizes) - min(sizes) <= 2 * longest
        else:
            assert min(sizes[:4]) >= max(sizes[-4:])
            assert max(sizes[-4:]) <= len(data) / (4 * threads) + longest


def test_a_gram_matrix_is_exact(monkeypatch: Any) -> None:
    rows = np.random.default_rng(0).integers(-(2**14), 2**14, (3000, 6))
    total = np.ones((6, 6), np.int64) << 60  # far more than float64 holds exactly
    sums.add_gram(total, rows, 2**15)
    monkeypatch.setattr(sums, "EXACT", 2**30 * 1000)  # some rows at a time
    sums.add_gram(total, rows, 2**15)
    assert np.array_equal(total, (1 << 60) + 2 * rows.T @ rows)


def test_a_contribution_is_ones_own() -> None:
    """To the last bit, for any other users beside them: otherwise others' contributions would move, too."""
    data = discreet.datasets.movielens_like(300, 120, 12_000, random_state=0).to_implicit()
    rng = np.random.default_rng(1)
    chosen = Chosen.by(Noisy(rng.gamma(1, 20, 120), 1.0), 0.1, 90)
    rows = Residuals.of(chosen)
    step = standing(rng.standard_normal((120, 7)), chosen.weights, np.linspace(1, 2, 120), rated=True)
    (whole,) = parts(data, data.values)
    together, (x, directions) = rows(whole), step(whole)
    for user in range(0, data.n_users, 7):
        row = slice(int(data.indptr[user]), int(data.indptr[user + 1]))
        alone = UserBatch(np.array([0, row.stop - row.start]), data.indices[row], data.values[row])
        assert np.array_equal(rows(alone)[0], together[user])
        own = step(alone)
        assert np.array_equal(own[0], x[row])
        assert np.array_equal(own[1], directions[FOLDS * user : FOLDS * (user + 1)])


def test_parts_of_few_users_make_up_the_whole() -> None:
    data = world(("none", []), ("all", list(range(50))))
    found = list(parts(data, data.values, most_users=7))
    assert max(len(part.counts) for part in found) == 7
    assert np.array_equal(np.concatenate([part.indices for part in found]), data.indices)
    assert np.array_equal(np.concatenate([part.counts for part in found]), np.diff(data.indptr))


def test_memory_stays_bounded_where_users_have_few_items() -> None:
    n_users, n_items = 60_000, 500
    rows = np.arange(n_users)
    table = pa.table({"user": rows, "item": rows % n_items})
    data = discreet.read(table, items=list(range(n_items)))
    dense = n_users * n_items * 8
    tracemalloc.start()
    fitted = model(n_jobs=2).fit(data, ledger=seeded())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.count_nonzero(fitted.history_weights_) == n_items
    assert peak < 2 * dense, f"{peak / 1e6:.0f} MB, where all rows at once would take many times {dense / 1e6:.0f} MB"


# What is spent


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_the_certificate_lists_every_release(adjacency: Any) -> None:
    fitted = model(2.0, adjacency=adjacency).fit(world())
    assert fitted.guarantee_.holds
    assert 1.99 <= fitted.guarantee_.epsilon <= 2
    assert fitted.guarantee_.adjacency == adjacency
    releases = fitted.statement().certificate["releases"]
    assert [release["label"] for release in releases] == [POPULARITY, SECOND_MOMENT, POWER_STEP]
    assert {line.label for line in fitted.plan(50).lines} == {POPULARITY, SECOND_MOMENT, POWER_STEP}
    assert fitted.preview(50).fits


def test_nothing_is_spent_on_wrong_input() -> None:
    unknown = discreet.read([("a", 1), ("b", 2)])  # whose catalog was taken from the data
    wrong: list[tuple[type[Exception], str, Any, discreet.DPSVD]] = [
        (NotPublic, "items", unknown, model()),
        (DataError, "explore", world(), model(explore=1.0)),
        (PrivacyError, "adjacency", world(), model(adjacency="flip")),
        (PrivacyError, "adjacency", world(), model(adjacency="replace")),
        (BudgetExceeded, "plan", world(), model(150.0)),
    ]
    ledger = seeded(epsilon=100.0)
    for kind, words, data, asked in wrong:
        with pytest.raises(kind, match=words):
            asked.fit(data, ledger=ledger)
    assert ledger.spent.epsilon == 0
    assert [entry.kind for entry in ledger.entries] == ["open"]
    with pytest.raises((DataError, ValueError), match="max_items"):
        model(max_items=0).plan(5)


# No user, and no item, is too odd


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 30.0])
@pytest.mark.parametrize(
    ("rows", "n_items"),
    [
        ([("a", 0)], 1),
        ([("a", 0)], 2),
        ([("a", 0), ("a", 1), ("b", 1)], 2),
        ([("a", item) for item in range(30)], 30),
        ([(f"u{user}", 0) for user in range(40)], 60),
        ([(f"u{user}", user % 60) for user in range(600)], 60),
    ],
)
def test_odd_data_makes_no_error(rows: list[tuple[str, int]], n_items: int, epsilon: float) -> None:
    data = discreet.read(rows, items=list(range(n_items)))
    fitted = model(epsilon, explore=0.1).fit(data, ledger=seeded())
    assert all(np.isfinite(getattr(fitted, name)).all() for name in fitted._ARRAYS)
    for history in ([], [0], list(range(n_items))):
        found = fitted.recommend(history, n=5, exclude_seen=False)
        assert len(found) == min(5, n_items)
        assert np.isfinite(found.scores).all()
    assert len(fitted.similar_items(0, n=3)) == min(3, n_items - 1)


def test_users_without_items_make_no_error() -> None:
    data = discreet.datasets.movielens_like(60, 30, 600, random_state=0).to_implicit(0)
    data = data.where(np.zeros(len(data), bool))
    assert not len(data)
    fitted = model(1.0).fit(data, ledger=seeded())
    assert len(fitted.recommend([], n=5)) == 5


def test_who_likes_only_unknown_items_gets_what_is_popular() -> None:
    data = world()
    fitted = model(max_items=30).fit(data, ledger=seeded())
    outside = int(np.flatnonzero(fitted.history_weights_ == 0)[0])
    found = fitted.recommend([outside], n=10)
    order = [item for item in np.argsort(-fitted.item_bias_, kind="stable") if item != outside]
    assert found.items == order[:10]


# It learns


def test_learns_in_private() -> None:
    data = discreet.datasets.movielens_like(4000, 400, 160_000, random_state=2).rescale(1, 5).to_implicit(4)
    split = discreet.splits.held_out_users(data, valid=0, test=500, random_state=0)

    def recall(fitted: Any) -> float:
        test = split.test
        return float(discreet.evaluate(fitted, test.target, history=test.query, metrics=["recall@20"])["recall@20"])

    popular = recall(discreet.Popularity().fit(split.train))
    found = [recall(model(epsilon).fit(split.train, ledger=seeded(5))) for epsilon in (1.0, 10.0)]
    assert found[0] > 1.02 * popular
    assert found[1] > 1.07 * popular


def test_a_power_step_learns_about_many_more_items() -> None:
    """There are two tastes, and most of what is chosen is not in J: the tail is known to be of one or the other."""
    rng = np.random.default_rng(0)
    n_items, n_users = 600, 4000
    odds = 1 / np.arange(40, 340)
    rows = [
        (f"u{user}", int(2 * item + user % 2))
        for user in range(n_users)
        for item in rng.choice(n_items // 2, 8, replace=False, p=odds / odds.sum())
    ]
    data = discreet.read(rows, items=list(range(n_items)))
    fitted = model(5.0, max_items=60).fit(data, ledger=seeded())
    assert np.count_nonzero(fitted.history_weights_) > 200
    assert fitted.item_factors_.shape[1] >= 2
    tail = np.setdiff1d(np.flatnonzero(fitted.history_weights_), np.argsort(-fitted.popularity_)[:60])
    right = np.sign(fitted.item_factors_[tail, 1]) == np.where(tail % 2, 1, -1) * np.sign(fitted.item_factors_[1, 1])
    assert right.mean() > 0.95
    found = fitted.recommend([1, 3, 5], n=20)
    assert np.mean([item % 2 for item in found.items]) > 0.9


# New items


def with_kinds(n_items: int = 200, n_users: int = 2000) -> Interactions:
    """Users choose items of one of two kinds; nobody has the last ten items."""
    rng = np.random.default_rng(0)
    columns = pa.table({"kind": np.array(["a", "b"])[np.arange(n_items) % 2], "size": np.arange(n_items) % 7})
    catalog = discreet.Catalogue(pa.array(range(n_items)), columns)
    old = n_items // 2 - 5
    rows = [(f"u{u}", int(2 * item + u % 2)) for u in range(n_users) for item in rng.choice(old, 8, replace=False)]
    return discreet.read(rows, items=catalog)


@pytest.mark.parametrize("most", [20, 4000])  # with and without a power step
def test_new_items_stand_where_their_features_say(most: int, tmp_path: Path) -> None:
    data, new = with_kinds(), list(range(190, 200))
    fitted = model(5.0, max_items=most, features=["kind", "size"]).fit(data, ledger=seeded())
    plain = model(5.0, max_items=most).fit(data, ledger=seeded())
    assert not plain.item_factors_[new, 1:].any()
    assert (fitted.history_weights_[new] == 0).all()
    for kind in (0, 1):
        found = fitted.recommend([kind, 2 + kind, 4 + kind], n=5, allow=new)
        assert [item % 2 for item in found.items] == [kind] * 5
    assert fitted.statement().certificate["releases"] == plain.statement().certificate["releases"]
    assert "kind, size" in str(fitted.statement())
    fitted.save(tmp_path / "model")
    again = discreet.load(tmp_path / "model")
    assert again.recommend([1, 3], n=9, allow=new).items == fitted.recommend([1, 3], n=9, allow=new).items


def test_features_that_cannot_be_used_are_refused() -> None:
    data = with_kinds(40, 100)
    with pytest.raises(DataError, match="no column 'color'"):
        model(features=["color"]).fit(data)
    ratings = discreet.datasets.movielens_like(60, 30, 600, random_state=0)
    with pytest.raises(DataError, match="features: this is for lists"):
        model(features=["genres"]).fit(ratings)


# What little is known of can be seen


def test_exploring_fills_about_the_share_that_was_asked_for() -> None:
    data = discreet.datasets.movielens_like(3000, 600, 120_000, random_state=2).to_implicit()
    lists = {}
    for share in (0.0, 0.05, 0.2):
        fitted = model(5.0, explore=share).fit(data, ledger=seeded())
        outside = fitted.history_weights_ == 0
        assert outside.any()
        found = fitted.recommend(data.of_users(np.arange(500)), n=20).numbers
        lists[share] = outside[found].mean(), len(np.unique(found))
        why = fitted.explain(data.history(data.users[3]), data.items[int(np.flatnonzero(outside)[0])])
        assert np.isclose(why.baseline + why.contributions.sum(), why.score)
    assert lists[0.0][0] < 0.01
    assert 0.02 <= lists[0.05][0] <= 0.12
    assert 0.1 <= lists[0.2][0] <= 0.4
    assert lists[0.0][1] < lists[0.05][1] < lists[0.2][1]


def test_exploring_changes_nothing_among_the_items_that_are_known() -> None:
    data = world()
    plain, exploring = (model(max_items=30, explore=share).fit(data, ledger=seeded()) for share in (0.0, 0.3))
    known = [int(item) for item in np.flatnonzero(plain.history_weights_)]
    history = known[:3]
    assert plain.recommend(history, allow=known).items == exploring.recommend(history, allow=known).items
    assert plain.similar_items(known[0]).items == exploring.similar_items(known[0]).items
    assert "no vector" in exploring.similar_items(int(np.flatnonzero(plain.history_weights_ == 0)[0])).note
    assert exploring.exploration_.shape[1] > 0
    assert exploration(Chosen.by(Noisy(np.ones(5), 1.0), 1.0, 9), None, 0.5)[0].shape == (5, 0)  # type: ignore[arg-type]


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_sparse_rows_reach_their_bounds_and_no_more(monkeypatch: Any, adjacency: str) -> None:
    """Rows of large catalogs stay sparse: the same releases, of histories with the common taste."""
    monkeypatch.setattr("discreet.models.taste.MOST_DENSE", 0)
    findings = designed(shipped()[f"DPSVD with a power step, {adjacency}"])[1]
    assert not [found.words for found in findings if not found.ok and found.check != "whole claim"]
