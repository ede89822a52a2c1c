"""`discreet reproduce`: every entry end to end, in small; data that are missing, made up, or in published formats."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import discreet
from discreet import papers
from discreet.papers.reproduction import Point
from tests.cli.conftest import parsed, run


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for data sets, with none in it."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("DISCREET_DATA", str(folder))
    return folder


@pytest.mark.parametrize("name", papers.NAMES)
def test_every_entry_runs_and_is_not_run_twice(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = papers.find(name)
    out, plot = tmp_path / "rows.json", tmp_path / "plot.svg"
    command = ["reproduce", name, "--quick", "--out", str(out), *(["--generated"] if one.needs else [])]
    document = parsed(*command)
    assert document == json.loads(out.read_text(encoding="utf-8"))
    assert all(np.isfinite(row[one.measure]) for row in document["rows"])
    assert all(row["data"].startswith("GENERATED") == bool(one.needs) for row in document["rows"])
    published = [row for row in document["rows"] if row["method"].endswith(", as published")]
    assert published or name in ("dpals-fig2", "dpals-fig7")

    def measured(self: Point, runs: int) -> None:
        raise AssertionError("all of it is in the file")

    monkeypatch.setattr(Point, "measured", measured)
    shown = run(*command, *([] if one.plot is None else ["--plot", str(plot)]))
    assert one.title[:30] in shown
    assert "ours / published" in shown or not document["comparison"]
    assert one.plot is None or "</svg>" in plot.read_text(encoding="utf-8")


def test_the_list_says_which_data_are_there(home: Path) -> None:
    listed = {one["name"]: one for one in parsed("reproduce", "--list")}
    assert set(listed) == set(papers.NAMES)
    assert listed["dpals-fig4"]["available"]
    assert not listed["frank-wolfe-fig2c"]["available"]
    assert listed["dpals-fig9"]["data"] == [{"name": "ml-10m", "path": None}, {"name": "ml-20m", "path": None}]
    (home / "ml-10M100K").mkdir()
    listed = {one["name"]: one for one in parsed("reproduce", "--list")}
    assert listed["frank-wolfe-fig2c"]["data"] == [{"name": "ml-10m", "path": str(home / "ml-10M100K")}]
    assert listed["dpals-fig3b"]["available"]
    assert not listed["dpals-table5"]["available"]
    assert "one-bit-fig5" in run("reproduce", "--list")


def test_data_that_are_missing_are_asked_for() -> None:
    told = run("reproduce", "dpals-fig3b", code=1)
    assert (
        "MovieLens 10m is not available: `discreet datasets fetch ml-10m`, or put ml-10m.parquet or ml-10m.zip" in told
    )
    assert "DISCREET_DATA" in told
    told = run("reproduce", "frank-wolfe-fig2d", code=1)
    assert "Netflix prize is not available: put netflix.parquet or nf_prize_dataset.tar.gz or netflix into" in told
    assert "--generated" in told


@pytest.mark.parametrize(
    "options",
    [
        "",
        "dpals-fig4 --list",
        "dpals-fig4 --as-published --exact",
        "dpals-fig3b --generated --data 1m",
        "dpals-fig4 --generated",
        "dpals-table5 --source ratings.dat",
        "dpals-table4 --plot a.svg",
        "dpals-fig4 --out no/such/folder.json",
        "dpals-fig4 --plot plot.nothing",
    ],
)
def test_options_that_make_no_sense(options: str) -> None:
    run("reproduce", *options.split(), code=2)


def test_another_data_set_in_its_place_is_told(home: Path) -> None:
    write_ml_1m(home / "ml-1m", made())
    rows = parsed("reproduce", "dpals-fig2", "--data", "1m")["rows"]
    assert {row["data"] for row in rows} == {"MovieLens 1m, INSTEAD OF MovieLens 10m"}


# Files in the formats that were published


def made() -> discreet.Interactions:
    return discreet.datasets.movielens_like(300, 500, 9_000, random_state=0)


def lines(ratings: discreet.Interactions) -> list[tuple[int, int, float]]:
    table = ratings.to_arrow()
    return list(zip(*(table[name].to_pylist() for name in ("user", "item", "rating")), strict=True))


def write_ml_1m(folder: Path, ratings: discreet.Interactions) -> None:
    folder.mkdir()
    text = "".join(f"{user}::{item}::{max(1, round(rating))}::978300760\n" for user, item, rating in lines(ratings))
    (folder / "ratings.dat").write_text(text)
    films = "".join(f"{item}::Film {item} (1999)::Drama\n" for item in ratings.items)
    (folder / "movies.dat").write_text(films)


def write_ml_10m(folder: Path, ratings: discreet.Interactions) -> None:
    folder.mkdir()
    text = "".join(f"{user}::{item}::{rating:g}::978300760\n" for user, item, rating in lines(ratings))
    (folder / "ratings.dat").write_text(text)
    (folder / "movies.dat").write_text("".join(f"{item}::Film {item} (1999)::Drama\n" for item in ratings.items))


def write_ml_20m(folder: Path, ratings: discreet.Interactions) -> None:
    folder.mkdir()
    text = "".join(f"{user},{item},{rating},978300760\n" for user, item, rating in lines(ratings))
    (folder / "ratings.csv").write_text(f"userId,movieId,rating,timestamp\n{text}")
    films = "".join(f"{item},Film {item} (1999),Drama\n" for item in ratings.items)
    (folder / "movies.csv").write_text(f"movieId,title,genres\n{films}")


def write_netflix(folder: Path, ratings: discreet.Interactions) -> None:
    folder.mkdir()
    films: dict[int, list[str]] = {}
    for user, item, rating in lines(ratings):
        films.setdefault(item, []).append(f"{user},{max(1, round(rating))},2005-09-06\n")
    text = "".join(f"{film}:\n{''.join(rows)}" for film, rows in films.items())
    (folder / "combined_data_1.txt").write_text(text)


def write_yahoo(folder: Path, ratings: discreet.Interactions) -> None:
    folder.mkdir()
    users: dict[int, list[str]] = {}
    for user, item, rating in lines(ratings):
        users.setdefault(user, []).append(f"{item}\t{round(20 * rating)}\t2341\t18:16:00\n")
    text = "".join(f"{user}|{len(rows)}\n{''.join(rows)}" for user, rows in users.items())
    (folder / "trainIdx1.txt").write_text(text)


FORMATS = {
    "ml-10M100K": (write_ml_10m, ("frank-wolfe-fig2c", "dpals-fig2"), "MovieLens 10m"),
    "ml-20m": (write_ml_20m, ("dpals-fig11",), "MovieLens 20m"),
    "netflix": (write_netflix, ("frank-wolfe-fig2d",), "Netflix prize"),
    "yahoo-music": (write_yahoo, ("frank-wolfe-fig2e",), "Yahoo! Music"),
}


@pytest.mark.parametrize("folder", FORMATS)
def test_files_as_they_were_published_run_as_soon_as_they_are_there(folder: str, home: Path) -> None:
    write, names, title = FORMATS[folder]
    write(home / folder, made())
    for name in names:
        rows = parsed("reproduce", name, "--quick")["rows"]
        assert rows
        assert all(row["data"].startswith(title) for row in rows)
        assert not any("GENERATED" in row["data"] for row in rows)


def test_what_is_at_hand_of_several_data_sets_is_run(home: Path) -> None:
    write_ml_10m(home / "ml-10M100K", made())
    document = parsed("reproduce", "dpals-table5", "--quick", "--as-published")
    assert {row["column"] for row in document["rows"]} == {"ml-10m", "ml-10m-top400"}
    assert {row["method"] for row in document["rows"]} == {"DPALS 2021, as published"}
    assert document["rows"][0]["true_epsilon"] < document["rows"][0]["epsilon"]
    assert [line["where"] for line in document["comparison"]] == ["Table 5"] * 2
