"""All users' rows, a block of users at a time, and exact sums over them. Here: in memory, on threads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from discreet.linalg.threads import over_blocks
from discreet.typing import Array

Block = TypeVar("Block")
Made = TypeVar("Made")
Add = Callable[[Array, Any, "int | None"], Array]  # a total, what a block made of itself, threads -> the total


def added(total: Array, made: Array, n_jobs: int | None) -> Array:
    """A total with one block's integers added."""
    total += made
    return total


class Blocks(ABC, Generic[Block]):
    """All users' rows, a block of users at a time. An engine says where they are; all that it gives away is a sum."""

    @abstractmethod
    def map(self, make: Callable[[Block], Made]) -> Blocks[Made]:
        """The same users, with each block replaced by `make` of it: a function of a block and of what is public.

        Blocks are made anew for each sum, because they are as large as the data.
        """

    @abstractmethod
    def keep(self, n_jobs: int | None) -> Blocks[Block]:
        """The same blocks for several sums: made once and kept, where the engine has the memory."""

    @abstractmethod
    def add_up(
        self,
        work: Callable[[Block], Any],
        shape: tuple[int, ...],
        n_jobs: int | None,
        *,
        add: Add = added,
        symmetric: bool = False,
    ) -> Array:
        """The exact sum of what blocks contribute, in grid units.

        Args:
            work: What a block makes of itself: by default integers of the shape of the total. It may use nothing but
                the block and what is public.
            shape: Of the total.
            n_jobs: Threads, in scikit-learn's meaning.
            add: How that is added to a total.
            symmetric: Whether only the upper triangles of the last two axes are needed.
        """


@dataclass(frozen=True)
class LocalBlocks(Blocks[Block]):
    """Blocks in this process's memory.

    Attributes:
        source: Gives all blocks as they are stored, each time it is called.
        make: What becomes of each.
    """

    source: Callable[[], Iterable[Any]]
    make: Callable[[Any], Block] = lambda block: block

    def map(self, make: Callable[[Block], Made]) -> LocalBlocks[Made]:
        """The same users, with each block replaced by `make` of it."""
        return LocalBlocks(self.source, lambda block: make(self.make(block)))

    def each(self, n_jobs: int | None) -> Iterator[Block]:
        """All blocks in order, made by threads."""
        return over_blocks(self.make, self.source(), n_jobs)

    def keep(self, n_jobs: int | None) -> LocalBlocks[Block]:
        """The same blocks, made once."""
        made = list(self.each(n_jobs))
        return LocalBlocks(lambda: made)

    def add_up(
        self,
        work: Callable[[Block], Any],
        shape: tuple[int, ...],
        n_jobs: int | None,
        *,
        add: Add = added,
        symmetric: bool = False,
    ) -> Array:
        """The sum, by threads that work on a block each."""
        total = np.zeros(shape, np.int64)
        for made in self.map(work).each(n_jobs):
            total = add(total, made, n_jobs)
        return total
