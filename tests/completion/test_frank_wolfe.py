"""DPFrankWolfe: its bounds, what it spends, that it does what Algorithm 1 says, and that it learns."""

import tracemalloc
from typing import Any

import numpy as np
import pytest

import discreet
from discreet.completion import private as doors
from discreet.completion.base import Model
from discreet.completion.centred import Centring, public_row_norm
from discreet.completion.frank_wolfe.local import Fitted, Local, Step, Users
from discreet.completion.frank_wolfe.losses import Logistic, Squared
from discreet.completion.frank_wolfe.steps import COVARIANCE, ENERGY, LENGTH, PRODUCT, Found, Schedule
from discreet.completion.private import Part
from discreet.completion.spectral.eigen import Direction
from discreet.data import Interactions
from discreet.errors import BudgetExceeded, DataError, NotPublic, PrivacyError
from discreet.testing import InsecureSeededNoise, ModelConformance
from tests.completion.replay import record, replay

DELTA = 1e-6
N = 30


def seeded(seed: int = 1, **settings: Any) -> discreet.Ledger:
    return discreet.Ledger(delta=DELTA, noise_source=InsecureSeededNoise(seed), **settings)


def model(epsilon: float = 30.0, **params: Any) -> discreet.DPFrankWolfe:
    return discreet.DPFrankWolfe(epsilon=epsilon, delta=DELTA, **params)


class TestWithOja(ModelConformance):
    implicit = False
    n_users = 1000
    n_items_large = 5_000

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


def world(*extra: tuple[str, dict[int, float]], value_range: tuple[float, float] = (-2, 2)) -> Interactions:
    """Some ordinary users with two tastes, and whoever else is given."""
    rng = np.random.default_rng(0)
    taste = rng.standard_normal((N, 2))
    rows: list[tuple[str, int, float]] = []
    for i in range(300):
        liked = np.clip(taste @ rng.standard_normal(2) / 2 + rng.standard_normal(N) / 3, -2, 2)
        rows += [(f"user {i:04}", int(j), float(liked[j])) for j in rng.choice(N, 12, replace=False)]
    rows += [(name, item, value) for name, ratings in extra for item, value in ratings.items()]
    return discreet.read(rows, items=list(range(N)), value_range=value_range)


def strong(items: list[int], seed: int) -> dict[int, float]:
    """Ratings of a user whose row is as long as it may be, and remains so: no direction of the others explains it."""
    signs = np.random.default_rng(seed).choice([-2.0, 2.0], len(items))
    return dict(zip(items, signs.tolist(), strict=True))


# The bounds


@pytest.mark.parametrize("rule", ["measured", "constant"])
@pytest.mark.parametrize("eigensolver", ["dense", "oja"])
def test_one_person_moves_each_statistic_by_its_bound_and_no_more(
    monkeypatch: Any, eigensolver: Any, rule: Any
) -> None:
    """A person who has rated one thing, which the leading direction is made to be, is the worst there is."""

    def make() -> discreet.DPFrankWolfe:
        return model(eigensolver=eigensolver, step=rule, n_steps=3, centre=False, row_norm=2.0, oja_steps=4)

    alone = [("x", {7: 2.0}), *((f"y{i}", {7: 2.0}) for i in range(3000))]
    found = replay(monkeypatch, make, world(*alone), world(*alone[1:]))
    by_oja = {PRODUCT, ENERGY, LENGTH} if rule == "measured" else {PRODUCT, ENERGY}
    assert set(found) == ({COVARIANCE} if eigensolver == "dense" else by_oja)
    assert max(found.values()) <= 1
    assert min(found.values()) >= 0.95, found
    long = replay(monkeypatch, make, world(("x", strong(list(range(0, N, 2)), 3))), world())
    assert max(long.values()) <= 1


