"""How a user is folded in by a model that knows only the frequent items."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.completion.ridge import Ridge
from discreet.data.interactions import Interactions

Array = NDArray[Any]


@dataclass(frozen=True)
class FrequentRidge(Ridge):
    """A ridge regression on the frequent items; every other item is expected to get the user's own mean, or 0.

    Attributes:
        frequent: Which items are frequent.
        own_mean: Whether the last column stands for the user's own mean: it is 1 for the other items, and not part of
            the regression. Else they score 0.
    """

    frequent: Array | None = None
    own_mean: bool = False

    @cached_property
    def _inner(self) -> Ridge:
        columns = self.columns[:, :-1] if self.own_mean else self.columns
        return Ridge(np.ascontiguousarray(columns), self.base, self.penalty, self.gram, device=self.device)

    def fold_in(self, histories: Interactions, n_jobs: int | None) -> tuple[Array, Array]:
        """Users' offsets, which are 0, and vectors, from their own histories."""
        assert self.frequent is not None
        known = self.frequent[histories.indices].astype(bool)
        indptr = np.concatenate([[0], np.cumsum(known)])[histories.indptr]
        offsets, vectors = self._inner.solve(indptr, histories.indices[known], histories.values[known], n_jobs=n_jobs)
        if self.own_mean:
            centred = histories.values.astype(np.float64) - self.base[histories.indices]
            counts = np.diff(histories.indptr)
            sums = np.bincount(histories.user_numbers(), centred, minlength=len(counts))
            vectors = np.column_stack([vectors, (sums / np.maximum(counts, 1)).astype(vectors.dtype)])
        return offsets, vectors

    def contributions(self, indices: Array, values: Array, item: int) -> Array:
        """What each rating adds to the score of an item: they and `base` add up to it."""
        assert self.frequent is not None
        known = self.frequent[indices].astype(bool)
        added = np.zeros(len(indices))
        if self.frequent[item]:
            added[known] = self._inner.contributions(indices[known], values[known], item)
        elif self.own_mean:
            added = (values.astype(np.float64) - self.base[indices]) / max(len(indices), 1)
        return added
