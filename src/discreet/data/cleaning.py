"""The rows of a table, checked cell by cell: ids, 32-bit values and times that a model can rely on."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from discreet.data import texts
from discreet.data.assembly import Rows
from discreet.data.catalogue import Catalogue, Ids
from discreet.data.cells import numpy_of, plain
from discreet.data.interactions import Interactions, Report, inner_range
from discreet.data.sources import Columns, RefusedRow
from discreet.data.texts import Mask
from discreet.errors import DataError
from discreet.typing import Array

MOST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Recipe:
    """How rows are read, wherever they are, and what to do with those that cannot be used. All of it is public."""

    columns: Columns
    items: Ids | None  # the catalog; None: the items that occur
    value_range: tuple[float, float] | None
    on_duplicate: str = "last"
    on_invalid: str = "raise"
    on_unknown: str = "raise"
    time_format: str | None = None
    names: tuple[str, ...] = ()  # of all columns, for messages

    def __post_init__(self) -> None:
        if self.implicit:
            if self.value_range not in (None, (0.0, 1.0)):
                others = ", ".join(repr(name) for name in self.names if name not in self.columns.names)
                raise DataError(
                    f"value_range={self.value_range}: there is no column of values, so every row counts 1 and the "
                    f"range is (0, 1). Name the column with value={others and f' ({others})'}, leave out value_range=, "
                    "or count with on_duplicate='sum'"
                )
        elif self.on_invalid == "clip" and self.value_range is None:
            raise DataError(
                "on_invalid='clip' has nothing to clip to without value_range=; give it, or pass on_invalid='drop'"
            )

    @property
    def implicit(self) -> bool:
        """Whether there is no column of values, so that a pair counts 1 however often it occurs."""
        return self.columns.value is None and self.on_duplicate != "sum"

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The value range of the result."""
        return (0.0, 1.0) if self.implicit else self.value_range

    def report(self, counts: Report, source: str) -> Report:
        """What happened, with where and how the rows were read."""
        return replace(counts, source=source, columns=self.columns.described(), guessed=self.columns.guessed)

    def require(self, counts: Report, hint: str = "", rows: Rows | None = None) -> None:
        """Raise if there were rows that a policy refuses, with an example if `rows` are given, or if none is left."""
        low, high = self.bounds or (-MOST, MOST)
        if not counts.rows:
            raise DataError(f"source: {counts.source} has no rows; check the path, the filter or the WHERE clause")
        if self.on_invalid == "raise" and counts.dropped:
            raise DataError(
                f"value: {counts.dropped} rows cannot be read, have no user, item, value or time, or a value that is "
                f"not finite or outside value_range=({low:g}, {high:g}). Correct them, or pass on_invalid='drop' to "
                "leave such rows out, or on_invalid='clip' to move them into value_range"
            )
        if self.on_unknown == "raise" and counts.unknown:
            about = "1 row is about an item" if counts.unknown == 1 else f"{counts.unknown:,} rows are about items"
            example = "" if rows is None else f", for instance {rows.example!r}"
            if self.items:
                example += f", while the catalog has ids such as {self.items[0]!r}"
            raise DataError(
                f"items: {about} outside the catalog{example}. Add what is missing to "
                "items=, or pass on_unknown='drop' to leave such rows out"
            )
        if self.on_duplicate == "raise" and counts.repeated:
            said = f"{counts.repeated} rows repeat a user and an item"
            if rows is not None and rows.pair is not None:
                said = f"user {rows.pair[0]!r} has item {rows.pair[1]!r} more than once"
            raise DataError(
                f"on_duplicate: {said}; pass on_duplicate='last' or another policy (first, mean, sum), or remove the "
                "repeats"
            )
        if self.on_invalid == "raise" and counts.outside:
            raise DataError(
                f"on_duplicate='sum': {counts.outside} sums lie outside value_range=({low:g}, {high:g}); declare a "
                "range for the sums, or pass on_invalid='clip' or on_invalid='drop'"
            )
        if not counts.kept:
            raise DataError(
                f"source: none of the {counts.rows} rows is left ({counts.dropped} dropped as invalid, "
                f"{counts.unknown} about unknown items); check value_range=, items= and the columns: "
                f"{self.columns.described()}{hint}"
            )


