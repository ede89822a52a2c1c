"""Interactions: the one form in which models get private data, in memory or in a folder on disk."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from discreet.data.catalogue import (
    CHOSEN,
    OBSERVED,
    PRIVATE,
    Catalogue,
    Ids,
    observed_items_are_public,
    smallest_unsigned,
    to_library,
)
from discreet.errors import DataError, NotPublic
from discreet.typing import Array, Integers

ARRAYS = ("indptr", "indices", "values", "times")
COUNTS = ("rows", "dropped", "clipped", "unknown", "repeated", "outside", "kept")  # of a report
Allocate = Callable[[str, int, Any], Array]  # name, length, dtype


def check_range(value_range: Any) -> tuple[float, float]:
    """Check a public value range and return it as two floats."""
    try:
        bounds = [value_range] if isinstance(value_range, str | bytes) else value_range  # "15" is not a pair
        low, high = (float(bound) for bound in bounds)
    except (TypeError, ValueError):
        raise DataError(f"value_range: two numbers (lowest, highest) are needed, not {value_range!r}") from None
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise DataError(
            f"value_range: the lowest value must be below the highest, and both finite, not ({low:g}, {high:g})"
        )
    if not np.less(*inner_range((low, high))):
        raise DataError(f"value_range: ({low!r}, {high!r}) is too narrow for 32-bit values")
    return low, high


def inner_range(value_range: tuple[float, float]) -> tuple[np.float32, np.float32]:
    """The widest range of 32-bit floats inside a range: rounding never leads out of it."""
    with np.errstate(over="ignore"):
        low, high = np.float32(value_range[0]), np.float32(value_range[1])
    if float(low) < value_range[0]:
        low = np.nextafter(low, np.float32(np.inf))
    if float(high) > value_range[1]:
        high = np.nextafter(high, np.float32(-np.inf))
    return low, high


@dataclass
class Report:
    """What happened when a table was read: exact numbers about private data, for the owner."""

    source: str = "made in memory"
    columns: str = ""
    guessed: tuple[str, ...] = ()
    rows: int = 0
    dropped: int = 0
    clipped: int = 0
    unknown: int = 0
    repeated: int = 0
    outside: int = 0  # sums outside the value range
    kept: int = 0
    library: str | None = None


class Description(dict[str, Any]):
    """Exact numbers about private data, for the owner's eyes. Prints as a table."""

    def __str__(self) -> str:
        width = max(map(len, self), default=0)
        lines = [f"{name:<{width}}  {_shown(value)}" for name, value in self.items()]
        return "\n".join(["For the owner's eyes: exact numbers about private data.", *lines])

    __repr__ = __str__


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_shown(part)}" for name, part in value.items())
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


@dataclass(frozen=True)
class ByItem:
    """The same interactions item by item: item i's users are indices[indptr[i]:indptr[i + 1]], increasing."""

    indptr: Integers
    indices: Array
    values: NDArray[np.float32]


def ranks(indptr: Array, *keys: Array) -> Array:
    """The place of each entry in its row, from 0, by increasing key: the last key, then the one before it, ..."""
    counts = np.diff(indptr)
    order = np.lexsort((*keys, np.repeat(np.arange(len(counts)), counts)))
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order)) - np.repeat(indptr[:-1], counts)
    return places


def is_spark(thing: Any) -> bool:
    """Whether this is a Spark DataFrame."""
    return type(thing).__module__.startswith("pyspark.sql.") and type(thing).__name__ == "DataFrame"


