"""No overspending: eight processes hammer one ledger and together spend all of its budget and not a bit more.

Nor do they if some of them are killed meanwhile, wherever they are.
"""

import multiprocessing
import os
import random
import signal
import time
from contextlib import suppress
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest
import sqlalchemy as sa

from discreet import Gaussian, Ledger, Plan, account
from discreet.errors import BudgetExceeded, LedgerUnavailable
from discreet.privacy import Cost, Planned, SystemNoise
from discreet.privacy.guarantee import PureEvent
from tests import dying, fresh
from tests.privacy.ledgers import COUNTS
from tests.privacy.test_ledger_crash import STEPS, Telltale, forked

PROCESSES, RELEASES = 8, 96


def hammer(
    url: str, start: Barrier, std: float, small: float, results: "multiprocessing.Queue[tuple[int, int]]"
) -> None:
    """Release until refused; then smaller ones until those are refused too."""
    ledger = Ledger(url, epsilon=1, delta=1e-6)
    start.wait(120)
    done = [0, 0]
    for size, noise in enumerate((std, small)):
        try:
            while True:
                ledger.release(7, 1, Gaussian(noise), f"size {size}")
                done[size] += 1
        except BudgetExceeded:
            continue
    results.put((done[0], done[1]))


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/l.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")


def test_eight_processes_spend_exactly_the_budget(url: str) -> None:
    whole = account(epsilon=1, delta=1e-6).mu
    assert whole is not None
    # 90 large releases fit and leave 6 parts in 96; of the small ones (a tenth of a part) 60 fit in that.
    std = Gaussian.for_cost(Cost.of_mu(whole / 96**0.5), sensitivity=1).std
    small = Gaussian.for_cost(Cost.of_mu(whole / 960**0.5), sensitivity=1).std
    ledger = Ledger(url, epsilon=1, delta=1e-6)
    ledger.charge(
        Cost.of_mu(whole * (5.5 / 96) ** 0.5), "so that the large ones do not come out even", source=SystemNoise()
    )
    start, results = fresh.context.Barrier(PROCESSES), fresh.context.Queue()
    workers = [fresh.context.Process(target=hammer, args=(url, start, std, small, results)) for _ in range(PROCESSES)]
    for worker in workers:
        worker.start()
    counts = [results.get(timeout=300) for _ in workers]
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    large, tiny = (sum(count) for count in zip(*counts, strict=True))
    assert (large, tiny) == (90, 5)
    assert len(ledger.events) == 1 + large + tiny
    assert ledger.spent.epsilon <= 1
    assert ledger.remaining is not None
    assert ledger.remaining.cost.gaussian < Cost.of_gaussian(1, small).gaussian  # nothing that fits was refused
    ledger.verify()
    assert [entry.seq for entry in ledger.entries] == list(range(1, len(ledger.entries) + 1))


def spend(ledger: Ledger, diary: int, reserve: bool) -> None:
    """Release until the budget is spent: one at a time, or under plans of two, of which one is made."""
    plan = Plan.gaussian(0.05, {"a": (1.0, 2)})
    with suppress(BudgetExceeded):
        while True:
            if reserve:
                with ledger.reserve(plan) as reserved:
                    reserved.release(COUNTS, 1, plan.noise("a", sensitivity=1), "a")
            else:
                ledger.release(COUNTS, 1, Gaussian(20.0), "a")
            os.write(diary, b"v")


def check(url: str, said: bytes) -> None:
    """Each draw, and each value that came back, has its record; what is spent is that of the records, or reserved."""
    ledger = Ledger(url)
    ledger.verify()
    recorded, drawn, returned = len(ledger.events), said.count(b"d"), said.count(b"v")
    assert returned <= drawn <= recorded
    assert ledger.spent.epsilon <= 1
    for reservation in ledger.open_reservations():
        ledger.close(reservation)
    ledger.verify()
    released = sum((event.cost for event in ledger.events), Cost())
    assert ledger.spent.cost.gaussian == pytest.approx(released.gaussian, rel=1e-9)


