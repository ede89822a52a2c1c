"""discreet split: parts that add up to the table."""

import json
from pathlib import Path

import pandas as pd
import pytest

from tests.cli.conftest import run


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_the_parts_are_the_table(work: Path, kind: str) -> None:
    data = json.loads(run("split", "ratings.csv", "--out", "parts", "--valid", "0.1", "--format", kind, "--json"))
    parts = [getattr(pd, f"read_{kind}")(data["paths"][name]).astype(float) for name in ("train", "valid", "test")]
    assert [len(part) for part in parts] == list(data["rows"].values())
    whole = pd.read_csv("ratings.csv").astype(float)
    columns = ["user", "item"]
    together = pd.concat(parts).sort_values(columns)
    assert (together[columns].to_numpy() == whole.sort_values(columns)[columns].to_numpy()).all()


def test_the_folder_of_a_model_takes_no_parts(work: Path) -> None:
    before = sorted(Path("model").iterdir())
    told = run("split", "ratings.csv", "--out", "model", code=2)
    assert told.startswith("discreet: --out: 'model' holds a model, and nothing else belongs there; name another")
    assert "FOLDER: 'model' holds a model" in run("datasets", "sample", "model", code=2)
    assert sorted(Path("model").iterdir()) == before


def test_nothing_is_replaced(work: Path) -> None:
    run("split", "ratings.csv", "--out", "parts")
    before = Path("parts/test.parquet").read_bytes()
    assert "would be replaced; name another folder" in run(
        "split", "ratings.csv", "--out", "parts", "--seed", "1", code=2
    )
    assert Path("parts/test.parquet").read_bytes() == before
    assert not Path("parts/valid.parquet").exists()
