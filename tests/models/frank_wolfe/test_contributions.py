"""Frank-Wolfe: how far one person moves each release, what is spent, and that nothing is on wrong input."""

from typing import Any

import numpy as np
import pytest

import discreet
from discreet.audit import neighbors
from discreet.engine import LocalBlocks
from discreet.engine import batches as users_rows
from discreet.errors import BudgetExceeded, DataError, NotPublic, PrivacyError
from discreet.models.centering import MEAN, VARIANCES, Centering
from discreet.models.frank_wolfe.contributions import Corrective, Fitted, Local, Loss, Users, residuals_of
from discreet.models.frank_wolfe.estimate import COVARIANCE, ENERGY, LENGTH, PRODUCT, Basis, Step
from tests.models.frank_wolfe.data import DELTA, N, model, seeded, strong, world
from tests.models.replay import moved, record, replay


@pytest.mark.parametrize("rule", ["corrective", "constant"])
@pytest.mark.parametrize("eigensolver", ["dense", "oja"])
def test_one_person_moves_each_statistic_by_its_bound_and_no_more(
    monkeypatch: Any, eigensolver: Any, rule: Any
) -> None:
    """A person who has rated one thing, which the leading direction is made to be, is the worst there is."""

    def make() -> discreet.DPFrankWolfe:
        return model(eigensolver=eigensolver, step=rule, n_steps=3, centre=False, row_norm=2.0, oja_steps=4)

    alone = [("x", {7: 2.0}), *((f"y{i}", {7: 2.0}) for i in range(3000))]
    found = replay(monkeypatch, make, world(*alone), world(*alone[1:]))
    lengths = {LENGTH} if rule == "corrective" else set()
    assert set(found) == lengths | ({COVARIANCE} if eigensolver == "dense" else {PRODUCT, ENERGY})
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


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize("n_steps", [2, 3, 4])
def test_residuals_of_the_published_algorithm_grow_from_the_row_norm_to_twice_that(
    monkeypatch: Any, n_steps: int, adjacency: Any
) -> None:
    """L, sqrt(2) L and 2 L long: one user is led away from their only rating, and then to its opposite."""

    def make() -> discreet.PublishedDPFrankWolfe:
        return discreet.DPFrankWolfe.as_published(
            epsilon=15, delta=DELTA, radius=16e3, row_norm=1.0, n_steps=n_steps, adjacency=adjacency
        )

    one, other = neighbors.swaying({0: 1.0, 1: 0.0}), {"add-remove": None, "replace": {2: 1.0, 3: 0.0}}[adjacency]
    first = record(monkeypatch, lambda paid: make().fit(one, ledger=paid), None, adjacency=adjacency)
    second = record(
        monkeypatch, lambda paid: make().fit(neighbors.swaying(other), ledger=paid), first.answers, adjacency=adjacency
    )
    apart = 1 if adjacency == "add-remove" else np.sqrt(2)
    assert first.labels == [f"{COVARIANCE}{which}" for which in (", first", ", second", "")[: n_steps - 1]]
    assert np.allclose(first.sensitivities, apart * np.array([1, 2, 4])[: n_steps - 1], rtol=1e-9)
    shares = moved(first, second).values()
    assert max(shares) <= 1
    assert min(shares) >= 0.95, shares


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize("eigensolver", ["dense", "oja"])
def test_the_release_step_enforces_the_published_bounds(monkeypatch: Any, eigensolver: Any, adjacency: Any) -> None:
    """Residuals of any length, up to the bound: with a longer row norm in the local component than in a release."""

    def make() -> discreet.PublishedDPFrankWolfe:
        made = discreet.DPFrankWolfe.as_published(
            epsilon=5, delta=DELTA, radius=1e-3, row_norm=1.0, n_steps=5, eigensolver=eigensolver, adjacency=adjacency
        )
        monkeypatch.setattr(made, "_row_norm", lambda value_range, n: 4.0)
        return made

    crowd = [(f"y{i}", {7: 2.0}) for i in range(3000)]
    data = [world(*crowd, ("x", ratings)) for ratings in ({7: 2.0}, {8: 2.0})]
    if adjacency == "add-remove":
        data[1] = world(*crowd)
    found = replay(monkeypatch, make, *data, adjacency=adjacency)
    assert len(found) == (3 if eigensolver == "dense" else 6)
    assert max(found.values()) <= 1
    assert min(found.values()) >= 0.95, found


def test_a_first_step_by_another_loss_may_lead_away_from_ratings() -> None:
    """With the squared loss residuals are at most sqrt(2) L long after it, with others 2 L."""
    params = {"epsilon": 5, "delta": DELTA, "radius": 100.0, "row_norm": 1.0, "n_steps": 4}
    costs = {
        loss: [line.cost.gaussian for line in discreet.DPFrankWolfe.as_published(**params, loss=loss).plan(N).lines]
        for loss in ("squared", "logistic")
    }
    assert np.allclose(np.array(costs["squared"], float) / costs["squared"][0], [1, 4, 16])
    assert np.allclose(np.array(costs["logistic"], float) / costs["logistic"][0], [1, 16, 16])


def some_steps(n: int) -> list[tuple[Any, Any]]:
    """A local component and two steps, of each kind."""
    rng = np.random.default_rng(1)
    V = np.linalg.qr(rng.standard_normal((n, 2)))[0]
    first = Basis(V[:, :1], (300.0,), (500.0,), 0.4)
    moves = [Step(V[:, 0], 0.3, 1.7), Step(V[:, 1], 0.3, 1.7)]
    refits = [first, Basis(V, (300.0, 100.0), (500.0, 200.0), 0.4)]
    return [
        (Local(Centering.of((0.5, 5), 3.0, centre=True), Loss()), moves),
        (Local(Centering(2.75, None, 3.0), Loss(4.5)), moves),
        (Corrective(Loss(), 2.75, True), refits),
        (Corrective(Loss(4.5), 2.75, False), refits),
    ]


