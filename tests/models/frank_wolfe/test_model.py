"""Frank-Wolfe: that it does what Algorithm 1 says, or better with corrective steps, and that it learns."""

import tracemalloc
from typing import Any

import numpy as np
import pytest

import discreet
from discreet.data import Interactions
from discreet.errors import DataError, PrivacyError
from discreet.models.base import Model
from discreet.models.centering import MEAN, VARIANCES, Centering, public_row_norm
from discreet.models.eigen import Direction
from discreet.models.frank_wolfe.contributions import Loss
from discreet.models.frank_wolfe.estimate import COVARIANCE, LENGTH, Basis, Correction, Schedule
from discreet.privacy import Noisy
from discreet.privacy.statistics import UserBatch
from discreet.testing import ModelConformance
from tests.models.frank_wolfe.data import DELTA, N, model, seeded, strong, world
from tests.models.replay import record


class TestWithOja(ModelConformance):
    implicit = False
    n_users = 1000
    n_items_large = 3_000

    def model(self, **params: Any) -> Model:
        return model(100.0, **{"eigensolver": "oja", "n_steps": 4, **params})

    def fit(self, model: Model, ratings: Interactions) -> Model:
        return model.fit(ratings, ledger=seeded())


class TestLogisticWithConstantSteps(ModelConformance):
    implicit = False
    n_users = 1000

    def model(self, **params: Any) -> Model:
        return model(100.0, **{"loss": "logistic", "step": "constant", "n_steps": 8, **params})

    def fit(self, model: Model, ratings: Interactions) -> Model:
        return model.fit(ratings, ledger=seeded())


# What it computes


def dense(data: Interactions, users: int | None = None) -> tuple[Any, Any]:
    """The ratings as a matrix, and where there are any."""
    X, seen = (np.zeros((data.n_users, data.n_items)) for _ in range(2))
    X[data.user_numbers(), data.indices] = data.values
    seen[data.user_numbers(), data.indices] = 1
    return X[:users], seen[:users]


def shortened(rows: Any, to: float) -> Any:
    return rows * np.minimum(1, to / np.maximum(np.linalg.norm(rows, axis=1), 1e-12))[:, None]


def predictions(made: Any, data: Interactions, users: int) -> Any:
    pairs = [(user, item) for user in data.users.to_list()[:users] for item in range(data.n_items)]
    return made.predict(data, pairs).reshape(users, data.n_items)


def test_constant_steps_are_algorithm_1_without_a_matrix_of_users_and_items(monkeypatch: Any) -> None:
    data = world()
    made = model(step="constant", centre=False, row_norm=2.5, residual_clip=2.0, n_steps=4)
    seen = record(monkeypatch, lambda paid: made.fit(data, ledger=paid), None)
    X, rated = dense(data)
    scaled, Y = shortened(X, 2.5), np.zeros_like(X)
    assert len(seen.statistics) == 4
    for released, v, (eta, gain) in zip(seen.statistics, made.item_factors_.T.astype(float), made.steps_, strict=True):
        A = rated * (Y - scaled)
        clipped = shortened(A, 2.0)
        assert np.allclose(released, clipped.T @ clipped, atol=0.05)  # each of 300 rows is cut off below a cell
        Y = (1 - eta) * Y - gain * np.outer(A @ v, v)
        Y *= np.minimum(1, 2.5 / np.maximum(np.linalg.norm(rated * Y, axis=1), 1e-12))[:, None]
    expected = np.clip(Y / np.minimum(1, 2.5 / np.linalg.norm(X, axis=1))[:, None], -2, 2)
    assert np.allclose(predictions(made, data, 20), expected[:20], atol=1e-4)


