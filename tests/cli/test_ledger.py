import json
import re
import sqlite3
import threading
from pathlib import Path

import numpy as np
import pytest

import discreet
from discreet import Gaussian, Ledger, Plan, Statement
from discreet.privacy import store
from tests.cli.conftest import run


@pytest.fixture
def path(tmp_path: Path) -> str:
    file = tmp_path / "ledger.db"
    ledger = Ledger(f"sqlite:///{file}", epsilon=1, delta=1e-6)
    ledger.release([3, 4], 1, Gaussian(10.0), "clicks per item")
    return str(file)


def test_create(tmp_path: Path) -> None:
    begin = ("ledger", "create", str(tmp_path / "new.db"), "--epsilon", "2", "--delta")
    assert "budget epsilon = 2" in run(*begin, "1e-6")
    assert json.loads(run(*begin, "1e-6", "--json"))["entries"] == 1  # it stays as it is
    assert "keeps it" in run(*begin, "1e-7", code=1)


def test_show(path: str) -> None:
    text = run("ledger", "show", path)
    for part in ("epsilon = 1", "clicks per item", "further release that fits"):
        assert part in text
    assert "gaussian std 10" in run("ledger", "show", path, "--releases")
    data = json.loads(run("ledger", "show", f"sqlite:///{path}", "--json"))
    assert data["spent"]["mu"] == pytest.approx(0.1)
    assert len(data["events"]) == 1
    empty = Path(path).with_name("empty.db")
    Ledger(f"sqlite:///{empty}", create=True)
    assert "Nothing has been released" in run("ledger", "show", str(empty))


def test_who_waits_for_a_ledger_is_told(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "PATIENCE", 0.1)
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("begin exclusive")
    soon = threading.Timer(0.5, other.close)
    soon.start()
    text = run("ledger", "show", path)
    soon.join()
    assert re.match(r"discreet: The ledger in .* is locked by .*; waited for 0 s", text)
    assert "clicks per item" in text


def test_export(path: str) -> None:
    assert len(json.loads(run("ledger", "export", path))["entries"]) == 2
    assert run("ledger", "export", path, "--statement").startswith("# Privacy ledger")
    assert Statement.parse(run("ledger", "export", path, "--statement", "--json")).guarantee.mu == pytest.approx(0.1)


def test_verify(path: str) -> None:
    assert "intact: 2 entries" in run("ledger", "verify", path)
    assert json.loads(run("ledger", "verify", path, "--json")) == {"valid": True, "entries": 2}
    connection = sqlite3.connect(path)
    connection.execute("update discreet_ledger_entry set body = replace(body, '10.0', '99.0') where seq = 2")
    connection.commit()
    connection.close()
    assert "changed" in run("ledger", "verify", path, code=1)


def test_close(path: str) -> None:
    ledger = Ledger(f"sqlite:///{path}")
    left_open = ledger.reserve(Plan.gaussian(0.1, {"a": 1.0}))
    hint = "finish it with `discreet train --resume`, or return what it did not release with `discreet ledger close`"
    assert hint not in run("ledger", "show", path).replace("\n", "")
    reservation = left_open.__enter__()  # as a killed process leaves it
    assert hint in run("ledger", "show", path).replace("\n", "")
    assert reservation.id in run("ledger", "show", path).replace("\n", "")
    listed = run("ledger", "close", path)
    assert reservation.id in listed
    assert f"discreet ledger close {path} RESERVATION" in listed.replace("\n", "")
    assert "Closed" in run("ledger", "close", path, reservation.id)
    assert ledger.spent.mu == pytest.approx(0.1)
    assert "none with the id" in run("ledger", "close", path, "nonsense", code=1)


def test_labels_are_shown_as_they_are(path: str) -> None:
    Ledger(f"sqlite:///{path}").release([3], 1, Gaussian(30.0), "counts [/b] [bold]x[/bold]")
    assert "counts [/b] [bold]x[/bold]" in run("ledger", "show", path)


def test_what_is_not_a_ledger_is_one_sentence(tmp_path: Path) -> None:
    text, other = tmp_path / "notes.txt", tmp_path / "other.db"
    text.write_text("no database " * 100)
    assert "not a database" in run("ledger", "show", str(text), code=1)
    sqlite3.connect(other).close()
    assert "no ledger" in run("ledger", "show", str(other), code=1)
    connection = sqlite3.connect(other)
    assert connection.execute("select count(*) from sqlite_master").fetchone() == (0,)
    connection.close()


def test_looking_never_creates(tmp_path: Path, path: str) -> None:
    assert "no file" in run("ledger", "show", str(tmp_path / "other.db"), code=1)
    assert not (tmp_path / "other.db").exists()
    told = run("ledger", "show", path, "--name", "other", code=1)
    assert told.startswith("discreet: --name: there is no ledger called 'other'")
    assert f"discreet ledger create {path} --name other --epsilon" in told


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    where = str(tmp_path / "nowhere" / "l.db")
    told = run("ledger", "create", where, "--epsilon", "1", "--delta", "1e-6", code=1)
    assert told.startswith(f"discreet: WHERE: sqlite:///{where} cannot be used")


def test_show_groups_what_was_paid_for_together(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'l.db'}"
    ledger = discreet.Ledger(url, epsilon=2, delta=1e-6)
    plan = discreet.Plan.gaussian(0.1, {"counts": 0.25, "sums": 0.75})
    ratings = discreet.datasets.movielens_like(50, 20, 500, random_state=0)
    discreet.DPPopularity(epsilon=0.5, delta=1e-6).fit(ratings, ledger=ledger)
    with ledger.reserve(plan) as reservation:
        open_now = json.loads(run("ledger", "show", url, "--json"))["fits"]
        reservation.release(np.zeros(2, np.int64), 1.0, 21.0, "counts")
    fits = json.loads(run("ledger", "show", url, "--json"))["fits"]
    assert [fit["state"] for fit in open_now] == ["done", "open"]
    assert [fit["released"] for fit in fits] == ["item popularity", "counts"]
    assert open_now[1]["epsilon"] > fits[1]["epsilon"] > 0  # the rest was returned
    assert open_now[1]["total"] > fits[1]["total"]
    assert fits[1]["total"] == pytest.approx(ledger.spent.epsilon)
    shown = run("ledger", "show", url)
    assert fits[0]["time"][:16].replace("T", " ") in shown
    assert "sensitivity" not in shown
    assert "sensitivity" in run("ledger", "show", url, "--releases")
