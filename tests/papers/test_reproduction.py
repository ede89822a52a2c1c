"""Points become rows, rows are compared with what was published, results survive being stopped."""

from __future__ import annotations

import ast
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import discreet
from discreet import papers
from discreet.errors import DataError
from discreet.papers import dpals
from discreet.papers.report import Results, compared, draw, read, table
from discreet.papers.reproduction import (
    Options,
    Paper,
    Plot,
    Point,
    Published,
    Reproduction,
    Row,
    best_of,
    printed,
    ratio_of,
    value_of,
)


def entry(counts: list[str] | None = None, **other: Any) -> Reproduction:
    """Two private methods at two epsilons and one that is not private; an error is 1 / epsilon + seed."""

    def points(options: Options) -> list[Point]:
        def run(name: str, epsilon: float | None) -> Any:
            def once(seed: int) -> dict[str, float | None]:
                if counts is not None:
                    counts.append(name)
                return {"rmse": 1 / (epsilon or 10) + seed, "true_epsilon": epsilon}

            return once

        found = [
            Point({"data": "made", "method": name, "epsilon": epsilon}, run(name, epsilon))
            for name in ("one, as published", "one")
            for epsilon in (1.0, 4.0)
            if options.wants(name)
        ]
        return [*found, Point({"data": "made", "method": "plain", "epsilon": None}, run("plain", None), 1)]

    given: dict[str, Any] = {"published": printed({4.0: 0.5}, "rmse", ["one", "absent"], "Table 1"), "runs": 3, **other}
    return Reproduction("an-entry", "a paper", "a title", "so", "rmse", points, **given)


def test_points_become_rows_with_means_and_deviations() -> None:
    rows = list(entry().rows(Options()))
    assert [(row["method"], row["epsilon"], row["runs"]) for row in rows] == [
        *((method, epsilon, 3) for method in ("one, as published", "one") for epsilon in (1.0, 4.0)),
        ("plain", None, 1),
    ]
    assert (rows[1]["rmse"], rows[1]["sd"], rows[1]["true_epsilon"]) == (1.25, 1.0, 4.0)
    assert (rows[-1]["sd"], rows[-1]["true_epsilon"]) == (None, None)
    assert [row["runs"] for row in entry().rows(Options(quick=True))] == [1] * 5
    assert [row["runs"] for row in entry().rows(Options(runs=2))] == [2, 2, 2, 2, 1]


def test_the_two_calibrations() -> None:
    published = [row["method"] for row in entry().rows(Options(calibration="published"))]
    exact = [row["method"] for row in entry().rows(Options(calibration="exact"))]
    assert published == ["one, as published"] * 2 + ["plain"]
    assert exact == ["one"] * 2 + ["plain"]


def test_published_beside_ours() -> None:
    one = entry()
    rows = list(one.rows(Options(runs=1)))
    (line,) = one.comparison(rows)  # of what was not measured there is no line
    assert (line["published"], line["ours"], line["ratio"], line["where"]) == (0.5, 0.25, 0.5, "Table 1")
    elsewhere = [{**row, "data": "other", "rmse": 1.0} for row in rows]
    assert [(line["data"], line["ratio"]) for line in one.comparison(rows + elsewhere)] == [("made", 0.5), ("other", 2)]
    assert compared(one.comparison(rows)) == [["one, epsilon 4", "0.5", "0.25", "0.5", "Table 1"]]
    headings, cells = table(one, rows)
    assert headings[:3] == ["method", "epsilon", "rmse"]
    assert cells[-1][:3] == ["plain", "-", "0.1"]


def test_claims_about_several_rows() -> None:
    rows: list[Row] = [{"x": x, "rmse": y, "method": "one"} for x, y in ((0.1, 3.0), (0.2, 1.0), (0.3, 2.0))]
    assert best_of("x", "rmse", method="one")(rows) == 0.2
    assert best_of("x", "rmse", max)(rows) == 0.1
    assert best_of("x", "rmse", method="two")(rows) is None
    assert value_of("rmse", x=0.3, method="one")(rows) == 2
    assert ratio_of("rmse", {"x": 0.1}, {"x": 0.3}, method="one")(rows) == 1.5
    assert ratio_of("rmse", {"x": 0.1}, {"x": 0.3}, method="two")(rows) is None
    assert ratio_of("rmse", {"x": 0.1}, {"x": 0.9})(rows) is None