def test_corrective_steps_fit_all_directions_and_clip_what_is_left(monkeypatch: Any) -> None:
    data = world()
    made = model(row_norm=2.5, n_steps=3)
    seen = record(monkeypatch, lambda paid: made.fit(data, ledger=paid), None)
    assert seen.labels == [MEAN, VARIANCES, *[LENGTH, COVARIANCE] * 3]
    X, rated = dense(data)
    X, counts, shrinkage = (X - made.centre_) * rated, rated.sum(axis=1), made.shrinkage_
    Y = np.broadcast_to((X.sum(axis=1) / (counts + shrinkage))[:, None], X.shape)
    clips, statistics = np.sqrt(seen.sensitivities[2:]), seen.statistics[2:]
    assert clips[0] == clips[1] == 2.5
    assert clips[2] == clips[1] >= clips[3] == clips[4] >= clips[5]
    for t in range(3):
        A = rated * (Y - X)
        for statistic, clip in zip(statistics[2 * t : 2 * t + 2], clips[2 * t :], strict=False):
            rows = shortened(A, clip)
            assert np.allclose(statistic, (rows**2).sum() if statistic.size == 1 else rows.T @ rows, atol=0.05)
        columns = made.item_factors_[:, : t + 1] * np.sqrt(made.steps_[-1, 0] / made.steps_[t, 0])
        ones = np.column_stack([np.ones(N), columns])
        solved = [
            np.linalg.solve((ones * own[:, None]).T @ ones + np.diag([shrinkage, *[1] * (t + 1)]), ones.T @ x)
            for own, x in zip(rated, X, strict=True)
        ]
        Y = np.array(solved) @ ones.T
    assert np.allclose(predictions(made, data, 20), np.clip(Y + made.centre_, -2, 2)[:20], atol=1e-3)


def test_explanations_add_up_even_where_everything_is_clipped() -> None:
    data = world(("x", strong(list(range(20)), 5)))
    constant = {"step": "constant", "radius": 500.0}
    for params in ({}, {"loss": "logistic"}, constant, {"loss": "logistic", **constant}, {"centre": False}):
        made = model(row_norm=1.5, residual_clip=0.7, n_steps=4, **params).fit(data, ledger=seeded())
        history = data.history("x")
        for item in (0, 25):
            why = made.explain(history, item)
            assert np.isclose(why.baseline + why.contributions.sum(), why.score)
            score = made._user_vectors(data.for_users(["x"]))
            expected = why.baseline + score[0][0] + score[1][0] @ made.item_factors_[item]
            assert np.isclose(why.score, expected, atol=1e-4)


def test_a_constant_step_is_as_long_as_lambda_says() -> None:
    """k and eta from a direction; a negative eigenvalue counts as zero."""
    v = np.eye(5)[0]
    schedule = Schedule(5, 0.5, None, 1.0)
    first = schedule.step(Direction(v, 100.0, 100.0, 1.0, 0.0))
    assert schedule.radius == 2.5 * 10 / 0.5
    assert (first.size, first.gain) == (1 / 5, schedule.radius / (5 * 10))
    nothing = Schedule(5, 0.5, 4.0, 1.0).step(Direction(v, -3.0, 0.0, 0.0, 9.0))
    assert np.isclose(nothing.gain, 4 / (5 * 3))  # lambda' from the clamped eigenvalue and its slack


def test_a_basis_says_how_far_users_go_along_its_directions() -> None:
    """The ridge that estimates coefficients best, doubled; no direction twice; nothing for one of noise."""
    v, w = np.eye(5)[:2]
    one = Basis.nothing(5, 0.5).add(Direction(v, 100.0, 100.0, 0.9, 0.0), 1000.0, 1.0)
    assert np.allclose((one.signals, one.noises), ((81.0,), (1000 - 100 / 0.5,)))
    assert np.allclose(one.columns[:, 0], v * np.sqrt(81 * 5 / (2 * 0.5 * 800)))
    two = one.add(Direction((v + w) / np.sqrt(2), 50.0, 50.0, 1.0, 0.0), 120.0, 1.0)
    assert np.allclose(two.vectors[:, 1], w)
    assert np.isclose(two.signals[1], 25.0)  # only half of it is new
    assert two.noises[1] == 50 / 0.5  # as much as the direction explains, at least
    noise = two.add(Direction(w, 3.0, 0.0, 0.0, 9.0), 7.0, 1.0)
    assert (noise.signals[2], noise.noises[2]) == (0.0, 7.0)
    assert not noise.columns[:, 2].any()
    assert two.add(Direction(w, 3.0, 0.0, 0.0, 9.0), 7.0, 8.0).noises[2] == 8.0


def test_what_regressions_took_of_noise_is_added_to_what_they_left() -> None:
    """A typical user has rated 5 of 10 items. The offset takes 5 / (5 + 3), a direction of clarity 3 takes 3 / 4."""
    rule = Correction.of(10, 0.5, 8.0, 3.0)
    rule.measure(Noisy(np.array([150.0]), 1.0))
    assert np.isclose(rule.unexplained, 150 / (1 - 5 / 8 / 5))
    rule.basis = Basis(np.eye(10)[:, :1], (60.0,), (100.0,), 0.5)
    assert np.isclose(rule.unexplained, 150 / (1 - (5 / 8 + 3 / 4) / 5))
    rule.basis = Basis(np.eye(10)[:, :5], (1e9,) * 5, (1.0,) * 5, 0.5)
    assert np.isclose(rule.unexplained, 6 * 150)


