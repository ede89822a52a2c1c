"""The private side of cleansed spectral models: what users compute from their own ratings and public numbers.

A user's sums are added up in the order of their items, so that no bit of their row depends on other rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from discreet.data.interactions import Interactions
from discreet.engine.batches import DENSE_CELLS, equal_weights, on_items, user_batches
from discreet.models.eigen import frequent_items, places
from discreet.models.shrinkage import item_offsets
from discreet.models.spectral.estimate import Cleansed, over_weights
from discreet.privacy import GramSum, Releaser, VectorSum
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array

SUMS, COUNTS = "item sums of ratings", "item counts"
COVARIANCE, WEIGHTS = "weighted covariance of ratings", "weights of the covariance"


@dataclass(frozen=True)
class Cleansing:
    """How users compute contributions, after McSherry and Mironov (2009). Proof: docs/proofs/cleansed-svd.md.

    A user with c ratings adds c^-1/2 to the count of an item, and c^-1/2 (y_j - their own shrunken mean) to its sum.
    Then r_j is the rating minus the resulting average of the item and the user's own shrunken mean. On the frequent
    items, of which they have d, they add r r^T / d to the covariance and e e^T / d to the weights, with e_j = 1.
    Distances from means are clamped to [-clamp, clamp], and their root mean square is at most `spread`. So each
    contribution is bounded for any c and d.
    """

    centre: float  # the value that a user's own mean is shrunk to
    shrinkage: float  # the number of pseudo-ratings of that value
    clamp: float  # B
    spread: float  # Q

    @property
    def bound(self) -> float:
        """The bound on the root mean square of a user's r."""
        return min(self.clamp, self.spread)

    def run(self, releaser: Releaser, ratings: Interactions, n_users: float) -> Cleansed:
        """Make all releases, given the approximate number of users. Returns estimates from them."""
        m, users = ratings.n_items, user_batches(ratings)
        counts = releaser.release(COUNTS, VectorSum(m, 1.0, nonnegative=True), users, equal_weights)
        about = partial(on_items, partial(self.left, np.full(m, self.centre)), np.arange(m))
        sums = releaser.release(SUMS, VectorSum(m, self.bound), users.map(about), weighted)
        averages = self.centre + item_offsets(sums, counts, self.bound, n_users)
        items = frequent_items(counts, releaser.noise(COVARIANCE, GramSum(1, 1.0)).std)
        n = len(items)
        left = partial(on_items, partial(self.left, averages), places(items, m))
        some = user_batches(ratings, max(DENSE_CELLS // n, 1)).map(left)
        weights = releaser.release(WEIGHTS, GramSum(n, 1.0), some, equal_weights)
        covariance = releaser.release(COVARIANCE, GramSum(n, self.bound**2), some, weighted)
        return Cleansed(averages, counts.values, items, *over_weights(covariance, weights, self.bound**2))

    def left(self, averages: Array, part: UserBatch) -> Array:
        """The r of some users. Sums are over one user's ratings, in order."""
        about = part.values.astype(np.float64) - averages[part.indices]
        about -= (part.row_sums(about) / np.maximum(part.counts + self.shrinkage, 1))[part.owners]
        return np.clip(about, -self.clamp, self.clamp)


def weighted(part: UserBatch) -> Array:
    """Users' values divided by the root of their number."""
    return np.asarray(part.values * equal_weights(part))
