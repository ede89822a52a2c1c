"""How the kernels run: the compiled library, the functions of it that fit this processor, and threads over blocks.

`hatch_build.py` compiles the library from the C files beside this one. Calls release the interpreter lock. BLAS is held
at one thread while ours run, so that the two kinds of threads never fight.
"""

from __future__ import annotations

import ctypes
import math
import operator
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache, lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from discreet.errors import DataError
from discreet.typing import Array

Block = TypeVar("Block")
Result = TypeVar("Result")

NAME = {"darwin": "kernels.dylib", "win32": "kernels.dll"}.get(sys.platform, "kernels.so")
KINDS: dict[Any, Any] = {np.dtype(np.float32): ("f32", ctypes.c_float), np.dtype(np.float64): ("f64", ctypes.c_double)}
PAD = 16  # numbers that the rows of a table are a multiple of
LINE = 64  # bytes of a cache line, and of the widest register


@cache
def _library() -> ctypes.CDLL:
    path = Path(__file__).with_name(NAME)
    if not path.exists():
        raise ImportError(f"{path} is missing: install discreet with pip, or run python hatch_build.py in its folder")
    return ctypes.CDLL(str(path))


@cache
def instruction_set() -> str:
    """The instruction set that the kernels use here: "v2", "v3" or "v4" of x86-64, "v0" for other processors."""
    return f"v{_library().instruction_set()}"


@cache
def function(name: str, dtype: Any = None) -> Callable[..., int]:
    """A function of the library: for numbers of a type, by the best instructions; without a type, one that is for all.

    It takes arrays, structs, numbers, and None for no array, and returns a 64-bit integer, if it returns anything.
    """
    found = getattr(_library(), name if dtype is None else f"{name}_{KINDS[np.dtype(dtype)][0]}_{instruction_set()}")
    found.restype = ctypes.c_int64
    return lambda *given: found(*map(_argument, given))


def _place(array: Any) -> int:
    """Where an array begins."""
    if not array.flags.c_contiguous:
        raise ValueError("kernels take contiguous arrays")
    if array.flags.writeable and array.size:  # a third of the time, which threads wait for
        return ctypes.addressof(ctypes.c_char.from_buffer(array))
    return int(array.ctypes.data)


def _argument(given: Any) -> Any:
    if isinstance(given, np.ndarray):
        return ctypes.c_void_p(_place(given))
    if isinstance(given, float):
        return ctypes.c_double(given)
    return ctypes.c_int64(given) if isinstance(given, int) else given


@cache
def _layout(fields: tuple[tuple[str, Any], ...]) -> Any:
    return type("Arguments", (ctypes.Structure,), {"_fields_": fields})


class Struct:
    """A C struct, passed by value: pointers to arrays, which it keeps alive, 64-bit integers, and floats of a type."""

    def __init__(self, dtype: Any = np.float64, **fields: Any) -> None:
        kinds = {float: KINDS[np.dtype(dtype)][1], int: ctypes.c_int64}
        layout = tuple((name, kinds.get(type(value), ctypes.c_void_p)) for name, value in fields.items())
        places = (_place(value) if isinstance(value, np.ndarray) else value for value in fields.values())
        self.fields, self._as_parameter_ = fields, _layout(layout)(*places)


def aligned(shape: tuple[int, ...], dtype: Any) -> Array:
    """Zeros that begin with a cache line."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.zeros(size + LINE, np.uint8)
    first = -memory.ctypes.data % LINE
    return np.asarray(memory[first : first + size].view(dtype).reshape(shape))


# -- threads


def n_threads(n_jobs: int | None) -> int:
    """How many threads `n_jobs` means, as in scikit-learn: -1 all cores, -2 all but one, None one."""
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
    """The BLAS libraries of this process, each of which has threads of its own."""
    import scipy.linalg  # noqa: F401  # its BLAS is not that of NumPy
    from threadpoolctl import ThreadpoolController

    return [library for library in ThreadpoolController().lib_controllers if library.user_api == "blas"]


def _set_threads(library: Any, threads: int) -> None:
    """Set a library's number of threads, from any thread: threadpoolctl 3.7 obeys only the thread that came first."""
    release = getattr(library, "clear_controlling_thread", lambda force: None)
    release(force=True)
    library.set_num_threads(threads)
    release(force=True)


def _is_per_thread(library: Any) -> bool:
    """Whether each thread of ours has a number of its own; else there is one for the process."""
    return bool(library.internal_api == "openblas" and library.threading_layer == "openmp")


_lock = threading.Lock()
_holders = 0
_before: list[int] = []


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Hold BLAS at one thread; the last of several holders, in whatever threads, gives back what there was."""
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


_here = threading.local()  # `ours` is set in our own threads


def _begin_thread() -> None:
    _here.ours = True
    for library in filter(_is_per_thread, blas_libraries()):
        _set_threads(library, 1)


@lru_cache(2)
def _pool(threads: int) -> ThreadPoolExecutor:
    """Threads that stay: starting sixteen takes as long as a millisecond of work for each of them."""
    return ThreadPoolExecutor(threads, thread_name_prefix="discreet", initializer=_begin_thread)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads are not copied


def over_blocks(work: Callable[[Block], Result], blocks: Iterable[Block], n_jobs: int | None) -> Iterator[Result]:
    """Yield `work(block)` for each block, in their order, computed on `n_jobs` threads.

    A block is always computed by one thread, so results do not depend on how many there are. Only a few results
    wait at a time, so memory stays bounded however many blocks there are. BLAS is held at one thread until the last
    result is taken, or the generator closed.
    """
    if hasattr(_here, "ours"):  # a block within a block
        yield from map(work, blocks)
        return
    threads, remaining = n_threads(n_jobs), iter(blocks)
    ahead = list(islice(remaining, 4 * threads))
    with single_threaded_blas():
        if threads == 1 or len(ahead) <= 1:  # one request to a server, for instance, is not worth a thread
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
    """Do `work(block)` for each block on `n_jobs` threads, which take the next one whenever they are done with one.

    For work whose results are written somewhere: Python does far less for a block than in `over_blocks`. Blocks that
    take long should come first, so that all threads end together.
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
