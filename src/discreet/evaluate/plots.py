"""Evaluations as plots, with matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.errors import DataError, MissingExtra

if TYPE_CHECKING:
    from discreet.evaluate.result import Evaluation, Score
    from discreet.typing import Floats


def draw(evaluation: Evaluation, ax: Any, metrics: Sequence[str] | None, buckets: bool) -> Any:
    """Draw bars, or curves over buckets, and return the axes."""
    ax = new_axes() if ax is None else ax
    if buckets:
        _curves(evaluation, ax, metrics)
    else:
        _bars(evaluation, ax, metrics)
    ax.set_title(_title(evaluation), fontsize="small", loc="left")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def new_axes() -> Any:
    """Axes of a figure of their own."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise MissingExtra("a plot", "plot") from None
    return plt.subplots(layout="constrained")[1]


def _title(evaluation: Evaluation) -> str:
    """A plot travels without its notes, so the one thing that must not get lost is on it."""
    guarantee = evaluation.guarantee_
    if guarantee is None:
        return "exact numbers about private users: for the owner's eyes only"
    if not guarantee.holds:
        return f"NOT PRIVATE: {guarantee.why_not}"
    return f"with noise: {guarantee.unit} level, epsilon {guarantee.epsilon:.3g}, delta {guarantee.delta:.3g}"


def _errors(scores: Sequence[Score]) -> Floats:
    """Lengths of the error bars, below and above; 0 where there is no interval."""
    table = np.array([score[:3] for score in scores], dtype=np.float64).reshape(-1, 3)
    value, low, high = table.T
    lengths: Floats = np.nan_to_num(np.maximum([value - low, high - value], 0.0))
    return lengths


def _bars(evaluation: Evaluation, ax: Any, metrics: Sequence[str] | None) -> None:
    names = list(metrics or evaluation)
    scores = [evaluation.scores[name] for name in names]
    heights = np.nan_to_num([score.value for score in scores])
    bars = ax.bar(np.arange(len(names)), heights, yerr=_errors(scores), capsize=3, color="#2f6f6d", ecolor="#1c2430")
    ax.bar_label(bars, [f"{score.value:.3g}" for score in scores], padding=3, fontsize="small")
    ax.set_xticks(np.arange(len(names)), names)
    ax.margins(y=0.12)


def _curves(evaluation: Evaluation, ax: Any, metrics: Sequence[str] | None) -> None:
    known = list(evaluation.buckets[0].scores)
    for name in metrics or known:
        if name not in known:
            raise DataError(f"metrics: {name!r} has no buckets; {', '.join(known)} have")
        scores = [bucket.scores[name] for bucket in evaluation.buckets]
        at = [bucket.number for bucket in evaluation.buckets]
        values = np.array([score.value for score in scores])  # NaN leaves a gap: nobody has a target there
        ax.errorbar(at, values, yerr=_errors(scores), marker="o", capsize=3, label=name)
    ax.set_xticks([bucket.number for bucket in evaluation.buckets])
    ax.set_xlabel("popularity of the target: 1 is the most popular bucket")
    ax.legend()
