"""Trade-off curves: what is run and what is not run again, what is said, and what comes out."""

import dataclasses
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import discreet
from discreet.errors import DataError, PrivacyError
from discreet.evaluate import Tradeoff, tradeoff
from discreet.evaluate.curves import OWN_MEAN, OWNER, Spread
from discreet.evaluate.runs import Run
from discreet.evaluate.tradeoffs import POPULAR, TWIN

DELTA = 1e-6
DATA = discreet.datasets.movielens_like(400, 40, 9_000, random_state=0)


def model(**params: Any) -> discreet.DPALS:
    return discreet.DPALS(**{"epsilon": 1.0, "delta": DELTA, "n_steps": 2, **params})


def curves(models: Any = None, **options: Any) -> Tradeoff:
    given: dict[str, Any] = {"epsilons": [1, 20], "repeats": 2, "insecure_seed": 1, **options}
    return discreet.evaluate.tradeoff(models or model(), given.pop("data", DATA), **given)


def gist(result: Tradeoff) -> list[tuple[Any, ...]]:
    """All runs, but for when they were."""
    return [(run.model, run.epsilon, run.repeat, run.metrics) for run in result.runs]


@pytest.fixture(scope="module")
def found() -> Tradeoff:
    return curves({"short": model(n_steps=1), "long": model()}, metrics=["rmse", "recall@5"])


# -- running


def test_every_run_is_what_a_fit_by_hand_gives() -> None:
    train, _, test = discreet.splits.holdout(DATA, test=0.1, random_state=0)
    lines = curves().lines
    for name, plain in ((TWIN, discreet.ALS()), (OWN_MEAN, discreet.MeanRating("user"))):
        wanted = discreet.evaluate(plain.fit(train), test, history=train, metrics="rmse")["rmse"]
        assert lines[name]["rmse"] == pytest.approx(wanted)
    given = curves(data=(train, test), baselines={}, epsilons=[3.0], repeats=1)
    assert gist(given) == gist(curves(baselines={}, epsilons=3.0, repeats=1))
    assert given.runs[0].statement.guarantee.cost == model(epsilon=3.0).plan(40).cost


def test_the_mapping(found: Tradeoff) -> None:
    assert set(found) == {"short", "long", "DPMeanRating", "DPPopularity"}
    assert found.baselines == ("DPMeanRating", "DPPopularity")
    assert (set(found["DPMeanRating"][1.0]), set(found["DPPopularity"][1.0])) == ({"rmse"}, {"recall@5"})
    assert set(found["short"]) == {1.0, 20.0}
    values = [run.metrics["rmse"] for run in found.runs if (run.model, run.epsilon) == ("long", 20.0)]
    assert len(set(values)) == 2  # other noise in each
    assert found["long"][20.0]["rmse"] == pytest.approx(np.mean(values))
    spread = found.spread("long", 20)
    assert spread == Spread(pytest.approx(np.mean(values)), pytest.approx(np.std(values, ddof=1)), *sorted(values), 2)
    assert found["long"][20.0]["rmse"] < found["long"][1.0]["rmse"]
    assert set(found.lines[POPULAR]) == {"recall@5"}
    assert set(found.lines[TWIN]) == {"rmse", "recall@5"}
    with pytest.raises(KeyError, match="'medium' was not tried; there are short, long, DPMeanRating"):
        found["medium"]
    with pytest.raises(KeyError, match="short at 1, 20"):
        found.spread("short", 7)
    with pytest.raises(DataError, match="'mae' was not measured"):
        found.spread("short", 1, "mae")


