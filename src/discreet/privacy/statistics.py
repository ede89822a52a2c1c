"""Statistics that can be released about people: each kind of sum is a class that knows its own sensitivity.

A model chooses a class and its public bounds, and computes contributions from one user's own rows and public numbers.
The class does the rest: it says how far one person can move the sum, clips each contribution to the bound, puts it on
a grid of integers and adds it up exactly. A model cannot state a sensitivity. Conditions for a smaller one, such as
entries that are never negative, are enforced here, not promised by the model.

Write f(D) for the integer sum over a data set D. For every class and any contributions, f(D + u) - f(D) = f({u})
exactly, and the norm of f({u}) is at most the sensitivity (tests/privacy/test_statistics.py). Nothing here raises
because of a value in the data: numbers that are not finite count as zero, rows that are too long are shortened, and an
item that a user has twice counts once.

A contribution is scaled to its bound, truncated toward zero to multiples of a public grid unit, and its norm is checked
in exact integer arithmetic. The sums are exact, hence the same for any order, number of threads or machine, and their
sensitivity is the bound itself, without an allowance for rounding errors.

Proofs: docs/proofs/grid.md for `VectorSum`, `GramSum` and `OuterSum`; docs/proofs/oja.md for `ProductSum`;
docs/proofs/dpals-published.md for `NormalEquations`; docs/proofs/evaluation.md for `MeanSum`.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from discreet import kernels
from discreet.errors import PrivacyError
from discreet.kernels import CALL_ROWS, SharedRows, Total
from discreet.parallel import each_block
from discreet.privacy.guarantee import Adjacency, require_adjacency, sensitivity_factor
from discreet.privacy.noise import Gaussian, Grid
from discreet.typing import Array, Integers, Self
from discreet.validation import Count, Positive, check_fields, positive, whole

MAX_BOUND = 1 << 30  # largest contribution of a user in grid units: sums of 2^32 users then stay below 2^63
EXACT = 1 << 53  # float64 represents all integers up to here exactly
STRIPES = 32  # blocks of columns of a large matrix, which threads fill in parallel
MOST_USERS = 1 << 14  # users whose normal equations, at most 2^30 units each, are added up in one call
UNIT_BITS = 14  # the norm of a unit vector is at most 2^14 grid units
GRID_BITS = 29  # a noise standard deviation, or a bound, is at most 2^29 grid units
WEIGHT_BITS = 6  # a weight of 1 is 2^6 grid units
SMALL = 1024  # Gram matrices of up to this many columns have a separate sum for each batch of users
NARROW = 64  # up to this many columns, calling BLAS costs more than it saves
UP = 1 + 2.0**-40  # covers rounding errors in the computation of a sensitivity
BELOW_ONE = 1 - 2.0**-40  # a vector of this length in floats has a norm of at most 1, despite rounding
MOST_NUMBERS = 1 << 24  # entries of a sum of products, and so of one user's products, at most
ROUNDING = 2.0**-26  # relative: more than all float64 errors in one user's products, for that many entries
ROOM = 1 + 2.0**-30  # slack between the longest row of a `MeanSum` and its bound: no row is ever shortened to fit


# -- users' rows


@dataclass(frozen=True)
class UserBatch:
    """Some users' rows: row i has items indices[indptr[i]:indptr[i + 1]] and values aligned with them."""

    indptr: Array
    indices: Array
    values: Array

    @property
    def n_users(self) -> int:
        """How many users there are."""
        return len(self.indptr) - 1

    @cached_property
    def counts(self) -> Array:
        """How many items each user has."""
        return np.diff(self.indptr)

    @cached_property
    def owners(self) -> Array:
        """The row number of each entry."""
        return np.repeat(np.arange(len(self.indptr) - 1), self.counts)

    def row_sums(self, entries: Array) -> Array:
        """The sum of each row's entries, in order; it does not depend on any other row."""
        return kernels.row_sums(entries, self.indptr)


def row_ends(indptr: npt.ArrayLike, n_entries: int) -> Integers:
    """The offsets at which ragged rows start and end, checked."""
    ends = np.ascontiguousarray(indptr, np.int64)
    if not ends.size or ends[0] != 0 or ends[-1] != n_entries or (ends[1:] < ends[:-1]).any():
        raise PrivacyError("indptr: must rise from 0 to the number of entries, as in a CSR matrix")
    return ends


