"""The solver of one-bit completion: links, losses, projections, the optimum, and what users make of item vectors."""

from __future__ import annotations

import numpy as np
import pytest

import discreet
from discreet.completion.one_bit import OneBit
from discreet.completion.one_bit.fitting import complete, default_radius
from discreet.completion.one_bit.likelihood import Cells, FlippedBits, Loss, ShiftedBits
from discreet.completion.one_bit.links import Link
from discreet.completion.one_bit.mechanisms import TrueBits
from discreet.completion.one_bit.projections import Dense, Factored, nuclear_ball, simplex
from discreet.completion.one_bit.solver import Problem, minimise

RNG = np.random.default_rng(0)
LINKS = [Link("logistic"), Link("probit"), Link("probit", 2.5)]
BITS = RNG.integers(0, 2, 50)
LOSSES: list[Loss] = [FlippedBits(BITS, link, *flips) for link in LINKS for flips in ((0.0, 0.0), (0.2, 0.3))]
LOSSES.append(ShiftedBits(BITS + RNG.laplace(size=50), 2.0))


@pytest.mark.parametrize("loss", LOSSES)
def test_slopes_are_derivatives(loss: Loss) -> None:
    x, step = np.linspace(-4, 4, 50), 1e-6
    _, slopes = loss(x)
    for at in range(0, 50, 7):
        there = np.zeros(50)
        there[at] = step
        measured = (loss(x + there)[0] - loss(x - there)[0]) / (2 * step)
        assert slopes[at] == pytest.approx(measured, abs=1e-5)


@pytest.mark.parametrize("link", LINKS)
def test_links(link: Link) -> None:
    x = np.linspace(-3, 3, 61)
    assert np.allclose(link.probability(x) + link.probability(-x), 1)
    assert np.allclose(np.log(link.probability(x)), link.log(x))
    assert np.allclose(link.density(x) / link.probability(x), link.log_slope(x))
    assert link.density(np.zeros(1))[0] == pytest.approx(link.slope) == pytest.approx(link.density(x).max())
    bend = -np.diff(link.log_slope(np.linspace(-30, 5, 4001))) / (35 / 4000)
    assert bend.max() <= link.curvature * (1 + 1e-6)
    assert bend.max() >= 0.9 * link.curvature
    jump = link.log_slope(x) + link.log_slope(-x)  # how far a flip moves the derivative
    assert jump.max() == pytest.approx(link.sensitivity(3.0), rel=1e-9)


def test_the_sensitivity_of_a_probit_gradient_is_that_of_the_proof() -> None:
    assert Link("probit").sensitivity(1.0) == pytest.approx(1.81, abs=0.01)
    assert Link("logistic").sensitivity(5.0) == 1.0


def test_projection_on_the_simplex() -> None:
    assert np.allclose(simplex(np.array([3.0, 2.0, 0.5]), 3.0)[0], [2.0, 1.0, 0.0])
    assert simplex(np.array([1.0, 0.5]), 3.0)[1] == 0


def exact(array: np.ndarray, radius: float) -> np.ndarray:
    left, values, right = np.linalg.svd(array, full_matrices=False)
    return (left * simplex(values, radius)[0]) @ right


@pytest.mark.parametrize("radius", [0.5, 40.0, 300.0, 1e4])
def test_projection_on_the_nuclear_ball(radius: float) -> None:
    rng = np.random.default_rng(1)
    array = rng.standard_normal((60, 4)) @ rng.standard_normal((4, 90)) + 0.1 * rng.standard_normal((60, 90))
    found = Factored.zeros(array.shape)
    for _ in range(3):  # from a guess that gets better
        found = nuclear_ball(Dense(array), radius, found, rng)
    assert found.values.sum() <= radius * (1 + 1e-12)
    assert np.abs(found.dense() - exact(array, radius)).max() < 1e-3 * np.abs(array).max()
    assert nuclear_ball(Dense(array), radius, found, rng, 2).rank <= 2


