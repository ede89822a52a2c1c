"""Requests that arrive while others are computed wait together, and are computed together.

A score needs one pass over all item vectors, for one user as for many: under load a batch costs hardly more than a
single request, and without load nobody waits for anybody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

In = TypeVar("In")
Out = TypeVar("Out")

MOST = 64  # requests computed at once
WAITING = 1024  # requests that may wait


class Busy(Exception):
    """Too many requests are waiting."""


class Batcher(Generic[In, Out]):
    """Runs `compute` on lists of requests, one list at a time, in a thread of its own."""

    def __init__(self, compute: Callable[[Sequence[In]], Sequence[Out]]) -> None:
        self._compute = compute
        self._waiting: list[tuple[In, asyncio.Future[Out]]] = []
        self._thread = ThreadPoolExecutor(1, "discreet-batch")
        self._running: asyncio.Task[None] | None = None

    async def submit(self, request: In) -> Out:
        """The result of one request; raises `Busy` at once if too many are waiting."""
        if len(self._waiting) >= WAITING:
            raise Busy
        future: asyncio.Future[Out] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, future))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return await future

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
            requests, futures = zip(*batch, strict=True)
            try:
                results = await loop.run_in_executor(self._thread, self._compute, requests)
            except Exception as error:  # of the batch: each of its requests failed
                for future in futures:
                    if not future.done():
                        future.set_exception(error)
                continue
            for future, result in zip(futures, results, strict=True):
                if not future.done():  # else its client has gone
                    future.set_result(result)
        self._running = None

    def close(self) -> None:
        """Stop the thread."""
        self._thread.shutdown(wait=False)
