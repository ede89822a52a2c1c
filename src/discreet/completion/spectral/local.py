"""The local side of the spectral models: one user projects her own history on public directions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.completion.parts import Part
from discreet.completion.ridge import Ridge
from discreet.data.interactions import Interactions
from discreet.linalg.threads import over_blocks

Array = NDArray[Any]

ENTRIES = 1 << 19  # of histories that one thread projects at a time


@dataclass(frozen=True)
class Projection(Ridge):
    """A ridge regression of a user's weighted history on orthogonal directions, which is a projection.

    Her history is h, with h_j = weights_j / (their norm over her items) for her items and 0 for the others. With
    directions q_k of length 1 and variances d_k, the z that makes |h - sum_k sqrt(d_k) z_k q_k|^2 + lam |z|^2 as small
    as possible has z_k = sqrt(d_k) / (d_k + lam) q_k . h: a sum over her items, for there is no system to solve. Where
    `columns` holds sqrt(f_k) q_k, f_k = d_k / (d_k + lam), the scores are the same with the vector sum_j h_j columns_j.

    Attributes:
        weights: How much each item counts in a history; 0: not at all.
        loadings: What each item of a history adds to the user's vector, (items, k), times its share of the history.
    """

    weights: Array = field(default_factory=lambda: np.zeros(0))
    loadings: Array = field(default_factory=lambda: np.zeros((0, 0)))

    def _shares(self, indptr: Array, indices: Array) -> Array:
        """The h of each user, on her own items: of norm 1, or 0 if none of them counts."""
        n = len(indptr) - 1
        owners = np.repeat(np.arange(n), np.diff(indptr))
        chosen = self.weights[indices].astype(np.float64)
        # bincount adds up a user's items in their order: her sum does not depend on who is folded in beside her.
        lengths = np.sqrt(np.bincount(owners, chosen**2, minlength=n))
        return chosen / np.where(lengths > 0, lengths, 1)[owners]

    def fold_in(self, histories: Interactions, n_jobs: int | None) -> tuple[Array, Array]:
        """Users' offsets, which are zero, and vectors, from their own histories."""
        from scipy.sparse import csr_array

        kind = self.columns.dtype
        vectors = np.zeros((histories.n_users, self.loadings.shape[1]), kind)

        def work(rows: slice) -> None:
            indptr = histories.indptr[rows.start : rows.stop + 1]
            indices = histories.indices[indptr[0] : indptr[-1]].astype(np.int64)
            indptr = indptr - indptr[0]
            shares = self._shares(indptr, indices).astype(kind)
            table = csr_array((shares, indices, indptr), shape=(len(indptr) - 1, len(self.loadings)))
            vectors[rows] = table @ self.loadings  # row by row, entry by entry: no row's sum depends on another's

        for _ in over_blocks(work, _blocks(histories.indptr), n_jobs):
            pass
        return np.zeros(histories.n_users, kind), vectors

    def contributions(self, indices: Array, values: Array, item: int) -> Array:
        """What each item of a history adds to the score of an item: they and `base` add up to it."""
        shares = self._shares(np.array([0, len(indices)]), indices)
        added: Array = shares * (self.loadings[indices].astype(np.float64) @ self.columns[item].astype(np.float64))
        return added


@dataclass(frozen=True)
class CentredSum(Ridge):
    """Predicts base_j + a_i + columns_j . (sum over her ratings l of (y_il - base_l - a_i) loadings_l).

    a_i is the user's own mean, of y_il - base_l, as if she had `damping` more ratings at 0.

    Attributes:
        loadings: What each centred rating adds to the user's vector, (items, k).
        damping: None: there is no a_i.
    """

    loadings: Array = field(default_factory=lambda: np.zeros((0, 0)))
    damping: float | None = None

    def _scale(self, counts: Array) -> Array:
        """What a user's vector is multiplied by."""
        return np.ones(len(counts))

    def _shares(self, counts: Array) -> Array:
        """What each rating, about its base, adds to its user's offset."""
        return np.zeros(len(counts)) if self.damping is None else 1 / np.maximum(counts + self.damping, 1)

    def fold_in(self, histories: Interactions, n_jobs: int | None) -> tuple[Array, Array]:
        """Users' offsets and vectors, from their own histories."""
        from scipy.sparse import csr_array

        kind = self.columns.dtype
        offsets = np.zeros(histories.n_users, kind)
        vectors = np.zeros((histories.n_users, self.loadings.shape[1]), kind)

        def work(rows: slice) -> None:
            at = histories.indptr[rows.start : rows.stop + 1]
            indices, values = (array[at[0] : at[-1]] for array in (histories.indices, histories.values))
            part = Part(at - at[0], indices.astype(np.int64), values.astype(np.float64) - self.base[indices])
            own = part.row_sums(part.values) * self._shares(part.counts)
            entries = (part.values - own[part.owners]) * self._scale(part.counts)[part.owners]
            shape = len(part.counts), len(self.loadings)
            table = csr_array((entries.astype(kind), part.indices, part.indptr), shape=shape)
            offsets[rows] = own
            vectors[rows] = table @ self.loadings  # row by row, entry by entry: no row's sum depends on another's

        for _ in over_blocks(work, _blocks(histories.indptr), n_jobs):
            pass
        return offsets, vectors

    def contributions(self, indices: Array, values: Array, item: int) -> Array:
        """What each rating adds to the score of an item: they and `base` add up to it."""
        about = values.astype(np.float64) - self.base[indices]
        count = np.array([len(indices)])
        loads = self.loadings[indices].astype(np.float64) @ self.columns[item].astype(np.float64) * self._scale(count)
        # Each rating has a share in the offset, and so in what every rating is about.
        added: Array = about * (loads + self._shares(count) * (1 - loads.sum()))
        return added


def _blocks(indptr: Array) -> Iterator[slice]:
    """Users, some at a time."""
    first, n = 0, len(indptr) - 1
    while first < n:
        last = max(first + 1, int(np.searchsorted(indptr, indptr[first] + ENTRIES, side="right")) - 1)
        yield slice(first, last)
        first = last
