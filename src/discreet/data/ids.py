"""Ids of any type: kept as the caller's, numbered inside.

The rest of the library works with numbers 0..n-1. This module is the only place that knows what an id is:
integers, strings, UUIDs, dates, anything that Arrow can hold, compare and hash.
"""

from __future__ import annotations

import contextlib
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


def to_array(ids: Any, what: str) -> pa.Array:
    """Make one Arrow array of ids from a list, an array, a series or an Arrow array, in its plain type."""
    import pyarrow as pa

    try:
        if isinstance(ids, pa.ChunkedArray):
            array = ids.combine_chunks()
        elif isinstance(ids, pa.Array):
            array = ids
        elif hasattr(ids, "__arrow_c_stream__"):
            array = pa.chunked_array(ids).combine_chunks()
        elif isinstance(ids, np.ndarray):
            array = pa.array(ids)
        else:
            array = pa.array(_python_list(ids, what), from_pandas=True)
    except OverflowError:
        array = _big_integers(ids, what)
    except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError) as error:
        raise DataError(f"{what}: ids of one type are needed, for instance all strings: {error}") from None
    return plain(array, what)


def _python_list(ids: Any, what: str) -> list[Any]:
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise DataError(f"{what}: a list of ids was expected, not {ids!r}")
    return list(ids)


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


def typed(array: pa.Array) -> pa.Array:
    """Give ids read from text their type: integers if every one is written as an integer is, else strings.

    Blanks around an id, as after the commas of "1, 2", are not part of it.

    "007" is not how an integer is written, so it stays a string, and so does every id beside it: reading
    never merges two ids into one, and does not depend on which rows happen to come first.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    array = _stripped(array)
    written = pc.match_substring_regex(array, r"^(0|-?[1-9][0-9]{0,18})$")
    if len(array) and pc.all(written).as_py():
        try:
            return array.cast(pa.int64())
        except pa.ArrowInvalid:  # beyond 64 bits
            pass
    return array


def _stripped(array: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    stripped = pc.utf8_trim(array, " \t")
    if stripped.equals(array):
        return array
    if pc.count_distinct(stripped).as_py() < pc.count_distinct(array).as_py():
        counts = pc.value_counts(pc.utf8_trim(pc.unique(array), " \t"))
        merged = counts.field("values").filter(pc.greater(counts.field("counts"), 1))[0].as_py()
        raise DataError(
            f"the id {merged!r} is written with and without blanks around it, which may or may not be one id; remove "
            "the blanks, or read the file with a SELECT that says so: trim(column) AS item"
        )
    return stripped


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
    temporal = pa.types.is_temporal(left.type) and pa.types.is_temporal(right.type)
    if integers or temporal or pa.types.is_null(left.type) or pa.types.is_null(right.type):
        for kind in (left.type, right.type, *((pa.int64(), pa.uint64()) if integers else ())):
            with contextlib.suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
                return left.cast(kind), right.cast(kind)
    raise DataError(
        f"{what}: ids of type {left.type} and of type {right.type} cannot be compared; "
        "convert one side, so that both are for instance strings"
    )


class Ids(Sequence[Any]):
    """Distinct ids in a fixed order. The number of an id is its position; ids come back in their own type."""

    def __init__(self, ids: Any, what: str = "ids") -> None:
        array = to_array(ids, what)
        if array.null_count:
            raise DataError(f"{what}: {array.null_count} ids are missing; remove them")
        self._array = array

    def require_distinct(self, what: str) -> Ids:
        """Return self, or raise a DataError that names an id given twice."""
        import pyarrow.compute as pc

        counts = pc.value_counts(storage(self._array))
        twice = counts.field("counts").to_numpy(zero_copy_only=False) > 1
        if twice.any():
            first = int(np.flatnonzero(twice)[0])
            shown = counts.field("values")[first].as_py()
            raise DataError(f"{what}: {int(twice.sum())} ids are given more than once, for instance {shown!r}")
        return self

    def __len__(self) -> int:
        return len(self._array)

    @overload
    def __getitem__(self, at: int) -> Any: ...
    @overload
    def __getitem__(self, at: slice) -> Ids: ...
    def __getitem__(self, at: int | slice) -> Any:
        if isinstance(at, slice):
            return Ids(self._array[at])
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
        """The number of one id; KeyError when there is none."""
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