class Declared:
    """What the owner of a table has declared public, wherever its rows are."""

    catalogue: Catalogue
    value_range: tuple[float, float] | None
    implicit: bool

    @property
    def n_items(self) -> int:
        """How many items the catalog has, rated or not."""
        return len(self.catalogue)

    @property
    def items(self) -> Ids:
        """The items' ids, in their own type."""
        return self.catalogue.ids

    @property
    def public_inputs(self) -> dict[str, str]:
        """What the owner has declared public, in words, for the privacy statement."""
        declared = {}
        released = self.catalogue.origin in (PRIVATE, CHOSEN)  # or will be: not an input
        if self.catalogue.origin is not None and not released:
            declared["items"] = f"{self.n_items:,} items, {self.catalogue.origin}"
        if self.value_range is not None:
            low, high = self.value_range
            declared["value_range"] = f"{low:g} to {high:g}" + (", every interaction counts 1" * self.implicit)
        return declared

    def require_public(self) -> None:
        """Raise NotPublic unless catalog and value range have been declared. Every private fit calls this."""
        self.catalogue.require_public()
        self.require_range()

    def require_range(self) -> None:
        """Raise NotPublic unless the value range has been declared."""
        if self.value_range is None:
            raise NotPublic(
                "value_range: the lowest and highest possible value have not been declared, and must not be read "
                "off private data. Either pass value_range=(lowest, highest) to discreet.read, or declare it "
                "afterwards with ratings.with_public(value_range=(lowest, highest))"
            )