def test_clips_follow_residuals_as_far_as_they_are_known() -> None:
    rule = Correction.of(5, 0.5, 8.0)
    for length, std, clip in ((100.0, 1.0, 8.0), (25.0, 1.0, 4.0), (-3.0, 2.0, 1.6), (400.0, 1.0, 1.6)):
        rule.measure(Noisy(np.array([length]), std))
        assert np.isclose(rule.clip, clip)
    for _ in range(9):
        rule.measure(Noisy(np.array([0.0]), rule.length / 1e6))
    assert rule.clip == 8.0 * 2.0**-20


def test_more_directions_than_ratings_do_not_fit_noise() -> None:
    """With a large epsilon there are more directions than a user has ratings; regressions must not follow all of them.

    Otherwise nothing would seem to be left unexplained, and penalties would vanish.
    """
    rng = np.random.default_rng(0)
    tastes = 0.8 * rng.standard_normal((1_500, 2)) @ rng.standard_normal((2, 10))
    table = np.clip(3 + 0.6 * rng.standard_normal((1_500, 1)) + tastes + 0.8 * rng.standard_normal((1_500, 10)), 1, 5)
    rows = [(user, item, float(value)) for (user, item), value in np.ndenumerate(table)]
    data = discreet.read(rows, items=list(range(10)), value_range=(1, 5))
    train, _, test = discreet.splits.holdout(data, valid=0, test=0.1, random_state=0)
    small, large = (
        rmse(discreet.DPFrankWolfe(epsilon=epsilon, delta=1e-6).fit(train, ledger=seeded()), train, test)
        for epsilon in (3.0, 50.0)
    )
    assert large < 1.005 * small
    assert large < 0.95 * rmse(discreet.MeanRating("user").fit(train), train, test)


def test_exact_data_are_learned_to_many_digits() -> None:
    """What noise did to a direction is seen, and mended, with the little noise that fits little residuals."""
    data = discreet.datasets.rank_one(8_000, 60, per_user=30, random_state=0)
    train, _, test = discreet.splits.holdout(data, valid=0, test=0.05, random_state=0)
    for solver in ("dense", "oja"):
        made = model(20.0, centre=False, ratings_per_user=30, n_steps=6, eigensolver=solver)
        assert rmse(made.fit(train, ledger=seeded()), train, test) < 1e-4


def test_steps_end_where_what_is_left_is_rounding() -> None:
    """And what is not released is not spent. Users are served in float64: penalties are tiny by then."""
    data = discreet.datasets.rank_one(3_000, 40, per_user=30, random_state=0)
    train, _, test = discreet.splits.holdout(data, valid=0, test=0.05, random_state=0)
    paid = seeded()
    made = model(200.0, centre=False, ratings_per_user=30, n_steps=20).fit(train, ledger=paid)
    covariances = sum(event.label == COVARIANCE for event in paid.events)
    assert 3 < covariances < 12
    assert made.item_factors_.shape[1] == len(made.steps_) == covariances
    assert sum(event.label == LENGTH for event in paid.events) == covariances + 1
    assert rmse(made, train, test) < 1e-6
    # The guarantee is that of the plan, and the statements say so: that of what was released is not proved.
    assert made.guarantee_.cost == made.plan(train.n_items).cost
    assert paid.spent.cost.gaussian < 0.9 * made.guarantee_.cost.gaussian
    planned, released = sum(line.count for line in made.plan(train.n_items).lines), len(paid.events)
    assert f"Of the {planned} releases that were planned, {released} were made" in str(made.statement())
    assert "The epsilon stated is that of a list of releases fixed in advance" in str(paid.statement())


def test_a_plan_that_is_charged_as_a_whole_returns_nothing_and_its_note_says_so() -> None:
    """It fits this ledger only because it was fixed in advance."""
    data = discreet.datasets.rank_one(3_000, 40, per_user=30, random_state=0)
    made = model(200.0, centre=False, ratings_per_user=30, n_steps=20)
    for filter, returned in (("gaussian", True), ("renyi", False)):
        paid = seeded(epsilon=200.0, filter=filter)
        (note,) = made.fit(data, ledger=paid).statement().certificate["notes"]
        assert "in parts: whether to go on was decided by earlier releases. The guarantee covers the whole plan" in note
        assert note.endswith("what was not released went back to the ledger.") is returned
        assert (paid.spent.cost.gaussian < made.guarantee_.cost.gaussian) is returned


