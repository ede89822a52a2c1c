"""Statistics on a public grid: only integers are released.

A user's contribution is scaled to its norm bound, truncated toward zero on a grid of step 2^e, and its norm is checked
in exact integer arithmetic. Sums of such contributions are exact, hence the same for any order, thread count or
machine, and their sensitivity is the bound, not the bound plus rounding errors. Nothing here raises because of a value
in the data: what is not finite counts as zero, what is too long is shortened. Only public arguments can be wrong.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from discreet.errors import PrivacyError
from discreet.linalg.threads import over_blocks
from discreet.typing import Array, Floats, Integers
from discreet.validation import positive, whole

if TYPE_CHECKING:
    from discreet.linalg.rows import Block

STD_BITS = 20  # a noise standard deviation is about 2^20 grid units
MAX_BOUND = 1 << 30  # largest contribution of a user in grid units: sums of 2^32 users then stay below 2^63


@dataclass(frozen=True)
class Grid:
    """The multiples of 2^exponent."""

    exponent: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "exponent", whole("exponent", self.exponent, -1000, 1000))

    @classmethod
    def for_std(cls, std: float) -> "Grid":
        """The grid on which noise of this standard deviation spans 2^20 to 2^21 units."""
        return cls(math.frexp(positive("std", std))[1] - 1 - STD_BITS)

    @property
    def step(self) -> float:
        """A grid unit: the distance between neighbors."""
        return 2.0**self.exponent

    def units(self, length: float) -> float:
        """A length in grid units; exact, since the step is a power of two."""
        return length * 2.0**-self.exponent


@dataclass(frozen=True, eq=False)
class GridArray:
    """An array of multiples of a grid's step, held as int64: the form in which a statistic is released."""

    values: Integers
    grid: Grid
    spare: bool = False  # whether what is released may take the place of the values in memory

    def __post_init__(self) -> None:
        if not isinstance(self.grid, Grid) or not isinstance(self.values, np.ndarray) or self.values.dtype != np.int64:
            kind = getattr(self.values, "dtype", type(self.values).__name__)
            raise PrivacyError(f"statistic: must be int64 units of a Grid, not {kind}; see discreet.privacy.truncate")

    @classmethod
    def of(cls, statistic: Any) -> "GridArray":
        """A statistic as it is given to `release`: a GridArray, or integers (the grid is then 1)."""
        if isinstance(statistic, GridArray):
            return statistic
        array = np.asarray(statistic)
        if array.dtype.kind not in "iub":
            raise PrivacyError(
                f"statistic: must hold integers, not {array.dtype}: put users' contributions on a grid with "
                "discreet.privacy.truncate and add those up, since noise does not protect the low bits of floats"
            )
        if array.dtype == np.uint64:
            raise PrivacyError("statistic: uint64 may overflow int64; convert it where its bound is known")
        return cls(array.astype(np.int64), Grid())


def _limit(bound: float, grid: Grid) -> float:
    if not isinstance(grid, Grid):
        raise PrivacyError(f"grid: must be a Grid, e.g. noise.grid(), not {grid!r}")
    units = grid.units(positive("bound", bound))
    if not 1 <= units <= MAX_BOUND:
        raise PrivacyError(
            f"bound: {bound:g} is {units:.3g} units of a grid of step 2^{grid.exponent}, outside [1, 2^30] "
            f"(above it sums could overflow): choose a {'coarser' if units > 1 else 'finer'} grid"
        )
    return units


def truncate(
    rows: npt.ArrayLike,
    *,
    bound: float,
    grid: Grid,
    norm: Literal["l2", "l1"] = "l2",
    indptr: npt.ArrayLike | None = None,
) -> Integers:
    """Users' contributions as integers on a grid, each of norm at most `bound`.

    A row that is too long is scaled down; entries are then truncated toward zero, which shortens every row and
    so leaves the add-remove sensitivity at `bound`. The norm is verified in exact integers.

    Args:
        rows: one row per user (the last axis is one contribution); or, with `indptr`, the concatenated entries of
            rows of different lengths.
        bound: the largest norm of a row, public.
        grid: the public grid.
        norm: "l2" for Gaussian noise, "l1" for Laplace noise.
        indptr: where each ragged row starts and ends, as in a CSR matrix.

    Returns int64 of the shape of `rows`, in grid units.
    """
    if norm not in ("l2", "l1"):
        raise PrivacyError(f"norm: must be 'l2' or 'l1', not {norm!r}")
    power = 2 if norm == "l2" else 1
    limit = _limit(bound, grid)
    values = np.asarray(rows, np.float64)
    if values.ndim == 0:
        raise PrivacyError("rows: one row per user is needed, not a single number")
    rows_of_width = np.arange(math.prod(values.shape[:-1]) + 1) * values.shape[-1]
    ends = rows_of_width if indptr is None else np.asarray(indptr, np.int64)
    if not ends.size or ends[0] != 0 or ends[-1] != values.size or (np.diff(ends) < 0).any():
        raise PrivacyError("indptr: must rise from 0 to the number of entries, as in a CSR matrix")
    return _truncated(values.ravel(), ends, grid.step, limit, power).reshape(values.shape)


