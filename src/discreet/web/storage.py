"""Arrays in one file that a browser reads: raw little-endian numbers, each array at a multiple of eight bytes.

Tables may be kept as float16, or as int8 with one factor for each row and one for each column: x_jk = q_jk * row_j *
column_k. Columns of very different sizes, and items of very different lengths, then keep about the same precision.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from discreet.errors import DataError
from discreet.typing import Array

Precision = Literal["float32", "float16", "int8"]

STEPS = 127  # of an int8, on either side of zero
LARGEST = 60_000.0  # that a float16 can be


def require_precision(precision: str) -> None:
    """Raise unless this is a precision that tables can have."""
    if precision not in get_args(Precision):
        raise DataError(f"precision: one of {', '.join(get_args(Precision))} is needed, not {precision!r}")


@dataclass
class Pack:
    """Arrays that go into one file.

    Attributes:
        entries: Where each array is: dtype, shape, offset, and for int8 the names of its factors.
        content: The bytes so far.
    """

    entries: dict[str, dict[str, Any]] = field(default_factory=dict)
    content: bytearray = field(default_factory=bytearray)

    def add(self, name: str, array: Array, dtype: str = "float32") -> Array:
        """Store an array; gives it back as a reader will see it."""
        with np.errstate(over="ignore"):  # what overflows is found below
            stored = np.ascontiguousarray(array, np.dtype(dtype).newbyteorder("<"))
        if not np.isfinite(stored).all():
            raise DataError(f"model: its {name} has numbers that are not finite, or too large for {dtype}")
        self.content.extend(bytes(-len(self.content) % 8))
        self.entries[name] = {"dtype": dtype, "shape": list(stored.shape), "offset": len(self.content)}
        self.content.extend(stored.tobytes())
        return stored.astype(np.float64)

    def add_table(self, name: str, table: Array, precision: str) -> Array:
        """Store a table with less precision; gives it back as a reader will see it."""
        if precision == "int8":
            return self._add_bytes(name, table)
        if precision == "float16" and table.size and float(np.abs(table).max()) > LARGEST:
            raise DataError(f"precision: the numbers of {name} are too large for float16; use float32 or int8")
        return self.add(name, table, precision)

    def _add_bytes(self, name: str, table: Array) -> Array:
        columns = self.add(f"{name}_column", _nonzero(np.sqrt(np.mean(np.square(table, dtype=np.float64), axis=0))))
        scaled = table / columns
        rows = self.add(f"{name}_row", _nonzero(np.abs(scaled).max(axis=1, initial=0.0) / STEPS))
        steps = self.add(name, np.clip(np.rint(scaled / rows[:, None]), -STEPS, STEPS), "int8")
        self.entries[name]["factors"] = [f"{name}_row", f"{name}_column"]
        restored: Array = steps * rows[:, None] * columns
        return restored


def _nonzero(sizes: Array) -> Array:
    """Sizes to divide by: a row or a column of zeros is as good with any."""
    return np.where(sizes > 1e-30, sizes, 1.0)
