"""Private arrays that know that they are private: what is read of them outside the private side is reported.

During an audit the arrays of a table are of this kind, and so is whatever is computed from them. Turning one into a
Python number, a truth value, a text or an attribute of the model is reported with the line that did it, unless that
line belongs to the private side, whose functions work on users' own rows (`PRIVATE_SIDE`). SciPy, and conversions to
plain arrays, lose the mark: what they let through is for the replay to notice.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.audit.findings import Finding
from discreet.audit.recording import record
from discreet.audit.replaying import FIT, settings
from discreet.data.interactions import Interactions

TAINT = "taint"

# Functions, or whole modules, that may look at private numbers one by one. They cut tables into parts, sort rows by
# length, choose among a user's own items, or refuse tables that nobody could have read, with the same words for all.
PRIVATE_SIDE = {
    "discreet.data.interactions:__post_init__",
    "discreet.completion.private:parts",
    "discreet.completion.private:require_sound",
    "discreet.completion.als.sampling:_first",
    "discreet.completion.als.sampling:priorities",
    "discreet.completion.one_bit.mechanisms:two_valued",
    "discreet.completion.one_bit.certified",  # a solver, whose result gets noise
    "discreet.linalg.rows",
    "discreet.linalg.folds",
}


class Private(np.ndarray[Any, Any]):
    """An array of private numbers."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **given: Any) -> Any:
        """Compute on plain arrays; what comes out is private, too."""
        if given.get("out") is not None:
            into = given["out"]
            given["out"] = tuple(_plain(one) for one in into)
            getattr(ufunc, method)(*(_plain(one) for one in inputs), **given)
            return into[0] if len(into) == 1 else into
        return _private(getattr(ufunc, method)(*(_plain(one) for one in inputs), **given))

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Likewise for functions of arrays."""
        return _private(func(*_plain(args), **_plain(kwargs)))

    def __getitem__(self, key: Any) -> Any:
        return _private(_plain(self)[_plain(key)])

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


def _sink(name: str) -> Callable[..., Any]:
    """A conversion that is reported."""

    def convert(self: Private, *given: Any) -> Any:
        _report(name)
        return getattr(_plain(self), name)(*given)

    return convert


SINKS = ("__float__", "__int__", "__index__", "__bool__", "__complex__", "__str__", "__repr__", "__format__")
for _name in (*SINKS, "item", "tolist"):
    setattr(Private, _name, _sink(_name))

_seen: list[str] = []
_allowed: set[str] = set()


def _report(what: str) -> None:
    """Note the innermost line of the library, or of a model's own code, that did it."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("numpy", "contextlib"):
        frame = frame.f_back
    module, function = frame.f_globals.get("__name__", ""), frame.f_code.co_name
    if not _allowed & {module, f"{module}:{function}"}:
        _seen.append(f"{module}, line {frame.f_lineno}, in {function} ({what.strip('_')})")


@contextmanager
def watching(allow: set[str]) -> Iterator[list[str]]:
    """Collect what is reported."""
    _seen.clear()
    _allowed.clear()
    _allowed.update(PRIVATE_SIDE | allow)
    yield _seen


def tainted(table: Interactions, *, values_only: bool = False) -> Interactions:
    """The same table, whose arrays are private; or only its values, where it is public who has rated what."""
    names = ("values",) if values_only else ("indptr", "indices", "values")
    arrays: dict[str, NDArray[Any]] = {name: getattr(table, name).view(Private) for name in names}
    return replace(table, **arrays)  # type: ignore[arg-type]


def taint(make: Callable[[], Any], data: Any, *, allow: set[str] | None = None) -> list[Finding]:
    """Fit on private arrays, and report every line outside the private side that looked at one.

    Args:
        make: Makes the model.
        data: Interactions.
        allow: More functions of the private side, as "module:function".
    """
    if not isinstance(data, Interactions):
        return []
    book = settings(make())
    table = tainted(data, values_only=book["adjacency"] == "flip")
    with watching(allow or set()) as seen:
        fitted = record(lambda ledger: make().fit(table, ledger=ledger), **book)
    found = list(dict.fromkeys(seen))
    if fitted.error is not None:
        return [Finding(FIT, False, f"the fit fails on private arrays: {fitted.error!r}")]
    kept = [name for name, value in vars(fitted.model).items() if isinstance(value, Private)]
    words = [*(f"private numbers are read by {line}" for line in found), *(f"{name} is private" for name in kept)]
    if words:
        return [Finding(TAINT, False, one) for one in words]
    return [Finding(TAINT, True, "no line outside the private side looks at a private number")]
