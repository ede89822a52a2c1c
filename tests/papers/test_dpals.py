"""The tables of the DPALS paper agree with themselves."""

from discreet import papers
from discreet.papers import dpals
from discreet.papers.reproduction import Options


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
