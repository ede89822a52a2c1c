"""`discreet train`, as a person would run it."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

import discreet
from discreet.cli import common, inputs
from discreet.cli.commands import app
from discreet.cli.common import TYPED, typed
from discreet.models import MODELS
from discreet.privacy import Reservation
from discreet.validation import round_up
from tests.cli.conftest import example, run

COMMAND = Path(sys.executable).with_name("discreet")
NEEDED = {"OneBit": ("threshold=3",), "PublishedDPFrankWolfe": ("radius=100", "row_norm=5")}
PRIVATE = ("--items", "movies.csv", "--range", "0.5", "5", "--epsilon", "1", "--delta", "1e-6")
QUICK = ("--set", "rank=2", "--set", "n_steps=1")


def train(*arguments: str, code: int = 0) -> str:
    return run("train", *arguments, code=code)


def test_the_example_says_what_it_spends_before_it_does(work: Path) -> None:
    text = " ".join(run(*shlex.split(example("train"))).split())
    assert 0 < text.index("epsilon=1.0") < text.index("joint differential privacy with epsilon = 1") < len(text)
    assert isinstance(discreet.load("model"), discreet.DPALS)


def test_private_items(work: Path) -> None:
    rows = [f"u{user},{item},{1 + user % 5}" for user in range(500) for item in ("tea", "milk", "water")]
    Path("drinks.csv").write_text("\n".join(["user,item,rating", *rows, "u0,a secret,5"]))
    options = ["--items", "private", "--range", "1", "5", "--epsilon", "5", "--delta", "1e-6"]
    text = train("drinks.csv", *options, "--out", "drinks", "--statement", "drinks.json")
    assert "choice of more items" in text
    assert "Items that were chosen privately: 3." in text
    assert "secret" not in text + Path("drinks.json").read_text()
    assert discreet.load("drinks").items_.to_list() == ["milk", "tea", "water"]
    run("ledger", "create", "without.db", "--epsilon", "5", "--delta", "1e-6")
    run("ledger", "create", "with.db", "--epsilon", "5", "--delta", "1e-6", "--threshold-delta", "2e-7")
    assert "--threshold-delta" in train("drinks.csv", *options, "--out", "drinks", "--ledger", "without.db", code=1)
    train("drinks.csv", *options, "--out", "drinks", "--ledger", "with.db")
    assert "give a catalog" in run("evaluate", "drinks.csv", "--model", "dpals", *options, code=2)
    assert "for a private model" in train(
        "drinks.csv", "--model", "als", "--items", "private", "--out", "other", code=2
    )


def test_the_plan_is_that_of_the_fit(work: Path) -> None:
    options = ["--items", "movies.csv", "--range", "0.5", "5", "--epsilon", "5", "--delta", "1e-6", "--model", "dpsvd"]
    for objective, label, other in (
        ("ratings", "users' mean ratings", "power step"),
        ("lists", "power step", "item step"),
    ):
        text = train("ratings.csv", *options, "--set", f"objective={objective}", "--out", "planned")
        assert label in text
        assert other not in text


def test_parameters_of_the_model_that_chooses(work: Path) -> None:
    options = ["--items", "movies.csv", "--range", "0.5", "5", "--epsilon", "5", "--delta", "1e-6", "--out", "chosen"]
    assert "--set objective: one of 'ratings', 'lists', 'both' is needed" in train(
        "ratings.csv", *options, "--set", "objective=x", code=2
    )
    assert "the catalog has no column 'mood'" in train("ratings.csv", *options, "--set", "features=mood", code=1)
    undeclared = train("ratings.csv", *options[2:], code=2)
    assert "or --items private" in undeclared


def test_a_parameter_of_a_model_is_not_an_option_of_its_own(work: Path) -> None:
    said = train("ratings.csv", "--objective", "lists", code=2)
    assert "No such option: --objective. It is a parameter of models: --set objective=..." in said
    assert "--set" not in train("ratings.csv", "--objectives", "lists", code=2)


def test_without_privacy(work: Path) -> None:
    text = train("ratings.csv", "--model", "als", *QUICK, "--out", "model")
    assert "(NOT PRIVATE)" in text
    assert not discreet.load("model").guarantee_.holds


@pytest.mark.filterwarnings("ignore:.*is really epsilon")  # of what was published
@pytest.mark.parametrize("name", [*MODELS, "als", "mean-rating", "POPULARITY"])
def test_every_model_by_any_spelling(work: Path, name: str) -> None:
    private = inputs.is_private(inputs.find(name))
    options = ["--items", "movies.csv", *(["--implicit"] if name == "DPSVD" else ["--range", "0.5", "5"])]
    options += ["--epsilon", "1", "--delta", "1e-6"] if private else []
    options += [part for value in NEEDED.get(name, ()) for part in ("--set", value)]
    text = train("ratings.parquet", "--model", name, *options, "--out", "new/model", "--json")
    data = json.loads(text[text.index("{") :])  # after warnings, which go elsewhere
    assert data["model"].lower() == name.lower().replace("-", "")
    assert (data["private"], data["guarantee"]["holds"]) == (private, private)
    assert type(discreet.load("new/model")).__name__ == data["model"]


def test_by_default_the_private_model_for_the_data(work: Path) -> None:
    options = ["--items", "movies.csv", "--epsilon", "1", "--delta", "1e-6", "--out", "model", "--json"]
    assert json.loads(train("ratings.csv", "--range", "0.5", "5", *options))["model"] == "DPALS"
    assert json.loads(train("ratings.csv", "--implicit", *options))["model"] == "DPSVD"


def test_the_whole_call(work: Path) -> None:
    options = ["--items", "movies.csv", "--range", "0.5", "5", "--set", "rank=3", "--set", "solver=cg"]
    files = ["--statement", "s.html", "--statement", "s.md", "--statement", "s.json"]
    text = train("ratings.csv", "-m", "als", *options, "-o", "model", *files)
    for part in ("rank=3", "solver=cg", "50 items, given", "0.5 to 5", "NOT PRIVATE", "s.html, s.md, s.json"):
        assert part in text
    assert text.index("rank=3") < text.index("it was trained without noise")
    model = discreet.load("model")
    assert model.get_params()["rank"] == 3
    assert model.recommend({1: 5.0}, n=1).titles is not None
    assert Path("s.html").read_text().startswith("<!doctype html>")
    assert Path("s.md").read_text().startswith("# ALS")
    assert discreet.Statement.parse(Path("s.json").read_text()).digest == model.statement().digest


def test_it_is_the_model_that_python_gives(work: Path) -> None:
    train("ratings.parquet", "--model", "als", *QUICK, "--range", "0.5", "5", "--out", "here")
    same = discreet.ALS(rank=2, n_steps=1).fit(discreet.read("ratings.parquet", value_range=(0.5, 5)))
    assert (discreet.load("here").item_factors_ == same.item_factors_).all()


def test_no_number_about_people_is_printed(work: Path) -> None:
    """200 users, 4,000 ratings; only what is declared public may appear."""
    for options in ([], ["--json"]):
        text = train("ratings.csv", "--model", "mean-rating", "--out", "model", *options).replace(",", "")
        assert "200" not in text
        assert "4000" not in text
        assert "50 items" not in text  # nobody has declared them
        assert "3.8" not in text


def test_sources(work: Path) -> None:
    frame = discreet.read("ratings.csv").to_frame("pandas").astype({"user": int, "item": int})
    for name, half in (("a", frame[:2000]), ("b", frame[2000:])):
        half.rename(columns={"user": "who", "item": "what", "rating": "how"}).to_csv(f"part-{name}.csv", index=False)
    columns = ["--user", "who", "--item", "what", "--value", "how"]
    train("part-*.csv", *columns, "--model", "popularity", "--out", "globbed")
    frame.to_parquet("ratings.parquet")
    train("SELECT * FROM 'ratings.parquet'", "--model", "popularity", "--out", "selected")
    import sqlite3

    connection = sqlite3.connect("shop.db")
    frame.to_sql("ratings", connection, index=False)
    connection.close()
    where = ["--connection", "sqlite:///shop.db"]
    train("SELECT user, item, rating FROM ratings", *where, "--model", "popularity", "--out", "queried")
    wanted = discreet.Popularity().fit(discreet.read("ratings.csv"))
    for folder in ("globbed", "selected", "queried"):
        assert (discreet.load(folder).item_bias_ == wanted.item_bias_).all()


def test_a_data_set_by_name(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.data.datasets.load", lambda name: discreet.read("ratings.csv", items="movies.csv"))
    train("ml-1m", "--model", "popularity", "--out", "model")
    assert "leave out --range" in train("1m", "--range", "1", "5", "--model", "als", "--out", "model", code=2)


def test_implicit_feedback(work: Path) -> None:
    train("ratings.csv", "--model", "als", *QUICK, "--implicit", "--threshold", "4", "--out", "model")
    model = discreet.load("model")
    assert model.implicit_
    counted = discreet.read("ratings.csv").to_implicit(4)
    assert model.popularity_.sum() == len(counted)
    assert "--implicit too" in train("ratings.csv", "--model", "als", "--threshold", "4", "--out", "model", code=2)
    discreet.read("ratings.csv").to_frame("pandas")[["user", "item"]].to_csv("views.csv", index=False)
    told = train("views.csv", "--model", "als", "--implicit", "--threshold", "4", "--out", "model", code=1)
    assert "no ratings" in told


def test_a_model_is_replaced_and_other_folders_are_not(work: Path) -> None:
    train("ratings.csv", "--model", "popularity", "--out", "model")
    assert isinstance(discreet.load("model"), discreet.Popularity)
    Path("photos").mkdir()
    Path("photos/cat.jpg").touch()
    for place in ("photos", "movies.csv"):
        told = train("ratings.csv", "--model", "popularity", "--out", place, code=2)
        assert told.startswith("discreet: --out: ")
        assert place in told
    assert Path("photos/cat.jpg").exists()


@pytest.mark.parametrize(
    ("arguments", "said", "code"),
    [
        (["--model", "als", "--epsilon", "1"], "ALS is not private: it has no epsilon", 2),
        (["--model", "als", "--set", "epsilon=1"], "ALS is not private: it has no epsilon", 2),
        (["--model", "als", "--delta", "1e-6"], "ALS is not private: it has no delta", 2),
        (["--model", "als", "--ledger", "l.db"], "takes no ledger", 2),
        ([*PRIVATE, "--ledger-name", "first"], "--ledger-name: it names a ledger in a database; give the database", 2),
        (
            ["--model", "als", "--on-invalid", "clip"],
            "--on-invalid clip has nothing to clip to without --range; give it, or give --on-invalid drop",
            1,
        ),
        (["--model", "als", "--set", "ranks=3"], "no parameter 'ranks'; it has rank, regularization", 2),
        (["--model", "als", "--set", "rank=many"], "--set rank must be a whole number", 2),
        (["--model", "als", "--set", "rank"], "name=value", 2),
        (["--model", "als", "--set", "solver=magic"], "solver", 2),
        (["--model", "als", "--set", "n_steps=0"], "--set n_steps must be", 2),
        (["--model", "pca"], "there is no 'pca'; there are ALS, DPALS, DP", 2),
        ([], "missing: --epsilon NUMBER; --delta NUMBER; --items FILE", 2),
        (["--model", "als", "--statement", "s.pdf"], ".html or .md or .json", 2),
        (["--model", "als", "--statement", "nowhere/s.md"], "not a file that can be written", 2),
        (["--model", "als", "--statement", "model/s.md"], "beside", 2),
        (["--model", "als", "--items", "movies.csv", "--observed-items-are-public"], "one of them", 2),
        (
            ["--model", "als", "--range", "2", "5"],
            "give --on-invalid drop to leave such rows out, or --on-invalid clip to move them into --range. In all",
            1,
        ),
        (["--model", "als", "--user", "nobody"], "nobody", 1),
        (
            ["--model", "als", "--range", "0.5", "5", "--implicit", "--threshold", "9"],
            "--threshold: no rating can reach 9",
            1,
        ),
        ([*PRIVATE, "--set", "epsilon=2"], "--set epsilon and --epsilon: give one", 2),
        ([*PRIVATE, "--features", "genres", "--set", "features=year"], "--set features and --features: give one", 2),
        ([*PRIVATE, "--set", "n_steps=4"], "n_steps is a parameter of --model dpals", 2),
        ([*PRIVATE, "--set", "n_steps"], "must look like name=value; the parameters of Recommender are epsilon", 2),
        ([*PRIVATE, "--set", "n_jobs=0"], "discreet: --set n_jobs: a number of threads is needed", 2),
        ([*PRIVATE, "--set", "n_users_hint=-1"], "discreet: --set n_users_hint must be a whole number", 2),
        (
            [*PRIVATE, "--model", "dpsgd", "--implicit"],
            "discreet: SOURCE: DPSGD learns from ratings; for implicit feedback take --model dpsvd",
            2,
        ),
        (
            ["--model", "dpals", "--observed-items-are-public", *PRIVATE[2:], "--features", "genres"],
            "no column 'genres', nor any that describes items",
            1,
        ),
        ([*PRIVATE, "--model", "one-bit"], "discreet: --set threshold: there are values other than 0.5 and 5, the", 2),
        (
            [*PRIVATE, "--model", "dpsvd", "--features", "genres"],
            "--features: this is for lists; leave it out for ratings, or give --set objective=lists",
            2,
        ),
        (["--model", "als", "--connection", "sqlite:///none.db"], "there is no file 'none.db'", 1),
    ],
)
def test_errors_are_one_sentence(work: Path, arguments: list[str], said: str, code: int) -> None:
    before = discreet.load("model").statement().digest
    text = train("ratings.csv", "--out", "model", *arguments, code=code)
    assert text.startswith("discreet: ")
    assert text.count("\n") == 1
    assert said in text
    assert discreet.load("model").statement().digest == before


def test_what_is_not_there(work: Path) -> None:
    for source in ("none.csv", "lastfm", "SELECT * FROM 'none.csv'", "none-*.parquet"):
        assert train(source, "--model", "als", "--out", "model", code=1).startswith("discreet: ")
    assert train("--out", "model", code=2)
    assert train("ratings.csv", "--model", "als", code=2)


# -- private models, of which there will be more


def test_a_private_model(work: Path, private_model: str) -> None:
    options = ["--items", "movies.csv", "--range", "0.5", "5", "--epsilon", "1", "--delta", "1e-6"]
    text = train("ratings.csv", "--model", private_model, *options, "--out", "model", "--statement", "s.md")
    assert "NOT PRIVATE" not in text
    assert text.index("costs epsilon = 1") < text.index("joint differential privacy")
    assert "200" not in text.replace(",", "")
    assert "item popularity" in Path("s.md").read_text()
    assert discreet.load("model").guarantee_.epsilon <= 1
    data = json.loads(train("ratings.csv", "-m", private_model, *options, "-o", "model", "--json"))
    assert data["private"]
    assert data["guarantee"]["epsilon"] <= 1
    assert "costs epsilon" in data["plan"]


def test_a_delta_that_is_large_for_so_many_people(work: Path) -> None:
    options = ["--items", "movies.csv", "--range", "0.5", "5", "--epsilon", "1", "--delta", "1e-5"]
    options += ["--set", "n_users_hint=50_000", "--out", "model", "--json"]
    result = CliRunner().invoke(app, ["train", "ratings.csv", "--model", "dpals", *options])
    said = "delta: 1e-05 is large for about 50,000 people"
    assert result.stderr.startswith(f"discreet: --{said}")
    assert any(note.startswith(said) for note in json.loads(result.stdout)["notes"])


def test_what_a_private_model_needs(work: Path, private_model: str) -> None:
    start = ["ratings.csv", "--model", private_model, "--out", "model"]
    needed = ("--items", "--observed-items-are-public,", "--range")
    told = train(*start[:3], code=2)
    assert all(f"{flag} " in told for flag in ("--out", "--epsilon", "--delta", *needed))  # all at once
    start += ["--epsilon", "1", "--delta", "1e-6"]
    told = train(*start, code=2)
    assert all(f"{flag} " in told for flag in needed)
    assert "--epsilon N" not in told
    start += ["--observed-items-are-public"]
    told = train(*start, code=1)
    assert "give --range LOW HIGH" in told
    assert "--items" not in told
    train(*start, "--range", "0.5", "5")
    assert "or train a private model: " in train(
        "ratings.csv", "--model", "als", "--epsilon", "1", "--out", "model", code=2
    )


def test_a_ledger(work: Path, private_model: str) -> None:
    options = ["--items", "movies.csv", "--range", "0.5", "5", "--epsilon", "1", "--delta", "1e-6", "--out", "model"]
    start = ["ratings.csv", "--model", private_model, *options]
    assert "to begin one: discreet ledger create ledger.db --epsilon 3" in train(
        *start, "--ledger", "ledger.db", code=1
    )
    assert not Path("ledger.db").exists()
    ledger = discreet.Ledger("sqlite:///ledger.db", epsilon=1.2, delta=1e-6)
    assert "item popularity" in train(*start, "--ledger", "ledger.db")
    assert len(ledger.events) == 1
    told = train(*start, "--ledger", "sqlite:///ledger.db", code=1)
    assert "DOES NOT FIT" in told
    assert "nothing was spent" in told
    assert "no ledger called" in train(*start, "--ledger", "ledger.db", "--ledger-name", "other", code=1)


# -- a file instead of flags


def test_a_config_file(work: Path) -> None:
    Path("train.toml").write_text(
        'source = "ratings.csv"\nmodel = "als"\nout = "from-file"\nrange = [0.5, 5]\nitems = "movies.csv"\n'
        'json = true\nobserved_items_are_public = false\nstatement = "s.md"\n[set]\nrank = 3\nbiases = true\n'
    )
    data = json.loads(train("--config", "train.toml"))
    assert (data["out"], data["parameters"]["rank"], data["statement"]) == ("from-file", 3, ["s.md"])
    assert data["public_inputs"]["value_range"] == "0.5 to 5"
    data = json.loads(train("--config", "train.toml", "--out", "flag", "--set", "rank=2"))
    assert (data["out"], data["parameters"]["rank"], data["parameters"]["biases"]) == ("flag", 2, True)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('modle = "als"', "'modle', which is not an option; the options are source, out, model, set, features"),
        ("model =", "not TOML"),
        ("config = 'other.toml'", "not an option"),
    ],
)
def test_a_config_file_with_a_mistake(work: Path, content: str, said: str) -> None:
    Path("train.toml").write_text(content)
    assert said in train("--config", "train.toml", code=2)


def test_a_config_file_that_cannot_be_read(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "--config: 'none.toml' cannot be read" in train("--config", "none.toml", code=2)
    Path("train.toml").write_bytes(b"\xff\xfe")
    assert "not TOML" in train("--config", "train.toml", code=2)
    Path("train.toml").write_text("rang = 3")
    monkeypatch.setattr(common, "find_spec", lambda name: None)
    assert "pip install tomli" in train("--config", "train.toml", code=2)


# -- the installed command


@pytest.mark.skipif(not COMMAND.exists(), reason="the command is not installed beside this Python")
def test_the_installed_command(work: Path) -> None:
    def call(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, check=False)

    shutil.rmtree("model")
    done = call("train", "ratings.csv", "--model", "als", *QUICK, "--out", "model")
    assert (done.returncode, done.stderr) == (0, "")  # quiet in a pipe
    assert "NOT PRIVATE" in done.stdout
    wrong = call("train", "ratings.csv", "--model", "als", "--epsilon", "1", "--out", "model")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr.startswith("discreet: ALS is not private: it has no epsilon")
    found = call("recommend", "model", "--history", "1=5,2=4", "--json")
    assert found.returncode == 0
    assert len(json.loads(found.stdout)["recommendations"]) == 10
    tested = call("evaluate", "model", "test.csv", "--history", "train.csv", "--json")
    assert json.loads(tested.stdout)["models"]["ALS"]["metrics"]["rmse"]["value"] > 0


def test_json_is_all_there_is_on_standard_output(work: Path) -> None:
    result = CliRunner().invoke(app, ["train", "ratings.csv", "--model", "als", *QUICK, "--out", "model", "--json"])
    json.loads(result.stdout)
    assert result.stderr == ""


# -- fits that are stopped, and finished with --resume

OPTIONS = ["--model", "dpals", "--set", "n_steps=2", "--items", "movies.csv", "--range", "0.5", "5"]
START = ["train", "ratings.csv", *OPTIONS, "--epsilon", "1", "--delta", "1e-6"]
FOLDER = ["--out", "new"]


@contextmanager
def failing(error: BaseException, after: int = 2) -> Iterator[None]:
    """A fit in which something happens before its next release, once so many have been made."""
    real = Reservation.entry

    def entry(self: Reservation, *given: Any) -> Any:
        if self._made == after:
            raise error
        return real(self, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Reservation, "entry", entry)
        yield


def stop(*options: str, out: list[str] = FOLDER) -> str:
    with failing(KeyboardInterrupt()):
        return run(*START, *out, *options, code=130)


def command_in(told: str) -> list[str]:
    """What the message says to type."""
    return shlex.split(told.strip().rpartition("at no further cost: discreet ")[2])


def test_usage_errors_are_in_plain_words(work: Path) -> None:
    assert "'--epsilon': it must be a number" in train("--epsilon", "much", code=2)
    assert "'--on-unknown': 'guess' is not one of 'raise', 'drop'" in train("--on-unknown", "guess", code=2)
    assert "'--range': it takes 2 numbers, separated by a space" in train("r.csv", "--range", "1,5", "--json", code=2)
    assert train(code=2).startswith("discreet: missing: SOURCE; --out PATH; --epsilon NUMBER; --delta NUMBER; --items")
    assert "missing: SOURCE; --out PATH. Example: discreet train" in train("--model", "als", code=2)


@pytest.mark.parametrize("typed_in", ["tab", r"\t"])
def test_a_tab_can_be_typed(work: Path, typed_in: str) -> None:
    rows = Path("ratings.csv").read_text()
    Path("tabs.csv").write_text(rows.replace(",", "\t"))
    assert train("tabs.csv", "--separator", typed_in, "--model", "popularity", "--out", "new")


def test_guessed_columns_are_said_in_options(work: Path) -> None:
    rows = Path("ratings.csv").read_text()
    Path("named.csv").write_text(rows.replace("user,item,rating", "person,film,stars", 1))
    said = train("named.csv", "--model", "popularity", "--out", "new").splitlines()[0]
    assert said == (
        "discreet: taking 'person' as user, 'film' as item, 'stars' as value; to be sure, give --user, --item, --value"
    )


def test_all_that_a_data_set_already_has_is_named(work: Path) -> None:
    assert train("ml-100k", *PRIVATE, "--out", "new", code=2).endswith("; leave out --items, --range\n")


def test_ctrl_c_before_the_fit(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*given: object, **named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("discreet.data.read", stop)
    assert run(*START, *FOLDER, code=130) == "discreet: stopped; nothing was spent\n"
    assert not Path("new").exists()
    assert run("evaluate", *START[1:], code=130) == "discreet: stopped; nothing was spent\n"
    tried = ["--try", "n_steps=1,2", *FOLDER]
    assert run("tune", *START[1:], *tried, code=130) == "discreet: stopped; nothing was spent\n"


def test_ctrl_c_before_a_fit_that_goes_on_says_that_no_more_was_spent(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*given: object, **named: object) -> None:
        raise KeyboardInterrupt

    stop()
    run(*START, "--out", "whole")
    monkeypatch.setattr("discreet.data.read", stopped)
    said = "discreet: stopped; nothing more was spent\n"
    assert run(*START, *FOLDER, "--resume", code=130) == said
    assert run(*START, *FOLDER, "--discard", code=130) == said
    more = ["train", "ratings.csv", "--continue", "whole", "--epsilon", "1", "--out", "more"]
    assert run(*more, code=130) == said


@pytest.mark.parametrize("options", [[], ["--ledger", "ledger.db"], ["--ledger", "sqlite:///ledger.db", "--json"]])
def test_ctrl_c_says_what_was_spent_and_how_to_go_on(work: Path, options: list[str]) -> None:
    ledger = discreet.Ledger("sqlite:///ledger.db", epsilon=1.2, delta=1e-6)
    told = stop(*options).splitlines()[-1]
    assert told.startswith("discreet: stopped; epsilon = 1 at delta = 1e-06 stays set aside for this fit")
    assert command_in(told) == [*START, *FOLDER, *options, "--resume"]
    assert "200" not in told.replace(",", "")  # people
    assert ledger.open_reservations() or not options
    spent = ledger.spent.cost
    again = run(*command_in(told))
    if "--json" in options:
        assert json.loads(again)["plan"].startswith("The whole plan was paid for")
    else:
        assert "The whole plan was paid for when this fit began: nothing more is spent." in again
        assert ("in total, including what is set aside, of a budget of epsilon = 1.2." in again) == bool(options)
    assert sorted(os.listdir("new")) == ["factors.safetensors", "items.parquet", "model.json"]
    assert discreet.load("new").guarantee_.epsilon <= 1
    assert ledger.spent.cost == spent
    assert not ledger.open_reservations()


def test_any_other_end_says_so_too(work: Path) -> None:
    with failing(OSError(28, "No space left on device")):
        told = run(*START, *FOLDER, code=1).splitlines()
    assert told[-2].startswith("discreet: epsilon = 1 at delta = 1e-06 stays set aside")
    assert "[Errno 28] No space left on device" in told[-1]
    with failing(OSError(28, "No space left on device")):
        told = run(*command_in(told[-2]), code=1).splitlines()
    assert "set aside" not in "".join(told)  # which is known by now
    run(*START, *FOLDER, "--resume")


def test_a_model_that_cannot_be_saved_is_not_lost(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("discreet.models.model_folder.replace", full)
        told = run(*START, *FOLDER, code=1).splitlines()[-2]
    run(*command_in(told))
    assert discreet.load("new").guarantee_.holds


def test_an_earlier_model_is_there_until_the_new_one_is(work: Path) -> None:
    stop(out=["--out", "model"])
    assert isinstance(discreet.load("model"), discreet.ALS)
    run(*START, "--out", "model", "--resume")
    assert isinstance(discreet.load("model"), discreet.DPALS)


def test_nothing_is_paid_for_twice_by_mistake(work: Path) -> None:
    ledger = discreet.Ledger("sqlite:///ledger.db", epsilon=2.5, delta=1e-6)
    stop("--ledger", "ledger.db")
    before = len(ledger.entries)
    told = run(*START, *FOLDER, "--ledger", "ledger.db", code=2)
    words = shlex.join(["discreet", *START, *FOLDER, "--ledger", "ledger.db"])
    assert f"at no further cost: {words} --resume. To discard it and pay for another: {words} --discard" in told
    assert "one of them" in run(*START, *FOLDER, "--resume", "--discard", code=2)
    assert "give that" in run(*START, *FOLDER, "--resume", code=1)
    assert "give that" in run(*START, *FOLDER, "--discard", code=1)
    told = run(*START, *FOLDER, "--ledger", "ledger.db", "--set", "n_steps=3", "--resume", code=1).splitlines()[-1]
    assert told.startswith("discreet: --resume: the fit in ")
    assert "was begun with another n_steps; give what it began with" in told
    assert told.endswith("or give --discard instead of --resume to begin again")
    other = ["train", "ratings.csv", "--model", "als", *FOLDER]
    assert "of another model" in run(*other, "--resume", code=2)
    assert len(ledger.entries) == before
    assert len(ledger.open_reservations()) == 1


@pytest.mark.parametrize("flag", ["--resume", "--discard"])
def test_where_there_is_nothing_to_finish(work: Path, flag: str) -> None:
    assert f"{flag}: there is no unfinished fit in 'new'" in run(*START, *FOLDER, flag, code=2)
    assert not Path("new").exists()


def test_giving_up_returns_the_rest_and_begins_anew(work: Path) -> None:
    ledger = discreet.Ledger("sqlite:///ledger.db", epsilon=1.5, delta=1e-6)
    stop("--ledger", "ledger.db")
    told = run(*START, *FOLDER, "--ledger", "ledger.db", "--discard")
    assert "discarded; what stays spent: epsilon = 0." in told
    assert 1 < ledger.spent.epsilon < 1.5
    assert not ledger.open_reservations()
    assert os.listdir("new").count("unfinished") == 0
    stop(out=["--out", "own"])
    run(*START, "--out", "own", "--discard")
    assert discreet.load("own").guarantee_.holds


def test_stopped_before_anything_was_spent(work: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(discreet.Ledger, "reserve", lambda *given, **named: (_ for _ in ()).throw(KeyboardInterrupt()))
        assert "stopped; nothing was spent" in run(*START, *FOLDER, code=130)
    assert not Path("new").exists()


def test_models_that_cannot_be_resumed_say_so(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*given: Any) -> None:
        raise KeyboardInterrupt

    given = [
        "--set",
        "perturbed=true",
        "--set",
        "threshold=0.5",
        "--items",
        "movies.csv",
        "--range",
        "0",
        "1",
        "--on-invalid",
        "clip",
    ]
    monkeypatch.setattr("discreet.models.one_bit.model.OneBit._from_noisy", stopped)
    told = run("train", "ratings.csv", "--model", "onebit", *given, "--epsilon", "1", *FOLDER, code=130)
    assert "was spent, and the fit cannot be resumed" in told
    monkeypatch.setattr("discreet.models.als.baseline.ALS._learn_exactly", stopped)
    assert "nothing was spent" in run("train", "ratings.csv", "--model", "als", *FOLDER, code=130)


def test_a_password_is_not_printed() -> None:
    words = ["train", "x.csv", "--ledger", "postgresql://me:s3cret@host/db", "--discard"]
    said = typed(SimpleNamespace(meta={TYPED: words}), "--resume", less=["--discard"])
    assert said == "discreet train x.csv --ledger postgresql://me:PASSWORD@host/db --resume"


@pytest.mark.parametrize("named", [True, False])
def test_other_commands_that_are_stopped_say_what_the_ledger_has_spent(
    work: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    discreet.Ledger("sqlite:///ledger.db", epsilon=9, delta=1e-5, filter="renyi")
    ledger = ["--ledger", "sqlite:///ledger.db"] if named else []
    table = [
        "ratings.csv",
        "--items",
        "movies.csv",
        "--range",
        "0.5",
        "5",
        "--epsilon",
        "2",
        "--delta",
        "1e-6",
        *ledger,
    ]

    def stopped(*given: Any, **named: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("discreet.evaluate.private.collect", stopped)  # after the search was charged
    told = run("tune", *table, "--model", "dpals", "--try", "n_steps=1,2", *FOLDER, code=130)
    assert ("and 0 before. What was charged stays charged" in told) == named
    monkeypatch.setattr(discreet.Ledger, "reserve", stopped)
    told = run("evaluate", *table, "--model", "dpals", code=130)
    assert ("as before; nothing was charged" in told) == named
    assert ("no ledger was named" in told) != named


PUBLIC = ["--items", "movies.csv", "--range", "0.5", "5"]


def test_features_are_an_option(work: Path) -> None:
    private = [*PUBLIC, "--epsilon", "1", "--delta", "1e-6", "--out", "new"]
    column = discreet.Catalogue.read("movies.csv").names[-1]
    hint = "If these columns of the catalog describe items, naming them costs no privacy: --features"
    assert f"{hint} {column}\n" in train("ratings.csv", *private)
    assert hint not in train("ratings.csv", *private, "--features", column)
    assert hint not in train("ratings.csv", *PUBLIC, "--model", "als", *QUICK, "--out", "other")
    assert discreet.load("new").get_params()["features"] == [column]
    told = train("ratings.csv", *private, "--features", "nothing", code=1)
    assert f"--features: the catalog has no column 'nothing'; columns that describe items: {column}" in told
    assert "costs epsilon" not in told  # before anything else
    told = train("ratings.csv", *private, "--features", "title", code=1)
    assert "--features: hardly any two items share a text in 'title'" in told
    assert "costs epsilon" not in told
    told = train("ratings.csv", *private, "--model", "onebit", "--features", column, code=2)
    assert "OneBit takes none; these models do: Recommender, DPALS, DPSVD" in told
    assert "--items: no file matches 'none.csv'" in train("ratings.csv", "--items", "none.csv", *private[2:], code=1)


def test_a_model_is_continued(work: Path) -> None:
    ledger = discreet.Ledger("sqlite:///ledger.db", epsilon=4, delta=1e-6)
    train("ratings.csv", *PUBLIC, "--epsilon", "1", "--delta", "1e-6", "--ledger", "ledger.db", "--out", "first")
    more = ["ratings.csv", *PUBLIC, "--continue", "first", "--out", "second"]
    assert "--ledger: a ledger paid for the model" in train(*more, code=2)
    assert "leave out --delta" in train(*more, "--ledger", "ledger.db", "--delta", "1e-7", code=2)
    assert "leave out --model" in train(*more, "--model", "dpals", code=2)
    other_range = ["ratings.csv", "--items", "movies.csv", "--range", "0", "5", *more[-4:], "--ledger", "ledger.db"]
    assert "--range: the model keeps the range that it was trained with; give --range 0.5 5" in train(
        *other_range, code=2
    )
    before = ledger.spent.epsilon
    said = train(*more, "--ledger", "ledger.db", "--epsilon", "0.5")
    first, second = discreet.load("first").guarantee_, discreet.load("second").guarantee_
    assert f"the model will then have epsilon = {round_up(second.epsilon)} at delta = 1e-06 in all" in said
    assert first.epsilon < second.epsilon < 1.5
    assert ledger.spent.epsilon > before
    assert ledger.spent.epsilon == pytest.approx(second.epsilon)
    assert "cannot be continued" in train("ratings.csv", *PUBLIC, "--continue", "model", "--out", "third", code=2)
