"""All users' rows, a batch of users at a time, and exact sums over them: on threads in this process, or in Spark."""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from discreet import kernels
from discreet.data.interactions import Interactions, ranks
from discreet.data.spark import SparkInteractions
from discreet.errors import DataError
from discreet.hashing import ODD, mixed
from discreet.kernels import RowFunction
from discreet.parallel import each_block, n_threads, over_blocks
from discreet.privacy.releaser import Encoded
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array, Words

Ratings: TypeAlias = Interactions | SparkInteractions  # a model may use only sums over them, and public metadata

# Limits of a batch. The contributions of one batch for each thread are in memory at once.
PART = 1 << 17  # interactions: enough to make Python's overhead for a batch small
MOST_USERS = 1 << 16
DENSE_CELLS = 1 << 21  # numbers in users' dense rows
CACHED_CELLS = 1 << 20  # numbers in dense rows that about fit in a cache, so that memory is reused
LEAST = 1 << 14  # interactions: a smaller batch is not worth a thread
GATHERED = 1 << 14  # entries of the threads' totals that one thread adds up at a time
CHECKED = 1 << 18  # values that a thread checks at a time
SHARED_BYTES = 1 << 30  # if the threads' totals together are larger, they share one total

FOLDS = 4  # over which each user's items are distributed
AS_GIVEN: kernels.Scale = (0.0, 1.0, math.inf)

Block = TypeVar("Block")
Made = TypeVar("Made")


class Blocks(ABC, Generic[Block]):
    """All users' rows, a block of users at a time. The engine knows where they are, and returns only sums."""

    @abstractmethod
    def map(self, make: Callable[[Block], Made]) -> Blocks[Made]:
        """The same users, with `make` applied to each block. It may use the block and public values.

        Blocks are recomputed for each sum, because keeping them would take as much memory as the data.
        """

    @abstractmethod
    def keep(self, n_jobs: int | None) -> Blocks[Block]:
        """The same blocks for several sums: computed once and kept, if the engine has the memory."""

    @abstractmethod
    def add_up(self, work: Encoded, n_jobs: int | None) -> Array:
        """The exact sum of `work` over all blocks, in grid units, on `n_jobs` threads."""


