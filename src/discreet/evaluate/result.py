"""What an evaluation gives back: a dict of numbers that prints as a table, and becomes a frame or a plot."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from discreet.data.catalogue import to_library
from discreet.errors import DataError

if TYPE_CHECKING:
    from discreet.privacy.guarantee import Guarantee

OWNER = (
    "Exact numbers about private users, for the owner's eyes only: no guarantee covers them if they are published, or "
    "if a model is chosen by them. discreet.evaluate(..., private=True) gives noisy ones."
)
_DIVIDED = {"items": "equal numbers of items", "interactions": "equal numbers of interactions"}


class Score(NamedTuple):
    """A value, its interval (NaN where there is none) and the number of users behind it."""

    value: float
    low: float
    high: float
    users: int


@dataclass(frozen=True)
class Bucket:
    """Items of similar popularity, and how well the model does on targets among them.

    Attributes:
        number: 1 for the most popular items.
        items: How many items.
        share: Their share of all interactions where popularity was counted.
        scores: Metric -> score.
    """

    number: int
    items: int
    share: float
    scores: Mapping[str, Score] = field(default_factory=dict)


class Evaluation(dict[str, float]):
    """Metric -> value. Prints as a table, with intervals; `to_frame` and `plot` show the same in other forms.

    Attributes:
        confidence: The level of the intervals, or None if there are none.
        buckets: The same metrics by popularity of the target, where asked for; the most popular items first.
        bucket_by: What buckets have in equal numbers: "items" or "interactions".
        guarantee_: What a private evaluation promises; None if the numbers are exact.
        noise_std_: The standard deviation of a private evaluation's noise on the sums over users; else None.
    """

    def __init__(
        self,
        scores: Mapping[str, Score],
        *,
        confidence: float | None = None,
        buckets: Sequence[Bucket] = (),
        bucket_by: str = "items",
        guarantee: Guarantee | None = None,
        noise_std: float | None = None,
    ) -> None:
        super().__init__({name: score.value for name, score in scores.items()})
        self.scores = dict(scores)
        self.confidence = confidence
        self.buckets = tuple(buckets)
        self.bucket_by = bucket_by
        self.guarantee_ = guarantee
        self.noise_std_ = noise_std

    def __missing__(self, name: str) -> NoReturn:
        raise KeyError(f"{name!r} was not evaluated; there are {', '.join(self)}")

    @property
    def private(self) -> bool:
        """Whether the numbers came through a ledger, with noise."""
        return self.guarantee_ is not None

    def interval(self, name: str) -> tuple[float, float]:
        """The interval of a metric: lower and upper end, NaN where there is none.

        For exact numbers it is the user bootstrap's: how far the value might be for other users of the same kind. For
        private ones it is the noise's: how far the noise may have moved the value, nothing else.
        """
        self[name]  # an error that lists what there is
        score = self.scores[name]
        return score.low, score.high

    # -- words

    def _notes(self) -> list[str]:
        """What a reader must know, in front of the table."""
        if self.guarantee_ is None:
            return [OWNER]
        notes = [
            f"Noisy numbers through a ledger. {self.guarantee_}",
            "Every user counts the same, whatever the number of their targets; errors are cut to a public bound.",
        ]
        if self.confidence is not None:
            notes[1] += (
                " The intervals hold what the values would be without noise, each with probability "
                f"{self.confidence:.0%}: they are about the noise, not about other users."
            )
        return notes

    def _head(self) -> list[str]:
        named = f"{self.confidence:.0%} interval" if self.confidence is not None else "interval"
        return ["metric", "value", named, "users" if not self.private else "users (noisy)"]

    def _rows(self) -> list[list[str]]:
        return [[name, number(s.value), _interval(s), f"{s.users:,}"] for name, s in self.scores.items()]

    def _bucket_title(self) -> str:
        return f"By popularity of the target, in buckets of {_DIVIDED[self.bucket_by]}, the most popular first"

    def _bucket_rows(self) -> list[list[str]]:
        names = list(self.buckets[0].scores)
        rows = [["bucket", "items", "share", *(part for name in names for part in (name, "interval"))]]
        for bucket in self.buckets:
            cells = [part for s in bucket.scores.values() for part in (number(s.value), _interval(s))]
            rows.append([str(bucket.number), f"{bucket.items:,}", f"{bucket.share:.1%}", *cells])
        return rows

    def __str__(self) -> str:
        lines = [*self._notes(), "", *aligned([self._head(), *self._rows()])]
        if self.buckets:
            lines += ["", self._bucket_title(), *aligned(self._bucket_rows())]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self._notes())
        tables = html_table([self._head(), *self._rows()])
        if self.buckets:
            tables += f"<p>{html.escape(self._bucket_title())}</p>{html_table(self._bucket_rows())}"
        return notes + tables

    # -- other forms

    def to_frame(self, library: str | None = None, *, buckets: bool = False) -> Any:
        """A data frame with the columns metric, value, low, high, users.

        Args:
            library: "pandas", "polars" or "pyarrow" (the default).
            buckets: The table by popularity instead, with the columns bucket, items and share in front.
        """
        import pyarrow as pa

        if not buckets:
            return to_library(pa.table(_columns(list(self.scores.items()))), library)
        self._require_buckets()
        inside = [(bucket, item) for bucket in self.buckets for item in bucket.scores.items()]
        front = {name: [getattr(bucket, at) for bucket, _ in inside] for name, at in _FRONT.items()}
        return to_library(pa.table({**front, **_columns([item for _, item in inside])}), library)

    def plot(self, ax: Any = None, *, metrics: Sequence[str] | None = None, buckets: bool = False) -> Any:
        """Bars with error bars; or a curve over the buckets for each metric that has them.

        Args:
            ax: The matplotlib axes to draw on; new ones by default.
            metrics: Which metrics; by default all. Those of different scale are better drawn apart.
            buckets: Whether to draw the curves by popularity instead of the bars.

        Returns:
            The axes.

        Raises:
            MissingExtra: If matplotlib is not installed: pip install 'discreet[plot]'.
        """
        from discreet.evaluate.plots import draw

        if buckets:
            self._require_buckets()
        for name in metrics or ():
            self[name]
        return draw(self, ax, metrics, buckets)

    def _require_buckets(self) -> None:
        if not self.buckets:
            raise DataError("buckets: this evaluation has none; call evaluate with buckets=5")


_FRONT = {"bucket": "number", "items": "items", "share": "share"}


def _columns(scores: Sequence[tuple[str, Score]]) -> dict[str, Any]:
    parts = {name: [getattr(score, name) for _, score in scores] for name in Score._fields}
    return {"metric": [name for name, _ in scores], **parts}


def number(value: float) -> str:
    """A metric for people."""
    if math.isnan(value):
        return "-"
    return f"{value:.4f}" if abs(value) < 100 else f"{value:,.1f}"


def _interval(score: Score) -> str:
    return "-" if math.isnan(score.low) else f"{number(score.low)} to {number(score.high)}"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """A table as lines of text."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]


def html_table(rows: Sequence[Sequence[str]]) -> str:
    """A table as a page has it; the first row is its head."""
    head, *body = rows
    cells = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in body)
    heads = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{cells}</tbody></table>"
