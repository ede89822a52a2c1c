"""Projected gradient descent, private, as published and not private: bounds, spending, learning, odd data."""

import tracemalloc
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import discreet
from discreet.audit.neighbors import ordinary
from discreet.data import Interactions
from discreet.engine import batches as users_rows
from discreet.errors import BudgetExceeded, DataError, NotPublic, PrivacyError
from discreet.models.base import Model
from discreet.models.centering import MEAN, VARIANCES, Centering
from discreet.models.eigen import simplex
from discreet.models.fold_in import ReplayFoldIn
from discreet.models.gradient import contributions
from discreet.models.gradient.contributions import Descent
from discreet.models.gradient.estimate import Step, project
from discreet.models.gradient.model import MOMENT, POPULARITY
from discreet.privacy.statistics import UserBatch
from discreet.testing import InsecureSeededNoise, ModelConformance
from tests.models.replay import record, replay, without_means

DELTA = 1e-6
ITEMS = 40
STEPS = 4
Row = dict[int, float]


def seeded(seed: int = 1, **settings: Any) -> discreet.Ledger:
    return discreet.Ledger(delta=DELTA, noise_source=InsecureSeededNoise(seed), **settings)


def model(epsilon: float = 30.0, **params: Any) -> discreet.DPGradientDescent:
    return discreet.DPGradientDescent(epsilon=epsilon, delta=DELTA, **{"n_steps": STEPS, **params})


def published(epsilon: float = 30.0, **params: Any) -> discreet.PublishedDPGradientDescent:
    return discreet.DPGradientDescent.as_published(epsilon=epsilon, delta=DELTA, **{"n_steps": STEPS, **params})


class _Suite(ModelConformance):
    implicit = False
    n_users = 1000

    def fit(self, model: Model, ratings: Interactions) -> Model:
        return model.fit(ratings, ledger=seeded(3))

    def test_memory_of_a_batch_is_bounded(self) -> None:
        """Serving is tested below, without a covariance of so many items."""


class TestDPGradientDescent(_Suite):
    def model(self, **params: Any) -> Model:
        return model(50.0, **{"n_steps": 2, **params})


class TestPublishedDPGradientDescent(_Suite):
    def model(self, **params: Any) -> Model:
        return published(200.0, **params)


class TestGradientDescent(_Suite):
    def model(self, **params: Any) -> Model:
        return discreet.GradientDescent(**{"n_steps": 6, **params})

    def fit(self, model: Model, ratings: Interactions) -> Model:
        return model.fit(ratings)


def world(*people: tuple[str, Row]) -> Interactions:
    return ordinary(ITEMS, *people)


# The bounds

DIVIDED = {item: 5.0 * (item % 2) for item in range(20)}
ELSEWHERE = {item: 5.0 * (item % 2) for item in range(20, 40)}
SHORT = {3: 5.0, 4: 4.0}


@pytest.mark.parametrize("make", [model, published])
@pytest.mark.parametrize(("row", "reached"), [(DIVIDED, True), (SHORT, False), ({7: 0.0}, False)])
def test_one_person_moves_each_statistic_by_its_bound_and_no_more(
    monkeypatch: Any, make: Any, row: Row, reached: bool
) -> None:
    found = replay(monkeypatch, make, world(("x", row)), world())
    assert set(without_means(found)) == {MOMENT}
    assert found[MOMENT] <= 1
    assert not reached or found[MOMENT] >= 0.95


@pytest.mark.parametrize("make", [model, published])
@pytest.mark.parametrize(("other", "reached"), [(ELSEWHERE, True), (SHORT, False), ({}, False)])
def test_replacing_a_person_moves_each_statistic_by_its_bound_and_no_more(
    monkeypatch: Any, make: Any, other: Row, reached: bool
) -> None:
    people = (world(("z", SHORT), ("x", row)) for row in (DIVIDED, other))
    found = replay(monkeypatch, lambda: make(adjacency="replace"), *people, adjacency="replace")
    assert found[MOMENT] <= 1
    assert not reached or found[MOMENT] >= 0.95


def test_the_bound_is_reached_in_every_step(monkeypatch: Any) -> None:
    """Though in later ones the row is filled in: it is the whole row that is shortened."""
    first = record(monkeypatch, lambda paid: model().fit(world(("x", DIVIDED)), ledger=paid), None)
    second = record(monkeypatch, lambda paid: model().fit(world(), ledger=paid), first.answers)
    assert first.labels == [MEAN, VARIANCES, *[MOMENT] * STEPS]
    for one, other, bound in list(zip(first.statistics, second.statistics, first.sensitivities, strict=True))[2:]:
        assert 0.95 * bound <= np.linalg.norm(one - other) <= bound


