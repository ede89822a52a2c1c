"""Private arrays that know that they are private: what is read of them outside the private side is reported.

During an audit the arrays of a table are of this kind, and so is whatever is computed from them, by NumPy or by sparse
matrices of SciPy, up to the door. Turning one into a Python number, a truth value, a text or an attribute of the model
is reported with the line that did it, unless that line belongs to one of the functions of the private side, which work
on users' own rows (`PRIVATE_SIDE`). Where a mark is lost all the same, that is told, too (`Watch.lost`): what passes
there is for the replay to notice.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.audit.findings import Finding
from discreet.audit.patching import patched
from discreet.audit.recording import record
from discreet.audit.replaying import FIT, settings
from discreet.audit.subjects import Subject
from discreet.data.interactions import Interactions
from discreet.privacy import GridArray, Ledger
from discreet.privacy.batch import UserBatch

TAINT = "taint"

# Functions that may look at private numbers one by one. They cut tables into parts, sort rows by length, choose among a
# user's own items, or refuse tables that nobody could have read, with the same words for all.
PRIVATE_SIDE = {
    "discreet.data.interactions:__post_init__",
    "discreet.engine.batches:parts",
    "discreet.models.private:require_sound",
    "discreet.models.als.sampling:_first",
    "discreet.models.als.sampling:priorities",
    "discreet.models.als.sampling:rows",
    "discreet.models.one_bit.contributions:two_valued",
    "discreet.models.one_bit.contributions:_primal",  # of a solver, whose result gets noise
    "discreet.linalg.rows:blocks",
    "discreet.linalg.arrays:places",
    "discreet.linalg.folds:of",
    "discreet.privacy.lattice:truncate",
    "discreet.privacy.lattice:_row_sums",
    "discreet.privacy.statistics:countable",
    "discreet.privacy.statistics:encode",
    "discreet.privacy.statistics:_in_cone",
    "discreet.privacy.statistics:_weights",
    "discreet.privacy.sums:normal_equations",
    "discreet.evaluate.collect:rows",
    "discreet.recommend.histories:_table",
    "discreet.recommend.serving:_predictions",
}
# Functions that are given users' rows, and make arrays for what was released of them.
OF_RELEASES = {"discreet.models.als.published_steps:noisy_svd_start"}

BETWEEN = ("numpy", "scipy", "contextlib", "dataclasses")  # whose lines are not those that are looked for
CONVERSIONS = ("asarray", "array", "ascontiguousarray", "asanyarray")
ALLOCATIONS = ("zeros", "empty", "ones", "full")
# Of sparse matrices: what gives private numbers if the matrix, or what it is multiplied with, is private.
SPARSE = ("tocsr", "tocsc", "tocoo", "toarray", "todense", "sum", "dot", "multiply", "transpose", "power", "diagonal")
SINKS = ("__float__", "__int__", "__index__", "__bool__", "__complex__", "__str__", "__repr__", "__format__")


class Private(np.ndarray[Any, Any]):
    """An array of private numbers."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **given: Any) -> Any:
        """Compute on plain arrays; what comes out is private, too."""
        into = given.get("out")
        if into is not None:
            given["out"] = tuple(_plain(one) for one in into)
            if not all(isinstance(one, Private) for one in into) and inputs[0] is not into[0]:
                _lose(f"{ufunc.__name__} into an array that is not marked")
        return _private(getattr(ufunc, method)(*(_plain(one) for one in inputs), **given))

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Likewise for functions of arrays."""
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
    return type(value)(_private(part) for part in value) if type(value) in (tuple, list) else value


def _holds(value: Any) -> bool:
    """Whether there is a private array in it."""
    return isinstance(value, Private) or (isinstance(value, tuple | list) and any(map(_holds, value)))


def _sink(name: str) -> Callable[..., Any]:
    """A conversion that is reported."""

    def convert(self: Private, *given: Any) -> Any:
        _report(name)
        return getattr(_plain(self), name)(*given)

    return convert


for _name in (*SINKS, "item", "tolist"):
    setattr(Private, _name, _sink(_name))


@dataclass
class Watch:
    """What was seen.

    Attributes:
        allowed: Functions of the private side.
        read: Lines outside it that looked at private numbers.
        lost: Functions in which a mark was lost, and how.
    """

    allowed: set[str]
    read: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)


_watches: list[Watch] = []


def _line() -> tuple[str, str, int]:
    """The module, function and line, of the library or of a model's own code, that is running."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        name = frame.f_globals.get("__name__", "")
        if name != __name__ and name.split(".")[0] not in BETWEEN:
            break
        frame = frame.f_back
    return frame.f_globals.get("__name__", ""), frame.f_code.co_name, frame.f_lineno


def _report(what: str) -> None:
    module, function, line = _line()
    if _watches and f"{module}:{function}" not in _watches[-1].allowed:
        _watches[-1].read.append(f"{module}, line {line}, in {function} ({what.strip('_')})")


def _lose(how: str) -> None:
    module, function, _ = _line()
    if _watches:
        _watches[-1].lost.append(f"{module}, in {function}: {how}")


# What keeps the mark


