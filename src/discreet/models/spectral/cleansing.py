"""Cleansing (McSherry and Mironov 2009): item averages, ratings without them, and how these vary together.

Four sums over users are released; docs/proofs/cleansed-svd.md proves how far one person moves them. Functions of a
`part` are the private side: one user's own ratings and what is public.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from discreet.data.interactions import Interactions
from discreet.engine import Blocks
from discreet.engine.batches import DENSE_CELLS, user_batches
from discreet.errors import DataError
from discreet.models.als.sampling import uniform
from discreet.models.directions import noise_edge
from discreet.privacy import GramSum, Noisy, Releaser, VectorSum
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array

SUMS, COUNTS = "item sums of ratings", "item counts"
COVARIANCE, WEIGHTS = "weighted covariance of ratings", "weights of the covariance"
MOST_ITEMS = 8000  # of which two dense covariances fit in memory, and have eigenvectors within minutes
TRUST = 4.0  # times a rating's variance: how large the noise of a covariance's eigenvalues may get by dividing


@dataclass(frozen=True)
class Bounds:
    """The L2 norm of a user's contribution to each release."""

    sums: float
    counts: float
    covariance: float
    weights: float


@dataclass(frozen=True)
class Cleansed:
    """What is public after cleansing.

    Attributes:
        averages: Of the items' ratings, stabilised.
        counts: The released counts.
        covariance: Of users' centred ratings of each two items, with noise.
        edge: (About) the largest eigenvalue of that noise.
    """

    averages: Array
    counts: Array
    covariance: Array
    edge: float


@dataclass(frozen=True)
class Cleansing:
    """How users prepare what is added up.

    A user with c ratings adds c^-1/2 (y_j - middle) to the sum of an item, c^-1/2 to its count. From the averages that
    follow, she takes her own damped mean and clamps what is left to [-clamp, clamp], r_j. With e_j = 1 on her items,
    her part of the covariance is r r^T / c, where r / sqrt(c) is shortened to `spread`; of the weights e e^T / c. So
    each contribution is bounded whatever c is. As published, for single entries in the place of users, she adds
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
    def bounds(self) -> Bounds:
        """How long a user's contributions are at most."""
        if not self.entry_level:
            return Bounds(self.half, 1.0, min(self.clamp, self.spread) ** 2, 1.0)
        assert self.cap is not None
        root = self.cap**0.5
        return Bounds(root * self.half, root, root * self.clamp**2, root)

    def run(self, releaser: Releaser, ratings: Interactions) -> Cleansed:
        """All releases, and what follows from them."""
        n, bounds = ratings.n_items, self.bounds
        few = max(DENSE_CELLS // n, 1)
        users, some = self._users(ratings), self._users(ratings, few)
        counts = releaser.release(COUNTS, VectorSum(n, bounds.counts, cone="nonnegative"), users, self._shares)
        sums = releaser.release(SUMS, VectorSum(n, bounds.sums), users, self._centred)
        averages = self._averages(sums, counts)
        weights = releaser.release(WEIGHTS, GramSum(n, bounds.weights), some, self._indicators)
        covariance = releaser.release(
            COVARIANCE, GramSum(n, bounds.covariance), some, partial(self._residuals, averages)
        )
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
        shares: Array = powers[part.owners]
        return shares

    def _centred(self, part: UserBatch) -> Array:
        return np.clip(part.values.astype(np.float64) - self.middle, -self.half, self.half) * self._shares(part)

    def _row_weights(self, part: UserBatch) -> Array:
        """The square root of w_u."""
        weights: Array = np.maximum(part.counts, 1) ** (-0.25 if self.entry_level else -0.5)
        return weights

    def _residuals(self, averages: Array, part: UserBatch) -> Array:
        """What some users have of sqrt(w) r. Sums are over one user's ratings, in their order."""
        about = part.values.astype(np.float64) - averages[part.indices]
        about -= (part.row_sums(about) / np.maximum(part.counts + self.damping, 1))[part.owners]
        return np.clip(about, -self.clamp, self.clamp) * self._indicators(part)

    def _indicators(self, part: UserBatch) -> Array:
        """What some users have of sqrt(w) e."""
        weights: Array = self._row_weights(part)[part.owners]
        return weights

    # Everybody: from releases alone

    def _averages(self, sums: Noisy, counts: Noisy) -> Array:
        """Averages, pulled to the global one by as many ratings as the noise of a count could feign."""
        totals, known = float(sums.values.sum()), np.maximum(counts.values, 0)
        everywhere = np.clip(totals / max(float(known.sum()), counts.std), -self.half, self.half)
        about = (sums.values + counts.std * everywhere) / (known + counts.std)
        averages: Array = self.middle + np.clip(about, -self.half, self.half)
        return averages

    def _ratio(self, covariance: Noisy, weights: Noisy) -> tuple[Array, float]:
        """The covariance divided by its weights, and the edge of the noise that it then has.

        Weights are taken to be at least what keeps the edge within some ratings' variance: pairs of items that hardly
        anybody has both of are taken to vary independently. Noise whose standard deviation differs by entry has an edge
        of about twice the largest length of a row of these.
        """
        n, variance = len(weights.values), min(self.clamp, self.spread) ** 2
        least = weights.std + float(noise_edge(covariance.std, n)) / (TRUST * variance)
        divisors = np.maximum(weights.values, least)
        lengths = np.sqrt(((covariance.std / divisors) ** 2).sum(axis=1) / 2)
        return covariance.values / divisors, 2 * float(lengths.max())


def check_catalogue(n_items: int) -> None:
    """Raise if a dense covariance of all items would not fit."""
    if n_items > MOST_ITEMS:
        raise DataError(
            f"ratings: a covariance of {n_items:,} items is too large; take a catalogue of at most {MOST_ITEMS:,}, or "
            "use discreet.DPALS"
        )
