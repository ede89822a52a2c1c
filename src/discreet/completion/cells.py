"""What users contribute, as integers: which grid suits the noise, and exact sums of products of them.

Every user's contribution is put on its grid by the trusted `truncate`. From there on nothing rounds, so that sums are
the same however users are cut into parts, and in whatever order these are added up.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array

from discreet.completion.parts import Part
from discreet.linalg.threads import over_blocks
from discreet.privacy import Grid, truncate

Array = NDArray[Any]

UNIT_CELLS = 14  # a unit vector is at most 2^14 cells long
MOST_CELLS = 29  # a noise standard deviation, or a bound, is at most 2^29 cells long
STRIPE = 256  # columns of a large second moment that one thread adds to
EXACT = 1 << 53  # integers up to here are exact in float64


def in_float64(cells: Array, most: int) -> Iterator[Array]:
    """Integer rows no longer than `most`, as float64, as many at a time as have exact products and sums of these.

    Each product is at most most^2, so that float64 adds them exactly, in whatever order, while their sum is below 2^53.
    """
    rows = EXACT // (most * most)
    for start in range(0, len(cells), rows):
        yield cells[start : start + rows].astype(np.float64)


def exact_gram(cells: Array, most: int) -> Array:
    """The sum of x x^T over integer rows x no longer than `most`: of a matrix times itself BLAS computes one half."""
    total = np.zeros((cells.shape[1], cells.shape[1]), np.int64)
    for x in in_float64(cells, most):
        total += (x.T @ x).astype(np.int64)
    return total


def stripes(size: int) -> list[slice]:
    """The columns of a large matrix, some at a time."""
    return [slice(at, min(at + STRIPE, size)) for at in range(0, size, STRIPE)]


def add_products(sums: Array, cells: Array, most: int, n_jobs: int | None) -> Array:
    """Add x x^T, of integer rows x no longer than `most`, to a matrix: from its diagonal up.

    Threads share one sum, a stripe of it each, so that there is only one of these large matrices however many they are.
    """
    for x in in_float64(cells, most):

        def add(stripe: slice, x: Array = x) -> None:
            sums[: stripe.stop, stripe] += (x[:, : stripe.stop].T @ x[:, stripe]).astype(np.int64)

        for _ in over_blocks(add, stripes(len(sums)), n_jobs):
            pass
    return sums


def root_below(bound: float) -> float:
    """A square root, rounded down: its exact square is at most `bound`."""
    length = math.sqrt(bound)
    while Fraction(length) ** 2 > Fraction(bound):
        length = math.nextafter(length, 0)
    return length


def fine_grid(std: float, bound: float) -> Grid:
    """A grid with about 2^29 cells to the noise's standard deviation, or to the bound, whichever is longer."""
    return Grid(math.frexp(max(std, bound))[1] - MOST_CELLS)


def outer_grids(std: float, bound: float) -> tuple[Grid, Grid]:
    """The grids of x, at most `bound` long, and of a, at most 1, whose products are on a grid that suits the noise."""
    whole = fine_grid(std, bound)
    unit = Grid(-min(UNIT_CELLS, int(math.log2(max(whole.cells(bound), 4.0))) // 2))
    return Grid(whole.exponent - unit.exponent), unit


def outer_cells(
    part: Part, contribution: tuple[Array, Array, Array], n_items: int, bound: float, grids: tuple[Grid, Grid]
) -> Array:
    """The sum over a part's users of matrices with a row x_j a^T for each item, in cells.

    Rows of different items are orthogonal, so a user's matrix is no longer than her x, whichever a belongs to which.
    |x| |a| is below 2^30 cells and a part has at most 2^16 users: sums stay below 2^53, and are exact in float64.
    """
    entries, vectors, which = contribution
    x, a = whole_outer(part, entries, vectors, bound, grids)
    table = coo_array((x, (part.indices.astype(np.int64), which)), shape=(n_items, len(a))).tocsr()
    return np.asarray(table @ a).astype(np.int64)


def whole_outer(
    part: Part, entries: Array, vectors: Array, bound: float, grids: tuple[Grid, Grid]
) -> tuple[Array, Array]:
    """The x and a of a part's users, in cells."""
    x = truncate(entries, bound=bound, grid=grids[0], indptr=part.indptr).astype(np.float64)
    return x, truncate(vectors, bound=1.0, grid=grids[1]).astype(np.float64)


@dataclass(frozen=True)
class StepCells:
    """How what users contribute to an item step becomes integers.

    Attributes:
        k: Columns.
        bound: Of a user's x.
        grids: Of x, and of a.
        length: Of a user's b.
        gram_grid: Of b.
    """

    k: int
    bound: float
    grids: tuple[Grid, Grid]
    length: float
    gram_grid: Grid

    def outer(self, part: Part, entries: Array, vectors: Array) -> tuple[Array, Array]:
        """The x and a of a part's users."""
        return whole_outer(part, entries, vectors, self.bound, self.grids)

    def gram(self, rows: Array) -> Array:
        """The sum of b b^T over a part's users."""
        most = math.floor(self.gram_grid.cells(self.length))
        cells = truncate(rows, bound=self.length, grid=self.gram_grid).reshape(-1, self.k)
        return exact_gram(cells, most)


def half_grid(std: float, length: float) -> Grid:
    """The grid of rows whose outer products are on a grid that suits the noise."""
    return Grid(-((MOST_CELLS - math.frexp(max(std, length * length))[1]) // 2))
