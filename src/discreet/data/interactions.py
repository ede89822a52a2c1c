"""Who liked what: the one form in which private data is handed to a model."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from discreet.data.catalogue import OBSERVED, Catalogue, observed_items_are_public
from discreet.data.columns import check_range, inner_range
from discreet.data.frames import to_library
from discreet.data.ids import Ids, smallest_unsigned
from discreet.data.report import Description, Report, describe
from discreet.errors import DataError, NotPublic
from discreet.typing import Array, Integers

ARRAYS = ("indptr", "indices", "values", "times")


@dataclass(frozen=True)
class ByItem:
    """The same interactions item by item: item i's users are indices[indptr[i]:indptr[i + 1]], increasing."""

    indptr: Integers
    indices: Array
    values: NDArray[np.float32]


class Declared:
    """What the owner of a table has declared public, wherever its rows are."""

    catalogue: Catalogue
    value_range: tuple[float, float] | None
    implicit: bool

    @property
    def n_items(self) -> int:
        """How many items the catalogue has, rated or not."""
        return len(self.catalogue)

    @property
    def items(self) -> Ids:
        """The items' ids, in their own type."""
        return self.catalogue.ids

    @property
    def public_inputs(self) -> dict[str, str]:
        """What the owner has declared public, in words: the privacy statement prints this."""
        declared = {}
        if self.catalogue.origin is not None:
            declared["items"] = f"{self.n_items:,} items, {self.catalogue.origin}"
        if self.value_range is not None:
            low, high = self.value_range
            declared["value_range"] = f"{low:g} to {high:g}" + (", every interaction counts 1" * self.implicit)
        return declared

    def require_public(self) -> None:
        """Raise NotPublic unless catalogue and value range have been declared. Every private fit calls this.

        Raises:
            NotPublic: Naming what is missing and how to give it. Nothing about the data is in the message.
        """
        self.catalogue.require_public()
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
    in the order of the catalogue. User u's items are `indices[indptr[u]:indptr[u + 1]]`, increasing, and
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
        return f"Interactions({len(self):,} of {self.n_users:,} users and {self.n_items:,} items)"

    def __eq__(self, other: object) -> bool:
        """Same users, catalogue, values, times and declared range; where the data came from does not count."""
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
            items: `discreet.observed_items_are_public`, or a catalogue that has every item of the data.
            value_range: The lowest and highest possible value; values outside it are an error.
        """
        changed = self
        if items is observed_items_are_public:
            changed = replace(changed, catalogue=self.catalogue.of_origin(OBSERVED))
        elif items is not None:
            changed = changed._on(Catalogue.read(items))
        if value_range is not None:
            low, high = check_range(value_range)
            outside = int(((self.values < low) | (self.values > high)).sum())
            if outside:
                raise DataError(
                    f"value_range: {outside} values lie outside ({low:g}, {high:g}); read the table with this "
                    "range and on_invalid='clip' or 'drop'"
                )
            changed = replace(changed, value_range=(low, high))
        return changed

    def _on(self, catalogue: Catalogue) -> Interactions:
        """The same interactions over another catalogue, which has all their items."""
        moved = catalogue.ids.numbers(self.items.to_arrow(), "items")[self.indices]
        if (moved < 0).any():
            raise DataError("items: the data has items outside this catalogue; read it with on_unknown='drop'")
        order = np.lexsort((moved, self.user_numbers()))
        return replace(
            self,
            catalogue=catalogue,
            indices=moved[order].astype(smallest_unsigned(len(catalogue))),
            values=self.values[order],
            times=None if self.times is None else self.times[order],
        )

    # Other forms

    def user_numbers(self) -> Array:
        """The user number of each interaction: `indptr` written out, aligned with `indices`."""
        kind = smallest_unsigned(self.n_users)
        return np.repeat(np.arange(self.n_users, dtype=kind), np.diff(self.indptr))

    @cached_property
    def by_item(self) -> ByItem:
        """The transposed table, made once when first asked for."""
        columns = self.to_scipy().tocsc()
        return ByItem(
            columns.indptr.astype(np.int64), columns.indices.astype(smallest_unsigned(self.n_users)), columns.data
        )

    def to_scipy(self) -> Any:
        """A scipy CSR array of users by items."""
        from scipy.sparse import csr_array

        kind = np.int32 if max(len(self), self.n_items) < 2**31 else np.int64
        parts = (self.values, self.indices.astype(kind), self.indptr.astype(kind))
        return csr_array(parts, shape=(self.n_users, self.n_items))

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
            library: "pandas", "polars" or "pyarrow". By default that of the source, where it was a data frame;
                else an Arrow table.
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

    def where(self, mask: NDArray[np.bool_]) -> Interactions:
        """The interactions where a mask (aligned with `values`) is true; users and catalogue stay as they are."""
        mask = np.asarray(mask, dtype=bool)
        if mask.shape != self.indices.shape:
            raise DataError(f"mask: one entry for each of {len(self)} interactions is needed, not {mask.shape}")
        kept = np.concatenate([[0], np.cumsum(mask)])[self.indptr]
        return replace(
            self,
            indptr=kept.astype(np.int64),
            indices=self.indices[mask],
            values=self.values[mask],
            times=None if self.times is None else self.times[mask],
        )

    def for_users(self, users: Any) -> Interactions:
        """The rows of some users, given by id, in their order here; the catalogue stays as it is."""
        return self.of_users(_known(self.users, users, "users", "in this table"))

    def of_users(self, numbers: Array) -> Interactions:
        """The rows of some users, given by increasing number."""
        chosen = np.zeros(self.n_users, dtype=bool)
        chosen[numbers] = True
        part = self.where(np.repeat(chosen, np.diff(self.indptr)))
        counts = np.diff(self.indptr)[chosen]
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return replace(part, users=self.users.some(np.flatnonzero(chosen)), indptr=indptr)

    def for_items(self, items: Any) -> Interactions:
        """The interactions with some items, given by id; the catalogue shrinks to them, in its order."""
        return self.of_items(_known(self.items, items, "items", "in the catalogue"))

    def of_items(self, kept: Array) -> Interactions:
        """The interactions with some items, given by increasing number; the catalogue shrinks to them."""
        renumber = np.full(self.n_items, -1, dtype=np.int64)
        renumber[kept] = np.arange(len(kept))
        part = self.where(renumber[self.indices] >= 0)
        indices = renumber[part.indices].astype(smallest_unsigned(len(kept)))
        catalogue = self.catalogue.take(kept)
        if catalogue.origin is not None and len(kept) < self.n_items:  # the statement must say who chose them
            catalogue = catalogue.of_origin(f"chosen by the owner from: {catalogue.origin}")
        return replace(part, catalogue=catalogue, indices=indices)

    def to_implicit(self, threshold: float | None = None) -> Interactions:
        """Forget the values: interactions of at least `threshold` (by default all) count 1, others go."""
        part = self if threshold is None else self.where(self.values >= threshold)
        return replace(part, values=np.ones(len(part), np.float32), implicit=True, value_range=(0.0, 1.0))

    def rescale(self, low: float, high: float) -> Interactions:
        """Map the values linearly, so that the declared value range becomes (low, high)."""
        self.require_public()
        assert self.value_range is not None
        new_range = check_range((low, high))
        old_low, old_high = self.value_range
        scaled = low + (self.values.astype(np.float64) - old_low) * ((high - low) / (old_high - old_low))
        values = np.clip(scaled.astype(np.float32), *inner_range(new_range))
        return replace(self, values=values, value_range=new_range, implicit=False)

    def describe(self) -> Description:
        """Counts and distributions, for the owner: exact numbers about private data, not to be published."""
        return describe(self)

    # On disk

    def to_disk(self, folder: str | PathLike[str]) -> None:
        """Write to a folder, from which `from_disk` maps it into memory without reading it. Private data!"""
        from discreet.data.storage import save

        save(self, folder)

    @classmethod
    def from_disk(cls, folder: str | PathLike[str]) -> Interactions:
        """Open a folder written by `to_disk`. Arrays stay on disk and are paged in as they are used."""
        from discreet.data.storage import load

        return load(folder)


def _known(ids: Ids, given: Any, what: str, where: str) -> Integers:
    """The numbers of ids that were given, increasing."""
    numbers = ids.numbers(given, what)
    if (numbers < 0).any():
        missing = list(given)[int(np.flatnonzero(numbers < 0)[0])]
        raise DataError(f"{what}: {missing!r} is not {where}")
    return np.unique(numbers)