def test_noise_is_real_unless_a_seed_is_given() -> None:
    first, second = (curves(epsilons=1, repeats=1, insecure_seed=None, baselines={}) for _ in range(2))
    assert first["DPALS"] != second["DPALS"]
    assert first.runs[0].statement.guarantee.holds
    first.runs[0].certificate["not_covered"] = []
    with pytest.raises(PrivacyError, match="digest"):
        _ = first.runs[0].statement
    seeded, same, other = (curves(epsilons=1, repeats=1, baselines={}, insecure_seed=seed) for seed in (1, 1, 2))
    assert gist(seeded) == gist(same) != gist(other)
    assert not seeded.runs[0].statement.guarantee.holds


def test_models_in_every_form() -> None:
    few: dict[str, Any] = {"epsilons": [1], "repeats": 1, "baselines": {}}
    assert set(curves([discreet.DPALS, discreet.DPSVD(epsilon=9, delta=0.1)], delta=1e-7, **few)) == {"DPALS", "DPSVD"}
    assert set(curves(discreet.Recommender, delta=DELTA, **few)) == {"DPALS"}
    result = curves({"a": model(), "plain": discreet.MeanRating}, **few)
    assert (set(result), set(result.lines)) == ({"a"}, {"plain"})
    assert result.runs[0].certificate["guarantee"]["delta"] == DELTA
    implicit = curves(discreet.Recommender, data=DATA.to_implicit(4), delta=DELTA, epsilons=[1], repeats=1)
    assert implicit.metrics == ("recall@20", "ndcg@100")
    assert set(implicit.lines) == {TWIN, POPULAR}
    assert POPULAR in implicit.worth()[0]


# -- going on


class Stopped(Exception):
    """In the place of a killed process."""


def counting(monkeypatch: pytest.MonkeyPatch, stop_after: int | None = None) -> list[Any]:
    """Every fit from here on; after so many, the process "dies"."""
    fitted: list[Any] = []
    usual = discreet.DPALS.fit

    def fit(self: Any, *given: Any, **options: Any) -> Any:
        if stop_after is not None and len(fitted) == stop_after:
            raise Stopped
        fitted.append(self.get_params())
        return usual(self, *given, **options)

    monkeypatch.setattr(discreet.DPALS, "fit", fit)
    return fitted


def test_a_stopped_run_goes_on_without_repeating_or_losing_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "runs.duckdb"
    wanted = gist(curves())
    with monkeypatch.context() as patch:
        counting(patch, stop_after=3)
        with pytest.raises(Stopped):
            curves(results=file)
    with monkeypatch.context() as patch:
        fitted = counting(patch)
        again = curves(results=file)
        assert gist(again) == wanted
        assert len(fitted) == 1
    with monkeypatch.context() as patch:
        fitted = counting(patch)
        assert curves(results=file).runs == again.runs
        assert fitted == []
        more = curves(results=file, repeats=3, epsilons=[1, 5, 20])  # only what is new
        assert len(fitted) == 2 + 3
        assert set(map(str, again.runs)) <= set(map(str, more.runs))
        assert curves({"renamed": model(n_jobs=1)}, results=file)["renamed"] == again["DPALS"]  # nothing depends on it
        assert len(fitted) == 5


def swapped(data: discreet.Interactions) -> tuple[discreet.Interactions, discreet.Interactions]:
    """The division of `tradeoff` itself, but test ratings are those of other users."""
    train, _, test = discreet.splits.holdout(data, test=0.1, random_state=0)
    return train, dataclasses.replace(test, users=type(test.users)(test.users.to_arrow()[::-1]))


@pytest.mark.parametrize(
    "changed",
    [
        {"models": model(n_steps=1)},
        {"models": model(delta=1e-7)},
        {"data": discreet.datasets.movielens_like(400, 40, 9_000, random_state=1)},
        pytest.param({"data": swapped(DATA)}, marks=pytest.mark.filterwarnings("ignore:history. .* are in it too")),
        {"random_state": 1},
        {"test": 0.2},
        {"metrics": ["mae"]},
        {"relevant": 4.0, "metrics": ["rmse"]},
        {"insecure_seed": 2},
    ],
)
def test_a_changed_question_never_gets_an_old_answer(tmp_path: Path, changed: dict[str, Any]) -> None:
    few: dict[str, Any] = {"epsilons": [1], "repeats": 1, "baselines": {}, "results": tmp_path / "runs.duckdb"}
    curves(**few)
    curves(**{**few, **changed})
    curves(**few)
    with duckdb.connect(few["results"]) as file:
        assert len(file.execute("SELECT * FROM runs").fetchall()) == 2


