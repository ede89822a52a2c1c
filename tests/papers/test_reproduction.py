"""Points become rows, and rows are compared with the published values."""

from __future__ import annotations

from collections.abc import Callable

from discreet.papers.report import compared, table
from discreet.papers.reproduction import Options, Paper, Point, Reproduction, Row, best_of, ratio_of, value_of

Entry = Callable[..., Reproduction]


def test_points_become_rows_with_means_and_deviations(entry: Entry) -> None:
    rows = list(entry().rows(Options()))
    assert [(row["method"], row["epsilon"], row["runs"]) for row in rows] == [
        *((method, epsilon, 3) for method in ("one, as published", "one") for epsilon in (1.0, 4.0)),
        ("plain", None, 1),
    ]
    assert (rows[1]["rmse"], rows[1]["sd"], rows[1]["true_epsilon"]) == (1.25, 1.0, 4.0)
    assert (rows[-1]["sd"], rows[-1]["true_epsilon"]) == (None, None)
    assert [row["runs"] for row in entry().rows(Options(quick=True))] == [1] * 5
    assert [row["runs"] for row in entry().rows(Options(runs=2))] == [2, 2, 2, 2, 1]


def test_the_two_calibrations(entry: Entry) -> None:
    published = [row["method"] for row in entry().rows(Options(calibration="published"))]
    exact = [row["method"] for row in entry().rows(Options(calibration="exact"))]
    assert published == ["one, as published"] * 2 + ["plain"]
    assert exact == ["one"] * 2 + ["plain"]


def test_published_beside_ours(entry: Entry) -> None:
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
