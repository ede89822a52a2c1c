"""The catalog of items, and ids of any type: kept as the caller gave them, numbered inside.

The rest of the library works with numbers 0..n-1. Only this module knows what an id is: an integer, a string, a UUID, a
date, anything that Arrow can hold, compare and hash. The catalog is a public input, which the owner declares and which
is never silently read off the data.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import enum
import hashlib
import math
import os
import re
import unicodedata
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from discreet.errors import DataError, NotPublic
from discreet.privacy.store import canonical
from discreet.typing import Array, Integers

if TYPE_CHECKING:
    from discreet.privacy.statement import Statement

# Cells that are Python objects: rows of tuples or of a database driver, object columns of a data frame.
# Arrow finds one type that fits all objects of a column, so how one is read would depend on the others: b"a" and "a"
# would be one id, and a person called 1.5 would turn another person's 1 into 1.0. So ids and times must have one type,
# and values become numbers one by one.

# Subclasses before the classes they are derived from: a bool is an int, a datetime is a date.
KINDS: tuple[tuple[type, ...], ...] = (
    (bool, np.bool_), (int, np.integer), (float, np.floating), (str,), (bytes, bytearray, memoryview),
    (dt.datetime, np.datetime64), (dt.date,), (decimal.Decimal,), (uuid.UUID,),
)  # fmt: skip
MISSING = ("NoneType", "NAType", "NaTType")
NUMBERS = {"bool", "int", "float", "Decimal"}
DAYS = [day.toordinal() - dt.date(1970, 1, 1).toordinal() for day in (dt.date.min, dt.date.max)]
INTEGER = r"^(0|-?[1-9][0-9]{0,17})$"  # how a 64-bit integer is written; "007" is not one


def _kinds(cells: Iterable[Any]) -> set[str]:
    """The names of the types of cells that are not missing."""
    found = {of for of in set(map(type, cells)) if of.__name__ not in MISSING}
    words = {next((kind[0].__name__ for kind in KINDS if issubclass(of, kind)), of.__name__) for of in found}
    return words | ({"datetime64"} if any(issubclass(of, np.datetime64) for of in found) else set())


def _require_one_type(cells: Sequence[Any], what: str) -> None:
    """Raise unless all objects that are not missing have one type, which Arrow stores without loss."""
    kinds = _kinds(cells)
    if len(kinds) > 1 and "float" in kinds:  # pandas writes NaN for missing cells
        kinds = _kinds(cell for cell in cells if not (isinstance(cell, float | np.floating) and np.isnan(cell)))
    if "datetime" in kinds:
        times = [cell for cell in cells if isinstance(cell, dt.datetime) and type(cell).__name__ not in MISSING]
        if len({time.tzinfo is None for time in times}) > 1:
            raise DataError(f"{what}: some times have a time zone and some have none; give all of them one, or none")
        if any(getattr(time, "nanosecond", 0) for time in times):
            raise DataError(f"{what}: nanoseconds would be lost; give them as integers")
    if len(kinds) > 1:
        raise DataError(
            f"{what}: ids of one type are needed, for instance all strings, not {' and '.join(sorted(kinds))}; convert "
            "them before reading"
        )


def to_values(cells: Sequence[Any], what: str) -> pa.Array:
    """Python objects as numbers, each converted by itself; or as text, if all are text."""
    kinds = _kinds(cells)
    if kinds == {"str"}:
        try:
            return pa.array(cells, pa.large_string(), from_pandas=True)
        except UnicodeEncodeError as error:
            raise DataError(f"{what}: {error}; correct the text") from None
    if not kinds <= NUMBERS:
        raise DataError(
            f"{what}: numbers are needed, but the column holds {' and '.join(sorted(kinds))}; make it one type, for "
            "instance frame[name].astype(float)"
        )

    def number(cell: Any) -> float | None:
        if type(cell).__name__ in MISSING or (isinstance(cell, decimal.Decimal) and cell.is_nan()):
            return None
        try:
            return float(cell)
        except OverflowError:  # an integer beyond all floats
            return math.inf if cell > 0 else -math.inf

    return pa.array(map(number, cells), pa.float64())


def to_array(ids: Any, what: str) -> pa.Array:
    """One Arrow array of ids, in its plain type, from a list, an array, a series or an Arrow array."""
    if isinstance(ids, str | bytes) or not (isinstance(ids, Iterable) or hasattr(ids, "__arrow_c_stream__")):
        raise DataError(f"{what}: a list of ids was expected, not {ids!r}")
    try:
        if isinstance(ids, pa.Array):
            array = ids
        elif isinstance(ids, pa.ChunkedArray) or hasattr(ids, "__arrow_c_stream__"):
            array = pa.chunked_array(ids).combine_chunks()
        elif isinstance(ids, np.ndarray) and ids.dtype != object:
            array = arrow_of(ids) if ids.dtype.kind in "iu" and ids.ndim == 1 else pa.array(ids)
        else:
            array = _from_objects(list(ids), what)
    except DataError:
        raise
    except (pa.ArrowException, UnicodeEncodeError, TypeError, ValueError) as error:
        raise DataError(f"{what}: ids of one type are needed, for instance all strings: {error}") from None
    return plain(array, what)


def _from_objects(cells: list[Any], what: str) -> pa.Array:
    _require_one_type(cells, what)
    with contextlib.suppress(OverflowError):
        return pa.array(cells, from_pandas=True)
    try:
        return pa.array(cells, pa.uint64(), from_pandas=True)
    except (OverflowError, pa.ArrowInvalid, TypeError):
        raise DataError(f"{what}: integer ids must fit in 64 bits; give larger ones as strings") from None


def plain(array: pa.Array, what: str) -> pa.Array:
    """Undo encodings that do not change a cell: dictionaries, views, widths of integers, NaN for missing.

    The type of the result depends on the type of the array alone. Invalid values of that type (bytes that are not
    text, a date outside Python's calendar) become missing.
    """
    array = decoded(array) if isinstance(array.type, pa.DictionaryType) else array
    kind = array.type
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        array = _valid_text(array.cast(pa.large_string()))
    elif types.is_binary(kind) or types.is_binary_view(kind):
        array = array.cast(pa.large_binary())
    elif types.is_integer(kind):
        array = array if kind == pa.uint64() else array.cast(pa.int64())
    elif types.is_decimal128(kind):  # its precision depends on the longest number
        array = array.cast(pa.decimal128(38, kind.scale))
    elif types.is_float32(kind) or types.is_float64(kind):
        array = pc.if_else(pc.is_nan(array), pa.scalar(None, kind), array)
    elif types.is_date32(kind) or (types.is_timestamp(kind) and kind.unit != "ns"):  # ns spans 1677 to 2262
        numbers = array.cast(pa.int32() if types.is_date32(kind) else pa.int64())
        per_day = 1 if types.is_date32(kind) else 86_400 * {"s": 1, "ms": 1000, "us": 1_000_000}[kind.unit]
        exists = pc.and_(pc.greater_equal(numbers, DAYS[0] * per_day), pc.less(numbers, (DAYS[1] + 1) * per_day))
        array = pc.if_else(exists, array, pa.scalar(None, kind))
    elif any(of(kind) for of in (types.is_nested, types.is_decimal256, types.is_interval, types.is_run_end_encoded)):
        raise DataError(
            f"{what}: a single value is needed in each row, such as a number or text, not {kind}; convert it"
        )
    return array


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of `plain(array)` for an array of this type; the type itself if `plain` refuses it."""
    kind = kind.value_type if isinstance(kind, pa.DictionaryType) else kind
    try:
        return plain(pa.array([], kind), "").type
    except (DataError, pa.ArrowException):
        return kind


# `pa.array`, `pa.scalar` and `to_numpy` import pandas where it is installed, which takes longer than serving a person.


def numpy_of(array: pa.Array) -> Array:
    """An Arrow array as a NumPy array."""
    kind = array.type
    if array.null_count == 0 and types.is_boolean(kind):
        return np.from_dlpack(array.cast(pa.uint8())).view(np.bool_)
    if array.null_count == 0 and (types.is_integer(kind) or types.is_floating(kind)):
        return np.from_dlpack(array)
    return np.asarray(array.to_numpy(zero_copy_only=False))


def arrow_of(numbers: Any) -> pa.Array:
    """Integers or floats as an Arrow array."""
    array = np.ascontiguousarray(numbers)
    return pa.Array.from_buffers(pa.from_numpy_dtype(array.dtype), len(array), [None, pa.py_buffer(array)])


def is_utf8(text: bytes) -> bool:
    """Whether bytes are text."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _valid_text(array: pa.Array) -> pa.Array:
    """Text, with null for invalid UTF-8, which the writer of an array may not have checked."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        cells = array.view(pa.large_binary()).to_pylist()
        return pa.array([cell if cell is not None and is_utf8(cell) else None for cell in cells], pa.large_string())
    return array


def decoded(array: pa.DictionaryArray) -> pa.Array:
    """A decoded dictionary array; Arrow itself cannot decode a dictionary of views."""
    views = {"string_view": pa.large_string(), "binary_view": pa.large_binary()}
    values = array.dictionary
    values = values.cast(views.get(str(values.type), values.type))
    return pa.DictionaryArray.from_arrays(array.indices, values).dictionary_decode()


def typed(array: pa.Array) -> pa.Array:
    """Ids of a public catalog that was read from text: integers if all are written like integers, else strings.

    Other ids stay text: their type would depend on everyone's rows.
    """
    all_integers = len(array) and pc.all(pc.match_substring_regex(array, INTEGER)).as_py()
    return array.cast(pa.int64()) if all_integers else array


def any_integers(array: pa.Array) -> bool:
    """Whether some id is written like an integer, so that a number can be the same id."""
    return types.is_large_string(array.type) and bool(pc.any(pc.match_substring_regex(array, INTEGER)).as_py())


def sorted_order(array: pa.Array, *, written: bool = False) -> Integers:
    """The places of ids in increasing order. If ids are `written` in a text file, integers come first, 9 before 10.

    Which of two ids comes first depends on these two alone.
    """
    if written:
        integers = pc.if_else(pc.match_substring_regex(array, INTEGER), array, pa.scalar(None, array.type))
        table = pa.table({"integer": integers.cast(pa.int64()), "text": array})
        order = pc.sort_indices(table, sort_keys=[("integer", "ascending"), ("text", "ascending")])
    else:
        order = pc.array_sort_indices(storage(array))
    return numpy_of(order).astype(np.int64)


def storage(array: pa.Array) -> pa.Array:
    """The array that Arrow can hash and sort: the one behind an extension type such as UUID."""
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def smallest_unsigned(n: int) -> np.dtype[Any]:
    """The smallest unsigned integer type that holds the numbers 0..n-1."""
    return np.min_scalar_type(max(n - 1, 0))


def _common(left: pa.Array, right: pa.Array, what: str) -> tuple[pa.Array, pa.Array]:
    """Convert two arrays of ids to one type without loss, or raise. Only the types decide."""
    if left.type == right.type:
        return left, right
    text = pa.large_string()
    if all(types.is_integer(one.type) or one.type == text for one in (left, right)):
        return left.cast(text), right.cast(text)  # 7 of a table is "7" of a text file
    if types.is_null(left.type):
        return pa.nulls(len(left), right.type), right
    if types.is_null(right.type):
        return left, pa.nulls(len(right), left.type)
    raise cannot_be_compared(left.type, right.type, what)


def cannot_be_compared(left: pa.DataType, right: pa.DataType, what: str) -> DataError:
    """The error for ids of two types."""
    return DataError(
        f"{what}: ids of type {left} and of type {right} cannot be compared; convert one side, for instance both to "
        "strings"
    )


class Ids(Sequence[Any]):
    """Distinct ids in a fixed order. The number of an id is its position; ids come back in their own type."""

    def __init__(self, ids: Any, what: str = "ids") -> None:
        self._array = to_array(ids, what)
        self._distinct = False
        if self._array.null_count:
            raise DataError(f"{what}: {self._array.null_count} ids are missing; remove them")

    def require_distinct(self, what: str) -> Ids:
        """Return self, or raise a DataError that names an id given twice."""
        if not self._distinct:
            counts = pc.value_counts(storage(self._array))
            twice = numpy_of(counts.field("counts")) > 1
            if twice.any():
                shown = counts.field("values")[int(twice.argmax())].as_py()
                more = f", and so do {int(twice.sum()) - 1:,} others" if twice.sum() > 1 else ""
                raise DataError(f"{what}: the id {shown!r} occurs more than once{more}; each needs a row of its own")
            self._distinct = True
        return self

    def some(self, numbers: Array) -> Ids:
        """The ids at the given numbers, which must be distinct."""
        part = Ids(self.take(numbers))
        part._distinct = self._distinct
        return part

    def __len__(self) -> int:
        return len(self._array)

    @overload
    def __getitem__(self, at: int) -> Any: ...
    @overload
    def __getitem__(self, at: slice) -> Ids: ...
    def __getitem__(self, at: int | slice) -> Any:
        if isinstance(at, slice):  # a copy: a slice of Arrow's is pickled with all other ids
            return self.some(np.arange(len(self))[at])
        return self._array[int(at)].as_py()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._array.to_pylist())

    def __contains__(self, key: object) -> bool:
        return key in self._numbers

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ids) or len(self) != len(other):
            return False
        try:
            left, right = _common(self._array, other._array, "ids")
        except DataError:
            return False
        return bool(left.equals(right))

    __hash__ = None  # type: ignore[assignment]  # compared by content

    def __repr__(self) -> str:
        return f"<{len(self)} ids of type {self._array.type}>"

    @cached_property
    def _numbers(self) -> dict[Any, int]:
        return {key: number for number, key in enumerate(self)}

    def number(self, key: Any) -> int:
        """The number of one id, or KeyError. If ids are text, 7 finds "7"."""
        if key not in self._numbers and isinstance(key, int | np.integer) and not isinstance(key, bool):
            return self._numbers[str(key)]
        return self._numbers[key]

    def numbers(self, ids: Any, what: str = "ids") -> Integers:
        """The numbers of many ids, -1 for unknown ones."""
        asked = to_array(ids, what)
        if not len(asked) or not len(self):
            return np.full(len(asked), -1, dtype=np.int64)
        left, right = _common(self._array, asked, what)
        found = pc.index_in(storage(right), value_set=storage(left), skip_nulls=True)
        return numpy_of(pc.fill_null(found, -1)).astype(np.int64)

    def take(self, numbers: Array) -> pa.Array:
        """The ids at the given numbers, repeated as asked."""
        return self._array.take(arrow_of(numbers))

    def to_arrow(self) -> pa.Array:
        """The ids as an Arrow array."""
        return self._array

    def to_list(self) -> list[Any]:
        """The ids as Python objects."""
        return list(self)

    def to_numpy(self) -> Array:
        """The ids as a NumPy array: numbers and dates in their own type, others as objects."""
        if isinstance(self._array, pa.ExtensionArray):
            objects = np.empty(len(self), dtype=object)
            objects[:] = self.to_list()
            return objects
        return numpy_of(self._array)


