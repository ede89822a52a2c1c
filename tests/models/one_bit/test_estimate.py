"""The solver of one-bit completion: projections, the optimum, and what users make of item vectors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

import discreet
from discreet.models.eigen import simplex
from discreet.models.one_bit import OneBit
from discreet.models.one_bit.contributions import StronglyConvex, TrueBits
from discreet.models.one_bit.estimate import Problem, complete, default_radius, minimize
from discreet.models.one_bit.likelihood import FlippedBits, Link, Loss, Observed, ShiftedBits
from discreet.models.one_bit.matrices import Factored, Moved, in_ball, intersection, nuclear_ball

LINKS = [Link("logistic"), Link("probit"), Link("probit", 2.5)]


@pytest.mark.parametrize("shape", [(30, 50), (50, 30)])
@pytest.mark.parametrize("radius", [1e-3, 20.0, 200.0, 239.99, 1e4])
def test_projection_by_eigenvectors_is_that_by_singular_vectors(shape: tuple[int, int], radius: float) -> None:
    array = np.random.default_rng(0).standard_normal(shape)
    left, values, right = np.linalg.svd(array * 240 / np.linalg.norm(array, "nuc"), full_matrices=False)
    array = (left * values) @ right  # of nuclear norm 240: at 239.99 the threshold is too low for squares
    wanted = (left * simplex(values, radius)[0]) @ right
    assert np.abs(in_ball(array, radius) - wanted).max() < 1e-12


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
    matrix = Moved(found, csr_array(array))
    for _ in range(3):  # from a guess that gets better
        found = nuclear_ball(matrix, radius, found, rng)
    assert found.values.sum() <= radius * (1 + 1e-12)
    assert np.abs(found.dense() - exact(array, radius)).max() < 1e-3 * np.abs(array).max()
    assert nuclear_ball(matrix, radius, found, rng, 2).rank <= 2


def observed(n: int = 40, m: int = 55, rank: int = 2, seed: int = 0) -> tuple[Observed, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = 1.5 * rng.standard_normal((n, rank)) @ rng.standard_normal((rank, m))
    rows, columns = np.nonzero(rng.random((n, m)) < 0.5)
    bits = (rng.random(len(rows)) < 1 / (1 + np.exp(-truth[rows, columns]))).astype(int)
    return Observed(rows, columns, (n, m)), bits


@pytest.mark.parametrize("kind", ["clear", "probit", "shifted"])
def test_the_optimum_of_a_convex_loss_is_certified(kind: str) -> None:
    """No matrix in the ball is better by more than radius * |G| + <G, X>, G being the gradient: and that is little."""
    where, bits = observed()
    losses: dict[str, Loss] = {
        "clear": FlippedBits(bits, Link()),
        "probit": FlippedBits(bits, Link("probit")),
        "shifted": ShiftedBits(bits + np.random.default_rng(3).laplace(size=len(bits)), 2.0),
    }
    radius = 60.0
    problem = Problem(where, losses[kind], radius)
    found = minimize(problem, tolerance=1e-5, max_steps=500)
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
def test_a_user_who_folds_in_gets_their_row_of_the_matrix(biases: bool) -> None:
    ratings = discreet.datasets.one_bit(60, 80, rank=2, alpha=3.0, observed=0.6, random_state=1)
    ratings = ratings.with_public(value_range=(-1, 1)) if ratings.value_range is None else ratings
    model = OneBit(None, biases=biases, tau=60.0, threshold=0.5).fit(ratings)
    true = TrueBits.of(ratings, 0.5)
    completed = complete(true.observed, FlippedBits(true.bits, Link()), 60.0, effects=biases)
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


# Ball and bounded entries


def slowly(array: np.ndarray, radius: float, alpha: float) -> np.ndarray:
    """The projection on ball and box by Douglas and Rachford's method: another way, and many steps of it."""
    z = array.copy()
    for _ in range(1000):
        x = exact((z + array) / 2, radius)
        z += np.clip(2 * x - z, -alpha, alpha) - x
    return x


@pytest.mark.parametrize(("radius", "alpha"), [(8.0, 0.5), (20.0, 0.5), (3.0, 5.0), (1e3, 0.2)])
def test_the_projection_on_ball_and_box(radius: float, alpha: float) -> None:
    array = np.random.default_rng(2).standard_normal((12, 15))
    found, gap = intersection(array, radius, alpha)
    x, best = found.dense(), slowly(array, radius, alpha)
    assert np.abs(x).max() <= alpha * (1 + 1e-12)
    assert found.values.sum() <= radius * (1 + 1e-12)
    assert gap <= 1e-8 * (array**2).sum() + 1e-12
    assert np.linalg.norm(x - best) <= np.sqrt(2 * gap) + 1e-6
    rough, more = intersection(array, radius, alpha, precise=1e-2)
    assert ((rough.dense() - array) ** 2).sum() / 2 - ((best - array) ** 2).sum() / 2 <= more + 1e-9