def test_the_second_moments_are_what_the_definition_says(monkeypatch: Any) -> None:
    data = world(("x", DIVIDED))
    fitted = model(row_norm=4.0, clip=5.0, step_size=1.2, radius=30.0)
    seen, at = record(monkeypatch, lambda paid: fitted.fit(data, ledger=paid), None), fitted.global_mean_
    X, P = np.zeros((data.n_users, ITEMS)), np.zeros((data.n_users, ITEMS))
    for user in range(data.n_users):
        row = slice(data.indptr[user], data.indptr[user + 1])
        own = data.values[row].astype(float)
        own = own - at - (own - at).sum() / (len(own) + fitted.shrinkage_)
        X[user, data.indices[row]], P[user, data.indices[row]] = own * min(1, 4 / np.linalg.norm(own)), 1
    Y, eta = np.zeros_like(X), np.full(data.n_users, 1.2)
    for statistic, step in zip(seen.statistics[2:], fitted._fold_in.steps.steps, strict=True):
        Z = Y - eta[:, None] * P * (Y - X)
        short = Z * np.minimum(1, 5 / np.linalg.norm(Z, axis=1))[:, None]
        assert np.allclose(statistic, short.T @ short, atol=0.3)  # each entry of 101 rows is cut off
        Y = (Z @ step.vectors * step.gains) @ step.vectors.T
        eta = 1.2 / np.minimum(P @ (step.vectors**2).sum(axis=1) + 2 * len(step.gains) / ITEMS, 1)
    scales = np.linalg.norm(X, axis=1) / 4
    own = fitted.embed(data)[scales < 0.999]
    assert np.allclose(own @ fitted.item_factors_.T, Y[scales < 0.999], atol=1e-4)


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
    rng = np.random.default_rng(0)
    steps = [Step(np.linalg.qr(rng.standard_normal((80, k)))[0], rng.uniform(0.5, 1, k)) for k in (1, 7, 30)]
    descent = Descent(1.5, 80, Centering.of((0, 5), 6.0, centre=True), steps)
    (whole,) = descent.blocks(data, np.arange(80))
    together = descent.rows(whole)
    for user in range(0, data.n_users, 7):
        (alone,) = descent.blocks(data.of_users(np.array([user])), np.arange(80))
        assert np.array_equal(descent.rows(alone)[0], together[user])