@dataclass(frozen=True, eq=False, repr=False)
class Interactions(Declared):
    """A table of users, items and values, checked and numbered; each (user, item) pair at most once.

    Made by `discreet.read`, a generator or a data set. Users are numbered in sorted order of their ids, items
    in the order of the catalog. User u's items are `indices[indptr[u]:indptr[u + 1]]`, increasing, and
    `values` is aligned with them.

    Example:
        >>> import discreet
        >>> rows = [("ann", "tea", 5), ("bob", "tea", 2), ("bob", "milk", 4)]
        >>> table = discreet.read(rows, items=["milk", "tea", "water"], value_range=(1, 5))
        >>> table
        Interactions(3 of 2 users and 3 items)
        >>> table.history("bob")
        {'milk': 4.0, 'tea': 2.0}
        >>> table.to_scipy().toarray()
        array([[0., 5., 0.],
               [4., 2., 0.]], dtype=float32)

    Attributes:
        users: The users' ids, in their own type.
        catalogue: The items, and what is publicly known about them.
        indptr: 64-bit offsets, one more than users.
        indices: Item numbers, in the smallest integer type that fits.
        values: 32-bit floats: finite, and within `value_range` where one is declared.
        times: Times aligned with the values (in the unit of the source), or None.
        value_range: The public range of values, or None if it has not been declared.
        implicit: Whether every interaction counts 1, because there are no values.
        report: What happened when the table was read.
    """

    users: Ids
    catalogue: Catalogue
    indptr: Integers
    indices: Array
    values: NDArray[np.float32]
    times: Array | None = None
    value_range: tuple[float, float] | None = None
    implicit: bool = False
    report: Report = field(default_factory=Report)
    time_type: Any = None

    def __post_init__(self) -> None:
        lengths = {len(array) for array in (self.indices, self.values, self.times) if array is not None}
        if len(lengths) != 1 or len(self.indptr) != self.n_users + 1 or int(self.indptr[-1]) not in lengths:
            raise DataError(
                f"indptr, indices, values: arrays of {len(self.indptr)}, {len(self.indices)} and {len(self.values)} "
                f"entries do not fit {self.n_users} users; make Interactions with discreet.read"
            )
        self.users.require_distinct("users")  # a person with two rows would count twice
        for name in ARRAYS:  # shared by all parts of a table, so never written to
            if getattr(self, name) is not None:
                view = getattr(self, name).view()
                view.flags.writeable = False
                object.__setattr__(self, name, view)

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def n_users(self) -> int:
        """How many users."""
        return len(self.users)

    def __repr__(self) -> str:
        items = "private items" if self.catalogue.private else f"{self.n_items:,} items"
        return f"Interactions({len(self):,} of {self.n_users:,} users and {items})"

    def __eq__(self, other: object) -> bool:
        """Same users, catalog, values, times and declared range; the source does not count."""
        if not isinstance(other, Interactions):
            return NotImplemented
        return (
            self.users == other.users
            and self.catalogue == other.catalogue
            and self.value_range == other.value_range
            and all(np.array_equal(getattr(self, name), getattr(other, name)) for name in ARRAYS)
        )

    __hash__ = None  # type: ignore[assignment]  # compared by content

    # Public inputs

    def with_public(self, *, items: Any = None, value_range: Any = None) -> Interactions:
        """Declare public inputs after reading.

        Args:
            items: `discreet.observed_items_are_public`, a catalog that has every item of the data, or "private".
            value_range: The lowest and highest possible value; values outside it are an error.
        """
        changed = self
        if items is not None and self.catalogue.selection is not None:
            raise DataError(
                "items: they come from a private choice, which makes them public, and every guarantee for this table "
                "must include it; to declare others, read the table again"
            )
        if items is observed_items_are_public:
            changed = replace(changed, catalogue=self.catalogue.of_origin(OBSERVED))
        elif isinstance(items, str) and items == PRIVATE:
            changed = replace(changed, catalogue=Catalogue(self.items, origin=PRIVATE))
        elif items is not None:
            changed = changed._on(Catalogue.read(items))
        if value_range is not None:
            low, high = check_range(value_range)
            outside = int(((self.values < low) | (self.values > high)).sum())
            if outside:
                raise DataError(
                    f"value_range: {outside} values lie outside ({low:g}, {high:g}); read the table with this "
                    "range and on_invalid='clip' or on_invalid='drop'"
                )
            changed = replace(changed, value_range=(low, high))
        return changed

    def _on(self, catalogue: Catalogue) -> Interactions:
        """The same interactions over another catalog that has all their items."""
        moved = catalogue.ids.numbers(self.items.to_arrow(), "items")[self.indices]
        if (moved < 0).any():
            raise DataError("items: the data has items outside this catalog; read it with on_unknown='drop'")
        order = np.lexsort((moved, self.user_numbers()))
        indices = moved[order].astype(smallest_unsigned(len(catalogue)))
        return self._entries(order, catalogue=catalogue, indices=indices)

    def _entries(self, at: Array, **changed: Any) -> Interactions:
        """The interactions at some positions, or where a mask is true."""
        times = None if self.times is None else self.times[at]
        return replace(self, **{"indices": self.indices[at], "values": self.values[at], "times": times, **changed})

    def ranks(self, keys: Array) -> Array:
        """The place of each interaction among those of its user, by increasing key; equal ones as they are stored."""
        return ranks(self.indptr, keys)

    # Other forms

    def user_numbers(self) -> Array:
        """The user number of each interaction: `indptr` written out, aligned with `indices`."""
        kind = smallest_unsigned(self.n_users)
        return np.repeat(np.arange(self.n_users, dtype=kind), np.diff(self.indptr))

    @cached_property
    def by_item(self) -> ByItem:
        """The transposed table, computed once."""
        columns = self.to_scipy().tocsc()
        return ByItem(
            columns.indptr.astype(np.int64), columns.indices.astype(smallest_unsigned(self.n_users)), columns.data
        )

    def to_scipy(self) -> Any:
        """A scipy CSR matrix of users by items, of the class that implicit takes (it warns about arrays)."""
        from scipy.sparse import csr_matrix

        kind = np.int32 if max(len(self), self.n_items) < 2**31 else np.int64
        parts = (self.values, self.indices.astype(kind), self.indptr.astype(kind))
        return csr_matrix(parts, shape=(self.n_users, self.n_items))

    def to_arrow(self) -> pa.Table:
        """An Arrow table with the columns user, item, rating and, where there are times, timestamp."""
        columns = {
            "user": self.users.take(self.user_numbers()),
            "item": self.items.take(self.indices),
            "rating": pa.array(self.values),
        }
        if self.times is not None:
            columns["timestamp"] = self.moments(slice(None))
        return pa.table(columns)

    def moments(self, at: Any) -> pa.Array:
        """Times in the type they had in the source, at some positions."""
        if self.times is None:
            raise DataError("this table has no times")
        times = pa.array(self.times[at])
        if self.time_type is None:
            return times
        return times.cast(pa.int32() if pa.types.is_date32(self.time_type) else times.type).cast(self.time_type)

    def to_frame(self, library: str | None = None) -> Any:
        """A data frame with the columns user, item, rating and, where there are times, timestamp.

        Args:
            library: "pandas", "polars" or "pyarrow"; by default the library of the source if it was a data frame, else
                pyarrow.
        """
        return to_library(self.to_arrow(), library or self.report.library)

    def history(self, user: Any) -> dict[Any, float]:
        """One user's items and values."""
        try:
            at = self.users.number(user)
        except KeyError:
            raise DataError(f"user: {user!r} is not in this table") from None
        row = slice(int(self.indptr[at]), int(self.indptr[at + 1]))
        items = self.items.take(self.indices[row]).to_pylist()
        return dict(zip(items, self.values[row].tolist(), strict=True))

    # Parts

    @property
    def shape(self) -> tuple[int, int]:
        """How many users and items: those of `to_scipy()`. Tools of scikit-learn divide a table by its users."""
        return self.n_users, self.n_items

    __iter__ = None  # neither users nor interactions: `to_arrow`, `history` and `to_scipy` say which

    def __getitem__(self, rows: Any) -> Interactions:
        """The rows of some users, by number: a slice, an array of numbers, or a mask; in their order here."""
        if isinstance(rows, tuple) and len(rows) == 2 and rows[1] is Ellipsis:
            rows = rows[0]  # as scikit-learn asks for rows
        try:
            numbers = np.arange(self.n_users)[rows]
        except (IndexError, TypeError, ValueError) as error:
            raise DataError(f"rows: {error}; give numbers of users, or a mask with one entry for each") from None
        if numbers.ndim != 1:
            raise DataError("rows: a list of numbers is needed; one user's items and values are history(user)")
        kept = np.unique(numbers)
        if len(kept) < len(numbers):
            raise DataError("rows: a user is given twice, and no user may count twice; sample without replacement")
        return self.of_users(kept)

    def where(self, mask: NDArray[np.bool_]) -> Interactions:
        """The interactions where a mask (aligned with `values`) is true; users and catalog stay as they are."""
        mask = np.asarray(mask, dtype=bool)
        if mask.shape != self.indices.shape:
            raise DataError(f"mask: one entry for each of {len(self)} interactions is needed, not {mask.shape}")
        kept = np.concatenate([[0], np.cumsum(mask)])[self.indptr]
        return self._entries(mask, indptr=kept.astype(np.int64))

    def for_users(self, users: Any) -> Interactions:
        """The rows of some users, given by id, in their order here; the catalog stays as it is."""
        return self.of_users(_known(self.users, users, "users", "in this table"))

    def of_users(self, numbers: Array) -> Interactions:
        """The rows of some users, given by increasing number."""
        counts = np.diff(self.indptr)
        chosen = np.zeros(self.n_users, dtype=bool)
        chosen[numbers] = True
        indptr = np.concatenate([[0], np.cumsum(counts[chosen])]).astype(np.int64)
        return self._entries(np.repeat(chosen, counts), users=self.users.some(np.flatnonzero(chosen)), indptr=indptr)

    def for_items(self, items: Any) -> Interactions:
        """The interactions with some items, given by id; the catalog shrinks to them, in its order."""
        return self.of_items(_known(self.items, items, "items", "in the catalog"))

    def of_items(self, kept: Array) -> Interactions:
        """The interactions with some items, given by increasing number; the catalog shrinks to them."""
        renumber = np.full(self.n_items, -1, dtype=np.int64)
        renumber[kept] = np.arange(len(kept))
        part = self.where(renumber[self.indices] >= 0)
        indices = renumber[part.indices].astype(smallest_unsigned(len(kept)))
        catalogue = self.catalogue.take(kept)
        declared = catalogue.origin is not None and not catalogue.private
        if declared and len(kept) < self.n_items:  # the privacy statement must say who chose them
            catalogue = catalogue.of_origin(f"chosen by the owner from: {catalogue.origin}")
        return replace(part, catalogue=catalogue, indices=indices)

    def to_implicit(self, threshold: float | None = None) -> Interactions:
        """Drop the values: interactions of at least `threshold` (by default all) count 1, others are left out."""
        if threshold is not None and self.value_range is not None and not threshold <= self.value_range[1]:
            raise DataError(f"threshold: no rating can reach {threshold:g}; the highest is {self.value_range[1]:g}")
        part = self if threshold is None else self.where(self.values >= threshold)
        return replace(part, values=np.ones(len(part), np.float32), implicit=True, value_range=(0.0, 1.0))

    def rescale(self, low: float, high: float) -> Interactions:
        """Map the values linearly, so that the declared value range becomes (low, high)."""
        self.require_range()
        old_low, old_high = cast("tuple[float, float]", self.value_range)
        new_range = check_range((low, high))
        scaled = low + (self.values.astype(np.float64) - old_low) * ((high - low) / (old_high - old_low))
        values = np.clip(scaled.astype(np.float32), *inner_range(new_range))
        return replace(self, values=values, value_range=new_range, implicit=False)

    def describe(self) -> Description:
        """Counts and distributions: exact numbers about private data, for the owner and not to be published."""
        per_item = np.bincount(self.indices, minlength=self.n_items)
        pairs = self.n_users * self.n_items
        described: dict[str, Any] = {
            "interactions": len(self),
            "users": self.n_users,
            "items": self.n_items,
            "items with interactions": int((per_item > 0).sum()),
            "density": len(self) / pairs if pairs else 0.0,
            "per user": _spread(np.diff(self.indptr)),
            "per item": _spread(per_item),
            "values": _spread(self.values) | {"std": float(self.values.std(dtype=np.float64)) if len(self) else 0.0},
        }
        if self.times is not None and len(self):
            first, last = self.moments(np.array([self.times.argmin(), self.times.argmax()])).to_pylist()
            described["times"] = _dated(first, last)
        described |= {f"public {name}": text for name, text in self.public_inputs.items()}
        described["source"] = self.report.source
        if self.report.columns:
            described["columns"] = self.report.columns + (" (guessed)" if self.report.guessed else "")
        for name in COUNTS[:5]:
            if getattr(self.report, name):
                described[f"{name} when read"] = getattr(self.report, name)
        return Description(described)

    # On disk

    def to_disk(self, folder: str | os.PathLike[str]) -> None:
        """Write to a folder that `from_disk` maps into memory without reading it. Private data!"""
        from discreet.data import on_disk

        with on_disk.new_folder(folder, "folder") as home:
            on_disk.write(self, home)

    @staticmethod
    def from_disk(folder: str | os.PathLike[str]) -> Interactions:
        """Open a folder written by `to_disk`. Arrays stay on disk and are paged in as they are used."""
        from discreet.data import on_disk

        return on_disk.read(folder)


