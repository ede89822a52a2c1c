"""`discreet recommend`, as a person would run it."""

import json
import shlex
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import discreet
from tests.cli.conftest import example, run


def recommend(*arguments: str, code: int = 0) -> str:
    return run("recommend", *arguments, code=code)


def rows(*arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(recommend("model", *arguments, "--json"))["recommendations"]
    return found


def test_the_example_works_when_pasted(work: Path) -> None:
    assert len(example("recommend")) < 70
    text = run(*shlex.split(example("recommend")))
    assert text.split()[:4] == ["rank", "item", "title", "score"]
    assert "Film " in text


def test_it_is_what_python_gives(work: Path) -> None:
    wanted = discreet.load("model").recommend({1: 5.0, 2: 4.0}, n=3)
    found = rows("--history", "1=5, 2=4", "-n", "3")
    assert [row["item"] for row in found] == wanted.items
    assert [row["score"] for row in found] == pytest.approx(wanted.scores.tolist())
    assert [row["rank"] for row in found] == [1, 2, 3]
    assert found[0]["title"] == f"Film {found[0]['item']}"
    liked = discreet.load("model").recommend([1, 2], n=3)
    assert [row["item"] for row in rows("--history", "1,2", "-n", "3")] == liked.items


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("h.csv", "item,rating\n1,5\n2,4\n"),
        ("h.csv", "rating,movieId\n5,1\n4,2\n"),
        ("h.csv", "\ufeff1, 5\n\n2, 4\n"),
        ("h.tsv", "id\tstars\n1\t5\n2\t4\n"),
        ("h.jsonl", '{"item": 1, "rating": 5}\n{"item": 2, "rating": 4}\n'),
    ],
)
def test_a_history_in_a_file(work: Path, name: str, content: str) -> None:
    Path(name).write_text(content, encoding="utf-8")
    assert rows("--history", name) == rows("--history", "1=5,2=4")


def test_a_history_in_parquet_and_without_ratings(work: Path) -> None:
    pd.DataFrame({"item": ["1", "2"], "rating": [5.0, 4.0]}).to_parquet("h.parquet")
    assert rows("--history", "h.parquet") == rows("--history", "1=5,2=4")
    Path("h.txt").write_text("1\n2\n")
    assert rows("--history", "h.txt") == rows("--history", "1,2")
    Path("empty.csv").write_text("")
    assert rows("--history", "empty.csv") == rows("--history", "")


def test_filters(work: Path) -> None:
    Path("only.txt").write_text("5\n9\n1\n")
    found = [row["item"] for row in rows("--history", "1=5", "--allow", "only.txt", "--deny", "9")]
    assert found == [5]
    assert {row["item"] for row in rows("--history", "1=5", "--allow", "only.txt", "--include-seen")} == {1, 5, 9}
    assert "No item is left" in recommend("model", "--history", "1=5", "--allow", "1")
    catalogue = rows("--history", "1=5", "--allow", "movies.csv", "-n", "100")
    assert len(catalogue) == 49


def test_unknown_items(work: Path) -> None:
    told = recommend("model", "--history", "1=5,999=4", code=1)
    assert "999" in told
    assert "--on-unknown" in told
    assert "on_unknown=" not in told
    assert rows("--history", "1=5,999=4", "--on-unknown", "ignore") == rows("--history", "1=5")
    told = recommend("model", "--history", "1=5,999=4", "--on-unknown", "warn", "-n", "1")
    assert "discreet: --history: left out items that the model does not know, 999" in told


def test_no_history_is_said(work: Path) -> None:
    assert "(no history: ranked by average rating)" in recommend("model", "--history", "")
    assert json.loads(recommend("model", "--history", "", "--json"))["note"].startswith("no history")