@pytest.mark.parametrize("eigensolver", ["dense", "oja"])
def test_replacing_a_person_moves_each_statistic_by_its_bound_and_no_more(monkeypatch: Any, eigensolver: Any) -> None:
    def make() -> discreet.DPFrankWolfe:
        return model(eigensolver=eigensolver, adjacency="replace", n_steps=3, centre=False, row_norm=2.0, oja_steps=4)

    crowd = [(f"y{i}", {7: 2.0}) for i in range(3000)]
    pairs = [({7: 2.0}, {8: 2.0}), ({7: 2.0}, {7: -2.0}), (strong([1, 2, 3], 1), strong([2, 3, 4], 2)), ({}, {7: 1.0})]
    seen = []
    for one, other in pairs:
        data = [world(*crowd, ("z", {0: 1.0}), ("x", ratings)) for ratings in (one, other)]
        seen.append(replay(monkeypatch, make, *data, adjacency="replace"))
        assert max(seen[-1].values()) <= 1
    assert min(seen[0].values()) >= 0.95, seen[0]


def test_residuals_of_the_published_algorithm_grow_beyond_the_row_norm_and_never_beyond_twice(monkeypatch: Any) -> None:
    def make() -> discreet.PublishedDPFrankWolfe:
        return discreet.DPFrankWolfe.as_published(
            epsilon=20, delta=DELTA, radius=1e6, row_norm=2.0, n_steps=4, adjacency="add-remove"
        )

    crowd = [(f"y{i}", {7: 2.0, 8: 0.05}) for i in range(3000)]
    data = [world(*crowd, ("x", {7: 0.1, 8: 1.99})), world(*crowd)]
    first = record(monkeypatch, lambda door: make().fit(data[0], ledger=door), None)
    second = record(monkeypatch, lambda door: make().fit(data[1], ledger=door), first.answers)
    moves = [float(np.linalg.norm(a - b)) for a, b in zip(first.statistics, second.statistics, strict=True)]
    assert len(moves) == 3
    assert moves[0] <= 2.0**2
    assert max(moves) > 1.5 * 2.0**2  # so L^2 would have been wrong
    assert max(moves) <= first.sensitivities[0] == (2 * 2.0) ** 2


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_the_published_bound_is_what_the_door_enforces(monkeypatch: Any, adjacency: Any) -> None:
    """Residuals of any length, up to the bound: with a shorter row norm in the local component than at the door."""

    def make() -> discreet.PublishedDPFrankWolfe:
        made = discreet.DPFrankWolfe.as_published(
            epsilon=5, delta=DELTA, radius=50.0, row_norm=1.0, n_steps=3, adjacency=adjacency
        )
        monkeypatch.setattr(made, "_constants", lambda value_range, n: (2.0, 2.0, 1.0, False))
        return made

    rows = ({7: 2.0}, {8: 2.0})
    data = [world(("z", {0: 1.0}), ("x", ratings)) for ratings in rows]
    if adjacency == "add-remove":
        data[1] = world(("z", {0: 1.0}))
    found = replay(monkeypatch, make, *data, adjacency=adjacency)
    assert 0.95 <= found[COVARIANCE] <= 1


def test_a_contribution_is_ones_own() -> None:
    """To the last bit, whoever is computed beside her: else others' contributions would move with her."""
    data = discreet.datasets.movielens_like(200, 90, 8000, random_state=0)
    rng = np.random.default_rng(1)
    v = rng.standard_normal(90)
    step = Step(v / np.linalg.norm(v), 0.3, 1.7, 2.0)
    for loss, own in ((Squared(), True), (Logistic(4.5), False)):
        local = Local(Centring.of((0.5, 5), 3.0, centre=True), loss, 2.0, 0.4, own)
        users = Users.of(data, local, None)
        users.advance(step)
        users.advance(step)
        (whole,) = users.blocks()
        together, rows = users.residuals(whole), users.residual_rows(whole)
        for user in range(0, data.n_users, 7):
            row = slice(int(data.indptr[user]), int(data.indptr[user + 1]))
            alone = Fitted(
                np.array([0, row.stop - row.start]), data.indices[row], data.values[row], np.zeros(row.stop - row.start)
            )
            for _ in range(2):
                prepared = local.centring.prepare(alone)
                residuals = local.residuals(prepared, alone.fitted.astype(np.float64))[0]
                moved = local.update(prepared, alone.fitted.astype(np.float64), residuals, step)[0]
                alone.fitted[:] = moved.astype(np.float32)
            assert np.array_equal(users.residuals(alone), together[row])
            assert np.array_equal(users.residual_rows(alone)[0], rows[user])


