"""What is computed for each user, or each item, by itself: compiled, and fast on every core.

A row of a sparse table has entries: items with values. Its regression, its scores and its best items are functions of
the row and of the tables of items alone, computed by one thread in an order that depends on nothing else. So they are
the same bits for any number of threads, and whatever rows are beside them.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from discreet.parallel import each_block, n_threads, single_threaded_blas
from discreet.typing import Array

NAME = {"darwin": "kernels.dylib", "win32": "kernels.dll"}.get(sys.platform, "kernels.so")
KINDS: dict[Any, Any] = {np.dtype(np.float32): ("f32", ctypes.c_float), np.dtype(np.float64): ("f64", ctypes.c_double)}
PAD = 16  # numbers that the rows of a table are a multiple of
LINE = 64  # bytes of a cache line, and of the widest register
ENTRIES = 1 << 15  # of the rows that a thread takes at a time, about: some milliseconds of work
ROWS = 1 << 12  # at most
TOGETHER = 128  # users whose scores share what is in a cache
INDICES = (np.uint8, np.uint16, np.uint32)  # types of item numbers that the kernels read
ANY = 1 << 32  # item numbers are below
OUTSIDE = "indptr, indices: every entry must have a value and a vector"
Bound = tuple[float, float, int]  # step, limit and largest, as `truncate` takes them
Bounded = tuple[Array, Bound]
ITEM_BYTES = 1 << 20  # of what is known of the items that a thread takes at a time
SCORES = 1 << 26  # multiplications of the scores of users that a thread takes at a time


# -- the compiled library, whose calls release the interpreter lock; hatch_build.py makes it from the C files here


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


# -- what it computes


@dataclass(frozen=True)
class Table:
    """One vector for each item, or each user, as the kernels take them: rows padded with zeros, from a cache line on.

    Attributes:
        padded: (rows, a multiple of 16).
        k: How many numbers of a row count.
    """

    padded: Array
    k: int

    @classmethod
    def empty(cls, n: int, k: int, dtype: Any) -> Table:
        """Zeros."""
        return cls(aligned((n, max(-(-k // PAD) * PAD, PAD)), dtype), k)

    @classmethod
    def of(cls, vectors: Array, dtype: Any = None) -> Table:
        """A copy of vectors (rows, k)."""
        table = cls.empty(len(vectors), vectors.shape[1], dtype or vectors.dtype)
        table.padded[:, : table.k] = vectors
        return table

    @property
    def values(self) -> Array:
        """The vectors (rows, k)."""
        return np.asarray(self.padded[:, : self.k])

    def square(self, matrix: Array) -> Array:
        """A matrix (k, k), padded like the rows."""
        out = aligned(2 * self.padded.shape[1:], self.padded.dtype)
        out[: self.k, : self.k] = matrix
        return out


def _blocks(indptr: Array) -> Array:
    """Where blocks of consecutive rows end, with about ENTRIES entries each, at most ROWS."""
    n = len(indptr) - 1
    ends = np.searchsorted(indptr, np.arange(indptr[0], indptr[-1], ENTRIES))
    return np.unique(np.concatenate([ends, np.arange(0, n, ROWS), [0, n]]))


def _share(name: str, kind: Any, struct: Struct, ends: Array, n_jobs: int | None, *given: Any) -> bool:
    """Call a function on threads, which take blocks until none is left; whether it always succeeded."""
    call, ends, taken = function(name, kind), np.ascontiguousarray(ends, np.int64), np.zeros(1, np.int64)
    n, found = len(ends) - 1, [True]
    turns = takewhile(lambda _: found[-1] and taken[0] < n, range(n))
    each = each_block if n_threads(n_jobs) > 1 else lambda work, blocks, _: deque(map(work, blocks), 0)
    each(lambda _: found.append(bool(call(struct, taken, ends, n, *given))), turns, n_jobs)
    return all(found)


def _array(array: Array | None, dtype: Any = np.float64) -> Any:
    """An array of the type that C reads, whatever the platform's own is."""
    return None if array is None else np.ascontiguousarray(array, dtype)


def _ends(indptr: Array, *entries: Array | None) -> tuple[Array, int]:
    """Where rows end in the entries, and how many rows there are."""
    ends, least = _array(indptr, np.int64), min(len(array) for array in entries if array is not None)
    if ends[0] < 0 or ends[-1] > least or (ends[1:] < ends[:-1]).any():
        raise ValueError(OUTSIDE)
    return ends, len(ends) - 1


