"""What a ledger's length costs: a release on a ledger of 10,000 entries, side by side with one on a ledger of none.

usage: python benchmarks/ledger.py [--entries 10000]
"""

import argparse
import tempfile
import time
from statistics import median

from discreet import Gaussian, Ledger
from discreet.privacy import Cost

ROUNDS = 100


def seconds(ledger: Ledger) -> float:
    """One release, with its record on disk."""
    started = time.perf_counter()
    ledger.release([5, 3, 0], 1, Gaussian(1000.0), "x")
    return time.perf_counter() - started


def main() -> None:
    """Print the ratio, and how long it takes to open the long one and check all of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--entries", type=int, default=10_000)
    entries = parser.parse_args().entries
    with tempfile.TemporaryDirectory() as folder:
        short, long = (Ledger(f"sqlite:///{folder}/{name}.db", epsilon=1, delta=1e-6) for name in ("short", "long"))
        with long._store.transaction() as transaction:  # in one go: it is reading them that is measured
            for _ in range(entries):
                transaction.append("charge", {"label": "x", "cost": Cost.of_mu(1e-4).to_json(), "secure": True})
        started = time.perf_counter()
        long = Ledger(f"sqlite:///{folder}/long.db")
        opened = time.perf_counter() - started
        times = [(seconds(short), seconds(long)) for _ in range(ROUNDS)]
    on_short, on_long = (median(of_one) for of_one in zip(*times, strict=True))
    print(f"opening a ledger of {entries} entries: {opened:.2f} s")
    print(f"a release: {on_long * 1e3:.2f} ms, {on_long / on_short:.2f} times that on a ledger of none")


if __name__ == "__main__":
    main()
