"""The rows of a table or figure: on disk, as text with the published values, and as a plot."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from discreet.errors import DataError
from discreet.papers.reproduction import AS_PUBLISHED, Plot, Reproduction, Row, number
from discreet.recommend.results import whole_file
from discreet.version import __version__

HEADINGS = ("", "published", "ours", "ours / published", "where it is printed")
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6a3d9a", "#8c6d31", "#555555")
STYLES = {AS_PUBLISHED: "--", ", exact noise": "-.", "": "-"}  # by the end of a method's name
MARKERS = "osD^v"


class Results:
    """Rows that are written as they come, so that an interrupted run can be continued.

    A file can hold rows of several data sets, from several commands; a new row replaces an earlier one with the same
    keys. A note in the file, about the findings, is kept.
    """

    def __init__(self, reproduction: Reproduction, path: Path | None = None, command: str = "") -> None:
        self.reproduction = reproduction
        self.path = path
        before = {} if path is None or not path.exists() else read(path, reproduction.name)
        self.rows: list[Row] = before.get("rows", [])
        self.note: str | None = before.get("note")
        self.commands = list(dict.fromkeys([*before.get("commands", []), *([command] if command else [])]))

    def put(self, row: Row) -> None:
        """Add a row, or replace the one with the same keys, and write them all."""
        rows = {self.reproduction.identity(other): other for other in [*self.rows, row]}
        self.rows = list(rows.values())
        if self.path is not None:
            with whole_file(self.path) as part:
                part.write_text(self.text(), encoding="utf-8")

    def document(self) -> dict[str, Any]:
        """Plain values."""
        about = self.reproduction
        head = {"name": about.name, "paper": about.paper, "title": about.title, "version": __version__}
        note = {} if self.note is None else {"note": self.note}
        rows = {"measure": about.measure, "comparison": about.comparison(self.rows), "rows": self.rows}
        return {**head, "commands": self.commands, **note, **rows}

    def text(self) -> str:
        """The document as JSON, a row on a line."""
        document = self.document()
        lists = {name: document.pop(name) for name in ("comparison", "rows")}
        head = json.dumps(document, indent=1, ensure_ascii=False)[:-2]
        for name, rows in lists.items():
            lines = ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in rows)
            head += f',\n "{name}": [\n{lines}\n ]' if rows else f',\n "{name}": []'
        return f"{head}\n}}\n"


def read(path: Path, name: str) -> dict[str, Any]:
    """The document of a table or figure."""
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        found, _ = document["name"], document["rows"]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{str(path)!r} does not hold results of `discreet reproduce` ({error}); give another"
        ) from None
    if found != name:
        raise DataError(f"{str(path)!r} holds results of {found}, not of {name}; give another file")
    return document


def compared(comparison: Sequence[Row]) -> list[list[str]]:
    """Published values and ours, as cells of a table with HEADINGS."""
    several = len({line["data"] for line in comparison}) > 1
    return [
        [
            line["what"] + (f" [{line['data']}]" if several else ""),
            f"{line['says']} {number(line['published'])}".strip(),
            number(line["ours"]),
            number(line["ratio"]),
            line["where"],
        ]
        for line in comparison
    ]


def table(reproduction: Reproduction, rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """All rows as headings and cells; columns with a single value are left out."""
    names = list(dict.fromkeys(key for row in rows for key in row if key not in ("sd", reproduction.measure)))
    fixed = {key for key in names if len({row.get(key) for row in rows}) == 1 and key not in ("method", "epsilon")}
    keys = [key for key in names if key not in fixed and reproduction.is_key(key, rows[0].get(key))]
    more = [key for key in names if key not in keys and key not in fixed and key != "seconds"]
    cells = [
        [number(row.get(key)) for key in keys]
        + [number(row[reproduction.measure]) + ("" if row["sd"] is None else f" ({row['sd']:.1g})")]
        + [number(row.get(key)) for key in more]
        for row in rows
    ]
    return [*keys, reproduction.measure, *more], cells


# The plot: a panel for each value of one key, a curve for each method


def draw(reproduction: Reproduction, rows: Sequence[Row], path: Path) -> None:
    """Write a figure to a file, in the format of its extension (extra `plot`); tables have none."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    if reproduction.plot is None:
        return
    plot = _by_data(reproduction.plot, rows)
    panels: list[Any] = sorted({row.get(plot.panels or "") for row in rows} - {None}) or [None]
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
    """With several data sets, one panel for each; or one curve for each, if there are panels already."""
    if len({row["data"] for row in rows}) == 1:
        return plot
    return replace(plot, lines=("data", *plot.lines)) if plot.panels else replace(plot, panels="data")


def _base(method: str) -> tuple[str, str]:
    """A method's name, and its suffix for the kind of noise."""
    end = next(end for end in STYLES if method.endswith(end))
    return method.removesuffix(end), end


def _curves(axes: Any, measure: str, plot: Plot, rows: Sequence[Row], colors: dict[str, str]) -> None:
    """The curves; rows without a value on the axis, such as nonprivate methods, are horizontal lines."""
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
    """The published values that are points of the figure."""
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