def _quoted(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"


@dataclass
class Cleaner:
    """Turns the cells of a batch into ids, 32-bit values and times that a model can rely on."""

    recipe: Recipe
    hint: str = ""  # a possible reason why cells are missing
    counts: Report = field(default_factory=Report)
    time_type: Any = None
    bad: Any = None  # which rows of the last batch are left out
    file: str = "ratings.csv"  # what is read, for messages

    def __call__(self, batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array, Any, Any]:
        """Return the users, items, values and times of the rows that are kept."""
        users, items = plain(batch.column(0), "user"), plain(batch.column(1), "item")
        missing = {"user": numpy_of(users.is_null()), "item": numpy_of(items.is_null())}
        values = times = None
        if self.recipe.columns.value is not None:
            values = self._numbers(plain(batch.column(2), "value"))
        if self.recipe.columns.time is not None:
            times, missing["time"] = self._times(plain(batch.columns[-1], "time"))
        bad = np.zeros(len(users), dtype=bool)
        for role, mask in missing.items():
            said = f"{role}: ROW has no {role}; pass on_invalid='drop' to leave such rows out{self.hint}"
            self._refuse(mask, said)
            bad |= mask
        if values is not None:
            values, unusable = self._settle(values, users, items)
            bad |= unusable
        self.bad = bad
        self.counts.rows += len(users)
        self.counts.dropped += int(bad.sum())
        if bad.any():
            keep = ~bad
            users, items = users.filter(keep), items.filter(keep)
            values, times = (None if column is None else column[keep] for column in (values, times))
        return users, items, values, times

    def _refuse(self, bad: Mask, message: str | Callable[[int], str]) -> None:
        """Raise about the first bad row, which the message calls ROW, unless such rows are left out."""
        if self.recipe.on_invalid == "raise" and bad.any():
            at = int(bad.argmax())
            row = self.counts.rows + at
            said = message if isinstance(message, str) else message(at)
            raise RefusedRow(said.replace("ROW", f"row {row + 1}", 1), row)

    def _settle(self, values: Array, users: pa.Array, items: pa.Array) -> tuple[NDArray[np.float32], Mask]:
        """Apply the policy to values that are missing, infinite or out of range; round to 32 bits."""
        declared, policy = self.recipe.value_range, self.recipe.on_invalid
        bounds = declared or (-MOST, MOST)
        if values.dtype == np.float32:  # where a bound such as 0.3 is a different number
            bounds = float(np.float32(bounds[0])), float(np.float32(bounds[1]))
        missing, outside = np.isnan(values), (values < bounds[0]) | (values > bounds[1])

        def message(at: int) -> str:
            why = "not finite" if declared is None else f"outside value_range=({declared[0]:g}, {declared[1]:g})"
            wrong = "no value" if missing[at] else f"the value {values[at]:g}, which is {why}"
            clip = "" if missing[at] else ", or on_invalid='clip' to move them into value_range"
            return (
                f"value: ROW (user {users[at].as_py()!r}, item {items[at].as_py()!r}) has {wrong}. Correct it, "
                f"or pass on_invalid='drop' to leave such rows out{clip}{self.hint}"
            )

        self._refuse(missing | outside, message)
        unusable = missing | outside if policy == "drop" else missing
        self.counts.clipped += int(outside.sum()) if policy == "clip" else 0
        # First within 64 bits, so that no NaN is cast; then within 32 bits.
        rounded = np.where(unusable, bounds[0], np.clip(values, *bounds)).astype(np.float32)
        return rounded if declared is None else np.clip(rounded, *inner_range(declared)), unusable

    def _numbers(self, column: pa.Array) -> Array:
        """The cells of the value column as floats, NaN where missing."""
        kind = column.type
        if pa.types.is_boolean(kind) or pa.types.is_null(kind):
            column = column.cast(pa.uint8())
        elif pa.types.is_decimal(kind) or pa.types.is_large_string(kind):
            column = column.cast(pa.large_string())  # Arrow does not round decimals to the nearest float
            parsed, wrong = texts.numbers(column)

            def message(at: int) -> str:
                cell = column[at].as_py()
                advice = "; correct it, name another column with value=, or pass on_invalid='drop' to leave it out"
                if re.fullmatch(r"\s*[-+]?\d+,\d+\s*", cell):
                    advice = f" because it has a decimal comma; instead of the file, give {self._with_commas()}"
                return f"value: ROW holds {cell!r}, which is not a number{advice}"

            self._refuse(wrong, message)
            return parsed
        elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise DataError(f"value: numbers are needed, but the column holds {kind}")
        found = numpy_of(column)
        return found if found.dtype == np.float32 else found.astype(np.float64)

    def _with_commas(self) -> str:
        """A query for a text file whose numbers have decimal commas."""
        names, value = self.recipe.names, self.recipe.columns.value
        types = ", ".join(f"{_quoted(name)}: '{'DOUBLE' if name == value else 'VARCHAR'}'" for name in names)
        return (
            f"\"SELECT * FROM read_csv({_quoted(self.file)}, auto_detect = false, quote = '', header = true, "
            f"delim = ';', decimal_separator = ',', columns = {{{types}}})\""
        )

    def _times(self, column: pa.Array) -> tuple[Array, Mask]:
        """Times as integers in the column's own unit, or floats, and where they are missing.

        The type of the result depends on the type of the column alone, not on other batches.
        """
        kind = column.type
        if pa.types.is_large_string(kind):
            self._require_time_type(pa.float64())
            found, wrong = texts.times(column, self.recipe.time_format)
            expected = self.recipe.time_format or "a number or ISO 8601 such as 2020-12-31T23:59:59"
            advice = (
                "Correct it, say how times are written with time_format= (for instance '%d/%m/%Y'), pass "
                "on_invalid='drop' to leave such rows out, or time=None to ignore times"
            )
            said = f"where {expected} is needed. {advice}"
            self._refuse(wrong, lambda at: f"time: ROW holds {column[at].as_py()!r}, {said}")
            return found, np.isnan(found)
        if self.recipe.time_format is not None:
            raise DataError(f"time_format: the times are not text, but {kind}; leave it out")
        if pa.types.is_null(kind):  # all missing, so the type is unknown
            return np.zeros(len(column)), np.ones(len(column), bool)
        if kind == pa.uint64() or pa.types.is_decimal(kind) or pa.types.is_floating(kind):
            self._require_time_type(pa.float64())
            numbers = column.cast(pa.large_string()) if pa.types.is_decimal(kind) else column
            return numpy_of(numbers.cast(pa.float64(), safe=False)), numpy_of(column.is_null())
        if not (kind == pa.int64() or pa.types.is_date32(kind) or pa.types.is_timestamp(kind)):
            raise DataError(
                f"time: numbers, dates or timestamps are needed, not {kind}; name another column with time=, or pass "
                "time=None to ignore times"
            )
        self._require_time_type(kind)
        numbers = (column.cast(pa.int32()) if pa.types.is_date32(kind) else column).cast(pa.int64())
        return numpy_of(numbers.fill_null(0)), numpy_of(column.is_null())

    def _require_time_type(self, kind: pa.DataType) -> None:
        if self.time_type not in (None, kind):
            raise DataError(f"time: it changes from {self.time_type} to {kind} within the table; make it one type")
        self.time_type = kind

    def finish(self, rows: Rows, catalogue: Catalogue) -> Interactions:
        """The finished table. Sums outside the value range, or too large for 32 bits, are dropped or clipped."""
        recipe, arrays = self.recipe, (rows.indptr, rows.indices, rows.values, rows.times)
        ratings = Interactions(rows.users, catalogue, *arrays, recipe.bounds, recipe.implicit, time_type=self.time_type)
        self.counts.unknown, self.counts.repeated = rows.unknown, rows.repeated
        low, high = recipe.value_range or (-MOST, MOST)
        outside = (ratings.values < low) | (ratings.values > high)
        if recipe.on_duplicate != "sum" or not outside.any():
            return ratings
        self.counts.outside = int(outside.sum())
        if recipe.on_invalid == "clip":
            return replace(ratings, values=np.clip(ratings.values, *inner_range((low, high))))
        part = ratings.where(~outside)
        return part.of_users(np.flatnonzero(np.diff(part.indptr)))