def test_memory_of_folding_in_is_bounded() -> None:
    n_users, n_items = 2000, 5000
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "user": np.repeat(np.arange(n_users), 5),
            "item": rng.integers(0, n_items, 5 * n_users),
            "rating": np.ones(5 * n_users),
        }
    )
    data = discreet.read(table, items=list(range(n_items)), value_range=(0, 5))
    vectors = np.linalg.qr(rng.standard_normal((n_items, 6)))[0]
    steps = Descent(1.5, n_items, Centering.of((0, 5), 9.0, centre=True), [Step(vectors, np.ones(6))] * 3)
    fold_in = ReplayFoldIn(columns=vectors.astype(np.float32), base=np.zeros(n_items, np.float32), steps=steps)
    tracemalloc.start()
    fold_in.fold_in(data, 2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < n_users * n_items, f"{peak / 1e6:.0f} MB"


def test_steps_do_not_overshoot() -> None:
    """However few or many items a user has rated: each takes them closer to the ratings that directions can explain."""
    rng = np.random.default_rng(0)
    step = Step(np.linalg.qr(rng.standard_normal((50, 3)))[0], np.ones(3))
    for n_rated in (3, 10, 30, 50):
        items = np.sort(rng.choice(50, n_rated, replace=False))
        part = UserBatch(np.array([0, n_rated]), items, step.vectors[items] @ np.array([3.0, -2.0, 1.0]))
        walks = [Descent(1.5, 50, Centering(0.0, None, 1e9), [step] * n) for n in (1, 3, 9, 90)]
        left = [np.linalg.norm(walk.replay(part)[1][0, items] - part.values) for walk in walks]
        assert left == sorted(left, reverse=True)
        assert left[-1] < 0.01 * np.linalg.norm(part.values) or n_rated == 3


# The projection


def test_projecting_keeps_what_the_ball_allows() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((50, 8)) * np.arange(1, 9)
    sizes = np.linalg.svd(rows)[1]
    step = project(rows.T @ rows, 0.0, 60.0, np.zeros(8))  # of which only the first half have a part
    left = np.linalg.svd((rows @ step.vectors) * step.gains)[1]
    assert np.isclose(left.sum(), 60)
    assert np.allclose(np.diff(sizes[: len(left)] - left), 0)  # all lowered by the same
    whole = project(rows.T @ rows, 0.0, 1e9, np.zeros(8))
    assert whole.gains.min() > 1 - 1e-12
    assert simplex(np.array([3.0, 1.0, 0.0]), 2.0)[1] == 1.0
    assert simplex(np.array([3.0, 1.0]), 4.0)[1] == 0.0
    assert project(np.zeros((3, 3)), 0.0, None, np.zeros(3)).vectors.shape == (3, 0)


def test_directions_are_of_what_entries_have_in_common() -> None:
    """Not of what single entries do, however much that is, nor of what noise could feign."""
    rng = np.random.default_rng(0)
    v = np.linalg.qr(rng.standard_normal((40, 2)))[0]
    own = np.diag(rng.uniform(1, 40, 40) * 1e3)
    moment = (v * [1e5, 4e4]) @ v.T + own
    anything = np.full(40, 1e20)  # chance could be all of it
    step = project(moment, 1e3, None, anything)
    assert np.allclose(np.abs((step.vectors * v).sum(axis=0)), 1, atol=0.01)
    assert np.allclose(step.gains, np.array([1e5, 4e4]) / np.diag(v.T @ moment @ v), rtol=0.05)
    assert len(project(moment, 6e4, None, anything).gains) == 1
    assert len(project(own, 0.0, None, anything).gains) == 0


def test_of_few_items_that_many_rate_the_rest_is_more_than_chance() -> None:
    """Beside the first direction, the others look like chance; that so many users cannot leave so much to it shows."""
    rng = np.random.default_rng(1)
    tastes = rng.standard_normal((5_000, 3)) * [2.0, 1.0, 0.8]
    rows = tastes @ np.linalg.qr(rng.standard_normal((12, 3)))[0].T + 0.3 * rng.standard_normal((5_000, 12))
    moment, squares = rows.T @ rows, rows**2
    assert len(project(moment, 0.0, None, np.full(12, 1e20)).gains) == 1
    assert len(project(moment, 0.0, None, squares.sum(axis=1) @ squares).gains) == 3


def test_the_error_does_not_rise_with_epsilon_on_a_questionnaire() -> None:
    """Less noise must not hide directions."""
    rng = np.random.default_rng(0)
    tastes = 1.2 * rng.standard_normal((1_500, 3)) @ rng.standard_normal((3, 12)) / np.sqrt(3)
    table = np.clip(3 + rng.standard_normal(12) / 2 + tastes + 0.5 * rng.standard_normal((1_500, 12)), 1, 5)
    rows = [(user, item, float(value)) for (user, item), value in np.ndenumerate(table)]
    data = discreet.read(rows, items=list(range(12)), value_range=(1, 5))
    train, _, test = discreet.splits.holdout(data, valid=0, test=0.1, random_state=0)

    def error(made: Any) -> float:
        return float(discreet.evaluate(made, test, history=train, metrics=["rmse"])["rmse"])

    errors = []
    for epsilon in (1.0, 5.0, 50.0):
        ledger = discreet.Ledger(delta=1e-6, noise_source=InsecureSeededNoise(0))
        errors.append(error(discreet.DPGradientDescent(epsilon=epsilon, delta=1e-6).fit(train, ledger=ledger)))
    assert errors[1] < 1.005 * errors[0]
    assert errors[2] < 1.005 * errors[1]
    assert errors[2] < 0.9 * error(discreet.MeanRating("both").fit(train))


def test_which_items_happen_to_be_rated_is_no_direction() -> None:
    """Where privacy adds hardly any noise, the chance of who rated what is more, and not to be taken for taste."""
    ratings = discreet.datasets.rank_one(4000, 100, per_user=20, random_state=0)
    train, _, test = discreet.splits.holdout(ratings, valid=0.0, test=0.02, random_state=0)
    fitted = model(150.0, n_steps=5, centre=False).fit(train, ledger=seeded())
    assert fitted.ranks_ == [1] * 5
    errors = fitted.predict(train, test) - test.values
    assert np.sqrt(np.mean(errors**2)) < 0.01 * np.std(test.values)


# What is spent


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_the_certificate_lists_every_release(adjacency: Any) -> None:
    fitted = model(2.0, adjacency=adjacency).fit(world())
    assert fitted.guarantee_.holds
    assert 1.99 <= fitted.guarantee_.epsilon <= 2
    labels = [release["label"] for release in fitted.statement().certificate["releases"]]
    assert labels == [MEAN, VARIANCES, *[MOMENT] * STEPS]
    assert fitted.preview(ITEMS).fits


def test_descent_is_on_frequent_items(monkeypatch: Any) -> None:
    """Chosen by a release; others are predicted by the user's own mean. A person moves that release by its bound."""
    rows = world(("x", DIVIDED)).to_arrow(), world().to_arrow()
    items = list(range(10_000))
    large, without = (discreet.read(table, items=items, value_range=(0, 5)) for table in rows)
    found = replay(monkeypatch, model, large, without)
    assert set(found) == {MEAN, VARIANCES, POPULARITY, MOMENT}
    assert 0.95 <= min(found[POPULARITY], found[MOMENT]) <= max(found.values()) <= 1
    structured = discreet.datasets.movielens_like(3000, 50, 90_000, random_state=0).to_arrow()
    fitted = model().fit(discreet.read(structured, items=items, value_range=(0, 5)), ledger=seeded())
    assert 0 < np.count_nonzero(fitted.steps_.any(axis=1)) < 100
    history = {0: 5.0, 1: 4.0, 2: 5.0}
    own = fitted.global_mean_ + (14 - 3 * fitted.global_mean_) / (3 + fitted.shrinkage_)
    unknown = items[int(np.flatnonzero(~fitted.steps_.any(axis=1))[0])]
    assert np.isclose(fitted.predict(history, [unknown])[0], own, atol=1e-5)


def test_as_published_says_what_it_costs() -> None:
    """Much less than the paper says, whatever the number of steps."""
    for n_steps in (2, 6):
        guarantee = published(1.0, n_steps=n_steps).fit(world()).guarantee_
        assert guarantee.holds
        assert 0.11 < guarantee.epsilon < 0.13


def test_nothing_is_spent_on_wrong_input() -> None:
    unknown = discreet.read([("a", 1, 3.0), ("b", 2, 3.0)], value_range=(0, 5))  # whose catalog is the data's
    flat = discreet.read([("a", 1, 0.0)], items=[1], value_range=(0, 1e-35))
    wrong: list[tuple[type[Exception], str, Any, Any]] = [
        (DataError, "implicit", world().to_implicit(), model()),
        (NotPublic, "items", unknown, model()),
        (DataError, "value_range", flat, model()),
        (DataError, "step_size", world(), model(step_size=2.0)),
        (PrivacyError, "n_steps", world(), model(n_steps=0)),
        (PrivacyError, "radius", world(), model(radius=0.0)),
        (PrivacyError, "row_norm", world(), model(row_norm=-1.0)),
        (PrivacyError, "clip", world(), model(clip=0.0)),
        (PrivacyError, "adjacency", world(), published(adjacency="flip")),
        (BudgetExceeded, "plan", world(), model(150.0)),
    ]
    ledger = seeded(epsilon=100.0)
    for kind, words, data, asked in wrong:
        with pytest.raises(kind, match=words):
            asked.fit(data, ledger=ledger)
    assert [entry.kind for entry in ledger.entries] == ["open"]


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 30.0])
@pytest.mark.parametrize(
    ("rows", "n_items"),
    [
        ([("a", 0, 5.0)], 1),
        ([("a", 0, 5.0), ("a", 1, 0.0), ("b", 1, 2.0)], 2),
        ([("a", item, 2.5) for item in range(30)], 30),  # a row of zeros, once it is centered
        ([(f"u{user}", user % 60, 5.0 * (user % 2)) for user in range(600)], 60),
    ],
)
def test_odd_data_makes_no_error(rows: Any, n_items: int, epsilon: float) -> None:
    data = discreet.read(rows, items=list(range(n_items)), value_range=(0, 5))
    for fitted in (model(epsilon), model(epsilon, centre=False, radius=3.0), discreet.GradientDescent(3)):
        fitted.fit(data, **({} if isinstance(fitted, discreet.GradientDescent) else {"ledger": seeded()}))
        assert all(np.isfinite(getattr(fitted, name)).all() for name in fitted._ARRAYS)
        for history in ({}, {0: 3.0}, dict.fromkeys(range(n_items), 5.0)):
            found = fitted.recommend(history, n=5, exclude_seen=False)
            assert len(found) == min(5, n_items)
            assert np.isfinite(found.scores).all()


# It learns


def test_learns_in_private() -> None:
    data = discreet.datasets.movielens_like(6000, 80, 240_000, random_state=2).rescale(0, 5)
    train, _, test = discreet.splits.holdout(data, valid=0.0, test=0.2, random_state=0)

    def rmse(fitted: Any) -> float:
        return float(np.sqrt(np.mean((fitted.predict(train, test) - test.values) ** 2)))

    own = rmse(discreet.MeanRating("user").fit(train))
    exact = rmse(discreet.GradientDescent().fit(train))
    found = [rmse(model(epsilon).fit(train, ledger=seeded(5))) for epsilon in (1.0, 10.0)]
    assert exact < found[1] + 0.01
    assert found[1] < found[0] < 0.97 * own, (found, own, exact)
