"""Everybody's rows, some users at a time, and what they contribute, added up; here: in memory, on threads."""

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
    """A total with one block's integers more."""
    total += made
    return total


class Blocks(ABC, Generic[Block]):
    """Everybody's rows, a block of users at a time, wherever they are. All that can be had of them is a sum."""

    @abstractmethod
    def map(self, make: Callable[[Block], Made]) -> Blocks[Made]:
        """The same users, as `make` has them: a function of a block and of what is public."""

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
        """The exact sum of what blocks contribute, in cells.

        Args:
            work: What a block makes of itself: by default integers of the shape of the total. It may use nothing but
                the block and what is public.
            shape: Of the total.
            n_jobs: Threads, in scikit-learn's meaning.
            add: How that is added to a total.
            symmetric: Whether nothing but the upper triangles of the last two axes is asked for.
        """


@dataclass(frozen=True)
class LocalBlocks(Blocks[Block]):
    """Blocks in this process's memory.

    Attributes:
        source: Gives all blocks as they are kept. A sum is as often to be had as it can be called.
        make: What becomes of each.
    """

    source: Callable[[], Iterable[Any]]
    make: Callable[[Any], Block] = lambda block: block

    def map(self, make: Callable[[Block], Made]) -> LocalBlocks[Made]:
        """The same users, as `make` has them: made anew for each sum, since they are as large as the data."""
        return LocalBlocks(self.source, lambda block: make(self.make(block)))

    def each(self, n_jobs: int | None) -> Iterator[Block]:
        """All blocks, one after the other, made by threads."""
        return over_blocks(self.make, self.source(), n_jobs)

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
        for made in over_blocks(lambda block: work(self.make(block)), self.source(), n_jobs):
            total = add(total, made, n_jobs)
        return total
