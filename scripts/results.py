"""Write docs/results/README.md and its plots, or the tables of lists in docs/compare.md, from docs/results.

Usage: python scripts/results.py docs/results/README.md
       python scripts/results.py docs/compare.md
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from discreet import papers
from discreet.data.datasets import CATALOG
from discreet.papers.report import HEADINGS, compared, draw, read
from discreet.papers.reproduction import Reproduction, number

BELOW = "<!-- What follows is written by `python scripts/results.py docs/results/README.md`; do not edit it. -->"

LISTS = "<!-- Written by `python scripts/results.py docs/compare.md` from results/ranking.json; do not edit it. -->"
END = "<!-- End of what is written. -->"
DATA = {
    "ml-1m": "MovieLens 1M",
    "ml-100k": "MovieLens 100k",
    "jester": "Jester",
    "anime": "anime",
    "movietweetings": "MovieTweetings",
    "ml-100k-later": "MovieLens 100k, the latest",
    "movietweetings-later": "MovieTweetings, the latest",
    "ml-1m-clicks": "MovieLens 1M, clicks of new users",
    "citeulike": "CiteULike, clicks",
    "amazon-sports": "Amazon sports, clicks",
}
WORDS = {  # data sets of the papers' figures
    "Table 4": "no data: the parameters that Table 4 of the paper prints",
    "synthetic, rank 5, 1000 items": "synthetic, rank 5, 1,000 items",
    "rank one, 500,000 x 400, 80 ratings of each user": "synthetic, rank one, 500,000 users x 400 items, 80 ratings",
    "rank one, 100 x 100, signs": "signs of a random rank-one matrix, 100 x 100",
    "Jester 1, 24,983 users, scaled to 0..5": "Jester, part 1 (24,983 users), scaled to 0..5",
}
PEERS = ("implicit ALS", "implicit BPR", "EASE", "ALS on liked clicks", "ALS")  # for clicks, the last is the one before
AT = (1.0, 5.0, 10.0)
Figures = dict[tuple[str, float | None], dict[str, Any]]


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
        needs = ", ".join(map(_title, one.needs))
        return f"| {name} | {one.title} | not run: {needs} needed | | | | |"
    kinds = "; ".join(dict.fromkeys(_kind(row["data"]) for row in document["rows"]))
    lines = one.comparison(document["rows"])
    cells = compared(lines[:1])[0] if lines else ["no number published", "", "", "", ""]
    plot = f"[plot]({one.name}.svg)" if (folder / f"{one.name}.svg").exists() else ""
    return f"| {name} | {cells[0]} | {kinds} | {cells[1]} | {cells[2]} | {cells[3]} | {plot} |"


def _kind(data: str) -> str:
    """The data of a row, in words: what it is, and what it stands in for."""
    data = re.sub(r"(?<=MovieLens )(\d+)m\b", r"\1M", data)
    made, stands = re.match(r"GENERATED \(movielens_like, .*?, ([\d,]+) ratings\), NOT ", data), " INSTEAD OF "
    if made:
        return f"**generated** ({made[1]} ratings), in place of {data[made.end() :]}"
    return data.replace(f",{stands}", ", **in place of** ") if stands in data else WORDS.get(data, data)


def _title(name: str) -> str:
    return re.sub(r"m$", "M", CATALOG[name].title)


def _section(one: Reproduction, document: dict[str, Any] | None, folder: Path) -> Iterator[str]:
    yield f"### {one.name}\n\n{one.title}.\n\n{one.protocol}\n"
    if document is None:
        needs = " and ".join(map(_title, one.needs))
        yield f"Not run here. `discreet reproduce {one.name}` runs it if you have {needs}."
        return
    yield from (f"    {command}" for command in document["commands"])
    runs = sorted({row["runs"] for row in document["rows"] if row["epsilon"] is not None} or {1})
    times = number(runs[0]) if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
    data = "; ".join(dict.fromkeys(_kind(row["data"]) for row in document["rows"]))
    yield f"\nOn: {data}. {len(document['rows'])} [rows]({one.name}.json); runs: {times} (paper: {one.runs})."
    if document.get("note"):
        yield f"\n{document['note']}"
    if (folder / f"{one.name}.svg").exists():
        yield f"\n![{one.title}]({one.name}.svg)"
    lines = compared(one.comparison(document["rows"]))
    if lines:
        yield f"\n| {' | '.join(HEADINGS)} |\n|{'---|' * len(HEADINGS)}"
        yield from (f"| {' | '.join(line)} |" for line in lines)


# -- docs/compare.md


def comparison(path: Path) -> str:
    """The page, with its tables made from the figures."""
    tables = json.loads((path.parent / "results" / "ranking.json").read_text(encoding="utf-8"))["tables"]
    figures = {name: {(row["model"], row["epsilon"]): row for row in table["rows"]} for name, table in tables.items()}
    before, _, rest = path.read_text(encoding="utf-8").partition(LISTS)
    after = rest.partition(END)[2]
    lines = [LISTS, "", *_against_peers(figures), "", *_of_one(figures["ml-1m"]), "", END]
    return before + "\n".join(lines) + after


def _against_peers(figures: dict[str, Figures]) -> Iterator[str]:
    """Recall of private models beside others without privacy, and how much of the gap is closed."""
    headings = ["recall@20", "popularity", "private, epsilon 1", "5", "10", *PEERS[:3], "`ALS`", "gap closed"]
    yield f"| {' | '.join(headings)} |"
    yield f"|{'---|' * len(headings)}"
    for data, title in DATA.items():
        found = figures[data]
        clicks = ("DPSVD on liked clicks", 1.0) not in found
        floor = _value(found, "Popularity", None)
        peers = [_value(found, name, None) for name in (*PEERS[:3], PEERS[4 if clicks else 3])]
        best = max((peer for peer in peers if peer is not None), default=None)
        for model in ("Recommender",) if clicks else ("Recommender", "Recommender for lists alone"):
            private = [_value(found, model, epsilon) for epsilon in AT]
            spreads = [found[model, epsilon]["recall@20"][1] for epsilon in AT]
            closed = "-"
            if best is not None and floor is not None and best > 1.02 * floor:
                closed = " / ".join(f"{(value - floor) / (best - floor):.0%}" for value in private if value is not None)
            cells = [f"{_short(value)} ({_short(sd)})" for value, sd in zip(private, spreads, strict=True)]
            name = title if model == "Recommender" else f"{title}; lists alone"
            yield f"| {' | '.join([name, _short(floor), *cells, *map(_short, peers), closed])} |"


def _of_one(found: Figures) -> Iterator[str]:
    """All metrics of one data set."""
    epsilons = sorted({epsilon for _, epsilon in found if epsilon is not None})
    yield f"| MovieLens 1M: recall@20, NDCG@20; RMSE | {' | '.join(f'epsilon {e:g}' for e in epsilons)} | not private |"
    yield f"|---|{'---|' * len(epsilons)}---|"
    for model in dict.fromkeys(name for name, _ in found):
        cells = [_metrics(found.get((model, epsilon))) for epsilon in (*epsilons, None)]
        word, _, rest = model.partition(" ")
        name = model if word in ("implicit", "EASE") else f"`{word}` {rest}".strip()
        yield f"| {name} | {' | '.join(cells)} |"


def _metrics(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    rmse = f"; {_short(row['rmse'][0])}" if "rmse" in row else ""
    return f"{_short(row['recall@20'][0])}, {_short(row['ndcg@20'][0])}{rmse}"


def _value(found: Figures, model: str, epsilon: float | None) -> float | None:
    row = found.get((model, epsilon))
    return None if row is None else float(row["recall@20"][0])


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}".removeprefix("0")


if __name__ == "__main__":
    target = Path(sys.argv[1])
    if LISTS in target.read_text(encoding="utf-8"):
        target.write_text(comparison(target), encoding="utf-8")
    else:
        write(target)
