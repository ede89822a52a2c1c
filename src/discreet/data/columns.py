"""Which column is what, and what its cells may hold."""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from discreet.data import parsing
from discreet.data.ids import plain
from discreet.data.parsing import Mask
from discreet.errors import DataError
from discreet.typing import Array


class Guess(enum.Enum):
    """The default of a column argument: look for one of the usual names; None means that there is none."""

    GUESS = enum.auto()

    def __repr__(self) -> str:
        return "guess"


GUESS = Guess.GUESS

# In order of preference. Compared without case, punctuation and a trailing "id".
USUAL_NAMES: dict[str, tuple[str, ...]] = {
    "user": ("user", "uid", "u", "customer", "consumer", "member", "visitor", "client", "account", "person",
             "reader", "listener", "reviewer", "profile", "username"),
    "item": ("item", "iid", "i", "movie", "film", "product", "place", "song", "track", "artist", "album",
             "book", "isbn", "joke", "asin", "sku", "article", "business", "restaurant", "game", "app",
             "video", "show", "anime", "recipe", "url", "page"),
    "value": ("rating", "ratings", "value", "score", "stars", "star", "overall", "grade", "weight", "count",
              "plays", "playcount", "preference", "r"),
    "time": ("timestamp", "time", "ts", "datetime", "date", "createdat", "ratedat", "unixreviewtime"),
}  # fmt: skip
ROLES = ("user", "item", "value", "time")
REQUIRED = ROLES[:2]
BY_SELECT = (
    "discreet.read(\"SELECT * FROM read_csv('ratings.csv', auto_detect = false, quote = '', header = true, "
    "delim = ';', decimal_separator = ',', columns = {'user': 'VARCHAR', 'item': 'VARCHAR', 'rating': 'DOUBLE'})\")"
)
MOST = float(np.finfo(np.float32).max)
KEYS = {"user": "user", "item": "item", "value": "rating", "time": None}  # of JSON lines, unless others are named
NO_HEADER = (
    ". (JSON lines have no header to guess from: unless others are named, the keys are user, item and rating; name "
    "them with user=, item= and value=, or pass value=None if there are no ratings)"
)


def _key(name: str) -> str:
    return re.sub(r"[^0-9a-z]", "", name.lower())


def guess(role: str, names: Sequence[str]) -> str | None:
    """The column that by its name plays a role, or None."""
    keys = {_key(name): name for name in reversed(names)}
    for usual in USUAL_NAMES[role]:
        for key in (usual, f"{usual}id") if role in REQUIRED else (usual,):
            if key in keys:
                return keys[key]
    return None


@dataclass(frozen=True)
class Wanted:
    """What to read of a table: which columns, and which of them are ids or the value."""

    names: list[str]
    ids: tuple[str, ...]
    value: str | None = None
    lenient: bool = False  # whether a line of text that cannot be read is a row of nulls, not an error


@dataclass(frozen=True)
class Columns:
    """The name of the column behind each role; `value` None means that every row counts 1."""

    user: str
    item: str
    value: str | None
    time: str | None
    guessed: tuple[str, ...] = ()

    def wanted(self, lenient: bool = False) -> Wanted:
        """The columns to read, in the order of the roles."""
        return Wanted(self.names, (self.user, self.item), self.value, lenient)

    @property
    def names(self) -> list[str]:
        """The names of the columns, in the order of the roles."""
        return [name for name in (self.user, self.item, self.value, self.time) if name is not None]

    @property
    def plainly_named(self) -> bool:
        """Whether the columns have names that leave no doubt: those of this library, or those of MovieLens."""
        plain_names = ("user", "item", "rating", "value", "timestamp", "time", "userId", "movieId")
        return all(name in plain_names for name in self.names)

    def said(self, roles: Sequence[str] = ROLES) -> str:
        """The columns behind some roles, in words."""
        named = {role: name for role in roles if (name := getattr(self, role)) is not None}
        words = [f"{name!r} as {role}" for role, name in named.items()]
        if "value" in roles and self.value is None:
            words.append("no value (every row counts 1)")
        return ", ".join(words)

    def __str__(self) -> str:
        return self.said()


