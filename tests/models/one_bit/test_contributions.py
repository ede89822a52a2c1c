"""OneBit: what leaves the private side, what it costs, and what is refused with nothing spent."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import discreet
from discreet.data import Interactions
from discreet.errors import BudgetExceeded, DataError, DiscreetError, NotPublic, PrivacyError
from discreet.models.one_bit import OneBit, perturb
from discreet.models.one_bit.contributions import (
    COUNTS,
    LINEAR_TERM,
    SOLVER,
    PerturbedObjective,
    TrueBits,
    binomial_delta,
    bit_epsilon,
    capped,
)
from discreet.models.one_bit.likelihood import FlippedBits, Link, ShiftedBits
from discreet.privacy.entries import PerturbedMinimizer
from discreet.privacy.ledger import Reservation
from discreet.testing import InsecureSeededNoise


def board(seed: int = 0, n_users: int = 40, n_items: int = 30) -> Interactions:
    """Signs of a rank-one matrix, half of it observed."""
    made: Interactions = discreet.datasets.one_bit(n_users, n_items, alpha=3.0, observed=0.5, random_state=seed)
    return dataclasses.replace(made, value_range=(-1.0, 1.0))


def ledger(**settings: Any) -> discreet.Ledger:
    given = {"unit": "entry", "adjacency": "flip", "delta": 0.0, "noise_source": InsecureSeededNoise(1), **settings}
    return discreet.Ledger(**given)


def flip(ratings: Interactions, at: Any) -> Interactions:
    values = np.array(ratings.values)
    values[at] = -values[at]
    return dataclasses.replace(ratings, values=values)


@contextmanager
def statistics(monkeypatch: pytest.MonkeyPatch, *, counts: bool = False) -> Iterator[list[tuple[np.ndarray, float]]]:
    """What mechanisms release, or `counts`, in their own units, with the sensitivities that are declared."""
    seen: list[tuple[np.ndarray, float]] = []
    real = Reservation.release

    def release(self: Reservation, statistic: Any, sensitivity: float, noise: Any, label: str) -> Any:
        on_grid = discreet.privacy.GridArray.of(statistic)
        if (label == COUNTS) is counts:
            seen.append((on_grid.values * on_grid.grid.step, sensitivity))
        return real(self, statistic, sensitivity, noise, label)

    with monkeypatch.context() as patched:
        patched.setattr(Reservation, "release", release)
        yield seen


# What is released, and how far one flip, or one user, moves it


@pytest.mark.parametrize(
    "params",
    [
        {"mechanism": "input", "epsilon": 1.0},
        {"mechanism": "input", "epsilon": 1.0, "flip_one": 0.3, "flip_zero": 0.35},
        {"mechanism": "objective", "epsilon": 0.7},
        {"mechanism": "objective", "epsilon": 2.0, "noise": "gaussian", "delta": 1e-6},
    ],
)
def test_a_flip_moves_what_is_released_by_exactly_its_sensitivity(
    params: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    ratings = board()
    with statistics(monkeypatch) as seen:
        for data in (ratings, flip(ratings, 17)):
            OneBit(**params).fit(data, ledger=ledger(delta=params.get("delta", 0.0)))
    (one, sensitivity), (other, _) = seen
    assert np.abs(one - other).sum() == np.linalg.norm(one - other) == sensitivity == 1


MECHANISMS: list[dict[str, Any]] = [
    {"mechanism": "input"},
    {"mechanism": "objective"},
    {"mechanism": "objective", "link": "probit", "delta": 1e-6},
    {"mechanism": "gradient"},
    {"mechanism": "output", "noise": "gaussian", "delta": 1e-6},
]


@pytest.mark.parametrize("params", MECHANISMS)
@pytest.mark.parametrize("epsilon", [0.3, 4.0])
def test_counts_of_items_cost_a_part_and_move_by_exactly_their_sensitivity(
    params: dict[str, Any], epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a user's bits, all that count may go the same way."""
    ratings = dataclasses.replace(board(), values=np.ones_like(board().values))
    own = np.flatnonzero(ratings.user_numbers() == 5)
    delta = params.get("delta", 0.0)
    for flipped, user in (([17], {}), (own, {"unit": "user", "max_entries": 3})):
        with statistics(monkeypatch, counts=True) as seen:
            for data in (ratings, flip(ratings, flipped)):
                model = OneBit(**{**params, "epsilon": 8 * epsilon if user else epsilon}, **user)
                model.fit(data, ledger=ledger(delta=delta, unit=model.unit))
        (one, sensitivity), (other, _) = seen
        assert one.sum() == (40 * 3 if user else len(ratings))
        assert np.abs(one - other).sum() == sensitivity == user.get("max_entries", 1)
        counting, *_ = model.plan(ratings.n_items).lines
        assert model.epsilon is not None
        share = 1 / (1 + model.epsilon / sensitivity)
        assert counting.cost.pure == pytest.approx(share * model.epsilon, rel=1e-6)
        assert (1 - (2e-2 if delta or user else 1e-12)) * model.epsilon < model.guarantee_.epsilon <= model.epsilon


