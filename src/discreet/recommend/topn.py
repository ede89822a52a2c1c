"""The n best items of many users, in bounded memory: blocks of scores, filtered and partly sorted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.data.interactions import Interactions
from discreet.linalg.arrays import NUMPY, Arrays, arrays_on
from discreet.linalg.threads import over_blocks

Array = NDArray[Any]

FEWEST = 8  # users whose scores are computed at once


@dataclass(frozen=True)
class Scorer:
    """Scores of users for the items that may be recommended: users' vectors times columns, plus a base.

    Attributes:
        columns: (items, k), of the candidates alone.
        base: The score of each candidate before anything is known of the user.
        cold: The scores of each candidate for a user without a history.
        candidates: Their item numbers, increasing; None: every item.
        doubt: None; or c and variances (items, 1 + k) of base and columns: c standard deviations are taken from scores.
    """

    columns: Array
    base: Array
    cold: Array
    candidates: Array | None = None
    doubt: tuple[float, Array] | None = None

    def among(self, allowed: NDArray[np.bool_] | None) -> Scorer:
        """Only the items where `allowed` is true; None: all."""
        if allowed is None or allowed.all():
            return self
        at = np.flatnonzero(allowed)
        doubt = None if self.doubt is None else (self.doubt[0], self.doubt[1][at])
        return Scorer(self.columns[at], self.base[at], self.cold[at], at, doubt)

    def scores(
        self, vectors: Array, rows: slice, histories: Interactions, exclude_seen: bool, arrays: Arrays = NUMPY
    ) -> Any:
        """Scores (users, candidates) of some users, where `arrays` has them; minus infinity for what they have seen."""
        own = arrays.put(vectors[rows])
        scores = own @ arrays.put(self.columns).T
        scores += arrays.put(self.base)
        counts = np.diff(histories.indptr[rows.start : rows.stop + 1])
        scores[arrays.put(counts == 0)] = arrays.put(self.cold)
        if self.doubt is not None:
            caution, variances = self.doubt
            scores -= caution * deviations(own, arrays.put(variances))
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
    scorer: Scorer,
    vectors: Array,
    histories: Interactions,
    *,
    n: int,
    exclude_seen: bool,
    n_jobs: int | None,
    device: str = "cpu",
) -> Iterator[tuple[Array, Array]]:
    """Item numbers and scores (users, n) of blocks of users, in their order; number -1 where a list is shorter."""
    arrays, wide = arrays_on(device), max(1, len(scorer.base) * vectors.itemsize)
    height = int(np.clip(arrays.scores[0] // wide, FEWEST, arrays.scores[1]))

    def work(start: int) -> tuple[Array, Array]:
        rows = slice(start, min(start + height, len(vectors)))
        places, scores = arrays.top_k(scorer.scores(vectors, rows, histories, exclude_seen, arrays), n)
        return scorer.numbers(places), scores

    return over_blocks(work, range(0, max(len(vectors), 1), height), n_jobs if arrays is NUMPY else 1)
