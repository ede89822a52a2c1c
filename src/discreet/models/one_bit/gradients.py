"""The gradient mechanism: projected steps along noisy gradients; step sizes and their number are public."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from discreet.linalg.threads import single_threaded_blas
from discreet.models.one_bit.box import intersection
from discreet.models.one_bit.budget import Budget
from discreet.models.one_bit.contributions import TrueBits
from discreet.models.one_bit.fitting import MAX_RANK, Completed, Effects
from discreet.models.one_bit.projections import Factored, Moved, nuclear_ball
from discreet.models.one_bit.solver import SEED
from discreet.privacy import Gaussian, Laplace, Releaser
from discreet.typing import Array

GRADIENT = "gradient"
SWEEPS = 50  # of the projection on ball and box, at most: it follows noise, and need not be precise
FINEST = -20  # a gradient is rounded to steps of 2^-20, or to what suits the noise if that is finer


@dataclass(frozen=True)
class Gradients:
    """What can be learned of true bits: clamped derivatives of the loss at public x, with noise.

    An entry has two derivatives, that of a 1 and that of a 0, both public; its bit says which it is.

    Attributes:
        budget: The link, C, and how far a flip moves an entry.
        noise: Laplace or Gaussian.
    """

    budget: Budget
    noise: Laplace | Gaussian

    def release(self, releaser: Releaser, true: TrueBits, x: Array) -> Array:
        """The noisy gradient at x, on observed entries."""
        link, clamp = self.budget.link, self.budget.clamp
        one, zero = (np.clip(slope, -clamp, clamp) for slope in (-link.log_slope(x), link.log_slope(-x)))
        return releaser.release_entries(GRADIENT, self.budget.two_valued(one, zero, FINEST), true.bits, self.noise)


def descend(
    releaser: Releaser, true: TrueBits, gradients: Gradients, *, radius: float, steps: int, alpha: float | None
) -> Completed:
    """The mean of the later half of `steps` iterates, each after a projected step of length 1 / curvature / step.

    They are in the nuclear-norm ball and, if `alpha` is given, in the box.
    """
    cells, rng = true.cells, np.random.default_rng(SEED)
    now, found = Factored.zeros(cells.shape), list[Factored]()
    with single_threaded_blas():
        for step in range(1, steps + 1):
            slopes = gradients.release(releaser, true, now.at(cells.rows, cells.columns))
            length = 1 / (gradients.budget.link.curvature * step)
            moved = Moved(now, csr_array((-length * slopes, (cells.rows, cells.columns)), shape=cells.shape))
            if alpha is None:
                now = nuclear_ball(moved, radius, now, rng, MAX_RANK)
            else:
                now = intersection(moved.dense(), radius, alpha, precise=1e-4, sweeps=SWEEPS)[0]
            if 2 * step > steps:
                found.append(now)
        matrix = _mean(found)
    return Completed(Effects.none(cells.shape), matrix, usual_penalty(matrix))


def _mean(found: list[Factored]) -> Factored:
    """The mean of some matrices, factored again."""
    left = np.hstack([one.left * one.values for one in found])
    right = np.hstack([one.right for one in found])
    (q, a), (p, b) = np.linalg.qr(left), np.linalg.qr(right)
    outer, values, inner = np.linalg.svd(a @ b.T / len(found))
    kept = int(np.count_nonzero(values > 1e-12 * values.max(initial=1e-300)))
    return Factored((q @ outer)[:, :kept], values[:kept], (p @ inner.T)[:, :kept])


def usual_penalty(matrix: Factored) -> float:
    """1 / the mean square of what users' vectors, the left singular vectors times the roots of the values, have."""
    return matrix.shape[0] / float(matrix.values.mean()) if matrix.rank else 1.0
