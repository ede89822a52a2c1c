"""DPCleansedSVD: its bounds, what it spends, that it learns, and that no data are too odd."""

import tracemalloc
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import discreet
from discreet.audit.neighbors import ordinary
from discreet.data import Interactions
from discreet.engine import batches as users_rows
from discreet.engine.batches import parts, user_batches
from discreet.errors import BudgetExceeded, DataError, NotPublic, PrivacyError
from discreet.models.base import Model
from discreet.models.centering import MEAN, VARIANCES
from discreet.models.eigen import MOST_ITEMS, rating_directions, standing_out
from discreet.models.fold_in import LinearFoldIn
from discreet.models.spectral import contributions
from discreet.models.spectral.contributions import COUNTS, COVARIANCE, SUMS, WEIGHTS, Cleansing
from discreet.models.spectral.estimate import MOST_COLUMNS, factored, similarities
from discreet.models.spectral.published import PublishedCleansing
from discreet.privacy.statistics import UserBatch
from discreet.testing import InsecureSeededNoise, ModelConformance
from tests.models.replay import record, replay, without_means

DELTA = 1e-6
ITEMS = 60
LABELS = {COUNTS, SUMS, WEIGHTS, COVARIANCE}
Row = dict[int, float]


def seeded(seed: int = 1, **settings: Any) -> discreet.Ledger:
    return discreet.Ledger(delta=DELTA, noise_source=InsecureSeededNoise(seed), **settings)


def model(epsilon: float = 30.0, **params: Any) -> discreet.DPCleansedSVD:
    return discreet.DPCleansedSVD(epsilon=epsilon, delta=DELTA, **params)


class _Suite(ModelConformance):
    implicit = False
    n_users = 1000

    def fit(self, model: Model, ratings: Interactions) -> Model:
        return model.fit(ratings, ledger=seeded(3))


class TestCleansedSVD(_Suite):
    def model(self, **params: Any) -> Model:
        return model(50.0, **params)

    def test_memory_of_a_batch_is_bounded(self) -> None:
        """It serves as DPSVD does."""


class TestCleansedNeighbours(_Suite):
    personal = False  # the checkerboard's predictions are right, but not as far from the middle

    def model(self, **params: Any) -> Model:
        return model(50.0, **{"predictor": "knn", "neighbours": 8, **params})

    def test_memory_of_a_batch_is_bounded(self) -> None:
        """Serving is tested below, without a covariance of so many items."""


class TestPublishedDPCleansedSVD(_Suite):
    def model(self, **params: Any) -> Model:
        return discreet.DPCleansedSVD.as_published(**{"epsilon": 50.0, "delta": DELTA, "max_items": 30, **params})

    def fit(self, model: Model, ratings: Interactions) -> Model:
        with pytest.warns(UserWarning, match="really epsilon"):
            return super().fit(model, ratings)

    def test_memory_of_a_batch_is_bounded(self) -> None:
        """It serves as DPSVD does."""


def world(*people: tuple[str, Row]) -> Interactions:
    return ordinary(ITEMS, *people)


# The bounds

FAN = dict.fromkeys(range(20), 5.0)
CRITIC = dict.fromkeys(range(20), 0.0)
DIVIDED = {item: 5.0 * (item % 2) for item in range(20)}
ELSEWHERE = {item: 5.0 * (item % 2) for item in range(20, 40)}
OPPOSED = {item: 5.0 - rating for item, rating in DIVIDED.items()}
SINGLE = {7: 5.0}


def furthest(
    monkeypatch: Any, make: Any, pairs: list[tuple[Row | None, Row | None]], **ledger: Any
) -> dict[str, float]:
    """How far any of these changes of one person moves each statistic, as a fraction of its sensitivity."""
    found: dict[str, float] = {}
    for pair in pairs:
        one, other = (world(*([] if row is None else [("x", row)])) for row in pair)
        for label, share in replay(monkeypatch, make, one, other, **ledger).items():
            found[label] = max(found.get(label, 0.0), share)
    assert set(found) >= LABELS
    found = without_means(found)
    assert max(found.values()) <= 1
    return found


def published(**params: Any) -> Any:
    return discreet.DPCleansedSVD.as_published(epsilon=30.0, delta=DELTA, max_items=20, clamp=1.0, **params)


