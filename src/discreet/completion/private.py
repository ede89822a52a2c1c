"""What all private models share: a plan, a ledger, and sums of bounded contributions on their way through the door."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array

from discreet.calculator import account
from discreet.completion.base import Model
from discreet.data.interactions import Interactions
from discreet.data.progress import Bar
from discreet.engine import Blocks, Here, added
from discreet.engine.local import Add
from discreet.errors import DataError, PrivacyError
from discreet.linalg.addresses import neighbour_dependent, require_sound_blas
from discreet.linalg.threads import over_blocks
from discreet.privacy import Gaussian, Grid, GridArray, Ledger, Plan, truncate
from discreet.privacy.guarantee import Adjacency, Unit
from discreet.privacy.ledger import Reservation
from discreet.render import Preview
from discreet.statement import Statement

if TYPE_CHECKING:
    from discreet.engine.spark import SparkInteractions
    from discreet.linalg.torch_arrays import TorchArrays

    Ratings: TypeAlias = Interactions | SparkInteractions  # of which a model may know what is public, and sums

Array = NDArray[Any]

PART = 1 << 17  # interactions whose contributions are in memory at a time and thread: as many as a cache likes
LONG_PART = 5 << 16  # where a part takes many calls, so that threads would wait for the interpreter
UNIT_CELLS = 14  # a unit vector is at most 2^14 cells long
MOST_USERS = 1 << 16  # whose contributions are in memory at a time and thread
DENSE_CELLS = 1 << 21  # of users' dense rows that are in memory at a time and thread
WHOLE = 1024  # columns of a second moment up to which each thread has one of its own
STRIPE = 256  # columns of a larger one that one thread adds to
EXACT = 1 << 53  # integers up to here are exact in float64
MOST_CELLS = 29  # a noise standard deviation, or a bound, is at most 2^29 cells long


@dataclass(frozen=True)
class Noisy:
    """A released array, and the standard deviation of its noise (off the diagonal of symmetric ones: / sqrt 2)."""

    values: Array
    std: float


@dataclass(frozen=True)
class Part:
    """Some users' rows: row i has items indices[indptr[i]:indptr[i + 1]] and values aligned with them."""

    indptr: Array
    indices: Array
    values: Array

    @cached_property
    def counts(self) -> Array:
        """How many items each user has."""
        return np.diff(self.indptr)

    @cached_property
    def owners(self) -> Array:
        """The row of each entry."""
        return np.repeat(np.arange(len(self.indptr) - 1), self.counts)

    def row_sums(self, entries: Array) -> Array:
        """The sum of each row's entries, in their order: no row's depends on another's."""
        return np.bincount(self.owners, entries, minlength=len(self.indptr) - 1)

    def dense(self, entries: Array, size: int) -> Array:
        """Rows (users, size) with these entries, and zeros."""
        rows = np.zeros((len(self.counts), size), entries.dtype)
        rows.reshape(-1)[self.owners * size + self.indices] = entries  # quicker than by two indices
        return rows


class Table(Protocol):
    """Users' rows: user u's items are indices[indptr[u]:indptr[u + 1]]."""

    @property
    def indptr(self) -> Array:
        """One offset more than users."""
        ...

    @property
    def indices(self) -> Array:
        """Item numbers."""
        ...


def parts(ratings: Table, values: Array, *, most_users: int | None = None, most: int = PART) -> Iterator[Part]:
    """The users' rows, some at a time: `most` entries, and `most_users`, for those who make something large of each."""
    indptr = ratings.indptr
    first = 0
    while first < len(indptr) - 1:
        last = max(first + 1, int(np.searchsorted(indptr, indptr[first] + most, side="right")) - 1)
        last = min(last, first + (most_users or MOST_USERS))
        begin, end = int(indptr[first]), int(indptr[last])
        yield Part(indptr[first : last + 1] - begin, ratings.indices[begin:end], values[begin:end])
        first = last


def everybody(ratings: Ratings, most_users: int | None = None, most: int = PART) -> Blocks[Part]:
    """All users' rows, some at a time, wherever they are: as often as they are asked for."""
    if isinstance(ratings, Interactions):
        return Here(lambda: parts(ratings, ratings.values, most_users=most_users, most=most))
    return ratings.blocks(most_users)


def equal_weights(part: Part) -> Array:
    """A user's weights of her items, all the same and together of length 1."""
    return (1 / np.sqrt(np.maximum(part.counts, 1)))[part.owners]


Some = TypeVar("Some", bound=Part)  # some users' rows, with whatever else their contributions need
Everybody: TypeAlias = "Blocks[Some] | Iterable[Some]"  # all users' rows, some at a time