def test_counts_are_not_released_where_noise_was_added_elsewhere_or_as_published() -> None:
    ratings, noisy = board(), perturb(board(), epsilon=2.0, ledger=ledger())
    assert COUNTS in [line.label for line in OneBit(epsilon=2.0).plan(30).lines]
    for model, data in (
        (OneBit(epsilon=2.0, perturbed=True), noisy),
        (OneBit(epsilon=2.0, biases=False), ratings),
        (OneBit(epsilon=2.0, flip_one=0.2, flip_zero=0.2), ratings),
        (OneBit("gradient", epsilon=2.0, biases=False), ratings),
        (OneBit(epsilon=2.0, counts=False), ratings),
        (OneBit("gradient", epsilon=2.0, counts=False), ratings),
        (OneBit.as_published("input", epsilon=2.0, biases=True), ratings),
    ):
        fitted = model.fit(data, ledger=ledger())
        assert COUNTS not in [line.label for line in model.plan(30).lines]
        assert COUNTS not in [release["label"] for release in fitted.statement().certificate["releases"]]


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize(("link", "clamp"), [("logistic", 0.5), ("logistic", 3.0), ("probit", 3.0), ("probit", 0.5)])
def test_a_flip_moves_gradients_by_no_more_than_their_sensitivity(
    link: str, clamp: float, noise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The releases have the same answers twice, so that both fits are at the same x; without noise there are few."""
    ratings, answers = board(), list[Any]()
    params: dict[str, Any] = {
        "mechanism": "gradient",
        "link": link,
        "clamp": clamp,
        "noise": noise,
        "n_steps": 3,
        "biases": False,
    }
    delta = 1e-6 if noise == "gaussian" else 0.0
    real = discreet.privacy.noise.Laplace if noise == "laplace" else discreet.privacy.noise.Gaussian
    add = real.add
    with statistics(monkeypatch) as seen, monkeypatch.context() as patched:
        for again, data in enumerate((ratings, flip(ratings, 17))):
            count = iter(range(3))

            def same(self: Any, *args: Any, again: int = again, count: Any = count) -> Any:
                answers.append(add(self, *args))
                return answers[next(count)] if again else answers[-1]

            patched.setattr(real, "add", same)
            model = OneBit(**params, alpha=2.0, epsilon=50.0, delta=delta).fit(data, ledger=ledger(delta=delta))
    assert len(seen) == 6
    moved = [np.abs(one - other) for (one, _), (other, _) in zip(seen[:3], seen[3:], strict=True)]
    sensitivity = seen[0][1]
    assert all(np.count_nonzero(change) == 1 and change.sum() <= sensitivity for change in moved)
    # At the start x is 0, where a flip moves the derivative by 2 h'(0) / h(0), clamped.
    assert moved[0].sum() == pytest.approx(min(2 * clamp, {"logistic": 1.0, "probit": 1.596}[link]), rel=1e-3)
    assert sensitivity == pytest.approx(min(2 * clamp, {"logistic": 1.0, "probit": 2.428}[link]), rel=1e-3)
    assert 49.9 < model.guarantee_.epsilon <= 50


@pytest.mark.parametrize(
    ("params", "norm"),
    [
        ({"mechanism": "input", "epsilon": 8.0, "delta": 1e-5}, 1),
        ({"mechanism": "objective", "epsilon": 8.0}, 1),
        ({"mechanism": "objective", "epsilon": 8.0, "delta": 1e-5, "noise": "gaussian"}, 2),
        ({"mechanism": "gradient", "epsilon": 8.0, "biases": False}, 1),
        ({"mechanism": "gradient", "epsilon": 8.0, "biases": False, "delta": 1e-5, "noise": "gaussian"}, 2),
    ],
)
def test_a_user_moves_what_is_released_by_no_more_than_their_cap(
    params: dict[str, Any], norm: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ratings = board()
    own = ratings.user_numbers() == 5
    assert own.sum() > 6
    values = np.where(own, -ratings.values, ratings.values)
    with statistics(monkeypatch) as seen:
        for data in (ratings, dataclasses.replace(ratings, values=values)):
            delta = params.get("delta", 0.0)
            book = ledger(unit="user", adjacency="flip", delta=delta)
            OneBit(unit="user", max_entries=6, **params).fit(data, ledger=book)
    (one, sensitivity), (other, _) = seen
    assert np.linalg.norm(one - other, norm) == pytest.approx(sensitivity, rel=1e-12)
    assert np.linalg.norm(one - other, norm) <= sensitivity


@pytest.mark.parametrize("entries", [1, 6])
@pytest.mark.parametrize("ridge", [0.1, 0.5])
@pytest.mark.parametrize(("link", "noise"), [("logistic", "gaussian"), ("probit", "gaussian"), ("logistic", "laplace")])
def test_flips_move_a_stable_output_by_no_more_than_its_sensitivity(
    entries: int, ridge: float, link: str, noise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ratings = board()
    own = np.flatnonzero(ratings.user_numbers() == 5)[:entries]
    delta = 1e-5 if noise == "gaussian" else 0.0
    params: dict[str, Any] = {"mechanism": "output", "epsilon": 8.0, "delta": delta, "noise": noise, "ridge": ridge}
    settings: dict[str, Any] = {"delta": delta}
    if entries > 1:
        params |= {"unit": "user", "max_entries": 40}
        settings |= {"unit": "user", "adjacency": "flip"}
    with statistics(monkeypatch) as seen:
        for data in (ratings, flip(ratings, own)):
            model = OneBit(link=link, **params).fit(data, ledger=ledger(**settings))
    (one, sensitivity), (other, _) = seen
    assert np.abs(one).max() <= 1  # the box
    assert np.linalg.norm(one, "nuc") <= math.sqrt(one.size) * 1.001  # entries were rounded
    assert 0.1 * math.sqrt(entries) < np.linalg.norm(one - other) <= sensitivity
    assert model.statement().certificate["releases"][-1]["noise"]["kind"] == {"laplace": "l2-laplace"}.get(noise, noise)
    assert 7.85 < model.guarantee_.epsilon <= 8


@pytest.mark.parametrize("link", ["logistic", "probit"])
def test_a_flip_moves_a_stable_output_by_nearly_its_sensitivity(link: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the loss bends little beside the ridge, and the ball does not bind: the bound is tight."""
    params: dict[str, Any] = {"epsilon": 8.0, "delta": 1e-5, "noise": "gaussian", "ridge": 20.0, "tau": 1e3}
    ratings = board()
    with statistics(monkeypatch) as seen:
        for data in (ratings, flip(ratings, np.array([0]))):
            OneBit("output", link, alpha=0.1, **params).fit(data, ledger=ledger(delta=1e-5))
    (one, sensitivity), (other, _) = seen
    assert 0.95 * sensitivity <= np.linalg.norm(one - other) <= sensitivity


# The probit objective: the optimum with a secret linear term


def perturbed(alpha: float = 1.0, ridge: float = 0.5, entries: int = 1, epsilon: float = 1.0) -> PerturbedObjective:
    return PerturbedObjective(Link("probit"), epsilon, 0.0, entries, alpha, ridge=ridge)


@pytest.mark.parametrize(("alpha", "ridge", "epsilon"), [(1.0, 0.5, 1.0), (1.0, 1.2, 0.5), (2.0, 0.5, 3.0)])
def test_a_flip_changes_the_density_of_a_perturbed_optimum_by_no_more_than_it_costs(
    alpha: float, ridge: float, epsilon: float
) -> None:
    """One entry, and a public linear term in place of what else is convex: the density is known, and the bound reached.

    x is the optimum if the linear term is h(x) = -(derivative of the rest): its density is that of h(x) times |h'(x)|.
    """
    mechanism = perturbed(alpha, ridge, epsilon=epsilon)
    noise = mechanism.noise()
    declared = mechanism.perturbation().sensitivity("flip", noise)
    link, x = Link("probit"), np.linspace(-alpha, alpha, 401)
    bends = np.log(ridge + link.bend(x)) - np.log(ridge + link.bend(-x))
    worst = 0.0
    for term in np.linspace(-9, 9, 37):
        one, other = link.log_slope(x) - ridge * x - term, -link.log_slope(-x) - ridge * x - term
        worst = max(worst, np.abs((np.abs(other) - np.abs(one)) / noise.scale + bends).max())
    assert 0.95 * declared / noise.scale <= worst <= declared / noise.scale
    assert declared / noise.scale == pytest.approx((1 - SOLVER) * epsilon, rel=1e-3)


@pytest.mark.parametrize("entries", [1, 4])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_probit_objective_costs_what_was_asked_for(
    entries: int, delta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    ratings = board()
    params = {"unit": "user", "max_entries": entries} if entries > 1 else {}
    model = OneBit("objective", "probit", epsilon=4.0, delta=delta, **params)
    with statistics(monkeypatch) as seen:
        model.fit(ratings, ledger=ledger(unit=model.unit, delta=delta))
    assert 4 * (1 - (4e-3 if delta else 1e-5)) < model.guarantee_.epsilon <= 4
    kinds = [release["noise"]["kind"] for release in model.statement().certificate["releases"]]
    assert kinds == ["laplace", "laplace", "gaussian" if delta else "l2-laplace"]
    assert [line.label for line in model.plan(1).lines] == [COUNTS, LINEAR_TERM, "completed matrix"]
    (nothing, _), (matrix, _) = seen
    assert not nothing.any()
    assert np.abs(matrix).max() <= 1


def test_a_perturbed_fit_is_as_near_to_its_optimum_as_its_noise_hides() -> None:
    true, mechanism = TrueBits.of(board(), 0.5), perturbed(epsilon=2.0)
    linear = np.random.default_rng(0).laplace(scale=mechanism.noise().scale, size=len(true.observed))
    gap = mechanism.gap(len(true.observed))
    fit = mechanism.fit(100.0)
    nearly, optimum = (fit.solve(true, linear, aim) for aim in (1e6 * gap, gap))
    far, near = (PerturbedMinimizer(fit.ridge, aim, mechanism.noise(), 1).distance / 2 for aim in (1e6 * gap, gap))
    assert np.linalg.norm(nearly - optimum) <= far + near
    assert near < 1e-4


def test_which_entries_count_depends_on_public_things_only() -> None:
    ratings = board()
    one, other = capped(ratings, 4, 0), capped(dataclasses.replace(ratings, values=-ratings.values), 4, 0)
    assert np.array_equal(one.indices, other.indices)
    assert np.diff(one.indptr).max() == 4
    assert not np.array_equal(one.indices, capped(ratings, 4, 1).indices)


def test_the_solver_is_given_noisy_bits_only(monkeypatch: pytest.MonkeyPatch) -> None:
    from discreet.models.one_bit import model as private

    given: list[Any] = []
    real = private.complete
    monkeypatch.setattr(private, "complete", lambda *args, **kwargs: given.append(args) or real(*args, **kwargs))
    ratings = board()
    true = (ratings.values > 0).astype(int)
    for mechanism in ("input", "objective"):
        OneBit(mechanism, epsilon=1.0).fit(ratings, ledger=ledger())
    (observed, flipped, _), (again, shifted, _) = given
    assert isinstance(flipped, FlippedBits)
    assert isinstance(shifted, ShiftedBits)
    assert 0.25 < np.mean(flipped.bits != true) < 0.48  # half of epsilon is for counts: 0.378 is expected
    assert np.std(shifted.targets - true) == pytest.approx(2 * math.sqrt(2), rel=0.2)
    assert all(np.array_equal(observed.rows, other.rows) for other in (again,))


def reachable(module: str, known: set[str]) -> set[str]:
    """All names of modules and classes that a module of one-bit completion, and those that it imports, can name."""
    for node in ast.walk(ast.parse(inspect.getsource(importlib.import_module(module)))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("discreet.models.one_bit"):
            new = {f"{node.module}"} - known
            known |= new | {alias.name for alias in node.names}
            for other in new:
                reachable(other, known)
    return known


@pytest.mark.parametrize("module", ["estimate", "likelihood"])
def test_the_solver_cannot_even_name_true_bits(module: str) -> None:
    """It takes a `Loss`, which true bits are not: mypy refuses them, and no module of the solver knows the type."""
    assert not isinstance(TrueBits.of(board(), 0.0), Callable)  # what every Loss is
    found = reachable(f"discreet.models.one_bit.{module}", set())
    assert not found & {"TrueBits", "discreet.models.one_bit.contributions"}
    assert "TrueBits" in reachable("discreet.models.one_bit.model", set())


def test_models_of_neighbors_are_the_same_given_the_same_noisy_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that follows a release is post-processing: with the same answer, nothing differs."""
    ratings = board()
    first: dict[str, Any] = {}
    real = Reservation.release

    def release(self: Reservation, *args: Any) -> Any:
        answer = real(self, *args)
        first.setdefault(args[-1], answer)
        return first[args[-1]]

    monkeypatch.setattr(Reservation, "release", release)
    for mechanism in ("input", "objective"):
        first.clear()
        models = [OneBit(mechanism, epsilon=1.0).fit(d, ledger=ledger()) for d in (ratings, flip(ratings, 3))]
        for name in models[0]._ARRAYS:
            assert np.array_equal(getattr(models[0], name), getattr(models[1], name))
        assert all(getattr(models[0], name) == getattr(models[1], name) for name in models[0]._VALUES)


# What it costs


def test_guarantees() -> None:
    ratings = board()
    for params in ({"mechanism": "input"}, {"mechanism": "objective"}, {"mechanism": "gradient"}):
        model = OneBit(epsilon=1.3, **params).fit(ratings)
        assert model.guarantee_.holds
        assert model.guarantee_.epsilon == pytest.approx(1.3, rel=1e-12)
        assert model.guarantee_.epsilon <= 1.3
        assert (model.guarantee_.delta, model.guarantee_.unit, model.guarantee_.adjacency) == (0.0, "entry", "flip")
        assert "who has rated which items" in str(model.statement())
    model = OneBit("objective", epsilon=1.3, delta=1e-6, noise="gaussian").fit(ratings)
    assert 1.27 < model.guarantee_.epsilon <= 1.3
    model = OneBit(epsilon=4, delta=1e-5, unit="user", max_entries=10).fit(ratings)
    assert 3.9 < model.guarantee_.epsilon <= 4
    assert (model.guarantee_.unit, model.guarantee_.adjacency) == ("user", "flip")
    assert str(OneBit(None).fit(ratings).guarantee_).startswith("NOT PRIVATE")


@pytest.mark.parametrize(("epsilon", "expected"), [(1.0, 0.0388), (8.0, 0.2455)])
def test_user_level_epsilon_of_a_bit(epsilon: float, expected: float) -> None:
    assert bit_epsilon(epsilon, 1e-5, 50) == pytest.approx(expected, rel=0.01)
    assert bit_epsilon(epsilon, 0.0, 50) == epsilon / 50


def test_the_binomial_delta_is_that_of_all_outcomes() -> None:
    flip_, epsilon, total = 1 / (1 + math.exp(0.5)), 1.0, 0.0
    for outcome in np.ndindex(2, 2, 2, 2):
        ones = sum(outcome)
        one, other = (1 - flip_) ** ones * flip_ ** (4 - ones), flip_**ones * (1 - flip_) ** (4 - ones)
        total += max(one - math.exp(epsilon) * other, 0.0)
    assert binomial_delta(4, 0.5, epsilon) == pytest.approx(total, rel=1e-12)


def test_as_published_has_its_true_epsilon() -> None:
    ratings = board()
    with pytest.warns(UserWarning, match=r"Eq\. \(5\).*really epsilon = 2"):
        model = OneBit("objective", epsilon=1.0, calibration="published").fit(ratings)
    assert model.guarantee_.epsilon == pytest.approx(2.0)
    with pytest.warns(UserWarning, match=r"up to 2 C.*really epsilon = 2"):
        model = OneBit("gradient", epsilon=1.0, calibration="published").fit(ratings)
    assert model.guarantee_.epsilon == pytest.approx(2.0)
    # Both of the published conditions hold at epsilon 1; the truth is 3.40.
    with pytest.warns(UserWarning, match=r"two of the four ratios.*really epsilon = 3\.402"):
        model = OneBit(epsilon=1.0, flip_one=0.02, flip_zero=0.4, calibration="published").fit(ratings)
    assert model.guarantee_.epsilon == pytest.approx(math.log(0.6 / 0.02))
    assert OneBit.as_published(epsilon=1.0).fit(ratings).guarantee_.epsilon == 1.0


@pytest.mark.parametrize(("mechanism", "link"), [("output", "logistic"), ("output", "probit"), ("objective", "probit")])
def test_what_was_published_without_a_guarantee_says_so(mechanism: str, link: str) -> None:
    model = OneBit.as_published(mechanism, link, epsilon=1.0)
    assert model.calibration == "published"
    with pytest.warns(UserWarning, match="no guarantee.*as published"):
        model.fit(board())
    assert not model.guarantee_.holds
    assert model.guarantee_.epsilon == math.inf
    assert "as published" in str(model.statement())
    with pytest.raises(PrivacyError, match="ledger"):
        model.fit(board(), ledger=ledger())


# The untrusted server


def test_users_can_flip_their_bits_themselves() -> None:
    ratings = board()
    own = [ratings.for_users([user]) for user in ratings.users.to_list()]
    flipped = [perturb(one, epsilon=2.0) for one in own]
    assert all(set(np.unique(one.values)) <= {0.0, 1.0} for one in flipped)
    changed = np.concatenate([(a.values > 0.5) != (b.values > 0) for a, b in zip(flipped, own, strict=True)])
    assert 0.06 < changed.mean() < 0.2  # 0.119 is expected; a fair draw is outside once in 10^7
    sent = dataclasses.replace(ratings, values=np.concatenate([one.values for one in flipped]), value_range=(0.0, 1.0))
    book = discreet.Ledger(epsilon=3.0, delta=0.0, unit="entry", adjacency="flip")
    model = OneBit(epsilon=2.0, perturbed=True).fit(sent, ledger=book)
    assert book.spent.epsilon == model.guarantee_.epsilon == 2.0
    assert model.guarantee_.holds
    assert [event.kind for event in book.events] == ["charge"]
    assert "flipped before they came here" in str(model.statement())
    assert "Noise: coins tossed where the bits are, as declared by perturbed=True." in str(model.statement())
    for_tests = discreet.Ledger(unit="entry", adjacency="flip", noise_source=InsecureSeededNoise(0))
    assert not OneBit(epsilon=2.0, perturbed=True).fit(sent, ledger=for_tests).guarantee_.holds
    assert not for_tests.spent.holds
    with pytest.raises(BudgetExceeded):
        OneBit(epsilon=2.0, perturbed=True).fit(sent, ledger=book)


def test_flipped_bits_of_users_are_capped_where_they_are_flipped() -> None:
    users: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-5, "unit": "user"}
    sent = perturb(board(), max_entries=6, **users)
    assert np.diff(sent.indptr).max() == 6
    assert OneBit(perturbed=True, max_entries=6, **users).fit(sent).guarantee_.unit == "user"
    book = discreet.Ledger(epsilon=3.0, delta=1e-5, unit="user", adjacency="flip")
    with pytest.raises(PrivacyError, match="more than 5 flipped bits"):
        OneBit(perturbed=True, max_entries=5, **users).fit(sent, ledger=book)
    assert book.spent.epsilon == 0


def test_users_are_told_that_published_flips_are_not_what_they_claim() -> None:
    published: dict[str, Any] = {"epsilon": 1.0, "flip_one": 0.02, "flip_zero": 0.4, "calibration": "published"}
    with pytest.warns(UserWarning, match=r"two of the four ratios.*really epsilon = 3\.402"):
        sent = perturb(board(), **published)
    with pytest.warns(UserWarning, match=r"two of the four ratios.*really epsilon = 3\.402"):
        model = OneBit(perturbed=True, **published).fit(sent)
    assert model.guarantee_.epsilon == pytest.approx(math.log(0.6 / 0.02))


# Wrong input


@pytest.mark.parametrize(
    ("params", "word"),
    [
        ({}, "epsilon"),
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": 1, "alpha": 0}, "alpha"),
        ({"epsilon": 1, "alpha": -2.0}, "alpha"),
        ({"epsilon": 1, "alpha": None}, "alpha"),
        ({"epsilon": 1, "tau": -1.0}, "tau"),
        ({"epsilon": 1, "tau": 0}, "tau"),
        ({"epsilon": 1, "sigma": 0.0}, "sigma"),
        ({"epsilon": 1, "link": "cauchy"}, "link"),
        ({"epsilon": 1, "mechanism": "guess"}, "mechanism"),
        ({"epsilon": 1, "mechanism": None}, "mechanism"),
        ({"epsilon": 0.5, "mechanism": "objective", "link": "probit", "ridge": 0.01}, "ridge, alpha"),
        ({"epsilon": 1, "mechanism": "objective", "link": "probit", "noise": "gaussian", "delta": 1e-6}, "noise"),
        ({"epsilon": 1, "mechanism": "output", "box": False}, "box"),
        ({"epsilon": 1, "solver": "newton"}, "solver"),
        ({"epsilon": 1, "solver": "factored", "box": True}, "box"),
        ({"epsilon": 1, "mechanism": "gradient", "solver": "factored"}, "solver"),
        ({"epsilon": 1, "mechanism": "objective", "noise": "gaussian"}, "delta"),
        ({"epsilon": 1, "unit": "user"}, "max_entries"),
        ({"epsilon": 1, "max_entries": 3}, "max_entries"),
        ({"epsilon": 1, "flip_one": 0.3}, "flip_one"),
        ({"epsilon": 1, "flip_one": 0.6, "flip_zero": 0.5}, "add up"),
        ({"epsilon": 1, "flip_one": 0.0, "flip_zero": 0.5}, "flip_one"),
        ({"epsilon": 1, "flip_one": 0.02, "flip_zero": 0.4}, r"\(1 - flip_zero\) / flip_one"),
        ({"epsilon": 1, "flip_one": 0.4, "flip_zero": 0.02}, r"\(1 - flip_one\) / flip_zero"),
        ({"epsilon": 1, "mechanism": "objective", "perturbed": True}, "perturbed"),
        ({"epsilon": 1, "perturbed": "no"}, "perturbed: one of True, False"),
        ({"epsilon": 1, "perturbed": True}, "are these the true ones"),
        ({"epsilon": 1, "biases": "yes"}, "biases"),
        ({"epsilon": 1, "threshold": float("nan")}, "threshold"),
        ({"epsilon": 1, "threshold": "high"}, "threshold"),
        ({"epsilon": 1, "threshold": 2.0}, "threshold"),
        ({"epsilon": 1, "rank": 0}, "rank"),
        ({"epsilon": 1, "mechanism": "gradient", "biases": True, "calibration": "published"}, "biases"),
        ({"epsilon": 1, "mechanism": "output", "biases": True, "counts": False}, "biases"),
        ({"epsilon": 1, "mechanism": "gradient", "clamp": 0.0}, "clamp"),
        ({"epsilon": 1, "mechanism": "output", "ridge": 0.0}, "ridge"),
        ({"epsilon": 1, "mechanism": "output", "noise": "gaussian"}, "delta"),
        ({"epsilon": 1, "mechanism": "output", "calibration": "published"}, "no guarantee"),
        ({"epsilon": 1, "mechanism": "objective", "link": "probit", "calibration": "published"}, "no guarantee"),
        ({"epsilon": 1, "mechanism": "output", "unit": "user", "max_entries": 3, "calibration": "published"}, "unit"),
        ({"epsilon": 1, "mechanism": "gradient", "n_steps": 0}, "n_steps"),
        ({"epsilon": 1, "mechanism": "output", "ridge": 1e12}, "ridge: its optimum"),
    ],
)
def test_wrong_parameters_spend_nothing(params: dict[str, Any], word: str) -> None:
    book = ledger(epsilon=5.0)
    with pytest.raises(DiscreetError, match=word):
        OneBit(**params).fit(board(), ledger=book)
    assert book.spent.epsilon == 0


def test_values_that_are_not_two_need_a_threshold() -> None:
    ratings = discreet.read([(0, 0, 1.0), (0, 1, 3.0), (1, 0, 5.0)], items=[0, 1], value_range=(1, 5))
    book = ledger(epsilon=5.0)
    with pytest.raises(DataError, match="threshold"):
        OneBit(epsilon=1.0).fit(ratings, ledger=book)
    with pytest.raises(DataError, match="two values"):
        OneBit(epsilon=1.0).fit(discreet.read([(0, 0), (1, 1)], items=[0, 1]), ledger=book)
    with pytest.raises(PrivacyError, match="unit"):
        OneBit(epsilon=1.0, threshold=3).fit(ratings, ledger=discreet.Ledger(epsilon=2, delta=1e-6))
    assert book.spent.epsilon == 0
    assert OneBit(epsilon=1.0, threshold=3).fit(ratings, ledger=book).threshold_ == 3


def test_the_range_must_be_declared_for_a_private_fit_only() -> None:
    rows = [(user, item, float((user + item) % 2)) for user in range(12) for item in range(9)]
    ratings = discreet.read(rows, items=list(range(9)))
    assert OneBit(None).fit(ratings).value_range_ == (0.0, 1.0)
    book = ledger(epsilon=5.0)
    for mechanism in ("input", "objective", "gradient"):
        with pytest.raises(NotPublic, match="value_range"):
            OneBit(mechanism, epsilon=1.0).fit(ratings, ledger=book)
    with pytest.raises(NotPublic, match="value_range"):
        perturb(ratings, epsilon=1.0, ledger=book)
    assert book.spent.epsilon == 0


def test_noisier_bits_make_worse_predictions() -> None:
    made, truth = discreet.datasets.one_bit(60, 60, alpha=4.0, observed=0.5, random_state=2, return_truth=True)
    signs = np.where(truth.matrix().ravel() >= 0, 1, -1)
    pairs = [(user, item) for user in range(60) for item in range(60)]
    right: dict[tuple[str | None, float], float] = {}
    for mechanism, epsilon in ((None, math.inf), ("input", 4.0), ("input", 0.5), ("objective", 4.0), ("gradient", 4.0)):
        model = OneBit(mechanism, epsilon=None if mechanism is None else epsilon, threshold=0.5, tau=60.0)
        model.fit(made, ledger=None if mechanism is None else ledger())
        right[mechanism, epsilon] = float(np.mean(model.predict_sign(made, pairs) == signs))
    assert right[None, math.inf] > 0.7
    assert right["input", 4.0] > right["input", 0.5] + 0.05
    assert right["input", 4.0] >= right["objective", 4.0] - 0.02
    assert min(right["objective", 4.0], right["gradient", 4.0]) > right["input", 0.5] + 0.05