def _ours(depth: int = 2) -> Any:
    """The frame that called, if it is not NumPy's or SciPy's own."""
    frame = sys._getframe(depth)
    return frame if frame.f_globals.get("__name__", "").split(".")[0] not in BETWEEN else None


def _converting(real: Any) -> Any:
    """np.asarray and the like, which would give plain arrays."""

    def convert(*args: Any, **kwargs: Any) -> Any:
        if _holds(args) and _ours():
            return _private(real(*_plain(args), **_plain(kwargs)))
        return real(*args, **kwargs)

    return convert


def _allocating(real: Any) -> Any:
    """np.zeros and the like: what is made by a function that is given users' rows is there to take them up."""

    def allocate(*args: Any, **kwargs: Any) -> Any:
        made, frame = real(*_plain(args), **_plain(kwargs)), _ours()
        if frame is None or f"{frame.f_globals['__name__']}:{frame.f_code.co_name}" in OF_RELEASES:
            return made
        code = frame.f_code
        given = (frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
        return _private(made) if any(isinstance(one, Private | UserBatch) for one in given) else made

    return allocate


def _sparse(stack: ExitStack) -> None:
    """Sparse matrices of private numbers, and what is computed from them."""
    from scipy.sparse import coo_array, csc_array, csr_array

    kinds = (coo_array, csc_array, csr_array)

    def marked(value: Any) -> bool:
        return _holds(value) or (isinstance(value, kinds) and isinstance(value.data, Private))

    def mark(value: Any) -> Any:
        if isinstance(value, kinds):
            value.data = _private(value.data)
            return value
        return _private(value)

    def plain(value: Any) -> Any:
        return value._with_data(_plain(value.data), copy=False) if isinstance(value, kinds) else _plain(value)

    def made(real: Any) -> Any:
        def init(self: Any, arg: Any, *args: Any, **kwargs: Any) -> None:
            real(self, _plain(arg), *args, **_plain(kwargs))
            if marked(arg):
                self.data = _private(self.data)
                if _ours():
                    _lose("the index arrays of a sparse matrix")

        return init

    def computed(real: Any) -> Any:
        def compute(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not (marked(self) or any(map(marked, args))):
                return real(self, *args, **kwargs)
            return mark(real(plain(self), *map(plain, args), **kwargs))

        return compute

    for kind in kinds:
        names = [name for name in (*SPARSE, "__matmul__", "__rmatmul__") if hasattr(kind, name)]
        changes = {name: computed(getattr(kind, name)) for name in names}
        stack.enter_context(patched(kind, __init__=made(kind.__init__), **changes))


def _declassified(real: Any) -> Any:
    """What the door answers is public."""

    def release(self: Ledger, statistic: Any, *given: Any, **options: Any) -> Any:
        on_grid = GridArray.of(statistic)
        return _plain(real(self, GridArray(_plain(on_grid.values), on_grid.grid), *given, **options))

    return release


@contextmanager
def watching(allow: set[str]) -> Iterator[Watch]:
    """Collect what is reported."""
    watch = Watch(PRIVATE_SIDE | allow)
    with ExitStack() as stack:
        stack.enter_context(patched(np, **{name: _converting(getattr(np, name)) for name in CONVERSIONS}))
        stack.enter_context(patched(np, **{name: _allocating(getattr(np, name)) for name in ALLOCATIONS}))
        stack.enter_context(patched(Ledger, _release=_declassified(Ledger._release)))
        _sparse(stack)
        _watches.append(watch)
        stack.callback(_watches.pop)
        yield watch


def tainted(table: Interactions, *, values_only: bool = False) -> Interactions:
    """The same table, whose arrays are private; or only its values, where it is public who has rated what."""
    names = ("values",) if values_only else ("indptr", "indices", "values")
    arrays: dict[str, NDArray[Any]] = {name: getattr(table, name).view(Private) for name in names}
    return replace(table, **arrays)  # type: ignore[arg-type]


def taint(subject: Subject, data: Any, *, allow: set[str] | None = None) -> list[Finding]:
    """Fit on private arrays, and report every line outside the private side that looked at one.

    Args:
        subject: What to audit.
        data: Interactions.
        allow: More functions of the private side, as "module:function".
    """
    if not isinstance(data, Interactions):
        return []
    book = settings(subject.make())
    table = tainted(data, values_only=book["adjacency"] == "flip")
    with watching(allow or set()) as seen:
        fitted = record(lambda ledger: subject.fit(subject.make(), table, ledger), **book)
    if fitted.error is not None:
        return [Finding(FIT, False, f"the fit fails on private arrays: {fitted.error!r}")]
    kept = [name for name, value in vars(fitted.model).items() if isinstance(value, Private)]
    read = list(dict.fromkeys(seen.read))
    words = [*(f"private numbers are read by {line}" for line in read), *(f"{name} is private" for name in kept)]
    lost = list(dict.fromkeys(seen.lost))
    if words:
        return [Finding(TAINT, False, one, {"lost": lost}) for one in words]
    said = "no line outside the private side looks at a private number"
    return [Finding(TAINT, True, said, {"lost": lost})]
