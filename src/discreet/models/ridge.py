"""Ridge regressions of users, or of items, on the other side's vectors: in training, and for fold-in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from discreet.linalg.arrays import arrays_on
from discreet.linalg.rows import Rows, Solver, padded, row_means, solve_rows
from discreet.linalg.threads import single_threaded_blas
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
        device: Where it is computed.
    """

    columns: Array
    base: Array
    penalty: Penalty
    gram: Array | None = None
    offset_penalty: float | None = None
    prior: Array | None = None
    device: str = "cpu"

    @cached_property
    def _prepared(self) -> tuple[Array, Array | None]:
        """Columns and G as the kernel takes them: a constant column for the offset first, zeros for padding last."""
        if self.offset_penalty is None:
            return padded(self.columns, self.columns.dtype), self.gram
        ones = np.ones((len(self.columns), 1), self.columns.dtype)
        gram = None if self.gram is None else np.pad(self.gram, (1, 0))
        return padded(np.hstack([ones, self.columns]), self.columns.dtype), gram

    def _prior_mean(self, indptr: Array, indices: Array) -> Array | None:
        """The prior mean of each row's vector, with a zero for the offset in front."""
        if self.prior is None:
            return None
        means = row_means(indptr, indices, padded(self.prior, self.columns.dtype))
        return means if self.offset_penalty is None else np.pad(means, ((0, 0), (1, 0)))

    def _weights(self, counts: Array) -> tuple[Array, Array | None]:
        """s_i, and the scale of a row's constant column that makes s_i the penalty of its offset, too."""
        kind = self.columns.dtype
        if self.offset_penalty is None:
            return self.penalty(counts, kind), None
        if not self.columns.shape[1]:
            return np.full(len(counts), self.offset_penalty, kind), None
        scale = self.penalty(counts, kind)
        return scale, np.sqrt(scale / kind.type(self.offset_penalty))

    def solve(
        self,
        indptr: Array,
        indices: Array,
        values: Array,
        *,
        solver: Solver = "exact",
        cg_steps: int = 3,
        start: tuple[Array, Array] | None = None,
        residuals: Array | None = None,
        n_jobs: int | None = 1,
    ) -> tuple[Array, Array]:
        """The offsets (rows,) and vectors (rows, k) of a table's rows; `residuals` gets what they leave unexplained."""
        rows, unit = self._rows(indptr, indices, values)
        has_offset = self.offset_penalty is not None
        begin = None
        if start is not None:
            begin = np.column_stack([start[0] / unit, start[1]]) if has_offset else start[1]
        z = solve_rows(rows, solver=solver, cg_steps=cg_steps, start=begin, residuals=residuals, n_jobs=n_jobs)
        return (z[:, 0] * unit, z[:, 1:]) if has_offset else (np.zeros(len(z), z.dtype), z)

    def _rows(self, indptr: Array, indices: Array, values: Array) -> tuple[Rows, Array]:
        """The regressions as the kernel takes them; and the factor of each row's offset."""
        kind = self.columns.dtype
        targets = values.astype(kind, copy=False)
        if self.base.any():
            targets = targets - self.base[indices].astype(kind)
        arrays = arrays_on(self.device)
        columns, gram = (None if matrix is None else arrays.put(matrix) for matrix in self._prepared)
        scale, first = self._weights(np.diff(indptr))
        unit = np.ones(len(scale), kind) if first is None else first
        return Rows(
            indptr, indices, targets, columns, scale, gram, first, self._prior_mean(indptr, indices), arrays
        ), unit

    def contributions(self, indices: Array, values: Array, item: int) -> Array:
        """What each rating adds to the score of an item: they and `base` add up to it.

        With the offset as a column of ones in front, the score is base_j + x_j . A^-1 X^T t, a sum over the ratings t.
        """
        columns, gram = self._prepared
        X = columns[indices].astype(np.float64)
        targets = values.astype(np.float64) - self.base[indices]
        scale = np.full(X.shape[1], self.penalty(np.array([len(indices)]), np.float64)[0])
        if self.offset_penalty is not None:
            scale[0] = self.offset_penalty
        A = X.T @ X + np.diag(scale) + (0 if gram is None else gram)
        aimed = columns[item].astype(np.float64)
        with single_threaded_blas():
            weights = X @ np.linalg.lstsq(A, aimed, rcond=None)[0]
        added: Array = weights * targets
        if self.prior is not None and len(indices):
            left = aimed - X.T @ weights  # the part of the item's own vector that the ratings do not explain
            added += self.prior[indices] @ left[-self.prior.shape[1] :] / len(indices)
        return added