@dataclass(frozen=True)
class Door:
    """Releases sums over users, each user's contribution bounded as a whole, under a plan.

    Contributions are computed a part of the users at a time, and may use nothing but the user's own data and what is
    public. They are shortened to their bound, put on a grid and added up exactly, so that their sum has the declared
    sensitivity whatever they are: `bound` for add-remove; for replace twice that, or sqrt(2) times where any two
    contributions have a nonnegative inner product (`aligned`: nonnegative vectors, positive semidefinite matrices).
    """

    reservation: Reservation
    adjacency: Adjacency
    n_jobs: int | None
    bar: Bar | None = None
    card: TorchArrays | None = None

    def release(self, sums: GridArray, sensitivity: float, noise: Gaussian, label: str) -> Noisy:
        """Make sums public, with the noise that the plan pays for. The bar shows what of the budget is spent."""
        released = self.reservation.release(sums, sensitivity, noise, label)
        if self.bar is not None:
            plan = self.reservation.plan
            whole = plan.cost.gaussian
            share = plan[label].cost.gaussian / whole if whole else 1 / sum(line.count for line in plan.lines)
            self.bar.advance(100 * share, label)
        return Noisy(released, noise.std)

    def noise(self, label: str, bound: float, aligned: bool, symmetric: bool = False) -> tuple[float, Gaussian]:
        """The sensitivity of a sum of contributions of this norm, and the noise that the plan pays for."""
        apart = 1.0
        if self.adjacency == "replace":
            apart = math.nextafter(math.sqrt(2), 2) if aligned else 2.0
        sensitivity = bound if apart == 1 else math.nextafter(bound * apart, math.inf)
        return sensitivity, self.reservation.plan.noise(label, sensitivity=sensitivity, symmetric=symmetric)

    def add_up(
        self,
        work: Callable[[Any], Any],
        blocks: Everybody[Any],
        shape: tuple[int, ...],
        *,
        add: Add = added,
        symmetric: bool = False,
    ) -> Array:
        """The exact sum of what some users at a time contribute, in cells; see `Blocks.add_up`."""
        where = blocks if isinstance(blocks, Blocks) else Here(lambda: blocks)
        return where.add_up(work, shape, self.n_jobs, add=add, symmetric=symmetric)

    def vector(
        self,
        label: str,
        blocks: Everybody[Some],
        entries: Callable[[Some], Array],
        size: int,
        *,
        bound: float,
        aligned: bool,
    ) -> Noisy:
        """Release the sum over users of sparse vectors: `entries` gives a user's numbers on her own items."""
        sensitivity, noise = self.noise(label, bound, aligned)
        grid = fine_grid(noise.std, bound)

        def work(part: Some) -> Array:
            cells = truncate(entries(part), bound=bound, grid=grid, indptr=part.indptr)
            # Sums of at most 2^53 in float64 are exact: a part has at most 2^16 users, of at most 2^30 cells each.
            return np.bincount(part.indices, cells, minlength=size).astype(np.int64)

        sums = self.add_up(work, blocks, (size,))
        return self.release(GridArray(sums, grid), sensitivity, noise, label)

    def rows(
        self,
        label: str,
        blocks: Everybody[Some],
        rows: Callable[[Some], Array],
        size: int,
        *,
        bound: float,
        aligned: bool,
    ) -> Noisy:
        """Release the sum over users of short vectors: `rows` gives one row for each user."""
        sensitivity, noise = self.noise(label, bound, aligned)
        grid = fine_grid(noise.std, bound)

        def work(part: Some) -> Array:
            total: Array = truncate(rows(part), bound=bound, grid=grid).sum(axis=0, dtype=np.int64)
            return total

        sums = self.add_up(work, blocks, (size,))
        return self.release(GridArray(sums, grid), sensitivity, noise, label)

    def outer(
        self,
        label: str,
        blocks: Everybody[Some],
        contribution: Callable[[Some], tuple[Array, Array, Array]],
        shape: tuple[int, int],
        *,
        bound: float,
    ) -> Noisy:
        """Release the sum over users of matrices with a row x_j a^T for each of her items j.

        `contribution` gives the x_j, of length at most `bound` for each user; vectors a, of length at most 1; and for
        each x_j the number of its a, of which a user may have several.
        """
        sensitivity, noise = self.noise(label, bound, aligned=False)
        grids = outer_grids(noise.std, bound)

        def work(part: Some) -> Array:
            return outer_cells(part, contribution(part), shape[0], bound, grids)

        sums = GridArray(self.add_up(work, blocks, shape), grids[0] * grids[1])
        return self.release(sums, sensitivity, noise, label)

    def item_step(
        self,
        labels: tuple[str, str],
        blocks: Everybody[Some],
        contribution: Callable[[Some], tuple[Array, Array, Array, Array]],
        shape: tuple[int, int],
        *,
        bounds: tuple[float, float],
        add_up: Callable[[StepCells], Array] | None = None,
    ) -> tuple[Noisy, Noisy]:
        """Release two sums over users, from one pass: of matrices with a row x_j a^T for each item, and of b b^T.

        `contribution` gives what it gives for `outer`, with bounds[0]; and the b, side by side if there are several,
        with the sum of their |b|^2 at most bounds[1]. `add_up` adds up the same cells, one sum below the other, in
        another way.
        """
        items, k = shape
        sensitivity, noise = self.noise(labels[0], bounds[0], aligned=False)
        gram_sensitivity, gram_noise = self.noise(labels[1], bounds[1], aligned=True, symmetric=True)
        length = root_below(bounds[1])
        grids = outer_grids(noise.std, bounds[0])
        cells = StepCells(k, bounds[0], grids, length, half_grid(gram_noise.std, length))

        def work(part: Some) -> Array:
            entries, vectors, which, rows = contribution(part)
            step = outer_cells(part, (entries, vectors, which), items, bounds[0], grids)
            return np.vstack([step, cells.gram(rows)])

        sums = add_up(cells) if add_up is not None else self.add_up(work, blocks, (items + k, k))
        gram_sums = GridArray(sums[items:].copy(), cells.gram_grid * cells.gram_grid)
        gram = self.release(gram_sums, gram_sensitivity, gram_noise, labels[1])
        return self.release(GridArray(sums[:items].copy(), grids[0] * grids[1]), sensitivity, noise, labels[0]), gram

    def second_moment(
        self,
        label: str,
        blocks: Everybody[Some],
        rows: Callable[[Some], Array],
        size: int,
        *,
        bound: float,
        hollow: bool = False,
        sparse: bool = False,
    ) -> Noisy:
        """Release the sum over users of x x^T, |x|^2 at most `bound`; `hollow` leaves out the diagonal, as zeros.

        Leaving it out is a projection: it brings no two contributions further apart. A user may have several x, side by
        side in her row: then the sum of their |x|^2 is at most `bound`, and so is the norm of the sum of x x^T. If x is
        `sparse`, `rows` gives each user's numbers on her own items.
        """
        sensitivity, noise = self.noise(label, bound, aligned=True, symmetric=True)
        length = root_below(bound)
        grid = half_grid(noise.std, length)
        most = math.floor(grid.cells(length))

        def sparse_cells(part: Some) -> Array:
            return truncate(rows(part), bound=length, grid=grid, indptr=part.indptr)

        def work(part: Some) -> Array:
            if not sparse:
                return truncate(rows(part), bound=length, grid=grid).reshape(-1, size)
            return part.dense(sparse_cells(part), size)

        def add(sums: Array, cells: Array, n_jobs: int | None) -> Array:
            return add_products(sums, cells, most, n_jobs)

        def product(part: Some) -> Array:
            return exact_gram(work(part), most)

        if sparse and self.card is not None:
            sums = self._on_card(self.card, sparse_cells, blocks, size)
        elif size <= WHOLE:  # few enough numbers for each part to have a sum of its own
            sums = self.add_up(product, blocks, (size, size), symmetric=True)
        else:
            sums = self.add_up(work, blocks, (size, size), add=add, symmetric=True)
        for stripe in stripes(size):  # the lower triangle, which the release does not read, is a copy of the upper one
            sums[stripe, : stripe.start] = sums[: stripe.start, stripe].T
        if hollow:
            np.fill_diagonal(sums, 0)
        return self.release(GridArray(sums, grid * grid), sensitivity, noise, label)

    def _on_card(self, card: TorchArrays, cells: Callable[[Some], Array], blocks: Everybody[Some], size: int) -> Array:
        """The sum of x x^T for sparse x: cells are made here, and their products, below 2^53 as here, are there."""
        total = card.zeros((size, size), np.int64)

        def work(part: Some) -> Part:
            return Part(part.indptr, part.indices, cells(part))

        def add(sums: Array, part: Part, n_jobs: int | None) -> Array:
            dense = card.zeros((len(part.counts), size), np.float64)
            dense[card.put(part.owners), card.put(part.indices).long()] = card.put(part.values).double()
            total.add_((dense.T @ dense).long())
            return sums

        self.add_up(work, blocks, (), add=add)
        return card.get(total)


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