def cells(n: int = 40, m: int = 55, rank: int = 2, seed: int = 0) -> tuple[Cells, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = 1.5 * rng.standard_normal((n, rank)) @ rng.standard_normal((rank, m))
    rows, columns = np.nonzero(rng.random((n, m)) < 0.5)
    bits = (rng.random(len(rows)) < 1 / (1 + np.exp(-truth[rows, columns]))).astype(int)
    return Cells(rows, columns, (n, m)), bits


@pytest.mark.parametrize("kind", ["clear", "probit", "shifted"])
def test_the_optimum_of_a_convex_loss_is_certified(kind: str) -> None:
    """No matrix in the ball is better by more than radius * |G| + <G, X>, G being the gradient: and that is little."""
    where, bits = cells()
    losses: dict[str, Loss] = {
        "clear": FlippedBits(bits, Link()),
        "probit": FlippedBits(bits, Link("probit")),
        "shifted": ShiftedBits(bits + np.random.default_rng(3).laplace(size=len(bits)), 2.0),
    }
    radius = 60.0
    problem = Problem(where, losses[kind], radius)
    found = minimise(problem, tolerance=1e-5, max_steps=500)
    gradient = np.zeros(where.shape)
    gradient[where.rows, where.columns] = found.slopes
    gap = radius * np.linalg.norm(gradient, 2) + float((gradient * found.matrix.dense()).sum())
    assert 0 <= gap < 2e-3 * found.loss
    assert found.gap(problem) == pytest.approx(gap, rel=1e-3)
    assert found.matrix.values.sum() == pytest.approx(radius)
    assert found.multiplier(problem) == pytest.approx(np.linalg.norm(gradient, 2), rel=0.01)


def test_the_law_of_flipped_bits_is_known_to_the_loss() -> None:
    """At the truth derivatives are 0 on average, whatever x is; to a loss that knows of no flips they are not."""
    rng, x = np.random.default_rng(5), np.full(100_000, 1.5)
    bits = (rng.random(len(x)) < Link().probability(x)).astype(int)
    noisy = np.where(rng.random(len(x)) < np.where(bits > 0, 0.1, 0.3), 1 - bits, bits)
    assert abs(FlippedBits(noisy, Link(), 0.1, 0.3)(x)[1].mean()) < 0.005
    assert abs(FlippedBits(noisy, Link())(x)[1].mean()) > 0.02
    shifted = ShiftedBits(bits + rng.laplace(size=len(x)), 2.0)
    assert abs(shifted(x)[1].mean()) < 0.02


@pytest.mark.parametrize("biases", [False, True])
def test_a_user_who_folds_in_gets_her_row_of_the_matrix(biases: bool) -> None:
    ratings = discreet.datasets.one_bit(60, 80, rank=2, alpha=3.0, observed=0.6, random_state=1)
    ratings = ratings.with_public(value_range=(-1, 1)) if ratings.value_range is None else ratings
    model = OneBit(None, biases=biases, tau=60.0, threshold=0.5).fit(ratings)
    true = TrueBits.of(ratings, 0.5)
    completed = complete(true.cells, FlippedBits(true.bits, Link()), 60.0, effects=biases)
    rows = np.repeat(np.arange(60), 80)
    expected = completed.at(rows, np.tile(np.arange(80), 60))
    pairs = [(user, item) for user in range(60) for item in range(80)]
    got = model._x(ratings, pairs, "raise")
    assert np.corrcoef(expected, got)[0, 1] > 0.999
    assert np.abs(expected - got).max() < 0.12
    probability, sign = model.predict_proba(ratings, pairs), model.predict_sign(ratings, pairs)
    assert np.allclose(probability, 1 / (1 + np.exp(-got)))
    assert np.array_equal(sign > 0, probability >= 0.5)
    assert set(np.unique(sign)) == {-1, 1}


def test_the_default_radius() -> None:
    assert default_radius((100, 100), 1.0, 1, clarity=1.0, effects=False) == 100
    assert default_radius((100, 100), 2.0, 4, clarity=0.5, effects=True) == 50