@pytest.mark.parametrize("make", [model, published])
def test_one_person_moves_each_statistic_by_its_bound_and_no_more(monkeypatch: Any, make: Any) -> None:
    with np.errstate(all="raise"):
        if make is published:
            with pytest.warns(UserWarning, match="not users"):
                found = furthest(monkeypatch, make, [(FAN, None), (DIVIDED, None), (SINGLE, None)])
        else:
            found = furthest(monkeypatch, make, [(FAN, None), (DIVIDED, None), (SINGLE, None)])
    assert min(found.values()) >= 0.95, found


@pytest.mark.parametrize("make", [model, published])
def test_replacing_a_person_moves_each_statistic_by_its_bound_and_no_more(monkeypatch: Any, make: Any) -> None:
    def replacing() -> Any:
        return make(adjacency="replace")

    pairs: list[tuple[Row | None, Row | None]] = [(FAN, CRITIC), (DIVIDED, ELSEWHERE), (DIVIDED, OPPOSED)]
    if make is published:
        with pytest.warns(UserWarning, match="not users"):
            found = furthest(monkeypatch, replacing, pairs, adjacency="replace")
    else:
        found = furthest(monkeypatch, replacing, pairs, adjacency="replace")
    assert min(found.values()) >= 0.95, found


def test_the_sums_are_what_the_definition_says(monkeypatch: Any) -> None:
    data, fitted = world(("x", DIVIDED)), model(60.0)
    seen = record(monkeypatch, lambda paid: fitted.fit(data, ledger=paid), None)
    found = dict(zip(seen.labels, seen.statistics, strict=True))
    mean, averages = fitted.global_mean_, (fitted.global_mean_ + fitted.item_bias_).astype(np.float64)
    expected: list[Any] = [0.0, 0.0, 0.0, 0.0]

    def left(about: Any, e: Any) -> Any:
        r = np.clip(about - about.sum() / (e.sum() + fitted.shrinkage_), -2, 2) * e
        return r * min(1, 1 / max(np.sqrt((r**2).sum() / e.sum()), 1e-9)) / e.sum() ** 0.5

    for user in range(data.n_users):
        row = slice(data.indptr[user], data.indptr[user + 1])
        y, e = np.zeros(ITEMS), np.zeros(ITEMS)
        y[data.indices[row]], e[data.indices[row]] = data.values[row], 1
        r = left((y - averages) * e, e)
        own = e / e.sum() ** 0.5, left((y - mean) * e, e), np.outer(e, e) / e.sum(), np.outer(r, r)
        expected = [total + part for total, part in zip(expected, own, strict=True)]
    for label, wanted in zip((COUNTS, SUMS, WEIGHTS, COVARIANCE), expected, strict=True):
        assert np.allclose(found[label], wanted, atol=0.02)  # each entry of 101 rows is cut off below 2^-14


def test_sums_are_the_same_however_they_are_cut(monkeypatch: Any) -> None:
    data = world()
    whole = record(monkeypatch, lambda paid: model().fit(data, ledger=paid), None)
    monkeypatch.setattr(users_rows, "PART", 100)
    monkeypatch.setattr(contributions, "DENSE_CELLS", ITEMS * 3)
    cut = record(monkeypatch, lambda paid: model(n_jobs=3).fit(data, ledger=paid), None)
    assert all(np.array_equal(one, other) for one, other in zip(whole.statistics, cut.statistics, strict=True))


def test_a_contribution_is_ones_own() -> None:
    """To the last bit, for any other users beside them: otherwise others' contributions would move, too."""
    data = discreet.datasets.movielens_like(200, 80, 8000, random_state=0).rescale(0, 5)
    averages = np.random.default_rng(0).uniform(1, 4, 80)
    capped = PublishedCleansing(2.5, 2.5, 2.0, 10)
    own = Cleansing(2.5, 3.3, 2.0, 1.0).left
    for left, users in ((own, user_batches), (capped.residuals, capped.users)):
        (whole,) = users(data).each(1)
        together = left(averages, whole)
        for user in range(0, data.n_users, 7):
            (alone,) = users(data.of_users(np.array([user]))).each(1)
            assert np.array_equal(left(averages, alone), together[whole.owners == user])
    assert max(whole.counts) == 10


# What is spent


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_the_certificate_lists_every_release(adjacency: Any) -> None:
    fitted = model(2.0, adjacency=adjacency).fit(world())
    assert fitted.guarantee_.holds
    assert 1.99 <= fitted.guarantee_.epsilon <= 2
    assert fitted.guarantee_.adjacency == adjacency
    assert {release["label"] for release in fitted.statement().certificate["releases"]} == LABELS | {MEAN, VARIANCES}
    assert fitted.preview(ITEMS).fits


