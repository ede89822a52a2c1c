"""What a caller gives as a history, made into a table over the model's own items."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.data.catalogue import Catalogue
from discreet.data.columns import guess
from discreet.data.ids import Ids, smallest_unsigned
from discreet.data.interactions import Interactions
from discreet.data.readers import read
from discreet.errors import DataError, UnknownItem

Array = NDArray[Any]
OnUnknown = Literal["raise", "warn", "ignore"]
POLICIES = ("raise", "warn", "ignore")
ONE = Ids([0])


@dataclass(frozen=True)
class Reader:
    """Reads histories for one model.

    Attributes:
        catalogue: The model's items.
        value_range: Of the ratings that the model was trained on.
        implicit: Whether the model knows of no ratings, so that every item in a history counts 1.
        on_unknown: What becomes of items that the model does not know: "raise", "warn" or "ignore" (leave them out).
    """

    catalogue: Catalogue
    value_range: tuple[float, float]
    implicit: bool
    on_unknown: OnUnknown = "raise"

    def __post_init__(self) -> None:
        if self.on_unknown not in POLICIES:
            raise DataError(f"on_unknown: one of {', '.join(POLICIES)} is needed, not {self.on_unknown!r}")

    def read(self, history: Any) -> tuple[Interactions, bool]:
        """The history or histories, and whether there is only one.

        One history is a mapping {item: rating}, a list of items (which then count as liked: they get the highest
        rating there is), or a data frame without a column of users. Many are Interactions, a data frame with a
        column of users, or a list of mappings, whose users are then 0, 1, 2, ...
        """
        if isinstance(history, Interactions):
            return self._moved(history), False
        if isinstance(history, Mapping):
            return self._one(list(history), list(history.values())), True
        if hasattr(history, "columns") or hasattr(history, "column_names"):
            return self._frame(history)
        if isinstance(history, str | bytes) or not isinstance(history, Iterable):
            raise DataError(
                f"history: {history!r} is not a history; give {{item: rating}}, a list of items, a data frame, or "
                "Interactions for many users"
            )
        items = history if isinstance(history, Sequence | np.ndarray | Ids) else list(history)
        if len(items) and isinstance(items[0], Mapping):
            return self._many(list(items)), False
        return self._one(items, None), True

    def _one(self, items: Any, ratings: list[Any] | None) -> Interactions:
        numbers = self.known(items, "history")
        liked = np.full(len(numbers), self.value_range[1], np.float32)
        values = liked if ratings is None else _as_floats(ratings)
        kept = numbers >= 0
        numbers, first = np.unique(numbers[kept], return_index=True)
        return self._table(ONE, np.array([0, len(numbers)]), numbers, values[kept][first])

    def _many(self, histories: Sequence[Mapping[Any, Any]]) -> Interactions:
        tables = [self._one(list(history), list(history.values())) for history in histories]
        indptr = np.concatenate([[0], np.cumsum([len(table) for table in tables])])
        indices = np.concatenate([table.indices for table in tables])
        return self._table(Ids(range(len(tables))), indptr, indices, np.concatenate([table.values for table in tables]))

    def _frame(self, frame: Any) -> tuple[Interactions, bool]:
        names = [str(name) for name in getattr(frame, "column_names", None) or frame.columns]
        if guess("user", names) is not None:
            return self._moved(read(frame)), False
        import narwhals as nw

        table = nw.from_native(frame, eager_only=True)
        item = guess("item", names)
        if item is None:
            raise DataError(f"history: none of its columns {names} looks like the item; name one of them 'item'")
        value = guess("value", names)
        ratings = None if value is None else table[value].to_list()
        return self._one(table[item].to_arrow(), ratings), True

    def _moved(self, ratings: Interactions) -> Interactions:
        """Interactions over the model's items; those with unknown items are dealt with as `on_unknown` says."""
        if ratings.catalogue is not self.catalogue and ratings.items != self.catalogue.ids:
            numbers = self.catalogue.ids.numbers(ratings.items.to_arrow(), "history")
            moved = numbers[ratings.indices]
            unknown = moved < 0
            if unknown.any():
                self._tell(ratings.items.take(np.unique(ratings.indices[unknown])[:3]).to_pylist(), "history")
                ratings, moved = ratings.where(~unknown), moved[~unknown]
            order = np.lexsort((moved, ratings.user_numbers()))
            indices = moved[order].astype(smallest_unsigned(len(self.catalogue)))
            times = None if ratings.times is None else ratings.times[order]
            ratings = replace(
                ratings, catalogue=self.catalogue, indices=indices, values=ratings.values[order], times=times
            )
        return self._table(ratings.users, ratings.indptr, ratings.indices, ratings.values)

    def _table(self, users: Ids, indptr: Array, indices: Array, values: Array) -> Interactions:
        low, high = self.value_range
        if self.implicit:
            values = np.ones(len(values), np.float32)
        elif len(values) and not (values.min() >= np.float32(low) and values.max() <= np.float32(high)):
            odd = values[~((values >= np.float32(low)) & (values <= np.float32(high)))][0]
            raise DataError(f"history: the rating {odd:g} is not in the model's range, {low:g} to {high:g}")
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
        """The numbers of some items, -1 for unknown ones where `on_unknown` lets them pass."""
        numbers = self._few(items) if isinstance(items, list) and len(items) <= 64 else None
        if numbers is None:
            numbers = self.catalogue.ids.numbers(items, argument)
        if (numbers < 0).any():
            at = np.flatnonzero(numbers < 0)[:3]
            self._tell([items[int(i)] for i in at], argument)
        return numbers

    def _few(self, items: list[Any]) -> NDArray[np.int64] | None:
        """A quick way for short lists, or None if their ids must be looked at more closely (by type, for instance)."""
        try:
            return np.array([self.catalogue.ids.number(item) for item in items], np.int64)
        except (KeyError, TypeError):
            return None

    def _tell(self, items: list[Any], argument: str) -> None:
        shown = ", ".join(repr(item.as_py() if hasattr(item, "as_py") else item) for item in items)
        if self.on_unknown == "raise":
            raise UnknownItem(
                f"{argument}: the model does not know {shown}; leave such items out, or pass on_unknown='ignore' or "
                "'warn' to have them left out"
            )
        if self.on_unknown == "warn":
            warnings.warn(f"{argument}: left out items that the model does not know, {shown}", stacklevel=4)


def _as_floats(ratings: list[Any]) -> NDArray[np.float32]:
    try:
        values = np.asarray(ratings, np.float32)
    except (TypeError, ValueError):
        odd = next((rating for rating in ratings if not isinstance(rating, int | float)), ratings)
        raise DataError(f"history: ratings must be numbers, not {odd!r}") from None
    if values.ndim != 1 or not np.isfinite(values).all():
        raise DataError("history: ratings must be finite numbers")
    return values
