"""Statistics on a public grid: integers only cross the door.

A user's contribution is scaled to its norm bound, truncated toward zero on a grid of step 2^e, and its norm is checked
in exact integer arithmetic. Sums of such contributions are exact, hence the same for any order, thread count or
machine, and their sensitivity is the bound, not the bound plus rounding errors. Nothing here raises because of a value
in the data: what is not finite counts as zero, what is too long is shortened. Only public arguments can be wrong.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from discreet.errors import PrivacyError
from discreet.typing import Integers
from discreet.validation import positive, whole

CELLS = 20  # a noise standard deviation is about 2^20 grid cells
MAX_BOUND = 1 << 30  # largest contribution of a user in grid cells: sums of 2^32 users then stay below 2^63


@dataclass(frozen=True)
class Grid:
    """The multiples of 2^exponent."""

    exponent: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "exponent", whole("exponent", self.exponent, -1000, 1000))

    @classmethod
    def for_std(cls, std: float) -> "Grid":
        """The grid on which noise of this standard deviation spans 2^20 to 2^21 cells."""
        return cls(math.frexp(positive("std", std))[1] - 1 - CELLS)

    @property
    def step(self) -> float:
        """The distance between neighbours."""
        return 2.0**self.exponent

    def cells(self, length: float) -> float:
        """A length in grid cells; exact, since the step is a power of two."""
        return length * 2.0**-self.exponent

    def __mul__(self, other: "Grid") -> "Grid":
        return Grid(self.exponent + other.exponent)


@dataclass(frozen=True, eq=False)
class GridArray:
    """An array of multiples of a grid's step, held as int64: the form in which a statistic meets the door."""

    values: Integers
    grid: Grid
    spare: bool = False  # whether what is released may take the place of the values in memory

    def __post_init__(self) -> None:
        if not isinstance(self.grid, Grid) or not isinstance(self.values, np.ndarray) or self.values.dtype != np.int64:
            kind = getattr(self.values, "dtype", type(self.values).__name__)
            raise PrivacyError(f"statistic: must be int64 cells of a Grid, not {kind}; see discreet.privacy.truncate")

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
    cells = grid.cells(positive("bound", bound))
    if not 1 <= cells <= MAX_BOUND:
        raise PrivacyError(
            f"bound: {bound:g} is {cells:.3g} cells of a grid of step 2^{grid.exponent}, outside [1, 2^30] "
            f"(above it sums could overflow): choose a {'coarser' if cells > 1 else 'finer'} grid"
        )
    return cells


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

    Returns int64 of the shape of `rows`, in grid cells.
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
    counts, largest = np.diff(ends), math.floor(Fraction(limit) ** power)
    with np.errstate(over="ignore", invalid="ignore"):
        cells = np.where(np.isfinite(values), values, 0.0).ravel() / grid.step
        length = _row_sums(np.abs(cells) ** power, ends) ** (1 / power)
        factor = np.repeat(limit / np.maximum(length, limit), counts)
        integers = np.trunc(np.nan_to_num(cells * factor, posinf=0.0, neginf=0.0)).astype(np.int64)
        # The scaling rounds by about 2^-52: a row that this left too long is shortened by 2^-40. (A row that were too
        # long even then, which docs/proofs/grid.md excludes, would count as zero: the bound holds in any case.)
        for shorten in (1 - 2.0**-40, 0.0):
            over = np.repeat(_row_sums(np.abs(integers) ** power, ends) > largest, counts)
            integers[over] = np.trunc(cells[over] * factor[over] * shorten).astype(np.int64)
    return integers.reshape(values.shape)


def _row_sums(values: npt.NDArray[Any], ends: Integers) -> npt.NDArray[Any]:
    """The sum of each ragged row, exact for integers."""
    sums, filled = np.zeros(len(ends) - 1, values.dtype), np.diff(ends) > 0
    if filled.any():
        sums[filled] = np.add.reduceat(values, ends[:-1][filled])
    return sums