def require_sound(ratings: Ratings) -> None:
    """Raise unless a table is what the proofs assume, and this machine computes as they do. Says nothing of the data.

    Everything that `discreet.read` makes passes; an Interactions put together by hand may not. What is in Spark was
    made by the partitions that keep it, which look at their own machines.
    """
    ratings.require_public()
    if not isinstance(ratings, Interactions):
        return
    assert ratings.value_range is not None
    low, high = (np.float32(end) for end in ratings.value_range)
    indptr, indices, values = ratings.indptr, ratings.indices, ratings.values
    ascending = indices[1:] > indices[:-1]
    starts = indptr[1:-1]
    ascending[starts[(starts > 0) & (starts < len(indices))] - 1] = True  # from one row to the next it may fall
    sound = (
        indptr[0] == 0
        and (np.diff(indptr) >= 0).all()
        and ascending.all()
        and (not len(indices) or (indices.min() >= 0 and indices.max() < ratings.n_items))
        and bool(((values >= low) & (values <= high)).all())
    )
    if not sound:
        raise DataError(
            "ratings: each user's items must be in increasing order, each once, with values in the declared range, as "
            "discreet.read makes them; this table was put together otherwise"
        )
    require_sound_blas()


def require_same_bits(device: str, n_columns: int, folds: int = 1) -> None:
    """Raise unless a card's numbers for one user do not depend on the others."""
    if device != "cpu" and neighbour_dependent(device, n_columns, folds):
        raise PrivacyError(
            f"device: {device!r} gives other bits for one person if other people are beside her, so that the proof of "
            "privacy does not hold there; use 'cpu'"
        )