def kept(users: Users) -> list[Fitted]:
    assert isinstance(users.batches, LocalBlocks)
    return list(users.batches.each(None))


def test_a_contribution_is_ones_own() -> None:
    """To the last bit, for any other users beside them: otherwise others' contributions would move, too."""
    data = discreet.datasets.movielens_like(200, 90, 8000, random_state=0)
    for component, steps in some_steps(90):
        users = Users.of(data, component, None, None)
        for step in steps:
            users.advance(step)
        (whole,) = kept(users)
        together = residuals_of(whole)
        for user in range(0, data.n_users, 7):
            alone = Users.of(data.of_users(np.array([user])), component, None, None)
            for step in steps:
                alone.advance(step)
            (part,) = kept(alone)
            row = slice(int(data.indptr[user]), int(data.indptr[user + 1]))
            assert np.array_equal(residuals_of(part), together[row])


def test_sums_are_the_same_however_they_are_cut(monkeypatch: Any) -> None:
    data = world()
    for solver in ("dense", "oja"):

        def fit(paid: discreet.Ledger, jobs: int, solver: Any = solver) -> object:
            return model(n_jobs=jobs, eigensolver=solver, n_steps=2, oja_steps=2).fit(data, ledger=paid)

        whole = record(monkeypatch, lambda paid: fit(paid, 1), None)
        with monkeypatch.context() as patched:
            patched.setattr(users_rows, "PART", 100)
            cut = record(monkeypatch, lambda paid: fit(paid, 3), None)
        assert all(np.array_equal(one, other) for one, other in zip(whole.statistics, cut.statistics, strict=True))


# What is spent


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_the_certificate_lists_every_release(adjacency: Any) -> None:
    fitted = model(2.0, adjacency=adjacency, n_steps=3).fit(world())
    assert fitted.guarantee_.holds
    assert 1.99 <= fitted.guarantee_.epsilon <= 2
    assert fitted.guarantee_.adjacency == adjacency
    labels = [release["label"] for release in fitted.statement().certificate["releases"]]
    assert labels == [MEAN, VARIANCES, *[LENGTH, COVARIANCE] * 3]
    assert "n_steps = 3" in str(fitted.statement())
    by_oja = model(2.0, adjacency=adjacency, n_steps=3, eigensolver="oja", oja_steps=4).fit(world())
    labels = [release["label"] for release in by_oja.statement().certificate["releases"]]
    assert labels == [MEAN, VARIANCES, *([LENGTH] + [PRODUCT] * 4 + [ENERGY]) * 3]
    assert 1.99 <= by_oja.guarantee_.epsilon <= 2
    assert by_oja.preview(N).fits


def test_fewer_steps_for_smaller_budgets_and_other_solvers_for_more_items() -> None:
    assert [len(model(epsilon).fit(world(), ledger=seeded()).steps_) for epsilon in (0.1, 1.0, 5.0)] == [2, 5, 10]
    assert [line.label for line in model().plan(4000).lines] == [MEAN, VARIANCES, LENGTH, COVARIANCE]
    assert [line.label for line in model(centre=False).plan(4001).lines] == [LENGTH, PRODUCT, ENERGY]


@pytest.mark.parametrize(
    ("epsilon", "adjacency", "true"), [(1, "add-remove", 0.461), (5, "replace", 3.87), (25, "replace", 26.94)]
)
def test_as_published_carries_the_true_guarantee_of_the_printed_noise(
    epsilon: float, adjacency: Any, true: float
) -> None:
    """mu = L^2 sqrt(1 + 4 + 16 (T - 3)) / sigma, sqrt(2) times that for replace: above the claim for large ones."""
    made = discreet.DPFrankWolfe.as_published(
        epsilon=epsilon, delta=DELTA, radius=100.0, row_norm=3.0, n_steps=10, adjacency=adjacency
    )
    sigma = 3.0**2 * np.sqrt(64 * 10 * np.log(1 / DELTA)) / epsilon
    mu = 3.0**2 * np.sqrt(1 + 4 + 16 * 7) / sigma * (1 if adjacency == "add-remove" else np.sqrt(2))
    plan = made.plan(N)
    assert np.isclose(plan.cost.mu or 0, mu, rtol=1e-6)
    assert np.isclose(plan.cost.epsilon(DELTA), true, rtol=0.01)
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
        epsilon=20, delta=DELTA, radius=100.0, row_norm=3.0, n_steps=10, eigensolver="oja", oja_steps=5
    )
    sigma = 9.0 * np.sqrt(256 * 5 * np.log(2 / DELTA)) / 20
    assert np.isclose(made.plan(N).cost.mu or 0, np.sqrt(6 * (1 + 4 + 16 * 7)) * 9 / sigma, rtol=1e-6)
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
        (PrivacyError, "radius", world(), model(radius=-1.0, step="constant")),
        (DataError, "radius.*constant", world(), model(radius=5.0)),
        (PrivacyError, "row_norm", world(), model(row_norm=0.0)),
        (PrivacyError, "row_norm", world(), model(row_norm=float("nan"))),
        (PrivacyError, "residual_clip", world(), model(residual_clip=float("inf"))),
        (PrivacyError, "oja_steps", world(), model(oja_steps=0)),
        (PrivacyError, "ratings_per_user", world(), model(ratings_per_user=0)),
        (DataError, "eigensolver", world(), model(eigensolver="lanczos")),
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
