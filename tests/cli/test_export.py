"""`discreet export` and `discreet serve`, as a person would run them."""

import json
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import example, run


def test_the_example_on_a_model_without_a_guarantee(work: Path) -> None:
    text = run(*shlex.split(example("export")), "--not-private")
    assert "NOT PRIVATE" in text
    assert "of the ten best stay" in text
    assert (work / "site" / "index.html").is_file()
    assert json.loads((work / "site" / "model" / "model.json").read_text())["title"] == "Recommendations"


def test_json_and_options(work: Path) -> None:
    Path("curve.json").write_text('{"metric": "rmse", "points": [{"epsilon": 1, "value": 0.9}]}')
    Path("export.toml").write_text('title = "Films"\nprecision = "int8"\nnot-private = true\n')
    given = [
        "export",
        "model",
        "site",
        "--config",
        "export.toml",
        "--tradeoff",
        "curve.json",
        "--columns",
        "",
        "--json",
    ]
    assert "--exact-metrics-may-be-public" in run(*given, code=1)
    text = run(*given, "--exact-metrics-may-be-public")
    data = json.loads(text)
    about = json.loads((work / "site" / "model" / "model.json").read_text())
    assert (about["title"], about["precision"], about["tradeoff"]["metric"]) == ("Films", "int8", "rmse")
    assert data["loss"] == about["loss"]
    assert not data["private"]
    assert json.loads((work / "site" / "model" / "items.json").read_text())["columns"] == {}


@pytest.mark.parametrize("command", [["export", "model", "site"], ["serve", "model"]])
def test_publishing_without_a_guarantee_takes_a_word(command: list[str], work: Path) -> None:
    assert "--not-private" in run(*command, code=1)
    assert not (work / "site").exists()


def test_errors_are_one_sentence(work: Path) -> None:
    Path("site").mkdir()
    Path("site/mine.txt").write_text("")
    assert "holds no site" in run("export", "model", "site", "--not-private", code=1)
    Path("curve.json").write_text("{")
    assert "is not JSON" in run("export", "model", "out", "--not-private", "--tradeoff", "curve.json", code=1)
    assert "no 'price'" in run("export", "model", "out", "--not-private", "--columns", "price", code=1)


def test_a_folder_that_holds_no_site(work: Path) -> None:
    told = run("export", "model", "model", "--not-private", code=1)
    assert told.startswith("discreet: SITE: 'model': this folder is not empty and holds no site")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--tradeoff", "none.json"], "--tradeoff: 'none.json' cannot be read (No such file or directory)"),
        (["--host", "192.0.2.1"], "cannot listen on 192.0.2.1:8000 (Cannot assign requested address); --host must be"),
    ],
)
def test_what_cannot_be_served(work: Path, options: list[str], said: str) -> None:
    assert run("serve", "model", "--not-private", *options, code=1).startswith(f"discreet: {said}")


def test_help_of_serve() -> None:
    assert example("serve") == "serve model"