def _rows(indptr: Array, indices: Array, size: int, *entries: Array | None) -> dict[str, Any]:
    """The fields of the C struct `Rows`, checked as far as C does not do it."""
    ends, n = _ends(indptr, indices, *entries)
    if indices.dtype not in INDICES and len(indices) and not (indices.min() >= 0 and indices.max() < size):
        raise ValueError(OUTSIDE)
    items = _array(indices, indices.dtype if indices.dtype in INDICES else np.uint32)
    return {"indptr": ends, "items": items, "bytes": items.itemsize, "n": n, "size": size}


def _call(name: str, *given: Any, dtype: Any = None) -> None:
    """Call a function that returns 0 if items are not in their table, and -1 if there is no memory."""
    if (found := function(name, dtype)(*given)) < 1:
        raise MemoryError if found else ValueError(OUTSIDE)


def _ridge(indptr: Array, indices: Array, values: Array, table: Table, prior: Table | None, **given: Any) -> Struct:
    """The C struct `Ridge`; what is not given is a null pointer, or there is none."""
    kind, rows = table.padded.dtype, _rows(indptr, indices, len(table.padded), values)
    fields: dict[str, Any] = dict.fromkeys(("values", "table", "base", "prior", "gram", "scale"))
    fields |= {"offset_penalty": -1.0, "prior_count": 0.0, "k": table.k, "ld": table.padded.shape[1]}
    fields |= dict.fromkeys(("offsets", "vectors", "residuals"))
    fields |= {name: value for name, value in given.items() if value is not None}
    fields |= {"values": values, "table": table.padded, "prior": prior and prior.padded}
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
        table: x_j; of its type are all results.
        scale: s of each row.
        base: By item; like G and c, by default 0.
        prior: By item: c is the mean of those of the row's items, and of `prior_count` zeros.
        prior_count: How many zeros.
        gram: G.
        offset_penalty: By default there is no offset.
        steps: Steps of conjugate gradients; 0: the solution itself, by Cholesky factors.
        start: Offsets and vectors that these steps start from, by default zeros. They are overwritten, with any steps.
        residuals: Gets y - base_j - a - x_j . z of each entry, if it is given.
        n_jobs: Threads, in scikit-learn's meaning.
    """
    kind, n, k = table.padded.dtype, len(indptr) - 1, table.k
    offsets, vectors = start or (np.zeros(n, kind), Table.empty(n, k, kind))
    kinds, shapes = {offsets.dtype, vectors.padded.dtype}, (offsets.shape, vectors.padded.shape)
    if kinds != {kind} or shapes != ((n,), (n, table.padded.shape[1])):
        raise ValueError("start: an offset and a vector for each row are needed, of the type of the table")
    left = None if residuals is None else np.empty(len(values), kind)
    square = None if gram is None else table.square(gram)
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
    """Offset and vector of a row, in double precision: of all solutions, the one of least norm."""
    Z = np.column_stack([np.full(len(y), offset_penalty is not None), X]).astype(np.float64)
    A, b = Z.T @ Z, Z.T @ (y - X @ center)
    A[1:, 1:] += penalty
    A[0, 0] += offset_penalty or 0
    values, vectors = np.linalg.eigh(A)
    known = values > max(values[-1], 0) * len(A) * np.finfo(np.float64).eps * 8
    solution: Array = vectors[:, known] @ ((vectors[:, known].T @ b) / values[known]) + np.append(0, center)
    return solution


def item_step(
    indptr: Array,
    indices: Array,
    values: Array,
    table: Table,
    *,
    prior: Table,
    prior_count: float,
    penalty: Array,
    base: Array,
    folds: int,
    a: Array,
    bias_weight: float,
    clip: float,
    lift: float,
) -> tuple[Array, Array, Array]:
    """What users contribute to an item step of DPALS, in double precision, from regressions that leave out a fold.

    Entry p of a row is in fold p % folds. The vector z of a fold is fitted to the others: it minimizes
    |t - X z|^2 + (z - c)^T diag(penalty) (z - c), where t is the value minus the item's base, and c the mean of the
    priors of the items in the other folds and of `prior_count` zeros. The residual t - x . z of an entry is that of its
    own fold's vector. All penalties are positive.

    With A = (bias_weight, z without its first number) for the vector z of a fold, w_j = a_j scaled to length 1 over the
    row, and e_j the residual: x_j = w_j e_j |A| for the fold of each entry, scaled to the length `clip`, but by no more
    than `lift` (clip = 0: not at all); A / |A| (rows * folds, k); and A times the root of that scale times the sum of
    the fold's weights (rows, folds * k).
    """
    kind, n, k = table.padded.dtype, len(indptr) - 1, table.k
    x, directions, gram_rows = np.empty(len(values)), np.empty((n * folds, k)), np.empty((n, folds * k))
    struct = _ridge(indptr, indices, values, table, prior, base=base, prior_count=prior_count)
    numbers = float(bias_weight), float(clip), float(lift)
    _call("item_step", struct, _array(penalty, kind), folds, _array(a), *numbers, x, directions, gram_rows, dtype=kind)
    return x, directions, gram_rows


def solve(A: Array, b: Array) -> tuple[Array, Array]:
    """The solutions x of A[i] x = b[i], for positive definite A (n, k, k); and which A are not, to rounding."""
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
    """What is known of items, in double precision, before and after a step.

    The numbers theta of an item are observed with the noise of its ratings: phi = theta + noise. A step estimates phi
    to be at the mean plus its move, give or take fresh noise, and an error that is as large as the item's gap, the
    second moment of phi about the mean of theta, says. A covariance of noise is an item's size times a matrix (k, k).

    Args:
        before: Means (items, k) and covariances (items, k, k) of theta before any step.
        factors: Of the means, and of standard deviations: (k,) each.
        own: The sizes and the matrix of the ratings' own noise.
        earlier: Precisions (items, k, k) of phi, and information, which is precision times estimate (items, k).
        step: Moves (items, k); sizes and matrix of their noise; the means now; the gaps now, None before any step.
        error: Of moves, relative to the gaps.
        n_jobs: Threads, in scikit-learn's meaning.

    Returns:
        Precisions, information, gaps (items, k, k), means and covariances.
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
    """Add w u u^T, on and above the diagonal, and t u as last column, to total[item] (k + 1, k + 1) in int64.

    The users of an item are at indptr[item]:indptr[item + 1] of `users`, `targets` and `weights`, which by default are
    1; u is a row of `vectors`. All are integers, and every sum is below 2^53: so sums are exact, in any order.
    """
    struct, weights = _ridge(indptr, users, targets, Table.of(vectors, np.float64), None), _array(weights)
    if weights is not None and len(weights) != len(targets):
        raise ValueError(OUTSIDE)
    ends = _blocks(struct.fields["indptr"])
    if not _share("equations", np.float64, struct, ends, n_jobs, weights, _integers(total)):
        raise ValueError(OUTSIDE)


