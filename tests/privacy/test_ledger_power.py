"""Nothing lost with the power: whatever a disk had of what was not synced, every release that returned is recorded.

The system calls of a process that uses a ledger are traced, and every folder that a loss of power at any moment could
leave is made and opened (tests/powerloss.py). So that this test is known to be able to fail, SQLite is also run with
weaker settings, of which each must lose a release.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from discreet import Ledger
from discreet.errors import DiscreetError
from discreet.privacy.store import Entry
from tests import powerloss
from tests.conftest import missing
from tests.powerloss import Event, State
from tests.privacy.ledgers import COUNTS, budget

MAGIC = bytes.fromhex("d9d505f920a163d7")  # at the beginning of a journal that must be rolled back
SETTINGS = {"off": 0, "normal": 1, "full": 2, "extra": 3}

RELEASES = """
import sys, os
from discreet import Gaussian, Ledger, Plan
from discreet.privacy import store
from tests.powerloss import ON_DISK, mark

def said(work):
    seq, _ = ledger._store._known.head
    mark(f"at most {seq + 1}")
    value = work()
    mark(f"at least {seq + 1}")
    return value

for name, setting in zip(sys.argv[2::2], sys.argv[3::2]):
    store._SYNCHRONOUS = int(setting)
    mark(f"world {name}")
    os.mkdir(f"{sys.argv[1]}/{name}")
    mark(ON_DISK)
    mark("at most 1")
    ledger = Ledger(f"sqlite:///{sys.argv[1]}/{name}/ledger.db", epsilon=1, delta=1e-6)
    mark("at least 1")
    said(lambda: ledger.release([5, 3, 0], 1, Gaussian(20.0), "x"))
    plan = Plan.gaussian(0.1, {"a": (1.0, 3)})
    opened = ledger.reserve(plan)
    reserved = said(opened.__enter__)
    said(lambda: reserved.release([5, 3, 0], 1, plan.noise("a", sensitivity=1), "a"))
    said(lambda: opened.__exit__(None, None, None))
"""

RECOVERIES = """
import sys, os
from pathlib import Path
from discreet import Ledger
from tests.powerloss import ON_DISK, mark

for state in sorted(Path(sys.argv[2]).iterdir()):
    mark(f"world {state.name}")
    world = Path(sys.argv[1]) / state.name
    world.mkdir()
    for path in state.iterdir():
        (world / path.name).write_bytes(path.read_bytes())
    mark(ON_DISK)
    Ledger(f"sqlite:///{world}/ledger.db").entries