def test_a_fit_that_makes_all_its_releases_needs_no_note() -> None:
    data = discreet.datasets.rank_one(300, 20, per_user=10, random_state=0)
    paid = seeded()
    made = model(5.0, n_steps=2).fit(data, ledger=paid)
    assert made.statement().certificate["notes"] == paid.statement().certificate["notes"] == []


def test_rows_are_prepared_as_they_say() -> None:
    part = UserBatch(np.array([0, 3, 3, 4]), np.array([0, 1, 2, 1]), np.array([5, 1, 3, 4], np.float32))
    row = Centering.of((1, 5), 1.0, centre=True).prepare(part)
    assert np.allclose(row.offsets, [3, 3, 3.5])
    assert np.allclose(row.values, [2**-0.5, -(2**-0.5), 0, 0.5])
    assert np.allclose(row.scales, [8**-0.5, 1, 1])
    assert np.allclose(Centering.of((1, 5), 100.0, centre=False).prepare(part).values, [5, 1, 3, 4])
    assert np.isclose(public_row_norm((0, 5), 100), 80**0.5)
    assert np.isclose(public_row_norm((-1, 1), 400, centre=False), 80**0.5 / 2)
    assert np.isclose(public_row_norm((0, 5), 30, ratings_per_user=9), 3)


def test_the_derivative_of_the_logistic_loss() -> None:
    y = np.array([-3.0, -1e-6, 0.0, 1e-5, 0.4, 9.0])
    width = 4.0
    expected = width * (1 / (1 + np.exp(-4 * y / width)) - 0.5)
    assert np.allclose(Loss(width).slope(y) * y, expected, rtol=1e-7, atol=1e-12)


# No user, and no item, is too odd


@pytest.mark.parametrize("eigensolver", ["dense", "oja"])
@pytest.mark.parametrize(
    "rows",
    [
        [("a", 0, 3.0)],
        [("a", 0, 3.0), ("b", 0, 3.0), ("b", 1, 3.0)],  # rows of zeros, centered
        [("a", item, 1.0 + 4 * (item % 2)) for item in range(N)],
        [(f"u{user}", user % N, 5.0) for user in range(200)],
    ],
)
def test_odd_data_makes_no_error(rows: list[tuple[str, int, float]], eigensolver: Any) -> None:
    data = discreet.read(rows, items=list(range(N)), value_range=(1, 5))
    for epsilon in (0.05, 30.0):
        fitted = model(epsilon, eigensolver=eigensolver).fit(data, ledger=seeded())
        assert all(np.isfinite(getattr(fitted, name)).all() for name in fitted._ARRAYS)
        for history in ({}, {0: 5.0}, dict.fromkeys(range(N), 1.0)):
            found = fitted.recommend(history, n=5, exclude_seen=False)
            assert len(found) == 5
            assert np.isfinite(found.scores).all()


def test_nobody_and_a_single_item_make_no_error() -> None:
    empty = discreet.read([("a", 0, 3.0)], items=[0, 1, 2], value_range=(1, 5)).of_users(np.zeros(0, int))
    single = discreet.read([("a", 0, 3.0)], items=[0], value_range=(1, 5))
    for data in (empty, single):
        for solver in ("dense", "oja"):
            fitted = model(eigensolver=solver).fit(data, ledger=seeded())
            assert np.isfinite(fitted.item_factors_).all()


def test_a_model_whose_parts_do_not_fit_is_refused() -> None:
    fitted = model().fit(world(), ledger=seeded())
    arrays = {name: getattr(fitted, name) for name in fitted._ARRAYS}
    values = {name: getattr(fitted, name) for name in fitted._VALUES}
    for changed in (
        {"steps_": fitted.steps_[:-1]},
        {"steps_": fitted.steps_ * np.nan},
        {"steps_": fitted.steps_ * 0},
        {"row_norm_": -1.0},
    ):
        given = {**arrays, **values, **changed}
        with pytest.raises((DataError, PrivacyError), match=r"steps_|row_norm_"):
            type(fitted)._restored(
                fitted.get_params(),
                {name: given[name] for name in arrays},
                {name: given[name] for name in values},
                fitted.catalogue_,
                fitted.statement(),
            )


