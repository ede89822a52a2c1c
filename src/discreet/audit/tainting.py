"""Arrays that are marked as private: reading them outside the private side is reported.

During an audit the arrays of a table are marked, and so is everything that NumPy or SciPy's sparse matrices compute
from them, up to a release. Turning one into a Python number, a truth value, a string or an attribute of the model is
reported with its line, unless the line belongs to a function of the private side, which works on users' own rows
(`PRIVATE_SIDE`). Where a mark is lost, that is reported too (`Watch.lost`): from there on only the replay sees a leak.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial, partialmethod
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csc_array, csr_array

from discreet import kernels
from discreet.audit.replaying import FIT, fitted
from discreet.audit.report import Finding
from discreet.audit.subjects import Subject
from discreet.data.interactions import Interactions
from discreet.kernels import Table
from discreet.privacy import GridArray, Ledger
from discreet.privacy.statistics import UserBatch

TAINT = "taint"
Function = Callable[..., Any]

# Functions that may read single private numbers. They cut tables into batches, sort rows by length, choose among a
# user's own items, or refuse tables that no reader makes, always with the same message.
PRIVATE_SIDE = {
    "discreet.data.interactions:__post_init__",
    "discreet.data.interactions:ranks",
    "discreet.engine.batches:cuts",
    "discreet.engine.batches:rows_of",
    "discreet.engine.batches:require_sound_rows",
    "discreet.engine.batches:in_range",
    "discreet.engine.batches:priorities",
    "discreet.models.one_bit.contributions:two_valued",
    "discreet.models.one_bit.contributions:_primal",  # of a solver, whose result gets noise
    "discreet.privacy.statistics:truncate",
    "discreet.privacy.statistics:row_ends",
    "discreet.privacy.statistics:countable",
    "discreet.privacy.statistics:encode",
    "discreet.privacy.statistics:_weights",
    "discreet.privacy.statistics:_first_k",
    "discreet.privacy.statistics:normal_equations",
    "discreet.evaluate.metrics:rows",
    "discreet.evaluate.metrics:_rankings",
    "discreet.recommend.histories:_table",
    "discreet.recommend.serving:predictions",
}
# Functions that are given users' rows, and allocate arrays for released values.
OF_RELEASES = {"discreet.models.als.published_training:noisy_svd_start"}

BETWEEN = ("numpy", "scipy", "contextlib", "dataclasses")  # not reported themselves; their callers are
CONVERSIONS = ("asarray", "array", "ascontiguousarray", "asanyarray")
ALLOCATIONS = ("zeros", "empty", "ones", "full")
KERNELS = (*("ridge", "normal_equations", "solve", "placed_rows", "truncate", "rising", "add_up", "row_sums", "top_n"),)
SPARSE_KINDS = (coo_array, csc_array, csr_array)
# Methods of sparse matrices whose result is private if the matrix or an argument is
SPARSE = (
    *("tocsr", "tocsc", "tocoo", "toarray", "todense", "sum", "dot", "multiply", "transpose", "power", "diagonal"),
    *("__matmul__", "__rmatmul__"),
)
SINKS = (
    *("__float__", "__int__", "__index__", "__bool__", "__complex__", "__str__", "__repr__", "__format__"),
    *("item", "tolist"),
)


class Private(np.ndarray[Any, Any]):
    """An array of private numbers."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **given: Any) -> Any:
        """Compute on plain arrays; the result is private."""
        into = given.get("out")
        if into is not None:
            given["out"] = tuple(_plain(one) for one in into)
            if not all(isinstance(one, Private) for one in into) and inputs[0] is not into[0]:
                _lose(f"{ufunc.__name__} into an array that is not marked")
        return _private(getattr(ufunc, method)(*(_plain(one) for one in inputs), **given))

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """The same for functions of arrays."""
        return _private(func(*_plain(args), **_plain(kwargs)))

    def __getitem__(self, key: Any) -> Any:
        return _private(_plain(self)[_plain(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        _plain(self)[_plain(key)] = _plain(value)

    def __iter__(self) -> Iterator[Any]:
        return (self[at] for at in range(len(self)))


def _plain(value: Any) -> Any:
    if isinstance(value, Private):
        return value.view(np.ndarray)
    if isinstance(value, slice):
        return slice(*(None if end is None else int(_plain(end)) for end in (value.start, value.stop, value.step)))
    if isinstance(value, tuple | list):
        return type(value)(_plain(part) for part in value)
    return {key: _plain(part) for key, part in value.items()} if isinstance(value, dict) else value


def _private(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value).view(Private)
    if isinstance(value, Table):
        return replace(value, padded=_private(value.padded))
    return type(value)(_private(part) for part in value) if type(value) in (tuple, list) else value


def _holds(value: Any) -> bool:
    """Whether it contains a private array."""
    return isinstance(value, Private) or (isinstance(value, tuple | list) and any(map(_holds, value)))


def _sink(array: Private, name: str, *given: Any) -> Any:
    """A conversion that reports its caller."""
    if _watches and _where() not in _watches[-1].allowed:
        _watches[-1].read.append(f"{_where(line=True)} ({name.strip('_')})")
    return getattr(_plain(array), name)(*given)


for _name in SINKS:
    setattr(Private, _name, partialmethod(_sink, _name))


@dataclass
class Watch:
    """What was observed."""

    allowed: set[str]  # functions of the private side
    read: list[str] = field(default_factory=list)  # lines outside it that read private numbers
    lost: list[str] = field(default_factory=list)  # functions in which a mark was lost, and how


_watches: list[Watch] = []


def _between(frame: Any) -> bool:
    return frame.f_globals.get("__name__", "").split(".")[0] in BETWEEN


def _where(*, line: bool = False) -> str:
    """The running function of the library or of a model, as "module:function"; or with its line, for people."""
    frame = sys._getframe(1)
    while frame.f_back is not None and (frame.f_globals.get("__name__") == __name__ or _between(frame)):
        frame = frame.f_back
    module, function = frame.f_globals.get("__name__", ""), frame.f_code.co_name
    return f"{module}, line {frame.f_lineno}, in {function}" if line else f"{module}:{function}"


def _lose(how: str) -> None:
    if _watches:
        module, function = _where().split(":")
        _watches[-1].lost.append(f"{module}, in {function}: {how}")


# Replacements that keep the mark: of functions, called with the real one and the arguments, and of methods, called with
# the object, the real method and the arguments


def _convert(real: Function, *args: Any, **kwargs: Any) -> Any:
    """np.asarray and others, which would return plain arrays."""
    if _holds(args) and not _between(sys._getframe(1)):
        return _private(real(*_plain(args), **_plain(kwargs)))
    return real(*args, **kwargs)


def _allocate(real: Function, *args: Any, **kwargs: Any) -> Any:
    """np.zeros and others: an array allocated by a function that is given users' rows is meant to hold them."""
    made, frame = real(*_plain(args), **_plain(kwargs)), sys._getframe(1)
    code = frame.f_code
    if _between(frame) or f"{frame.f_globals['__name__']}:{code.co_name}" in OF_RELEASES:
        return made
    given = (frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    return _private(made) if any(isinstance(one, Private | UserBatch) for one in given) else made


def _compiled(real: Function, *args: Any, **kwargs: Any) -> Any:
    """A kernel, which sees memory and no marks: its results are private if an argument is."""
    private = _holds([*args, *kwargs.values()])
    return _private(real(*_plain(args), **_plain(kwargs))) if private else real(*args, **kwargs)


def _shared(rows: Any, real: Function, *arrays: Any) -> None:
    """Rows that only compiled functions read."""
    real(rows, *_plain(arrays))


def _of_rows(function: Any, real: Function, batch: Any) -> Any:
    """What rows contribute, as arrays."""
    arrays = batch.indptr, batch.indices, batch.values
    found = real(function, UserBatch(*_plain(arrays)))
    return _private(found) if _holds(arrays) else found


def _declassified(ledger: Ledger, real: Function, statistic: Any, *given: Any, **options: Any) -> Any:
    """The result of a release is public."""
    on_grid = GridArray.of(statistic)
    return _plain(real(ledger, GridArray(_plain(on_grid.values), on_grid.grid), *given, **options))


def _sparse_init(matrix: Any, real: Function, arg: Any, *args: Any, **kwargs: Any) -> None:
    real(matrix, _plain(arg), *args, **_plain(kwargs))
    if _marked(arg):
        matrix.data = _private(matrix.data)
        if not _between(sys._getframe(1)):
            _lose("the index arrays of a sparse matrix")


def _sparse_method(matrix: Any, real: Function, *args: Any, **kwargs: Any) -> Any:
    if not (_marked(matrix) or any(map(_marked, args))):
        return real(matrix, *args, **kwargs)
    made = real(_unmarked(matrix), *map(_unmarked, args), **kwargs)
    if not isinstance(made, SPARSE_KINDS):
        return _private(made)
    made.data = _private(made.data)
    return made


def _marked(value: Any) -> bool:
    return _holds(value) or (isinstance(value, SPARSE_KINDS) and isinstance(value.data, Private))


def _unmarked(value: Any) -> Any:
    return value._with_data(_plain(value.data), copy=False) if isinstance(value, SPARSE_KINDS) else _plain(value)


@contextmanager
def watching(allow: set[str]) -> Iterator[Watch]:
    """Collect what is reported."""
    watch = Watch(PRIVATE_SIDE | allow)
    with ExitStack() as stack:

        def put(owner: Any, replacement: Function, *names: str) -> None:
            bind: Function = partialmethod if isinstance(owner, type) else partial
            changes: dict[str, Any] = {name: bind(replacement, getattr(owner, name)) for name in names}
            stack.enter_context(patch.multiple(owner, **changes))

        put(np, _convert, *CONVERSIONS)
        put(np, _allocate, *ALLOCATIONS)
        put(kernels, _compiled, *KERNELS)
        put(kernels.SharedRows, _shared, "__init__")
        put(kernels.RowFunction, _of_rows, "__call__")
        put(Ledger, _declassified, "_release")
        for kind in SPARSE_KINDS:
            put(kind, _sparse_init, "__init__")
            put(kind, _sparse_method, *(name for name in SPARSE if hasattr(kind, name)))
        _watches.append(watch)
        stack.callback(_watches.pop)
        yield watch


def tainted(table: Interactions, *, values_only: bool = False) -> Interactions:
    """The same table with private arrays. With `values_only`, it is public which items each person has rated."""
    names = ("values",) if values_only else ("indptr", "indices", "values")
    arrays: dict[str, NDArray[Any]] = {name: getattr(table, name).view(Private) for name in names}
    return replace(table, **arrays)  # type: ignore[arg-type]


def taint(subject: Subject, data: Any, *, allow: set[str] | None = None) -> list[Finding]:
    """Fit on private arrays, and report every line outside the private side that reads one.

    `allow` adds functions to the private side, as "module:function".
    """
    if not isinstance(data, Interactions):
        return []
    table = tainted(data, values_only=subject.make().adjacency == "flip")
    with watching(allow or set()) as seen:
        fit = fitted(subject.make, table, subject.fit)
    if fit.error is not None:
        return [Finding(FIT, False, f"the fit fails on private arrays: {fit.error!r}")]
    words = [f"private numbers are read by {line}" for line in dict.fromkeys(seen.read)]
    words += [f"{name} is private" for name, value in vars(fit.model).items() if isinstance(value, Private)]
    passed = "no line outside the private side reads a private number"
    figures = {"lost": list(dict.fromkeys(seen.lost))}
    return [Finding(TAINT, not words, one, figures) for one in words or [passed]]