def choose(names: Sequence[str] | None, **given: str | Guess | None) -> Columns:
    """Settle the four roles from what the caller said and, where nothing was said, from the usual names.

    JSON lines have no header. What keys there are depends on the rows, so that none is guessed from them.
    """
    if names is None:
        keys = {role: KEYS[role] if isinstance(name, Guess) else name for role, name in given.items()}
        names, given = [key for key in keys.values() if key is not None], dict(keys)
    listed = ", ".join(map(repr, names))
    chosen: dict[str, str | None] = {}
    guessed: list[str] = []
    for role, name in given.items():
        if isinstance(name, Guess):
            taken = {column for column in given.values() if isinstance(column, str)}
            chosen[role] = guess(role, [column for column in names if column not in taken])
            if role != "time" or chosen[role] is not None:  # that there are no times is no guess
                guessed += [role]
        elif name is not None and name not in names:
            raise DataError(f"{role}={name!r}: there is no such column; the columns are {listed}")
        else:
            chosen[role] = name
        if role in REQUIRED and chosen[role] is None:
            raise DataError(
                f"{role}: no column has a usual name for it; pass {role}=, one of {listed}. (If these are not "
                "names but data, the file has no header line: read it with a SELECT that names its columns)"
            )
    used = [name for name in chosen.values() if name is not None]
    if len(set(used)) < len(used):
        raise DataError(f"user, item, value and time must be different columns, not {', '.join(used)}")
    return Columns(chosen["user"] or "", chosen["item"] or "", chosen["value"], chosen["time"], tuple(guessed))


def check_range(value_range: Any) -> tuple[float, float]:
    """Check a public value range and return it as two floats."""
    try:
        bounds = [value_range] if isinstance(value_range, str | bytes) else value_range  # "15" is no pair
        low, high = (float(bound) for bound in bounds)
    except (TypeError, ValueError):
        raise DataError(f"value_range: two numbers (lowest, highest) are needed, not {value_range!r}") from None
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise DataError(f"value_range: lowest < highest, both finite, are needed, not ({low:g}, {high:g})")
    inner_low, inner_high = inner_range((low, high))
    if not inner_low < inner_high:
        raise DataError(f"value_range: ({low!r}, {high!r}) is too narrow for 32-bit values")
    return low, high


def inner_range(value_range: tuple[float, float]) -> tuple[np.float32, np.float32]:
    """The widest range of 32-bit floats inside a range, so that rounding never leads out of it."""
    with np.errstate(over="ignore"):
        low, high = np.float32(value_range[0]), np.float32(value_range[1])
    if float(low) < value_range[0]:
        low = np.nextafter(low, np.float32(np.inf))
    if float(high) > value_range[1]:
        high = np.nextafter(high, np.float32(-np.inf))
    return low, high


