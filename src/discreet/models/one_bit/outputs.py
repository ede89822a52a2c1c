"""The output mechanism: noise on the completed matrix, whose objective is made strongly convex so that it is stable."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from discreet.linalg.threads import single_threaded_blas
from discreet.models.one_bit.box import intersection
from discreet.models.one_bit.certified import StronglyConvex
from discreet.models.one_bit.contributions import TrueBits
from discreet.models.one_bit.fitting import MAX_RANK, Completed, Effects
from discreet.models.one_bit.gradients import usual_penalty
from discreet.models.one_bit.likelihood import FlippedBits
from discreet.models.one_bit.links import Link
from discreet.models.one_bit.projections import trimmed
from discreet.models.one_bit.solver import Problem, minimise
from discreet.privacy import Laplace, Releaser
from discreet.privacy.entries import AsPrinted, Minimizer
from discreet.typing import Array

OUTPUT = "completed matrix"
ABOVE = 1.2  # times the singular value that noise has: what stands out of it
SWEEPS = 20  # of the projection after the noise, at most: it need not be precise


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
    def statistic(self) -> Minimizer:
        """What is released."""
        bend, change = self.fit.link.least_bend(self.fit.alpha), self.fit.link.sensitivity(self.fit.alpha)
        return Minimizer(self.fit.ridge, self.fit.alpha, change, bend, self.entries)

    def solve(self, true: TrueBits) -> Array:
        """The matrix, with all its entries. Private."""
        return self.fit.solve(true, 0.0, self.statistic.gap)

    def release(self, releaser: Releaser, true: TrueBits) -> Completed:
        """The matrix with noise on every entry, and projected again."""
        with single_threaded_blas():
            noisy = releaser.release_matrix(OUTPUT, self.statistic, self.solve(true))
            return projected(noisy.values, noisy.std, self.fit.radius, self.fit.alpha)


def as_printed(
    releaser: Releaser, true: TrueBits, noise: Laplace, *, link: Link, radius: float, alpha: float
) -> Completed:
    """Algorithm 4: the maximum likelihood estimate plus noise, as it is. Not private.

    It is for a change of 2 alpha in all, which is what one entry can change by; a flip may change all of them.
    """
    with single_threaded_blas():
        problem = Problem(true.cells, FlippedBits(true.bits, link), radius, alpha=alpha, max_rank=MAX_RANK)
        found = minimise(problem).matrix.dense()
        noisy = releaser.release_entries(OUTPUT, AsPrinted(2 * alpha), found, noise)
        left, values, right = np.linalg.svd(noisy, full_matrices=False)
        matrix = trimmed(left, values, right.T)
    return Completed(Effects.none(true.cells.shape), matrix, usual_penalty(matrix))
