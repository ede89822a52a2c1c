"""Ids of any type: kept as the caller's, numbered inside.

The rest of the library works with numbers 0..n-1. This module is the only place that knows what an id is:
integers, strings, UUIDs, dates, anything that Arrow can hold, compare and hash.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import uuid
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from discreet.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa


def smallest_unsigned(n: int) -> np.dtype[Any]:
    """The smallest unsigned integer type that holds the numbers 0..n-1."""
    return np.min_scalar_type(max(n - 1, 0))


def to_array(ids: Any, what: str, *, mixed: bool = False) -> pa.Array:
    """Make one Arrow array of ids from a list, an array, a series or an Arrow array, in its plain type.

    Python objects must all have one type, unless they may be `mixed`, as numbers are.
    """
    import pyarrow as pa

    try:
        if isinstance(ids, pa.ChunkedArray):
            array = ids.combine_chunks()
        elif isinstance(ids, pa.Array):
            array = ids
        elif hasattr(ids, "__arrow_c_stream__"):
            array = pa.chunked_array(ids).combine_chunks()
        elif isinstance(ids, np.ndarray) and ids.dtype != object:
            array = pa.array(ids)
        else:
            cells = _python_list(ids, what)
            if not mixed:
                require_one_type(cells, what)
            array = pa.array(cells, from_pandas=True)
    except OverflowError:
        array = _big_integers(ids, what)
    except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError) as error:
        raise DataError(f"{what}: ids of one type are needed, for instance all strings: {error}") from None
    return plain(array, what)


def _python_list(ids: Any, what: str) -> list[Any]:
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise DataError(f"{what}: a list of ids was expected, not {ids!r}")
    return list(ids)


# Subclasses before the classes they are derived from: a bool is an int, a datetime is a date.
_KINDS: tuple[tuple[type, ...], ...] = (
    (bool, np.bool_),
    (int, np.integer),
    (float, np.floating),
    (str,),
    (bytes, bytearray, memoryview),
    (dt.datetime, np.datetime64),
    (dt.date,),
    (decimal.Decimal,),
    (uuid.UUID,),
)


def _kinds(cells: Iterable[Any]) -> set[str]:
    """The types of what is not missing, in a word each."""
    types = {of for of in set(map(type, cells)) if of.__name__ not in ("NoneType", "NAType", "NaTType")}
    return {next((kinds[0].__name__ for kinds in _KINDS if issubclass(of, kinds)), of.__name__) for of in types}


def require_one_type(cells: Sequence[Any], what: str) -> None:
    """Raise unless all Python objects that are there have one type.

    Arrow would find a type that fits all of them: b"a" and "a" would become one id, and one person who is called 1.5
    would turn the 1 of another into 1.0.
    """
    kinds = _kinds(cells)
    if len(kinds) > 1 and "float" in kinds:  # pandas writes NaN for what is missing
        kinds = _kinds(cell for cell in cells if not (isinstance(cell, float | np.floating) and np.isnan(cell)))
    if "datetime" in kinds:
        times = (cell for cell in cells if isinstance(cell, dt.datetime) and type(cell).__name__ != "NaTType")
        if len({time.tzinfo is None for time in times}) > 1:
            raise DataError(f"{what}: some times have a time zone and some have none; give all of them one, or none")
    if len(kinds) > 1:
        raise DataError(
            f"{what}: ids of one type are needed, for instance all strings, not {' and '.join(sorted(kinds))}; convert "
            "them before they are read"
        )


def _big_integers(ids: Any, what: str) -> pa.Array:
    import pyarrow as pa

    try:
        return pa.array(list(ids), type=pa.uint64(), from_pandas=True)
    except (OverflowError, pa.ArrowInvalid, TypeError):
        raise DataError(f"{what}: integer ids must fit in 64 bits; give larger ones as strings") from None


def plain(array: pa.Array, what: str) -> pa.Array:
    """Undo encodings that change nothing about an id: dictionaries, views, 32-bit offsets, NaN for missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = array.type
    if isinstance(kind, pa.DictionaryType):
        array = decoded(array)
        kind = array.type
    if isinstance(kind, pa.ListType | pa.LargeListType | pa.StructType | pa.MapType):
        raise DataError(f"{what}: an id must be a single value, not {kind}")
    if pa.types.is_string(kind) or str(kind) == "string_view":
        return array.cast(pa.large_string())
    if pa.types.is_binary(kind) or str(kind) == "binary_view":
        return array.cast(pa.large_binary())
    if pa.types.is_decimal(kind):  # the precision is that of the longest number in sight
        return array.cast(pa.decimal128(38, kind.scale))
    if pa.types.is_floating(kind):
        return pc.if_else(pc.is_nan(array), pa.scalar(None, kind), array)
    return array


