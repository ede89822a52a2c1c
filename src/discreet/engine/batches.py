"""Users' rows, a batch of users at a time, for the engine that has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from discreet.data.interactions import Interactions
from discreet.engine import Blocks, LocalBlocks
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array

if TYPE_CHECKING:
    from discreet.data.spark import SparkInteractions

    Ratings: TypeAlias = Interactions | SparkInteractions  # of which a model may know what is public, and sums

# Of a batch, whose contributions are in memory, for each thread:
PART = 1 << 17  # interactions: enough to make what Python does for a batch cheap
MOST_USERS = 1 << 16
DENSE_CELLS = 1 << 21  # entries of users' dense rows


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


def parts(
    ratings: Table, values: Array, *, most_users: int | None = None, most: int | None = None
) -> Iterator[UserBatch]:
    """The users' rows, in batches of at most `most` entries (unless one user has more) and `most_users` users."""
    indptr = ratings.indptr
    first = 0
    while first < len(indptr) - 1:
        last = max(first + 1, int(np.searchsorted(indptr, indptr[first] + (most or PART), side="right")) - 1)
        last = min(last, first + (most_users or MOST_USERS))
        begin, end = int(indptr[first]), int(indptr[last])
        yield UserBatch(indptr[first : last + 1] - begin, ratings.indices[begin:end], values[begin:end])
        first = last


def user_batches(ratings: Ratings, most_users: int | None = None, most: int | None = None) -> Blocks[UserBatch]:
    """All users' rows, by the engine for where they are."""
    if not isinstance(ratings, Interactions):
        from discreet.engine.spark import SparkBlocks

        return SparkBlocks(ratings, most_users)

    def batches() -> Iterator[UserBatch]:
        return parts(ratings, ratings.values, most_users=most_users, most=most)

    return LocalBlocks[UserBatch](batches)


def equal_weights(part: UserBatch) -> Array:
    """A user's weights of their items: all equal, with an L2 norm of 1."""
    return (1 / np.sqrt(np.maximum(part.counts, 1)))[part.owners]