def test_the_rating_beside_the_place_in_a_list(work: Path) -> None:
    ratings = discreet.read("ratings.csv", items="movies.csv", value_range=(0.5, 5))
    model = discreet.DPALS(epsilon=20, delta=1e-6, objective="both").fit(ratings)
    model.save("both")
    found = json.loads(recommend("both", "--history", "1=5,2=4", "-n", "3", "--json"))["recommendations"]
    wanted = model.predict({1: 5.0, 2: 4.0}, [row["item"] for row in found])
    assert [row["rating"] for row in found] == pytest.approx(wanted.tolist())
    text = recommend("both", "--history", "1=5,2=4", "-n", "3")
    assert text.split()[:5] == ["rank", "item", "title", "score", "rating"]
    assert "rating" not in rows("--history", "1=5,2=4")[0]  # where the score is the rating


def test_explain(work: Path) -> None:
    found = rows("--history", "1=5,2=4", "--explain", "-n", "2")
    for row in found:
        assert row["baseline"] + sum(part["adds"] for part in row["because"]) == pytest.approx(row["score"], abs=1e-4)
        assert {part["item"] for part in row["because"]} == {1, 2}
        assert part_titles(row) <= {"Film 1", "Film 2"}
    assert "because of" in recommend("model", "--history", "1=5,2=4", "--explain")


def test_explain_says_that_no_item_matters(work: Path, private_model: str) -> None:
    found: Any = discreet.DPPopularity(epsilon=1, delta=1e-6)
    found.fit(discreet.read("ratings.csv", items="movies.csv", value_range=(0.5, 5))).save("popular")
    text = recommend("popular", "--history", "1=5,2=4", "--explain")
    assert "No item in the history matters" in text
    assert "because of" not in text


def test_ids_that_are_floats_need_no_point(work: Path) -> None:
    _saved([float(i) for i in range(12)])
    assert recommend("typed", "--history", "3=5") == recommend("typed", "--history", "3.0=5")


def part_titles(row: dict[str, Any]) -> set[str]:
    return {part["title"] for part in row["because"]}


def test_similar(work: Path) -> None:
    data = json.loads(recommend("model", "--similar", "3", "-n", "4", "--json"))
    assert [row["item"] for row in data["recommendations"]] == discreet.load("model").similar_items(3, 4).items
    assert data["similar_to"] == "3"
    assert "cannot be an item of this model" in recommend("model", "--similar", "three", code=1)
    assert "--similar: the model does not know '999'" in recommend("model", "--similar", "999", code=1)
    assert "--users: no file matches" in recommend("model", "--users", "none.csv", code=1)


@pytest.mark.parametrize("source", ["train.csv", "train.parquet", "SELECT * FROM 'train.parquet'"])
def test_many_users(work: Path, source: str) -> None:
    wanted = discreet.load("model").recommend(discreet.read("train.parquet"), n=3).to_frame("pandas")
    for name, read in (("all.parquet", pd.read_parquet), ("all.csv", pd.read_csv)):
        assert name in recommend("model", "--users", source, "-n", "3", "--out", name)
        found = read(name).astype({"user": int})  # of a text file, ids are text
        pd.testing.assert_frame_equal(found, wanted, check_dtype=False)
    assert sorted(path.name for path in work.iterdir() if path.name.startswith(".")) == []


def test_many_users_on_the_screen(work: Path) -> None:
    text = recommend("model", "--users", "train.csv", "-n", "2")
    assert text.count("for user") == 5
    assert "195 more users" in text
    data = json.loads(recommend("model", "--users", "train.csv", "-n", "2", "--json"))
    assert len(data["users"]) == 200
    assert data["users"][0]["user"] == "1"


def test_a_table_without_ratings_is_not_taken_for_bad_ones(work: Path) -> None:
    pd.read_csv("train.csv")[["user", "item"]].to_csv("views.csv", index=False)
    assert "--value" in recommend("model", "--users", "views.csv", code=1)


