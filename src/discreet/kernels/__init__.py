"""Compiled computations for each user or each item, callable from Python with NumPy arrays.

A row of a sparse table has entries: items with values. Its regression, scores and best items depend only on the row and
on the tables of items, and one thread computes them in a fixed order. So the results are identical to the last bit for
any number of threads, and whatever other rows are computed.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from discreet.parallel import each_block, n_threads, single_threaded_blas
from discreet.typing import Array

NAME = {"darwin": "kernels.dylib", "win32": "kernels.dll"}.get(sys.platform, "kernels.so")
KINDS: dict[Any, Any] = {np.dtype(np.float32): ("f32", ctypes.c_float), np.dtype(np.float64): ("f64", ctypes.c_double)}
PAD = 16  # the rows of a table are padded to a multiple of this many numbers
LINE = 64  # bytes of a cache line, and of the widest register
ENTRIES = 1 << 13  # about how many entries a thread takes at a time: less than a millisecond of work
GATHERED = 64  # PART in C
ROWS = 1 << 12  # the most rows that a thread takes at a time
CALL_ROWS = 64 * ROWS  # the most rows that a call takes: TURNS blocks
TOGETHER = 128  # users whose scores are computed together, so that they share cached data
INDICES = (np.uint8, np.uint16, np.uint32)  # types of item numbers that the kernels read
ANY = 1 << 32  # all item numbers are below this
OUTSIDE = "indptr, indices: every entry must have a value and a vector"
Bound = tuple[float, float, int]  # the arguments step, limit and largest of `truncate`
Scale = tuple[float, float, float]  # middle, unit, reach: (value - middle) / unit is clipped to [-reach, reach]
Grades = tuple[float, float, float, float]  # mean, shrinkage, unit and slope of a `models.grading.Grading`
ITEM_BYTES = 1 << 20  # bytes of item posteriors that a thread takes at a time
SCORES = 1 << 26  # multiplications for users' scores that a thread takes at a time


# -- the compiled library, whose calls release the interpreter lock; built by hatch_build.py from the C files here


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
    """A function of the library: the version for a type and the best instruction set, or the only one without a type.

    It takes arrays, structs, numbers, and None for a null pointer. It returns a 64-bit integer, if anything.
    """
    found = _symbol(name, dtype)
    found.restype = ctypes.c_int64
    return lambda *given: found(*map(_argument, given))


def _symbol(name: str, dtype: Any) -> Any:
    return getattr(_library(), name if dtype is None else f"{name}_{KINDS[np.dtype(dtype)][0]}_{instruction_set()}")


def _address(name: str, dtype: Any = None) -> int:
    """The address of a function, for other compiled functions to call."""
    return int(ctypes.cast(_symbol(name, dtype), ctypes.c_void_p).value or 0)


def _place(array: Any) -> int:
    """The address of an array's first number."""
    if not array.flags.c_contiguous:
        raise ValueError("kernels take contiguous arrays")
    if array.flags.writeable and array.size:  # takes a third of the time, during which threads wait
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
    """A C struct, passed by value: pointers to arrays, which it keeps alive, 64-bit integers, and floats of `dtype`."""

    def __init__(self, dtype: Any = np.float64, **fields: Any) -> None:
        kinds = {float: KINDS[np.dtype(dtype)][1], int: ctypes.c_int64}
        layout = tuple((name, kinds.get(type(value), ctypes.c_void_p)) for name, value in fields.items())
        places = (_place(value) if isinstance(value, np.ndarray) else value for value in fields.values())
        self.fields, self._as_parameter_ = fields, _layout(layout)(*places)


