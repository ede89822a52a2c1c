"""Threads over blocks of work, with BLAS held at one thread so that the two kinds of threads never fight."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import islice
from typing import Any, TypeVar

from discreet.numbers import whole

Block = TypeVar("Block")
Result = TypeVar("Result")


def n_threads(n_jobs: int | None) -> int:
    """How many threads `n_jobs` means, as in scikit-learn: -1 all cores, -2 all but one, None one."""
    if n_jobs is None:
        return 1
    if n_jobs == 0:
        raise ValueError("n_jobs: 0 threads do nothing; give a number of threads, or -1 for all cores")
    if n_jobs > 0:
        return whole("n_jobs", n_jobs, 1)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores + 1 + n_jobs)


@cache
def _controller() -> Any:
    import scipy.linalg  # noqa: F401  # it has a BLAS of its own, which must be held too
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


_lock = threading.Lock()
_holders = 0
_limit: Any = None


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Hold BLAS at one thread; the last of several holders, in whatever threads, gives back what there was."""
    global _holders, _limit  # noqa: PLW0603  # the number of BLAS threads is a property of the process
    with _lock:
        if _holders == 0:
            _limit = _controller().limit(limits=1, user_api="blas")
        _holders += 1
    try:
        yield
    finally:
        with _lock:
            _holders -= 1
            if _holders == 0:
                _limit.restore_original_limits()


def over_blocks(work: Callable[[Block], Result], blocks: Iterable[Block], n_jobs: int | None) -> Iterator[Result]:
    """Yield `work(block)` for each block, in their order, computed on `n_jobs` threads.

    A block is always computed by one thread, so results do not depend on how many there are. Only a few results
    wait at a time, so memory stays bounded however many blocks there are.
    """
    threads = n_threads(n_jobs)
    with single_threaded_blas():
        if threads == 1:
            yield from map(work, blocks)
            return
        with ThreadPoolExecutor(threads, thread_name_prefix="discreet") as pool:
            remaining = iter(blocks)
            waiting: list[Future[Result]] = [pool.submit(work, block) for block in islice(remaining, 4 * threads)]
            try:
                while waiting:
                    result = waiting.pop(0).result()
                    waiting.extend(pool.submit(work, block) for block in islice(remaining, 1))
                    yield result
            finally:  # after an error, or when the caller stops early
                for future in waiting:
                    future.cancel()
