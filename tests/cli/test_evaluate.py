"""`discreet evaluate` and `discreet tradeoff`, as a person would run them."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

import discreet
from discreet.cli.commands import app
from discreet.web.site import checked_curve
from tests.cli.conftest import example, run

QUICK = ("--set", "rank=2", "--set", "n_steps=2")
SAVED = ("model", "test.parquet", "--history", "train.parquet")


def evaluate(*arguments: str, code: int = 0) -> str:
    return run("evaluate", *arguments, code=code)


def numbers(*arguments: str) -> dict[str, dict[str, Any]]:
    models: dict[str, dict[str, Any]] = json.loads(evaluate(*arguments, "--json"))["models"]
    return models


def test_the_example_works_when_pasted(work: Path) -> None:
    text = run(*shlex.split(example("evaluate")))
    for part in ("owner's eyes", "Tested on 10%", "DPALS", "MeanRating", "Popularity", "rmse", "recall@20"):
        assert part in text
    rows = {line.split()[0]: line for line in text.splitlines() if line.strip()}
    assert rows["Popularity"].split()[1:3] == ["-", "-"]  # it predicts no ratings
    assert max(len(line) for line in rows.values() if "0." in line and "epsilon" not in line) <= 80
    assert "Baselines at the same epsilon, which no ledger is charged for: DPMeanRating and DPPopularity." in text
    assert "Of the private models here, by these exact numbers, take " in text
    assert "for ratings (rmse)." in text


def test_a_saved_model(work: Path) -> None:
    wanted = discreet.evaluate(
        discreet.load("model"),
        discreet.read("test.parquet"),
        history=discreet.read("train.parquet"),
        metrics=["rmse", "recall@20"],
        relevant=4,
        buckets=5,
    )
    options = ["--metrics", "rmse, recall@20", "--relevant", "4", "--buckets", "5"]
    found = numbers(*SAVED, *options)["ALS"]
    assert {name: score["value"] for name, score in found["metrics"].items()} == pytest.approx(dict(wanted))
    assert (found["metrics"]["rmse"]["low"], found["metrics"]["rmse"]["high"]) == wanted.interval("rmse")
    assert [bucket["metrics"]["rmse"]["value"] for bucket in found["buckets"]] == [
        bucket.scores["rmse"].value for bucket in wanted.buckets
    ]
    text = evaluate(*SAVED, *options)
    assert str(wanted) in text
    assert "owner's eyes" in text


def test_a_history_that_has_the_test_data(work: Path) -> None:
    told = evaluate("model", "test.csv", "--history", "test.csv").splitlines()[0]
    assert re.match(r"discreet: --history: ([\d,]+) of \1 targets are in it too", told)


def test_csv_and_parquet_are_the_same(work: Path) -> None:
    assert numbers("model", "test.csv", "--history", "train.csv") == numbers(*SAVED)


def test_one_go_is_what_python_gives(work: Path) -> None:
    train, _, test = discreet.splits.holdout(discreet.read("ratings.csv"), test=0.3, random_state=7)
    wanted = discreet.evaluate(discreet.ALS(rank=2, n_steps=2).fit(train), test, history=train, metrics=["rmse"])
    found = numbers("ratings.csv", "--model", "als", *QUICK, "--split", "0.3", "--seed", "7", "--metrics", "rmse")
    assert found["ALS"]["metrics"]["rmse"]["value"] == pytest.approx(wanted["rmse"])
    assert set(found) == {"ALS", "MeanRating"}


def test_the_latest(work: Path) -> None:
    table = pd.read_csv("ratings.csv")
    table.assign(timestamp=range(len(table), 0, -1)).to_csv("dated.csv", index=False)
    train, _, test = discreet.splits.by_time(discreet.read("dated.csv"), test=0.2)
    wanted = discreet.evaluate(
        discreet.ALS(rank=2, n_steps=2).fit(train), test, history=train, metrics="mae", buckets=3, bucket_by="history"
    )
    options = ["--model", "als", *QUICK, "--split", "0.2", "--split-by", "time", "--metrics", "mae"]
    options += ["--buckets", "3", "--bucket-by", "history"]
    found = numbers("dated.csv", *options)["ALS"]
    assert found["metrics"]["mae"]["value"] == pytest.approx(wanted["mae"])
    assert [{**bucket, "metrics": None} for bucket in found["buckets"]] == [
        {"bucket": bucket.number, **bucket.about, "metrics": None} for bucket in wanted.buckets
    ]
    assert "Tested on 20% of the table, the latest." in evaluate("dated.csv", *options)
    assert "has no times" in evaluate("ratings.csv", *options, code=1)


def test_implicit_feedback(work: Path) -> None:
    found = numbers("ratings.csv", "--model", "als", *QUICK, "--implicit", "--threshold", "4")
    assert set(found) == {"ALS", "Popularity"}
    assert set(found["ALS"]["metrics"]) == {"recall@20", "ndcg@100"}


def test_a_saved_model_without_ratings_on_a_table_with_them(work: Path) -> None:
    run("train", "train.csv", "--model", "als", *QUICK, "--implicit", "--out", "implicit")
    start = ["implicit", "test.csv", "--history", "train.csv"]
    assert set(numbers(*start)["ALS"]["metrics"]) == {"recall@20", "ndcg@100"}
    assert "predicts no ratings" in evaluate(*start, "--metrics", "rmse", code=1)


def test_a_model_of_lists_has_no_errors_of_ratings(work: Path) -> None:
    start = ["ratings.csv", "--items", "movies.csv", "--range", "0.5", "5", "--epsilon", "5", "--delta", "1e-6"]
    found = numbers(*start, "--set", "objective=lists")
    assert set(found["Recommender"]["metrics"]) == {"recall@20"}
    assert set(found["DPMeanRating"]["metrics"]) == {"rmse", "mae", "recall@20"}
    assert "predicts no ratings" in evaluate(*start, "--set", "objective=lists", "--metrics", "rmse", code=1)
    told = evaluate(*start, "--set", "features=nothing", code=1)
    assert "discreet: --set features: the catalog has no column 'nothing'" in told


def test_a_baseline_by_itself(work: Path) -> None:
    assert set(numbers("ratings.csv", "--model", "popularity")) == {"Popularity", "MeanRating"}
    assert "predicts no ratings" in evaluate("ratings.csv", "--model", "popularity", "--metrics", "rmse", code=1)


def test_accuracy_has_a_threshold(work: Path) -> None:
    start = ["ratings.csv", "--model", "mean-rating", "--metrics", "accuracy"]
    assert 0.5 < numbers(*start, "--threshold", "3")["MeanRating"]["metrics"]["accuracy"]["value"] <= 1
    assert "--range" in evaluate(*start, code=1)


@pytest.mark.parametrize("arguments", [SAVED, ("ratings.csv", "--model", "als", *QUICK, "--buckets", "3")])
def test_plots(work: Path, arguments: tuple[str, ...]) -> None:
    pytest.importorskip("matplotlib")
    assert "The plot is in p.svg." in evaluate(*arguments, "--plot", "p.svg")
    assert "<svg" in Path("p.svg").read_text()
    assert json.loads(evaluate(*arguments, "--plot", "p.png", "--json"))["plot"] == "p.png"
    assert Path("p.png").read_bytes().startswith(b"\x89PNG")


def test_buckets_of_the_model_beside_the_table(work: Path) -> None:
    text = evaluate("ratings.csv", "--model", "als", *QUICK, "--buckets", "3")
    assert "By popularity of the target, in buckets of equal numbers of items" in text
    assert text.count("owner's eyes") == 1


def test_a_private_model(work: Path, private_model: str) -> None:
    options = ["--epsilon", "1", "--delta", "1e-6", "--range", "0.5", "5", "--items", "movies.csv"]
    text = evaluate("ratings.csv", "--model", private_model, *options, "--metrics", "recall@10")
    assert "NoisyPopularity" in text
    assert "joint differential privacy with epsilon" in text
    ledger = discreet.Ledger("sqlite:///l.db", epsilon=2, delta=1e-6)
    evaluate("ratings.csv", "--model", private_model, *options, "--metrics", "recall@10", "--ledger", "l.db")
    assert len(ledger.events) == 1


def test_users_of_the_test_without_a_history(work: Path) -> None:
    """`discreet split` makes some, if people have few rows."""
    train = pd.read_csv("train.csv")
    train[train["user"] > 150].to_csv("few.csv", index=False)
    result = CliRunner().invoke(app, ["evaluate", "model", "test.csv", "--history", "few.csv", "--json"])
    told = "users of the test data have no rows in --history; the model is shown an empty history of them"
    assert result.stderr.endswith(f"{told}\n")
    users = pd.read_csv("test.csv")["user"].nunique()
    assert json.loads(result.stdout)["models"]["ALS"]["metrics"]["rmse"]["users"] == users


def test_epsilons_are_read_before_the_table(work: Path) -> None:
    options = ["--observed-items-are-public", "--range", "0.5", "5", "--delta", "1e-6", "--epsilons", "1;2"]
    assert "--epsilons: '1;2' must be numbers" in run("tradeoff", "none.csv", *options, code=2)


@pytest.mark.parametrize(
    ("arguments", "said", "code"),
    [
        (["model", "test.csv"], "--history", 2),
        (["ratings.csv"], "missing: --epsilon NUMBER; --delta NUMBER; --items FILE", 2),
        (["ratings.csv", "--model", "als", "--history", "train.csv"], "saved model", 2),
        (["a", "b", "c", "--model", "als"], "one table and --model", 2),
        ([*SAVED, "--epsilon", "1"], "saved model", 2),
        ([*SAVED, "--set", "rank=3"], "saved model", 2),
        ([*SAVED, "--plot", "x.doc"], "--plot", 2),
        ([*SAVED, "--plot", "nowhere/x.png"], "can be written", 2),
        ([*SAVED, "--metrics", "rsme"], "there is no 'rsme'; there are rmse", 1),
        ([*SAVED, "--metrics", ""], "at least one", 1),
        (["ratings.csv", "--model", "als", "--metrics", ""], "at least one", 1),
        ([*SAVED, "--buckets", "0"], "buckets", 1),
        (["none", "test.csv", "--history", "train.csv"], "no such folder", 1),
        (["model", "none.csv", "--history", "train.csv"], "none.csv", 1),
        (["model", "views.csv", "--history", "train.csv"], "--value", 1),
        (["model", "test.csv", "--history", "others.csv"], "history", 1),
        (["ratings.csv", "--model", "als", "--split", "2"], "--split: a share above 0 and below 1", 2),
        (["ratings.csv", "--model", "als", "--epsilon", "1"], "ALS is not private: it has no epsilon", 2),
    ],
)
def test_errors_are_one_sentence(work: Path, arguments: list[str], said: str, code: int) -> None:
    train = pd.read_csv("train.csv")
    train[["user", "item"]].to_csv("views.csv", index=False)
    train.assign(user=train["user"] + 1000).to_csv("others.csv", index=False)
    text = evaluate(*arguments, code=code)
    assert text.startswith("discreet: ")
    assert text.count("\n") == 1
    assert said in text


def test_a_plot_needs_its_extra(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert "discreet[plot]" in evaluate(*SAVED, "--plot", "p.png", code=1)


def test_a_config_file(work: Path) -> None:
    Path("e.toml").write_text(
        'sources = "ratings.csv"\nmodel = "als"\nmetrics = ["rmse", "recall@5"]\nsplit = 0.2\n[set]\nrank = 2\n'
    )
    found = numbers("--config", "e.toml")
    assert set(found["ALS"]["metrics"]) == {"rmse", "recall@5"}
    assert found == numbers("ratings.csv", "--config", "e.toml", "--set", "rank=2")


# -- tradeoff

PUBLIC = ("ratings.csv", "--items", "movies.csv", "--range", "0.5", "5", "--delta", "1e-6", "--set", "n_steps=1")
FEW = ("--epsilons", "1,9", "--repeats", "1")


def tradeoff(*arguments: str, code: int = 0) -> str:
    return run("tradeoff", *arguments, code=code)


def test_tradeoff_works_when_pasted_and_again_without_a_single_fit(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    curve = checked_curve(
        json.loads(Path("c.json").read_text(encoding="utf-8")), may_be_public=True
    )  # as `discreet export` does
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
        (("--model", "als"), 2, "--model: at least one private model"),
        (("--model", "dpals", "--model", "DPALS"), 2, "one is given twice"),
        (("--set", "depth=3"), 2, "has no parameter 'depth'"),
        (("--epsilons", "1;2"), 2, "--epsilons"),
        (("--report", "r.pdf"), 2, "must end in .html"),
        (("--plot", "p.docx"), 2, "--plot"),
        (("--results", "ratings.csv"), 1, "not a DuckDB file"),
    ],
)
def test_what_tradeoff_refuses(work: Path, arguments: tuple[str, ...], code: int, message: str) -> None:
    told = tradeoff(
        "ratings.csv", "--items", "movies.csv", "--range", "0.5", "5", "--delta", "1e-6", *arguments, code=code
    )
    assert message in told
    assert len(told.splitlines()) == 1
    assert not Path("tradeoff.duckdb").exists() or code == 1


def test_tradeoff_has_no_default_delta(work: Path) -> None:
    assert "--delta" in tradeoff("ratings.csv", code=2)


def test_a_run_that_is_stopped_says_that_it_can_go_on(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*given: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(discreet.DPALS, "fit", stop)
    assert "finished runs are in 'tradeoff.duckdb'; the same command continues" in tradeoff(
        *PUBLIC, *FEW, "--model", "dpals", code=130
    )
