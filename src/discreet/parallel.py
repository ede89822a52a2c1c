"""Threads that work on blocks of data, and progress reports for long work.

BLAS is limited to one thread while threads of ours run, so that the two kinds do not compete for cores.
"""

from __future__ import annotations

import operator
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from functools import cache, lru_cache
from itertools import chain, islice
from typing import Any, TypeVar

from discreet.errors import DataError

Block = TypeVar("Block")
Result = TypeVar("Result")

PATIENCE = 1.5  # seconds before a bar appears

_quiet = ContextVar("quiet", default=False)
Callback = Callable[[str, float, "float | None", str], None]
_callback: ContextVar[Callback | None] = ContextVar("callback", default=None)


# -- threads


def n_threads(n_jobs: int | None) -> int:
    """The number of threads for `n_jobs`, as in scikit-learn: -1 for all cores, -2 for all but one, None for one."""
    if n_jobs is None:
        return 1
    if isinstance(n_jobs, bool) or not hasattr(n_jobs, "__index__") or not n_jobs:
        needed = "a number of threads is needed, -1 for all cores, or None for a single thread"
        raise DataError(f"n_jobs: {needed}, not {n_jobs!r}")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    jobs = operator.index(n_jobs)
    return jobs if jobs > 0 else max(1, cores + 1 + jobs)


@cache
def blas_libraries() -> list[Any]:
    """The BLAS libraries of this process, each of which has its own threads."""
    import scipy.linalg  # noqa: F401  # loads SciPy's BLAS, which is not NumPy's
    from threadpoolctl import ThreadpoolController

    return [library for library in ThreadpoolController().lib_controllers if library.user_api == "blas"]


def _set_threads(library: Any, threads: int) -> None:
    """Set a library's number of threads from any thread, as threadpoolctl 3.7 does only from one of them."""
    release = getattr(library, "clear_controlling_thread", lambda force: None)
    release(force=True)
    library.set_num_threads(threads)
    release(force=True)


def _is_per_thread(library: Any) -> bool:
    """Whether the library has a setting for each calling thread, rather than one for the process."""
    return bool(library.internal_api == "openblas" and library.threading_layer == "openmp")