def test_as_published_says_what_it_costs() -> None:
    """More than the paper says; and more for more ratings of a person."""
    costs = [
        discreet.DPCleansedSVD.as_published(epsilon=1.0, delta=DELTA, max_items=k).plan(ITEMS).cost.epsilon(DELTA)
        for k in (20, 80, 320)
    ]
    assert costs[0] < costs[1] < costs[2]
    assert costs[1] > 2
    with pytest.warns(UserWarning, match="really epsilon = 2"):
        fitted = discreet.DPCleansedSVD.as_published(epsilon=1.0, delta=DELTA).fit(world())
    assert fitted.guarantee_.holds
    assert np.isclose(fitted.guarantee_.epsilon, costs[1], rtol=1e-4)


def test_nothing_is_spent_on_wrong_input() -> None:
    unknown = discreet.read([("a", 1, 3.0), ("b", 2, 3.0)], value_range=(0, 5))  # whose catalog is the data's
    flat = discreet.read([("a", 1, 0.0)], items=[1], value_range=(0, 1e-35))
    wrong: list[tuple[type[Exception], str, Any, Any]] = [
        (DataError, "implicit", world().to_implicit(), model()),
        (NotPublic, "items", unknown, model()),
        (DataError, "value_range", flat, model()),
        (DataError, "predictor", world(), model(predictor="guess")),
        (DataError, "rank.*60", world(), model(rank=61)),
        (PrivacyError, "clamp", world(), model(clamp=0.0)),
        (PrivacyError, "spread", world(), model(spread=-1.0)),
        (PrivacyError, "neighbours", world(), model(neighbours=0)),
        (PrivacyError, "adjacency", world(), model(adjacency="replace")),
        (BudgetExceeded, "plan", world(), model(150.0)),
    ]
    ledger = seeded(epsilon=100.0)
    for kind, words, data, asked in wrong:
        with pytest.raises(kind, match=words):
            asked.fit(data, ledger=ledger)
    assert [entry.kind for entry in ledger.entries] == ["open"]
    with pytest.raises(DataError, match="too large"):
        published().plan(MOST_ITEMS + 1)


# No user, and no item, is too odd


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("predictor", ["svd", "knn"])
@pytest.mark.parametrize(
    ("rows", "n_items"),
    [
        ([("a", 0, 5.0)], 1),
        ([("a", 0, 5.0), ("a", 1, 0.0), ("b", 1, 2.0)], 2),
        ([("a", item, 2.5) for item in range(30)], 30),  # a row of zeros, once it is centered
        ([(f"u{user}", 0, 1.0) for user in range(40)], 60),
        ([(f"u{user}", user % 60, 5.0 * (user % 2)) for user in range(600)], 60),
    ],
)
def test_odd_data_makes_no_error(rows: Any, n_items: int, predictor: Any, epsilon: float) -> None:
    data = discreet.read(rows, items=list(range(n_items)), value_range=(0, 5))
    fitted = model(epsilon, predictor=predictor).fit(data, ledger=seeded())
    assert all(np.isfinite(getattr(fitted, name)).all() for name in fitted._ARRAYS)
    histories: tuple[Row, ...] = ({}, {0: 3.0}, dict.fromkeys(range(n_items), 5.0))
    for history in histories:
        found = fitted.recommend(history, n=5, exclude_seen=False)
        assert len(found) == min(5, n_items)
        assert np.isfinite(found.scores).all()


# It learns


@pytest.mark.parametrize("predictor", ["svd", "knn"])
def test_learns_in_private(predictor: Any) -> None:
    data = discreet.datasets.movielens_like(6000, 80, 240_000, random_state=2).rescale(0, 5)
    train, _, test = discreet.splits.holdout(data, valid=0.0, test=0.2, random_state=0)

    def rmse(fitted: Any) -> float:
        return float(np.sqrt(np.mean((fitted.predict(train, test) - test.values) ** 2)))

    biases = rmse(discreet.MeanRating("both").fit(train))
    found = rmse(model(5.0, predictor=predictor).fit(train, ledger=seeded(5)))
    assert found < 0.99 * biases, (found, biases)


