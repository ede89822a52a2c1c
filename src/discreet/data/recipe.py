"""How the rows of a table are read, wherever they are, and what becomes of those that cannot be used."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from discreet.data.columns import MOST, Cleaner, Columns, inner_range
from discreet.data.ids import Ids
from discreet.data.interactions import Interactions
from discreet.data.parsing import check_format
from discreet.data.report import Report
from discreet.errors import DataError

POLICIES = {
    "on_duplicate": ("last", "first", "mean", "sum", "raise"),
    "on_invalid": ("raise", "drop", "clip"),
    "on_unknown": ("raise", "drop"),
}


@dataclass(frozen=True)
class Policies:
    """The policies of `discreet.read`."""

    on_duplicate: str
    on_invalid: str
    on_unknown: str
    time_format: str | None = None

    def __post_init__(self) -> None:
        for name, known in POLICIES.items():
            if getattr(self, name) not in known:
                raise DataError(f"{name}: one of {', '.join(known)} is needed, not {getattr(self, name)!r}")
        if self.time_format is not None:
            check_format(self.time_format)


@dataclass(frozen=True)
class Counts:
    """How many rows of each kind there were. For the owner: exact numbers about private data."""

    rows: int = 0
    dropped: int = 0
    clipped: int = 0
    unknown: int = 0
    repeated: int = 0
    outside: int = 0  # sums outside the value range
    kept: int = 0

    def report(self, source: str, columns: Columns, library: str | None = None) -> Report:
        """The owner's report."""
        return Report(
            source, str(columns), columns.guessed, self.rows, self.dropped, self.clipped, self.unknown, self.repeated,
            library,
        )  # fmt: skip


@dataclass(frozen=True)
class Recipe:
    """How rows are read: all of it public.

    Attributes:
        columns: Which column is what.
        items: The catalogue; None: the items that occur.
        value_range: The declared range.
        policies: What happens to rows that cannot be used as they are.
    """

    columns: Columns
    items: Ids | None
    value_range: tuple[float, float] | None
    policies: Policies

    def __post_init__(self) -> None:
        if self.implicit:
            if self.value_range not in (None, (0.0, 1.0)):
                raise DataError(
                    f"value_range={self.value_range}: there is no column of values, so every row counts 1 and the "
                    "range is (0, 1). Name the column with value=, leave out value_range=, or count with "
                    "on_duplicate='sum'"
                )
        elif self.policies.on_invalid == "clip" and self.value_range is None:
            raise DataError(
                "on_invalid='clip' has nothing to clip to without value_range=; give it, or 'drop' such rows"
            )

    @property
    def implicit(self) -> bool:
        """Whether a pair counts 1 however often it occurs, because there is no column of values."""
        return self.columns.value is None and self.policies.on_duplicate != "sum"

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The value range of the result."""
        return (0.0, 1.0) if self.implicit else self.value_range

    def cleaner(self, hint: str = "") -> Cleaner:
        """What checks the cells of these columns."""
        return Cleaner(self.columns, self.policies.on_invalid, self.value_range, self.policies.time_format, hint)

    def sums_in_range(self, ratings: Interactions) -> tuple[Interactions, int]:
        """Drop or clip sums outside the value range (or that of 32 bits); also say how many there are."""
        low, high = self.value_range or (-MOST, MOST)
        if self.policies.on_duplicate != "sum":
            return ratings, 0
        outside = (ratings.values < low) | (ratings.values > high)
        n = int(outside.sum())
        if not n:
            return ratings, 0
        if self.policies.on_invalid == "clip":
            return replace(ratings, values=np.clip(ratings.values, *inner_range((low, high)))), n
        part = ratings.where(~outside)
        return part.of_users(np.flatnonzero(np.diff(part.indptr))), n

    def require(self, counts: Counts, source: str, hint: str = "", example: str = "") -> None:
        """Raise if there were rows that a policy refuses, or if no row is left."""
        policies, (low, high) = self.policies, self.bounds or (-MOST, MOST)
        if not counts.rows:
            raise DataError(f"source: {source} has no rows; check the path, the filter or the WHERE clause")
        if policies.on_invalid == "raise" and counts.dropped:
            raise DataError(
                f"value: {counts.dropped} rows cannot be read, have no user, item, value or time, or a value that is "
                f"not finite or outside value_range=({low:g}, {high:g}). Correct them, or pass on_invalid='drop' to "
                "leave such rows out or 'clip' to move them into value_range"
            )
        if policies.on_unknown == "raise" and counts.unknown:
            raise DataError(
                f"items: {counts.unknown} rows are about items outside the catalogue{example}. Add these items to "
                "items=, or pass on_unknown='drop' to leave such rows out"
            )
        if policies.on_duplicate == "raise" and counts.repeated:
            raise DataError(
                f"on_duplicate: {counts.repeated} rows repeat a user and an item; pass on_duplicate='last', 'first', "
                "'mean' or 'sum', or remove the repeats"
            )
        if policies.on_invalid == "raise" and counts.outside:
            raise DataError(
                f"on_duplicate='sum': {counts.outside} sums lie outside value_range=({low:g}, {high:g}); declare a "
                "range for the sums, or pass on_invalid='clip' or 'drop'"
            )
        if not counts.kept:
            raise DataError(
                f"source: none of the {counts.rows} rows is left ({counts.dropped} dropped as invalid, "
                f"{counts.unknown} about unknown items); check value_range=, items= and the columns: "
                f"{self.columns}{hint}"
            )