def test_sums_are_the_same_however_they_are_cut(monkeypatch: Any) -> None:
    data = world()
    for solver in ("dense", "oja"):

        def fit(door: discreet.Ledger, jobs: int, solver: Any = solver) -> object:
            return model(n_jobs=jobs, eigensolver=solver, n_steps=2, oja_steps=2).fit(data, ledger=door)

        whole = record(monkeypatch, lambda door: fit(door, 1), None)
        with monkeypatch.context() as patched:
            patched.setattr(doors, "PART", 100)
            cut = record(monkeypatch, lambda door: fit(door, 3), None)
        assert all(np.array_equal(one, other) for one, other in zip(whole.statistics, cut.statistics, strict=True))


# What it computes


def dense_frank_wolfe(data: Interactions, fitted: Any, clip: float, local: Local) -> list[np.ndarray[Any, Any]]:
    """The covariances that Algorithm 1 would release, with a users x items matrix, along the model's own steps."""
    Y, X, seen = (np.zeros((data.n_users, data.n_items)) for _ in range(3))
    X[data.user_numbers(), data.indices] = data.values
    seen[data.user_numbers(), data.indices] = 1
    X *= np.minimum(1, local.centring.row_norm / np.linalg.norm(X, axis=1))[:, None]
    found = []
    for v, (eta, gain, ridge) in zip(fitted.item_factors_.T.astype(float), fitted.steps_, strict=True):
        A = seen * (Y - X)
        A *= np.minimum(1, clip / np.maximum(np.linalg.norm(A, axis=1), 1e-12))[:, None]
        found.append(A.T @ A)
        rate = gain if not local.own else gain * local.fill / (seen @ v**2 + ridge / len(v))
        Y = (1 - eta) * Y - np.outer(rate * (A @ v), v)
        length = np.linalg.norm(seen * Y, axis=1)
        Y *= np.minimum(1, local.centring.row_norm / np.maximum(length, 1e-12))[:, None]
    return [*found, Y]


@pytest.mark.parametrize("rule", ["measured", "constant"])
def test_it_is_algorithm_1_without_a_matrix_of_users_and_items(monkeypatch: Any, rule: Any) -> None:
    data = world()
    made = model(step=rule, centre=False, row_norm=2.5, residual_clip=2.0, n_steps=4)
    seen = record(monkeypatch, lambda door: made.fit(data, ledger=door), None)
    local = made._local(made.value_range_, made.local_)
    *expected, Y = dense_frank_wolfe(data, made, 2.0, local)
    assert len(seen.statistics) == len(expected) == 4
    for released, exact in zip(seen.statistics, expected, strict=True):
        assert np.allclose(released, exact, atol=0.05)  # each of 300 rows is cut off below a cell
    X = np.zeros_like(Y)
    X[data.user_numbers(), data.indices] = data.values
    scales = np.minimum(1, 2.5 / np.linalg.norm(X, axis=1))
    predicted = made.predict(data, [(user, item) for user in data.users.to_list()[:20] for item in range(N)])
    assert np.allclose(predicted.reshape(20, N), np.clip(Y / scales[:, None], -2, 2)[:20], atol=1e-4)