class PrivateModel(Model):
    """A model with a guarantee: joint differential privacy, for users unless it says otherwise.

    It declares its releases (`plan`), reserves their cost in a ledger before it looks at the data, and learns from
    nothing but what the door gives back.
    """

    epsilon: float
    delta: float
    unit: Unit = "user"
    adjacency: Adjacency

    def plan(self, n_items: int) -> Plan:
        """What a fit would release, and what each release costs; needs no data, only the size of the catalogue."""
        raise NotImplementedError

    def _learn_privately(self, door: Door, ratings: Interactions) -> dict[str, Any]:
        """All learned attributes, from releases alone."""
        raise NotImplementedError

    def _check_data(self, ratings: Interactions) -> None:
        """Raise if these data are of the wrong kind, by what is public of them. Called before anything is reserved."""

    def _public_inputs(self) -> dict[str, str]:
        """What else was assumed to be public, in words for the statement."""
        return {}

    def _mu(self) -> float:
        if self.adjacency not in ("add-remove", "replace"):
            raise PrivacyError(f"adjacency: 'add-remove' or 'replace' is needed, not {self.adjacency!r}")
        mu = account(epsilon=self.epsilon, delta=self.delta).mu
        if not mu:
            raise PrivacyError(f"epsilon, delta: {self.epsilon:g} and {self.delta:g} leave nothing to spend; give more")
        return mu

    def preview(self, n_items: int, ledger: Ledger | None = None) -> Preview:
        """What a fit would cost, and whether it fits in a ledger; spends nothing. Print it.

        Args:
            n_items: The size of the catalogue.
            ledger: The ledger that would pay; by default one of the fit's own.
        """
        return (ledger or self._own_ledger()).preview(self.plan(n_items))

    def _own_ledger(self) -> Ledger:
        return Ledger(epsilon=self.epsilon, delta=self.delta, unit=self.unit, adjacency=self.adjacency)

    def _learn(self, ratings: Interactions, ledger: Ledger | None) -> tuple[dict[str, Any], Statement]:
        require_sound(ratings)
        self._check_data(ratings)
        ledger = self._own_ledger() if ledger is None else ledger
        return self._under(self.plan(ratings.n_items), ledger, ratings, self._learn_privately)

    def _card(self) -> TorchArrays | None:
        """The card that this model learns on."""
        if self.device == "cpu":
            return None
        from discreet.linalg import torch_arrays

        return torch_arrays.card(self.device)

    def _under(
        self,
        plan: Plan,
        ledger: Ledger,
        ratings: Interactions,
        learn: Callable[[Door, Interactions], dict[str, Any]],
        after: Statement | None = None,
    ) -> tuple[dict[str, Any], Statement]:
        """Learn as planned, paid for by a ledger. The guarantee is that of all, with what was released before."""
        ledger.expect(unit=self.unit, adjacency=self.adjacency)
        with ledger.reserve(plan) as reservation, Bar(type(self).__name__, 100, "% of the budget") as bar:
            learned = learn(Door(reservation, self.adjacency, self.n_jobs, bar, self._card()), ratings)
        events = [event for event in ledger.events if event.body.get("reservation") == reservation.id]
        insecure = any(event.body["secure"] is not True for event in events)
        guarantee = replace(ledger.guarantee(plan.cost, insecure=insecure), delta=self.delta)
        title = f"{type(self).__name__}: a private recommender"
        public = {**ratings.public_inputs, **self._public_inputs()}
        if after is not None:
            guarantee = after.guarantee + guarantee
        return learned, Statement.of(title, guarantee, events, public_inputs=public, after=after)