def countable(batch: UserBatch, size: int) -> tuple[Array, npt.NDArray[np.bool_] | None]:
    """Item numbers, and a mask of the entries that count (None if all do).

    An item that does not exist does not count, and neither does one that its user has already: a bound on the norm of
    a user's entries bounds their sum only if no two have the same item. Entries that do not count are moved to item 0.
    """
    items, indptr = np.asarray(batch.indices), row_ends(batch.indptr, len(batch.indices))
    if kernels.rising(items, indptr, size):
        return items, None
    owners = batch.owners
    order = np.lexsort((items, owners))
    again = (owners[order][1:] == owners[order][:-1]) & (items[order][1:] == items[order][:-1])
    counts = (items >= 0) & (items < size)
    counts[order[1:][again]] = False  # lexsort is stable, so the first of equal items counts
    return np.where(counts, items, 0).astype(np.uint32), counts


def _only(batch: UserBatch, entries: Array, size: int) -> tuple[Array, Array]:
    """Items and entries in float64; entries that do not count become 0, at item 0."""
    values, (items, counts) = np.asarray(entries, np.float64), countable(batch, size)
    return items, values if counts is None else np.where(counts, values, 0.0)


def _rows(batch: Any, contribution: Any) -> Array:
    """Contributions with one row for each user. Others raise: the sensitivity covers only one row of each user."""
    rows = np.asarray(contribution, np.float64)
    if len(rows) != batch.n_users:
        raise PrivacyError("contribution: one row for each user was declared")
    return rows


# -- contributions as integers


def in_units(bound: float, grid: Grid) -> tuple[float, float, int]:
    """The arguments of the kernels: the grid's step, the bound in units, and the largest sum of squares in units."""
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


def _in_float64(rows: Array, most: int) -> Iterator[Array]:
    """Integer rows with entries of at most `most`, as float64, in chunks whose sums of products are exact."""
    some = EXACT // (most * most)
    for start in range(0, len(rows), some):
        yield rows[start : start + some].astype(np.float64, copy=False)


def add_gram(total: Array, rows: Array, most: int) -> None:
    """Add the sum of x x^T over integer rows x to a matrix; BLAS computes only half of a product x^T x."""
    for x in _in_float64(rows, most):
        np.add(total, x.T @ x, out=total, dtype=np.int64, casting="unsafe")  # integers below 2^53


def add_products(total: Array, rows: Array, most: int, n_jobs: int | None) -> Array:
    """Add x x^T, for integer rows x, to a large matrix, on and above its diagonal.

    Threads fill different columns of one shared sum, so memory does not grow with the number of threads.
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
    """Blocks of columns, each with about as many entries on and above the diagonal."""
    ends = np.unique(np.rint(size * np.sqrt(np.arange(STRIPES + 1) / STRIPES)).astype(int))
    return [slice(first, last) for first, last in pairwise(ends.tolist())]


Entries = tuple[Array, Array, Array, Array | None]  # indptr of users, then items, targets times weights, and weights


def normal_equations(total: Array, vectors: Array, entries: Entries, n_jobs: int | None) -> None:
    """Add users' w u u^T to their items, and w y u as last columns, for vectors u, weights w and targets y."""
    indptr, items, targets, weights = entries
    for first in range(0, len(vectors), MOST_USERS):
        last = min(first + MOST_USERS, len(vectors))
        own = slice(int(indptr[first]), int(indptr[last]))
        # Sorted by item, then by user. Entries that do not count are at item 0 with weight 0.
        ends = indptr[first : last + 1] - own.start
        by_item = csr_array((np.arange(len(items[own])), items[own], ends), shape=(last - first, len(total))).tocsc()
        order, users, ends = by_item.data, by_item.indices, by_item.indptr.astype(np.int64)
        heavy = None if weights is None else weights[own][order]
        aims = targets[own][order]
        kernels.normal_equations(total, ends, users, vectors[first:last], aims, weights=heavy, n_jobs=n_jobs)


def _add_given(rows: SharedRows, x: Array, totals: tuple[Total, ...], **given: Array) -> None:
    """Add entries x to totals, with vectors or numbers of shape (users, each, k) if they are given."""
    for turn in rows.turns:
        kernels.add_up(turn, None, *totals, x=x, **given)


# -- the interface of a type of sum