@dataclass(frozen=True)
class LocalBlocks(Blocks[Block]):
    """Blocks in this process's memory."""

    source: Callable[[], Iterable[Any]]  # returns all blocks as they are stored
    make: Callable[[Any], Block] = lambda block: block  # applied to each

    def map(self, make: Callable[[Block], Made]) -> LocalBlocks[Made]:
        return LocalBlocks(self.source, lambda block: make(self.make(block)))

    def each(self, n_jobs: int | None) -> Iterator[Block]:
        """All blocks in order, computed by threads."""
        return over_blocks(self.make, self.source(), n_jobs)

    def keep(self, n_jobs: int | None) -> LocalBlocks[Block]:
        made = list(self.each(n_jobs))
        return LocalBlocks(lambda: made)

    def add_up(self, work: Encoded, n_jobs: int | None) -> Array:
        # Each thread has its own total, so that threads do not wait for each other, unless totals are large.
        totals: dict[int, Array] = {}
        if n_threads(n_jobs) * 8 * math.prod(work.shape) > SHARED_BYTES:
            totals[0] = np.zeros(work.shape, np.int64)
            for made in self.map(work).each(n_jobs):
                totals[0] = work.add(totals[0], made, n_jobs)
            return totals[0]

        def add(block: Any) -> None:
            me = threading.get_ident()
            if me not in totals:
                totals[me] = np.zeros(work.shape, np.int64)
            work.add_batch(totals[me], self.make(block))

        each_block(add, self.source(), n_jobs)
        total, *others = totals.values() or [np.zeros(work.shape, np.int64)]

        def gather(rows: slice) -> None:
            for other in others:
                total[rows] += other[rows]

        size = max(1, GATHERED * len(total) // total.size)
        each_block(gather, (slice(at, at + size) for at in range(0, len(total) if others else 0, size)), n_jobs)
        return total


def shared_users(ratings: Ratings) -> Blocks[Any]:
    """All users' rows for a compiled function that computes contributions and adds them up without calling Python."""
    if not isinstance(ratings, Interactions):
        return user_batches(ratings)
    return LocalBlocks(lambda: kernels.SharedRows(ratings.indptr, ratings.indices, ratings.values).turns)


# -- batches of rows


class Table(Protocol):
    """Users' rows: user u's items are indices[indptr[u]:indptr[u + 1]]."""

    @property
    def indptr(self) -> Array: ...

    @property
    def indices(self) -> Array: ...


def parts(
    ratings: Table, values: Array, *, most_users: int | None = None, most: int | None = None, n_jobs: int | None = None
) -> Iterator[UserBatch]:
    """The users' rows, in batches of at most `most_users` users and about `most` entries.

    With `n_jobs`, later batches are smaller, so that several threads finish together.
    """
    for users in cuts(ratings.indptr, most_users, most, n_jobs):
        yield rows_of(ratings, values, users)


def cuts(indptr: Array, most_users: int | None, most: int | None, n_jobs: int | None) -> list[tuple[int, int]]:
    """The first user of each batch, and the end (exclusive) of the last batch.

    One thread gets as few batches of equal size as the limits allow. Several threads get large batches first, because
    they wait for the interpreter's lock between a batch's compiled calls, then smaller ones, so that they end together.
    for the interpreter's lock between the compiled calls of a batch; and then smaller ones, so that all end together.
    """
    # Positions of the cuts, in units of the largest batch that the limits allow.
    sizes = indptr / (most or PART) + np.arange(len(indptr)) / (most_users or MOST_USERS)
    threads, size, ends = n_threads(n_jobs), float(sizes[-1]), [0.0]
    least = min(size * max(LEAST / max(int(indptr[-1]), 1), 1 / (4 * threads)), 0.5)
    while (left := size - ends[-1]) > least:
        ends.append(ends[-1] + max(left / max(math.ceil(left), threads), least))
    return list(pairwise(np.unique([*np.searchsorted(sizes, ends), len(indptr) - 1]).tolist()))


def rows_of(ratings: Table, values: Array, users: tuple[int, int]) -> UserBatch:
    """The rows of consecutive users."""
    first, last = users
    begin, end = int(ratings.indptr[first]), int(ratings.indptr[last])
    return UserBatch(ratings.indptr[first : last + 1] - begin, ratings.indices[begin:end], values[begin:end])


def user_batches(
    ratings: Ratings, most_users: int | None = None, most: int | None = None, *, n_jobs: int | None = None
) -> Blocks[UserBatch]:
    """All users' rows, from the engine that holds them, in batches that suit `n_jobs` threads."""
    if not isinstance(ratings, Interactions):
        from discreet.engine.spark import SparkBlocks

        return SparkBlocks(ratings, most_users)

    if n_jobs is not None and most is None:
        most = 4 * PART
    # Threads wait for each other while they take a block, so a block is only a pair of numbers until then.
    return LocalBlocks[UserBatch](
        lambda: cuts(ratings.indptr, most_users, most, n_jobs), lambda users: rows_of(ratings, ratings.values, users)
    )


def dense_users(n: int) -> int:
    """How many users' rows of n numbers to work on at a time.

    Few rows fit in a cache. With more rows at a time, the sum of their outer products, which has n squared numbers, is
    updated less often. This balances the two.
    """
    return max(1, min(DENSE_CELLS // n, max(CACHED_CELLS // n, n // 2)))


def weights(
    a: Array | None = None,
    *,
    rated: bool | kernels.Grades = False,
    scale: kernels.Scale = AS_GIVEN,
    penalty: float = -1.0,
    mean: float = 0.0,
) -> RowFunction:
    """The weights of users' items: the items' numbers a, scaled to an L2 norm of 1 for each user unless all are 0.

    Args:
        a: A number for each item, by default 1.
        rated: Whether to multiply them by the user's values, or the `Grades` by which values are turned into factors.
        scale: How values are scaled.
        penalty: If nonnegative, multiply weights by deviations from user means, shrunk by this many pseudo-ratings.
        mean: The value of these pseudo-ratings.
    """
    given = graded(rated, scale) | {"a": None if a is None else np.ascontiguousarray(a, np.float64)}
    given |= {"penalty": float(penalty), "mean": float(mean)}
    return RowFunction("weights", given, kernels.ANY if a is None else len(a))


def scaled(scale: kernels.Scale) -> dict[str, float]:
    """The fields of the C struct for a scale."""
    return dict(zip(("middle", "unit", "reach"), map(float, scale), strict=True))


def graded(rated: bool | kernels.Grades, scale: kernels.Scale) -> dict[str, Any]:
    """The fields of the C struct for the factors that values are turned into."""
    numbers = (0.0, 0.0, 1.0, 0.0) if isinstance(rated, bool) else rated  # these leave values as they are
    names = ("center", "shrinkage", "per", "slope")
    return {**scaled(scale), "rated": int(bool(rated)), **dict(zip(names, map(float, numbers), strict=True))}


equal_weights = weights()


def standing(
    loadings: Array,
    chosen: Array,
    a: Array,
    *,
    rated: bool | kernels.Grades = False,
    scale: kernels.Scale = AS_GIVEN,
    by_length: bool = False,
) -> RowFunction:
    """Users' directions, from leave-fold-out sums: no item contributes to the direction that it is multiplied by.

    A user's items are dealt to folds in turn. For each fold, the user has a direction: the sum of weight times loading
    over their items in the other folds, scaled to length 1 (or 0 if it is 0). Each item also has an x: its weight,
    multiplied by the length of its fold's sum if `by_length`; a user's x are scaled to an L2 norm of 1.

    Args:
        loadings: One row for each item, (items, k).
        chosen: The items' numbers for the weights in directions, as in `weights`.
        a: The items' numbers for the weights in x.
        rated: Whether to multiply weights by users' values, or by grades of these.
        scale: How values are scaled.
        by_length: Whether to multiply the x by lengths.
    """
    arrays = {"chosen": chosen, "a": a, "loadings": loadings}
    given = graded(rated, scale) | {name: np.ascontiguousarray(array, np.float64) for name, array in arrays.items()}
    given |= {"by_length": int(by_length), "d": loadings.shape[1], "folds": FOLDS}
    size = min(len(loadings), len(chosen), len(a))
    return RowFunction("standing", given, size, None, FOLDS, loadings.shape[1], "vectors", (8 * FOLDS, 0))


def on_items(entries: Callable[[UserBatch], Array], place: Array, part: UserBatch) -> UserBatch:
    """The entries whose items have a place (not -1), with items renumbered by their places."""
    return UserBatch(*kernels.placed_rows(part.indptr, part.indices, entries(part), place))


def priorities(batch: UserBatch, seed: int) -> Words:
    """A pseudorandom word for each entry, from the seed and the items and values of its own row."""
    items = mixed((batch.indices.astype(np.uint64) + np.uint64(1)) * ODD + np.uint64(seed % 2**64))
    values = np.ascontiguousarray(batch.values, np.float64).view(np.uint64)
    row, filled = np.zeros(len(batch.counts), np.uint64), batch.counts > 0
    if filled.any():  # sums modulo 2^64: the same in any order
        row[filled] = np.add.reduceat(mixed(items + values * ODD), batch.indptr[:-1][filled])
    return mixed(items ^ np.repeat(mixed(row + ODD), batch.counts))


def uniform(batch: UserBatch, k: int, seed: int) -> NDArray[np.bool_]:
    """A mask of a random sample of k entries of each user, or all if they have no more; `seed` is public.

    The sample depends only on the seed and the row's content: equal rows have equal samples.
    """
    return ranks(batch.indptr, batch.indices, priorities(batch, seed)) < k


def kept(batch: UserBatch, mask: NDArray[np.bool_]) -> UserBatch:
    """The entries of a batch that a mask selects."""
    return UserBatch(np.concatenate([[0], np.cumsum(mask)])[batch.indptr], batch.indices[mask], batch.values[mask])


def require_sound_rows(ratings: Interactions, n_jobs: int | None = None) -> None:
    """Raise unless rows have the form that `discreet.read` gives them and proofs assume. The error reveals no more."""
    low, high = (np.float32(end) for end in ratings.value_range or (-np.inf, np.inf))
    indptr, indices, values = ratings.indptr, ratings.indices, ratings.values
    within: list[bool] = []

    def in_range(at: int) -> None:
        some = values[at : at + CHECKED]
        within.append(bool(low <= some.min() and some.max() <= high))  # false for NaN

    each_block(in_range, range(0, len(values), CHECKED), n_jobs)
    sound = (
        indptr[0] == 0
        and indptr[-1] == len(indices)
        and bool((np.diff(indptr) >= 0).all())
        and kernels.rising(indices, indptr, ratings.n_items, n_jobs)
        and all(within)
    )
    if not sound:
        raise DataError(
            "ratings: each user's items must be in increasing order, without repetition, with values in the declared "
            "range; make the table with discreet.read"
        )
