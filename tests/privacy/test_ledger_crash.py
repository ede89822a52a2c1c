"""Nothing lost: a process killed at any point never leaves a released value without its record.

A child releases from a ledger on disk and stands still at one step after another: at every line of the ledger, its
store, the mechanisms, the samplers and the keystream that runs during a release. What is on the disk there is checked,
and a child is killed (SIGKILL) wherever it has changed; and then at moments chosen by a clock, to hit the database's
own code. The child's noise source writes to a diary whenever noise is drawn, before the noise exists.
"""

import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from discreet import Gaussian, Ledger, Plan
from discreet.privacy import Cost, SystemNoise
from tests import dying

STEPS = tuple(os.path.join("privacy", f"{name}.py") for name in ("ledger", "store", "noise"))
COUNTS = np.array([5, 3, 0])


class Telltale(SystemNoise):
    """Says in a diary that noise is about to be drawn."""

    def __init__(self, diary: int) -> None:
        self.diary = diary

    def fresh_key(self) -> bytes:
        os.write(self.diary, b"d")
        return super().fresh_key()


@dataclass
class World:
    """A ledger on disk with one release in it, and the diary of the child that releases from it."""

    folder: Path

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        self.ledger, self.journal, self.diary = (
            self.folder / name for name in ("ledger.db", "ledger.db-journal", "diary")
        )
        self.url = f"sqlite:///{self.ledger}"

    def start(self, template: Path) -> None:
        self.set((template.read_bytes(), b"", b""))

    def set(self, state: tuple[bytes, bytes, bytes]) -> None:
        self.journal.unlink(missing_ok=True)
        for path, content in zip((self.ledger, self.journal, self.diary), state, strict=True):
            if content or path is not self.journal:
                path.write_bytes(content)

    def state(self) -> tuple[bytes, bytes, bytes]:
        """All that is left of a child that dies now."""
        return (
            self.ledger.read_bytes(),
            self.journal.read_bytes() if self.journal.exists() else b"",
            self.diary.read_bytes(),
        )

    def releases(self, reserve: bool = False) -> None:
        """Two releases, or one under a plan; each value that comes back is noted in the diary."""
        diary = os.open(self.diary, os.O_WRONLY | os.O_APPEND)
        ledger = Ledger(self.url, noise_source=Telltale(diary))
        if reserve:
            plan = Plan.gaussian(0.1, {"a": (1.0, 3)})
            with ledger.reserve(plan) as reserved:
                reserved.release(COUNTS, 1, plan.noise("a", sensitivity=1), "a")
                os.write(diary, b"v")
        else:
            for _ in range(2):
                ledger.release(COUNTS, 1, Gaussian(20.0), "a")
                os.write(diary, b"v")

    def check(self) -> None:
        """Every draw and every value has its record; the log is whole; at most one record has no draw yet."""
        said = self.diary.read_bytes()
        ledger = Ledger(self.url)
        ledger.verify()
        recorded, drawn, returned = len(ledger.events) - 1, said.count(b"d"), said.count(b"v")
        assert returned <= drawn <= recorded <= drawn + 1
        assert ledger.epsilon is not None
        assert ledger.spent.epsilon <= ledger.epsilon
        reservations = ledger.open_reservations()
        for reservation in reservations:  # what was set aside and not released can be had back, and no more than that
            ledger.close(reservation)
        if reservations:
            ledger.verify()
        spent = sum((event.cost for event in ledger.events), Cost())
        assert ledger.spent.cost.gaussian == pytest.approx(spent.gaussian, rel=1e-9)


@pytest.fixture
def template(tmp_path: Path) -> Path:
    path = tmp_path / "template.db"
    ledger = Ledger(f"sqlite:///{path}", epsilon=1, delta=1e-6)
    ledger.release(COUNTS, 1, Gaussian(20.0), "warm up: imports, tables of the sampler")
    return path


@pytest.mark.parametrize("reserve", [False, True])
def test_killed_at_every_line(tmp_path: Path, template: Path, reserve: bool) -> None:
    world, after = World(tmp_path / "world"), World(tmp_path / "after")
    world.start(template)
    states = dying.at_every_line(STEPS, lambda: world.releases(reserve), world.state)
    assert len(states) > 100  # lines
    said = [diary for _, _, diary in states]
    assert min(said.count(b""), said.count(b"d"), said.count(b"dv")) > 10  # before, between and after
    changes, kills = dying.changes(states), 0
    for line in changes:
        after.set(states[line])
        after.check()
    for line in sorted({*changes, *(line - 1 for line in changes[1:])}):  # the first line and the last of each state
        world.start(template)
        kills += dying.killed(STEPS, lambda: world.releases(reserve), line)
        world.check()
    assert kills > len(changes)


def forked(work: Callable[[], object]) -> int:
    """The process that does the work."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    return child


def killed_after(work: Callable[[], None], seconds: float | None) -> bool:
    """Whether a child that does the work was killed after so many seconds, before it was done."""
    child = forked(work)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def test_killed_at_random_moments(tmp_path: Path, template: Path) -> None:
    """Including inside SQLite's commit: journals are rolled back, no entry is torn."""
    world = World(tmp_path / "world")
    world.start(template)
    started = time.perf_counter()
    assert not killed_after(world.releases, None)
    usual = time.perf_counter() - started
    world.check()
    clock, killed = random.Random(1), 0
    for _ in range(80):
        world.start(template)
        killed += killed_after(world.releases, clock.uniform(0, usual))
        world.check()
    assert killed > 0
