"""The output mechanism: noise on the completed matrix, whose objective is made strongly convex so that it is stable."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.completion.cells import fine_grid
from discreet.completion.one_bit.box import intersection
from discreet.completion.one_bit.calibration import SHORT, shortened
from discreet.completion.one_bit.certified import StronglyConvex
from discreet.completion.one_bit.fitting import MAX_RANK, Completed, Effects
from discreet.completion.one_bit.gradients import usual_penalty
from discreet.completion.one_bit.likelihood import FlippedBits
from discreet.completion.one_bit.links import Link
from discreet.completion.one_bit.mechanisms import TrueBits
from discreet.completion.one_bit.projections import trimmed
from discreet.completion.one_bit.solver import Problem, minimise
from discreet.linalg.threads import single_threaded_blas
from discreet.privacy import Cost, Gaussian, GridArray, L2Laplace, Laplace
from discreet.privacy.ledger import Reservation

Array = NDArray[Any]

OUTPUT = "completed matrix"
SLACK = 0.01  # of the sensitivity, for what the solver leaves
UP = 1 + 2.0**-20  # for the rounding of floats, in the solver and here
ABOVE = 1.2  # times the singular value that noise has: what stands out of it
SWEEPS = 20  # of the projection after the noise, at most: it need not be precise


def with_noise(reservation: Reservation, matrix: Array, distance: float, cost: Cost) -> tuple[Array, float]:
    """Release a matrix that neighbours move by at most `distance`, in the Frobenius norm, with the noise of a cost.

    Returns it, and the standard deviation of the noise. A Gaussian cost pays for Gaussian noise, a pure one for noise N
    of density exp(-epsilon |N| / distance).
    """
    entries = math.prod(matrix.shape)
    grid = fine_grid(_deviation(_noise(cost, distance)[1], entries), distance)
    # Each entry is rounded to the nearest cell, in both worlds: that moves them apart by a cell in each entry, at most.
    declared, noise = _noise(cost, (distance + grid.step * math.sqrt(entries)) * UP)
    on_grid = GridArray(np.rint(matrix / grid.step).astype(np.int64), grid)
    return reservation.release(on_grid, declared, noise, OUTPUT), _deviation(noise, entries)


def _noise(cost: Cost, sensitivity: float) -> tuple[float, L2Laplace | Gaussian]:
    """The least noise that a cost pays for, and what is declared as the sensitivity: this or a hair above."""
    if cost.gaussian:
        return sensitivity, Gaussian.for_cost(cost, sensitivity=sensitivity)
    return laplace_for(cost, sensitivity)


def laplace_for(cost: Cost, sensitivity: float) -> tuple[float, L2Laplace]:
    """Noise whose cost is this `pure_cost` to the last digit, as plans need it; at this sensitivity or a hair above."""
    scale = -shortened(-sensitivity / cost.pure, SHORT + 4)  # rounded up: the product is exact in a float's 53 digits
    return scale * cost.pure, L2Laplace(scale)


def _deviation(noise: L2Laplace | Gaussian, entries: int) -> float:
    return noise.std(entries) if isinstance(noise, L2Laplace) else noise.std


def projected(noisy: Array, std: float, radius: float, alpha: float) -> Completed:
    """What is left of a noisy matrix in the ball and the box: post-processing.

    Singular values are first lowered by what noise alone has, which is near std (sqrt(d1) + sqrt(d2)).
    """
    left, values, right = np.linalg.svd(noisy, full_matrices=False)
    values = np.maximum(values - ABOVE * std * (math.sqrt(noisy.shape[0]) + math.sqrt(noisy.shape[1])), 0.0)
    matrix = intersection((left * values) @ right, radius, alpha, precise=1e-4, sweeps=SWEEPS)[0]
    return Completed(Effects.none(noisy.shape), matrix, usual_penalty(matrix))


@dataclass(frozen=True)
class Stable:
    """The optimum of a strongly convex fit, nearly, plus noise.

    Attributes:
        fit: Of the true bits.
        entries: How many of them may change.
    """

    fit: StronglyConvex
    entries: int

    @property
    def distance(self) -> float:
        """How far apart neighbours' matrices are, at most: what their optima are, and what the solver leaves of it."""
        return self.fit.sensitivity(self.entries) * (1 + SLACK) * UP

    @property
    def gap(self) -> float:
        """The gap at which a matrix is within SLACK / 2 of that distance from the optimum."""
        return self.fit.ridge / 2 * (SLACK / 2 * self.fit.sensitivity(self.entries)) ** 2

    def solve(self, true: TrueBits) -> Array:
        """The matrix, with all its entries. Private."""
        return self.fit.solve(true, 0.0, self.gap)

    def release(self, reservation: Reservation, true: TrueBits, cost: Cost) -> Completed:
        """The matrix with noise on every entry, and projected again."""
        with single_threaded_blas():
            noisy, std = with_noise(reservation, self.solve(true), self.distance, cost)
            return projected(noisy, std, self.fit.radius, self.fit.alpha)


def as_printed(
    reservation: Reservation, true: TrueBits, noise: Laplace, *, link: Link, radius: float, alpha: float
) -> Completed:
    """Algorithm 4: the maximum likelihood estimate plus noise, as it is. Not private.

    It is for a change of 2 alpha in all, which is what one entry can change by; a flip may change all of them.
    """
    with single_threaded_blas():
        problem = Problem(true.cells, FlippedBits(true.bits, link), radius, alpha=alpha, max_rank=MAX_RANK)
        found = minimise(problem).matrix.dense()
        grid = noise.grid()
        on_grid = GridArray(np.rint(found / grid.step).astype(np.int64), grid)
        left, values, right = np.linalg.svd(reservation.release(on_grid, 2 * alpha, noise, OUTPUT), full_matrices=False)
        matrix = trimmed(left, values, right.T)
    return Completed(Effects.none(true.cells.shape), matrix, usual_penalty(matrix))
