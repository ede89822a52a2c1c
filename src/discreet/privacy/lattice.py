"""Exact arithmetic: statistics as integers on a public grid; and a test of whether this machine is fit for it.

A user's contribution is scaled to its norm bound, truncated toward zero on a grid of step 2^e, and its norm is checked
in exact integer arithmetic. Sums of such contributions are exact, hence the same for any order, thread count or
machine, and their sensitivity is the bound, not the bound plus rounding errors. Nothing here raises because of a value
in the data: numbers that are not finite count as zero, and rows that are too long are shortened. Only public arguments
can be wrong.
"""

import math
import platform
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from hashlib import blake2b
from itertools import pairwise, product

import numpy as np
import numpy.typing as npt
import scipy
from scipy.sparse import csr_array
from scipy.special import expit, log_ndtr

from discreet import kernels
from discreet.errors import PrivacyError
from discreet.kernels import each_block, single_threaded_blas
from discreet.typing import Array, Integers
from discreet.validation import positive, whole
from discreet.version import __version__

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
    spare: bool = False  # whether the released array may overwrite the values

    def __post_init__(self) -> None:
        if not isinstance(self.grid, Grid) or not isinstance(self.values, np.ndarray) or self.values.dtype != np.int64:
            kind = getattr(self.values, "dtype", type(self.values).__name__)
            raise PrivacyError(f"statistic: must be int64 units of a Grid, not {kind}; see discreet.privacy.truncate")

    @classmethod
    def of(cls, statistic: "npt.ArrayLike | GridArray") -> "GridArray":
        """A statistic as passed to `release`: a GridArray, or integers (the grid is then 1)."""
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


def row_ends(indptr: npt.ArrayLike, n_entries: int) -> Integers:
    """Where ragged rows start and end, checked."""
    ends = np.ascontiguousarray(indptr, np.int64)
    if not ends.size or ends[0] != 0 or ends[-1] != n_entries or (ends[1:] < ends[:-1]).any():
        raise PrivacyError("indptr: must rise from 0 to the number of entries, as in a CSR matrix")
    return ends


def in_units(bound: float, grid: Grid) -> tuple[float, float, int]:
    """A bound as the kernels take it: the step of its grid, it in units, and the largest sum of squares of units."""
    if not isinstance(grid, Grid):
        raise PrivacyError(f"grid: must be a Grid, e.g. noise.grid(), not {grid!r}")
    units = grid.units(positive("bound", bound))
    if not 1 <= units <= MAX_BOUND:
        raise PrivacyError(
            f"bound: {bound:g} is {units:.3g} units of a grid of step 2^{grid.exponent}, outside [1, 2^30] "
            f"(above it sums could overflow): choose a {'coarser' if units > 1 else 'finer'} grid"
        )
    return grid.step, units, math.floor(Fraction(units) ** 2)


def truncate(rows: npt.ArrayLike, *, bound: float, grid: Grid, indptr: npt.ArrayLike | None = None) -> Integers:
    """Users' contributions as integers on a grid, each of L2 norm at most `bound`.

    A row that is too long is scaled down; entries are then truncated toward zero, which shortens every row and
    so leaves the add-remove sensitivity at `bound`. The norm is verified in exact integers.

    Args:
        rows: one row per user (the last axis is one contribution); or, with `indptr`, the concatenated entries of
            rows of different lengths.
        bound: the largest norm of a row, public.
        grid: the public grid.
        indptr: where each ragged row starts and ends, as in a CSR matrix.

    Returns int64 of the shape of `rows`, in grid units.
    """
    units = in_units(bound, grid)
    values = np.asarray(rows, np.float64)
    if values.ndim == 0:
        raise PrivacyError("rows: one row per user is needed, not a single number")
    rows_of_width = np.arange(math.prod(values.shape[:-1]) + 1) * values.shape[-1]
    ends = rows_of_width if indptr is None else row_ends(indptr, values.size)
    return kernels.truncate(np.ascontiguousarray(values).ravel(), ends, *units).reshape(values.shape)


# -- exact sums: the same however users are cut into batches, and in whatever order these are added

EXACT = 1 << 53  # integers up to here are exact in float64
STRIPES = 32  # of columns of a large matrix, that threads add to
MOST_USERS = 1 << 14  # whose normal equations, of at most 2^30 units each, are added up at once


def _in_float64(rows: Array, most: int) -> Iterator[Array]:
    """Integer rows with entries of at most `most`, as float64, in parts whose sums of products are exact."""
    some = EXACT // (most * most)
    for start in range(0, len(rows), some):
        yield rows[start : start + some].astype(np.float64, copy=False)


