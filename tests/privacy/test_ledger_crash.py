"""Nothing lost: a process killed at any point never leaves a released value without its record.

A child releases from a ledger on disk and is killed (SIGKILL) at one step after another: at every line of the ledger,
its store, the mechanisms, the samplers and the keystream that runs during a release, and then at moments chosen by a
clock, to hit the database's own code. The child's noise source writes to a pipe whenever noise is drawn, before the
noise exists.
"""

import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

from discreet import Gaussian, Ledger, Plan
from discreet.privacy import Cost, SystemNoise

STEPS = tuple(os.path.join("privacy", f"{name}.py") for name in ("ledger", "store", "noise", "sampling", "keystream"))
COUNTS = np.array([5, 3, 0])


class Telltale(SystemNoise):
    """Says on a pipe that noise is about to be drawn."""

    def __init__(self, pipe: int) -> None:
        self.pipe = pipe

    def fresh_key(self) -> bytes:
        os.write(self.pipe, b"d")
        return super().fresh_key()


def kill_at(step: int) -> Any:
    """A trace function that kills the process at the given line."""
    seen = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal seen
        if not frame.f_code.co_filename.endswith(STEPS):
            return None
        if event == "line":
            seen += 1
            if seen == step:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    return trace


def releases(url: str, pipe: int, reserve: bool) -> None:
    """Two releases, or one under a plan; each value that comes back is reported on the pipe."""
    ledger = Ledger(url, noise_source=Telltale(pipe))
    if reserve:
        plan = Plan.gaussian(0.1, {"a": (1.0, 3)})
        with ledger.reserve(plan) as door:
            door.release(COUNTS, 1, plan.noise("a", sensitivity=1), "a")
            os.write(pipe, b"v")
    else:
        for _ in range(2):
            ledger.release(COUNTS, 1, Gaussian(20.0), "a")
            os.write(pipe, b"v")


def run_child(
    url: str, *, step: int | None = None, after: float | None = None, reserve: bool = False
) -> tuple[bytes, bool]:
    """What the child said before it died or finished, and whether it finished."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if step is not None:
                sys.settrace(kill_at(step))
            releases(url, write, reserve)
        finally:
            os._exit(0)
    os.close(write)
    if after is not None:
        time.sleep(after)
        os.kill(child, signal.SIGKILL)
    with os.fdopen(read, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    return said, not os.WIFSIGNALED(status)


def check(url: str, said: bytes) -> None:
    """Every draw and every value has its record; the log is whole; at most one record has no draw yet."""
    ledger = Ledger(url)
    ledger.verify()
    recorded, drawn, returned = len(ledger.events) - 1, said.count(b"d"), said.count(b"v")
    assert returned <= drawn <= recorded <= drawn + 1
    assert ledger.epsilon is not None
    assert ledger.spent.epsilon <= ledger.epsilon


@pytest.fixture
def fresh(tmp_path: Path) -> Callable[[], str]:
    """A ledger on disk with one release in it: a new copy at each call."""
    template, copy = tmp_path / "template.db", tmp_path / "ledger.db"
    ledger = Ledger(f"sqlite:///{template}", epsilon=1, delta=1e-6)
    ledger.release(COUNTS, 1, Gaussian(20.0), "warm up: imports, tables of the sampler")

    def make() -> str:
        copy.with_name("ledger.db-journal").unlink(missing_ok=True)
        shutil.copy(template, copy)
        return f"sqlite:///{copy}"

    return make


@pytest.mark.parametrize("reserve", [False, True])
def test_killed_at_every_line(fresh: Callable[[], str], reserve: bool) -> None:
    step, finished, deaths = 0, False, {b"": 0, b"d": 0, b"dv": 0}
    while not finished:
        step += 1
        url = fresh()
        said, finished = run_child(url, step=step, reserve=reserve)
        check(url, said)
        deaths[said] = deaths.get(said, 0) + 1
        if reserve:  # what the dead process had set aside and not released can be had back, and no more than that
            ledger = Ledger(url)
            for reservation in ledger.open_reservations():
                ledger.close(reservation)
            ledger.verify()
            spent = sum((event.cost for event in ledger.events), Cost())
            assert ledger.spent.cost.gaussian == pytest.approx(spent.gaussian, rel=1e-9)
    assert step > 100  # lines
    assert min(deaths[b""], deaths[b"d"], deaths[b"dv"]) > 10  # killed before, between and after


def test_killed_at_random_moments(fresh: Callable[[], str]) -> None:
    """Including inside SQLite's commit: journals are rolled back, no entry is torn."""
    url = fresh()
    started = time.perf_counter()
    said, finished = run_child(url)
    usual = time.perf_counter() - started
    assert finished
    check(url, said)
    clock, killed = random.Random(1), 0
    for _ in range(80):
        url = fresh()
        said, finished = run_child(url, after=clock.uniform(0, usual))
        killed += not finished
        check(url, said)
    assert killed > 0