def _saved(ids: list[Any]) -> None:
    table = discreet.datasets.movielens_like(60, len(ids), 600, random_state=0).to_frame("pandas")
    table["item"] = [ids[item - 1] for item in table["item"]]
    discreet.ALS(rank=2, n_steps=1).fit(discreet.read(table, value_range=(0.5, 5))).save("typed")


@pytest.mark.parametrize(
    ("ids", "one"),
    [
        ([f"tt{i:03}" for i in range(12)], "tt003"),
        ([f"{i}" for i in range(12)], "3"),
        ([f"Title, part {i}" for i in range(12)], '"Title, part 3"'),
        (list(pd.date_range("2020-01-01", periods=12).date), "2020-01-04"),
        ([uuid.UUID(int=i) for i in range(12)], str(uuid.UUID(int=3))),
    ],
)
def test_ids_of_any_type(work: Path, ids: list[Any], one: str) -> None:
    _saved(ids)
    data = json.loads(recommend("typed", "--history", f"{one}=5", "-n", "20", "--json"))
    assert {row["item"] for row in data["recommendations"]} == {str(item) for item in ids} - {one.strip('"')}
    told = recommend("typed", "--similar", "?", code=1)
    assert "'?'" in told
    assert isinstance(ids[0], str) or str(ids[0]) in told


def test_numbers_in_a_text_file_and_a_model_of_texts(work: Path) -> None:
    _saved([f"{i}" for i in range(12)])
    Path("many.csv").write_text("user,item,rating\na,3,5\nb,4,2\n")
    data = json.loads(recommend("typed", "--users", "many.csv", "-n", "20", "--json"))
    assert [len(one["recommendations"]) for one in data["users"]] == [11, 11]
    Path("many.csv").write_text("user,item,rating\na,x,5\nb,4,2\n")
    assert "--users: the model does not know 'x'" in recommend("model", "--users", "many.csv", code=1)


@pytest.mark.parametrize(
    ("arguments", "said", "code"),
    [
        ([], "give one of --history", 2),
        (["--history", "1", "--similar", "2"], "give one of --history", 2),
        (["--users", "train.csv", "--explain"], "--history", 2),
        (["--history", "1", "--out", "x.csv"], "--users", 2),
        (["--users", "train.csv", "--out", "x.xls"], ".parquet or .csv", 2),
        (["--users", "train.csv", "--out", "nowhere/x.csv"], "can be written", 2),
        (["--history", "1=5,2"], "'2' has no rating", 1),
        (["--history", "1=good"], "must be a number, not 'good'", 1),
        (["--history", "1=9"], "outside the model's range", 1),
        (["--history", "a=5"], "'a' cannot be an item of this model, whose ids are of type int64, such as 1", 1),
        (["--history", "none.csv"], "none.csv", 1),
        (["--history", "train.csv"], "--users", 1),
        (["--history", "bad.csv"], "not a text file", 1),
        (["--history", "short.csv"], "of 'short.csv' has no rating; give one to each item, or to none", 1),
        (["--history", "odd.jsonl"], "looks like the item", 1),
        (["--users", "none.csv"], "none.csv", 1),
        (["--history", "1", "--deny", "none.txt"], "none.txt", 1),
    ],
)
def test_errors_are_one_sentence(work: Path, arguments: list[str], said: str, code: int) -> None:
    Path("bad.csv").write_bytes(b"item\n\xff\xff")
    Path("short.csv").write_text("1,5\n2\n")
    Path("odd.jsonl").write_text('{"x": 1}\n')
    text = recommend("model", *arguments, code=code)
    assert text.startswith("discreet: ")
    assert text.count("\n") == 1
    assert said in text


def test_what_is_no_model(work: Path) -> None:
    assert "this is a file; a model is a folder" in recommend("ratings.csv", "--history", "1", code=1)
    assert recommend("none", "--history", "1", code=1) == "discreet: MODEL: 'none': there is no such folder\n"
    Path("model/factors.safetensors").write_bytes(b"junk")
    assert recommend("model", "--history", "1", code=1).startswith("discreet: ")
    assert recommend("model", "--history", "1", "-n", "0", code=2)