@pytest.mark.parametrize("n", [1, 2, 7, 60])
def test_only_the_eigenvectors_that_stand_out_are_computed(n: int) -> None:
    matrix = np.random.default_rng(n).standard_normal((n, n))
    matrix = matrix @ matrix.T
    values, vectors = np.linalg.eigh(matrix)
    for kept, most in ((0, n), (1, n), (min(5, n), n), (n, n), (n, min(3, n))):
        edge = (values[n - kept] * 0.999 if kept else values[-1] * 1.001) / (1 + n ** (-2 / 3))
        true, cosines, found = standing_out(matrix, edge, most)
        number = min(kept, most)
        assert found.shape == (n, number)
        assert np.allclose(np.abs(np.sum(found * vectors[:, ::-1][:, :number], axis=0)), 1)
        assert np.allclose(true + edge**2 / (4 * true), values[::-1][:number])
        assert ((cosines > 0) & (cosines <= 1)).all()


def test_directions_are_those_of_the_signal() -> None:
    """Planted directions and their variances are found again; noise alone gives none."""
    rng = np.random.default_rng(0)
    n, std = 200, 1.0
    noise = rng.standard_normal((n, n)) * std
    noise = (noise + noise.T) / 2
    edge = std * np.sqrt(2 * n)
    assert standing_out(noise, edge, 50)[2].shape == (n, 0)
    q = np.linalg.qr(rng.standard_normal((n, 2)))[0]
    signal = 20.0 * n * q @ np.diag([2.0, 1.0]) @ q.T + 10.0 * np.eye(n)
    found = rating_directions(signal + noise, edge, 2)
    deviations = np.linalg.norm(found, axis=0)
    assert np.abs(np.diag((found / deviations).T @ q)).min() > 0.99
    assert np.allclose(deviations**2, [4 * n, 2 * n], rtol=0.1)
    assert rating_directions(np.zeros((3, 3)), 0.0, None).shape == (3, 0)
    assert rating_directions(np.ones((1, 1)), 0.0, None).shape == (1, 0)


def test_neighbours_are_the_most_similar() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((500, 6))
    rows[:, 1] = 3 * rows[:, 0] + 0.1 * rows[:, 1]
    rows[:, 2] = -rows[:, 0] + 0.2 * rows[:, 2]
    found = similarities(rows.T @ rows, 2)
    assert (np.count_nonzero(found, axis=1) == 2).all()
    assert set(np.flatnonzero(found[0])) == {1, 2}
    assert found[0, 1] > 0 > found[0, 2]
    assert np.allclose(np.abs(found).sum(axis=1), 1)
    left, right = factored(found)
    assert np.allclose(left @ right.T, found)
    assert factored(rng.standard_normal((MOST_COLUMNS + 3, MOST_COLUMNS + 3)))[0].shape[1] == MOST_COLUMNS


def test_memory_of_folding_in_is_bounded() -> None:
    n_users, n_items = 2000, 10_000
    rng = np.random.default_rng(0)
    items, ones = rng.integers(0, n_items, 5 * n_users), np.ones(5 * n_users)
    table = pa.table({"user": np.repeat(np.arange(n_users), 5), "item": items, "rating": ones})
    data = discreet.read(table, items=list(range(n_items)), value_range=(0, 5))
    vectors = rng.standard_normal((n_items, MOST_COLUMNS)).astype(np.float32)
    base, spread = np.zeros(n_items, np.float32), float(n_items)
    fold_in = LinearFoldIn(columns=vectors, base=base, loadings=vectors, damping=5.0, spread=spread)
    tracemalloc.start()
    fold_in.fold_in(data, 2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < n_users * n_items / 4, f"{peak / 1e6:.0f} MB"


def test_parts_are_cut_to_the_cap() -> None:
    data = world(("x", dict.fromkeys(range(ITEMS), 1.0)))
    capped = PublishedCleansing(2.5, 2.5, 2.0, 7)
    (part,), (before,) = capped.users(data).each(1), parts(data, data.values)
    assert isinstance(part, UserBatch)
    assert np.array_equal(part.counts, np.minimum(before.counts, 7))


def test_the_covariance_is_of_frequent_items() -> None:
    """A large catalog is no error: items that hardly anybody has rated are known by their average alone."""
    data = discreet.datasets.movielens_like(2000, 50, 60_000, random_state=0)
    table = discreet.read(data.to_arrow(), items=list(range(MOST_ITEMS + 1)), value_range=(0.5, 5))
    fitted = model(5.0).fit(table, ledger=seeded())
    known = fitted.item_factors_.any(axis=1)
    assert 20 <= known.sum() < 200
    assert known[np.argsort(-np.bincount(table.indices, minlength=table.n_items))[:20]].all()
