"""The figures of the paper on one-bit completion, drawn from the rows of `discreet.papers.one_bit` (extra `plot`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from discreet.errors import MissingExtra
from discreet.papers.one_bit import MECHANISMS, Row

COLOURS = dict(zip(MECHANISMS, ("#0072b2", "#d55e00", "#009e73", "#cc79a7"), strict=True))  # apart for everybody's eyes
STYLES = {"published": "--", "exact": "-"}


def draw(number: int, rows: Sequence[Row], path: str) -> None:
    """Write a figure to a file, by the ending of its name."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("a figure", "plot") from None
    measure = "error" if "error" in rows[0] else "accuracy"
    panels, x, name = _panels(number)
    values = sorted({row[panels] for row in rows if row.get(panels) is not None}) if panels else [None]
    figure = Figure(figsize=(3.6 * len(values) + 1.2, 3.4), layout="constrained")
    for place, value in enumerate(values):
        axes = figure.add_subplot(1, len(values), place + 1)
        _draw_panel(axes, [row for row in rows if not panels or row.get(panels) in (value, None)], x, measure)
        axes.set(xlabel=name, title="" if value is None else f"{panels} {value:g}" if panels == "epsilon" else value)
        if not place:
            axes.set_ylabel("relative error (1: predicting 0)" if measure == "error" else "share of right signs")
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", fontsize=7, frameon=False)
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "one-bit"}):  # small files, and the same for the same rows
        figure.savefig(path, metadata={"Date": None} if path.endswith(".svg") else None)


def _panels(number: int) -> tuple[str | None, str, str]:
    """What panels differ in, what is on the horizontal axis, and its name."""
    if number in (4, 5):
        return "epsilon", "observed", "share of entries observed"
    return ("link" if number == 1 else None), "epsilon", "epsilon, as claimed"


def _draw_panel(axes: Any, rows: Sequence[Row], x: str, measure: str) -> None:
    """A line for each mechanism and calibration: for ratings of the matrix as published, of users' own as corrected."""
    for mechanism, colour in COLOURS.items():
        for calibration, style in STYLES.items():
            mine = [row for row in rows if (row["mechanism"], row["calibration"]) == (mechanism, calibration)]
            shown = measure if measure == "error" else {"published": "matrix", "exact": "users"}[calibration]
            label = f"{mechanism}, {'as published' if calibration == 'published' else 'corrected'}"
            axes.plot(
                [row[x] for row in mine],
                [row[shown] for row in mine],
                style,
                color=colour,
                marker=".",
                lw=1.2,
                label=label,
            )
    clear = [row for row in rows if row["mechanism"] == "Clear"]
    shown = measure if measure == "error" else "users"
    if x == "observed":
        axes.plot([row[x] for row in clear], [row[shown] for row in clear], ":k", lw=1.2, label="Clear")
    else:
        axes.axhline(clear[0][shown], color="k", ls=":", lw=1.2, label="Clear")
    if measure == "error":
        axes.set_yscale("log")
