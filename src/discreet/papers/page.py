"""The page of results: `python -m discreet.papers.page docs/results/README.md` writes it from the files beside it.

It draws their plots, too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from discreet.papers import registry
from discreet.papers.plots import draw
from discreet.papers.reproduction import Reproduction
from discreet.papers.results import HEADINGS, compared, number, read

HEAD = """# The papers' tables and figures, measured again

<!-- Written by `python -m discreet.papers.page docs/results/README.md` from the files beside it; do not edit. -->

`discreet reproduce NAME` measures one of them and shows what was published beside it; `discreet reproduce --list` says
which data each needs and whether you have them. Every number below comes from the file of that name in this folder,
which has the version, the commands and all rows, with the epsilon that holds in truth.

- *as published*: the noise that the paper prints, or that its rule asks for. *exact noise*: the same algorithm with the
  noise that epsilon takes. Other names are this library's own models, with defaults.
- The papers print few numbers beside their plots, and the plots are not at hand. So what can be compared is what tables
  and text say; "above", "below", "about" are theirs. The ratio is ours over published: for errors smaller is better.
- MovieLens 10M and 20M, Netflix and Yahoo! Music are not at hand either. GENERATED is data of that size made from
  nothing, and IN THE PLACE OF is a smaller data set under the same protocol: such numbers show that the code runs, and
  how methods rank there. They are **not** reproductions; with the file in place the same command makes one.
- Errors and accuracies are exact, about test ratings, and not covered by any epsilon.
"""


def page(folder: Path) -> str:
    """The whole page, as markdown."""
    entries = [(one, _document(one, folder)) for one in registry.every()]
    lines = [HEAD, "| | what | data | published | ours | ratio | plot |", "|---|---|---|---|---|---|---|"]
    lines += [_overview(one, document, folder) for one, document in entries]
    paper = None
    for one, document in entries:
        if one.paper != paper:
            paper = one.paper
            lines += ["", f"## {paper}"]
        lines += ["", *_section(one, document, folder)]
    return "\n".join(lines) + "\n"


def _document(one: Reproduction, folder: Path) -> dict[str, Any] | None:
    path = folder / f"{one.name}.json"
    return read(path, one.name) if path.exists() else None


def _overview(one: Reproduction, document: dict[str, Any] | None, folder: Path) -> str:
    """A line of the table: the first thing that can be compared."""
    name = f"[{one.name}](#{one.name})"
    if document is None:
        return f"| {name} | {one.title} | not run here: needs {', '.join(one.needs)} | | | | |"
    kinds = ", ".join(dict.fromkeys(_kind(row["data"]) for row in document["rows"]))
    lines = one.comparison(document["rows"])
    cells = compared(lines[:1])[0] if lines else ["no number published", "", "", "", ""]
    plot = f"[plot]({one.name}.svg)" if (folder / f"{one.name}.svg").exists() else ""
    return f"| {name} | {cells[0]} | {kinds} | {cells[1]} | {cells[2]} | {cells[3]} | {plot} |"


def _kind(data: str) -> str:
    """What data are, in short."""
    for word in ("GENERATED", "IN THE PLACE OF"):
        if word in data:
            return f"**{word.lower()}**"
    return data


def _section(one: Reproduction, document: dict[str, Any] | None, folder: Path) -> Iterator[str]:
    yield f"### {one.name}"
    yield ""
    yield one.protocol.strip()
    yield ""
    if document is None:
        yield f"Not run here. `discreet reproduce {one.name}` runs it where there is {' and '.join(one.needs)}."
        return
    yield from (f"    {command}" for command in document["commands"])
    yield ""
    runs = sorted({row["runs"] for row in document["rows"] if row["epsilon"] is not None} or {1})
    times = number(runs[0]) if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
    data = "; ".join(dict.fromkeys(row["data"] for row in document["rows"]))
    yield f"On: {data}. {len(document['rows'])} [rows]({one.name}.json); runs: {times} (paper: {one.runs})."
    if document.get("note"):
        yield f"\n{document['note']}"
    if (folder / f"{one.name}.svg").exists():
        yield f"\n![{one.title}]({one.name}.svg)"
    lines = compared(one.comparison(document["rows"]))
    if lines:
        yield f"\n| {' | '.join(HEADINGS)} |\n|{'---|' * len(HEADINGS)}"
        yield from (f"| {' | '.join(line)} |" for line in lines)


def write(path: Path) -> None:
    """Draw all plots, and write the page."""
    for one in registry.every():
        document = _document(one, path.parent)
        if document is not None and one.plot is not None:
            draw(one, document["rows"], path.parent / f"{one.name}.svg")
    path.write_text(page(path.parent), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