@dataclass(frozen=True)
class Panels:
    """Items' vectors as `top_n` takes them: (panels, k, items of a panel), with zeros behind the last item.

    An item's score is a sum over its own numbers, in order.
    """

    packed: Array
    n_items: int

    @classmethod
    def of(cls, vectors: Array) -> Panels:
        """Of vectors (items, k)."""
        (n, k), panel = vectors.shape, function("panel", vectors.dtype)()
        packed = aligned((-(-n // panel), k, panel), vectors.dtype)
        packed[:] = np.pad(vectors, ((0, -n % panel), (0, 0))).reshape(len(packed), panel, k).swapaxes(1, 2)
        return cls(packed, n)

    def widened(self, numbers: Array, fill: float = -np.inf) -> Array:
        """One number for each item, and `fill` in the places behind the last one."""
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

    Of equal scores the earlier item comes first. Items with a score of minus infinity are in no list.

    Args:
        panels: x_j.
        base: By item, `panels.widened`.
        vectors: z of each user.
        n: How many are wanted.
        has_history: Whether anything is known of a user; who has none gets the scores in `cold`.
        cold: By item, `panels.widened`.
        seen: The items that are left out, in CSR form (indptr, indices), ascending for each user; None: none is.
        variance: c, and the variances of base and of x_j: scores are less by c standard deviations.
        n_jobs: Threads, in scikit-learn's meaning.
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


# -- integers on a grid and their sums: each function has a twin in tests/privacy/twins.py


def _integers(total: Array) -> Array:
    if total.dtype != np.int64 or not total.flags.c_contiguous:
        raise ValueError("total: a contiguous array of int64 is needed, to which integers are added in place")
    return total


def _bound(step: float, limit: float, largest: int) -> Struct:
    return Struct(step=step, limit=limit, largest=largest)


def truncate(values: Array, indptr: Array, step: float, limit: float, largest: int) -> Array:
    """Ragged rows of float64 as integers, in units of `step`, of L2 norm at most `limit`; `largest` is its square."""
    out = np.empty(len(values), np.int64)
    function("truncate_rows")(_array(values), *_ends(indptr, values), _bound(step, limit, largest), out)
    return out


def rising(items: Array, indptr: Array, size: int, n_jobs: int | None = 1) -> bool:
    """Whether every row's items rise, from 0 on, and are below `size`."""
    try:
        rows = _rows(indptr, items, size)
    except ValueError:
        return False
    ends = _blocks(rows["indptr"]) if n_threads(n_jobs) > 1 else np.array([0, rows["n"]])
    return _share("rising_rows", None, Struct(**rows), ends, n_jobs)


def add_rows(
    total: Array,
    items: Array,
    indptr: Array,
    entries: Bounded,
    vectors: Bounded | None = None,
    *,
    least: float = -np.inf,
) -> None:
    """Add ragged rows, truncated, to the total of their items. Entries of less than `least` count as that.

    With vectors a, which are truncated too, x a^T is added for each entry x: entry p of a row has vector p modulo how
    many its row has.
    """
    (x, bound), (a, others) = entries, vectors or (None, entries[1])
    rows, given = _rows(indptr, items, len(total), x), (_array(x), least, _bound(*bound), _array(a))
    each, k = (0, 1) if a is None else (len(a) // max(rows["n"], 1), total.shape[1])
    _call("add_rows", Struct(**rows), *given, each, k, _bound(*others), _integers(total))


def add_squares(total: Array, rows: Array, bound: Bound) -> None:
    """Add x x^T, on and above the diagonal: each row has several vectors x, which are truncated together."""
    given, k = _array(rows), len(total)
    _call("add_squares", given, len(given), given.shape[1] // k, k, _bound(*bound), _integers(total))


def scatter_gram(items: Array, x: Array, indptr: Array, total: Array) -> None:
    """Add x x^T of each row, on and above the diagonal of a square matrix."""
    _call("scatter_gram", Struct(**_rows(indptr, items, len(total), x)), _array(x, np.int64), _integers(total))


def dense(items: Array, units: Array, indptr: Array, size: int) -> Array:
    """Rows (rows, size) of float64 with the integers of each row at its items, added up where an item is twice."""
    rows = _rows(indptr, items, size, units)
    out = np.zeros((rows["n"], size))
    _call("dense_rows", Struct(**rows), _array(units, np.int64), out)
    return out


def row_sums(entries: Array, indptr: Array) -> Array:
    """The sum of each row's entries, in their order."""
    out = np.empty(len(indptr) - 1)
    function("sum_rows")(_array(entries), *_ends(indptr, entries), out)
    return out


# -- parts of what users contribute


def scaled(values: Array, middle: float, unit: float, reach: float) -> Array:
    """(values - middle) / unit in double precision, no further from 0 than `reach`."""
    given, out = np.ascontiguousarray(values), np.empty(len(values))
    function("scale", given.dtype)(given, len(given), middle, unit, reach, out)
    return out


def unit_rows(
    indptr: Array,
    indices: Array,
    entries: Array | None = None,
    *,
    by_item: Array | None = None,
    by_fold: Array | None = None,
) -> Array:
    """Rows scaled to a length of 1, unless they are 0: of entries (by default 1), times numbers of items and of folds.

    If each row has f numbers in `by_fold`, entry p of it is in fold p % f.
    """
    size, out = ANY if by_item is None else len(by_item), np.empty(len(indices))
    rows = _rows(indptr, indices, size, entries)
    folds = 0 if by_fold is None else len(by_fold) // max(rows["n"], 1)
    _call("unit_rows", Struct(**rows), _array(entries), _array(by_item), _array(by_fold), folds, out)
    return out


def placed_rows(indptr: Array, indices: Array, entries: Array, place: Array) -> tuple[Array, Array, Array]:
    """Rows of the items that have a place (-1: none), which are numbered by it: where they end, items and entries."""
    rows, ends = _rows(indptr, indices, len(place), entries), np.empty(len(indptr), np.int64)
    kept, out = np.empty(len(indices), np.uint32), np.empty(len(indices))
    _call("placed_rows", Struct(**rows), _array(entries), _array(place, np.int64), kept, out, ends)
    return ends, kept[: ends[-1]], out[: ends[-1]]


def deviations(values: Array, indptr: Array, penalty: float, mean: float) -> Array:
    """Values' deviations from the mean of their row and of `penalty` numbers more, all `mean`."""
    out = np.empty(len(values))
    function("deviations")(_array(values), *_ends(indptr, values), float(penalty), float(mean), out)
    return out


def other_folds(indptr: Array, indices: Array, entries: Array, loadings: Array, *, folds: int) -> tuple[Array, Array]:
    """For each row and fold, the sum of entries times loadings over the other folds.

    As lengths, (rows * folds), and directions, (rows * folds, d); zeros have none. Entry p is in fold p % folds.
    """
    d, rows = loadings.shape[1], _rows(indptr, indices, len(loadings), entries)
    lengths, out = np.empty(rows["n"] * folds), np.empty((rows["n"] * folds, d))
    _call("other_folds", Struct(**rows), _array(entries), _array(loadings), d, folds, lengths, out)
    return lengths, out
