"""Nearest neighbours among items, by a public covariance: a user's rating is foretold by hers of similar items."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from discreet.completion.ridge import Ridge
from discreet.completion.spectral.local import blocks
from discreet.data.interactions import Interactions
from discreet.linalg.threads import over_blocks, single_threaded_blas

Array = NDArray[Any]

LEAST_VARIANCE = 0.05  # of an item, relative to the largest covariance
MOST_COLUMNS = 128  # that the similarities are kept in: all of them, for up to so many items


def similarities(covariance: Array, neighbours: int) -> Array:
    """Item-item cosines; for each item only those of its nearest neighbours, divided by the sum of their sizes."""
    least = LEAST_VARIANCE * float(np.abs(covariance).max())
    k = min(neighbours, len(covariance) - 1)
    if k < 1 or not least:
        return np.zeros_like(covariance)
    deviations = np.sqrt(np.maximum(np.diag(covariance), least))
    cosines = np.clip(covariance / deviations / deviations[:, None], -1, 1)
    np.fill_diagonal(cosines, 0)
    far = np.argpartition(-np.abs(cosines), k - 1, axis=1)[:, k:]
    np.put_along_axis(cosines, far, 0.0, axis=1)
    sums = np.abs(cosines).sum(axis=1, keepdims=True)
    nearest: Array = np.divide(cosines, sums, out=np.zeros_like(cosines), where=sums > 0)
    return nearest


def factored(matrix: Array) -> tuple[Array, Array]:
    """Vectors x_j and q_l whose inner products are the matrix: exactly, or for many items as nearly as they can."""
    n = len(matrix)
    with single_threaded_blas():
        right = eigh(matrix.T @ matrix, subset_by_index=[max(n - MOST_COLUMNS, 0), n - 1])[1]
        return matrix @ right, right


@dataclass(frozen=True)
class Neighbours(Ridge):
    """Predicts base_j + a_i + n / (c_i + damping) * sum over her c_i ratings l of s_jl (y_il - base_l - a_i).

    a_i is her own damped mean. s_jl is the similarity of items, over the sum of those of j's neighbours; since she has
    rated only about c_i / n of these, the sum is scaled up. It is `columns`_j . `loadings`_l.

    Attributes:
        loadings: What each centred rating adds to the user's vector, (items, k).
        damping: Ratings at the average that her mean is taken with.
    """

    loadings: Array = field(default_factory=lambda: np.zeros((0, 0)))
    damping: float = 1.0

    def _centred(self, indptr: Array, indices: Array, values: Array) -> tuple[Array, Array]:
        """Users' offsets, and their ratings as they are multiplied by loadings."""
        counts = np.diff(indptr)
        owners = np.repeat(np.arange(len(counts)), counts)
        about = values.astype(np.float64) - self.base[indices]
        offsets = np.bincount(owners, about, minlength=len(counts)) / np.maximum(counts + self.damping, 1)
        scale = len(self.base) / np.maximum(counts + self.damping, 1)
        return offsets, (about - offsets[owners]) * scale[owners]

    def fold_in(self, histories: Interactions, n_jobs: int | None) -> tuple[Array, Array]:
        """Users' offsets and vectors, from their own histories."""
        from scipy.sparse import csr_array

        kind = self.columns.dtype
        offsets = np.zeros(histories.n_users, kind)
        vectors = np.zeros((histories.n_users, self.loadings.shape[1]), kind)

        def work(rows: slice) -> None:
            at = histories.indptr[rows.start : rows.stop + 1]
            indices = histories.indices[at[0] : at[-1]].astype(np.int64)
            offsets[rows], entries = self._centred(at - at[0], indices, histories.values[at[0] : at[-1]])
            table = csr_array((entries.astype(kind), indices, at - at[0]), shape=(len(at) - 1, len(self.loadings)))
            vectors[rows] = table @ self.loadings  # row by row, entry by entry: no row's sum depends on another's

        for _ in over_blocks(work, blocks(histories.indptr), n_jobs):
            pass
        return offsets, vectors

    def contributions(self, indices: Array, values: Array, item: int) -> Array:
        """What each rating adds to the score of an item: they and `base` add up to it."""
        n, loads = len(indices), self.loadings[indices].astype(np.float64) @ self.columns[item].astype(np.float64)
        about = values.astype(np.float64) - self.base[indices]
        scale = len(self.base) / max(n + self.damping, 1)
        # Each rating has a share in the offset, and so in what every rating is about.
        shared = (1 - scale * loads.sum()) / max(n + self.damping, 1)
        added: Array = about * (scale * loads + shared)
        return added
