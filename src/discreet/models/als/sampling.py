"""Which of her items a user takes part with, and with what weight: decided from her own row and public numbers alone.

Row numbers, user ids, other people's rows and the cut of a table into parts do not enter: a user who comes or goes, or
is given another number, leaves the choices of all others as they were, bit for bit. Chance comes from hashing the
public seed with the content of the row. Two people with the same row make the same choice, which does no harm: what
protects them is the bound on what a row can contribute, not the luck of the draw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.engine import LocalBlocks
from discreet.linalg.hashing import ODD, mixed
from discreet.linalg.rows import blocks
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array, Words

USERS = 1 << 13  # in a block


@dataclass(frozen=True)
class Sample(UserBatch):
    """Users' rows as an item step sees them: with weights (None: all 1), and the number of the first user."""

    weights: Array | None = None
    first: int = 0

    def own_weights(self) -> Array:
        """The weight of each entry."""
        return np.ones(len(self.indices)) if self.weights is None else self.weights

    def map(self, make: Callable[[Sample], Sample]) -> Sample:
        """All users' rows, as `make` has them."""
        return make(self)

    def rows(self, first: int, last: int) -> Sample:
        """Some users, from `first` to before `last`."""
        begin, end = int(self.indptr[first]), int(self.indptr[last])
        weights = None if self.weights is None else self.weights[begin:end]
        indptr = self.indptr[first : last + 1] - begin
        return Sample(indptr, self.indices[begin:end], self.values[begin:end], weights, self.first + first)

    def blocks(self, users: int = USERS) -> Iterator[Sample]:
        """All users, some at a time; at least one block, perhaps of nobody."""
        n = len(self.indptr) - 1
        return (self.rows(first, min(first + users, n)) for first in range(0, max(n, 1), users))

    def batches(self, users: int = USERS) -> LocalBlocks[Sample]:
        """The same, to be added up."""
        return LocalBlocks(lambda: self.blocks(users))


def vectors_of(users: Any, part: Sample) -> Array:
    """The vectors of some users: from an array of all, or by a function of their rows."""
    found: Array = users(part) if callable(users) else users[part.first : part.first + len(part.counts)]
    return found


def priorities(part: UserBatch, seed: int) -> Words:
    """A random-looking word for each entry of each row, from the seed and the row's own items and values."""
    items = mixed((part.indices.astype(np.uint64) + np.uint64(1)) * ODD + np.uint64(seed % 2**64))
    values = np.ascontiguousarray(part.values, np.float64).view(np.uint64)
    row, filled = np.zeros(len(part.counts), np.uint64), part.counts > 0
    if filled.any():  # sums modulo 2^64: the same in any order
        row[filled] = np.add.reduceat(mixed(items + values * ODD), part.indptr[:-1][filled])
    return mixed(items ^ np.repeat(mixed(row + ODD), part.counts))


def _first(part: UserBatch, keys: Array, k: int) -> NDArray[np.bool_]:
    """Which entries have the k smallest keys of their row; of equal keys the first item's counts as smaller."""
    chosen, largest = np.ones(len(part.indices), bool), keys.max() if len(keys) else 0
    for block in blocks(part.indptr, 1, keys.itemsize):  # rows of about the same length, padded with the largest keys
        long = block.counts > k
        if not long.any():
            continue
        starts, counts, place = block.starts[long], block.counts[long], np.arange(block.length)
        there = place < counts[:, None]
        at = (starts[:, None] + place)[there]
        own = np.full(there.shape, largest, keys.dtype)
        own[there] = keys[at]
        kept = own <= np.partition(own, k - 1, axis=1)[:, k - 1 : k]
        for i in np.flatnonzero(np.count_nonzero(kept & there, axis=1) > k):  # keys as large as the kth: rare
            entries = slice(starts[i], starts[i] + counts[i])
            kept[i, np.lexsort((part.indices[entries], keys[entries]))[k:]] = False
        chosen[at] = kept[there]
    return chosen


def uniform(part: UserBatch, k: int, seed: int) -> NDArray[np.bool_]:
    """Line 2 of Algorithm 2: k items of each user, all equally likely; all of them if she has no more."""
    return _first(part, priorities(part, seed), k)


def lowest(part: UserBatch, k: int, counts: Array) -> NDArray[np.bool_]:
    """Line 5 of Algorithm 2: the k items of each user with the lowest noisy counts; of equal counts the first item."""
    return _first(part, counts[part.indices], k)


def weights(part: UserBatch, k: int, counts: Array, exponent: float = 0.25) -> Array:
    """Adaptive weights (2023): count^-exponent, scaled so that the squares of each user's add up to k.

    Nobody is sampled: heavy users keep all their items, with small weights.
    """
    raw = (np.maximum(counts, 1.0) ** -exponent)[part.indices]  # of public numbers: no bit depends on who is here
    sums = part.row_sums(raw**2).astype(np.float64)  # of no entries at all they are integers
    scale = np.sqrt(np.divide(float(k), sums, out=np.zeros_like(sums), where=sums > 0))
    scaled: Array = raw * scale[part.owners]
    return scaled
