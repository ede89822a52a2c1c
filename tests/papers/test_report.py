"""Results survive interruptions, are plotted, and make up the page of results in the documentation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from scripts.results import comparison, page

import discreet
from discreet import papers
from discreet.errors import DataError
from discreet.papers.report import Results, draw, read
from discreet.papers.reproduction import Options, Plot, Reproduction

Entry = Callable[..., Reproduction]
FOLDER = Path(__file__).parents[2] / "docs" / "results"
KEPT = [name for name in papers.NAMES if (FOLDER / f"{name}.json").exists()]


def test_the_page_is_that_of_the_files() -> None:
    assert (FOLDER / "README.md").read_text(encoding="utf-8") == page(FOLDER / "README.md"), (
        "run: python scripts/results.py docs/results/README.md"
    )


def test_the_comparison_is_that_of_the_figures() -> None:
    path = FOLDER.parent / "compare.md"
    assert path.read_text(encoding="utf-8") == comparison(path), "run: python scripts/results.py docs/compare.md"


@pytest.mark.parametrize("name", KEPT)
def test_files_hold_rows_of_their_figure(name: str) -> None:
    one = papers.find(name)
    document = read(FOLDER / f"{name}.json", name)
    for command in document["commands"]:
        assert command.startswith(f"discreet reproduce {name}")
        assert command.endswith(f" --out docs/results/{name}.json")  # where it is, not where somebody kept it
    assert document["version"]
    identities = [one.identity(row) for row in document["rows"]]
    assert len(set(identities)) == len(identities) > 1
    for row in document["rows"]:
        assert {"data", "method", "epsilon", "sd", "runs", "true_epsilon", one.measure} <= set(row)
        real = (
            not one.needs
            or any(word in row["data"] for word in ("GENERATED", "INSTEAD OF", "quick"))
            or (set(one.needs) <= {"jester", "ml-100k", "restaurant"})
        )
        assert real, "data that nobody here has are called so"
    results = Results(one, FOLDER / f"{name}.json")
    now, measured = (f'"version": "{version}"' for version in (discreet.__version__, document["version"]))
    assert results.text().replace(now, measured) == (FOLDER / f"{name}.json").read_text(encoding="utf-8")


def test_a_run_that_was_stopped_goes_on(entry: Entry, tmp_path: Path) -> None:
    counts: list[str] = []
    one, path = entry(counts), tmp_path / "rows.json"
    results = Results(one, path, "a command")
    for row, _ in zip(one.rows(Options(runs=2)), range(2), strict=False):
        results.put(row)
    again = Results(one, path, "a command")
    assert again.rows == results.rows
    assert len(again.rows) == 2
    counts.clear()
    for row in one.rows(Options(runs=2), tuple(again.rows)):
        again.put(row)
    assert counts == ["one"] * 4 + ["plain"]
    document = read(path, "an-entry")
    assert [row["method"] for row in document["rows"]] == ["one, as published"] * 2 + ["one"] * 2 + ["plain"]
    assert document["comparison"][0]["ratio"] == pytest.approx(0.75 / 0.5)
    assert document["commands"] == ["a command"]
    assert Results(one, path, "another").commands == ["a command", "another"]
    assert not list(one.rows(Options(runs=2), document["rows"]))
    more = list(one.rows(Options(runs=3), document["rows"]))  # more runs: all but the one that has no noise
    again.put(more[0])
    assert [row["runs"] for row in again.rows] == [3, 2, 2, 2, 1]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "does not hold"), ('{"rows": []}', "does not hold"), ('{"name": "b", "rows": []}', "of b")],
)
def test_files_that_hold_something_else(entry: Entry, text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text(text)
    with pytest.raises(DataError, match=message):
        Results(entry(), tmp_path / "rows.json")


def test_the_plot_has_every_method_and_what_was_published(entry: Entry, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    one = entry(plot=Plot(log="xy"))
    draw(one, list(one.rows(Options())), tmp_path / "plot.svg")
    drawn = (tmp_path / "plot.svg").read_text(encoding="utf-8")
    assert all(f">{word}</text>" in drawn for word in ("one", "one, as published", "plain", "published", "a title"))
    panels = entry(plot=Plot("x", "an axis", panels="epsilon", log="", lines=("rank",)))
    rows = [{**row, "x": x, "rank": rank} for row in one.rows(Options()) for x in (1, 2) for rank in (8, 16)]
    draw(panels, rows, tmp_path / "panels.svg")
    drawn = (tmp_path / "panels.svg").read_text(encoding="utf-8")
    assert all(f">{word}</text>" in drawn for word in ("epsilon 1", "epsilon 4", "an axis", "one, rank 8"))
    draw(one, [*one.rows(Options()), *({**row, "data": "other"} for row in one.rows(Options()))], tmp_path / "two.svg")
    drawn = (tmp_path / "two.svg").read_text(encoding="utf-8")
    assert all(f">{word}</text>" in drawn for word in ("made", "other"))