def test_explanations_add_up_even_where_everything_is_clipped() -> None:
    data = world(("x", strong(list(range(20)), 5)))
    for params in ({}, {"loss": "logistic"}, {"step": "constant", "radius": 500.0}, {"centre": False}):
        made = model(row_norm=1.5, residual_clip=0.7, n_steps=4, **params).fit(data, ledger=seeded())
        history = data.history("x")
        for item in (0, 25):
            why = made.explain(history, item)
            assert np.isclose(why.baseline + why.contributions.sum(), why.score)
            score = made._fold_in(data.for_users(["x"]))
            expected = why.baseline + score[0][0] + score[1][0] @ made.item_factors_[item]
            assert np.isclose(why.score, expected, atol=1e-4)


def test_without_noise_to_speak_of_steps_go_as_far_as_they_carry() -> None:
    """k and eta from a direction: the first step is as long as lambda / fill, and a direction of noise goes nowhere."""
    v = np.eye(5)[0]

    def step(schedule: Schedule, value: float, signal: float, trust: float, slack: float) -> tuple[Step, Any]:
        return schedule.step(Found(Direction(v, value, signal, trust, slack), 1000.0, None))

    first, radius = step(Schedule("measured", 5, 0.5, None), 100.0, 100.0, 1.0, 0.1)
    assert radius == 8 * 10 / 0.5
    assert np.isclose(first.size * radius, 10 / 0.5)
    assert np.isclose(first.gain, 1 / 0.5)
    assert np.isclose(first.ridge, 0.5 * 1000 / 100 - 1)
    nowhere, radius = step(Schedule("measured", 5, 0.5, None), 3.0, 0.0, 0.0, 9.0)
    assert (nowhere.size, nowhere.gain, radius) == (0.0, 0.0, None)
    limited, radius = step(Schedule("measured", 5, 0.5, 4.0), 100.0, 100.0, 0.9, 0.1)
    assert (limited.size, radius) == (1.0, 4.0)  # not beyond the ball
    constant, _ = step(Schedule("constant", 5, 0.5, 4.0), -3.0, 0.0, 0.0, 9.0)
    assert constant.size == 1 / 5
    assert np.isclose(constant.gain, 4 / (5 * 3))  # lambda' from the clamped eigenvalue and its slack


def test_without_noise_of_ratings_the_ridge_is_small() -> None:
    data = discreet.datasets.rank_one(3000, 60, per_user=20, random_state=0)
    steps = model(100.0, centre=False, ratings_per_user=20).fit(data, ledger=seeded()).steps_
    assert 0.1 <= steps[0, 2] < 0.5
    ridges = (
        model(100.0).fit(discreet.datasets.movielens_like(3000, 60, 60_000, random_state=0), ledger=seeded()).steps_
    )
    assert ridges[0, 2] > 1


def test_rows_are_prepared_as_they_say() -> None:
    part = Part(np.array([0, 3, 3, 4]), np.array([0, 1, 2, 1]), np.array([5, 1, 3, 4], np.float32))
    row = Centring.of((1, 5), 1.0, centre=True).prepare(part)
    assert np.allclose(row.offsets, [3, 3, 3.5])
    assert np.allclose(row.values, [2**-0.5, -(2**-0.5), 0, 0.5])
    assert np.allclose(row.scales, [8**-0.5, 1, 1])
    assert np.allclose(Centring.of((1, 5), 100.0, centre=False).prepare(part).values, [5, 1, 3, 4])
    assert np.isclose(public_row_norm((0, 5), 100), 80**0.5)
    assert np.isclose(public_row_norm((-1, 1), 400, centre=False), 80**0.5 / 2)
    assert np.isclose(public_row_norm((0, 5), 30, ratings_per_user=9), 3)


def test_the_derivative_of_the_logistic_loss() -> None:
    y = np.array([-3.0, -1e-6, 0.0, 1e-5, 0.4, 9.0])
    width = 4.0
    expected = width * (1 / (1 + np.exp(-4 * y / width)) - 0.5)
    assert np.allclose(Logistic(width).slope(y) * y, expected, rtol=1e-7, atol=1e-12)