@pytest.mark.parametrize("kind", ["clear", "probit", "shifted"])
def test_the_optimum_in_ball_and_box_is_certified(kind: str) -> None:
    """Against another method, in the dual, for the same loss with a little ridge."""
    where, bits = observed(15, 20)
    link, noise = Link("probit" if kind == "probit" else "logistic"), np.zeros(len(bits))
    if kind == "shifted":
        noise = np.random.default_rng(3).laplace(size=len(bits))
    loss: Loss = ShiftedBits(bits + noise, 2.0) if kind == "shifted" else FlippedBits(bits, link)
    problem = Problem(where, loss, 14.0, alpha=0.8)
    found = minimize(problem, tolerance=1e-4, gap=3e-4)
    x, gap = found.matrix.dense(), found.gap(problem)
    assert np.abs(x).max() <= 0.8 * (1 + 1e-9)
    assert found.matrix.values.sum() <= 14 * (1 + 1e-9)
    assert len(found.excess.pulls) > 0  # the box binds
    assert gap <= 3e-4 * len(bits)
    other = StronglyConvex(link, 14.0, 0.8, 0.02).solve(TrueBits(where, bits), -noise, 1e-3)
    theirs = loss(other[where.rows, where.columns])[0]
    assert found.loss <= theirs + gap
    assert theirs <= found.loss + 0.01 * float((x**2).sum()) + 1e-3


@pytest.mark.parametrize("link", LINKS[:2])
def test_a_strongly_convex_fit_is_certified(link: Link) -> None:
    where, bits = observed(15, 20)
    fit, true = StronglyConvex(link, 14.0, 0.8, 0.3), TrueBits(where, bits)
    linear = np.random.default_rng(4).laplace(size=len(bits))

    def value(x: np.ndarray) -> float:
        at = x[where.rows, where.columns]
        return FlippedBits(bits, link)(at)[0] + float(linear @ at) + 0.15 * float((x**2).sum())

    rough, best = fit.solve(true, linear, 0.1), fit.solve(true, linear, 1e-10)
    for x in (rough, best):
        assert np.abs(x).max() <= 0.8
        assert np.linalg.norm(x, "nuc") <= 14 * (1 + 1e-12)
    assert 0 <= value(rough) - value(best) + 1e-9 <= 0.1
    assert np.linalg.norm(rough - best) <= np.sqrt(2 * 0.1 / 0.3)
    # By the way that steps go elsewhere: a projected gradient step from the optimum stays there.
    moved = best - 0.2 * 0.3 * best
    moved[where.rows, where.columns] -= 0.2 * (FlippedBits(bits, link)(best[where.rows, where.columns])[1] + linear)
    assert np.linalg.norm(intersection(moved, 14.0, 0.8, precise=1e-12)[0].dense() - best) < 1e-3


@pytest.mark.parametrize("link", LINKS)
def test_second_derivatives(link: Link) -> None:
    x, step = np.linspace(-3, 3, 61), 1e-5
    measured = -(link.log_slope(x + step) - link.log_slope(x - step)) / (2 * step)
    assert np.allclose(link.bend(x), measured, atol=1e-6)
    assert link.least_bend(3.0) == pytest.approx(link.bend(x).min(), rel=1e-6)
    ratios = np.log((0.4 + link.bend(x)) / (0.4 + link.bend(-x)))
    assert link.log_bends(3.0, 0.4) == pytest.approx(np.abs(ratios).max(), abs=1e-6)


def test_second_derivatives_of_the_probit_link_cost_what_the_proof_says() -> None:
    assert Link("probit").log_bends(1.0, 0.0) == pytest.approx(0.77, abs=0.005)
    assert Link("probit").log_bends(2.0, 0.0) == pytest.approx(2.05, abs=0.005)


def test_factors_keep_their_bound_and_learn_the_same() -> None:
    where, bits = observed(60, 80)
    loss, radius = FlippedBits(bits, Link()), 90.0
    by_factors = complete(where, loss, radius, effects=True, rank=6)
    convex = complete(where, loss, radius, effects=True)
    assert by_factors.matrix.rank <= 6
    assert np.abs(by_factors.matrix.dense()).max() <= radius / np.sqrt(60 * 80) * (1 + 1e-6)
    assert by_factors.matrix.values.sum() <= radius * (1 + 1e-6)
    rows, columns = np.repeat(np.arange(60), 80), np.tile(np.arange(80), 60)
    assert np.corrcoef(by_factors.at(rows, columns), convex.at(rows, columns))[0, 1] > 0.8


def test_the_default_radius() -> None:
    assert default_radius((100, 100), 1.0, 1, clarity=1.0, effects=False) == 100
    assert default_radius((100, 100), 2.0, 4, clarity=0.5, effects=True) == 50