class ObservedItems(enum.Enum):
    """The type of `discreet.observed_items_are_public`."""

    PUBLIC = enum.auto()

    def __repr__(self) -> str:
        return "discreet.observed_items_are_public"


observed_items_are_public = ObservedItems.PUBLIC
"""Pass as `items=` to declare that the set of items in the data is public. The statement will say so."""
OBSERVED = "those observed in the data, which the owner declares to be public"
PRIVATE = "private"  # pass as `items=`, and the origin of such a catalog: which items exist is private, too
CHOSEN = "chosen from the data by a private choice of items"


class Catalogue:
    """The items in a fixed order, with whatever is publicly known about them.

    Example:
        >>> import discreet
        >>> films = discreet.datasets.movielens_like(300, 50, 6_000, random_state=0).catalogue
        >>> len(films), films.names
        (50, ['title', 'genres'])
        >>> films.column("title")[:2]
        ['Film 1', 'Film 2']

    Attributes:
        ids: The items; the position of an item is its number.
        columns: What is known about the items, in their order, as an Arrow table.
        origin: How the catalog became public; None if it has not been declared public, "private" if it is not public
            and a model is to choose from it privately.
        selection: The statement of the private choice that these items come from, or None.
    """

    def __init__(
        self,
        ids: Any,
        columns: pa.Table | None = None,
        *,
        origin: str | None = "given",
        selection: Statement | None = None,
    ) -> None:
        self.selection = selection
        self.ids = (ids if isinstance(ids, Ids) else Ids(ids, "items")).require_distinct("items")
        self.origin = origin
        self.columns = pa.table({} if columns is None else {n: _plain_text(columns[n]) for n in columns.column_names})
        if self.columns.num_columns and self.columns.num_rows != len(self.ids):
            raise DataError(f"items: {self.columns.num_rows} rows of columns for {len(self.ids)} items")

    @classmethod
    def read(cls, items: Any, *, item: str | None = None, connection: Any = None) -> Catalogue:
        """Read a catalog from ids, or from a data frame, file or SELECT with one row for each item.

        Args:
            items: A list, array or series of ids; a data frame or Arrow table; the path of a file; a SELECT.
            item: The column of the ids; by default `item`, or one with a usual name such as movieId or id.
            connection: Where a SELECT runs, as in `discreet.read`.

        Returns:
            The items in the order given (a set: sorted), with the other columns (titles, genres, ...) beside them.
        """
        if isinstance(items, Catalogue):
            return items
        if isinstance(items, set | frozenset):  # it has no order
            unordered = Ids(items, "items")
            return cls(unordered.some(sorted_order(unordered.to_arrow())))
        if not (hasattr(items, "columns") or hasattr(items, "column_names") or isinstance(items, str | os.PathLike)):
            return cls(items)
        from discreet.data.readers import read_items  # imports this module

        try:
            ids, columns = read_items(items, item, connection)
        except DataError as error:  # a file or SELECT is opened as that of any table, but this argument named it
            raise DataError(re.sub("^source: ", "items: ", str(error))) from None
        return cls(ids, columns)

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, item: object) -> bool:
        return item in self.ids

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Catalogue):
            return NotImplemented
        return self.ids == other.ids and bool(self.columns.equals(other.columns))

    __hash__ = None  # type: ignore[assignment]  # compared by content

    def __repr__(self) -> str:
        beside = f" with {', '.join(self.names)}" if self.names else ""
        if self.private:
            return f"Catalogue of private items{beside}"
        return f"Catalogue of {len(self)} items{beside} ({self.origin or 'not declared public'})"

    @property
    def private(self) -> bool:
        """Whether these items are all those in the data, and which ones these are is private."""
        return self.origin == PRIVATE

    @property
    def names(self) -> list[str]:
        """The columns beside the ids."""
        names: list[str] = self.columns.column_names
        return names

    @cached_property
    def title_column(self) -> str | None:
        """The column of what people call the items: `title` or `name`, or the first text in which hardly any repeat."""
        usual = [name for name in self.names if name.lower() in ("title", "name")]
        texts = [name for name in self.names if types.is_large_string(self.columns[name].type)]
        telling = [name for name in texts if pc.count_distinct(self.columns[name]).as_py() > 0.9 * len(self)]
        return next(iter(usual + telling), None)

    def titled(self, name: str) -> Catalogue:
        """The same catalog with a column as `title`; if there is another title, it becomes `other title`."""
        self.column(name)  # raises if there is none
        columns = {"other title" if n == "title" != name else n: self.columns[n] for n in self.names if n != name}
        texts = pa.table({"title": self.columns[name].cast(pa.large_string()), **columns})
        return Catalogue(self.ids, texts, origin=self.origin, selection=self.selection)

    @cached_property
    def _searched(self) -> list[str]:
        titles = self.ids if self.title_column is None else self.columns[self.title_column].to_pylist()
        return [_folded(str(item if title is None else title)) for item, title in zip(self.ids, titles, strict=True)]

    def search(self, text: str) -> list[int]:
        """The numbers of the items whose title, or id if there is none, contains every word of a text.

        Case and accents do not count.
        """
        found = list(range(len(self)))
        for word in _folded(text).split():
            found = [number for number in found if word in self._searched[number]]
        return found

    def column(self, name: str) -> list[Any]:
        """One column, in the order of the items."""
        if name not in self.names:
            raise DataError(f"the catalog has no column {name!r}; it has {self.names}")
        cells: list[Any] = self.columns.column(name).to_pylist()
        return cells

    def take(self, numbers: Sequence[int] | Array) -> Catalogue:
        """A catalog of the items at the given numbers, in that order."""
        chosen = np.asarray(numbers, dtype=np.int64)
        columns = self.columns.take(arrow_of(chosen)) if self.names else None
        return Catalogue(Ids(self.ids.take(chosen)), columns, origin=self.origin, selection=self.selection)

    def of_origin(self, origin: str) -> Catalogue:
        """The same items, with another explanation of how they became public."""
        return Catalogue(self.ids, self.columns, origin=origin, selection=self.selection)

    def require_public(self) -> None:
        """Raise NotPublic unless these items are public: declared by the owner, or chosen privately."""
        if self.private:
            raise NotPublic(
                "items: which items exist is private in this table, but has to be known here. Choose items first with "
                "table = discreet.select_items(table, epsilon=..., delta=...), and use that table"
            )
        if self.origin is None:
            raise NotPublic(
                "items: this catalog has not been declared public, and which items exist must not be read off private "
                "data silently. Either give the items, discreet.read(..., items=ids, frame or file), or pass "
                "items=discreet.observed_items_are_public, and the privacy statement will say so; or pass "
                "items='private', and a share of the budget goes to a private choice of items"
            )

    def to_arrow(self) -> pa.Table:
        """The ids (column `item`) and all columns, as an Arrow table."""
        others = {name: self.columns.column(name) for name in self.names if name != "item"}
        return pa.table({"item": self.ids.to_arrow(), **others})

    def to_frame(self, library: str | None = None) -> Any:
        """The same as a data frame of a library: "pandas", "polars" or "pyarrow"."""
        return to_library(self.to_arrow(), library)


