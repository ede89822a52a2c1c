"""Ids of any type: kept as the caller's, numbered inside.

The rest of the library works with numbers 0..n-1. This module is the only place that knows what an id is:
integers, strings, UUIDs, dates, anything that Arrow can hold, compare and hash.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from discreet.data.objects import is_utf8, require_one_type
from discreet.errors import DataError
from discreet.typing import Array, Integers


def smallest_unsigned(n: int) -> np.dtype[Any]:
    """The smallest unsigned integer type that holds the numbers 0..n-1."""
    return np.min_scalar_type(max(n - 1, 0))


def to_array(ids: Any, what: str) -> pa.Array:
    """Make one Arrow array of ids from a list, an array, a series or an Arrow array, in its plain type.

    Python objects must all have one type.
    """
    try:
        if isinstance(ids, pa.ChunkedArray):
            array = ids.combine_chunks()
        elif isinstance(ids, pa.Array):
            array = ids
        elif hasattr(ids, "__arrow_c_stream__"):
            array = pa.chunked_array(ids).combine_chunks()
        elif isinstance(ids, np.ndarray) and ids.dtype != object:
            array = pa.array(ids)
        elif isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
            raise DataError(f"{what}: a list of ids was expected, not {ids!r}")
        else:
            cells = list(ids)
            require_one_type(cells, what)
            array = pa.array(cells, from_pandas=True)
    except OverflowError:
        array = _unsigned(cells, what)
    except (pa.ArrowException, UnicodeEncodeError, TypeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{what}: ids of one type are needed, for instance all strings: {error}") from None
    return plain(array, what)


def _unsigned(cells: list[Any], what: str) -> pa.Array:
    try:
        return pa.array(cells, pa.uint64(), from_pandas=True)
    except (OverflowError, pa.ArrowInvalid, TypeError):
        raise DataError(f"{what}: integer ids must fit in 64 bits; give larger ones as strings") from None


def plain(array: pa.Array, what: str) -> pa.Array:
    """Undo encodings that change nothing about a cell: dictionaries, views, widths of integers, NaN for missing.

    The type of the result follows from the type of the array. What is in no way a value of it (bytes that are no text,
    a date that no calendar of Python has) is missing.
    """
    array = decoded(array) if isinstance(array.type, pa.DictionaryType) else array
    kind = array.type
    if types.is_string(kind) or types.is_large_string(kind) or str(kind) == "string_view":
        array = _valid_text(array.cast(pa.large_string()))
    elif types.is_binary(kind) or str(kind) == "binary_view":
        array = array.cast(pa.large_binary())
    elif types.is_integer(kind):
        array = array if kind == pa.uint64() else array.cast(pa.int64())
    elif types.is_decimal128(kind):  # whose precision depends on the longest number
        array = array.cast(pa.decimal128(38, kind.scale))
    elif types.is_float32(kind) or types.is_float64(kind):
        array = pc.if_else(pc.is_nan(array), pa.scalar(None, kind), array)
    elif types.is_date32(kind) or types.is_timestamp(kind):
        array = _of_this_calendar(array)
    elif types.is_nested(kind) or types.is_decimal256(kind) or types.is_interval(kind) or "run_end" in str(kind):
        raise DataError(
            f"{what}: a single value is needed in each row, such as a number or text, not {kind}; convert it"
        )
    return array


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type that `plain` gives an array of a type; that type itself, if it gives none."""
    kind = kind.value_type if isinstance(kind, pa.DictionaryType) else kind
    try:
        return plain(pa.array([], kind), "").type
    except (DataError, pa.ArrowException):
        return kind


