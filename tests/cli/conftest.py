"""Files that the tests of the command share."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.main import get_command
from typer.testing import CliRunner

import discreet
from discreet.cli.commands import app
from discreet.models import MODELS
from tests.cli.fakes import PLACE


@pytest.fixture(scope="session")
def _made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ratings.csv and .parquet, movies.csv, a saved model, and a division in two."""
    folder = tmp_path_factory.mktemp("made")
    ratings = discreet.datasets.movielens_like(200, 50, 4000, random_state=0)
    train, _, test = discreet.splits.holdout(ratings, test=0.2)
    for name, part in {"ratings": ratings, "train": train, "test": test}.items():
        frame: pd.DataFrame = part.to_frame("pandas")
        frame.to_csv(folder / f"{name}.csv", index=False)
        frame.to_parquet(folder / f"{name}.parquet")
    ratings.catalogue.to_frame("pandas").to_csv(folder / "movies.csv", index=False)
    discreet.ALS(rank=4, n_steps=3).fit(train).save(folder / "model")
    return folder


@pytest.fixture
def work(_made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with these files in it."""
    import shutil

    shutil.copytree(_made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def private_model(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a private model, there for one test."""
    monkeypatch.setitem(MODELS, "NoisyPopularity", PLACE)
    return "noisy-popularity"


def example(command: str) -> str:
    """The example in a command's help."""
    found: str = get_command(app).commands[command].example  # type: ignore[attr-defined]
    return found.removeprefix("discreet ")


def parsed(*arguments: str) -> Any:
    """What a command prints with --json; what it says on standard error is not in the way."""
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def run(*arguments: str, code: int = 0) -> str:
    """What a command prints."""
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, result.output
    return result.output
