"""Cleansing (McSherry and Mironov 2009): item averages, ratings without them, and how these vary together.

Four sums over users are released; docs/proofs/cleansed-svd.md proves how far one user moves them. Functions of a `part`
are the private side: one user's own ratings and public numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.linalg import eigh

from discreet.data.interactions import Interactions
from discreet.engine import Blocks
from discreet.engine.batches import DENSE_CELLS, user_batches
from discreet.kernels.threads import single_threaded_blas
from discreet.models.als.sampling import uniform
from discreet.models.directions import noise_edge
from discreet.privacy import GramSum, Noisy, Releaser, VectorSum
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array

SUMS, COUNTS = "item sums of ratings", "item counts"
COVARIANCE, WEIGHTS = "weighted covariance of ratings", "weights of the covariance"
TRUST = 4.0  # times a rating's variance: how large the noise of a covariance's eigenvalues may get by dividing
LEAST_VARIANCE = 0.05  # of an item, relative to the largest covariance
MOST_COLUMNS = 128  # that the similarities are kept in: all of them, for up to so many items


@dataclass(frozen=True)
class Cleansed:
    """What is public after cleansing.

    Attributes:
        averages: Of the items' ratings, stabilized.
        counts: The released counts.
        covariance: Of users' centered ratings of each two items, with noise.
        edge: (About) the largest eigenvalue of that noise.
    """

    averages: Array
    counts: Array
    covariance: Array
    edge: float


@dataclass(frozen=True)
class Cleansing:
    """How users prepare what is added up.

    A user with c ratings adds c^-1/2 (y_j - middle) to the sum of an item, c^-1/2 to its count. They subtract the
    averages that follow and their own damped mean, and clamp what is left to [-clamp, clamp], r_j. With e_j = 1 on
    their items, they add r r^T / c to the covariance, where r / sqrt(c) is shortened to `spread`, and e e^T / c to the
    weights. So each contribution is bounded for any c. As published, for single entries in place of users, they add
    y_j - middle and 1, and r r^T / sqrt(c), e e^T / sqrt(c), for at most `cap` ratings.

    Attributes:
        middle: Of the range of ratings.
        half: Half the width of that range, R.
        clamp: B.
        spread: The largest root mean square of r that counts.
        damping: Ratings at the average that a user's own mean is taken with.
        cap: k, the most ratings of a user; None: any number.
        entry_level: Whether weights are those that were published.
    """

    middle: float
    half: float
    clamp: float
    spread: float
    damping: float
    cap: int | None = None
    entry_level: bool = False

    @property
    def bounds(self) -> dict[str, float]:
        """The largest L2 norm of a user's contribution to each release."""
        root, variance = 1.0, min(self.clamp, self.spread) ** 2
        if self.entry_level:
            assert self.cap is not None
            root, variance = self.cap**0.5, self.clamp**2
        return {COUNTS: root, SUMS: root * self.half, WEIGHTS: root, COVARIANCE: root * variance}

    def run(self, releaser: Releaser, ratings: Interactions) -> Cleansed:
        """All releases, and what follows from them."""
        n, bounds = ratings.n_items, self.bounds
        few = max(DENSE_CELLS // n, 1)
        users, some = self._users(ratings), self._users(ratings, few)
        counts = releaser.release(COUNTS, VectorSum(n, bounds[COUNTS], cone="nonnegative"), users, self._shares)
        sums = releaser.release(SUMS, VectorSum(n, bounds[SUMS]), users, self._centered)
        averages = self._averages(sums, counts)
        weights = releaser.release(WEIGHTS, GramSum(n, bounds[WEIGHTS]), some, self._indicators)
        residuals = partial(self._residuals, averages)
        covariance = releaser.release(COVARIANCE, GramSum(n, bounds[COVARIANCE]), some, residuals)
        return Cleansed(averages, counts.values, *self._ratio(covariance, weights))

    # One user

    def _users(self, ratings: Interactions, most_users: int | None = None) -> Blocks[UserBatch]:
        return user_batches(ratings, most_users).map(self._capped)

    def _capped(self, part: UserBatch) -> UserBatch:
        if self.cap is None:
            return part
        kept = uniform(part, self.cap, seed=0)
        counts = np.bincount(part.owners[kept], minlength=len(part.counts))
        return UserBatch(np.concatenate([[0], np.cumsum(counts)]), part.indices[kept], part.values[kept])

    def _shares(self, part: UserBatch) -> Array:
        powers = np.maximum(part.counts, 1) ** (0.0 if self.entry_level else -0.5)
        return np.asarray(powers[part.owners])

    def _centered(self, part: UserBatch) -> Array:
        return np.clip(part.values.astype(np.float64) - self.middle, -self.half, self.half) * self._shares(part)

    def _residuals(self, averages: Array, part: UserBatch) -> Array:
        """What some users have of sqrt(w) r. Sums are over one user's ratings, in their order."""
        about = part.values.astype(np.float64) - averages[part.indices]
        about -= (part.row_sums(about) / np.maximum(part.counts + self.damping, 1))[part.owners]
        return np.clip(about, -self.clamp, self.clamp) * self._indicators(part)

    def _indicators(self, part: UserBatch) -> Array:
        """What some users have of sqrt(w) e."""
        roots = np.maximum(part.counts, 1) ** (-0.25 if self.entry_level else -0.5)
        return np.asarray(roots[part.owners])

    # From releases alone

    def _averages(self, sums: Noisy, counts: Noisy) -> Array:
        """Averages, pulled to the global one by as many ratings as the noise of a count may stand for."""
        totals, known = float(sums.values.sum()), np.maximum(counts.values, 0)
        everywhere = np.clip(totals / max(float(known.sum()), counts.std), -self.half, self.half)
        about = (sums.values + counts.std * everywhere) / (known + counts.std)
        return np.asarray(self.middle + np.clip(about, -self.half, self.half))

    def _ratio(self, covariance: Noisy, weights: Noisy) -> tuple[Array, float]:
        """The covariance divided by its weights, and the edge of the noise that it then has.

        Weights are taken to be at least what keeps the edge within some ratings' variance: pairs of items that few
        users have rated are taken to vary independently. Noise whose standard deviation differs by entry has an edge
        of about twice the largest length of a row of these.
        """
        n, variance = len(weights.values), min(self.clamp, self.spread) ** 2
        least = weights.std + float(noise_edge(covariance.std, n)) / (TRUST * variance)
        divisors = np.maximum(weights.values, least)
        lengths = np.sqrt(((covariance.std / divisors) ** 2).sum(axis=1) / 2)
        return covariance.values / divisors, 2 * float(lengths.max())


def similarities(covariance: Array, neighbours: int) -> Array:
    """Item-item cosines; for each item only those of its nearest neighbors, divided by the sum of their sizes."""
    least = LEAST_VARIANCE * float(np.abs(covariance).max())
    k = min(neighbours, len(covariance) - 1)
    if k < 1 or not least:
        return np.zeros_like(covariance)
    deviations = np.sqrt(np.maximum(np.diag(covariance), least))
    cosines = np.clip(covariance / deviations / deviations[:, None], -1, 1)
    np.fill_diagonal(cosines, 0)
    far = np.argpartition(-np.abs(cosines), k - 1, axis=1)[:, k:]
    np.put_along_axis(cosines, far, 0.0, axis=1)
    sums = np.abs(cosines).sum(axis=1, keepdims=True)
    return np.asarray(np.divide(cosines, sums, out=np.zeros_like(cosines), where=sums > 0))


def factored(matrix: Array) -> tuple[Array, Array]:
    """Vectors x_j and q_l whose inner products are the matrix: exactly, or for many items as nearly as possible."""
    n = len(matrix)
    with single_threaded_blas():
        right = eigh(matrix.T @ matrix, subset_by_index=[max(n - MOST_COLUMNS, 0), n - 1])[1]
        return matrix @ right, right