KILLED = """
import discreet, sys, time
from discreet.evaluate import tradeoffs
usual = tradeoffs.evaluate
def slow(*given, **options):
    found = usual(*given, **options)
    print("run", flush=True)
    time.sleep(0.3)  # before it is written: this one is lost, the earlier ones are not
    return found
tradeoffs.evaluate = slow
data = discreet.datasets.movielens_like(400, 40, 9_000, random_state=0)
model = discreet.DPALS(epsilon=1.0, delta=1e-6, n_steps=2)
discreet.evaluate.tradeoff(model, data, [1, 20], 2, results=sys.argv[1], insecure_seed=1)
"""


def test_a_killed_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Really killed, with the file open."""
    file = tmp_path / "runs.duckdb"
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(file)], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    for _ in range(3):
        assert process.stdout.readline() == "run\n"
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    fitted = counting(monkeypatch)
    resumed = gist(curves(results=file))
    assert len(fitted) == 2  # two of four were kept
    assert resumed == gist(curves())


def test_a_file_of_something_else(tmp_path: Path) -> None:
    file = tmp_path / "ratings.csv"
    for content in ("user,item\n1,2\n", "a\n1\n"):
        file.write_text(content)
        with pytest.raises(DataError, match="is not a DuckDB file"):
            curves(results=file)
    with duckdb.connect(tmp_path / "mine.duckdb") as mine:
        mine.execute("CREATE TABLE runs (distance DOUBLE)")
    with pytest.raises(DataError, match="not of a trade-off"):
        curves(results=tmp_path / "mine.duckdb")


# -- words


def made(curve: dict[float, list[float]], lines: dict[str, float], metric: str = "rmse") -> Tradeoff:
    runs = [Run("M", e, i, {metric: value}, {}) for e, values in curve.items() for i, value in enumerate(values)]
    runs += [Run(name, None, 0, {metric: value}, {}) for name, value in lines.items()]
    free = next((name for name in (OWN_MEAN, POPULAR) if name in lines), None)
    return Tradeoff(runs, metrics=[metric], repeats=2, free=free)


def test_the_recommendation() -> None:
    lines = {TWIN: 1.0, OWN_MEAN: 1.5}
    result = made({1: [1.2, 1.2], 2: [1.02, 1.04], 5: [1.0, 1.02]}, lines)
    assert result.sentence() == (
        "At epsilon 2 you lose 3.0% rmse with M against ALS, not private (1.0300 ± 0.0141 against 1.0000)."
    )
    assert result.sentence() in str(result)
    far = made({1: [1.4], 2: [1.3]}, lines)
    assert "At epsilon 2 you lose 30.0% rmse" in far.sentence()
    better = made({1: [0.3, 0.3]}, {TWIN: 0.2, POPULAR: 0.1}, "recall@20")
    assert "At epsilon 1 you lose nothing in recall@20 with M" in better.sentence()
    assert made({1: [1.0]}, {}).sentence() == "There is no model without privacy to compare with."


def test_which_model_to_take() -> None:
    curves_of = {"M": {1.0: 1.2, 5.0: 0.9}, "Means": {1.0: 1.1, 5.0: 1.0}, "Lists": {1.0: 0.2, 5.0: 0.3}}
    runs = [
        Run(name, epsilon, 0, {"recall@20" if name == "Lists" else "rmse": value}, {})
        for name, curve in curves_of.items()
        for epsilon, value in curve.items()
    ]
    result = Tradeoff(runs, metrics=["rmse", "recall@20"], repeats=1, free=None, baselines=["Means", "Lists"])
    said = "For lists (recall@20) take Lists. For ratings (rmse) take Means at epsilon 1 and M at epsilon 5."
    assert result.advice() == said
    assert said in str(result)
    assert "take" not in str(made({1: [1.0]}, {}))  # there is only one


def test_baselines_have_the_same_budget() -> None:
    few: dict[str, Any] = {"epsilons": [2], "repeats": 1}
    result = curves(model(adjacency="replace"), **few)
    guarantee = next(run for run in result.runs if run.model == "DPMeanRating").certificate["guarantee"]
    assert (guarantee["delta"], guarantee["adjacency"]) == (DELTA, "replace")
    assert guarantee["epsilon"] == pytest.approx(2, abs=0.01)
    assert set(curves([discreet.DPMeanRating(epsilon=1, delta=DELTA), model()], **few)) == {"DPMeanRating", "DPALS"}
    bits = curves(discreet.OneBit(epsilon=1.0, threshold=4.0, tau=20.0), metrics=["accuracy"], threshold=4.0, **few)
    assert set(bits) == {"OneBit"}  # no epsilon for users compares with one for entries


def test_by_time() -> None:
    rows = [(u, i, 1.0 + (u + i) % 5, 10 * i + u) for u in range(60) for i in range(8)]
    data = discreet.read(rows, items=list(range(8)), value_range=(1, 5))
    few: dict[str, Any] = {"epsilons": [1], "repeats": 1, "baselines": {}}
    train, _, test = discreet.splits.by_time(data, test=0.1)
    assert gist(curves(data=data, by="time", **few)) == gist(curves(data=(train, test), **few))
    with pytest.raises(DataError, match="has no times"):
        curves(by="time", **few)


def test_little_data_is_said_plainly() -> None:
    lines = {TWIN: 1.0, OWN_MEAN: 1.2}
    none = made({1: [1.4, 1.3], 8: [1.1, 1.21]}, lines)  # one run of two is not enough
    assert none.beats_free("M") is None
    assert none.worth() == [
        "M does not beat each user's own mean (rmse 1.2000) at any epsilon up to 8: there is too little data "
        "for a private model, and you lose nothing by doing without one."
    ]
    some = made({1: [1.1], 2: [1.3], 4: [1.1], 8: [1.0]}, lines)  # luck at 1 does not count
    assert some.beats_free("M") == 4
    assert "The smallest epsilon at which M beats each user's own mean (rmse 1.2000) is 4" in some.worth()[0]
    assert "at every epsilon tried, from 1 on" in made({1: [1.1], 8: [1.0]}, lines).worth()[0]
    with pytest.raises(DataError, match="baselines"):
        made({1: [1.1]}, {TWIN: 1.0}).beats_free("M")
    assert made({1: [1.1]}, {TWIN: 1.0}).worth() == []


def test_really_little_data() -> None:
    tiny = discreet.datasets.movielens_like(60, 30, 900, random_state=0)
    result = curves(data=tiny, epsilons=[0.1], repeats=8)  # some of which are worse, whatever the seed
    assert "too little data" in str(result)


def test_the_forms(found: Tradeoff) -> None:
    text = str(found)
    assert text.startswith(OWNER)
    assert found.table()[0] == ["rmse", "epsilon 1", "epsilon 20"]
    assert f"{found['long'][20.0]['rmse']:.4f} ±" in text
    frame = found.to_frame("pandas")
    assert list(frame.columns) == ["model", "epsilon", "repeat", "metric", "value"]
    assert len(frame) == 2 * (2 * 2 * 2) + 2 * (2 * 2) + 2 + 1 + 2  # models, private baselines, lines
    mean = frame[(frame.model == "short") & (frame.epsilon == 1) & (frame.metric == "recall@5")].value.mean()
    assert mean == pytest.approx(found["short"][1.0]["recall@5"])
    assert "owner&#x27;s eyes" in found._repr_html_()
    from discreet.web.site import checked_curve

    curve = checked_curve(found.curve("long"), may_be_public=True)
    assert curve["points"][1]["value"] == found["long"][20.0]["rmse"]


def test_an_epsilon_of_entries_is_not_taken_for_one_of_users(found: Tradeoff) -> None:
    few: dict[str, Any] = {"epsilons": [2], "repeats": 1, "baselines": {}, "metrics": ["accuracy"], "threshold": 4.0}
    mixed = curves([model(), discreet.OneBit(epsilon=1.0, threshold=4.0, tau=20.0)], **few)
    assert "OneBit: epsilon protects single entries" in str(mixed)
    assert "single entries" not in str(found)


def test_the_plot_and_the_report(found: Tradeoff) -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    axes = found.plot(Figure().subplots(), metric="recall@5")
    names = [TWIN, OWN_MEAN, POPULAR, "short", "long", "DPPopularity"]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == names
    assert axes.get_xscale() == "log"
    assert "owner's eyes" in axes.get_title(loc="left")
    page = found.html()
    assert page.count('class="plot"><svg') == len(found.metrics)
    assert page == found.html()
    for part in (found.sentence(), OWNER, "long, epsilon 20", "item step", "NOT PRIVATE", "</html>"):
        assert part.replace("'", "&#x27;") in page, part
    assert "http" not in page.replace("http://www.w3.org", "")  # nothing is fetched


# -- refusals


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"models": discreet.ALS()}, "at least one private model"),
        ({"models": discreet.DPALS}, "delta: DPALS has no default"),
        ({"models": [model(), model(n_steps=1)]}, "give them names"),
        ({"models": "dpals"}, "models of discreet were expected, not str"),
        ({"data": "ratings.csv"}, "a pair .train, test."),
        ({"epsilons": []}, "epsilons: at least one"),
        ({"epsilons": [0]}, "epsilons must be"),
        ({"epsilons": [1e-9]}, "leave nothing to spend|would hide any number"),
        ({"repeats": 0}, "repeats must be"),
        ({"metrics": ["rsme"]}, "there is no 'rsme'"),
        ({"models": model(n_steps=0)}, "n_steps"),
        ({"baselines": {"DPALS": discreet.ALS()}}, "among the models too"),
    ],
)
def test_what_is_refused_is_refused_before_the_first_fit(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], message: str
) -> None:
    fitted = counting(monkeypatch)
    with pytest.raises((DataError, PrivacyError), match=message):
        curves(**given)
    assert not fitted


def test_it_is_a_function_of_the_package() -> None:
    assert tradeoff is discreet.evaluate.tradeoff
    assert "epsilons" in (tradeoff.__doc__ or "")


def test_lists_are_compared_with_the_better_of_popularity_and_the_twin() -> None:
    result = made({1: [0.3]}, {TWIN: 0.1, POPULAR: 0.4}, metric="recall@20")
    assert f"you lose 25.0% recall@20 with M against {POPULAR}" in result.sentence()


def test_a_model_of_lists_is_measured_by_lists() -> None:
    ratings = discreet.datasets.movielens_like(200, 30, 3_000, random_state=0)
    model = discreet.Recommender(epsilon=5, delta=1e-6, objective="lists")
    found = discreet.evaluate.tradeoff(model, ratings, [5], 1, insecure_seed=0)
    assert list(found.metrics) == ["recall@20", "ndcg@100"]
    both = discreet.evaluate.tradeoff(model, ratings, [5], 1, metrics=["rmse", "recall@5"], insecure_seed=0)
    assert set(both["DPSVD"][5.0]) == {"recall@5"}
    with pytest.raises(DataError, match="metrics: none of them measures DPSVD"):
        discreet.evaluate.tradeoff(model, ratings, [5], 1, metrics="rmse", insecure_seed=0)
