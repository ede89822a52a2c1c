"""Exact sums of integers on a grid: the same however users are cut into batches, and in whatever order these are added.

Products of integers are taken in float64, which is exact, in whatever order it adds, while sums stay below 2^53.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from discreet.linalg.threads import over_blocks
from discreet.privacy.lattice import MAX_BOUND
from discreet.typing import Array

if TYPE_CHECKING:
    from discreet.linalg.rows import Block
    from discreet.privacy.statistics import EncodedEquations


EXACT = 1 << 53  # integers up to here are exact in float64
STRIPE = 256  # columns of a large matrix that one thread adds to
MOST_ENTRIES = EXACT // MAX_BOUND  # that are added up at once
MOST_USERS = 1 << 14  # of normal equations that are added up at once, of at most 2^30 units each


def scatter(items: Array, units: Array, size: int) -> Array:
    """Sums of integers of at most 2^30 by item."""
    total = np.zeros(size, np.int64)
    for start in range(0, len(units), MOST_ENTRIES):
        some = slice(start, start + MOST_ENTRIES)
        total += np.bincount(items[some], units[some], minlength=size).astype(np.int64)
    return total


def _in_float64(rows: Array, most: int) -> Iterator[Array]:
    """Integer rows with entries of at most `most`, as float64, as many at a time as have exact sums of products."""
    some = EXACT // (most * most)
    for start in range(0, len(rows), some):
        yield rows[start : start + some].astype(np.float64)


def exact_gram(rows: Array, most: int) -> Array:
    """The sum of x x^T over integer rows x: of a matrix times itself, BLAS computes one half."""
    total = np.zeros((rows.shape[1], rows.shape[1]), np.int64)
    for x in _in_float64(rows, most):
        total += (x.T @ x).astype(np.int64)
    return total


def add_products(total: Array, rows: Array, most: int, n_jobs: int | None) -> Array:
    """Add x x^T, of integer rows x, to a large matrix: from its diagonal up.

    Threads share one sum, a stripe of it each, so that there is only one of these matrices however many they are.
    """
    for x in _in_float64(rows, most):

        def add(stripe: slice, x: Array = x) -> None:
            total[: stripe.stop, stripe] += (x[:, : stripe.stop].T @ x[:, stripe]).astype(np.int64)

        for _ in over_blocks(add, _stripes(len(total)), n_jobs):
            pass
    return total


def mirror(total: Array) -> None:
    """Make the lower triangle of a matrix a copy of the upper one."""
    for stripe in _stripes(len(total)):
        total[stripe, : stripe.start] = total[: stripe.start, stripe].T
        block = total[stripe, stripe]
        block[:] = np.triu(block) + np.triu(block, 1).T


def _stripes(size: int) -> list[slice]:
    return [slice(at, min(at + STRIPE, size)) for at in range(0, size, STRIPE)]


def normal_equations(total: Array, encoded: "EncodedEquations", n_jobs: int | None) -> None:
    """Add w u u^T, and w y u as last columns, by item; some users at a time, so that float64 is exact."""
    for first in range(0, len(encoded.vectors), MOST_USERS):
        last = min(first + MOST_USERS, len(encoded.vectors))
        own = slice(int(encoded.indptr[first]), int(encoded.indptr[last]))
        weights = None if encoded.weights is None else encoded.weights[own]
        table = encoded.indptr[first : last + 1] - own.start, encoded.items[own], encoded.targets[own], weights
        _add_equations(total, encoded.vectors[first:last], table, n_jobs)


def _add_equations(
    total: Array, vectors: Array, table: tuple[Array, Array, Array, Array | None], n_jobs: int | None
) -> None:
    from discreet.linalg.arrays import NUMPY
    from discreet.linalg.rows import Rows, blocks, padded

    indptr, items, targets, heavy = table
    # By item, and by user within it: what may not count stands at item 0 with the weight 0.
    order = np.argsort(items, kind="stable")
    users = np.repeat(np.arange(len(vectors)), np.diff(indptr))[order]
    ends = np.concatenate([[0], np.cumsum(np.bincount(items, minlength=len(total)))])
    columns, r = padded(vectors, np.float64), vectors.shape[1]
    rows = Rows(ends, users, targets[order], columns, np.zeros(0))
    weights = None if heavy is None else heavy[order]

    def work(block: "Block") -> None:
        length = min(block.length, NUMPY.longest)
        for some in block.cuts(max(1, NUMPY.cache // (max(length, r) * r * 8))):
            for first in range(0, block.length, length):
                last = min(block.length, first + length)
                X, t = rows.gather(some, first, last)
                left = X if weights is None else X * _places(weights, some, first, last)[:, :, None]
                # An item is in one block, which one thread works on: no two write to the same matrices.
                total[some.rows, :r, :r] += (left.swapaxes(1, 2) @ X).astype(np.int64)
                total[some.rows, :r, r] += (t[:, None, :] @ X)[:, 0].astype(np.int64)

    for _ in over_blocks(work, blocks(rows.indptr, r, 8), n_jobs):
        pass


def _places(values: Array, block: "Block", first: int, last: int) -> Array:
    """The values at places first..last of each row of a block, zero where a row has none."""
    place = np.arange(first, last)
    at = np.minimum(block.starts[:, None] + place, len(values) - 1)
    found: Array = np.where(place < block.counts[:, None], values[at], 0.0)
    return found
