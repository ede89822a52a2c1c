"""Reads a caller's history into a table over the model's own items."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.data.catalogue import Catalogue, Ids, cannot_be_compared, smallest_unsigned
from discreet.data.cells import any_integers, to_array
from discreet.data.interactions import Interactions
from discreet.data.readers import read
from discreet.data.sources import GUESS, guess
from discreet.errors import DataError, UnknownItem
from discreet.typing import Array

OnUnknown = Literal["raise", "warn", "ignore"]
POLICIES = ("raise", "warn", "ignore")
ONE = Ids(np.zeros(1, np.int64))
SHORT = 256  # up to this length, it is faster to look up the ids of an array one by one


@dataclass(frozen=True)
class Reader:
    """Reads histories for one model."""

    catalogue: Catalogue  # the model's items
    value_range: tuple[float, float]  # of the ratings that the model was trained on
    implicit: bool  # whether the model knows no ratings, so that every item in a history counts 1
    on_unknown: OnUnknown = "raise"  # for items that the model does not know; "warn" and "ignore" leave them out

    def __post_init__(self) -> None:
        if self.on_unknown not in POLICIES:
            raise DataError(f"on_unknown: one of {', '.join(POLICIES)} is needed, not {self.on_unknown!r}")

    def read(self, history: Any) -> tuple[Interactions, bool]:
        """The history or histories, and whether it is a single one.

        One history is a mapping {item: rating}, a pandas Series of ratings by item, a list of items (which count as
        liked: they get the highest rating), or a data frame without a column of users. Many are Interactions, a data
        frame with a column of users, or a list of mappings (whose users are 0, 1, 2, ...).
        """
        if isinstance(history, Interactions):
            return self._moved(history), False
        if is_frame(history):
            return self._frame(history)
        if hasattr(history, "index") and hasattr(history, "to_dict"):
            return self._rows(ONE, [(history.index.tolist(), history.tolist())]), True
        if isinstance(history, Mapping):
            return self._rows(ONE, [_pair(history)]), True
        if isinstance(history, str | bytes) or not isinstance(history, Iterable) or getattr(history, "ndim", 1) != 1:
            raise DataError(
                f"history: one of type {type(history).__name__} cannot be read; give {{item: rating}}, a list of "
                "items, a data frame, or Interactions for many users"
            )
        items: Any = history if hasattr(history, "__array__") else list(history)
        if len(items) and isinstance(items[0], Mapping):
            return self._rows(Ids(range(len(items))), map(_pair, items)), False
        return self._rows(ONE, [(items, None)]), True

    def _rows(self, users: Ids, rows: Iterable[tuple[Any, list[Any] | None]]) -> Interactions:
        """A table from the items and ratings (None: liked) of each user."""
        found = [(np.zeros(0, np.int64), np.zeros(0, np.float32))]
        found += [self._row(items, ratings) for items, ratings in rows]
        numbers, values = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
        return self._table(users, np.cumsum([len(row) for row, _ in found]), numbers, values)

    def _row(self, items: Any, ratings: list[Any] | None) -> tuple[Array, Array]:
        numbers = self.known(items, "history")
        values = np.full(len(numbers), self.value_range[1]) if ratings is None else _as_floats(ratings)
        kept = numbers >= 0
        numbers, first = np.unique(numbers[kept], return_index=True)
        return numbers, values[kept][first].astype(np.float32)

    def _frame(self, history: Any) -> tuple[Interactions, bool]:
        """Read like any table, so that types, repeated and missing values are handled in the same way."""
        import narwhals as nw
        import pyarrow as pa

        try:
            frame = nw.from_native(pa.table(history) if isinstance(history, pa.RecordBatch) else history)
        except TypeError:
            raise DataError(f"history: a {type(history).__name__} is not a data frame that can be read") from None
        table = frame.collect("pyarrow") if isinstance(frame, nw.LazyFrame) else frame
        names = [str(name) for name in table.columns]
        user, item = guess("user", names), guess("item", names)
        if item is None:
            raise DataError(f"history: none of its columns {names} looks like the item; name one of them 'item'")
        if not len(table):
            users = ONE if user is None else Ids(table[user].to_arrow(), "history")
            return self._rows(users, [([], None)] if user is None else []), user is None
        whole = table.with_columns(nw.lit(0).alias("user")) if user is None else table
        try:
            ratings = read(nw.to_native(whole), user="user" if user is None else GUESS)
        except DataError as error:
            raise DataError(f"history: {str(error).removeprefix('source: ')}") from None
        return self._moved(ratings), user is None

    def _moved(self, ratings: Interactions) -> Interactions:
        """Interactions over the model's items. `on_unknown` decides about unknown items."""
        indices, values = ratings.indices, ratings.values
        if ratings.catalogue is not self.catalogue and ratings.items != self.catalogue.ids:
            numbers = self._numbers(ratings.items.to_arrow(), "history")
            unknown = numbers[indices] < 0
            if unknown.any():
                self._tell(ratings.items.take(np.unique(indices[unknown])[:3]).to_pylist(), "history")
                ratings = ratings.where(~unknown)
            moved = numbers[ratings.indices]
            order = np.lexsort((moved, ratings.user_numbers()))
            indices, values = moved[order], ratings.values[order]
        if ratings.implicit:
            values = np.full(len(values), self.value_range[1], np.float32)
        return self._table(ratings.users, ratings.indptr, indices, values)

    def _table(self, users: Ids, indptr: Array, indices: Array, values: Array) -> Interactions:
        low, high = self.value_range
        if self.implicit:
            values = np.ones(len(values), np.float32)
        elif len(values) and not (values.min() >= np.float32(low) and values.max() <= np.float32(high)):
            raise DataError(f"history: there are ratings outside the model's range, {low:g} to {high:g}; correct them")
        return Interactions(
            users=users,
            catalogue=self.catalogue,
            indptr=indptr.astype(np.int64, copy=False),
            indices=indices.astype(smallest_unsigned(len(self.catalogue)), copy=False),
            values=values,
            value_range=self.value_range,
            implicit=self.implicit,
        )

    def known(self, items: Any, argument: str) -> NDArray[np.int64]:
        """The numbers of some items; -1 for unknown ones, unless `on_unknown` is "raise"."""
        if isinstance(items, str | bytes) or not isinstance(items, Iterable):
            raise DataError(f"{argument}: a list of items is needed, not {items!r}")
        keys = to_array(items, argument) if hasattr(items, "__array__") else list(items)
        if len(keys) <= SHORT and not isinstance(keys, list):
            keys = keys.to_pylist()
        numbers = (self._looked_up if isinstance(keys, list) else self._numbers)(keys, argument)
        unknown = np.flatnonzero(numbers < 0)[:3]
        if len(unknown):
            self._tell([keys[int(at)] for at in unknown], argument)
        return numbers

    def _looked_up(self, keys: list[Any], argument: str) -> NDArray[np.int64]:
        """Look up keys one by one, which for few keys is much faster than hashing the catalog."""
        ids = self.catalogue.ids
        try:
            numbers = np.array([ids.number(key) if key in ids else -1 for key in keys], np.int64)
        except TypeError:  # not even hashable
            return self._numbers(keys, argument)
        unknown = np.flatnonzero(numbers < 0)
        kind = type(ids[0])
        if any(type(keys[at]) is not kind for at in unknown):  # perhaps the same id in another type
            numbers[unknown] = self._numbers([keys[at] for at in unknown], argument)
        return numbers

    def _numbers(self, ids: Any, argument: str) -> NDArray[np.int64]:
        """The numbers of ids, converted to the model's type (7 to "7"); raises if the types have no id in common.

        If unknown ids are left out, only types and the catalog decide whether this raises. Otherwise a person without a
        known item would get an error or not depending on the other items in the same call.
        """
        import pyarrow as pa

        asked, own = to_array(ids, argument), self.catalogue.ids.to_arrow()
        numbers = self.catalogue.ids.numbers(asked, argument)
        whole, other = pa.types.is_integer(asked.type), pa.types.is_integer(own.type)
        none = len(numbers) and whole != other and (numbers < 0).all()
        if none and (self.on_unknown == "raise" or (whole and not any_integers(own))):
            raise cannot_be_compared(own.type, asked.type, argument)
        return numbers

    def _tell(self, items: Sequence[Any], argument: str) -> None:
        shown = ", ".join(repr(item.as_py() if hasattr(item, "as_py") else item) for item in items)
        if self.on_unknown == "raise":
            advice = "give one of the model's items_"
            if argument != "item":
                advice = "leave such items out, or pass on_unknown='ignore' to have them left out"
            ids = self.catalogue.ids
            raise UnknownItem(f"{argument}: the model does not know {shown}; {advice} (its ids are like {ids[0]!r})")
        self.warn(f"{argument}: left out items that the model does not know, {shown}")

    def warn(self, message: str) -> None:
        """Warn the caller, if they asked for warnings, at the line that called the library."""
        if self.on_unknown != "warn":
            return
        level, frame = 1, sys._getframe()
        while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "discreet":
            level, frame = level + 1, frame.f_back
        warnings.warn(message, stacklevel=level)


def is_frame(thing: Any) -> bool:
    """Whether this is a table with named columns. Looks at the type, because listing a query's columns may be slow."""
    return hasattr(type(thing), "columns") or hasattr(type(thing), "column_names")


def _pair(history: Any) -> tuple[list[Any], list[Any]]:
    if not isinstance(history, Mapping):
        raise DataError(f"history: a list of histories must hold mappings {{item: rating}} only, not {history!r}")
    return list(history), list(history.values())


def _as_floats(ratings: list[Any]) -> NDArray[np.float64]:
    for rating in ratings:
        if isinstance(rating, bool | np.bool_ | str | bytes) or not hasattr(rating, "__float__"):
            raise DataError(
                f"history: ratings must be numbers, not {type(rating).__name__}; for items without ratings, give a list"
            )
    try:
        values = np.array([float(rating) for rating in ratings], np.float64)
    except (OverflowError, TypeError, ValueError):
        values = np.array([np.nan])
    if not (np.abs(values) <= np.finfo(np.float32).max).all():
        raise DataError("history: ratings must be finite numbers; leave out items without a rating")
    return values
