"""What an honest client gets from `discreet serve` while others attack it, and the server's memory."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.serve import ATTACKS, TOGETHER, attacked, served, trained

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the memory of another process is read from /proc"),
]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, list[int]]]:
    folder = str(tmp_path_factory.mktemp("attacked") / "model")
    items = trained(folder)
    with served(folder, Path(__file__).parents[2] / "src") as server:
        yield server, items


@pytest.mark.parametrize("attacks", [*([attack] for attack in ATTACKS), TOGETHER], ids=" ".join)
def test_an_honest_client_is_served(running: tuple[Any, list[int]], attacks: list[str]) -> None:
    found = attacked(*running, attacks, 5.0)
    sys.stdout.write(f"\n{' and '.join(attacks)}: {found}\n")
    assert found.errors == 0
    assert found.p99 < (5.0 if attacks == TOGETHER or "5,000" in attacks[0] else 1.0)  # those take all of the machine
    assert found.memory < 500
