"""The n best items of many users, in bounded memory: blocks of scores, filtered and partly sorted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.data.interactions import Interactions
from discreet.linalg.arrays import NUMPY, Arrays
from discreet.linalg.products import Columns
from discreet.kernels.threads import over_blocks
from discreet.typing import Array

Variance: TypeAlias = tuple[float, Array] | None  # c, and the variances (items, 1 + k) of base and columns

FEW = 4  # candidates are few if there are so many times more items: then their columns are laid out anew


@dataclass(frozen=True)
class Scorer:
    """Scores of users for the items that may be recommended: users' vectors times columns, plus a base.

    A user's scores are a function of the vector and history of that user alone, to the last bit (see `Columns`): the
    products have one shape, and all else is done entry by entry.

    Attributes:
        columns: Of the candidates.
        base: The score of each candidate before anything is known of the user; `Columns.widened`. Minus infinity: it is
            no candidate after all.
        cold: The scores of each candidate for a user without a history; `Columns.widened` too.
        candidates: Their item numbers, increasing; None: every item.
        variance: None; or c and the variances of base and of columns: c standard deviations are taken from scores.
    """

    columns: Columns
    base: Array
    cold: Array
    candidates: Array | None = None
    variance: tuple[float, Array, Columns] | None = None

    @classmethod
    def of(cls, columns: Array, base: Array, cold: Array, variance: Variance = None, arrays: Arrays = NUMPY) -> Scorer:
        """For all items."""
        own, variances = Columns(columns, arrays), None
        if variance is not None:
            known = variance[1].astype(columns.dtype, copy=False)
            variances = variance[0], np.maximum(own.widened(known[:, 0]), 0), Columns(known[:, 1:], arrays)
        return cls(own, own.widened(base), own.widened(cold), None, variances)

    def among(self, allowed: NDArray[np.bool_] | None) -> Scorer:
        """Only the items where `allowed` is true; None: all."""
        if allowed is None or allowed.all():
            return self
        at = np.flatnonzero(allowed)
        if FEW * len(at) > len(allowed):
            base, cold = (np.full_like(self.base, -np.inf) for _ in range(2))
            base[at], cold[at] = self.base[at], self.cold[at]
            return replace(self, base=base, cold=cold)
        some = self.columns.some(at)
        variance = None
        if self.variance is not None:
            caution, of_base, of_columns = self.variance
            variance = caution, np.maximum(some.widened(of_base[at]), 0), of_columns.some(at)
        return Scorer(some, some.widened(self.base[at]), some.widened(self.cold[at]), at, variance)

    def scores(self, vectors: Array, rows: slice, histories: Interactions, exclude_seen: bool) -> Any:
        """Scores (users, candidates) of some users, where `arrays` has them; minus infinity for what they have seen."""
        arrays = self.columns.arrays
        own = arrays.put(vectors[rows])
        scores = self.columns.times(own, "scores")
        scores += arrays.put(self.base)
        counts = np.diff(histories.indptr[rows.start : rows.stop + 1])
        scores[arrays.put(counts == 0)] = arrays.put(self.cold)
        if self.variance is not None:
            caution, base, columns = self.variance
            variances = columns.times(own**2, "variances")
            variances += arrays.put(base)
            scores -= caution * variances**0.5
        if exclude_seen:
            seen = histories.indices[histories.indptr[rows.start] : histories.indptr[rows.stop]].astype(np.int64)
            owner = np.repeat(np.arange(len(counts)), counts)
            if self.candidates is not None:
                place = np.searchsorted(self.candidates, seen)
                found = np.append(self.candidates, -1)[place] == seen
                owner, seen = owner[found], place[found]
            scores[arrays.put(owner), arrays.put(seen)] = -np.inf
        return scores

    def numbers(self, places: Array) -> Array:
        """The item numbers of places among the candidates; -1 stays."""
        return places if self.candidates is None else np.append(self.candidates, -1)[places]


def deviations(vectors: Any, variances: Any) -> Any:
    """Standard deviations (users, items) of base + vector . column, if that is how surely base and column are known."""
    return (variances[:, 0] + vectors**2 @ variances[:, 1:].T) ** 0.5


def best(
    scorer: Scorer, vectors: Array, histories: Interactions, *, n: int, exclude_seen: bool, n_jobs: int | None
) -> Iterator[tuple[Array, Array]]:
    """Item numbers and scores (users, n) of blocks of users, in their order; number -1 where a list is shorter."""
    arrays, wide = scorer.columns.arrays, max(1, len(scorer.base) * vectors.itemsize)
    few = arrays.tile[0]
    height = max(1, min(arrays.scores[0] // wide, arrays.scores[1]) // few) * few

    def work(start: int) -> tuple[Array, Array]:
        rows = slice(start, min(start + height, len(vectors)))
        places, scores = arrays.top_k(scorer.scores(vectors, rows, histories, exclude_seen), n)
        return scorer.numbers(places), scores

    return over_blocks(work, range(0, max(len(vectors), 1), height), n_jobs if arrays is NUMPY else 1)