_lock = threading.Lock()
_holders = 0
_before: list[int] = []


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Limit BLAS to one thread. When contexts overlap, in any threads, the last to end restores the setting."""
    global _holders, _before  # noqa: PLW0603  # the number of BLAS threads is a property of the process
    with _lock:
        if _holders == 0:
            _before = [library.get_num_threads() for library in blas_libraries()]
        _holders += 1
        for library in blas_libraries():
            _set_threads(library, 1)
    try:
        yield
    finally:
        with _lock:
            _holders -= 1
            for library, threads in zip(blas_libraries(), _before, strict=True):
                if _holders == 0 or _is_per_thread(library):
                    _set_threads(library, threads)


_here = threading.local()  # `ours` is set in the threads of `_pool`


def _begin_thread() -> None:
    _here.ours = True
    for library in filter(_is_per_thread, blas_libraries()):
        _set_threads(library, 1)


@lru_cache(2)
def _pool(threads: int) -> ThreadPoolExecutor:
    """A pool that is kept: starting sixteen threads takes as long as a millisecond of work on each."""
    return ThreadPoolExecutor(threads, thread_name_prefix="discreet", initializer=_begin_thread)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a forked process has none of the threads


def over_blocks(work: Callable[[Block], Result], blocks: Iterable[Block], n_jobs: int | None) -> Iterator[Result]:
    """Yield `work(block)` for each block, in order, computed on `n_jobs` threads.

    A block is always computed by one thread, so results do not depend on the number of threads. Only a few results
    wait at a time, so memory does not grow with the number of blocks. BLAS is limited to one thread until the last
    result is taken, or the generator closed.
    """
    if hasattr(_here, "ours"):  # called within another block's work
        yield from map(work, blocks)
        return
    threads, remaining = n_threads(n_jobs), iter(blocks)
    ahead = list(islice(remaining, 4 * threads))
    with single_threaded_blas():
        if threads == 1 or len(ahead) <= 1:  # a single block, such as one request to a server, is not worth a thread
            yield from map(work, chain(ahead, remaining))
            return
        pool = _pool(threads)
        waiting = deque(pool.submit(work, block) for block in ahead)
        try:
            while waiting:
                result = waiting.popleft().result()
                waiting.extend(pool.submit(work, block) for block in islice(remaining, 1))
                yield result
        finally:  # after an error, or when the caller stops early
            wait([future for future in waiting if not future.cancel()])


def each_block(work: Callable[[Block], Any], blocks: Iterable[Block], n_jobs: int | None) -> None:
    """Call `work(block)` for each block, on `n_jobs` threads that each take the next block when they finish one.

    For work that writes its results somewhere: the overhead for a block is much smaller than in `over_blocks`. Blocks
    that take long should come first, so that all threads finish together.
    """
    threads, remaining = 1 if hasattr(_here, "ours") else n_threads(n_jobs), iter(blocks)
    first = list(islice(remaining, threads))
    left = chain(first, remaining)
    if len(first) <= 1:
        deque(over_blocks(work, left, 1), 0)
        return
    lock, failed = threading.Lock(), threading.Event()

    def take() -> None:
        while not failed.is_set():
            with lock:
                block = list(islice(left, 1))
            if not block:
                return
            work(*block)

    with single_threaded_blas():
        takers = [_pool(threads).submit(take) for _ in first]
        try:
            wait(takers, return_when=FIRST_EXCEPTION)
        finally:
            failed.set()  # the others stop, too
            wait(takers)
        for taker in takers:
            taker.result()


# -- progress: a bar for work that takes more than a moment, only on a terminal


@contextmanager
def on_progress(callback: Callback) -> Iterator[None]:
    """Report progress of long work inside this context to a function, instead of showing a bar on the terminal.

    Fits count releases, each of which is a pass over the data, or steps; reading counts rows, and recommending counts
    users. These numbers are meant for the owner of the data. Work whose progress is private does not report it.

    Example:
        >>> import discreet
        >>> ratings = discreet.datasets.movielens_like(300, 50, 6_000, random_state=0)
        >>> with discreet.on_progress(lambda what, done, total, doing: print(what, int(done), "of", total, doing)):
        ...     model = discreet.DPPopularity(epsilon=1, delta=1e-6).fit(ratings)
        DPPopularity 1 of 1 item popularity

    Args:
        callback: Called with the task, how much is done, the total (None if unknown), and the piece done last.
    """
    token = _callback.set(callback)
    try:
        yield
    finally:
        _callback.reset(token)


@contextmanager
def quiet() -> Iterator[None]:
    """Show no bars inside this context: for work that has its own bar, or whose progress is private."""
    token = _quiet.set(True)
    try:
        yield
    finally:
        _quiet.reset(token)


class Bar:
    """A progress bar, as a context manager: call `advance(n)` after each piece of work. Silent without a terminal."""

    def __init__(self, what: str, total: float | None = None, unit: str = "rows") -> None:
        self._what, self.total, self._unit = what, total, unit
        self._done: float | Fraction = 0
        self._start = time.monotonic()
        self._progress: Any = None
        self._callback = None if _quiet.get() else _callback.get()
        shown = sys.stderr is not None and sys.stderr.isatty()
        self._wanted = shown and self._callback is None and not _quiet.get()

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def advance(self, amount: float | Fraction, doing: str = "") -> None:
        """Record how much more is done, and the piece that it was."""
        self._done += amount
        if self._callback is not None:
            self._callback(self._what, float(self._done), self.total, doing)
        if self._wanted and self._progress is None and time.monotonic() - self._start > PATIENCE:
            self._show()
        if self._progress is not None:
            description = f"{self._what}: {doing}" if doing else self._what
            self._progress.update(self._task, completed=float(self._done), total=self.total, description=description)

    def close(self) -> None:
        """Remove the bar."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        amount = DownloadColumn() if self._unit == "bytes" else TextColumn("{task.completed:,.0f} " + self._unit)
        columns = (TextColumn("{task.description}"), BarColumn(), amount, TimeRemainingColumn())
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task(self._what, total=self.total)
        self._progress.start()
