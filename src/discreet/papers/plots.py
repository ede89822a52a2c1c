"""A figure drawn from its rows (extra `plot`): a panel for each value of one key, a curve for each method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from discreet.errors import MissingExtra
from discreet.papers.reproduction import AS_PUBLISHED, Plot, Reproduction, Row, number

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6a3d9a", "#8c6d31", "#555555")
STYLES = {AS_PUBLISHED: "--", ", exact noise": "-.", "": "-"}  # by how the name of a method ends
MARKERS = "osD^v"


def draw(reproduction: Reproduction, rows: Sequence[Row], path: Path) -> None:
    """Write a figure to a file, by the ending of its name."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("a figure", "plot") from None
    if reproduction.plot is None:
        return
    plot = _by_data(reproduction.plot, rows)
    found: set[Any] = {row.get(plot.panels) for row in rows} if plot.panels else set()
    panels = sorted(found - {None}) or [None]
    figure = Figure(figsize=(3.4 * len(panels) + 3, 3.8), layout="constrained")
    bases = dict.fromkeys(_base(row["method"])[0] for row in rows)
    colors = {base: COLORS[at % len(COLORS)] for at, base in enumerate(bases)}
    same = plot.panels not in ("data", "column")
    for place, panel in enumerate(panels):
        axes = figure.add_subplot(1, len(panels), place + 1, sharey=figure.axes[0] if place and same else None)
        mine = [row for row in rows if plot.panels is None or row.get(plot.panels) in (panel, None)]
        _curves(axes, reproduction.measure, plot, mine, colors)
        _stars(axes, reproduction, plot, panel)
        _axes(axes, plot, mine)
        title = "" if panel is None else panel if isinstance(panel, str) else f"{plot.panels} {number(panel)}"
        axes.set_title(title, fontsize=7, wrap=True)
        axes.set_ylabel("" if place else reproduction.measure)
    legends = [axes.get_legend_handles_labels() for axes in figure.axes]
    handles = {label: handle for both in legends for handle, label in zip(*both, strict=True)}
    figure.legend(list(handles.values()), list(handles), loc="outside right center", fontsize=7, frameon=False)
    data = "" if plot.panels == "data" else "\n" + "; ".join(dict.fromkeys(row["data"] for row in rows))
    figure.suptitle(f"{reproduction.title}{data}", fontsize=8, x=0.01, ha="left")
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "discreet"}):  # small, and the same for the same rows
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _by_data(plot: Plot, rows: Sequence[Row]) -> Plot:
    """Rows of several data sets are in panels of their own, or if there are panels already in curves of their own."""
    if len({row["data"] for row in rows}) == 1:
        return plot
    return replace(plot, lines=("data", *plot.lines)) if plot.panels else replace(plot, panels="data")


def _base(method: str) -> tuple[str, str]:
    """A method's name, and what is said of its noise."""
    end = next(end for end in STYLES if method.endswith(end))
    return method.removesuffix(end), end


def _curves(axes: Any, measure: str, plot: Plot, rows: Sequence[Row], colors: dict[str, str]) -> None:
    """The curves; what has no place on the axis, as it has no epsilon, is a horizontal line."""
    keys = [key for key in plot.lines if len({row.get(key) for row in rows}) > 1]
    curves: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        curves.setdefault((row["method"], *(row.get(key) for key in keys)), []).append(row)
    kinds = list(dict.fromkeys(name[1:] for name in curves))
    for name, mine in curves.items():
        base, end = _base(name[0])
        told = [f"{key} {number(value)}" for key, value in zip(keys, name[1:], strict=True) if value is not None]
        look = {"color": colors[base], "linewidth": 1.2, "label": ", ".join([name[0], *told])}
        placed = sorted((row for row in mine if row.get(plot.x) is not None), key=lambda row: float(row[plot.x]))
        if placed:
            xs, ys, spread = ([row[key] for row in placed] for key in (plot.x, measure, "sd"))
            look |= {"linestyle": STYLES[end], "marker": MARKERS[kinds.index(name[1:]) % len(MARKERS)]}
            axes.errorbar(xs, ys, yerr=[one or 0.0 for one in spread], markersize=3, capsize=2, **look)
        else:
            axes.axhline(mine[0][measure], linestyle=":", **look)


def _stars(axes: Any, reproduction: Reproduction, plot: Plot, panel: Any) -> None:
    """What was published, where a point of the figure was."""
    found = {
        (one.at[plot.x], one.value)
        for one in reproduction.published
        if one.at is not None
        and plot.x in one.at
        and plot.panels in (None, "data", *one.at)
        and one.at.get(plot.panels or "", panel) == panel
    }
    if found:
        xs, ys = zip(*sorted(found), strict=True)
        axes.plot(xs, ys, linestyle="", marker="*", markersize=8, color="k", label="published")


def _axes(axes: Any, plot: Plot, rows: Sequence[Row]) -> None:
    ticks = sorted({row[plot.x] for row in rows if row.get(plot.x) is not None})
    if "x" in plot.log:
        axes.set_xscale("log")
    if ticks:
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    if "y" in plot.log:
        axes.set_yscale("log")
    axes.minorticks_off()
    axes.set_xlabel(plot.label)
    axes.spines[["top", "right"]].set_visible(False)
