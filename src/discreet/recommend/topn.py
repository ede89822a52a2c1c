"""The n best items of many users: scores of all candidates, of which the kernel keeps the best."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet import kernels
from discreet.data.interactions import Interactions
from discreet.kernels import Panels
from discreet.typing import Array

Variance: TypeAlias = tuple[float, Array] | None  # c, and the variances (items, 1 + k) of base and columns

FEW = 4  # candidates are few if there are so many times more items: then their columns are laid out anew


@dataclass(frozen=True)
class Scorer:
    """Scores of users for the items that may be recommended: users' vectors times columns, plus a base.

    A user's list is a function of the vector and history of that user alone, to the last bit (`kernels.top_n`).

    Attributes:
        columns: Of the candidates.
        panels: The same, as the kernel takes them.
        base: The score of each candidate before anything is known of the user. Minus infinity: it is none after all.
        cold: The scores of each candidate for a user without a history.
        candidates: Their item numbers, increasing; None: every item.
        variance: None; or c and the variances of base and of columns: c standard deviations are taken from scores.
    """

    columns: Array
    panels: Panels
    base: Array
    cold: Array
    candidates: Array | None = None
    variance: Variance = None

    @classmethod
    def of(cls, columns: Array, base: Array, cold: Array, variance: Variance = None) -> Scorer:
        """For all items."""
        return cls(columns, Panels.of(columns), base, cold, None, variance)

    def among(self, allowed: NDArray[np.bool_] | None) -> Scorer:
        """Only the items where `allowed` is true; None: all."""
        if allowed is None or allowed.all():
            return self
        at = np.flatnonzero(allowed)
        if FEW * len(at) > len(allowed):
            base, cold = (np.where(allowed, scores, -np.inf) for scores in (self.base, self.cold))
            return replace(self, base=base, cold=cold)
        some, variance = self.columns[at], None
        if self.variance is not None:
            variance = self.variance[0], self.variance[1][at]
        return Scorer(some, Panels.of(some), self.base[at], self.cold[at], at, variance)

    def best(
        self, vectors: Array, histories: Interactions, *, n: int, exclude_seen: bool, n_jobs: int | None
    ) -> tuple[Array, Array]:
        """Item numbers and scores (users, n); number -1 where a list is shorter."""
        panels, variance = self.panels, None
        if self.variance is not None:
            caution, known = self.variance[0], np.maximum(self.variance[1], 0).astype(panels.packed.dtype)
            variance = caution, panels.widened(known[:, 0], 0.0), Panels.of(known[:, 1:])
        seen = self._seen(histories) if exclude_seen else None
        places, scores = kernels.top_n(
            panels,
            panels.widened(self.base),
            vectors,
            n,
            has_history=np.diff(histories.indptr) > 0,
            cold=panels.widened(self.cold),
            seen=seen,
            variance=variance,
            n_jobs=n_jobs,
        )
        return places if self.candidates is None else np.append(self.candidates, -1)[places], scores

    def _seen(self, histories: Interactions) -> tuple[Array, Array]:
        """The candidates that users have in their histories, in CSR form."""
        if self.candidates is None:
            return histories.indptr, histories.indices
        seen = histories.indices.astype(np.int64)
        place = np.searchsorted(self.candidates, seen)
        found = np.append(self.candidates, -1)[place] == seen
        return np.concatenate([[0], np.cumsum(found)])[histories.indptr], place[found]


def deviations(vectors: Any, variances: Any) -> Any:
    """Standard deviations (users, items) of base + vector . column, if that is how surely base and column are known."""
    return (variances[:, 0] + vectors**2 @ variances[:, 1:].T) ** 0.5