# -- columns that describe items, as numbers

MOST_CATEGORIES = 100  # of one column; rarer ones are left out


def item_features(catalogue: Catalogue, names: Sequence[str]) -> Array:
    """Columns of the catalog as numbers: one for each category of a text column, one of unit variance for numbers."""
    if isinstance(names, str):
        raise DataError(f"features: a list of columns is needed, for instance [{names!r}]")
    require_columns(catalogue, names)
    columns = [column for name in names for column in _feature_columns(catalogue, name)]
    return np.column_stack(columns) if columns else np.zeros((len(catalogue), 0))


def require_columns(catalogue: Catalogue, names: Sequence[str]) -> None:
    """Raise unless a catalog has these columns, and each has categories that items share."""
    for name in names:
        telling = [other for other in catalogue.names if other not in (name, catalogue.title_column)]
        others = f"columns that describe items: {', '.join(telling)}"
        if name not in catalogue.names:
            instead = f"; {others}" if telling else ", nor any that describes items"
            raise DataError(f"features: the catalog has no column {name!r}{instead}")
        if _tells_apart(catalogue.columns[name]):
            raise DataError(
                f"features: hardly any two items share a text in {name!r}, so nothing that is learned about one item "
                f"helps with another; leave it out{f' ({others})' if telling else ''}"
            )


