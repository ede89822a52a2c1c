"""Cells of any type, such as Python objects or columns of a data frame, as Arrow arrays in plain types.

What a cell becomes depends on the cell and on the type of its column, never on other cells (docs/proofs/reading.md).
"""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import math
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from discreet.errors import DataError
from discreet.typing import Array

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
