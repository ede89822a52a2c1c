"""How good DPSVD is on implicit feedback: recall at several epsilons, beside popularity and non-private ALS.

    python benchmarks/dpsvd.py                  prints the table; needs MovieLens 1M: `discreet datasets fetch 1m`
    python benchmarks/dpsvd.py --explore        also what exploring costs
    python benchmarks/dpsvd.py --save           also writes docs/results/implicit.json
    python benchmarks/dpsvd.py --speed          only how long fits of 10 million interactions take, on two threads,
                                                beside implicit's ALS with 15 iterations, if it is installed

Ratings of at least 4 in MovieLens 1M, users with at least 5 of them; 600 validation and 600 test users held out whole,
20% of whose items are to be found among the 20 best (recall divided by at most 20). Delta 1e-5, add-remove, defaults;
mean and standard deviation over noise seeds 0 to 4. The exact figures of test users are for research only: they are
not covered by any epsilon.
"""

import argparse
import importlib.util
import json
import resource
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_matrix

import discreet
import discreet.kernels
from discreet.testing import InsecureSeededNoise

EPSILONS, SEEDS, DELTA = (1, 5, 10, 20), range(5), 1e-5
METRICS = ["recall@20", "recall@50", "ndcg@100"]
COMMAND = "python benchmarks/dpsvd.py --explore --save"
RESULTS = Path(__file__).parent.parent / "docs" / "results" / "implicit.json"


def measured(model: Any, part: Any) -> list[float]:
    """The metrics of a fitted model on held-out users."""
    found = discreet.evaluate(model, part.target, history=part.query, metrics=METRICS)
    return [float(found[name]) for name in METRICS]


def outside(model: discreet.DPSVD, part: Any) -> tuple[float, int]:
    """The share of items outside J in lists of 20, and how many different items there are in all lists."""
    numbers = model.recommend(part.query, n=20).numbers
    return float((model.history_weights_[numbers] == 0).mean()), len(np.unique(numbers))


def private(split: Any, epsilon: float, **params: Any) -> dict[str, Any]:
    """Means and deviations over noise seeds, of test users and, where it is named so, of validation users."""
    test, valid, seen, seconds = [], [], [], []
    for seed in SEEDS:
        ledger = discreet.Ledger(epsilon=epsilon, delta=DELTA, noise_source=InsecureSeededNoise(seed))
        start = time.perf_counter()
        model = discreet.DPSVD(epsilon=epsilon, delta=DELTA, **params).fit(split.train, ledger=ledger)
        seconds.append(time.perf_counter() - start)
        test.append(measured(model, split.test))
        valid.append(measured(model, split.valid)[0])
        seen.append(outside(model, split.test))
    columns = list(zip(*test, strict=True))
    return {
        **{name: round(statistics.mean(column), 4) for name, column in zip(METRICS, columns, strict=True)},
        **{f"{name} sd": round(statistics.stdev(column), 4) for name, column in zip(METRICS, columns, strict=True)},
        "validation recall@20": round(statistics.mean(valid), 4),
        "items looked at": int(np.count_nonzero(model.history_weights_)),
        "directions": model.item_factors_.shape[1] - 1 - model.exploration_.shape[1],
        "share outside J": round(statistics.mean(share for share, _ in seen), 4),
        "different items": round(statistics.mean(count for _, count in seen)),
        "fit seconds": round(statistics.median(seconds), 1),
    }


def line(name: str, row: dict[str, Any]) -> str:
    """One line of the table."""
    cells = [f"{row[key]:.4f}" + (f" ({row[f'{key} sd']:.4f})" if f"{key} sd" in row else "") for key in METRICS]
    rest = [str(row.get(key, "")) for key in ("items looked at", "directions", "share outside J", "different items")]
    return f"{name:<22}" + "".join(f"{cell:>17}" for cell in cells) + "".join(f"{cell:>11}" for cell in rest)


def generated(n_users: int, n_items: int, each: int) -> discreet.Interactions:
    """Generated choices: a user is of one of 200 kinds, as are most of their items; few items are popular."""
    rng = np.random.default_rng(0)
    odds = (np.arange(1, n_items + 1) + 50.0) ** -0.8
    ends = np.cumsum(odds / odds.sum())
    items = np.searchsorted(ends, rng.random((n_users, each))).clip(max=n_items - 1)
    kinds = rng.integers(0, 200, (n_users, 1))
    own = (items // 200 * 200 + kinds).clip(max=n_items - 1)
    items = np.where(rng.random((n_users, each)) < 0.6, own, items)
    users = np.repeat(np.arange(n_users), each)
    table = pa.table({"user": users, "item": items.ravel()})
    return discreet.read(table, items=pa.array(np.arange(n_items)))


def speed() -> None:
    """Print how long fits take, and the most memory of the process so far."""
    shapes = {"dense": (70_000, 10_000, 150), "sparse": (600_000, 200_000, 17), "many": (300_000, 1_000_000, 17)}
    for name, shape in shapes.items():
        data = generated(*shape)
        seconds = {}
        for epsilon in (1, 5, 10):
            start = time.perf_counter()
            discreet.DPSVD(epsilon=epsilon, delta=1e-7, n_jobs=2).fit(data)
            seconds[f"DPSVD, epsilon {epsilon}"] = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        if importlib.util.find_spec("implicit"):
            from implicit.als import AlternatingLeastSquares

            matrix = csr_matrix((data.values, data.indices.astype(np.int32), data.indptr))
            start = time.perf_counter()
            with discreet.parallel.single_threaded_blas():
                AlternatingLeastSquares(factors=100, iterations=15, num_threads=2).fit(matrix, show_progress=False)
            seconds["implicit's ALS"] = time.perf_counter() - start
        found = ", ".join(f"{key} {value:.1f} s" for key, value in seconds.items())
        print(f"{name}: {len(data):,} of {data.n_users:,} users and {data.n_items:,} items: {found}; {peak:.1f} GiB")


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--explore", action="store_true")
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    if options.speed:
        speed()
        return
    liked = discreet.datasets.movielens("1m").to_implicit(4)
    split = discreet.splits.held_out_users(liked, valid=600, test=600, random_state=98765)
    heads = (*METRICS, "items", "directions", "outside J", "different")
    print(f"{'ML-1M, test users':<22}" + "".join(f"{h:>{17 if h in METRICS else 11}}" for h in heads))
    rows: dict[str, dict[str, Any]] = {}

    def show(name: str, row: dict[str, Any]) -> None:
        rows[name] = row
        print(line(name, row), flush=True)

    for name, plain in {"popularity": discreet.Popularity(), "ALS, not private": discreet.ALS()}.items():
        show(name, dict(zip(METRICS, (round(x, 4) for x in measured(plain.fit(split.train), split.test)), strict=True)))
    for epsilon in EPSILONS:
        show(f"DPSVD, epsilon {epsilon}", private(split, epsilon))
    for epsilon in EPSILONS if options.explore else ():
        show(f"  exploring 5%, eps {epsilon}", private(split, epsilon, explore=0.05))
    if options.save:
        document = {"version": discreet.__version__, "command": COMMAND, "delta": DELTA, "figures": rows}
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