def aligned(shape: tuple[int, ...], dtype: Any) -> Array:
    """Zeros, aligned to a cache line."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.zeros(size + LINE, np.uint8)
    first = -memory.ctypes.data % LINE
    return np.asarray(memory[first : first + size].view(dtype).reshape(shape))


# -- calls of the compiled functions


@dataclass(frozen=True)
class Table:
    """One vector for each item or user, as the kernels take them: aligned rows, padded with zeros.

    The vectors are the first k columns of `padded`, (rows, a multiple of 16).
    """

    padded: Array
    k: int

    @classmethod
    def empty(cls, n: int, k: int, dtype: Any) -> Table:
        """A table of zeros."""
        return cls(aligned((n, max(-(-k // PAD) * PAD, PAD)), dtype), k)

    @classmethod
    def of(cls, vectors: Array, dtype: Any = None) -> Table:
        """A copy of `vectors`, (rows, k)."""
        table = cls.empty(len(vectors), vectors.shape[1], dtype or vectors.dtype)
        table.padded[:, : table.k] = vectors
        return table

    def __reduce__(self) -> Any:
        return Table.of, (self.values,)  # unpickling aligns it to a cache line again

    @property
    def values(self) -> Array:
        """The vectors (rows, k)."""
        return np.asarray(self.padded[:, : self.k])


def _blocks(indptr: Array) -> Array:
    """Where blocks of consecutive rows end: about ENTRIES entries and at most ROWS rows each."""
    n = len(indptr) - 1
    ends = np.searchsorted(indptr, np.arange(indptr[0], indptr[-1], ENTRIES))
    return np.unique(np.concatenate([ends, np.arange(0, n, ROWS), [0, n]]))


def _share(name: str, kind: Any, struct: Struct, ends: Array, n_jobs: int | None, *given: Any) -> bool:
    """Call a function on threads that take blocks until none is left. Returns whether it always succeeded."""
    call, ends, taken = function(name, kind), np.ascontiguousarray(ends, np.int64), np.zeros(1, np.int64)
    n, found = len(ends) - 1, [True]
    turns = takewhile(lambda _: found[-1] and taken[0] < n, range(n))
    each = each_block if n_threads(n_jobs) > 1 else lambda work, blocks, _: deque(map(work, blocks), 0)
    each(lambda _: found.append(bool(call(struct, taken, ends, n, *given))), turns, n_jobs)
    return all(found)


def _array(array: Array | None, dtype: Any = np.float64) -> Any:
    """A contiguous array of the type that C reads."""
    return None if array is None else np.ascontiguousarray(array, dtype)


def _ends(indptr: Array, *entries: Array | None) -> tuple[Array, int]:
    """The offsets of rows in the entries, checked, and the number of rows."""
    ends, least = _array(indptr, np.int64), min(len(array) for array in entries if array is not None)
    if ends[0] < 0 or ends[-1] > least or (ends[1:] < ends[:-1]).any():
        raise ValueError(OUTSIDE)
    return ends, len(ends) - 1


def _rows(indptr: Array, indices: Array, size: int, *entries: Array | None) -> dict[str, Any]:
    """The fields of the C struct `Rows`, with the checks that C does not make."""
    ends, n = _ends(indptr, indices, *entries)
    if indices.dtype not in INDICES and len(indices) and not (indices.min() >= 0 and indices.max() < size):
        raise ValueError(OUTSIDE)
    items = _array(indices, indices.dtype if indices.dtype in INDICES else np.uint32)
    rows = {"indptr": ends, "items": items, "bytes": items.itemsize, "n": n, "size": size}
    return rows | {"given": None, "width": 0}


def _call(name: str, *given: Any, dtype: Any = None) -> None:
    """Call a function that returns 0 if items are not in their table, and -1 if there is no memory."""
    if (found := function(name, dtype)(*given)) < 1:
        raise MemoryError if found else ValueError(OUTSIDE)


def _ridge(indptr: Array, indices: Array, values: Array, table: Table, prior: Table | None, **given: Any) -> Struct:
    """The C struct `Ridge`; arrays that are not given are null pointers."""
    kind, rows = table.padded.dtype, _rows(indptr, indices, len(table.padded), values)
    arrays = {"values": values, "table": table.padded, "base": None, "prior": prior and prior.padded}
    fields = arrays | dict.fromkeys(("gram", "scale")) | {"offset_penalty": -1.0, "prior_count": 0.0}
    fields |= {"k": table.k, "ld": table.padded.shape[1], **dict.fromkeys(("offsets", "vectors", "residuals"))}
    fields |= {name: value for name, value in given.items() if value is not None}
    fields |= {name: _array(fields[name], kind) for name in ("values", "base", "scale")}
    fields |= {name: float(fields[name]) for name in ("offset_penalty", "prior_count")}
    for name, size in (("base", rows["size"]), ("prior", rows["size"]), ("scale", rows["n"])):
        if fields[name] is not None and len(fields[name]) != size:
            raise ValueError(f"{name}: {size} numbers or vectors are needed, not {len(fields[name])}")
    return Struct(kind, **rows, **fields)


def ridge(
    indptr: Array,
    indices: Array,
    values: Array,
    table: Table,
    scale: Array,
    *,
    base: Array | None = None,
    prior: Table | None = None,
    prior_count: float = 0.0,
    gram: Array | None = None,
    offset_penalty: float | None = None,
    steps: int = 0,
    start: tuple[Array, Table] | None = None,
    residuals: Array | None = None,
    n_jobs: int | None = 1,
) -> tuple[Array, Table]:
    """Ridge regressions: the offset a and the vector z of each row.

    They minimize

        sum over its entries of (y - base_j - a - x_j . z)^2 + s |z - c|^2 + z^T G z + offset_penalty a^2.

    A row without entries gets zeros. Where a system is singular, the solution of least norm is taken.

    Args:
        indptr: Row i's entries are at indptr[i]:indptr[i + 1].
        indices: The item j of each entry.
        values: y of each entry.
        table: x_j; results have the type of its numbers.
        scale: s of each row.
        base: base_j of each item, by default 0.
        prior: A vector for each item; c is the mean of those of the row's items and `prior_count` zeros, by default 0.
        prior_count: How many zeros count in c.
        gram: G, by default 0.
        offset_penalty: Without it, there is no offset.
        steps: Steps of conjugate gradients; with 0, the exact solution, by Cholesky factors.
        start: Offsets and vectors to start from, by default zeros. They are overwritten.
        residuals: If given, it is overwritten with y - base_j - a - x_j . z of each entry.
        n_jobs: Number of threads, as in scikit-learn.
    """
    kind, n, k = table.padded.dtype, len(indptr) - 1, table.k
    offsets, vectors = start or (np.zeros(n, kind), Table.empty(n, k, kind))
    kinds, shapes = {offsets.dtype, vectors.padded.dtype}, (offsets.shape, vectors.padded.shape)
    if kinds != {kind} or shapes != ((n,), (n, table.padded.shape[1])):
        raise ValueError("start: an offset and a vector for each row are needed, of the type of the table")
    left = None if residuals is None else np.empty(len(values), kind)
    square = None if gram is None else aligned(2 * table.padded.shape[1:], kind)
    if square is not None:
        square[:k, :k] = gram
    given: dict[str, Any] = {"base": base, "prior_count": prior_count, "gram": square, "offset_penalty": offset_penalty}
    given |= {"scale": scale, "offsets": offsets, "vectors": vectors.padded, "residuals": left}
    struct, failed = _ridge(indptr, indices, values, table, prior, **given), np.zeros(n, np.uint8)
    if not _share("ridge", kind, struct, _blocks(struct.fields["indptr"]), n_jobs, steps, failed):
        raise ValueError(OUTSIDE)
    for i in np.flatnonzero(failed):
        own = slice(int(indptr[i]), int(indptr[i + 1]))
        at = indices[own]
        X, y = table.values[at], values[own] - (0 if base is None else base[at])
        center = np.zeros(k) if prior is None else prior.values[at].sum(axis=0) / (len(at) + prior_count)
        penalty = float(scale[i]) * np.eye(k) + (0 if gram is None else gram)
        with single_threaded_blas():
            offsets[i], *vectors.values[i] = _singular(X, y, center, penalty, offset_penalty)
        if left is not None:
            left[own] = y - offsets[i] - X @ vectors.values[i]
    if residuals is not None:
        residuals[:] = left
    return offsets, vectors


def _singular(X: Array, y: Array, center: Array, penalty: Array, offset_penalty: float | None) -> Array:
    """Offset and vector of a row whose system is singular, in double precision: the solution of least norm."""
    Z = np.column_stack([np.full(len(y), offset_penalty is not None), X]).astype(np.float64)
    A, b = Z.T @ Z, Z.T @ (y - X @ center)
    A[1:, 1:] += penalty
    A[0, 0] += offset_penalty or 0
    values, vectors = np.linalg.eigh(A)
    known = values > max(values[-1], 0) * len(A) * np.finfo(np.float64).eps * 8
    solution: Array = vectors[:, known] @ ((vectors[:, known].T @ b) / values[known]) + np.append(0, center)
    return solution


def solve(A: Array, b: Array) -> tuple[Array, Array]:
    """The solutions x of A[i] x = b[i], for positive definite A (n, k, k), and a mask of those that fail."""
    (n, k), x = b.shape, Table.of(b, A.dtype)
    padded, failed = aligned((n, *2 * x.padded.shape[1:]), A.dtype), np.zeros(n, np.uint8)
    padded[:, :k, :k] = A
    function("systems", A.dtype)(padded, x.padded, k, x.padded.shape[1], n, failed)
    return x.values.copy(), failed.astype(bool)


def item_posteriors(
    before: tuple[Array, Array],
    factors: tuple[Array, Array],
    own: tuple[Array, Array],
    earlier: tuple[Array, Array],
    step: tuple[Array, Array, Array, Array, Array | None] | None = None,
    *,
    error: float = 0.0,
    n_jobs: int | None = 1,
) -> tuple[Array, ...]:
    """The posteriors of items, in double precision, before and after a step of training.

    An item's parameters theta are observed with the noise of its ratings: phi = theta + noise. A step observes phi as
    the mean plus its move, with fresh noise and an error proportional to the item's gap: the second moment of phi about
    the mean of theta. The covariance of noise is a size for each item times a matrix (k, k).

    Args:
        before: Means (items, k) and covariances (items, k, k) of theta before any step.
        factors: Factors (k,) of the means, and of the standard deviations.
        own: The sizes and the matrix of the ratings' own noise.
        earlier: Precisions (items, k, k) of phi, and information, which is precision times estimate (items, k).
        step: Moves (items, k); sizes and matrix of their noise; the means now; the gaps now, None before any step.
        error: The error of moves relative to the gaps.
        n_jobs: Number of threads, as in scikit-learn.

    Returns precisions, information, gaps (items, k, k), means and covariances.
    """
    m, k = before[0].shape
    given = (*before, *factors, *own, *earlier, *(step or (None,) * 5))
    places = {str(at): _array(array) for at, array in enumerate(given)}
    found = {name: np.empty((m, k) if name in "IM" else (m, k, k)) for name in "PIGMC"}
    struct = Struct(**places, error=error**2, k=k, **found)
    size = max(1, ITEM_BYTES // (48 * k**2))
    if not _share("item_posteriors", np.float64, struct, np.append(np.arange(0, m, size), m), n_jobs):
        raise np.linalg.LinAlgError("a covariance is singular")
    return tuple(found.values())


def normal_equations(
    total: Array,
    indptr: Array,
    users: Array,
    vectors: Array,
    targets: Array,
    *,
    weights: Array | None = None,
    n_jobs: int | None = 1,
) -> None:
    """Add sums of w u u^T, on and above the diagonal, and of t u as last column, to each item's (k + 1, k + 1) total.

    An item's users are at indptr[item]:indptr[item + 1] of `users`, `targets` (t) and `weights` (w, by default 1); u is
    a user's row of `vectors`. All are integers with sums below 2^53, so the int64 total is exact in any order.
    """
    struct, weights = _ridge(indptr, users, targets, Table.of(vectors, np.float64), None), _array(weights)
    if weights is not None and len(weights) != len(targets):
        raise ValueError(OUTSIDE)
    ends = _blocks(struct.fields["indptr"])
    if not _share("equations", np.float64, struct, ends, n_jobs, weights, _integers(total)):
        raise ValueError(OUTSIDE)


@dataclass(frozen=True)
class Panels:
    """Items' vectors as `top_n` takes them: (panels, k, items of a panel), padded with zero items."""

    packed: Array
    n_items: int

    @classmethod
    def of(cls, vectors: Array) -> Panels:
        """Pack vectors (items, k)."""
        (n, k), panel = vectors.shape, function("panel", vectors.dtype)()
        packed = aligned((-(-n // panel), k, panel), vectors.dtype)
        packed[:] = np.pad(vectors, ((0, -n % panel), (0, 0))).reshape(len(packed), panel, k).swapaxes(1, 2)
        return cls(packed, n)

    def widened(self, numbers: Array, fill: float = -np.inf) -> Array:
        """One number for each item, padded with `fill`."""
        wide = aligned((self.packed.shape[0] * self.packed.shape[2],), self.packed.dtype)
        wide[: self.n_items], wide[self.n_items :] = numbers, fill
        return wide


def top_n(
    panels: Panels,
    base: Array,
    vectors: Array,
    n: int,
    *,
    has_history: Array,
    cold: Array,
    seen: tuple[Array, Array] | None = None,
    variance: tuple[float, Array, Panels] | None = None,
    n_jobs: int | None = 1,
) -> tuple[Array, Array]:
    """The items (users, n) with the best scores base_j + x_j . z, and their scores; -1 where a list is shorter.

    Ties are broken in favor of the earlier item. Items with a score of minus infinity are never listed.

    Args:
        panels: The items' vectors x_j.
        base: base_j of each item, as `panels.widened` returns it.
        vectors: z of each user.
        n: The length of a list.
        has_history: Whether each user has a history; a user without one gets the scores in `cold`.
        cold: Scores of items, as `panels.widened` returns them.
        seen: Items to leave out, in CSR form (indptr, indices), ascending for each user; by default none.
        variance: A factor c, and the variances of base and x_j: c standard deviations are subtracted from scores.
        n_jobs: Number of threads, as in scikit-learn.
    """
    kind, (users, k) = panels.packed.dtype, vectors.shape
    n = min(n, panels.n_items)
    best, scores = np.empty((users, n), np.int32), np.empty((users, n), kind)
    indptr, items = (np.zeros(users + 1, np.int64), np.zeros(0, np.uint8)) if seen is None else seen
    caution, spread, variances = (0.0, None, None) if variance is None else variance
    own, wide = _rows(indptr, items, panels.n_items), panels.packed.shape[0] * panels.packed.shape[2]
    if (panels.packed.shape[1], len(base), len(cold), len(has_history), own["n"]) != (k, wide, wide, users, users):
        raise ValueError("top_n: vectors must be as long as those of items, and there is one history for each")
    own |= {"panels": panels.packed, "base": _array(base, kind), "cold": _array(cold, kind)}
    own |= {"variances": variances and variances.packed, "base_variance": spread, "caution": float(caution)}
    own |= {"k": k, "wanted": n, "vectors": _array(vectors, kind), "known": _array(has_history, np.uint8)}
    struct = Struct(kind, **own, best=best, scores=scores)
    rows = max(1, SCORES // max(panels.n_items * k, 1) // TOGETHER) * TOGETHER
    ends = np.append(np.arange(0, users if n else 0, rows), users if n else 0)
    _share("top_n", kind, struct, ends, n_jobs)
    return best, scores


# -- integers on a grid: tests compare each function and sum with its twin in tests/privacy/twins.py


def _integers(total: Array) -> Array:
    if total.dtype != np.int64 or not total.flags.c_contiguous:
        raise ValueError("total: a contiguous array of int64 is needed, to which integers are added in place")
    return total


def truncate(values: Array, indptr: Array, step: float, limit: float, largest: int) -> Array:
    """Ragged rows of float64 as integers, in units of `step`, of L2 norm at most `limit`; `largest` is its square."""
    out = np.empty(len(values), np.int64)
    grid = Struct(step=step, limit=limit, largest=largest)
    function("truncate_rows")(_array(values), *_ends(indptr, values), grid, out)
    return out


def rising(items: Array, indptr: Array, size: int, n_jobs: int | None = 1) -> bool:
    """Whether the items of every row are strictly increasing, from 0 on, and below `size`."""
    try:
        rows = _rows(indptr, items, size)
    except ValueError:
        return False
    ends = _blocks(rows["indptr"]) if n_threads(n_jobs) > 1 else np.array([0, rows["n"]])
    return _share("rising_rows", None, Struct(**rows), ends, n_jobs)


def row_sums(entries: Array, indptr: Array) -> Array:
    """The sum of each row's entries, in order."""
    out = np.empty(len(indptr) - 1)
    function("sum_rows")(_array(entries), *_ends(indptr, entries), out)
    return out


# -- users' contributions, and exact sums of them


@dataclass(frozen=True, eq=False)
class RowFunction:
    """A compiled function that computes a row's contribution from its items and values, and public arrays and numbers.

    `add_up` computes the contributions of rows and adds them up at once; a call returns those of all rows as arrays.

    Attributes:
        name: The name of the C function.
        given: The fields of the struct that it gets.
        size: All items must be below it.
        dtype: The type that it is compiled for; None if there is one version for all.
        each: The number of vectors for each row.
        k: The length of these vectors.
        kind: "items": x of entries; "vectors": vectors, too; "squares": as many numbers, too; "whole": a vector alone.
        memory: Bytes of scratch memory, in all and for each entry of a row.
        place: Positions of items in the sum, increasing; -1: not in the sum. By default their own numbers.
    """

    name: str
    given: dict[str, Any]
    size: int = ANY
    dtype: Any = None
    each: int = 0
    k: int = 0
    kind: str = "items"
    memory: tuple[int, int] = (0, 0)
    place: Array | None = None

    def __reduce__(self) -> Any:
        return RowFunction, tuple(vars(self)[name] for name in self.__dataclass_fields__)  # without pointers

    @cached_property
    def pointers(self) -> tuple[int, int, Struct]:
        """The addresses of the function and its struct, and the struct, which must be kept alive."""
        if self.place is not None and (np.diff(self.place[self.place >= 0]) <= 0).any():
            raise ValueError("place: must rise with the item")
        struct = Struct(**{name: own.padded if isinstance(own, Table) else own for name, own in self.given.items()})
        return _address(self.name, self.dtype), ctypes.addressof(struct._as_parameter_), struct

    def needs(self, rows: SharedRows) -> int:
        """Bytes of scratch memory for these rows."""
        return self.memory[0] + self.memory[1] * rows.longest

    def __call__(self, batch: Any) -> Any:
        """The contributions of a batch's rows: x, a vector, x and vectors, or numbers, x and vectors."""
        n, rows = len(batch.indptr) - 1, SharedRows(batch.indptr, batch.indices, batch.values)
        x, (vectors, numbers) = np.empty(len(batch.indices)), np.empty((2, n * self.each, self.k))
        function, given, _ = self.pointers
        work = ctypes.c_void_p(function), ctypes.c_void_p(given), self.needs(rows), self.each * self.k
        _call("contributions", rows.below(self.size), *work, x, vectors, numbers)
        found = {"items": x, "whole": vectors, "vectors": (x, vectors)}
        return found.get(self.kind, (numbers.reshape(n, -1), (x, vectors)))


class SharedRows:
    """Rows that threads share: calls of `add_up` on any number of threads take blocks of them until none is left."""

    def __init__(self, indptr: Array, indices: Array, values: Array) -> None:
        values = np.ascontiguousarray(values, values.dtype if values.dtype in KINDS else np.float64)
        self._rows = _rows(indptr, indices, ANY, values) | {"given": values, "width": values.itemsize}
        self.longest = int(np.diff(self._rows["indptr"]).max(initial=1))
        self.ends, self.taken = _array(_blocks(self._rows["indptr"]), np.int64), np.zeros(1, np.int64)

    def below(self, size: int) -> Struct:
        """The C struct `Rows`."""
        return Struct(**self._rows | {"size": size})

    @property
    def turns(self) -> Iterator[SharedRows]:
        """Itself, again and again, until no block is left."""
        return (self for _ in takewhile(lambda _: self.taken[0] < len(self.ends) - 1, self.ends[1:]))


@dataclass(frozen=True)
class Total:
    """A total of integers, with the bounds of x or numbers and of vectors, and the least value of an entry.

    `kind` is one of those of `RowFunction`, or x x^T added up as a "gram" of dense rows or as "pairs" of entries.
    """

    array: Array
    bound: Bound
    kind: str = "items"
    vectors: Bound = (1.0, 0.0, 0)
    least: float = -np.inf


def add_up(rows: SharedRows, of: RowFunction | None, *totals: Total, **given: Array | None) -> None:
    """Add the contributions of some blocks of rows to totals. A row adds nothing if an item repeats or does not exist.

    Without a function, x of entries, and vectors or numbers (rows, each, k), are given, and items may repeat.
    """
    kinds, nothing = {total.kind: total for total in totals}, Total(np.zeros(0), (1.0, 0.0, 0), "none")
    squares, total = kinds.pop("squares", nothing), next(iter(kinds.values()), nothing)
    arrays = [_array(given.get(name)) for name in ("x", "vectors", "numbers")]
    each, k = (of.each, of.k) if of else next((one.shape[1:] for one in arrays[1:] if one is not None), (0, 0))
    m, kind, place = len(total.array), total.kind, _array(of.place if of else None, np.int64)
    shape = {"items": (m,), "vectors": (m, k), "whole": (k,), "none": (0,)}.get(kind, (m, m))
    fits = len(kinds) < 2 and total.array.shape == shape and squares.array.shape in ((0,), (k, k))
    if not fits or (kind == "items" and each) or (kind in ("vectors", "whole") and not each):
        raise ValueError("total: its shape is not that of what is added to it")
    address, pointer, _ = of.pointers if of else (0, 0, None)
    numbers = [each, k, m, int(kind == "whole"), int(kind == "pairs"), int(of is None), float(total.least)]
    numbers += [*total.bound, *total.vectors, *squares.bound]
    sums = [None if one is nothing else _integers(one.array) for one in (total, squares)]
    gram = _address("add_gram", np.float64) if kind == "gram" else 0
    numbers += [*sums, gram, place, address, pointer, rows.longest, of.needs(rows) if of else 0, *arrays]
    sizes = [m] * (kind in ("items", "vectors") or (not of and m > 0)) + [ANY if place is None else len(place)]
    struct = Struct(**{f"_{at}": number for at, number in enumerate(numbers)})
    _call("add_up", rows.below(min(of.size if of else ANY, *sizes)), rows.taken, rows.ends, len(rows.ends) - 1, struct)


def placed_rows(indptr: Array, indices: Array, entries: Array, place: Array) -> tuple[Array, Array, Array]:
    """Rows restricted to items that have a place (not -1), renumbered by place: offsets of rows, items and entries."""
    rows, ends = _rows(indptr, indices, len(place), entries), np.empty(len(indptr), np.int64)
    kept, out = np.empty(len(indices), np.uint32), np.empty(len(indices))
    _call("placed_rows", Struct(**rows), _array(entries), _array(place, np.int64), kept, out, ends)
    return ends, kept[: ends[-1]], out[: ends[-1]]
