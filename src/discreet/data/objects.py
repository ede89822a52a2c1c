"""Cells that are Python objects: rows of tuples, of a database's driver, columns of objects in a data frame.

Arrow finds a type that fits all objects of a column, so that what becomes of one would depend on the others: b"a" and
"a" would be one id, and one person who is called 1.5 would turn the 1 of another into 1.0. So ids and times must have
one type, and values are made numbers one by one.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from discreet.errors import DataError

# Subclasses before the classes they are derived from: a bool is an int, a datetime is a date.
KINDS: tuple[tuple[type, ...], ...] = (
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
MISSING = ("NoneType", "NAType", "NaTType")
NUMBERS = {"bool", "int", "float", "Decimal"}


def _kinds(cells: Iterable[Any]) -> set[str]:
    """The types of what is not missing, in a word each."""
    types = {of for of in set(map(type, cells)) if of.__name__ not in MISSING}
    kinds = {next((kinds[0].__name__ for kinds in KINDS if issubclass(of, kinds)), of.__name__) for of in types}
    return kinds | ({"datetime64"} if any(issubclass(of, np.datetime64) for of in types) else set())


def require_one_type(cells: Sequence[Any], what: str) -> None:
    """Raise unless all Python objects that are there have one type, and are what Arrow can hold without loss."""
    kinds = _kinds(cells)
    if len(kinds) > 1 and "float" in kinds:  # pandas writes NaN for what is missing
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
            "them before they are read"
        )


def to_values(cells: Sequence[Any], what: str) -> pa.Array:
    """Values as numbers, made of each object by itself; or as text, if all are text."""
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
    return pa.array([_number(cell) for cell in cells], pa.float64())


def _number(cell: Any) -> float | None:
    if type(cell).__name__ in MISSING or (isinstance(cell, decimal.Decimal) and cell.is_nan()):
        return None
    try:
        return float(cell)
    except OverflowError:  # an integer beyond all floats
        return math.inf if cell > 0 else -math.inf


def is_utf8(text: bytes) -> bool:
    """Whether bytes are text."""
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
