"""The result of an evaluation: a dict of numbers that prints as a table, and can become a data frame or a plot."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from discreet.data.catalogue import to_library
from discreet.errors import DataError, MissingExtra
from discreet.recommend.results import aligned, html_table, paragraphs

if TYPE_CHECKING:
    from discreet.privacy.guarantee import Guarantee
    from discreet.typing import Floats

OWNER = (
    "Exact numbers about private users, for the owner's eyes only: no guarantee covers them if they are published, or "
    "if a model is chosen by them. discreet.evaluate(..., private=True) gives noisy ones."
)
ON_PLOTS = "exact numbers about private users: for the owner's eyes only"  # a plot may be shown without its notes


class Score(NamedTuple):
    """A value, its interval (NaN if there is none) and the number of users it is about."""

    value: float
    low: float
    high: float
    users: int


@dataclass(frozen=True)
class Bucket:
    """Items of similar popularity, or users with histories of similar length, and how well the model does for them."""

    number: int  # 1 for the most popular items, or the shortest histories
    about: Mapping[
        str, float
    ]  # items and their share of all interactions; or users, and the lengths of their histories
    scores: Mapping[str, Score]


class Evaluation(dict[str, float]):
    """Metric -> value. Prints as a table, with intervals; `to_frame` and `plot` show the same in other forms.

    Attributes:
        confidence: The level of the intervals, or None if there are none.
        buckets: The same metrics by popularity of the target, the most popular items first; or by the length of users'
            histories, the shortest first; if asked for.
        bucket_by: "items" or "history".
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
        """The interval of a metric: lower and upper end, NaN if there is none.

        For exact numbers it comes from a bootstrap over users: how far off the value may be for other users of the same
        kind. For private numbers it says how far the noise may have moved the value, and nothing else.
        """
        self[name]  # raises an error that lists the metrics
        return self.scores[name].low, self.scores[name].high

    # -- text

    def _notes(self) -> list[str]:
        """What a reader must know before the table."""
        if self.guarantee_ is None:
            return [OWNER]
        bounded = "Every user counts the same, however many targets they have; errors are clipped to a public bound."
        if self.confidence is not None:
            bounded += (
                f" Each interval contains the value without noise with probability {self.confidence:.0%}: it is "
                "about the noise, not about other users."
            )
        return [f"Noisy numbers through a ledger. {self.guarantee_}", bounded]

    def _rows(self) -> list[list[str]]:
        named = f"{self.confidence:.0%} interval" if self.confidence is not None else "interval"
        head = ["metric", "value", named, "users" if not self.private else "users (noisy)"]
        return [head, *([name, number(s.value), _interval(s), f"{s.users:,}"] for name, s in self.scores.items())]

    def _bucket_title(self) -> str:
        if self.bucket_by == "history":
            return "By the length of the history, in buckets of about equal numbers of users, the shortest first"
        return "By popularity of the target, in buckets of equal numbers of items, the most popular first"

    def _bucket_rows(self) -> list[list[str]]:
        first = self.buckets[0]
        rows = [["bucket", *first.about, *(part for name in first.scores for part in (name, "interval"))]]
        for bucket in self.buckets:
            about = (f"{value:.1%}" if isinstance(value, float) else f"{value:,}" for value in bucket.about.values())
            cells = [part for s in bucket.scores.values() for part in (number(s.value), span(s))]
            rows.append([str(bucket.number), *about, *cells])
        return rows

    def __str__(self) -> str:
        lines = [*self._notes(), "", *aligned(self._rows())]
        if self.buckets:
            lines += ["", self._bucket_title(), *aligned(self._bucket_rows())]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        shown = paragraphs(self._notes()) + html_table(self._rows())
        if self.buckets:
            shown += paragraphs([self._bucket_title()]) + html_table(self._bucket_rows())
        return shown

    # -- other forms

    def to_frame(self, library: str | None = None, *, buckets: bool = False) -> Any:
        """A data frame with the columns metric, value, low, high, users.

        Args:
            library: "pandas", "polars" or "pyarrow" (the default).
            buckets: The table of buckets instead, with columns in front that say what is in them.
        """
        import pyarrow as pa

        if not buckets:
            return to_library(pa.table(_columns(list(self.scores.items()))), library)
        self._require_buckets()
        inside = [(bucket, item) for bucket in self.buckets for item in bucket.scores.items()]
        front = {name: [bucket.about[name] for bucket, _ in inside] for name in self.buckets[0].about}
        numbers = [bucket.number for bucket, _ in inside]
        return to_library(pa.table({"bucket": numbers, **front, **_columns([item for _, item in inside])}), library)

    def plot(self, ax: Any = None, *, metrics: Sequence[str] | None = None, buckets: bool = False) -> Any:
        """Bars with error bars; or a curve over the buckets for each metric that has them.

        Args:
            ax: The matplotlib axes to draw on; new ones by default.
            metrics: Which metrics; by default all. Draw metrics of different scales separately.
            buckets: Whether to draw the curves over buckets instead of the bars.

        Returns:
            The axes.

        Raises:
            MissingExtra: If matplotlib is not installed: pip install 'discreet[plot]'.
        """
        if buckets:
            self._require_buckets()
        for name in metrics or ():
            self[name]  # raises an error that lists the metrics
        ax = new_axes() if ax is None else ax
        (self._draw_curves if buckets else self._draw_bars)(ax, metrics)
        title, promised = ON_PLOTS, self.guarantee_
        if promised is not None:
            title = f"with noise: {promised.unit} level, epsilon {promised.epsilon:.3g}, delta {promised.delta:.3g}"
            title = title if promised.holds else f"NOT PRIVATE: {promised.why_not}"
        ax.set_title(title, fontsize="small", loc="left")
        ax.spines[["top", "right"]].set_visible(False)
        return ax

    def _draw_bars(self, ax: Any, metrics: Sequence[str] | None) -> None:
        names = list(metrics or self)
        scores = [self.scores[name] for name in names]
        heights, at = np.nan_to_num([score.value for score in scores]), np.arange(len(names))
        bars = ax.bar(at, heights, yerr=_error_bars(scores), capsize=3, color="#2f6f6d", ecolor="#1c2430")
        ax.bar_label(bars, [f"{score.value:.3g}" for score in scores], padding=3, fontsize="small")
        ax.set_xticks(at, names)
        ax.margins(y=0.12)

    def _draw_curves(self, ax: Any, metrics: Sequence[str] | None) -> None:
        known, at = list(self.buckets[0].scores), [bucket.number for bucket in self.buckets]
        for name in metrics or known:
            if name not in known:
                raise DataError(f"metrics: {name!r} has no buckets; {', '.join(known)} have")
            scores = [bucket.scores[name] for bucket in self.buckets]
            values = np.array([score.value for score in scores])  # NaN leaves a gap: no user has a target there
            ax.errorbar(at, values, yerr=_error_bars(scores), marker="o", capsize=3, label=name)
        ax.set_xticks(at)
        by_history = self.bucket_by == "history"
        ax.set_xlabel(
            "length of the history: 1 is the shortest"
            if by_history
            else "popularity of the target: 1 is the most popular"
        )
        ax.legend()

    def _require_buckets(self) -> None:
        if not self.buckets:
            raise DataError("buckets: this evaluation has none; call evaluate with buckets=5")


def new_axes() -> Any:
    """Axes of a new figure."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise MissingExtra("a plot", "plot") from None
    return plt.subplots(layout="constrained")[1]


def _error_bars(scores: Sequence[Score]) -> Floats:
    """Lengths below and above the value; 0 where there is no interval."""
    value, low, high = np.array([score[:3] for score in scores], dtype=np.float64).reshape(-1, 3).T
    lengths: Floats = np.nan_to_num(np.maximum([value - low, high - value], 0.0))
    return lengths


def _columns(scores: Sequence[tuple[str, Score]]) -> dict[str, Any]:
    parts = {name: [getattr(score, name) for _, score in scores] for name in Score._fields}
    return {"metric": [name for name, _ in scores], **parts}


def number(value: float) -> str:
    """A metric, formatted."""
    if math.isnan(value):
        return "-"
    return f"{value:.4f}" if abs(value) < 100 else f"{value:,.1f}"


def _interval(score: Score) -> str:
    return "-" if math.isnan(score.low) else f"{number(score.low)} to {number(score.high)}"


def span(score: Score) -> str:
    """An interval in few characters, for tables with many."""
    return "" if math.isnan(score.low) else f"{score.low:.3f}–{score.high:.3f}"