# What is spent


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_the_certificate_lists_every_release(adjacency: Any) -> None:
    fitted = model(2.0, adjacency=adjacency, n_steps=3).fit(world())
    assert fitted.guarantee_.holds
    assert 1.99 <= fitted.guarantee_.epsilon <= 2
    assert fitted.guarantee_.adjacency == adjacency
    assert [release["label"] for release in fitted.statement().certificate["releases"]] == [COVARIANCE] * 3
    assert "n_steps = 3" in str(fitted.statement())
    by_oja = model(2.0, adjacency=adjacency, n_steps=3, eigensolver="oja", oja_steps=4).fit(world())
    labels = [release["label"] for release in by_oja.statement().certificate["releases"]]
    assert labels == ([PRODUCT] * 4 + [ENERGY, LENGTH]) * 3
    assert 1.99 <= by_oja.guarantee_.epsilon <= 2
    assert by_oja.preview(N).fits


def test_fewer_steps_for_smaller_budgets_and_other_solvers_for_more_items() -> None:
    assert [len(model(epsilon).fit(world(), ledger=seeded()).steps_) for epsilon in (0.1, 1.0, 5.0)] == [2, 5, 10]
    assert [line.label for line in model().plan(4000).lines] == [COVARIANCE]
    assert [line.label for line in model().plan(4001).lines] == [PRODUCT, ENERGY, LENGTH]


@pytest.mark.parametrize(
    ("epsilon", "adjacency", "true"), [(1, "add-remove", 0.53), (5, "replace", 4.35), (20, "replace", 22.0)]
)
def test_as_published_carries_the_true_guarantee_of_the_printed_noise(
    epsilon: float, adjacency: Any, true: float
) -> None:
    """mu = 4 L^2 sqrt(T - 1) / sigma, sqrt(2) times that for replace: below the claim, and above it for large ones."""
    made = discreet.DPFrankWolfe.as_published(
        epsilon=epsilon, delta=DELTA, radius=100.0, row_norm=3.0, n_steps=10, adjacency=adjacency
    )
    sigma = 3.0**2 * np.sqrt(64 * 10 * np.log(1 / DELTA)) / epsilon
    mu = 4 * 3.0**2 * 3 / sigma * (1 if adjacency == "add-remove" else np.sqrt(2))
    plan = made.plan(N)
    assert np.isclose(plan.cost.mu or 0, mu, rtol=1e-6)
    assert np.isclose(plan.cost.epsilon(DELTA), true, rtol=0.05)
    if true > epsilon:
        with pytest.warns(UserWarning, match="really"):
            fitted = made.fit(world())
    else:
        fitted = made.fit(world())
    assert fitted.guarantee_.holds
    assert np.isclose(fitted.guarantee_.epsilon, plan.cost.epsilon(DELTA), rtol=1e-6)
    stds = [release["noise"]["std"] for release in fitted.statement().certificate["releases"]]
    assert np.allclose(stds, sigma)
    assert len(stds) == 9


def test_as_published_by_oja_charges_every_call() -> None:
    made = discreet.DPFrankWolfe.as_published(
        epsilon=5, delta=DELTA, radius=100.0, row_norm=3.0, n_steps=10, eigensolver="oja", oja_steps=5
    )
    sigma = 9.0 * np.sqrt(256 * 5 * np.log(2 / DELTA)) / 5
    assert np.isclose(made.plan(N).cost.mu or 0, np.sqrt(9 * 6) * 36 / sigma, rtol=1e-6)
    with pytest.warns(UserWarning, match="one call of Oja's method.* really"):
        fitted = made.fit(world())
    assert len(fitted.statement().certificate["releases"]) == 9 * 6
    assert np.isclose(np.linalg.norm(fitted.item_factors_, axis=0), 1, atol=1e-5).all()


