"""Ridge regressions of many users at once, on all of their targets but a fold.

A user's targets are divided into folds, and each fold is predicted by a vector that was fitted to the others. The
normal equations of a fold are a sum of outer products x_j x_j^T over its items, and columns x_j are those of all users.
So the equations of all users are one product: of the sparse table of users' items with the table of the items' outer
products. That takes only additions, in the order of a user's targets, and so the numbers of a user are the same
whatever is beside them, and wherever they are in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from discreet.linalg.arrays import Arrays
from discreet.linalg.cholesky import solve_spd
from discreet.linalg.rows import Rows, blocks, most_rows
from discreet.typing import Array

BLOCK_BYTES = 1 << 24  # of users' normal equations that are solved together


@dataclass(frozen=True)
class Folds:
    """A table in which the targets of a row's fold stand together; target p of a row is in fold p modulo `n`.

    Attributes:
        n: How many folds.
        indptr: The targets of row i's fold f are at indptr[n * i + f] : indptr[n * i + f + 1].
        place: Where each target of the table that was given goes.
        which: The number n * i + f of each target of that table.
    """

    n: int
    indptr: Array
    place: Array
    which: Array

    @classmethod
    def of(cls, indptr: Array, n: int) -> Folds:
        """The folds of a table whose row i is at indptr[i] : indptr[i + 1]."""
        counts = np.diff(indptr)
        sizes = (counts[:, None] + np.arange(n)[::-1]) // n
        starts = np.concatenate([[0], np.cumsum(sizes)])
        at = np.arange(indptr[-1]) - np.repeat(indptr[:-1], counts)
        round_ = at // n
        which = np.repeat(np.arange(len(counts)) * n, counts) + (at - n * round_)
        return cls(n, starts, starts[which] + round_, which)

    def together(self, entries: Array) -> Array:
        """Entries of the table that was given, fold by fold."""
        moved = np.empty_like(entries)
        moved[self.place] = entries
        return moved


@dataclass(frozen=True)
class LeaveFoldOut:
    """Regressions (X^T X + P) z = X^T t + P c, with P diagonal and c the mean of the priors of a row's items.

    Attributes:
        columns: x_j, one row for each item.
        prior: What item j adds to the sum of which c is the mean: of the shape of `columns`.
    """

    columns: Array
    prior: Array

    @cached_property
    def _table(self) -> Array:
        """The upper triangle of x_j x_j^T, and the prior, one row for each item."""
        first, second = np.triu_indices(self.columns.shape[1])
        return np.hstack([self.columns[:, first] * self.columns[:, second], self.prior])

    def solve(self, folds: Folds, indices: Array, targets: Array, penalty: Array) -> tuple[Array, Array]:
        """For each row and fold the vector (rows, n, k) that is fitted to the other folds; and all residuals t - X z.

        Args:
            folds: How the table is divided.
            indices: The item of each target, fold by fold.
            targets: Aligned with `indices`.
            penalty: The diagonal P of each row, (rows, k), positive.

        A residual is what its own fold's vector, which was not fitted to it, leaves. Both are of the type of `columns`.
        """
        n, k = folds.n, self.columns.shape[1]
        z = np.empty((len(penalty), n, k), self.columns.dtype)
        residuals = targets.astype(self.columns.dtype)
        most = max(1, BLOCK_BYTES // (n * max(k, 1) ** 2 * z.itemsize))
        for first in range(0, len(penalty), most):
            rows = slice(first, first + most)
            starts = folds.indptr[n * first : n * (first + most) + 1]
            own = slice(starts[0], starts[-1])
            z[rows] = self._solve(n, starts - starts[0], indices[own], residuals[own], penalty[rows])
            residuals[own] -= self._predicted(starts, indices[own], z[rows].reshape(-1, k))
        return z, residuals

    def _solve(self, n: int, starts: Array, indices: Array, targets: Array, penalty: Array) -> Array:
        (items, k), rows = self.columns.shape, len(penalty)
        ones, at = np.ones(len(indices), targets.dtype), (indices.astype(np.int32), starts.astype(np.int32))
        equations = (csr_array((ones, *at), shape=(rows * n, items)) @ self._table).reshape(rows, n, -1)
        sides = (csr_array((targets, *at), shape=(rows * n, items)) @ self.columns).reshape(rows, n, k)
        whole = equations.sum(axis=1, keepdims=True)
        counts = np.maximum(np.diff(starts[::n]), 1)[:, None].astype(targets.dtype)
        center = whole[:, 0, -k:] / counts
        np.subtract(whole, equations, out=equations)
        A = np.take(equations.reshape(rows * n, -1), _square(k), axis=1)
        np.einsum("ikk->ik", A)[:] += np.repeat(penalty, n, axis=0)
        b = sides.sum(axis=1, keepdims=True) - sides + (penalty * center)[:, None]
        return solve_spd(A, b.reshape(rows * n, k)).reshape(rows, n, k)

    def _predicted(self, starts: Array, indices: Array, z: Array) -> Array:
        """x_j . z of each target."""
        counts, total = np.diff(starts), np.zeros(len(indices), z.dtype)
        for column, own in zip(self.columns.T, z.T, strict=True):
            total += column.copy()[indices] * np.repeat(own.copy(), counts)
        return total


@dataclass(frozen=True)
class LeaveFoldOutBlocks:
    """The same regressions by padded blocks, for a GPU: all rows at once.

    Every call has a shape that depends on a fold's own length and on public numbers (see `torch_arrays`).

    Attributes:
        columns: x_j, and a row of zeros behind them; where `arrays` keeps them.
        prior: Of that shape.
        penalty: The diagonal P of all rows.
        arrays: Where it is done.
    """

    columns: Any
    prior: Any
    penalty: Array
    arrays: Arrays

    def solve(self, n: int, starts: Array, indices: Any, targets: Any) -> Any:
        """The vectors (rows, n, k), for folds whose targets are at starts[n * i + f] : starts[n * i + f + 1]."""
        arrays, k, itemsize, folds = self.arrays, len(self.penalty), self.penalty.itemsize, len(starts) - 1
        size = n * max(1, min(arrays.together // (k * k * itemsize), arrays.most_rows) // n)  # solved together
        A, b, predicted = self._equations(starts, indices, targets, -(-folds // size) * size)
        A, b, predicted = A.reshape(-1, n, k, k), b.reshape(-1, n, k), predicted.reshape(-1, n, k)
        counts = np.ones((len(b), 1), self.penalty.dtype)
        counts[: folds // n, 0] = np.maximum(np.diff(starts[::n]), 1)
        penalty = arrays.put(self.penalty)
        b = _sum(b)[:, None] - b + (penalty * (_sum(predicted) / arrays.put(counts)))[:, None]
        A = _sum(A)[:, None] - A + arrays.put(np.diag(self.penalty))
        A, b = A.reshape(-1, size, k, k), b.reshape(-1, size, k)
        z = [arrays.solve_spd(own, side, own.__getitem__) for own, side in zip(A, b, strict=True)]
        return arrays.concatenate(z)[:folds].reshape(-1, n, k)

    def _equations(self, starts: Array, indices: Any, targets: Any, size: int) -> tuple[Any, Any, Any]:
        """X^T X, X^T t and the sum of the items' priors, of each fold; and zeros behind, up to `size`."""
        arrays, k, dtype = self.arrays, len(self.penalty), self.penalty.dtype
        A, b, predicted = (arrays.zeros((size, *shape), dtype) for shape in ((k, k), (k,), (k,)))
        rows = Rows(starts, indices, targets, self.columns, np.zeros(0), arrays=arrays)
        for block in blocks(starts, k, dtype.itemsize, arrays):
            filled = block.filled(most_rows(block.length, k, dtype.itemsize, arrays))
            index, t = rows.places(filled, 0, block.length)
            X, gram = arrays.gather(self.columns, index), arrays.empty("gram", (len(index), k, k), self.columns)
            arrays.gram(X, gram)
            own, there = arrays.put(block.rows), slice(0, len(block.rows))
            A[own], b[own] = gram[there], arrays.sums(t, X)[there]
            predicted[own] = arrays.sums(0 * t + 1, arrays.gather(self.prior, index))[there]
        return A, b, predicted


def _sum(folds: Any) -> Any:
    """Over the second axis, one after the other."""
    total = folds[:, 0]
    for f in range(1, folds.shape[1]):
        total = total + folds[:, f]
    return total


def _square(k: int) -> Array:
    """Where in its upper triangle, row by row, each entry of a symmetric matrix stands."""
    square = np.zeros((k, k), np.intp)
    square[np.triu_indices(k)] = np.arange(k * (k + 1) // 2)
    return np.maximum(square, square.T)
