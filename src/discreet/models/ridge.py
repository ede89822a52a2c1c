"""Ridge regressions of users, or of items, on the other side's vectors: in training, and for fold-in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from discreet import kernels
from discreet.kernels import Table, single_threaded_blas
from discreet.typing import Array


@dataclass(frozen=True)
class Penalty:
    """s = scale * count^exponent / normaliser for a row of `count` targets."""

    scale: float
    exponent: float = 0.0
    normaliser: float = 1.0

    def __call__(self, counts: Array, dtype: Any = np.float32) -> Array:
        """The s of each row."""
        weights = np.maximum(counts, 1).astype(np.float64) ** self.exponent
        return (self.scale * weights / self.normaliser).astype(dtype)


def shared_gram(columns: Array, weight: Any) -> Array | None:
    """The G of a penalty on the squared scores of all items, weight * X^T X; None without one."""
    if not weight:
        return None
    with single_threaded_blas():
        gram: Array = weight * (columns.T @ columns)
    return gram


@dataclass(frozen=True)
class Ridge:
    """A ridge regression of each row, a user or an item, on the other side's vectors.

    The offset a_i and the vector z_i of row i minimize

        sum over j in row i of (y_ij - base_j - a_i - x_j . z_i)^2 + z_i^T G z_i + s_i |z_i|^2 + offset_penalty a_i^2

    Attributes:
        columns: x_j, one row for each item.
        base: What is expected of each item before anything is known about the user.
        penalty: s_i, from the number of their ratings.
        gram: G, or None.
        offset_penalty: The weight of the offset a_i squared; None: there is no offset.
        prior: One vector p_j for each item: z_i is pulled to the mean of those in row i, in place of zero; or None.
    """

    columns: Array
    base: Array
    penalty: Penalty
    gram: Array | None = None
    offset_penalty: float | None = None
    prior: Array | None = None

    @cached_property
    def _tables(self) -> tuple[Table, Table | None]:
        kind = self.columns.dtype
        return Table.of(self.columns), None if self.prior is None else Table.of(self.prior, kind)

    def solve(
        self, indptr: Array, indices: Array, values: Array, *, residuals: Array | None = None, n_jobs: int | None = 1
    ) -> tuple[Array, Array]:
        """The offsets (rows,) and vectors (rows, k) of a table's rows; `residuals` gets what they leave unexplained."""
        table, prior = self._tables
        offsets, vectors = kernels.ridge(
            indptr,
            indices,
            values,
            table,
            self.penalty(np.diff(indptr), self.columns.dtype),
            base=self.base if self.base.any() else None,
            prior=prior,
            gram=self.gram,
            offset_penalty=self.offset_penalty,
            residuals=residuals,
            n_jobs=n_jobs,
        )
        return offsets, vectors.values

    def contributions(self, indices: Array, values: Array, item: int) -> Array:
        """What each rating adds to the score of an item: they and `base` add up to it.

        With the offset as a column of ones in front, the score is base_j + x_j . A^-1 X^T t, a sum over the ratings t.
        """
        has_offset = self.offset_penalty is not None
        columns = self.columns[[*indices, item]].astype(np.float64)
        columns = np.pad(columns, ((0, 0), (int(has_offset), 0)), constant_values=1)
        X, aimed = columns[:-1], columns[-1]
        scale = np.full(X.shape[1], self.penalty(np.array([len(indices)]), np.float64)[0])
        if has_offset:
            scale[0] = self.offset_penalty
        A = X.T @ X + np.diag(scale)
        if self.gram is not None:
            A += np.pad(self.gram, (int(has_offset), 0))
        with single_threaded_blas():
            weights = X @ np.linalg.lstsq(A, aimed, rcond=None)[0]
        added: Array = weights * (values.astype(np.float64) - self.base[indices])
        if self.prior is not None and len(indices):
            left = aimed - X.T @ weights  # the part of the item's own vector that the ratings do not explain
            added += self.prior[indices] @ left[-self.prior.shape[1] :] / len(indices)
        return added