def add_gram(total: Array, rows: Array, most: int) -> None:
    """Add the sum of x x^T over integer rows x to a matrix: of a matrix times itself, BLAS computes one half."""
    for x in _in_float64(rows, most):
        np.add(total, x.T @ x, out=total, dtype=np.int64, casting="unsafe")  # integers below 2^53


def add_products(total: Array, rows: Array, most: int, n_jobs: int | None) -> Array:
    """Add x x^T, for integer rows x, to a large matrix, on and above its diagonal.

    Threads share one sum, a stripe of it each, so that there is only one such matrix for any number of threads.
    """
    for x in _in_float64(rows, most):

        def add(stripe: slice, x: Array = x) -> None:
            own, product = total[: stripe.stop, stripe], x[:, : stripe.stop].T @ x[:, stripe]
            np.add(own, product, out=own, dtype=np.int64, casting="unsafe")  # integers below 2^53

        each_block(add, _stripes(len(total)), n_jobs)
    return total


def mirror(total: Array) -> None:
    """Make the lower triangle of a matrix a copy of the upper one."""
    for stripe in _stripes(len(total)):
        total[stripe, : stripe.start] = total[: stripe.start, stripe].T
        block = total[stripe, stripe]
        block[:] = np.triu(block) + np.triu(block, 1).T


def _stripes(size: int) -> list[slice]:
    """Columns of a matrix, with about as many entries on and above the diagonal in each stripe."""
    ends = np.unique(np.rint(size * np.sqrt(np.arange(STRIPES + 1) / STRIPES)).astype(int))
    return [slice(first, last) for first, last in pairwise(ends.tolist())]


Entries = tuple[Array, Array, Array, Array | None]  # indptr of users, then items, targets times weights, and weights


def normal_equations(total: Array, vectors: Array, entries: Entries, n_jobs: int | None) -> None:
    """Add w u u^T, and w y u as last columns, by item; in parts, so that float64 is exact."""
    indptr, items, targets, weights = entries
    for first in range(0, len(vectors), MOST_USERS):
        last = min(first + MOST_USERS, len(vectors))
        own = slice(int(indptr[first]), int(indptr[last]))
        # By item, and by user within it; entries that do not count are at item 0 with weight 0.
        ends = indptr[first : last + 1] - own.start
        by_item = csr_array((np.arange(len(items[own])), items[own], ends), shape=(last - first, len(total))).tocsc()
        order, users, ends = by_item.data, by_item.indices, by_item.indptr.astype(np.int64)
        heavy = None if weights is None else weights[own][order]
        aims = targets[own][order]
        kernels.normal_equations(total, ends, users, vectors[first:last], aims, weights=heavy, n_jobs=n_jobs)


# -- does this machine compute the same bits for any memory address, and for any neighbors in memory?
#
# Our own kernels do by construction (`discreet.kernels`): one thread computes a row, in its own order. Models also
# multiply a user's row by a public matrix with NumPy. Most BLAS kernels give the same result for any address; some
# treat the first few numbers separately until they reach an aligned address, and round differently. Then the last bits
# of one user's numbers would depend on which users come before them in memory. And vectorized functions such as tanh
# may compute the last few numbers of an array in another way. The proofs require that neither happens; so it is tested,
# once per process, before the first private fit, and before a private model serves anyone.

PLACES = 8  # numbers of 8 bytes in a cache line
SHAPES = [(c, k) for c in (1, 4, 7, 18, 40, 96) for k in (1, 2, 3, 6, 11, 13, 24, 33, 65)]
LARGE = [(1002, 64)]  # dense rows, and directions of taste
ENTRIES = 67  # of an array: the last ones do not fill a vector register
KINDS = (np.float32, np.float64)  # used to fold in users

Operation = Callable[[Array, Array, Array], Array]
PRODUCTS: dict[str, Operation] = {  # of a row and a matrix
    "t X": lambda X, t, z: t[:, None, :] @ X,
    "X z": lambda X, t, z: X @ z[:, :, None],
    "z X^T": lambda X, t, z: z[:, None, :] @ X.swapaxes(1, 2),
}
OPERATIONS: dict[str, Operation] = {
    **PRODUCTS,
    "sparse t X": lambda X, t, z: csr_array((t[0], np.arange(t.size), [0, t.size]), shape=t.shape) @ X[0],
}
FUNCTIONS: dict[str, Callable[[Array], Array]] = {  # entry by entry
    "exp": np.exp,
    "tanh": np.tanh,
    "power": lambda x: np.abs(x) ** 0.3,
    "logistic": expit,
    "log of the normal distribution": log_ndtr,
}