class ExactSum(ABC):
    """Encodes contributions in grid units and adds them up. Floats are only summed within one user, in order."""

    symmetric: ClassVar[bool] = False  # whether the sum consists of symmetric matrices

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The shape of the sum."""

    @abstractmethod
    def add_batch(self, total: Array, batch: Any, contribution: Any) -> None:
        """Add the contributions of some users to the total, in place."""

    def totals(self, total: Array, kind: str) -> tuple[Total, ...]:
        """The total and its bounds, for a `RowFunction` of this kind; raises for kinds that do not fit this sum."""
        raise PrivacyError(f"contribution: {type(self).__name__} takes no compiled function of the kind {kind!r}")

    def encode(self, batch: Any, contribution: Any) -> Any:
        """The contributions of some users, as `add` takes them: their sum, unless a subclass overrides this."""
        total = np.zeros(self.shape, np.int64)
        self.add_batch(total, batch, contribution)
        return total

    def add(self, total: Array, encoded: Any, n_jobs: int | None) -> Array:
        """The total with some users' integers added."""
        total += encoded
        return total


@dataclass(frozen=True)
class Statistic(ExactSum):
    """A kind of sum over people, with its sensitivity. `encoder` is a copy with the grids for adding it up."""

    grids: tuple[Grid, ...] = field(default=(), kw_only=True)  # contributions are products of factors on these grids

    def __post_init__(self) -> None:
        check_fields(self)

    @abstractmethod
    def sensitivity(self, adjacency: str) -> float:
        """How far one person can move the sum, in the L2 norm; raises for an adjacency without a proof."""

    def calibrated(self, adjacency: str, noise_for: Callable[[float], Gaussian]) -> tuple[float, Gaussian]:
        """The sensitivity, and the noise for it."""
        sensitivity = self.sensitivity(adjacency)
        return sensitivity, noise_for(sensitivity)

    def encoder(self, std: float) -> Self:
        """A copy with grids that suit noise of this standard deviation."""
        return replace(self, grids=self.grids_for(std))

    @abstractmethod
    def grids_for(self, std: float) -> tuple[Grid, ...]:
        """The grids that suit noise of this standard deviation."""

    @property
    def grid(self) -> Grid:
        """The grid of the sum."""
        if not self.grids:
            raise PrivacyError("statistic: it has no grid yet; use its `encoder`")
        return Grid(sum(grid.exponent for grid in self.grids))

    def finish(self, total: Array) -> Array:
        """The total in the form that is released."""
        return total


@dataclass(frozen=True)
class Stacked(ExactSum):
    """Statistics with the same number of columns, added up in one pass; a contribution is a tuple, one for each."""

    encoders: tuple[Statistic, ...]

    def __post_init__(self) -> None:
        shapes = [encoder.shape for encoder in self.encoders]
        if len({shape[1:] for shape in shapes}) > 1:
            raise PrivacyError(f"statistics: they must have equally many columns, not the shapes {shapes}")

    @property
    def shape(self) -> tuple[int, ...]:
        shapes = [encoder.shape for encoder in self.encoders]
        return (sum(shape[0] for shape in shapes), *shapes[0][1:])

    def split(self, total: Array) -> list[tuple[Statistic, Array]]:
        """Each encoder with its rows of the total."""
        ends = np.cumsum([encoder.shape[0] for encoder in self.encoders])
        return list(zip(self.encoders, np.split(total, ends[:-1]), strict=True))

    def add_batch(self, total: Array, batch: Any, contribution: tuple[Any, ...]) -> None:
        for (encoder, part), given in zip(self.split(total), contribution, strict=True):
            encoder.add_batch(part, batch, given)

    def totals(self, total: Array, kind: str) -> tuple[Total, ...]:
        return tuple(each for encoder, part in self.split(total) for each in encoder.totals(part, kind))


def _moved(norm: float, adjacency: str, *, nonnegative: bool) -> float:
    factor = sensitivity_factor(adjacency, nonnegative=nonnegative)
    return norm if factor == 1 else math.nextafter(norm * factor, math.inf)


def root_below(bound: float) -> float:
    """A square root, rounded down: its exact square is at most `bound`."""
    length = math.sqrt(bound)
    while Fraction(length) ** 2 > Fraction(bound):
        length = math.nextafter(length, 0)
    return length


def fine_grid(std: float, bound: float) -> Grid:
    """A grid on which the larger of the noise's standard deviation and the bound is about 2^29 units long."""
    return Grid(math.frexp(max(std, bound))[1] - GRID_BITS)


# -- vectors