def _valid_text(array: pa.Array) -> pa.Array:
    """Text, with null in place of what is not in UTF-8, which the writer of an array may not have checked."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        cells = array.view(pa.large_binary()).to_pylist()
        return pa.array([cell if cell is not None and is_utf8(cell) else None for cell in cells], pa.large_string())
    return array


def _of_this_calendar(array: pa.Array) -> pa.Array:
    """Dates and times of the years 1 to 9999, without others."""
    kind = array.type
    is_day = pa.types.is_date32(kind)
    if not is_day and kind.unit == "ns":  # which reaches from 1677 to 2262
        return array
    numbers = array.cast(pa.int32() if is_day else pa.int64())
    days = [int(np.datetime64(day, "D").astype(np.int64)) for day in ("0001-01-01", "10000-01-01")]
    of_a_day = 1 if is_day else 86_400 * {"s": 1, "ms": 1000, "us": 1_000_000}[kind.unit]
    ends = [day * of_a_day for day in days]
    there = pc.and_(pc.greater_equal(numbers, ends[0]), pc.less(numbers, ends[1]))
    return pc.if_else(there, array, pa.scalar(None, kind))


def decoded(array: pa.DictionaryArray) -> pa.Array:
    """A dictionary array written out; Arrow cannot do that itself where the dictionary is one of views."""
    views = {"string_view": pa.large_string(), "binary_view": pa.large_binary()}
    values = array.dictionary
    values = values.cast(views.get(str(values.type), values.type))
    return pa.DictionaryArray.from_arrays(array.indices, values).dictionary_decode()


INTEGER = r"^(0|-?[1-9][0-9]{0,17})$"  # how an integer of 64 bits is written; "007" is not


def typed(array: pa.Array) -> pa.Array:
    """Ids of a public catalogue that was read from text: integers if all are written as integers are, else strings.

    The ids of people, and of items that are not in a catalogue, stay text: their type would depend on all of them.
    """
    written = len(array) and pc.all(pc.match_substring_regex(array, INTEGER)).as_py()
    return array.cast(pa.int64()) if written else array


def sorted_order(array: pa.Array, *, written: bool = False) -> Integers:
    """The places of ids in increasing order. Of ids `written` in a text file, integers come first, and 9 before 10.

    Which of two ids comes first depends on these two alone, so that no other id changes it.
    """
    if written:
        integers = pc.if_else(pc.match_substring_regex(array, INTEGER), array, pa.scalar(None, array.type))
        table = pa.table({"integer": integers.cast(pa.int64()), "text": array})
        order = pc.sort_indices(table, sort_keys=[("integer", "ascending"), ("text", "ascending")])
    else:
        order = pc.array_sort_indices(storage(array))
    places: Integers = order.to_numpy().astype(np.int64)
    return places


def storage(array: pa.Array) -> pa.Array:
    """The array that Arrow can hash and sort: that behind an extension type such as UUID."""
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def _common(left: pa.Array, right: pa.Array, what: str) -> tuple[pa.Array, pa.Array]:
    """Bring two id arrays to one type without loss, or say why that is impossible. Only types are looked at."""
    if left.type == right.type:
        return left, right
    text = pa.large_string()
    if all(pa.types.is_integer(one.type) or one.type == text for one in (left, right)):
        return left.cast(text), right.cast(text)  # 7 of a table is "7" of a text file
    for one, other in ((left, right), (right, left)):
        if pa.types.is_null(one.type):
            nothing = pa.nulls(len(one), other.type)
            return (nothing, right) if one is left else (left, nothing)
    raise cannot_be_compared(left.type, right.type, what)


def cannot_be_compared(left: pa.DataType, right: pa.DataType, what: str) -> DataError:
    """The error for ids of two types."""
    return DataError(
        f"{what}: ids of type {left} and of type {right} cannot be compared; convert one side, so that both are for "
        "instance strings"
    )


class Ids(Sequence[Any]):
    """Distinct ids in a fixed order. The number of an id is its position; ids come back in their own type."""

    def __init__(self, ids: Any, what: str = "ids") -> None:
        array = to_array(ids, what)
        if array.null_count:
            raise DataError(f"{what}: {array.null_count} ids are missing; remove them")
        self._array = array
        self._distinct = False

    def require_distinct(self, what: str) -> Ids:
        """Return self, or raise a DataError that names an id given twice."""
        if self._distinct:
            return self
        counts = pc.value_counts(storage(self._array))
        twice = counts.field("counts").to_numpy(zero_copy_only=False) > 1
        if twice.any():
            first = int(np.flatnonzero(twice)[0])
            shown = counts.field("values")[first].as_py()
            raise DataError(f"{what}: {int(twice.sum())} ids are given more than once, for instance {shown!r}")
        self._distinct = True
        return self

    def some(self, numbers: Array) -> Ids:
        """The ids at the given numbers, none of which is given twice."""
        return self._part(self.take(numbers))

    def _part(self, array: pa.Array) -> Ids:
        part = Ids(array)
        part._distinct = self._distinct
        return part

    def __len__(self) -> int:
        return len(self._array)

    @overload
    def __getitem__(self, at: int) -> Any: ...
    @overload
    def __getitem__(self, at: slice) -> Ids: ...
    def __getitem__(self, at: int | slice) -> Any:
        if isinstance(at, slice):
            return self._part(self._array[at])
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
        return {key: number for number, key in enumerate(self._array.to_pylist())}

    def number(self, key: Any) -> int:
        """The number of one id; KeyError when there is none. 7 is found where ids are text, as "7"."""
        if key not in self._numbers and isinstance(key, int | np.integer) and not isinstance(key, bool):
            return self._numbers[str(key)]
        return self._numbers[key]

    def numbers(self, ids: Any, what: str = "ids") -> Integers:
        """The numbers of many ids, -1 where an id is not among these."""
        asked = to_array(ids, what)
        if not len(asked) or not len(self):
            return np.full(len(asked), -1, dtype=np.int64)
        left, right = _common(self._array, asked, what)
        found = pc.index_in(storage(right), value_set=storage(left), skip_nulls=True)
        numbers: Integers = pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        return numbers

    def take(self, numbers: Array) -> pa.Array:
        """The ids at the given numbers, repeated as asked."""
        return self._array.take(pa.array(np.asarray(numbers)))

    def to_arrow(self) -> pa.Array:
        """The ids as an Arrow array."""
        return self._array

    def to_list(self) -> list[Any]:
        """The ids as Python objects."""
        values: list[Any] = self._array.to_pylist()
        return values

    def to_numpy(self) -> Array:
        """The ids as a NumPy array: numbers and dates in their own type, others as objects."""
        if isinstance(self._array, pa.ExtensionArray):
            objects = np.empty(len(self), dtype=object)
            objects[:] = self._array.to_pylist()
            return objects
        array: Array = self._array.to_numpy(zero_copy_only=False)
        return array