def shared_texts(catalogue: Catalogue) -> list[str]:
    """The columns of texts that several items share, such as genres: they may serve as features."""
    texts = {name: catalogue.columns[name] for name in catalogue.names if name != catalogue.title_column}
    return [name for name, column in texts.items() if types.is_large_string(column.type) and not _tells_apart(column)]


def _tells_apart(column: pa.ChunkedArray) -> bool:
    """Whether a column has texts, and hardly any item shares one of its categories with another."""
    if not types.is_large_string(column.type) or pc.count_distinct(column).as_py() <= 0.9 * len(column):
        return False
    tags = [_tags(entry) for entry in column.to_pylist() if entry is not None]
    counts = Counter(tag for own in tags for tag in own)
    return sum(any(counts[tag] > 1 for tag in own) for own in tags) < 0.1 * len(tags)


def _feature_columns(catalogue: Catalogue, name: str) -> list[Array]:
    entries = catalogue.column(name)
    present = [entry for entry in entries if entry is not None]
    if all(isinstance(entry, int | float) and not isinstance(entry, bool) for entry in present):
        numbers = np.array([np.nan if entry is None else float(entry) for entry in entries])
        known = np.isfinite(numbers)
        if not known.any() or np.ptp(numbers[known]) == 0:
            return []
        centered = np.where(known, numbers - numbers[known].mean(), 0.0)
        return [centered / np.sqrt(np.mean(centered[known] ** 2))]
    tags = [set() if entry is None else _tags(entry) for entry in entries]
    counts = Counter(tag for own in tags for tag in own)
    common = sorted(counts, key=lambda tag: (-counts[tag], tag))[:MOST_CATEGORIES]
    # Each item's categories have length 1 together, as its numbers do.
    return [np.array([(tag in own) / np.sqrt(max(len(own), 1)) for own in tags]) for tag in common]