def _truncated(values: Floats, ends: Integers, step: float, limit: float, power: int) -> Integers:
    """Ragged rows in units of `step`, each no longer than `limit` units in the norm of this power."""
    counts, largest = np.diff(ends), math.floor(Fraction(limit) ** power)
    with np.errstate(over="ignore", invalid="ignore"):
        units = np.where(np.isfinite(values), values, 0.0) / step
        length = _row_sums(np.abs(units) ** power, ends) ** (1 / power)
        factor = np.repeat(limit / np.maximum(length, limit), counts)
        integers = np.trunc(np.nan_to_num(units * factor, posinf=0.0, neginf=0.0)).astype(np.int64)
        # The scaling rounds by about 2^-52: a row that this left too long is shortened by 2^-40. (A row that were too
        # long even then, which docs/proofs/grid.md excludes, would count as zero: the bound holds in any case.)
        for shorten in (1 - 2.0**-40, 0.0):
            over = np.repeat(_row_sums(np.abs(integers) ** power, ends) > largest, counts)
            integers[over] = np.trunc(units[over] * factor[over] * shorten).astype(np.int64)
    return integers


def _row_sums(values: npt.NDArray[Any], ends: Integers) -> npt.NDArray[Any]:
    """The sum of each ragged row, exact for integers."""
    sums, filled = np.zeros(len(ends) - 1, values.dtype), np.diff(ends) > 0
    if filled.any():
        sums[filled] = np.add.reduceat(values, ends[:-1][filled])
    return sums


# -- exact sums: the same however users are cut into batches, and in whatever order these are added

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


Entries = tuple[Array, Array, Array, Array | None]  # indptr of users, then items, targets times weights, and weights


def normal_equations(total: Array, vectors: Array, entries: Entries, n_jobs: int | None) -> None:
    """Add w u u^T, and w y u as last columns, by item; some users at a time, so that float64 is exact."""
    indptr, items, targets, weights = entries
    for first in range(0, len(vectors), MOST_USERS):
        last = min(first + MOST_USERS, len(vectors))
        own = slice(int(indptr[first]), int(indptr[last]))
        heavy = None if weights is None else weights[own]
        some = indptr[first : last + 1] - own.start, items[own], targets[own], heavy
        _add_equations(total, vectors[first:last], some, n_jobs)


def _add_equations(total: Array, vectors: Array, entries: Entries, n_jobs: int | None) -> None:
    from scipy.sparse import csr_array

    from discreet.linalg.arrays import NUMPY
    from discreet.linalg.rows import Rows, blocks, padded

    indptr, items, targets, heavy = entries
    # By item, and by user within it: what may not count stands at item 0 with the weight 0.
    by_item = csr_array((np.arange(len(items)), items, indptr), shape=(len(vectors), len(total))).tocsc()
    order, users, ends = by_item.data, by_item.indices, by_item.indptr.astype(np.int64)
    columns, r = padded(vectors, np.float64), vectors.shape[1]
    rows = Rows(ends, users, targets[order], columns, np.zeros(0))
    weights = None if heavy is None else heavy[order]

    def work(block: "Block") -> None:
        length = min(block.length, NUMPY.longest)
        for some in block.cuts(max(1, NUMPY.cache // (max(length, r) * r * 8))):
            for first in range(0, block.length, length):
                last = min(block.length, first + length)
                X, t = rows.gather(some, first, last)
                left = X
                if weights is not None:
                    left = X * NUMPY.places(users, weights, some, slice(first, last), 0)[1][:, :, None]
                # An item is in one block, which one thread works on: no two write to the same matrices.
                total[some.rows, :r, :r] += (left.swapaxes(1, 2) @ X).astype(np.int64)
                total[some.rows, :r, r] += (t[:, None, :] @ X)[:, 0].astype(np.int64)

    for _ in over_blocks(work, blocks(rows.indptr, r, 8), n_jobs):
        pass