"""


def traced(folder: Path, code: str, *arguments: str) -> tuple[list[Event], str]:
    try:
        return powerloss.traced(folder, code, *arguments)
    except powerloss.Unavailable as reason:
        missing("a loss of power", str(reason))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[Event]]]:
    folder = tmp_path_factory.mktemp("power") / "world"
    settings = [text for name, setting in SETTINGS.items() for text in (name, str(setting))]
    return folder, powerloss.worlds(traced(folder, RELEASES, *settings)[0])


def bounds(marks: list[str]) -> tuple[int, int]:
    """How many entries must be in the log, and how many may be."""
    most = [int(mark.removeprefix("at most ")) for mark in marks if mark.startswith("at most ")]
    least = [int(mark.removeprefix("at least ")) for mark in marks if mark.startswith("at least ")]
    return max(least, default=0), max(most, default=0)


def problem(place: Path, least: int, most: int, log: list[Entry]) -> str | None:
    """What is wrong with a ledger that was found after a loss of power."""
    try:
        ledger = Ledger(f"sqlite:///{place}/ledger.db") if least else budget(f"sqlite:///{place}/ledger.db")
        entries = ledger.entries
        if not least <= len(entries) <= max(most, 1):
            return f"{len(entries)} entries, where {least} to {most} were expected"
        if least and (entries != log[: len(entries)] or ledger.epsilon != 1 or ledger.delta != 1e-6):
            return "another log"
        ledger.release(COUNTS, 1, 50.0, "life goes on")
    except DiscreetError as error:
        return str(error)
    return None


def problems(runs: tuple[Path, dict[str, list[Event]]], setting: str, many: int) -> Iterator[tuple[State, str | None]]:
    """Every folder that may be found, and what is wrong with it."""
    root = runs[0] / setting
    log = Ledger(f"sqlite:///{root}/ledger.db").entries
    with powerloss.ram() as ram:
        for state, marks in powerloss.crashes(runs[1][setting], many):
            if str(root) in state:
                powerloss.restore(state, root, ram / "after")
                yield state, problem(ram / "after", *bounds(marks), log)


def test_every_release_outlives_a_loss_of_power(runs: tuple[Path, dict[str, list[Event]]]) -> None:
    found = [wrong for _, wrong in problems(runs, "extra", 4)]
    assert set(found) == {None}
    assert len(found) > 200


@pytest.mark.parametrize("setting", ["off", "normal", "full"])
def test_what_is_not_synced_would_be_lost(runs: tuple[Path, dict[str, list[Event]]], setting: str) -> None:
    assert any(wrong for _, wrong in problems(runs, setting, 8))


@pytest.mark.slow
def test_every_release_outlives_many_losses_of_power(runs: tuple[Path, dict[str, list[Event]]]) -> None:
    found = [wrong for _, wrong in problems(runs, "extra", 4096)]
    assert set(found) == {None}
    assert len(found) > 5000


def recovered(runs: tuple[Path, dict[str, list[Event]]], states: list[State], many: int, folder: Path) -> int:
    """Lose the power again while a ledger is opened that was found after a loss; how many folders could be left."""
    for number, state in enumerate(states):
        powerloss.restore(state, runs[0] / "extra", folder / "states" / str(number))
    again = powerloss.worlds(traced(folder / "world", RECOVERIES, str(folder / "states"))[0])
    log, count = Ledger(f"sqlite:///{runs[0]}/extra/ledger.db").entries, 0
    with powerloss.ram() as ram:
        for name, events in again.items():
            length = len(Ledger(f"sqlite:///{folder}/world/{name}/ledger.db").entries)
            for state, marks in powerloss.crashes(events, many):
                if powerloss.ON_DISK in marks:
                    powerloss.restore(state, folder / "world" / name, ram / "after")
                    assert problem(ram / "after", length, length, log) is None
                    count += 1
    return count


def hot(runs: tuple[Path, dict[str, list[Event]]], many: int) -> list[State]:
    """Folders that may be found with a journal that must be rolled back, each with another database half-written."""
    file = f"{runs[0]}/extra/ledger.db"
    journal = {
        state[file]: state
        for state, marks in powerloss.crashes(runs[1]["extra"], many)
        if bounds(marks)[0] and (state.get(f"{file}-journal") or b"").startswith(MAGIC)
    }
    states = list(journal.values())
    random.Random(1).shuffle(states)
    return states


def test_the_power_is_lost_again_during_recovery(runs: tuple[Path, dict[str, list[Event]]], tmp_path: Path) -> None:
    (tmp_path / "states").mkdir()
    assert recovered(runs, hot(runs, 4)[:8], 2, tmp_path) > 40


@pytest.mark.slow
def test_the_power_is_lost_again_during_many_recoveries(
    runs: tuple[Path, dict[str, list[Event]]], tmp_path: Path
) -> None:
    (tmp_path / "states").mkdir()
    assert recovered(runs, hot(runs, 64), 64, tmp_path) > 1000


# -- calls that fail

FAILURES = """
import ctypes, errno, json, sys
from pathlib import Path
from discreet import Gaussian, Ledger
from discreet.privacy import SystemNoise

fail = ctypes.CDLL(None).powerloss_fail
path = Path(sys.argv[1]) / "ledger.db"
url = f"sqlite:///{path}"
Ledger(url, epsilon=1, delta=1e-6)
content = path.read_bytes()

class Diary(SystemNoise):
    drawn = 0
    def fresh_key(self):
        self.drawn += 1
        return super().fresh_key()

for name, once in (("ENOSPC", 0), ("EIO", 0), ("EIO", 1)):
    for call in range(1000):
        path.write_bytes(content)
        diary = Diary()
        ledger, message = Ledger(url, noise_source=diary), None
        fail(call, getattr(errno, name), once)
        try:
            ledger.release([5, 3, 0], 1, Gaussian(8.0), "x")
        except Exception as error:
            message = f"{type(error).__name__}: {error}"
        fail(-1, 0, 0)
        print(json.dumps([name, message, diary.drawn, len(Ledger(url).events)]))
        if message is None:
            break
"""


def test_every_call_that_fails(tmp_path: Path) -> None:
    """A disk that is full or broken from any call on, or just for one: our error, and it says truly what was spent."""
    lines = [json.loads(line) for line in traced(tmp_path / "world", FAILURES)[1].splitlines()]
    failed = [line for line in lines if line[1] is not None]
    assert len(failed) > 60
    for name, message, drawn, recorded in failed:
        assert message.startswith("LedgerUnavailable: ")
        assert drawn == 0
        assert recorded == 0 if "Nothing was spent" in message else "may have been charged" in message
        assert name != "ENOSPC" or "free some space" in message or "has room" in message
    assert {recorded for *_, recorded in failed} == {0, 1}  # the last sync comes after the commit
    assert [line[2:] for line in lines if line[1] is None] == [[1, 1]] * 3