@dataclass
class Cleaner:
    """Turns the cells of a batch into ids, 32-bit values and times that a model can rely on."""

    columns: Columns
    on_invalid: str
    value_range: tuple[float, float] | None
    time_format: str | None = None
    hint: str = ""  # what may be the reason that cells are missing
    rows: int = 0  # seen so far
    dropped: int = 0
    clipped: int = 0
    time_type: Any = None

    def __call__(self, batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array, Any, Any]:
        """Return users, items, values, times of the rows that stay."""
        users, items = plain(batch.column(0), "user"), plain(batch.column(1), "item")
        values = None if self.columns.value is None else self._numbers(batch.column(2))
        times, untimed = (None, None) if self.columns.time is None else self._times(batch.columns[-1])
        bad = self._missing(users, items, untimed)
        if values is not None:
            values, bad = self._settle(values, bad, users, items)
        self.rows += len(users)
        if bad is not None and bad.any():
            self.dropped += int(bad.sum())
            keep = ~bad
            users, items = users.filter(keep), items.filter(keep)
            values = None if values is None else values[keep]
            times = None if times is None else times[keep]
        return users, items, values, times

    def _row(self, mask: Mask) -> tuple[int, int]:
        """The first true entry of a mask: its place in this batch, and the number of its row, from 1."""
        at = int(np.flatnonzero(mask)[0])
        return at, self.rows + at + 1

    def _missing(self, users: pa.Array, items: pa.Array, untimed: Mask | None) -> Mask | None:
        bad = None
        missing: dict[str, Mask] = {
            role: ids.is_null().to_numpy(zero_copy_only=False)
            for role, ids in (("user", users), ("item", items))
            if ids.null_count
        }
        if untimed is not None and untimed.any():
            missing["time"] = untimed
        for role, mask in missing.items():
            if self.on_invalid == "raise":
                raise DataError(
                    f"{role}: it is missing in row {self._row(mask)[1]}; pass on_invalid='drop' to leave such rows "
                    f"out{self.hint}"
                )
            bad = mask if bad is None else bad | mask
        return bad

    def _settle(
        self, values: Array, bad: Mask | None, users: pa.Array, items: pa.Array
    ) -> tuple[NDArray[np.float32], Mask | None]:
        """Apply the policy to values that are missing, infinite or out of range; round to 32 bits."""
        bounds = self.value_range or (-MOST, MOST)
        if values.dtype == np.float32:  # in which a bound such as 0.3 is another number
            bounds = float(np.float32(bounds[0])), float(np.float32(bounds[1]))
        if len(values) and not (values.min() >= bounds[0] and values.max() <= bounds[1]):
            missing = np.isnan(values)
            outside = (values < bounds[0]) | (values > bounds[1])
            if self.on_invalid == "raise":
                at, row = self._row(missing | outside)
                why = "not finite" if self.value_range is None else f"outside value_range={self.value_range}"
                wrong = "missing" if missing[at] else f"{values[at]:g}, which is {why}"
                raise DataError(
                    f"value: row {row} (user {users[at].as_py()!r}, item {items[at].as_py()!r}) is {wrong}. Correct "
                    "it, or pass on_invalid='drop' to leave such rows out or 'clip' to move them into "
                    f"value_range{self.hint}"
                )
            drop = missing | outside if self.on_invalid == "drop" else missing
            if self.on_invalid == "clip":
                self.clipped += int(outside.sum())
            bad = drop if bad is None else bad | drop
            values = np.where(drop, bounds[0], np.clip(values, *bounds))  # no NaN is cast below
        rounded = values.astype(np.float32)
        if self.value_range is not None:
            np.clip(rounded, *inner_range(self.value_range), out=rounded)
        return rounded, bad

    def _numbers(self, column: pa.Array) -> Array:
        """The cells of the value column as floats, NaN where missing."""
        column = plain(column, "value")
        kind = column.type
        if pa.types.is_boolean(kind) or pa.types.is_null(kind):
            column = column.cast(pa.uint8())
        elif pa.types.is_decimal(kind) or pa.types.is_large_string(kind):
            column = column.cast(pa.large_string())  # of a decimal: Arrow does not round to the nearest float
            parsed, wrong = parsing.numbers(column)
            if wrong is not None and self.on_invalid == "raise":
                at, row = self._row(wrong)
                cell = column[at].as_py()
                advice = "; correct it, name another column with value=, or pass on_invalid='drop' to leave it out"
                if re.fullmatch(r"\s*[-+]?\d+,\d+\s*", cell):
                    advice = f" because it has a decimal comma; read it with a SELECT, {BY_SELECT}"
                raise DataError(f"value: row {row} holds {cell!r}, which is not a number{advice}")
            return parsed
        elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise DataError(f"value: numbers are needed, but the column holds {kind}")
        found: Array = column.to_numpy(zero_copy_only=False)
        return found if found.dtype == np.float32 else found.astype(np.float64)

    def _times(self, column: pa.Array) -> tuple[Array, Mask]:
        """Times as integers in the column's own unit, or floats, and where they are missing.

        Each type of column has one type of times: nothing is cast to the type of another batch.
        """
        column = plain(column, "time")
        kind = column.type
        if pa.types.is_large_string(kind):
            self._require_time_type(pa.float64())
            return self._written_times(column)
        if self.time_format is not None:
            raise DataError(f"time_format: the times are not text, but {kind}; leave it out")
        if pa.types.is_null(kind):  # nothing but missing times, which say nothing of their type
            return np.zeros(len(column)), np.ones(len(column), bool)
        missing: Mask = column.is_null().to_numpy(zero_copy_only=False)
        if kind == pa.uint64() or pa.types.is_decimal(kind) or pa.types.is_floating(kind):
            self._require_time_type(pa.float64())
            column = column.cast(pa.large_string()) if pa.types.is_decimal(kind) else column
            return column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), missing
        if not (kind == pa.int64() or pa.types.is_date32(kind) or pa.types.is_timestamp(kind)):
            raise DataError(
                f"time: numbers, dates or timestamps are needed, not {kind}; name another column with time=, or pass "
                "time=None to do without"
            )
        self._require_time_type(kind)
        column = (column.cast(pa.int32()) if pa.types.is_date32(kind) else column).cast(pa.int64())
        return column.fill_null(0).to_numpy(zero_copy_only=False), missing

    def _require_time_type(self, kind: pa.DataType) -> None:
        if self.time_type not in (None, kind):
            raise DataError(f"time: it changes from {self.time_type} to {kind} within the table; make it one type")
        self.time_type = kind

    def _written_times(self, column: pa.Array) -> tuple[Array, Mask]:
        found, wrong = parsing.times(column, self.time_format)
        if wrong is not None and self.on_invalid == "raise":
            at, row = self._row(wrong)
            expected = self.time_format or "a number or ISO 8601 such as 2020-12-31T23:59:59"
            raise DataError(
                f"time: row {row} holds {column[at].as_py()!r}, where {expected} is needed. Correct it, say how times "
                "are written with time_format= (for instance '%d/%m/%Y'), pass on_invalid='drop' to leave such rows "
                "out, or time=None to do without"
            )
        return found, np.isnan(found)
