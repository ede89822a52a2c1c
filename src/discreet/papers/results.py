"""The rows of a table or figure on disk, and as text: published values beside ours."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from discreet import __version__
from discreet.errors import DataError
from discreet.papers.reproduction import Reproduction, Row

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
        key = self.reproduction.identity(row)
        places = [at for at, other in enumerate(self.rows) if self.reproduction.identity(other) == key]
        if places:
            self.rows[places[0]] = row
        else:
            self.rows.append(row)
        if self.path is not None:
            whole = self.path.with_suffix(f"{self.path.suffix}.part")
            whole.write_text(self.text(), encoding="utf-8")
            whole.replace(self.path)  # never half a file

    def document(self) -> dict[str, Any]:
        """All there is to say."""
        about = self.reproduction
        return {
            "name": about.name,
            "paper": about.paper,
            "title": about.title,
            "version": __version__,
            "commands": self.commands,
            **({} if self.note is None else {"note": self.note}),
            "measure": about.measure,
            "comparison": about.comparison(self.rows),
            "rows": self.rows,
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


def number(value: Any) -> str:
    """A number in four digits, a word as it is."""
    if value is None:
        return "-"
    return value if isinstance(value, str) else f"{value:.4g}" if abs(value) < 10_000 else f"{value:,.0f}"
