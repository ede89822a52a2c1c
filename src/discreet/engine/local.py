"""All users' rows, a block of users at a time, and exact sums over them. Here: in memory, on threads."""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from discreet.kernels.threads import n_threads, over_blocks
from discreet.privacy.releaser import Encoded
from discreet.typing import Array

Block = TypeVar("Block")
Made = TypeVar("Made")

SHARED_BYTES = 1 << 29  # of all threads' totals, above which they share one


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
    def add_up(self, work: Encoded, n_jobs: int | None) -> Array:
        """The exact sum of what `work` makes of each block, in grid units, on so many threads."""


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

    def add_up(self, work: Encoded, n_jobs: int | None) -> Array:
        """The sum, by threads that work on a block each.

        Each has a total of its own, so that none waits for another; or, if totals are large, all share one.
        """
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
            totals[me] = work.add(totals[me], work(self.make(block)), 1)

        for _ in over_blocks(add, self.source(), n_jobs):
            pass
        return sum(totals.values(), np.zeros(work.shape, np.int64))
