"""`discreet tune`, as a person would run it."""

import json
import shlex
from pathlib import Path

import pytest

import discreet
from tests.cli.conftest import example, run

START = ("ratings.csv", "--items", "movies.csv", "--range", "0.5", "5", "--delta", "1e-6", "--epsilon", "4")
TRY = ("--try", "n_steps=1,2")


def tune(*arguments: str, code: int = 0) -> str:
    return run("tune", *arguments, code=code)


def test_the_example_works_when_pasted_and_spends_nothing(work: Path) -> None:
    text = run(*shlex.split(example("tune")))
    for part in ("5 trials on average", "one of 2 settings", "costs epsilon = 4;", "Nothing was spent"):
        assert part in text


def test_wrong_features_are_refused_before_the_plan(work: Path) -> None:
    told = tune(*START, *TRY, "--set", "features=nothing", "--out", "best", code=1)
    assert told.startswith("discreet: --set features: the catalog has no column 'nothing'")


def test_a_search(work: Path) -> None:
    ledger = discreet.Ledger("sqlite:///ledger.db", epsilon=4, delta=1e-6)
    options = ("--trials", "2", "--law", "geometric", "--metric", "recall@5", "--model", "dpals", "--out", "found")
    data = json.loads(tune(*START, *TRY, "--try", "caution=0,1.5", *options, "--ledger", "ledger.db", "--json"))
    assert data["settings"] == 4
    assert set(data["chosen"]) == {"n_steps", "caution"}
    assert data["trial"]["epsilon"] < 4
    model = discreet.load("found")
    assert str(model.guarantee_) == data["sentence"]
    assert [event.kind for event in ledger.events] == ["charge"]
    assert "nothing was spent" in tune(*START, *TRY, *options, "--ledger", "ledger.db", code=1)
    text = tune(*START, *TRY, "--trials", "1", "--out", "found")
    for part in ("Chosen: n_steps=", "(noisy, and the best of several)", "joint differential privacy", "is in found"):
        assert part in text


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "missing: --try NAME=VALUE,VALUE. Example: discreet tune"),
        (("--try", "n_steps"), 2, "name=value,value"),
        (("--try", "n_steps=2,many"), 1, "n_steps must be a whole number"),
        (("--try", "n_steps=4"), 2, "one setting leaves nothing to choose; give several values, or train with --set n"),
        (("--try", "depth=1,2"), 2, "--try: DPALS has no parameter 'depth'"),
        ((*TRY, "--try", "n_steps=4"), 2, "given twice"),
        (("--try", "epsilon=1,2"), 1, "epsilon decides what a trial costs"),
        ((*TRY, "--law", "normal"), 1, "law: must be one of"),
        ((*TRY, "--trials", "0"), 1, "trials"),
        ((*TRY, "--metric", "rmsee"), 1, "discreet: --metric: there is no 'rmsee'; there are"),
        ((*TRY, "--metric", "coverage@20"), 1, "discreet: --metric: coverage@20 cannot be private"),
    ],
)
def test_what_is_refused(work: Path, arguments: tuple[str, ...], code: int, message: str) -> None:
    told = tune(*START, "--model", "dpals", *arguments, "--out", "found", code=code)
    assert message in told
    assert len(told.splitlines()) == 1
    assert not Path("found").exists()


def test_a_config_file(work: Path) -> None:
    Path("tune.toml").write_text('model = "dpals"\n[try]\nn_steps = "1,2"\ncaution = "0,1.5"\n')
    assert json.loads(tune(*START, "--config", "tune.toml", "--json"))["settings"] == 4


def test_a_model_without_a_budget(work: Path) -> None:
    assert "als" in tune("ratings.csv", "--model", "als", *TRY, code=2).lower()
    assert "missing: --epsilon NUMBER; --delta NUMBER; --items FILE" in tune("ratings.csv", *TRY, code=2)
