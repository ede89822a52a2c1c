"""How popular items are, weighted by how much they are liked, from all releases that say something about it.

Let c_j be the popularity of item j, and b_j the mean deviation of its ratings from their users' means. Users' graded
weights of the item add up to about c_j (1 + SLOPE b_j) / sqrt(1 + SLOPE^2), with sampling noise from single ratings.
Where ratings differ between items, releases of graded weights estimate this product best; where they do not, grades
only add noise to the counts. The posterior variance of b_j decides how informative each release is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from discreet.models.grading import SLOPE
from discreet.models.taste import LIST
from discreet.privacy.releaser import Noisy, mean_of
from discreet.typing import Array

NORM = math.hypot(1, SLOPE)  # about the norm of a user's grades, relative to that of as many ones
DRAWS = 64  # simulated draws from the posterior


@dataclass(frozen=True)
class Liked:
    """A Gaussian posterior of the popularity of liked items.

    Attributes:
        counts: c_j, as released.
        offset: b_j, in the unit of grades, estimated from ratings.
        variance: The posterior variance of the offset.
        squares: Approximately, the sum over users of their squared weights.
        graded: The product, as released; None if it has not been released.
    """

    counts: Noisy
    offset: Array
    variance: Array
    squares: Array
    graded: Noisy | None = None

    def with_counts(self, releases: Sequence[Noisy]) -> Liked:
        """Add further releases of the counts."""
        return replace(self, counts=mean_of([self.counts, *releases]))

    def with_graded(self, releases: Sequence[Noisy]) -> Liked:
        """Add further releases of graded weights."""
        before = [] if self.graded is None else [self.graded]
        return replace(self, graded=mean_of([*before, *releases]))

    @property
    def popularity(self) -> Noisy:
        """The best estimate of the product, and the noise of the releases in it."""
        share, graded = self._share, self._graded
        values = share * self._grade * self.counts.values + (1 - share) * graded.values
        noise = np.hypot(share * self._grade * self.counts.std, (1 - share) * graded.std)
        return Noisy(values, float(np.sqrt(np.mean(noise**2))))

    def gains_from_grades(self, std: float) -> bool:
        """Whether another release, with this noise, is more informative if it is of graded weights."""
        counts, graded, new = self.counts.std**-2, self._precision, std**-2
        weights = np.maximum(self.counts.values, 0)

        def error(counts: float, graded: float) -> float:
            precision = 1 / self._of_counts(counts**-0.5)
            if graded:
                precision = precision + 1 / self._of_graded(graded**-0.5)
            return float(weights @ (1 / precision))

        return error(counts, graded + new) < error(counts + new, graded)

    def trails(self, std: float) -> bool:
        """Whether counts alone, with noise of this size, are expected to make better lists of popular items.

        This is simulated from public numbers: the true values of items are drawn from the posterior.
        """
        n, rng = min(LIST, len(self.offset) // 2), np.random.default_rng(0)
        z = rng.standard_normal((4, DRAWS, len(self.offset)))
        share, graded, grade = self._share, self._graded, np.maximum(self._grade, 1e-9)
        counted, offset = self.counts.std * z[0], np.sqrt(self._variance) * z[1]
        rated = np.sqrt(self._of_graded(graded.std)) * z[2] + offset  # the graded sums' error beside that of counts
        own = self.popularity.values
        liked = own - share * (grade * counted - offset) - (1 - share) * (rated - offset)
        # The counts, estimated from both releases.
        by_counts = (self.counts.std * grade) ** -2
        by_graded = self._precision and 1 / (self._of_graded(graded.std) + self._variance)
        part = by_counts / (by_counts + by_graded)
        counts = part * (self.counts.values - counted) + (1 - part) * (graded.values - rated) / grade
        theirs = np.argpartition(-(counts + std * z[3]), n - 1, axis=1)[:, :n]
        ours = np.argpartition(-own, n - 1)[:n]
        return bool(np.take_along_axis(liked, theirs, axis=1).sum() > liked[:, ours].sum())

    # -- the parts of the posterior

    @property
    def _precision(self) -> float:
        """The precision of the graded sums as to the noise of their release; 0 without them."""
        return 0.0 if self.graded is None else self.graded.std**-2

    @property
    def _graded(self) -> Noisy:
        """The graded sums, or zeros, which have no weight."""
        return Noisy(np.zeros(len(self.offset)), 0.0) if self.graded is None else self.graded

    @property
    def _share(self) -> Array:
        """The weight of the estimate from counts."""
        if self.graded is None:
            return np.ones(len(self.offset))
        counts, graded = self._of_counts(self.counts.std), self._of_graded(self.graded.std)
        return np.asarray(graded / (counts + graded))

    @cached_property
    def _grade(self) -> Array:
        """The factor of an item's counts in the product."""
        return np.asarray(np.maximum(1 + SLOPE * self.offset, 0) / NORM)

    @cached_property
    def _expected(self) -> Array:
        """The variance of the product that is due to the uncertainty of the offsets."""
        precise, grade = self.counts.std**-2, np.maximum(self._grade, 1e-9)
        counts = precise * self.counts.values + self._precision * grade * self._graded.values
        counts = np.maximum(counts / (precise + self._precision * grade**2), 0)
        return np.asarray((SLOPE / NORM * counts) ** 2 * self.variance)

    @cached_property
    def _variance(self) -> Array:
        """The same, times a factor fitted to the two releases' differences, with prior mean 1 and variance 1."""
        expected = self._expected
        if self.graded is None:
            return expected
        noise = (self._grade * self.counts.std) ** 2 + self._of_graded(self.graded.std)
        weights = expected / (expected + noise) ** 2
        excess = (self.graded.values - self._grade * self.counts.values) ** 2 - noise
        size = float(weights @ expected)
        evidence = size**2 / max(2 * float(((weights * (expected + noise)) ** 2).sum()), 1e-300)
        found = float(weights @ excess) / max(size, 1e-300)
        return np.asarray(expected * max((found * evidence + 1) / (evidence + 1), 0.0))

    def _of_counts(self, std: float) -> Array:
        """The variance of an estimate from counts with this noise."""
        return (self._grade * std) ** 2 + self._variance

    def _of_graded(self, std: float) -> Array:
        """The variance of an estimate from graded weights with this noise."""
        return np.asarray(std**2 + (SLOPE / NORM) ** 2 * self.squares)