def test_nothing_is_spent_on_wrong_input() -> None:
    published = discreet.DPFrankWolfe.as_published
    good: dict[str, Any] = {"epsilon": 1, "delta": DELTA, "radius": 10.0, "row_norm": 2.0}
    narrow = discreet.read([("a", 1, 0.0)], items=[1, 2], value_range=(0, 1e-35))
    undeclared = discreet.read([("a", 1, 3.0), ("b", 2, 4.0)], items=[1, 2])
    wrong: list[tuple[type[Exception], str, Any, Any]] = [
        (DataError, "implicit", world().to_implicit(), model()),
        (NotPublic, "value_range", undeclared, model()),
        (NotPublic, "items", discreet.read([("a", 1, 2.0)], value_range=(1, 5)), model()),
        (DataError, "range", narrow, model()),
        (PrivacyError, "n_steps", world(), model(n_steps=0)),
        (PrivacyError, "radius", world(), model(radius=-1.0)),
        (PrivacyError, "row_norm", world(), model(row_norm=0.0)),
        (PrivacyError, "row_norm", world(), model(row_norm=float("nan"))),
        (PrivacyError, "residual_clip", world(), model(residual_clip=float("inf"))),
        (PrivacyError, "oja_steps", world(), model(oja_steps=0)),
        (PrivacyError, "ratings_per_user", world(), model(ratings_per_user=0)),
        (DataError, "eigensolver", world(), model(eigensolver="lanczos")),
        (DataError, "noise", world(), model(noise="laplace")),
        (DataError, "loss", world(), model(loss="hinge")),
        (DataError, "step", world(), model(step="classic")),
        (PrivacyError, "adjacency", world(), model(adjacency="flip")),
        (PrivacyError, "epsilon", world(), model(1e-5)),
        (BudgetExceeded, "plan", world(), model(150.0)),
        (PrivacyError, "row_norm", world(), published(**{**good, "row_norm": None})),
        (PrivacyError, "radius", world(), published(**{**good, "radius": None})),
        (PrivacyError, "n_steps", world(), published(**{**good, "n_steps": 1})),
        (PrivacyError, "2 log", world(), published(**{**good, "epsilon": 40})),
    ]
    ledger = seeded(epsilon=100.0)
    for kind, words, data, asked in wrong:
        with pytest.raises(kind, match=words):
            asked.fit(data, ledger=ledger)
    assert ledger.spent.epsilon == 0
    assert [entry.kind for entry in ledger.entries] == ["open"]
    with pytest.raises(TypeError, match="radius"):
        published(epsilon=1, delta=DELTA, row_norm=2.0)
    with pytest.raises(DataError, match=r"eigensolver.*oja"):
        model(eigensolver="dense").plan(100_000)


# No user, and no item, is too odd


@pytest.mark.parametrize("eigensolver", ["dense", "oja"])
@pytest.mark.parametrize(
    "rows",
    [
        [("a", 0, 3.0)],
        [("a", 0, 3.0), ("b", 0, 3.0), ("b", 1, 3.0)],  # rows of zeros, centred
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
        {"steps_": fitted.steps_ * [1, 1, 0]},
        {"local_": (1.0, -1.0, 1.0, True)},
    ):
        given = {**arrays, **values, **changed}
        with pytest.raises((DataError, PrivacyError), match=r"steps_|local_"):
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
        errors.append(rmse(fitted, data, data))
    assert errors[0] > errors[1] > errors[2]
    with pytest.raises(PrivacyError, match="ledger"):
        discreet.FrankWolfe().fit(data, ledger=seeded())
    with pytest.raises(PrivacyError, match="n_steps"):
        discreet.FrankWolfe(n_steps=0).fit(data)


def test_the_twin_finds_the_same_direction_in_many_items(monkeypatch: Any) -> None:
    from discreet.completion.frank_wolfe import plain

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
    assert peak < matrix / 2, f"{peak / 1e6:.0f} MB, where users x items is {matrix / 1e6:.0f} million"