def require_sound_arithmetic() -> None:
    """Raise unless one user's numbers are the same, to the last bit, whatever is computed along with them."""
    if operations := address_dependent():
        raise PrivacyError(
            f"this machine's BLAS gives other bits for other memory addresses ({', '.join(operations)}), so that one "
            "user's numbers would depend on other users; use another BLAS, or with OpenBLAS another kernel "
            "(for instance OPENBLAS_CORETYPE=Haswell)"
        )


@cache
def address_dependent() -> tuple[str, ...]:
    """The operations for folding in users whose last bits depend on addresses or positions on this machine."""
    rng = np.random.default_rng(0)
    found: set[str] = set()
    with single_threaded_blas():
        for (c, k), kind in product(SHAPES + LARGE, KINDS):
            X, t, z = (rng.standard_normal(shape).astype(kind) for shape in ((1, c, k), (1, c), (1, k)))
            operations = PRODUCTS if (c, k) in LARGE else OPERATIONS
            places = [(_placed(X, at), _placed(t, at), _placed(z, at)) for at in range(_places(X))]
            found.update(name for name, operation in operations.items() if _varies(operation, places))
        for kind, (name, function) in product(KINDS, FUNCTIONS.items()):
            found.update([name] * _depends_on_place(function, rng.standard_normal(ENTRIES).astype(kind)))
    return tuple(sorted(found))


@cache
def machine_kernels() -> str:
    """A description of everything that decides the last bits of results: if two are equal, so are the bits of a row.

    The machine, the versions of libraries, and the kernels that they chose for its processor. Not every library says
    which it chose, so there is also a digest of results.
    """
    words = [platform.machine(), " ".join(platform.libc_ver()), f"discreet {__version__} {kernels.instruction_set()}"]
    words += [f"{package.__name__} {package.__version__}" for package in (np, scipy)]
    with suppress(TypeError, KeyError):  # NumPy before 1.25 does not say; the digest below must do
        words.append("+".join(np.show_config("dicts")["SIMD Extensions"]["found"]) or "baseline")
    blas = kernels.blas_libraries()
    said = {f"{x.internal_api} {x.version} {getattr(x, 'architecture', None) or 'unnamed kernel'}" for x in blas}
    return ", ".join([*words, *sorted(said), f"results {_results()}"])


def _results() -> str:
    """A digest of the results, on this machine, of the operations that fold in users and a few of NumPy's loops."""
    rng, digest = np.random.default_rng(0), blake2b(digest_size=8)
    with single_threaded_blas():
        for (c, k), kind in product(SHAPES, KINDS):
            X, t, z = (rng.random(shape).astype(kind) - kind(0.5) for shape in ((1, c, k), (1, c), (1, k)))
            found = [operation(X, t, z) for operation in OPERATIONS.values()]
            found += [np.tanh(X), np.exp(X), (X**2).sum((1, 2))]
            table = kernels.Table.of(X[0])
            found.append(kernels.ridge(np.array([0, c]), np.arange(c), t[0], table, np.ones(1))[1].values)
            for result in found:
                digest.update(np.ascontiguousarray(result).tobytes())
    return digest.hexdigest()


def _depends_on_place(function: Callable[[Array], Array], x: Array) -> bool:
    """Whether an entry's value changes if it is alone, or at another position."""
    together, reverse = function(x), function(x[::-1].copy())[::-1]
    alone = [function(x[at : at + 1])[0] for at in range(len(x))]
    return not (np.array_equal(together, alone) and np.array_equal(together, reverse))


def _placed(array: Array, at: int) -> Array:
    """A copy whose first number is `at` numbers after the start of a cache line."""
    places = _places(array)
    memory = np.zeros(array.size + 2 * places, array.dtype)
    first = (-memory.ctypes.data // memory.itemsize) % places + at
    placed = memory[first : first + array.size].reshape(array.shape)
    placed[...] = array
    return placed


def _places(array: Array) -> int:
    """How many numbers of this type fit a cache line."""
    return PLACES * 8 // array.itemsize


def _varies(operation: Operation, places: list[tuple[Array, Array, Array]]) -> bool:
    """Whether the results for the same operands at several places differ."""
    results = [operation(*operands).copy() for operands in places]
    return any(not np.array_equal(results[0], result) for result in results[1:])
