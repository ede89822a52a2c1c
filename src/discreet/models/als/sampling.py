"""Which of their items a user takes part with, and with what weight: from their own row and public numbers alone.

Row numbers, user ids, other users' rows and the division of a table into batches do not matter: a user who is added,
removed or renumbered leaves the choices of all others unchanged, bit for bit. Choices are random by hashing the public
seed with the content of the row. Two users with the same row make the same choice, which does no harm: they are
protected by the bound on what a row can contribute, not by the randomness of the choice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.hashing import ODD, mixed
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array, Words


@dataclass(frozen=True)
class Sample(UserBatch):
    """Some users' rows as an item step takes them.

    Attributes:
        weights: Of each entry; None: all 1.
        own: The rows that the same users solve their own side from; None: the same rows.
        vectors: What they have solved, one row for each user; None before that.
    """

    weights: Array | None = None
    own: UserBatch | None = None
    vectors: Array | None = None

    def own_weights(self) -> Array:
        """The weight of each entry."""
        return np.ones(len(self.indices)) if self.weights is None else self.weights


def priorities(batch: UserBatch, seed: int) -> Words:
    """A random-looking word for each entry of each row, from the seed and the row's own items and values."""
    items = mixed((batch.indices.astype(np.uint64) + np.uint64(1)) * ODD + np.uint64(seed % 2**64))
    values = np.ascontiguousarray(batch.values, np.float64).view(np.uint64)
    row, filled = np.zeros(len(batch.counts), np.uint64), batch.counts > 0
    if filled.any():  # sums modulo 2^64: the same in any order
        row[filled] = np.add.reduceat(mixed(items + values * ODD), batch.indptr[:-1][filled])
    return mixed(items ^ np.repeat(mixed(row + ODD), batch.counts))


def _first(batch: UserBatch, keys: Array, k: int) -> NDArray[np.bool_]:
    """Which entries have the k smallest keys of their row; of equal keys the first item's counts as smaller."""
    order = np.lexsort((batch.indices, keys, batch.owners))
    chosen = np.empty(len(order), bool)
    chosen[order] = np.arange(len(order)) - np.repeat(batch.indptr[:-1], batch.counts) < k
    return chosen


def uniform(batch: UserBatch, k: int, seed: int) -> NDArray[np.bool_]:
    """Line 2 of Algorithm 2: k items of each user, all equally likely; all of them if there are no more."""
    return _first(batch, priorities(batch, seed), k)


def lowest(batch: UserBatch, k: int, counts: Array) -> NDArray[np.bool_]:
    """Line 5 of Algorithm 2: the k items of each user with the lowest noisy counts; of equal counts the first item."""
    return _first(batch, counts[batch.indices], k)


def weights(batch: UserBatch, k: int, counts: Array, exponent: float = 0.25) -> Array:
    """Adaptive weights (2023): count^-exponent, scaled so that the squares of each user's add up to k.

    There is no sampling: heavy users keep all their items, with small weights.
    """
    raw = (np.maximum(counts, 1.0) ** -exponent)[batch.indices]  # of public numbers: no bit depends on the users
    sums = batch.row_sums(raw**2).astype(np.float64)  # row sums of no entries are integers
    scale = np.sqrt(np.divide(float(k), sums, out=np.zeros_like(sums), where=sums > 0))
    scaled: Array = raw * scale[batch.owners]
    return scaled