def _tags(entry: Any) -> set[str]:
    tags = entry if isinstance(entry, list | tuple) else str(entry).split("|")
    return {str(tag).strip() for tag in tags if str(tag).strip()}


def _folded(text: str) -> str:
    """Text to compare, without case and accents, as in web/static/search.js."""
    letters = unicodedata.normalize("NFKD", text)
    return (letters if letters.isascii() else "".join(c for c in letters if unicodedata.category(c) != "Mn")).casefold()


def _plain_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """One type for text from any library."""
    if isinstance(column.type, pa.DictionaryType):
        column = pa.chunked_array([decoded(chunk) for chunk in column.chunks] or [pa.array([], pa.large_string())])
    is_text = types.is_string(column.type) or types.is_string_view(column.type)
    return column.cast(pa.large_string()) if is_text else column


LIBRARIES = ("pandas", "polars", "pyarrow")


def to_library(table: pa.Table, library: str | None) -> Any:
    """An Arrow table as a data frame of a library; None leaves it as it is."""
    if library is None or library == "pyarrow":
        return table
    if library not in LIBRARIES:
        raise DataError(f"library: one of {', '.join(LIBRARIES)} is needed, not {library!r}")
    uuids = {field.name: table[field.name].to_pylist() for field in table.schema if isinstance(field.type, pa.UuidType)}
    for name, cells in uuids.items():  # polars has no such type, and text is of more use than bytes
        at = table.column_names.index(name)
        table = table.set_column(at, name, pa.array(map(str, cells), pa.large_string()))
    import narwhals as nw

    frame = nw.from_native(table, eager_only=True)
    try:
        native = frame.to_polars() if library == "polars" else frame.to_pandas()
    except ModuleNotFoundError as error:
        raise DataError(f"library={library!r} is not installed ({error}); pip install {library}") from None
    for name, cells in uuids.items() if library == "pandas" else ():
        native[name] = cells
    return native


# -- hashes of content, not of files: the same on every machine and for every version of a library


def catalogue_sha256(catalogue: Catalogue) -> str:
    """The SHA-256 of the content of a catalog."""
    columns = (catalogue.ids.to_arrow(), *catalogue.columns.columns)
    about = canonical([catalogue.origin, len(catalogue), *catalogue.names]).encode()
    return sha256_of(about, *map(_content, columns))


def sha256_of(*pieces: Any) -> str:
    """The SHA-256 of pieces of bytes, each after its length, so that no two lists of pieces hash the same bytes."""
    sha256 = hashlib.sha256()
    for piece in pieces:
        view = memoryview(piece).cast("B") if len(piece) else b""
        sha256.update(len(view).to_bytes(8, "little"))
        sha256.update(view)
    return sha256.hexdigest()


def _content(column: Any) -> bytes:
    """The content of an Arrow column, independent of its chunks and of the memory behind missing values."""
    array: pa.Array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    name = "" if types.is_nested(array.type) else str(array.type)  # parquet changes the names inside a list
    array = storage(array)
    if types.is_temporal(array.type):  # as numbers: Python has no nanoseconds, and names time zones in several ways
        array = array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    return f"{name} {array.to_pylist()!r}".encode("utf-8", "backslashreplace")
