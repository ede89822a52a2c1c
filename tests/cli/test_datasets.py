"""`discreet datasets`, as a person would run it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from discreet.cli.commands import app
from discreet.data import archives, read
from discreet.data.datasets import CATALOG

run = CliRunner().invoke
CSV = "userId,movieId,rating\nann,x,4\nbob,y,2\nann,y,5\n"


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISCREET_DATA", str(tmp_path))
    monkeypatch.setattr(archives, "_told", set())


def test_list(tmp_path: Path) -> None:
    (tmp_path / "ml-1m.zip").touch()
    result = run(app, ["datasets", "list", "--json"])
    assert result.exit_code == 0
    rows = {row["name"]: row for row in json.loads(result.stdout)}
    assert set(rows) == set(CATALOG)
    assert rows["ml-1m"]["path"] == str(tmp_path / "ml-1m.zip")
    assert rows["ml-10m"]["path"] is None
    assert rows["ml-10m"]["interactions"] == 10_000_054
    assert rows["netflix"]["downloads"] == []
    text = run(app, ["datasets", "list"]).stdout
    assert all(word in text for word in ("ml-100k", "netflix", "1,000,209"))


def test_a_list_on_a_narrow_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / ("a-long-folder-" * 6 + "[bold]")
    home.mkdir()
    (home / "ml-1m.zip").touch()
    monkeypatch.setenv("DISCREET_DATA", str(home))
    monkeypatch.setenv("COLUMNS", "80")
    text = run(app, ["datasets", "list"]).stdout
    table, _, folder = text.strip().rpartition("\n\n")
    assert max(map(len, table.splitlines())) <= 80
    assert "…" not in text
    assert all(f"\n{name} " in text for name in CATALOG)
    assert "ml-1m.zip" in table
    assert folder == f"Files are in {home}."  # on one line, however long


@pytest.mark.parametrize("command", ["list", "fetch", "describe", "sample"])
def test_help_has_an_example(command: str) -> None:
    assert f"Example: discreet datasets {command}" in run(app, ["datasets", command, "--help"]).stdout


def test_a_sample_replaces_nothing(tmp_path: Path) -> None:
    command = ["datasets", "sample", str(tmp_path / "new"), "--users", "30", "--items", "20", "--ratings", "200"]
    assert "200 ratings" in run(app, command).stdout
    made = read(tmp_path / "new" / "ratings.parquet", items=tmp_path / "new" / "movies.csv", value_range=(0.5, 5))
    assert (made.n_users, made.n_items, len(made)) == (30, 20, 200)
    (tmp_path / "new" / "movies.csv").unlink()
    again = run(app, command)
    assert again.exit_code == 2
    assert "ratings.parquet would be replaced" in again.output
    assert not (tmp_path / "new" / "movies.csv").exists()


def test_fetch_what_is_at_hand(tmp_path: Path) -> None:
    (tmp_path / "ml-1m.zip").touch()
    result = run(app, ["datasets", "fetch", "1m", "--json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {"name": "ml-1m", "paths": [str(tmp_path / "ml-1m.zip")], "was_available": True}
    assert str(tmp_path / "ml-1m.zip") in run(app, ["datasets", "fetch", "ml-1m"]).stdout.replace("\n", "")


@pytest.mark.parametrize(("name", "said"), [("netflix", "cannot be downloaded"), ("lastfm", "there is no data set")])
def test_fetch_what_cannot_be(name: str, said: str) -> None:
    result = run(app, ["datasets", "fetch", name])
    assert result.exit_code == 1
    assert said in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize("command", ["datasets fetch", "train --model als --out model", "evaluate --model als"])
def test_advice_about_missing_data_has_no_argument_of_python(command: str) -> None:
    said = run(app, [*command.split(), "netflix"]).stderr
    assert "If you have its original archive, put it into the folder named by DISCREET_DATA" in said
    assert "--source" in run(app, ["datasets", "describe", "netflix"]).stderr


def test_describe_a_table(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text(CSV)
    result = run(app, ["datasets", "describe", str(tmp_path / "r.csv"), "--json"])
    assert result.exit_code == 0
    described = json.loads(result.stdout)
    assert (described["interactions"], described["users"], described["items"]) == (3, 2, 2)
    assert "'movieId' as item" in described["columns"]
    assert "owner's eyes" in run(app, ["datasets", "describe", str(tmp_path / "r.csv")]).stdout


def test_describe_a_data_set_from_a_folder(tmp_path: Path) -> None:
    (tmp_path / "trainIdx1.txt").write_text("7|1\n3\t90\t5\t00:00:01\n")
    result = run(app, ["datasets", "describe", "yahoo-music", "--source", str(tmp_path), "--json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["public value_range"] == "0 to 100"


@pytest.mark.parametrize("name", ["none.csv", "lastfm", "netflix"])
def test_describe_what_is_not_there(name: str) -> None:
    result = run(app, ["datasets", "describe", name])
    assert result.exit_code == 1
    assert result.stderr.startswith(("discreet: ", "netflix: "))
    assert "Traceback" not in result.output