@pytest.mark.parametrize("reserve", [False, True])
def test_processes_that_are_killed_while_others_spend_the_rest(url: str, reserve: bool, tmp_path: Path) -> None:
    Ledger(url, epsilon=1, delta=1e-6)
    Ledger().release(COUNTS, 1, Gaussian(20.0), "imports, tables of the sampler")
    path, clock, killed = tmp_path / "diary", random.Random(1), 0
    diary = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def work() -> None:
        spend(Ledger(url, noise_source=Telltale(diary)), diary, reserve)

    workers = [forked(work) for _ in range(6)]
    for worker in workers[:4]:
        time.sleep(clock.uniform(0, 0.05))
        os.kill(worker, signal.SIGKILL)
    for worker in workers:
        killed += os.WIFSIGNALED(os.waitpid(worker, 0)[1])
    assert killed
    ledger = Ledger(url)
    assert len(ledger.events) - path.read_bytes().count(b"d") <= killed  # recorded by those who died before they drew
    assert len(ledger.open_reservations()) <= (killed if reserve else 0)
    check(url, path.read_bytes())
    work()  # with what the dead had reserved and not used, if anything
    check(url, path.read_bytes())
    os.close(diary)


@pytest.mark.parametrize("mixed", [False, True])
def test_the_last_plan_is_reserved_by_one_of_those_who_ask(url: str, mixed: bool) -> None:
    """Also if it fits only as the first one, because kinds of noise are mixed."""
    lines = (Planned("counts", Cost.of_mu(0.3)), Planned("bits", Cost.of(PureEvent(0.2)), 20))
    plan = Plan(lines if mixed else lines[:1])
    Ledger(url, epsilon=plan.cost.epsilon(1e-6) * 1.0001, delta=1e-6)
    read, write = os.pipe()

    def reserve() -> None:
        try:
            with Ledger(url).reserve(plan):
                os.write(write, b"y")
                time.sleep(0.5)  # while the others ask; then it is given back, or stays charged as a whole
        except BudgetExceeded:
            os.write(write, b"n")

    for worker in [forked(reserve) for _ in range(4)]:
        os.waitpid(worker, 0)
    said = os.read(read, 100)
    os.close(read)
    os.close(write)
    assert len(said) == 4
    # Who asks late, on a busy machine, may find that it was given back.
    assert said.count(b"y") == 1 if mixed else said.count(b"y")
    kinds = [entry.kind for entry in Ledger(url).entries]
    assert kinds == ["open", *["reserve", "close"] * said.count(b"y")]  # never two at once


def asked(url: str, query: str) -> int:
    """A number that PostgreSQL tells without a lock."""
    with sa.create_engine(url, poolclass=sa.NullPool).connect() as connection:
        return int(connection.execute(sa.text(query)).scalar_one())


ENTRIES = "select count(*) from discreet_ledger_entry"
DISCONNECT = (  # all others, as a server that is stopped does
    "select count(pg_terminate_backend(pid)) from pg_stat_activity "
    "where datname = current_database() and pid != pg_backend_pid()"
)


@pytest.mark.parametrize("trouble", ["killed", "disconnected"])
def test_in_postgresql_at_every_line(postgres_url: str, tmp_path: Path, trouble: str) -> None:
    """A process dies, or its connection does: at the first line of each phase, in the middle, and at the last."""
    path, plan = tmp_path / "diary", Plan.gaussian(0.1, {"a": (1.0, 3)})
    Ledger().release(COUNTS, 1, Gaussian(20.0), "imports, tables of the sampler")
    Ledger(postgres_url, epsilon=1, delta=1e-6)

    def releases() -> None:
        diary = os.open(path, os.O_WRONLY | os.O_APPEND)
        ledger = Ledger(postgres_url, noise_source=Telltale(diary))
        with suppress(LedgerUnavailable), ledger.reserve(plan) as reserved:
            reserved.release(COUNTS, 1, plan.noise("a", sensitivity=1), "a")
            os.write(diary, b"v")

    path.touch()
    states = dying.at_every_line(STEPS, releases, lambda: (asked(postgres_url, ENTRIES), path.read_bytes()))
    phases = dying.changes(states)
    assert len(phases) == 6  # the start; reserved; recorded; drawn; returned; closed
    ends = [*(line - 1 for line in phases[1:]), len(states) - 2]
    middles = [sum(pair) // 2 for pair in zip(phases, ends, strict=True)]
    for line in sorted({*phases, *middles, *ends} - {len(states) - 1}):
        before, at = asked(postgres_url, ENTRIES), path.read_bytes()
        if trouble == "killed":
            assert dying.killed(STEPS, releases, line)
        else:
            dying.killed(STEPS, releases, line, lambda: asked(postgres_url, DISCONNECT))
        said, kinds = path.read_bytes()[len(at) :], [entry.kind for entry in Ledger(postgres_url).entries[before:]]
        # One step behind another: recorded, then drawn, then returned.
        assert kinds.count("release") >= said.count(b"d") >= said.count(b"v")
        for reservation in Ledger(postgres_url).open_reservations():
            Ledger(postgres_url).close(reservation)
    check(postgres_url, path.read_bytes())
