"""Statistics of single entries: a flip moves each by its sensitivity, in the norm of its noise, and by no more."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import PrivacyError
from discreet.privacy import Gaussian, L2Laplace, Laplace, Ledger, Plan, Planned, RandomizedResponse, Releaser
from discreet.privacy.entries import (
    AsPrinted,
    Bits,
    ItemCounts,
    LinearPerturbation,
    Minimizer,
    PerturbedMinimizer,
    TwoValued,
    _least_noise,
    duality_gap,
    matrix_noise,
    noise_std,
    pure_cost,
)
from discreet.privacy.store import Checkpoint
from discreet.testing import InsecureSeededNoise

N = 6
any_number = st.sampled_from([math.nan, math.inf, -math.inf, 1e300, -0.0, 5e-324]) | st.floats(-5, 5)
numbers = st.lists(any_number, min_size=N, max_size=N)
bits_of = st.lists(st.integers(-1, 2), min_size=N, max_size=N)


def apart(statistic: Any, one: Any, other: Any, noise: Any) -> float:
    """The exact distance of two statistics in the norm of the noise."""
    first, second = (statistic.integers(np.array(bits), noise) for bits in (one, other))
    assert first.grid == second.grid
    moved = [abs(int(a) - int(b)) for a, b in zip(first.values, second.values, strict=True)]
    if isinstance(noise, Gaussian):
        return math.sqrt(sum(value**2 for value in moved)) * first.grid.step
    return sum(moved) * first.grid.step


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    numbers,
    numbers,
    bits_of,
    bits_of,
    st.floats(0.01, 3),
    st.sampled_from([Laplace(0.3), Gaussian(2.0), Gaussian(1e-4)]),
)
def test_flips_move_two_valued_numbers_by_no_more_than_the_sensitivity(
    one: Any, zero: Any, bits: Any, others: Any, change: float, noise: Any
) -> None:
    flipped = sum((a > 0) != (b > 0) for a, b in zip(bits, others, strict=True))
    statistic = TwoValued(np.array(one), np.array(zero), change, max(flipped, 1), finest=-20)
    assert apart(statistic, bits, others, noise) <= statistic.sensitivity("flip", noise)
    single = TwoValued(np.array(one), np.array(zero), change, 1, finest=-20)
    neighbor = [1 - (bits[0] > 0), *bits[1:]]
    assert apart(single, bits, neighbor, noise) <= single.sensitivity("flip", noise)


def test_the_sensitivities_are_reached() -> None:
    ones, zeros = np.ones(N), np.zeros(N)
    for entries in (1, 4):
        some = np.arange(N) < entries
        for noise in (Laplace(0.5), Gaussian(3.0)):
            bits = TwoValued(1.0, 0.0, 1.0, entries)
            assert apart(bits, some, zeros, noise) == pytest.approx(bits.sensitivity("flip", noise))
        counts = ItemCounts(np.arange(N) % 3, 4, entries)
        assert apart(counts, some, zeros, Laplace(0.5)) == counts.sensitivity("flip", Laplace(0.5)) == entries
        coins = RandomizedResponse(1.0)
        assert apart(Bits(entries), some, zeros, coins) == Bits(entries).sensitivity("flip", coins) == entries
    assert TwoValued(ones, zeros - 5, 1.0, 1, -20).integers(zeros, Gaussian(1.0)).values.max() == 0  # 1 less than 1


@given(bits_of, bits_of, st.lists(st.integers(0, 3), min_size=N, max_size=N), st.floats(1e-9, 1e12))
def test_counts_move_by_no_more_than_bits_do(bits: Any, others: Any, items: Any, scale: float) -> None:
    """Also where there is so little noise that a count does not fit in its units: it is cut, which moves it no more."""
    flipped = sum((a > 0) != (b > 0) for a, b in zip(bits, others, strict=True))
    counts, noise = ItemCounts(np.array(items), 4, max(flipped, 1)), Laplace(scale)
    assert apart(counts, bits, others, noise) <= counts.sensitivity("flip", noise)
    units = counts.integers(np.array(bits), noise)
    one = int(units.grid.units(1.0))
    assert one >= 1
    expected = np.bincount(np.array(items)[np.array(bits) > 0], minlength=4)
    assert units.values.tolist() == [min(int(count), (1 << 52) // one) * one for count in expected]


def test_a_linear_perturbation_is_noise_alone() -> None:
    statistic, noise = LinearPerturbation(N, 0.7, 3, 0.2), Laplace(2.0)
    assert statistic.sensitivity("flip", noise) == pytest.approx(3 * (0.7 + 0.4))
    units = statistic.integers(np.ones(N), noise)
    assert units.values.tolist() == [0] * N
    assert units.grid.units(2.0) >= 2**28


def test_what_has_no_proof_is_refused() -> None:
    counts = ItemCounts(np.zeros(1, int), 1, 1)
    statistics = [Bits(1), TwoValued(1.0, 0.0, 1.0, 1), counts, LinearPerturbation(1, 1.0, 1)]
    fit = [RandomizedResponse(1.0), Laplace(1.0), Laplace(1.0), Laplace(1.0)]
    wrong = [Gaussian(1.0), L2Laplace(1.0), Gaussian(1.0), Gaussian(1.0)]
    for statistic, right, other in zip(statistics, fit, wrong, strict=True):
        for adjacency in ("add-remove", "replace", "swap"):
            with pytest.raises(PrivacyError, match="adjacency"):
                statistic.sensitivity(adjacency, right)  # type: ignore[arg-type]
        with pytest.raises(PrivacyError, match="has no proof for"):
            statistic.sensitivity("flip", other)
    for make in (
        lambda: Bits(0),
        lambda: TwoValued(1.0, 0.0, math.inf, 1),
        lambda: LinearPerturbation(1, 1.0, 1, -1.0),
        lambda: Minimizer(0.0, 1.0, 1.0, 0.1, 1),
        lambda: Minimizer(1.0, 1.0, 1.0, -0.1, 1),
    ):
        with pytest.raises(PrivacyError):
            make()


def test_minimizers_of_neighbors_are_as_far_apart_as_is_said() -> None:
    """One entry of a quadratic loss: the optimum is known, and moves by change / (ridge + bend)."""
    change, bend, ridge, alpha = 0.8, 0.3, 0.5, 10.0
    statistic = Minimizer(ridge, alpha, change, bend, 1)
    exact = change / (ridge + bend)  # x' - x for losses bend x^2 / 2 + slope x with slopes that differ by `change`
    assert exact <= statistic.exact_distance <= exact * math.sqrt((ridge + bend) / ridge)
    assert statistic.distance > statistic.exact_distance
    assert math.sqrt(2 * statistic.gap / ridge) == pytest.approx(statistic.slack / 2 * statistic.exact_distance)
    assert (
        Minimizer(ridge, 0.1, change, bend, 4).exact_distance < Minimizer(ridge, alpha, change, bend, 4).exact_distance
    )  # by the box
    near = PerturbedMinimizer(ridge, 1e-6, Laplace(1.0), 100)
    assert near.distance == pytest.approx(2 * math.sqrt(2e-6 / ridge), rel=1e-3)


@pytest.mark.parametrize("cost", [pure_cost(2.0), Plan.gaussian(0.7, {"x": 1.0})["x"].cost])
def test_matrices_get_the_noise_that_their_cost_pays_for(cost: Any) -> None:
    grid, sensitivity, noise = matrix_noise(cost, 0.25, 12)
    assert noise.cost(sensitivity).within(cost)
    assert 0.25 + grid.step * math.sqrt(12) <= sensitivity < 0.2501
    assert noise_std(noise, 12) == (noise.std(12) if isinstance(noise, L2Laplace) else noise.std)


def test_pure_costs_are_the_same_at_any_scale() -> None:
    for epsilon in (0.1, 0.3, 1 / 3, 1.3522987986828883, 8.0):
        cost = pure_cost(epsilon)
        assert epsilon * (1 - 1e-6) < cost.pure <= epsilon
        for sensitivity in (0.001, 1.0, 2550.691002325191):
            declared, noise = _least_noise(cost, sensitivity)
            assert noise.cost(declared) == cost
            assert sensitivity <= declared < sensitivity * (1 + 1e-7)


# -- the releaser


def releasing(*lines: Planned) -> Any:
    ledger = Ledger(delta=1e-6, unit="entry", adjacency="flip", noise_source=InsecureSeededNoise(2))
    return ledger.reserve(Plan(lines))


def test_entries_are_released_under_the_plan() -> None:
    coins, noise = RandomizedResponse(1.0), Laplace(0.5)
    bits = np.array([1, 0, 1, 1])
    told: list[str] = []
    lines = Planned("coins", coins.cost(2)), Planned("shifted", noise.cost(1.0)), Planned("matrix", pure_cost(1.0))
    with releasing(*lines) as reservation:
        releaser = Releaser(reservation, "flip", 1, lambda share, label: told.append(label))
        assert set(releaser.release_entries("coins", Bits(2), bits, coins).tolist()) <= {0, 1}
        assert releaser.release_entries("shifted", TwoValued(1.0, 0.0, 1.0, 1), bits, noise).shape == (4,)
        found = releaser.release_matrix("matrix", Minimizer(0.5, 1.0, 1.0, 0.1, 1), np.eye(3))
        assert found.values.shape == (3, 3)
        assert found.std > 0
        with pytest.raises(PrivacyError, match="has no proof; nothing was released"):
            releaser.release_entries("coins", AsPrinted(1.0), bits, noise)
        with pytest.raises(PrivacyError, match="adjacency"):
            Releaser(reservation, "replace", 1).release_matrix("matrix", Minimizer(0.5, 1, 1, 0.1, 1), np.eye(3))
    assert told == ["coins", "shifted", "matrix"]
    assert len(reservation._ledger.events) == 3


def test_what_a_paper_prints_is_released_only_where_there_is_no_guarantee() -> None:
    noise = Laplace(0.5)
    with releasing(Planned("printed", noise.cost(2.0))) as reservation:
        releaser = Releaser(reservation, "flip", 1, unproved=True)
        found = releaser.release_entries("printed", AsPrinted(2.0), np.array([0.25, -3.0]), noise)
    assert found.shape == (2,)


def test_a_secret_is_not_written_to_a_checkpoint(tmp_path: Path) -> None:
    noise, statistic = Laplace(0.5), LinearPerturbation(3, 1.0, 1)
    ledger = Ledger(delta=1e-6, unit="entry", adjacency="flip", noise_source=InsecureSeededNoise(2))
    plan = Plan((Planned("term", noise.cost(1.0)),))
    with (
        pytest.raises(PrivacyError, match="checkpoint: 'term' must stay secret"),
        ledger.reserve(plan, checkpoint=Checkpoint(tmp_path, "fit")) as reservation,
    ):
        Releaser(reservation, "flip", 1).release_entries("term", statistic, np.zeros(3), noise)
    assert not ledger.events
    assert not list(tmp_path.iterdir())


# The certificate of a solver: never less than how far a matrix is from the minimum, and little at the minimum

RNG = np.random.default_rng(0)


def feasible(shape: tuple[int, int], radius: float, alpha: float) -> np.ndarray:
    """A random matrix in the ball and in the box."""
    made = RNG.standard_normal(shape) * RNG.uniform(0, 3)
    made *= min(1.0, alpha / np.abs(made).max())
    return np.asarray(made * min(1.0, radius / np.linalg.norm(made, "nuc")))


@pytest.mark.parametrize("shape", [(6, 9), (9, 6), (1, 5)])
@pytest.mark.parametrize(("radius", "alpha"), [(4.0, 0.5), (100.0, 0.5), (2.0, 10.0)])
def test_no_feasible_matrix_is_better_by_more(shape: tuple[int, int], radius: float, alpha: float) -> None:
    """F(X) = |X - T|^2 / 2, for any dual that a solver may come with."""
    target, x = RNG.standard_normal(shape), feasible(shape, radius, alpha)
    others = [feasible(shape, radius, alpha) for _ in range(200)] + [np.zeros(shape)]
    best = min(((z - target) ** 2).sum() / 2 for z in others)
    for dual in (np.zeros(shape), RNG.standard_normal(shape), target - x, -5 * target):
        gap = duality_gap(x, x - target, dual, radius, alpha)
        assert gap >= ((x - target) ** 2).sum() / 2 - best - 1e-12


@pytest.mark.parametrize("transposed", [False, True])
def test_it_is_zero_at_the_minimum(transposed: bool) -> None:
    """In the box alone it is the clipped target; in the ball alone, the one with lowered singular values."""
    target = RNG.standard_normal((5, 7))
    target = target.T if transposed else target
    x = np.clip(target, -0.4, 0.4)
    assert duality_gap(x, x - target, np.zeros_like(x), 1e3, 0.4) == pytest.approx(0.0, abs=1e-12)
    left, values, right = np.linalg.svd(target, full_matrices=False)
    lowered = np.maximum(values - 0.5, 0.0)
    x = (left * lowered) @ right
    assert duality_gap(x, x - target, target - x, lowered.sum(), 1e3) == pytest.approx(0.0, abs=1e-9)