@dataclass(frozen=True)
class VectorSum(Statistic):
    """The sum over users of a vector of `size` numbers, of L2 norm at most `norm`.

    A contribution is the user's entries on their own items, concatenated over users (one axis), or one row for each
    user (two axes). For replace adjacency the sensitivity is twice the norm. With `nonnegative`, negative entries are
    set to zero: then no two contributions have a negative inner product, and sqrt 2 times the norm is enough. For a
    single number the norm is enough, since two nonnegative numbers are no further apart than the larger of them.
    """

    size: Count
    norm: Positive
    nonnegative: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.size,)

    def sensitivity(self, adjacency: str) -> float:
        """`norm` for add-remove; 2, sqrt 2 or 1 times that for replace."""
        require_adjacency(adjacency, Adjacency.ADD_REMOVE, Adjacency.REPLACE)
        if self.size == 1 and self.nonnegative:
            return self.norm
        return _moved(self.norm, adjacency, nonnegative=self.nonnegative)

    def grids_for(self, std: float) -> tuple[Grid, ...]:
        return (fine_grid(std, self.norm),)

    def add_batch(self, total: Array, batch: Any, contribution: Array) -> None:
        size, entries = self.size, np.asarray(contribution, np.float64)
        least = 0.0 if self.nonnegative else -math.inf
        if entries.ndim == 1:
            (items, entries), ends = _only(batch, entries, size), row_ends(batch.indptr, len(entries))
            _add_given(SharedRows(ends, items, entries), entries, self.totals(total, "items"))
            return
        if entries.ndim != 2 or entries.shape[1] != size:
            raise PrivacyError(f"contribution: rows of {size} numbers were declared")
        rows = np.maximum(_rows(batch, entries), least)
        total += truncate(rows, bound=self.norm, grid=self.grid).sum(axis=0, dtype=np.int64)

    def totals(self, total: Array, kind: str) -> tuple[Total, ...]:
        if kind not in ("items", "whole"):
            return super().totals(total, kind)
        return (Total(total, in_units(self.norm, self.grid), kind, least=0.0 if self.nonnegative else -math.inf),)


# -- Gram matrices

SparseRows = tuple[Array, Array, Array]  # items, values, and the offsets of rows


