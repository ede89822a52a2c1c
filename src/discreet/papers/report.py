"""The rows of a table or figure on disk and as text, published values beside ours, and the page of all results.

`python -m discreet.papers.report docs/results/README.md` writes the page from the files beside it, and their plots.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from discreet import papers
from discreet.errors import DataError
from discreet.papers.plots import draw
from discreet.papers.reproduction import Reproduction, Row, number
from discreet.version import __version__

HEADINGS = ("", "published", "ours", "ours / published", "where it is printed")


class Results:
    """Rows that are written as they come: a run that was stopped goes on where it was.

    A file may hold rows of several data sets, by several commands; a row takes the place of the one that it measures
    again. A note in it, on what was found, stays.
    """

    def __init__(self, reproduction: Reproduction, path: Path | None = None, command: str = "") -> None:
        self.reproduction = reproduction
        self.path = path
        before = {} if path is None or not path.exists() else read(path, reproduction.name)
        self.rows: list[Row] = before.get("rows", [])
        self.note: str | None = before.get("note")
        self.commands = list(dict.fromkeys([*before.get("commands", []), *([command] if command else [])]))

    def put(self, row: Row) -> None:
        """Take on a row, and write them all."""
        identities = [self.reproduction.identity(other) for other in self.rows]
        key = self.reproduction.identity(row)
        at = identities.index(key) if key in identities else len(self.rows)
        self.rows[at : at + 1] = [row]
        if self.path is not None:
            whole = self.path.with_suffix(f"{self.path.suffix}.part")
            whole.write_text(self.text(), encoding="utf-8")
            whole.replace(self.path)  # never half a file

    def document(self) -> dict[str, Any]:
        """All there is to say."""
        about = self.reproduction
        return {
            **{"name": about.name, "paper": about.paper, "title": about.title},
            **{"version": __version__, "commands": self.commands},
            **({} if self.note is None else {"note": self.note}),
            **{"measure": about.measure, "comparison": about.comparison(self.rows), "rows": self.rows},
        }

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
    """A document of a certain table or figure."""
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
    """Published values beside ours, as cells of a table with HEADINGS."""
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
    """All rows as headings and cells; what is the same in all of them is left out."""
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


# The page

HEAD = """# The papers' tables and figures, measured again

<!-- Written by `python -m discreet.papers.report docs/results/README.md` from the files beside it; do not edit. -->

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
    entries = [(one, _document(one, folder)) for one in papers.every()]
    lines = [HEAD, "| | what | data | published | ours | ratio | plot |", "|---|---|---|---|---|---|---|"]
    lines += [_overview(one, document, folder) for one, document in entries]
    paper = None
    for one, document in entries:
        if one.paper != paper:
            paper = one.paper
            lines += ["", f"## {paper}"]
        lines += ["", *_section(one, document, folder)]
    return "\n".join(lines) + "\n"


def write(path: Path) -> None:
    """Draw all plots, and write the page."""
    for one in papers.every():
        document = _document(one, path.parent)
        if document is not None and one.plot is not None:
            draw(one, document["rows"], path.parent / f"{one.name}.svg")
    path.write_text(page(path.parent), encoding="utf-8")


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
    return next((f"**{word.lower()}**" for word in ("GENERATED", "IN THE PLACE OF") if word in data), data)


def _section(one: Reproduction, document: dict[str, Any] | None, folder: Path) -> Iterator[str]:
    yield f"### {one.name}\n\n{one.protocol}\n"
    if document is None:
        yield f"Not run here. `discreet reproduce {one.name}` runs it where there is {' and '.join(one.needs)}."
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
