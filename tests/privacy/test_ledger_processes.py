"""No overspending: eight processes hammer one ledger and together spend all of its budget and not a bit more."""

import multiprocessing
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from discreet import Gaussian, Ledger, account
from discreet.errors import BudgetExceeded
from discreet.privacy import Cost, SystemNoise
from tests import fresh

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
