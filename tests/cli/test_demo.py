import html
import json
from pathlib import Path

from tests.cli.conftest import run


def test_demo_trains_recommends_and_writes_a_report(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    data = json.loads(run("demo", "--users", "2500", "--epsilon", "2", "--report", str(report), "--json"))
    assert data["guarantee"]["holds"]
    assert 1.99 < data["guarantee"]["epsilon"] <= 2
    private, twin, both, own = data["rmse"].values()
    assert twin < both < own
    assert private < own
    assert len(data["recommendations"]) == 5
    assert data["sentence"] in html.unescape(report.read_text())


def test_demo_speaks_to_people(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    text = run("demo", "--users", "300", "--report", str(report))
    assert "RMSE" in text
    assert "joint differential privacy" in text.replace("\n", " ")
    assert "not private" in text
    assert "each user's own mean" in text
    assert "rank" in text


def test_a_report_that_cannot_be_written_is_found_out_first(tmp_path: Path) -> None:
    assert "--report" in run("demo", "--report", str(tmp_path / "nowhere" / "x.html"), code=2)
    assert "--report" in run("demo", "--report", str(tmp_path), code=2)