def test_a_config_file(work: Path) -> None:
    Path("r.toml").write_text('model = "model"\nhistory = ["1=5", "2=4"]\nn = 3\ndeny = "9"\n')
    data = json.loads(recommend("--config", "r.toml", "--json"))
    assert data["recommendations"] == rows("--history", "1=5,2=4", "-n", "3", "--deny", "9")
    assert len(json.loads(recommend("--config", "r.toml", "-n", "1", "--json"))["recommendations"]) == 1


def test_a_private_model(work: Path, private_model: str) -> None:
    budget = ["--epsilon", "1", "--delta", "1e-6", "--range", "0.5", "5", "--items", "movies.csv"]
    run("train", "ratings.csv", "--model", private_model, *budget, "--out", "private")
    assert "Film " in recommend("private", "--history", "1=5")


def test_items_are_found_by_their_titles(work: Path) -> None:
    found = json.loads(run("items", "model", "2 ITEM", "--json"))
    titles = discreet.load("model").catalogue_.column("title")
    wanted = [n for n, title in enumerate(titles) if "2" in title and "item" in title.lower()]
    assert found["total"] == len(wanted)
    assert [row["item"] for row in found["items"]] == [discreet.load("model").items_[n] for n in wanted][:20]
    assert "more; -n shows them" in run("items", "model", "-n", "2")
    assert "No title" in run("items", "model", "no such film")
    untitled = discreet.Popularity().fit(discreet.read("ratings.csv"))
    untitled.save("untitled")
    assert "The model has no titles; train it with --items" in run("items", "untitled", "film")
    assert "No" not in run("items", "untitled", "1")
    assert "--title-column: there is no 'x'" in run("items", "model", "--title-column", "x", code=2)


def test_another_column_as_the_title(work: Path) -> None:
    catalogue = discreet.load("model").catalogue_
    other = next(name for name in catalogue.names if name != "title")
    found = json.loads(run("items", "model", "--title-column", other, "-n", "1", "--json"))["items"][0]
    assert found["title"] == str(catalogue.column(other)[0])
    assert found["other title"] == catalogue.column("title")[0]
    listed = json.loads(run("recommend", "model", "--history", "1=5", "--title-column", other, "--json"))
    assert listed["recommendations"][0]["title"] in map(str, catalogue.column(other))


SLOW = {
    *("sklearn", "scipy.stats", "scipy.optimize", "scipy.signal", "matplotlib", "pandas", "narwhals", "duckdb"),
    *("sqlalchemy", "sqlglot", "dp_accounting", "discreet.data.datasets", "discreet.data.synthetic"),
}


def imported(*lines: str) -> set[str]:
    """What of this a new process imports that runs these lines."""
    code = "; ".join(["import sys", *lines, "print(*sys.modules)"])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return SLOW.intersection(done.stdout.splitlines()[-1].split())


def command(*words: str) -> tuple[str, str]:
    return "from discreet.cli.commands import app", f"app({list(words)}, standalone_mode=False)"


def test_a_cold_start_imports_nothing_slow(work: Path) -> None:
    """Neither to check the certificate and the plan of a private model, nor to recommend."""
    ratings = discreet.datasets.movielens_like(200, 50, 4000, random_state=0)
    discreet.Recommender(epsilon=5, delta=1e-6).fit(ratings).save("private")
    assert not imported(*command("recommend", "private", "--history", "1=5,2=4"))
    assert not imported(*command("recommend", "private", "--similar", "1"))
    assert not imported(*command("items", "private", "film"))
    assert not imported("import discreet", "discreet.load('private').recommend({1: 5.0}, n=5)")


def test_other_commands_import_what_they_need(work: Path) -> None:
    assert not imported(*command("--help"))
    assert not imported(*command("account", "--epsilon", "1", "--delta", "1e-5"))
