"""The n best items of many users, in bounded memory: blocks of scores, filtered and partly sorted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.data.interactions import Interactions
from discreet.linalg.threads import over_blocks
from discreet.linalg.topk import top_k

Array = NDArray[Any]

SCORE_BYTES = 1 << 22  # of scores at a time and thread
FEWEST, MOST = 8, 1024  # users whose scores are computed at once


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

    def scores(self, vectors: Array, rows: slice, histories: Interactions, exclude_seen: bool) -> Array:
        """Scores (users, candidates) of some users, minus infinity for what they have seen."""
        scores: Array = vectors[rows] @ self.columns.T
        scores += self.base
        counts = np.diff(histories.indptr[rows.start : rows.stop + 1])
        scores[counts == 0] = self.cold
        if self.doubt is not None:
            caution, variances = self.doubt
            scores -= caution * deviations(vectors[rows], variances)
        if exclude_seen:
            seen = histories.indices[histories.indptr[rows.start] : histories.indptr[rows.stop]]
            owner = np.repeat(np.arange(len(counts)), counts)
            if self.candidates is not None:
                place = np.searchsorted(self.candidates, seen)
                found = np.append(self.candidates, -1)[place] == seen
                owner, seen = owner[found], place[found]
            scores[owner, seen] = -np.inf
        return scores

    def numbers(self, places: Array) -> Array:
        """The item numbers of places among the candidates; -1 stays."""
        return places if self.candidates is None else np.append(self.candidates, -1)[places]


def deviations(vectors: Array, variances: Array) -> Array:
    """Standard deviations (users, items) of base + vector . column, if that is how surely base and column are known."""
    found: Array = np.sqrt(variances[:, 0] + vectors**2 @ variances[:, 1:].T)
    return found


def best(
    scorer: Scorer, vectors: Array, histories: Interactions, *, n: int, exclude_seen: bool, n_jobs: int | None
) -> Iterator[tuple[Array, Array]]:
    """Item numbers and scores (users, n) of blocks of users, in their order; number -1 where a list is shorter."""
    wide = max(1, len(scorer.base) * vectors.itemsize)
    height = int(np.clip(SCORE_BYTES // wide, FEWEST, MOST))

    def work(start: int) -> tuple[Array, Array]:
        rows = slice(start, min(start + height, len(vectors)))
        places, scores = top_k(scorer.scores(vectors, rows, histories, exclude_seen), n)
        return scorer.numbers(places), scores

    return over_blocks(work, range(0, max(len(vectors), 1), height), n_jobs)
