"""`discreet tradeoff`, as a person would run it."""

import json
import shlex
from pathlib import Path

import pytest

import discreet
from discreet.web.tradeoff import checked
from tests.cli.conftest import example
from tests.cli.test_account import run

PUBLIC = ("ratings.csv", "--items", "movies.csv", "--range", "0.5", "5", "--delta", "1e-6", "--set", "n_steps=1")
FEW = ("--epsilons", "1,9", "--repeats", "1")


def tradeoff(*arguments: str, code: int = 0) -> str:
    return run("tradeoff", *arguments, code=code)


def test_the_example_works_when_pasted_and_again_without_a_single_fit(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = [*shlex.split(example("tradeoff")), "--repeats", "1"]
    text = run(*arguments)
    for part in ("owner's eyes", "DPALS", "epsilon 1", "each user's own mean", "At epsilon", "tradeoff.duckdb"):
        assert part in text
    monkeypatch.setattr(discreet.DPALS, "fit", None)
    data = json.loads(run(*arguments, "--json"))
    assert [point["epsilon"] for point in data["models"]["DPALS"]] == [1, 4]
    assert data["recommendation"] in text
    assert data["worth"][0] in text
    assert set(data["lines"]) == {"ALS, not private", "each user's own mean"}


def test_a_report_and_a_plot(work: Path) -> None:
    pytest.importorskip("matplotlib")
    metrics = ("--metrics", "recall@5,rmse", "--relevant", "4", "--model", "dpals", "--model", "mean-rating")
    files = ("--report", "r.html", "--plot", "p.svg", "--results", "r.duckdb", "--curve", "c.json")
    text = tradeoff(*PUBLIC, *FEW, *metrics, *files)
    assert "Every run is in r.duckdb, the report in r.html, the plot in p.svg, the curve in c.json." in text
    curve = checked(
        json.loads(Path("c.json").read_text(encoding="utf-8")), may_be_public=True
    )  # as `discreet export` does
    assert curve is not None
    assert curve["metric"] == "recall@5"
    assert "<h2>recall@5</h2>" in Path("r.html").read_text(encoding="utf-8")
    assert "<svg" in Path("p.svg").read_text(encoding="utf-8")
    wanted = discreet.evaluate.tradeoff(
        {"DPALS": discreet.DPALS(epsilon=1, delta=1e-6, n_steps=1), "MeanRating": discreet.MeanRating(n_steps=1)},
        discreet.read("ratings.csv", items="movies.csv", value_range=(0.5, 5)),
        [1, 9],
        1,
        metrics=["recall@5", "rmse"],
        relevant=4.0,
        results="r.duckdb",
    )
    assert wanted.sentence() in text
    assert set(wanted.lines) >= {"MeanRating", "popularity, not private"}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--model", "als"), 1, "at least one private model"),
        (("--model", "dpals", "--model", "DPALS"), 2, "one is given twice"),
        (("--set", "depth=3"), 2, "has no parameter 'depth'"),
        (("--epsilons", "1;2"), 2, "--epsilons"),
        (("--report", "r.pdf"), 2, "ends in .html"),
        (("--plot", "p.docx"), 2, "--plot"),
        (("--results", "ratings.csv"), 1, "not a DuckDB file"),
    ],
)
def test_what_is_refused(work: Path, arguments: tuple[str, ...], code: int, message: str) -> None:
    told = tradeoff(
        "ratings.csv", "--items", "movies.csv", "--range", "0.5", "5", "--delta", "1e-6", *arguments, code=code
    )
    assert message in told
    assert len(told.splitlines()) == 1
    assert not Path("tradeoff.duckdb").exists() or code == 1


def test_delta_has_no_default(work: Path) -> None:
    assert "--delta" in tradeoff("ratings.csv", code=2)


def test_a_run_that_is_stopped_says_that_it_can_go_on(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*given: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(discreet.DPALS, "fit", stop)
    assert "finished runs are in 'tradeoff.duckdb', and the same command continues" in tradeoff(
        *PUBLIC, *FEW, "--model", "dpals", code=130
    )