def test_a_run_that_was_stopped_goes_on(tmp_path: Path) -> None:
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
    assert not list(tmp_path.glob("*.part"))


def test_where_each_run_has_its_own_data_all_points_are_measured_before_any_is_again() -> None:
    counts: list[str] = []
    one = entry(counts, by_run=True)
    rows = list(one.rows(Options()))
    assert (
        counts == [*["one, as published"] * 2, *["one"] * 2, "plain"] + ([*["one, as published"] * 2, *["one"] * 2]) * 2
    )
    assert [row["runs"] for row in rows] == [1] * 5 + [2] * 4 + [3] * 4
    same = {one.identity(row): row for row in entry().rows(Options())}
    for row in [rows[4], *rows[-4:]]:  # the same means and deviations as of all runs at once
        assert {**row, "seconds": 0} == {**same[one.identity(row)], "seconds": 0}
    counts.clear()
    again = list(one.rows(Options(), rows[4:7]))  # stopped then: the first two points have two runs, the others none
    assert [row["runs"] for row in again] == [1] * 2 + [2] * 2 + [3] * 4
    assert not list(one.rows(Options(), [rows[4], *rows[-4:]]))


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "does not hold"), ('{"rows": []}', "does not hold"), ('{"name": "b", "rows": []}', "of b")],
)
def test_files_that_hold_something_else(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text(text)
    with pytest.raises(DataError, match=message):
        Results(entry(), tmp_path / "rows.json")


def test_the_plot_has_every_method_and_what_was_published(tmp_path: Path) -> None:
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


def test_published_values_are_found_in_rows_that_have_them() -> None:
    """Rows with the values of Table 5 agree with it in every line."""
    one = papers.find("dpals-table5")
    rows = [
        {"data": "x", "method": method, "epsilon": epsilon, "column": column, "value": mean, "sd": None}
        for column, means in dpals.TABLE_5.items()
        for epsilon, mean in means.items()
        for method in (dpals.PRINTED, dpals.EXACT)
    ]
    assert [line["ratio"] for line in one.comparison(rows)] == [1.0] * 24


def test_table_4_gives_back_its_epsilons() -> None:
    one = papers.find("dpals-table4")
    lines = one.comparison(list(one.rows(Options(calibration="published"))))
    off = {(line["what"].partition(",")[0], line["published"]) for line in lines if abs(line["ratio"] - 1) > 0.0115}
    assert len(lines) == 12
    assert off == {("ml-10m-top400", 8.0), ("ml-10m-top400", 16.0)}


def test_every_table_and_figure_is_there() -> None:
    assert len(papers.NAMES) == 24
    modules = [
        import_module(f"discreet.papers.{name}") for name in dict.fromkeys(at for at, _ in papers.NAMES.values())
    ]
    declared = [one.name for module in modules for one in vars(module).values() if isinstance(one, Reproduction)]
    assert declared == list(papers.NAMES)
    for one in papers.every():
        assert isinstance(one, Reproduction)
        assert papers.find(one.name) is one
        assert one.title
        assert one.protocol
        assert all(isinstance(line, Published) and line.where for line in one.published)
    with pytest.raises(DataError, match="there are frank-wolfe-fig2a, "):
        papers.find("dpals-fig6")
    json.dumps([one.protocol for one in papers.every()])


def test_no_command_imports_papers_but_its_own() -> None:
    """Nor does that one until it runs: its imports are in functions. Packages below cannot import papers at all."""
    found = set()
    for path in (Path(discreet.__file__).parent / "cli").glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            whole = [f"{node.module}.{name}" for name in names] if isinstance(node, ast.ImportFrom) else names
            if any(f"{name}.".startswith("discreet.papers.") for name in whole):
                found.add(path.name)
                assert node not in tree.body
    assert found == {"reproduce.py"}


def test_the_docstring_has_the_title_and_the_protocol() -> None:
    def fig1(options: Options) -> list[Point]:
        """Figure 1: a title.

        It has a
        line that goes on.

        And more.
        """
        return []

    one = Paper("a-paper", "Authors", runs=7).shows("rmse", plot=None)(fig1)
    assert (one.name, one.paper, one.runs, one.plot) == ("a-paper-fig1", "Authors", 7, None)
    assert (one.title, one.protocol) == ("Figure 1: a title", "It has a line that goes on.\n\nAnd more.")
