"""Scores as the page computes them, the arrays that it needs, and the loss from storing these with less precision.

    score_j = base_j + a + columns_j . z - caution * sqrt(variance_j0 + sum_k variance_jk z_k^2)

`discreet.models.fold_in` has three ways to find the offset a and the vector z. Without a history the score is cold_j.
Predictions are base_j + a + columns_j . z, for which a model may have another base and other columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.data.catalogue import Ids, smallest_unsigned
from discreet.data.interactions import Interactions
from discreet.errors import DataError
from discreet.models.fold_in import Description, FoldIn
from discreet.models.model_folder import digest
from discreet.recommend.serving import deviations
from discreet.typing import Array

if TYPE_CHECKING:
    from discreet.models.base import Model


PRECISIONS = ("float32", "float16", "int8")
STEPS = 127  # steps of an int8 on either side of zero
LARGEST = 60_000.0  # the largest number stored as float16
PEOPLE, FEWEST, MOST = 64, 3, 30  # made-up people, and how many items each has
SHOWN = 10
RATINGS = "ratings."  # prefix of the arrays of a fold-in that is only for predictions


@dataclass(frozen=True)
class Scoring:
    """What a browser needs from a fitted model to score items.

    Attributes:
        fold_in: How a person is folded in for lists of items.
        ratings: How they are folded in for predictions, often the same.
        cold: Scores for someone without a history.
        cold_note: A note about these.
        caution: How many standard deviations are subtracted from scores.
        variance: Variances of base and columns, (items, 1 + rank); or None.
    """

    fold_in: FoldIn
    ratings: FoldIn
    cold: Array
    cold_note: str
    caution: float = 0.0
    variance: Array | None = None

    @classmethod
    def of(cls, model: Model) -> Scoring:
        """The scoring of a fitted model."""
        caution, variance = model._score_variance() or (0.0, None)
        return cls(model._ranking, model._fold_in, *model._cold(), float(caution), variance)

    def describe(self) -> Description:
        """A description for the JavaScript client; raises if only Python can fold a person in."""
        settings, tables, arrays = self.fold_in.describe()
        own = {"fold_in": settings, "ratings": None, "caution": self.caution, "cold_note": self.cold_note}
        tables, arrays = dict(tables), {"cold": self.cold, **arrays}
        if self.variance is not None:
            tables["variance"] = self.variance
        if self.ratings is not self.fold_in:
            own["ratings"], *others = self.ratings.describe()
            for found, other in zip((tables, arrays), others, strict=True):
                found.update({RATINGS + name: array for name, array in other.items()})
        return own, tables, arrays

    def with_tables(self, tables: dict[str, Array]) -> Scoring:
        """A copy with other tables, stored with less precision."""
        others = {name.removeprefix(RATINGS): table for name, table in tables.items() if name.startswith(RATINGS)}
        own = {name: table for name, table in tables.items() if not name.startswith(RATINGS)}
        variance = own.pop("variance", None)
        fold_in = self.fold_in.with_tables(own)
        ratings = self.ratings.with_tables(others) if others else fold_in
        return replace(self, fold_in=fold_in, ratings=ratings, variance=variance)

    def scores(self, histories: Interactions) -> Array:
        """Scores (users, items) for users who have a history, in double precision."""
        scores, vectors = _expected(self.fold_in, histories)
        if self.variance is not None:
            scores -= self.caution * deviations(vectors, self.variance.astype(np.float64))
        return scores

    def predictions(self, histories: Interactions) -> Array:
        """Predictions (users, items), not clipped to the range of values, in double precision."""
        return _expected(self.ratings, histories)[0]


def _expected(fold_in: FoldIn, histories: Interactions) -> tuple[Array, Array]:
    """base_j + a + columns_j . z for each user and item, and users' vectors z."""
    offsets, vectors = (array.astype(np.float64) for array in fold_in.fold_in(histories, 1))
    return vectors @ fold_in.columns.T.astype(np.float64) + fold_in.base + offsets[:, None], vectors


