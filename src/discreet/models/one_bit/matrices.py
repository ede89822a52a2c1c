"""Matrices of low rank, and projections on the nuclear-norm ball and on bounded entries.

The projection on the ball needs the first singular vectors. Subspace iteration finds them, starting from a guess; there
are enough of them when the last singular value is below the threshold that the projection subtracts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from discreet.models.eigen import simplex
from discreet.typing import Array

SUBSPACE_SWEEPS = 4  # the most sweeps; later steps continue where the last one stopped
SETTLED = 1e-3  # iteration stops at this change of squared singular values, relative to the first
EXTRA_VECTORS = 4  # more vectors than were needed the last time
DENSE_SHARE = 0.4  # from this share of all singular vectors on, LAPACK finds them faster
FAR = 1e-3  # share of the largest singular value above which squared singular values are precise enough
BLOCK = 1 << 20  # entries of a factored matrix in memory at a time
PRECISE = 1e-8  # largest gap of a projection, relative to |A|^2
DYKSTRA_SWEEPS = 500  # the most sweeps
ABOVE = 1.2  # singular values above this many times those of noise are signal
OUTPUT_SWEEPS = 20  # the most sweeps of the projection after adding noise, which need not be precise


@dataclass(frozen=True)
class Factored:
    """left @ diag(values) @ right^T, with orthonormal columns and positive, decreasing values."""

    left: Array
    values: Array
    right: Array

    @classmethod
    def zeros(cls, shape: tuple[int, int]) -> Factored:
        return cls(np.zeros((shape[0], 0)), np.zeros(0), np.zeros((shape[1], 0)))

    @classmethod
    def product(cls, left: Array, right: Array, divisor: float = 1.0) -> Factored:
        """Left @ right^T / divisor."""
        (q, a), (p, b) = np.linalg.qr(left), np.linalg.qr(right)
        outer, values, inner = np.linalg.svd(a @ b.T / divisor)
        return trimmed(q @ outer, np.where(values > 1e-12 * values.max(initial=1e-300), values, 0.0), p @ inner.T)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.left), len(self.right)

    @property
    def rank(self) -> int:
        """The number of nonzero singular values."""
        return len(self.values)

    def dense(self) -> Array:
        return np.asarray((self.left * self.values) @ self.right.T)

    def at(self, rows: Array, columns: Array) -> Array:
        found = np.zeros(len(rows))
        scaled = self.left * self.values
        for k in range(self.rank):  # column by column: no array of entries x rank
            found += scaled[rows, k] * self.right[columns, k]
        return found

    def inner(self, other: Factored) -> float:
        crossed = (self.left.T @ other.left) * (self.right.T @ other.right)
        return float(self.values @ crossed @ other.values)

    def distance(self, other: Factored) -> float:
        return float(max(self.inner(self) + other.inner(other) - 2 * self.inner(other), 0.0) ** 0.5)

    def scaled(self, share: float) -> Factored:
        """The same matrix times a positive number."""
        return Factored(self.left, self.values * share, self.right)


@dataclass(frozen=True)
class Moved:
    """A factored matrix plus a sparse one."""

    low: Factored
    sparse: csr_array

    def times(self, right: Array) -> Array:
        """A @ right."""
        low = self.low
        return np.asarray((low.left * low.values) @ (low.right.T @ right) + self.sparse @ right)

    def transposed_times(self, left: Array) -> Array:
        """A^T @ left."""
        low = self.low
        return np.asarray((low.right * low.values) @ (low.left.T @ left) + self.sparse.T @ left)

    def dense(self) -> Array:
        return np.asarray(self.low.dense() + self.sparse.toarray())


def trimmed(left: Array, values: Array, right: Array) -> Factored:
    """A matrix without its zero singular values."""
    kept = int(np.count_nonzero(values > 0))
    return Factored(left[:, :kept], values[:kept], right[:, :kept])


def _leading(matrix: Moved, start: Array) -> tuple[Array, Array, Array]:
    """The first singular values and vectors, by subspace iteration from `start`, which has as many columns."""
    basis, before = np.linalg.qr(start)[0], np.zeros(start.shape[1])
    for _ in range(SUBSPACE_SWEEPS):
        basis, triangle = np.linalg.qr(matrix.transposed_times(matrix.times(basis)))
        squares = np.sort(np.abs(np.diagonal(triangle)))[::-1]  # squared singular values, once it has converged
        if np.abs(squares - before).max() <= SETTLED * squares[0]:
            break
        before = squares
    left, triangle = np.linalg.qr(matrix.times(basis))
    outer, values, inner = np.linalg.svd(triangle)
    return left @ outer, values, basis @ inner.T


def nuclear_ball(
    matrix: Moved, radius: float, guess: Factored, rng: np.random.Generator, max_rank: int | None = None
) -> Factored:
    """The nearest matrix whose singular values add up to at most `radius`, among those of rank at most `max_rank`."""
    rows, columns = matrix.low.shape
    most = min(rows, columns) if max_rank is None else min(max_rank, rows, columns)
    wanted = min(guess.rank + EXTRA_VECTORS, most)
    while wanted < DENSE_SHARE * min(rows, columns):
        start = np.hstack([guess.right, rng.standard_normal((columns, wanted))])[:, :wanted]
        left, values, right = _leading(matrix, start)
        kept, threshold = simplex(values, radius)
        if values[-1] <= threshold or wanted == most:
            return trimmed(left, kept, right)
        guess = Factored(left, values, right)
        wanted = min(2 * wanted, most)
    left, values, transposed = np.linalg.svd(matrix.dense(), full_matrices=False)
    return trimmed(left[:, :most], simplex(values[:most], radius)[0], transposed[:most].T)


def in_ball(array: Array, radius: float) -> Array:
    """The nearest matrix whose singular values add up to at most `radius`, with all its entries.

    It uses the eigenvectors of A A^T, which are several times faster than singular vectors. Small singular values lose
    digits by squaring; below the threshold they are not needed, and if the threshold is too low for that, it uses
    singular vectors.
    """
    wide = array.shape[0] <= array.shape[1]
    squares, vectors = np.linalg.eigh(array @ array.T if wide else array.T @ array)
    values = np.sqrt(np.maximum(squares[::-1], 0.0))
    kept, threshold = simplex(values, radius)
    if threshold <= FAR * values[0]:
        left, values, right = np.linalg.svd(array, full_matrices=False)
        return np.asarray((left * simplex(values, radius)[0]) @ right)
    first = int(np.count_nonzero(kept))
    vectors, shares = vectors[:, ::-1][:, :first], kept[:first] / values[:first]
    return np.asarray((vectors * shares) @ (vectors.T @ array) if wide else (array @ vectors * shares) @ vectors.T)


@dataclass(frozen=True)
class Excess:
    """The entries of X + B / weight beyond the bound alpha; `pulls` are `weight` times how far they are beyond it.

    The pulls are the derivatives of weight / 2 * (squared distance of X + B / weight to the bounded matrices), the term
    that the method of multipliers adds to a loss. They are also the next multipliers B. `largest` is the largest |x|.
    """

    rows: Array
    columns: Array
    pulls: Array
    weight: float = 1.0
    largest: float = 0.0

    @classmethod
    def none(cls) -> Excess:
        """No excess: entries have no bound."""
        return cls(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))

    @classmethod
    def of(cls, matrix: Factored, alpha: float, multipliers: Excess, weight: float) -> Excess:
        """The excess of a matrix, from all its entries, some rows at a time."""
        table = csr_array((multipliers.pulls / weight, (multipliers.rows, multipliers.columns)), shape=matrix.shape)
        scaled, found, largest = matrix.left * matrix.values, list[tuple[Array, Array, Array]](), 0.0
        height = max(BLOCK // matrix.shape[1], 1)
        for first in range(0, matrix.shape[0], height):
            block = scaled[first : first + height] @ matrix.right.T
            largest = max(largest, float(block.max(initial=0.0)), -float(block.min(initial=0.0)))
            shift = table[first : first + height].tocoo()
            block[shift.row, shift.col] += shift.data
            rows, columns = np.nonzero(np.abs(block) > alpha)
            beyond = block[rows, columns]
            found.append((rows + first, columns, weight * (beyond - np.copysign(alpha, beyond))))
        rows, columns, pulls = (np.concatenate(part) for part in zip(*found, strict=True))
        return cls(rows, columns, pulls, weight, largest)

    @property
    def penalty(self) -> float:
        """The term that is added to the loss: weight / 2 * the squared distance."""
        return float(self.pulls @ self.pulls) / (2 * self.weight)


def intersection(
    array: Array, radius: float, alpha: float, *, precise: float = PRECISE, sweeps: int = DYKSTRA_SWEEPS
) -> tuple[Factored, float]:
    """The nearest matrix of nuclear norm at most `radius` with entries up to `alpha`, by Dykstra's method; and its gap.

    The matrix X is in both sets. |X - A|^2 / 2 is at most `gap` above the minimum, so X is at most sqrt(2 gap) from the
    projection. The method subtracts p for the ball and q for the entries: A = Y + p + q, and by the dual problem

        gap = |X - Y|^2 / 2 + (radius |p| - <p, X>) + (alpha sum |q_ij| - <q, X>),

    where |p| is the largest singular value. Y is in the ball; X = c Y, with the largest c up to 1 that alpha allows.
    """
    q = np.zeros_like(array)
    enough = precise * float((array**2).sum())
    for _ in range(sweeps):
        left, values, right = np.linalg.svd(array - q, full_matrices=False)
        kept, threshold = simplex(values, radius)
        low = (left * kept) @ right
        share = min(1.0, alpha / max(float(np.abs(low).max()), 1e-300))
        gap = (1 - share) ** 2 * float((kept**2).sum()) / 2
        gap += threshold * (radius - share * float(kept.sum())) + float((alpha * np.abs(q) - share * q * low).sum())
        if gap <= enough:
            break
        q += low
        q -= np.clip(q, -alpha, alpha)
    return trimmed(left, kept, right.T).scaled(share), max(gap, 0.0)


def without_output_noise(noisy: Array, std: float, radius: float, alpha: float) -> Factored:
    """A noisy matrix, projected on the ball and on bounded entries.

    First, singular values are lowered by the largest singular value of the noise, about std (sqrt(d1) + sqrt(d2)).
    """
    left, values, right = np.linalg.svd(noisy, full_matrices=False)
    values = np.maximum(values - ABOVE * std * (math.sqrt(noisy.shape[0]) + math.sqrt(noisy.shape[1])), 0.0)
    return intersection((left * values) @ right, radius, alpha, precise=1e-4, sweeps=OUTPUT_SWEEPS)[0]