@dataclass(frozen=True)
class GramSum(Statistic):
    """The sum over users of the `size` x `size` matrix x x^T, |x|^2 at most `norm_squared`.

    It is positive semidefinite, so sqrt 2 times that is enough for replace. A contribution is the user's x on their own
    items (one axis), or one row for each user (two axes), in which several x may be concatenated; then the squares of
    their lengths add up to at most `norm_squared`, and so does the length of the sum of their x x^T. Leaving out the
    diagonal, with `zero_diagonal`, is a projection, which moves no two contributions further apart. `few` announces
    that users have few of the items: the same sum is then computed entry by entry, which is faster.
    """

    symmetric: ClassVar[bool] = True
    size: Count
    norm_squared: Positive
    zero_diagonal: bool = False
    few: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.size, self.size)

    def sensitivity(self, adjacency: str) -> float:
        """`norm_squared` for add-remove, sqrt 2 times that for replace."""
        return _moved(self.norm_squared, adjacency, nonnegative=True)

    def grids_for(self, std: float) -> tuple[Grid, ...]:
        half = Grid(-((GRID_BITS - math.frexp(max(std, self.length * self.length))[1]) // 2))  # squares suit the noise
        return half, half

    @cached_property
    def length(self) -> float:
        """The bound on a user's x."""
        return root_below(self.norm_squared)

    @property
    def most(self) -> int:
        """The largest entry of a user's x, in grid units."""
        return math.floor(self.grids[0].units(self.length))

    def sparse(self, batch: UserBatch, contribution: Array) -> SparseRows:
        """Sparse contributions: items, users' x, and the offsets of rows."""
        return (*_only(batch, contribution, self.size), row_ends(batch.indptr, len(batch.indices)))

    def _scatter(self, total: Array, rows: SparseRows) -> None:
        items, x, ends = rows
        _add_given(SharedRows(ends, items, x), x, self.totals(total, "pairs"))

    def scattered(self, contribution: Array) -> bool:
        """Whether entries are multiplied one by one, which must not depend on the data."""
        return self.few and np.ndim(contribution) == 1

    def rows(self, batch: UserBatch, contribution: Array) -> Array:
        """Users' x in grid units, one per row: whole numbers, of any dtype."""
        size = self.size
        if np.ndim(contribution) == 2:
            if np.shape(contribution)[1] % size:
                raise PrivacyError(f"contribution: rows of a multiple of {size} numbers were declared")
            return truncate(_rows(batch, contribution), bound=self.length, grid=self.grids[0]).reshape(-1, size)
        items, entries, ends = self.sparse(batch, contribution)
        units = truncate(entries, bound=self.length, grid=self.grids[0], indptr=ends)
        dense: Array = csr_array((units.astype(np.float64), items, ends), shape=(len(ends) - 1, size)).toarray()
        return dense

    def encode(self, batch: UserBatch, contribution: Array) -> Array | SparseRows:
        """The sum if it is small; otherwise the rows, so that all threads share one large sum."""
        if self.size > SMALL:
            if self.scattered(contribution):
                return self.sparse(batch, contribution)
            return self.rows(batch, contribution).astype(np.float64, copy=False)  # the type that BLAS takes
        total: Array = super().encode(batch, contribution)
        return total

    def add(self, total: Array, encoded: Array | SparseRows, n_jobs: int | None) -> Array:
        """The total with some users' integers added, on and above the diagonal."""
        if isinstance(encoded, tuple):
            self._scatter(total, encoded)
            return total
        if self.size <= SMALL:
            return super().add(total, encoded, n_jobs)
        return add_products(total, encoded, self.most, n_jobs)

    def add_batch(self, total: Array, batch: UserBatch, contribution: Array) -> None:
        if np.ndim(contribution) == 2 and self.size <= NARROW and np.shape(contribution)[1] % self.size == 0:
            each = np.shape(contribution)[1] // self.size
            numbers = _rows(batch, contribution).reshape(batch.n_users, each, self.size)
            nothing = np.zeros(0)
            empty = SharedRows(np.zeros(batch.n_users + 1, np.int64), nothing.astype(np.uint8), nothing)
            _add_given(empty, nothing, self.totals(total, "squares"), numbers=numbers)
            return
        if self.scattered(contribution):
            self._scatter(total, self.sparse(batch, contribution))
            return
        rows = self.rows(batch, contribution)
        add_gram(total, rows, self.most) if self.size <= SMALL else add_products(total, rows, self.most, 1)

    def totals(self, total: Array, kind: str) -> tuple[Total, ...]:
        """Supports "squares" of numbers, "pairs" of entries, and "items" if float64 sums of a whole call are exact."""
        bound = in_units(self.length, self.grids[0])
        too_large = kind == "items" and (self.size > SMALL or bound[2] * CALL_ROWS > EXACT)
        if too_large or kind not in ("items", "pairs", "squares"):
            return super().totals(total, kind)
        return (Total(total, bound, "gram" if kind == "items" else kind),)

    def finish(self, total: Array) -> Array:
        """Fill in the lower triangle; with `zero_diagonal`, clear the diagonal."""
        mirror(total)
        if self.zero_diagonal:
            np.fill_diagonal(total, 0)
        return total


# -- outer products by item


@dataclass(frozen=True)
class OuterSum(Statistic):
    """The sum over users of a matrix with a row x_j a^T for each of their items j, |x| at most `norm`, |a| at most 1.

    The `size` is (items, columns). Rows of different items do not overlap, so the norm of a user's matrix is at most
    that of their x. A contribution is the x of all entries, and vectors a, the same number m for each user: entry p of
    a user is multiplied by their vector p mod m.
    """

    size: tuple[int, int]
    norm: Positive

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, size in zip(("items", "columns"), self.size, strict=True):
            whole(name, size, 1)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.size

    def sensitivity(self, adjacency: str) -> float:
        """`norm` for add-remove, twice that for replace."""
        return _moved(self.norm, adjacency, nonnegative=False)

    def grids_for(self, std: float) -> tuple[Grid, ...]:
        """The grids of x and of a."""
        grid = fine_grid(std, self.norm)
        unit = Grid(-min(UNIT_BITS, int(math.log2(max(grid.units(self.norm), 4.0))) // 2))
        return Grid(grid.exponent - unit.exponent), unit

    def add_batch(self, total: Array, batch: UserBatch, contribution: tuple[Array, Array]) -> None:
        """Add up integers: |x| |a| is below 2^30, so the sums of 2^33 users are below 2^63."""
        (entries, vectors), users = contribution, len(batch.indptr) - 1
        if not users:
            return
        if not len(vectors) or len(vectors) % users or np.shape(vectors)[1:] != self.shape[1:]:
            raise PrivacyError("contribution: give the same number of vectors, of the declared length, for each user")
        (items, entries), ends = _only(batch, entries, self.shape[0]), row_ends(batch.indptr, len(entries))
        vectors = np.asarray(vectors, np.float64).reshape(users, -1, self.shape[1])
        _add_given(SharedRows(ends, items, entries), entries, self.totals(total, "vectors"), vectors=vectors)

    def totals(self, total: Array, kind: str) -> tuple[Total, ...]:
        if kind not in ("vectors", "squares"):
            return super().totals(total, kind)
        x_grid, a_grid = self.grids
        return (Total(total, in_units(self.norm, x_grid), "vectors", in_units(1.0, a_grid)),)


# -- products with public vectors


@dataclass(frozen=True, eq=False)
class ProductSum(Statistic):
    """The sum over users of x (x . v) for public orthonormal vectors v, |x|^2 at most `norm_squared`.

    For one vector, x (x . v) lies in the ball whose diameter runs from 0 to norm_squared * v: so two people's products,
    or a person's and 0, differ by at most `norm_squared`. For several vectors the bound for replace is sqrt 2 times
    that. A contribution is the user's x on their own items. There are at most `MOST_NUMBERS` numbers in the sum.
    """

    vectors: Array  # (items, r)
    norm_squared: Positive

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.vectors.size > MOST_NUMBERS:
            raise PrivacyError(f"vectors: their products are proved for at most {MOST_NUMBERS:,} numbers in all")
        gram = self.vectors.T @ self.vectors
        if not np.allclose(gram, np.eye(len(gram)), rtol=0, atol=2.0**-42):
            raise PrivacyError("vectors: orthonormal columns are needed")

    @property
    def shape(self) -> tuple[int, ...]:
        return self.vectors.shape

    def sensitivity(self, adjacency: str) -> float:
        """`norm_squared`; for replace slightly more, and sqrt 2 times that for several vectors."""
        if require_adjacency(adjacency, Adjacency.ADD_REMOVE, Adjacency.REPLACE) is Adjacency.ADD_REMOVE:
            return self.norm_squared  # a contribution's own length, which is checked in integers
        return self.norm_squared * (1.0 if self.vectors.shape[1] == 1 else math.sqrt(2)) * (1 + 2 * ROUNDING)

    def calibrated(self, adjacency: str, noise_for: Callable[[float], Gaussian]) -> tuple[float, Gaussian]:
        """For replace, the sensitivity grows with the grid units, which depend on the noise."""
        exact = self.sensitivity(adjacency)
        if Adjacency(adjacency) is Adjacency.ADD_REMOVE:
            return exact, noise_for(exact)
        # A grid unit is at most 2^-28 of the bound or of the noise if the noise is at most twice that for `exact`,
        # which is checked below. Truncation moves two people's numbers apart by at most a unit each.
        std = noise_for(exact).std
        sensitivity = exact + 2.0**-27 * max(std, self.norm_squared) * math.sqrt(self.vectors.size)
        noise = noise_for(sensitivity)
        if noise.std > 2 * std:
            raise PrivacyError("epsilon: too small for this many items: the noise would drown out any number of people")
        return sensitivity, noise

    def grids_for(self, std: float) -> tuple[Grid, ...]:
        return (fine_grid(std, self.norm_squared),)

    def add_batch(self, total: Array, batch: UserBatch, contribution: Array) -> None:
        bound, (size, r) = self.norm_squared, self.shape
        items, entries = _only(batch, contribution, size)
        owners, n = batch.owners, len(batch.indptr) - 1
        with np.errstate(over="ignore", invalid="ignore"):
            length = math.sqrt(bound)
            norms = np.sqrt(np.bincount(owners, entries**2, minlength=n))
            x = entries * (length / np.maximum(norms, length))[owners]
            found = np.empty((len(x), r))
            for at in range(r):
                column = BELOW_ONE * self.vectors[:, at]
                found[:, at] = np.bincount(owners, x * column[items], minlength=n)[owners] * x
        ends = np.asarray(batch.indptr) * r
        units = truncate(found.ravel(), bound=bound, grid=self.grid, indptr=ends).reshape(-1, r)
        for at in range(r):
            np.add.at(total[:, at], items, units[:, at])


# -- normal equations by item


def normal_equations_sensitivity(ratio: float, adjacency: str) -> float:
    """How far one item of a user moves `NormalEquations`, in units of the bound of its Gram matrix.

    With a = 1 for the Gram matrix and b = ratio^2 for the right-hand side: sqrt(a + b) for add-remove. For replace, two
    people with opposite targets and vectors at an angle are worst: sqrt(2a + 2b + b^2 / 2a), or sqrt(4b) if b > 2a.
    """
    b = ratio**2
    if require_adjacency(adjacency, Adjacency.ADD_REMOVE, Adjacency.REPLACE) is Adjacency.ADD_REMOVE:
        return math.sqrt(1 + b)
    return math.sqrt(2 + 2 * b + b * b / 2 if b <= 2 else 4 * b)


@dataclass(frozen=True)
class EncodedEquations:
    """Some users' vectors and items, targets times weights, and weights (None if all are 1), in grid units."""

    vectors: Array
    indptr: Array
    items: Array
    targets: Array
    weights: Array | None


@dataclass(frozen=True)
class NormalEquations(Statistic):
    """For each item the sum over its users of w u u^T and of w y u, released as one stack of symmetric matrices.

    A user has one vector u, no longer than `user_norm`, and for each of their items a weight w and a target y, at most
    `target_bound`. The squares of their weights add up to at most `k`; without weights, their first k items count. The
    right-hand side w y u, scaled, is the last column of the item's matrix: so one bound covers both, and opposite
    targets and opposite vectors of two people are not counted twice. A contribution is users' vectors, targets, and
    weights or None.
    """

    symmetric: ClassVar[bool] = True
    n_items: Count
    rank: Count  # the length of u
    k: Count
    user_norm: Positive
    target_bound: Positive
    ratio: Positive  # how much more noise the Gram matrix gets than the right-hand side, each in units of its own bound
    weighted: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n_items, self.rank + 1, self.rank + 1)

    def sensitivity(self, adjacency: str) -> float:
        """sqrt(k) times the sensitivity of a single item."""
        return math.sqrt(self.k) * normal_equations_sensitivity(self.ratio, adjacency) * self.user_norm**2 * UP

    def grids_for(self, std: float) -> tuple[Grid, ...]:
        """The grids of two vectors and a weight, whose product and the noise are at most about 2^29 units."""
        weight = Grid(-WEIGHT_BITS if self.weighted else 0)
        heaviest = math.sqrt(self.k) if self.weighted else 1.0
        most = max(std, heaviest * self.user_norm**2 * max(1.0, self.ratio))
        vector = Grid(-((GRID_BITS + weight.exponent - math.frexp(most)[1]) // 2))
        return vector, vector, weight

    @property
    def target_unit(self) -> float:
        """Multiply released right-hand sides by this to undo their scaling."""
        return self.target_bound / (self.ratio / math.sqrt(2) * self.user_norm)

    def add_batch(self, total: Array, batch: UserBatch, contribution: tuple[Array, Array, Array | None]) -> None:
        self.add(total, self.encode(batch, contribution), 1)

    def encode(self, batch: UserBatch, contribution: tuple[Array, Array, Array | None]) -> EncodedEquations:
        """Put some users' vectors, targets and weights on their grids."""
        vectors, targets, weights = contribution
        if np.ndim(vectors) != 2 or np.shape(vectors)[1] != self.rank:
            raise PrivacyError(f"contribution: vectors of {self.rank} numbers were declared")
        units = truncate(_rows(batch, vectors), bound=self.user_norm, grid=self.grids[0])
        indptr, (items, counts) = np.asarray(batch.indptr), countable(batch, self.n_items)
        heavy, aims = self._weights(indptr, weights, counts), self._targets(np.asarray(targets, np.float64))
        return EncodedEquations(units, indptr, items, aims if heavy is None else aims * heavy, heavy)

    @property
    def target_units(self) -> float:
        """The largest target, in grid units: ratio / sqrt 2 times the longest vector."""
        return self.ratio / math.sqrt(2) * self.grids[0].units(self.user_norm)

    def _targets(self, targets: Array) -> Array:
        most, bound = self.target_units, self.target_bound
        # Clip before the division, which might overflow: a warning would reveal something about the data.
        within = np.clip(np.nan_to_num(targets, posinf=0.0, neginf=0.0), -bound, bound)
        units: Array = np.trunc(within / bound * most)
        return np.clip(units, -math.floor(most), math.floor(most))

    def _weights(self, indptr: Array, weights: Array | None, counts: Array | None) -> Array | None:
        """Weights in grid units, None if all are 1; the squares of a user's weights add up to at most k."""
        if (weights is not None) != self.weighted:
            raise PrivacyError(f"contribution: {'no ' if weights is not None else ''}weights were declared")
        if weights is None:
            return self._first_k(indptr, counts)
        heavy = np.maximum(np.asarray(weights, np.float64), 0.0)
        if counts is not None:
            heavy = np.where(counts, heavy, 0.0)
        bound = math.nextafter(math.sqrt(self.k), 0)
        units: Array = truncate(heavy, bound=bound, grid=self.grids[2], indptr=indptr).astype(np.float64)
        return units

    def _first_k(self, indptr: Array, counts: Array | None) -> Array | None:
        """1 for each user's first k entries that count, 0 for others; None if all are 1."""
        lengths = np.diff(indptr)
        if counts is None and lengths.max(initial=0) <= self.k:
            return None
        allowed = np.ones(int(indptr[-1])) if counts is None else counts.astype(np.float64)
        before = np.concatenate([[0.0], np.cumsum(allowed)])  # earlier entries that count, of all users
        place = before[:-1] - np.repeat(before[indptr[:-1]], lengths)
        first: Array = allowed * (place < self.k)
        return first

    def add(self, total: Array, encoded: EncodedEquations, n_jobs: int | None) -> Array:
        """Add some users' integers, except to the last rows, which `finish` copies from the columns."""
        entries = encoded.indptr, encoded.items, encoded.targets, encoded.weights
        normal_equations(total, encoded.vectors, entries, n_jobs)
        return total

    def finish(self, total: Array) -> Array:
        """Fill in the lower triangles; their last rows are the right-hand sides."""
        for row in range(self.rank):
            total[:, row + 1 :, row] = total[:, row, row + 1 :]
        return total


# -- means


@dataclass(frozen=True)
class MeanSum(Statistic):
    """For means over users of values from 0 to 1: the sum of (value - 1/2), and how many users have one.

    Values that the same users have share one count: `groups` has the group number of each value. The weights of counts
    are those with the least noise in the worst case of an `adjacency`; a flip of a user's bits may replace all their
    values. A contribution is a row of values for each user, NaN where they have none.
    """

    groups: tuple[int, ...]
    adjacency: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "adjacency", require_adjacency(self.adjacency, *Adjacency))
        if not self.groups or set(self.groups) != set(range(max(self.groups) + 1)):
            raise PrivacyError("groups: give one number for each value, from 0, without gaps")
        if self.grids and not self.counts.all():
            raise PrivacyError("epsilon: with so little of it the noise would drown any number of people; give more")

    @property
    def weights(self) -> tuple[float, ...]:
        """The weight of a user's count in each group."""
        sizes = [self.groups.count(group) for group in range(max(self.groups) + 1)]
        if self.adjacency is Adjacency.ADD_REMOVE:
            return tuple((len(self.groups) / len(sizes)) ** 0.25 / 2 for _ in sizes)
        return tuple(math.sqrt(3 * size) / 2 for size in sizes)

    @property
    def shape(self) -> tuple[int, ...]:
        """One number for each value, then one for each group."""
        return (len(self.groups) + len(self.weights),)

    def sensitivity(self, adjacency: str) -> float:
        """The largest norm of a user's row; by the choice of weights, also the largest distance between two."""
        require_adjacency(adjacency, Adjacency(self.adjacency))
        return math.sqrt(len(self.groups) / 4 + math.fsum(weight**2 for weight in self.weights)) * ROOM

    def grids_for(self, std: float) -> tuple[Grid, ...]:
        return (Grid.for_std(std),)

    @property
    def counts(self) -> Array:
        """The weights in grid units, rounded down."""
        return np.floor([self.grid.units(weight) for weight in self.weights]).astype(np.int64)

    def rows(self, values: Array) -> Array:
        """Each user's row, in grid units."""
        groups = self.groups
        if np.ndim(values) != 2 or np.shape(values)[1] != len(groups):
            raise PrivacyError(f"contribution: rows of {len(groups)} values were declared")
        there = ~np.isnan(values)
        # Rounding to the nearest unit is unbiased. 1/2 is a whole number of units (or less than one, which rounds to
        # 0), so no value exceeds it: rows are whole units within the bound, and `truncate` leaves them as they are.
        about = np.where(there, np.clip(values, 0, 1) - 0.5, 0.0)
        about = np.rint(about / self.grid.step) * self.grid.step
        counted = np.zeros((len(there), len(self.weights)))
        for column, group in enumerate(groups):
            counted[there[:, column], group] = 1
        rows = np.hstack([about, counted * (self.counts * self.grid.step)])
        return truncate(rows, bound=self.sensitivity(self.adjacency), grid=self.grid)

    def add_batch(self, total: Array, batch: Any, contribution: Array) -> None:
        total += self.rows(_rows(batch, contribution)).sum(axis=0, dtype=np.int64)
