"""The page for a person in a hurry says what is true."""

import re
from pathlib import Path

import pytest

import discreet
from discreet.data.readers import POLICIES

PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "data.md").read_text(encoding="utf-8")


def test_its_first_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = discreet.datasets.movielens_like(50, 40, 1200)
    table = made.to_arrow().rename_columns(["userId", "movieId", "rating"])
    made.catalogue.to_frame("pandas").rename(columns={"item": "movieId"}).to_csv("movies.csv", index=False)
    discreet.read(table).to_frame("pandas").set_axis(["userId", "movieId", "rating"], axis=1).to_parquet(
        "ratings.parquet"
    )
    code = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]
    scope: dict[str, object] = {}
    exec(code, scope)
    assert scope["ratings"] == made


def test_its_splits_run() -> None:
    ratings = discreet.read([(user, item, 1.0, item) for user in range(2500) for item in range(6)])
    code = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[1]
    exec(code, {"discreet": discreet, "ratings": ratings})


def test_its_policies_are_those_there_are() -> None:
    for name, choices in POLICIES.items():
        line = next(line for line in PAGE.splitlines() if f"`{name}`" in line)
        assert re.findall(r"`(\w+)`", line)[1:] == list(choices)


def test_its_names_exist() -> None:
    for name in set(re.findall(r"discreet\.([a-z_]+(?:\.[a-z_]+)?)", PAGE)):
        value: object = discreet
        for part in name.split("."):
            value = getattr(value, part)
