"""Write docs/results/README.md, and the plots, from the results beside it.

Usage: python scripts/results.py docs/results/README.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from discreet import papers
from discreet.papers.report import HEADINGS, compared, draw, read
from discreet.papers.reproduction import Reproduction, number

BELOW = "<!-- What follows is written by `python scripts/results.py docs/results/README.md`; do not edit it. -->"


def page(path: Path) -> str:
    """The whole page, as markdown: its own introduction, and the contents of the files in its folder."""
    folder, head = path.parent, path.read_text(encoding="utf-8").partition(BELOW)[0]
    entries = [(one, _document(one, folder)) for one in papers.every()]
    lines = [f"{head}{BELOW}\n", "| | what | data | published | ours | ratio | plot |", "|---|---|---|---|---|---|---|"]
    lines += [_overview(one, document, folder) for one, document in entries]
    for paper, mine in groupby(entries, lambda entry: entry[0].paper):
        lines += ["", f"## {paper}"]
        lines += [line for entry in mine for line in ("", *_section(*entry, folder))]
    return "\n".join(lines) + "\n"


def write(path: Path) -> None:
    """Draw all plots, and write the page."""
    for one in papers.every():
        document = _document(one, path.parent)
        if document is not None:
            draw(one, document["rows"], path.parent / f"{one.name}.svg")
    path.write_text(page(path), encoding="utf-8")


def _document(one: Reproduction, folder: Path) -> dict[str, Any] | None:
    path = folder / f"{one.name}.json"
    return read(path, one.name) if path.exists() else None


def _overview(one: Reproduction, document: dict[str, Any] | None, folder: Path) -> str:
    """A line of the table, with the first comparison."""
    name = f"[{one.name}](#{one.name})"
    if document is None:
        return f"| {name} | {one.title} | not run here: needs {', '.join(one.needs)} | | | | |"
    kinds = ", ".join(dict.fromkeys(_kind(row["data"]) for row in document["rows"]))
    lines = one.comparison(document["rows"])
    cells = compared(lines[:1])[0] if lines else ["no number published", "", "", "", ""]
    plot = f"[plot]({one.name}.svg)" if (folder / f"{one.name}.svg").exists() else ""
    return f"| {name} | {cells[0]} | {kinds} | {cells[1]} | {cells[2]} | {cells[3]} | {plot} |"


def _kind(data: str) -> str:
    """A short description of the data."""
    return next((f"**{word.lower()}**" for word in ("GENERATED", "IN THE PLACE OF") if word in data), data)


def _section(one: Reproduction, document: dict[str, Any] | None, folder: Path) -> Iterator[str]:
    yield f"### {one.name}\n\n{one.title}.\n\n{one.protocol}\n"
    if document is None:
        yield f"Not run here. `discreet reproduce {one.name}` runs it if you have {' and '.join(one.needs)}."
        return
    yield from (f"    {command}" for command in document["commands"])
    runs = sorted({row["runs"] for row in document["rows"] if row["epsilon"] is not None} or {1})
    times = number(runs[0]) if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
    data = "; ".join(dict.fromkeys(row["data"] for row in document["rows"]))
    yield f"\nOn: {data}. {len(document['rows'])} [rows]({one.name}.json); runs: {times} (paper: {one.runs})."
    if document.get("note"):
        yield f"\n{document['note']}"
    if (folder / f"{one.name}.svg").exists():
        yield f"\n![{one.title}]({one.name}.svg)"
    lines = compared(one.comparison(document["rows"]))
    if lines:
        yield f"\n| {' | '.join(HEADINGS)} |\n|{'---|' * len(HEADINGS)}"
        yield from (f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