@dataclass
class Pack:
    """Arrays in one file that a browser reads: raw little-endian numbers, each array at a multiple of eight bytes.

    The same numbers under several names are stored once.

    Tables may be stored as float16, or as int8 with a factor for each row and for each column: x_jk = q_jk * row_j *
    column_k. Columns of very different sizes, and items of very different lengths, then have about the same precision.

    Attributes:
        entries: Where each array is: dtype, shape, offset, and for int8 the names of its factors.
        content: The bytes so far.
        places: The offset of each array, by the digest of its bytes.
    """

    entries: dict[str, dict[str, Any]] = field(default_factory=dict)
    content: bytearray = field(default_factory=bytearray)
    places: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, array: Array, dtype: str = "float32") -> Array:
        """Store an array, and return it as a reader will see it."""
        with np.errstate(over="ignore"):  # overflow is detected below
            stored = np.ascontiguousarray(array, np.dtype(dtype).newbyteorder("<"))
        if not np.isfinite(stored).all():
            raise DataError(f"model: its {name} has numbers that are not finite, or too large for {dtype}")
        numbers = stored.tobytes()
        start = len(self.content) + -len(self.content) % 8
        offset = self.places.setdefault(digest(numbers), start)
        if offset == start:
            self.content.extend(bytes(start - len(self.content)) + numbers)
        self.entries[name] = {"dtype": dtype, "shape": list(stored.shape), "offset": offset}
        return stored.astype(np.float64)

    def add_table(self, name: str, table: Array, precision: str) -> Array:
        """Store a table with less precision, and return it as a reader will see it."""
        if precision == "float16" and table.size and float(np.abs(table).max()) > LARGEST:
            raise DataError(f"precision: the numbers of {name} are too large for float16; use float32 or int8")
        if precision != "int8":
            return self.add(name, table, precision)
        columns = self.add(f"{name}_column", _nonzero(np.sqrt(np.mean(np.square(table, dtype=np.float64), axis=0))))
        scaled = table / columns
        rows = self.add(f"{name}_row", _nonzero(np.abs(scaled).max(axis=1, initial=0.0) / STEPS))
        steps = self.add(name, np.clip(np.rint(scaled / rows[:, None]), -STEPS, STEPS), "int8")
        self.entries[name]["factors"] = [f"{name}_row", f"{name}_column"]
        restored: Array = steps * rows[:, None] * columns
        return restored


def _nonzero(sizes: Array) -> Array:
    """Divisors: sizes, or 1 for a row or column of zeros."""
    return np.where(sizes > 1e-30, sizes, 1.0)


def table_of(model: Model, rows: Sequence[tuple[Array, Array]]) -> Interactions:
    """Histories as a table, from the increasing item numbers and the ratings of each."""
    numbers, values = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    return Interactions(
        users=Ids(range(len(rows))),
        catalogue=model.catalogue_,
        indptr=np.cumsum([0, *(len(own) for own, _ in rows)], dtype=np.int64),
        indices=numbers.astype(smallest_unsigned(len(model.items_))),
        values=values.astype(np.float32, copy=False),
        value_range=model.value_range_,
        implicit=model.implicit_,
    )


def made_up(model: Model, n_people: int = PEOPLE, seed: int = 0) -> Interactions:
    """Made-up histories: items drawn by their public popularity, with random ratings."""
    rng = np.random.default_rng(seed)
    m, (low, high) = len(model.items_), model.value_range_
    chances = np.maximum(np.asarray(model.popularity_, np.float64), 0)
    chances += max(float(chances.mean()), 1e-9) / 10
    counts = np.minimum(rng.integers(FEWEST, MOST + 1, n_people), m)
    items = [np.sort(rng.choice(m, count, replace=False, p=chances / chances.sum())) for count in counts]
    total = counts.sum()
    values = np.ones(total) if model.implicit_ else low + (high - low) * rng.integers(0, 5, total) / 4
    return table_of(model, list(zip(items, np.split(values, np.cumsum(counts)[:-1]), strict=True)))


def loss(before: Scoring, after: Scoring, people: Interactions) -> dict[str, float]:
    """How much scores change when tables are stored with less precision, and the share of the ten best items that stay.

    `rms` and `largest` are in the unit of scores; `relative` is `rms` over the standard deviation of a person's scores.
    `predicted` is the same as `rms`, for predictions.
    """
    exact, stored = before.scores(people), after.scores(people)
    predicted = after.predictions(people) - before.predictions(people)
    moved = stored - exact
    rms, spread = float(np.sqrt(np.mean(moved**2))), float(np.mean(exact.std(axis=1)))
    k = min(SHOWN, exact.shape[1])
    best, now = (np.argsort(-scores, axis=1, kind="stable")[:, :k] for scores in (exact, stored))
    same = np.mean([len(np.intersect1d(a, b)) / k for a, b in zip(best, now, strict=True)])
    return {
        "rms": rms,
        "largest": float(np.abs(moved).max()),
        "relative": rms / spread if spread > 0 else 0.0,
        "top_10_kept": float(same),
        "predicted": float(np.sqrt(np.mean(predicted**2))),
    }
