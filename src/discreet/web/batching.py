"""Requests that arrive while others are computed wait together, and are computed together.

A score needs one pass over all item vectors, for one user as for many: under load a batch costs hardly more than a
single request, and without load nobody waits for anybody.

Nobody waits long for those who ask for much, either: requests queue fairly, by when each would be done if all of them
were computed side by side (self-clocked fair queueing), and when too much is waiting, it is the last in this order that
are refused.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from operator import attrgetter
from typing import Generic, TypeVar

In = TypeVar("In")
Out = TypeVar("Out")

MOST = 64  # work computed at once: as many requests of size 1, or fewer


class Busy(Exception):
    """Too much is waiting."""


@dataclass(slots=True, eq=False)
class _Waiting(Generic[In, Out]):
    turn: int
    size: int
    request: In
    future: asyncio.Future[Out]


_turn = attrgetter("turn")


class Batcher(Generic[In, Out]):
    """Runs `compute` on lists of requests, one list at a time, in a thread of its own.

    Args:
        compute: Gives a result for each request, or an exception to be raised for it alone.
        most: The work that may wait.
    """

    def __init__(self, compute: Callable[[Sequence[In]], Sequence[Out | Exception]], most: int) -> None:
        self._compute = compute
        self._most = most
        self._waiting: list[_Waiting[In, Out]] = []  # by turn, and by arrival where that is the same
        self._work = 0  # of those
        self._clock = 0  # the turn of those computed last
        self._thread = ThreadPoolExecutor(1, "discreet-batch")
        self._running: asyncio.Task[None] | None = None

    async def submit(self, request: In, size: int = 1) -> Out:
        """The result of one request; whoever no longer awaits it at its turn is left out.

        Raises `Busy` if too much is waiting that came before, or is smaller.
        """
        size = min(size, self._most)
        waiting = _Waiting[In, Out](self._clock + size, size, request, asyncio.get_running_loop().create_future())
        insort(self._waiting, waiting, key=_turn)
        self._work += size
        while self._work > self._most:
            last = self._waiting.pop()
            self._work -= last.size
            if not last.future.done():
                last.future.set_exception(Busy())
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        try:
            return await waiting.future
        except asyncio.CancelledError:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
                self._work -= size
            raise

    def _next(self) -> list[_Waiting[In, Out]]:
        """Those whose turn it is: the last of them may be large."""
        count = work = 0
        while count < len(self._waiting) and work < MOST:
            work += self._waiting[count].size
            count += 1
        batch, self._waiting = self._waiting[:count], self._waiting[count:]
        self._work -= work
        self._clock = batch[-1].turn
        return [waiting for waiting in batch if not waiting.future.done()]

    def _results(self, requests: Sequence[In]) -> Sequence[Out | Exception]:
        try:
            return self._compute(requests)
        except Exception as error:
            if len(requests) == 1:
                return [error]
        return [self._results([request])[0] for request in requests]  # nobody's failure is another's

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch = self._next()
            requests = [waiting.request for waiting in batch]
            results = await loop.run_in_executor(self._thread, self._results, requests)
            for waiting, result in zip(batch, results, strict=True):
                if waiting.future.done():  # its client has gone
                    continue
                if isinstance(result, Exception):
                    waiting.future.set_exception(result)
                else:
                    waiting.future.set_result(result)
        self._running = None

    def close(self) -> None:
        """Stop the thread."""
        self._thread.shutdown(wait=False)
