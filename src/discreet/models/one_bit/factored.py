"""For matrices too large for singular vectors: X = U V^T, with rows of U and V of bounded length, by least squares.

The bound on X is one on its max-norm, the least max |u_i| max |v_j| over all factorisations, in place of the nuclear
norm: a matrix of rank r with entries up to alpha keeps alpha sqrt(r), and its nuclear norm is then at most
alpha sqrt(d1 d2 r). The problem is not convex: where it ends depends on where it starts, and no gap is
certified.
"""

from __future__ import annotations

import math

import numpy as np

from discreet.models.one_bit.projections import Factored, trimmed
from discreet.models.one_bit.solver import SEED, Problem
from discreet.models.ridge import Penalty, Ridge
from discreet.typing import Array

SWEEPS = 12  # over both sides
RIDGE = 0.1  # times the curvature of the loss, so that rows with few entries have a solution
START = 0.1  # of the bound, the length of rows to begin with


def factorise(problem: Problem, bound: float, rank: int, start: Factored, n_jobs: int | None) -> Factored:
    """U V^T, rows no longer than sqrt(bound), with a low loss, from some matrix on.

    By turns for rows of U and of V, each a ridge regression of where the parabola that touches the loss, and bends as
    much as any part of it does, has its lowest point. Rows that come out too long are shortened.
    """
    cells, loss, length = problem.cells, problem.loss, math.sqrt(bound)
    left, right = _begin(start, rank, length)
    by_column = np.lexsort((cells.rows, cells.columns))
    sides = (
        (np.arange(len(cells)), cells.rows, cells.columns, cells.shape[0]),
        (by_column, cells.columns, cells.rows, cells.shape[1]),
    )
    for turn in range(2 * SWEEPS):
        order, owners, others, size = sides[turn % 2]
        mine, theirs = (left, right) if turn % 2 == 0 else (right, left)
        x = _inner(mine, theirs, owners, others)
        slopes = loss(problem.base + x)[1]
        indptr = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=size))])
        ridge = Ridge(theirs, np.zeros(len(theirs), np.float32), Penalty(RIDGE))
        found = ridge.solve(indptr, others[order], (x - slopes / loss.curvature)[order], n_jobs=n_jobs)[1]
        lengths = np.linalg.norm(found, axis=1, keepdims=True)
        found = found * np.minimum(1, length / np.maximum(lengths, 1e-30)).astype(found.dtype)
        left, right = (found, right) if turn % 2 == 0 else (left, found)
    return _orthogonal(left.astype(np.float64), right.astype(np.float64))


def _begin(start: Factored, rank: int, length: float) -> tuple[Array, Array]:
    """The factors of a matrix; and random ones where it has fewer."""
    rng, roots = np.random.default_rng(SEED), np.sqrt(start.values[:rank])
    fill = rank - len(roots)
    sides = []
    for vectors in (start.left, start.right):
        random = rng.standard_normal((len(vectors), fill)) * (START * length / math.sqrt(rank))
        sides.append(np.hstack([vectors[:, :rank] * roots, random]).astype(np.float32))
    return sides[0], sides[1]


def _inner(mine: Array, theirs: Array, owners: Array, others: Array) -> Array:
    """Observed entries; column by column, so that there is no array of entries x rank."""
    found = np.zeros(len(owners))
    for k in range(mine.shape[1]):
        found += mine[owners, k] * theirs[others, k]
    return found


def _orthogonal(left: Array, right: Array) -> Factored:
    """The singular vectors and values of left @ right^T."""
    (q, a), (p, b) = np.linalg.qr(left), np.linalg.qr(right)
    outer, values, inner = np.linalg.svd(a @ b.T)
    return trimmed(q @ outer, values, p @ inner.T)
