"""The certificate of a solver: never less than how far a matrix is from the minimum, and little at the minimum."""

import numpy as np
import pytest

from discreet.privacy.minimizer import duality_gap

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
