"""`discreet train` that is stopped says what was spent, and finishes what was paid for when it is told to."""

import json
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import discreet
from discreet.cli.common import TYPED, typed
from discreet.privacy import Reservation
from tests.cli.conftest import run

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
        assert ("in all, what is set aside included, of a budget of epsilon = 1.2." in again) == bool(options)
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
    assert "another plan, n_steps; go on" in run(
        *START, *FOLDER, "--ledger", "ledger.db", "--set", "n_steps=3", "--resume", code=1
    )
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
    assert "discarded; what it had released stays spent: epsilon = 0." in told
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