# It learns


def rmse(fitted: Any, train: Interactions, test: Interactions) -> float:
    return float(discreet.evaluate(fitted, test, history=train, metrics=["rmse"])["rmse"])


def test_learns_in_private_what_the_twin_learns() -> None:
    data = discreet.datasets.rank_one(8_000, 60, per_user=30, random_state=0)
    train, _, test = discreet.splits.holdout(data, valid=0, test=0.05, random_state=0)
    known: dict[str, Any] = {"centre": False, "ratings_per_user": 30}
    plain = rmse(discreet.FrankWolfe(centre=False, n_steps=4).fit(train), train, test)
    found = {epsilon: rmse(model(epsilon, **known).fit(train, ledger=seeded()), train, test) for epsilon in (0.5, 5.0)}
    by_oja = rmse(model(5.0, eigensolver="oja", **known).fit(train, ledger=seeded()), train, test)
    constant = rmse(model(5.0, step="constant", **known).fit(train, ledger=seeded()), train, test)
    nuclear = np.sqrt(8_000 * 60) / 3
    published = discreet.DPFrankWolfe.as_published(epsilon=5, delta=DELTA, radius=nuclear, row_norm=3.0)
    as_published = rmse(published.fit(train, ledger=seeded()), train, test)
    spread = float(np.std(test.values))
    assert plain < 0.15 * spread
    assert found[5.0] < 0.1 * spread
    assert found[5.0] < found[0.5] < 0.3 * spread
    assert by_oja < 0.1 * spread
    assert constant < 0.6 * spread
    assert constant < as_published < spread


def test_the_logistic_loss_tells_signs() -> None:
    rng = np.random.default_rng(0)
    taste, people = rng.standard_normal((2, 40)), rng.standard_normal((4000, 2))
    rows = [
        (i, int(j), 1.0 if people[i] @ taste[:, j] + rng.standard_normal() / 4 > 0 else -1.0)
        for i in range(4000)
        for j in rng.choice(40, 16, replace=False)
    ]
    data = discreet.read(rows, items=list(range(40)), value_range=(-1, 1))
    train, _, test = discreet.splits.holdout(data, valid=0, test=0.1, random_state=0)
    for made in (model(5.0, loss="logistic", ratings_per_user=16), discreet.FrankWolfe(loss="logistic")):
        fitted = made.fit(train, ledger=seeded()) if isinstance(made, discreet.DPFrankWolfe) else made.fit(train)
        right = np.sign(fitted.predict(train, test)) == np.sign(test.values)
        assert right.mean() > 0.8


@pytest.mark.parametrize("rule", ["line-search", "classic"])
def test_the_twin_makes_its_loss_small(rule: Any) -> None:
    data = world()
    errors = []
    for n_steps in (1, 5, 25):
        fitted = discreet.FrankWolfe(n_steps=n_steps, step=rule, radius=150.0, centre=False).fit(data)
        errors.append(np.sqrt(np.mean((fitted.predict(data, data) - data.values) ** 2)))
    assert errors[0] > errors[1] > errors[2]
    with pytest.raises(PrivacyError, match="ledger"):
        discreet.FrankWolfe().fit(data, ledger=seeded())
    with pytest.raises(PrivacyError, match="n_steps"):
        discreet.FrankWolfe(n_steps=0).fit(data)


def test_the_twin_finds_the_same_direction_in_many_items(monkeypatch: Any) -> None:
    from discreet.models.frank_wolfe import model as plain

    data = world()
    small = discreet.FrankWolfe(n_steps=2).fit(data)
    monkeypatch.setattr(plain, "SMALL", 5)
    large = discreet.FrankWolfe(n_steps=2).fit(data)
    assert np.allclose(np.abs((small.item_factors_ * large.item_factors_).sum(axis=0)), 1, atol=1e-3)


def test_memory_grows_with_the_ratings_and_not_with_users_times_items() -> None:
    data = discreet.datasets.movielens_like(20_000, 3000, 400_000, random_state=0)
    made = model(5.0, n_steps=2, eigensolver="oja", oja_steps=2, n_jobs=2)
    tracemalloc.start()
    made.fit(data, ledger=seeded())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    matrix = data.n_users * data.n_items
    assert peak < matrix, f"{peak / 1e6:.0f} MB, where users x items is {matrix / 1e6:.0f} million"