def _known(ids: Ids, given: Any, what: str, where: str) -> Integers:
    """The numbers of ids that were given, increasing."""
    numbers = ids.numbers(given, what)
    if (numbers < 0).any():
        missing = list(given)[int(np.flatnonzero(numbers < 0)[0])]
        raise DataError(f"{what}: {missing!r} is not {where}")
    return np.unique(numbers)


def _dated(first: Any, last: Any) -> dict[str, str]:
    """The first and last time: as dates (UTC) if they look like seconds or milliseconds since 1970."""
    for name, scale in (("seconds", 1), ("milliseconds", 1000)):
        if isinstance(first, int | float) and 1e8 * scale <= first <= last < 1e10 * scale:  # from 1973 to 2286
            days = [dt.datetime.fromtimestamp(time // scale, dt.timezone.utc).date() for time in (first, last)]
            return {"from": str(days[0]), "to": str(days[1]), "read as": f"{name} since 1970"}
    return {"from": str(first), "to": str(last)}


def _spread(numbers: Array) -> dict[str, float]:
    if not len(numbers):
        return {}
    low, high = float(numbers.min()), float(numbers.max())
    mean, median = float(numbers.mean(dtype=np.float64)), float(np.median(numbers))
    return {"min": low, "median": median, "mean": mean, "max": high}