def decoded(array: pa.DictionaryArray) -> pa.Array:
    """A dictionary array spelt out; Arrow cannot do that itself where the dictionary is one of views."""
    import pyarrow as pa

    views = {"string_view": pa.large_string(), "binary_view": pa.large_binary()}
    values = array.dictionary
    values = values.cast(views.get(str(values.type), values.type))
    return pa.DictionaryArray.from_arrays(array.indices, values).dictionary_decode()


INTEGER = r"^(0|-?[1-9][0-9]{0,17})$"  # how an integer of 64 bits is written; "007" is not


def typed(array: pa.Array) -> pa.Array:
    """Ids of a public catalogue that was read from text: integers if all are written as integers are, else strings.

    The ids of people, and of items that are not in a catalogue, stay text: their type would depend on all of them.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    written = len(array) and pc.all(pc.match_substring_regex(array, INTEGER)).as_py()
    return array.cast(pa.int64()) if written else array


def sorted_order(array: pa.Array, *, written: bool = False) -> NDArray[np.int64]:
    """The places of ids in increasing order. Of ids `written` in a text file, integers come first, and 9 before 10.

    Which of two ids comes first depends on these two alone, so that nobody else's id changes it.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if written:
        integers = pc.if_else(pc.match_substring_regex(array, INTEGER), array, pa.scalar(None, array.type))
        table = pa.table({"integer": integers.cast(pa.int64()), "text": array})
        order = pc.sort_indices(table, sort_keys=[("integer", "ascending"), ("text", "ascending")])
    else:
        order = pc.array_sort_indices(storage(array))
    places: NDArray[np.int64] = order.to_numpy().astype(np.int64)
    return places


def storage(array: pa.Array) -> pa.Array:
    """The array that Arrow can hash and sort: that behind an extension type such as UUID."""
    import pyarrow as pa

    return array.storage if isinstance(array, pa.ExtensionArray) else array


def _common(left: pa.Array, right: pa.Array, what: str) -> tuple[pa.Array, pa.Array]:
    """Bring two id arrays to one type without loss, or say why that is impossible."""
    import pyarrow as pa

    if left.type == right.type:
        return left, right
    integers = pa.types.is_integer(left.type) and pa.types.is_integer(right.type)
    if integers or alike(left.type, right.type) or pa.types.is_null(left.type) or pa.types.is_null(right.type):
        for kind in (left.type, right.type, *((pa.int64(), pa.uint64()) if integers else ())):
            with contextlib.suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
                return left.cast(kind), right.cast(kind)
    text = pa.large_string()
    for one, other in ((left, right), (right, left)):
        if one.type == text and pa.types.is_integer(other.type):  # 7 of a table is "7" of a text file
            return (left, right.cast(text)) if one is left else (left.cast(text), right)
    raise cannot_be_compared(left.type, right.type, what)


def cannot_be_compared(left: pa.DataType, right: pa.DataType, what: str) -> DataError:
    """The error for ids of two types."""
    return DataError(
        f"{what}: ids of type {left} and of type {right} cannot be compared; convert one side, so that both are for "
        "instance strings"
    )


def alike(left: pa.DataType, right: pa.DataType) -> bool:
    """Whether two types are the same but for a width or a unit. A date is no time: 2020-01-01 is not its midnight."""
    import pyarrow as pa

    if pa.types.is_timestamp(left) and pa.types.is_timestamp(right):
        return (left.tz is None) == (right.tz is None)
    return any(kind(left) and kind(right) for kind in (pa.types.is_integer, pa.types.is_date, pa.types.is_time))


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
        import pyarrow.compute as pc

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

    def some(self, numbers: NDArray[Any]) -> Ids:
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

    def numbers(self, ids: Any, what: str = "ids") -> NDArray[np.int64]:
        """The numbers of many ids, -1 where an id is not among these."""
        import pyarrow.compute as pc

        asked = to_array(ids, what)
        if not len(asked) or not len(self):
            return np.full(len(asked), -1, dtype=np.int64)
        left, right = _common(self._array, asked, what)
        found = pc.index_in(storage(right), value_set=storage(left), skip_nulls=True)
        numbers: NDArray[np.int64] = pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        return numbers

    def take(self, numbers: NDArray[Any]) -> pa.Array:
        """The ids at the given numbers, repeated as asked."""
        import pyarrow as pa

        return self._array.take(pa.array(np.asarray(numbers)))

    def to_arrow(self) -> pa.Array:
        """The ids as an Arrow array."""
        return self._array

    def to_list(self) -> list[Any]:
        """The ids as Python objects."""
        values: list[Any] = self._array.to_pylist()
        return values

    def to_numpy(self) -> NDArray[Any]:
        """The ids as a NumPy array: numbers and dates in their own type, others as objects."""
        import pyarrow as pa

        if isinstance(self._array, pa.ExtensionArray):
            objects = np.empty(len(self), dtype=object)
            objects[:] = self._array.to_pylist()
            return objects
        array: NDArray[Any] = self._array.to_numpy(zero_copy_only=False)
        return array
