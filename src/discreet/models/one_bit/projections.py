"""Matrices of low rank, and the Euclidean projection on the nuclear-norm ball.

A matrix of which most singular values are small is projected by its first ones. They are found by subspace iteration
from a guess, such as the singular vectors of the matrix before; there are enough of them when the last is below the
threshold that the projection subtracts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.sparse import csr_array

from discreet.typing import Array

SWEEPS = 4  # of subspace iteration, at most: steps that follow each other go on where the last one stopped
SETTLED = 1e-3  # change of squared singular values, relative to the first, at which it stops
EXTRA = 4  # vectors more than were needed the last time
DENSE = 0.4  # share of all singular vectors from which on LAPACK finds them sooner
FAR = 1e-3  # of the largest singular value: above it squares of singular values have all digits that matter


class Matrix(Protocol):
    """What can be multiplied from both sides."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""

    def times(self, right: Array) -> Array:
        """A @ right."""

    def transposed_times(self, left: Array) -> Array:
        """A^T @ left."""

    def dense(self) -> Array:
        """A."""


@dataclass(frozen=True)
class Dense:
    """A matrix with all its entries."""

    array: Array

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.array.shape[0], self.array.shape[1]

    def times(self, right: Array) -> Array:
        """A @ right."""
        found: Array = self.array @ right
        return found

    def transposed_times(self, left: Array) -> Array:
        """A^T @ left."""
        found: Array = self.array.T @ left
        return found

    def dense(self) -> Array:
        """A."""
        return self.array


@dataclass(frozen=True)
class Factored:
    """left @ diag(values) @ right^T, with orthonormal columns and positive values in falling order."""

    left: Array
    values: Array
    right: Array

    @classmethod
    def zeros(cls, shape: tuple[int, int]) -> Factored:
        """The zero matrix."""
        return cls(np.zeros((shape[0], 0)), np.zeros(0), np.zeros((shape[1], 0)))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.left), len(self.right)

    @property
    def rank(self) -> int:
        """How many singular values are not zero."""
        return len(self.values)

    def times(self, right: Array) -> Array:
        """A @ right."""
        found: Array = (self.left * self.values) @ (self.right.T @ right)
        return found

    def transposed_times(self, left: Array) -> Array:
        """A^T @ left."""
        found: Array = (self.right * self.values) @ (self.left.T @ left)
        return found

    def dense(self) -> Array:
        """A."""
        found: Array = (self.left * self.values) @ self.right.T
        return found

    def at(self, rows: Array, columns: Array) -> Array:
        """Some entries."""
        found = np.zeros(len(rows))
        scaled = self.left * self.values
        for k in range(self.rank):  # column by column: no array of entries x rank
            found += scaled[rows, k] * self.right[columns, k]
        return found

    def inner(self, other: Factored) -> float:
        """The inner product of two matrices."""
        crossed = (self.left.T @ other.left) * (self.right.T @ other.right)
        return float(self.values @ crossed @ other.values)

    def distance(self, other: Factored) -> float:
        """The length of their difference."""
        return float(max(self.inner(self) + other.inner(other) - 2 * self.inner(other), 0.0) ** 0.5)

    def scaled(self, share: float) -> Factored:
        """The same matrix times a positive number."""
        return Factored(self.left, self.values * share, self.right)


@dataclass(frozen=True)
class Moved:
    """A factored matrix plus a sparse one."""

    low: Factored
    sparse: csr_array

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.low.shape

    def times(self, right: Array) -> Array:
        """A @ right."""
        found: Array = self.low.times(right) + self.sparse @ right
        return found

    def transposed_times(self, left: Array) -> Array:
        """A^T @ left."""
        found: Array = self.low.transposed_times(left) + self.sparse.T @ left
        return found

    def dense(self) -> Array:
        """A."""
        found: Array = self.low.dense() + self.sparse.toarray()
        return found


def simplex(values: Array, radius: float) -> tuple[Array, float]:
    """Nonnegative numbers in falling order, projected on those that add up to at most `radius`; what was subtracted."""
    if values.sum() <= radius:
        return values, 0.0
    sums = np.cumsum(values) - radius
    thresholds = sums / np.arange(1, len(values) + 1)
    last = np.flatnonzero(values > thresholds)[-1]
    return np.maximum(values - thresholds[last], 0.0), float(thresholds[last])


def leading(matrix: Matrix, start: Array) -> tuple[Array, Array, Array]:
    """The first singular values and vectors, as many as `start` has columns, by subspace iteration from there."""
    basis, before = np.linalg.qr(start)[0], np.zeros(start.shape[1])
    for _ in range(SWEEPS):
        basis, triangle = np.linalg.qr(matrix.transposed_times(matrix.times(basis)))
        squares = np.sort(np.abs(np.diagonal(triangle)))[::-1]  # of the singular values, when it has settled
        if np.abs(squares - before).max() <= SETTLED * squares[0]:
            break
        before = squares
    left, triangle = np.linalg.qr(matrix.times(basis))
    outer, values, inner = np.linalg.svd(triangle)
    return left @ outer, values, basis @ inner.T


def nuclear_ball(
    matrix: Matrix, radius: float, guess: Factored, rng: np.random.Generator, max_rank: int | None = None
) -> Factored:
    """The nearest matrix whose singular values add up to at most `radius`; or, of those of a rank, a nearest one."""
    rows, columns = matrix.shape
    most = min(rows, columns) if max_rank is None else min(max_rank, rows, columns)
    wanted = min(guess.rank + EXTRA, most)
    while wanted < DENSE * min(rows, columns):
        start = np.hstack([guess.right, rng.standard_normal((columns, wanted))])[:, :wanted]
        left, values, right = leading(matrix, start)
        kept, threshold = simplex(values, radius)
        if values[-1] <= threshold or wanted == most:
            return trimmed(left, kept, right)
        guess = Factored(left, values, right)
        wanted = min(2 * wanted, most)
    left, values, transposed = np.linalg.svd(matrix.dense(), full_matrices=False)
    return trimmed(left[:, :most], simplex(values[:most], radius)[0], transposed[:most].T)


def gram(array: Array) -> Array:
    """A A^T, or A^T A if that is smaller."""
    found: Array = array @ array.T if array.shape[0] <= array.shape[1] else array.T @ array
    return found


def in_ball(array: Array, radius: float) -> Array:
    """The nearest matrix whose singular values add up to at most `radius`, with all its entries.

    By the eigenvectors of A A^T, which are found several times sooner than singular vectors. Singular values below the
    threshold, of which squares tell least, are not needed; if it is so low that others suffer, by singular vectors.
    """
    found: Array
    squares, vectors = np.linalg.eigh(gram(array))
    values = np.sqrt(np.maximum(squares[::-1], 0.0))
    kept, threshold = simplex(values, radius)
    if threshold <= FAR * values[0]:
        left, values, right = np.linalg.svd(array, full_matrices=False)
        found = (left * simplex(values, radius)[0]) @ right
        return found
    first = int(np.count_nonzero(kept))
    vectors, shares = vectors[:, ::-1][:, :first], kept[:first] / values[:first]
    wide = array.shape[0] <= array.shape[1]
    found = (vectors * shares) @ (vectors.T @ array) if wide else (array @ vectors * shares) @ vectors.T
    return found


def trimmed(left: Array, values: Array, right: Array) -> Factored:
    """A matrix without its singular values that are zero."""
    kept = int(np.count_nonzero(values > 0))
    return Factored(left[:, :kept], values[:kept], right[:, :kept])
