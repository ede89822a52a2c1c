"""Private Frank-Wolfe: how fast it is, and how time and memory grow.

    python benchmarks/frank_wolfe.py --parts speed growth large solvers [--out docs/results/frank-wolfe.json]

Figure 2 of the paper is `discreet reproduce frank-wolfe-fig2a` (to 2e). Delta 1e-6, add-remove. The parts:

    speed      one step on 500,000 x 400 with 80 ratings per user, against A^T A of the same table by scipy.sparse, by
               turns, the smallest time of each; and the highest memory of a fit above the data, in multiples of it
    growth     seconds of the processor for steps, dense and by Oja's method (4 products), against the numbers of users,
               items, ratings and steps, and the power of each that they grow with
    large      a fit on 1,000,000 users and 20,000 items by Oja's method: seconds, and the highest memory of the process
    solvers    test RMSE on the matrices of Figure 2a, another one in each turn, with one direction and with two: from
               the dense covariance and by Oja's method. (With more there is little left to compare but rounding.)
"""

import argparse
import json
import resource
import time
import tracemalloc
from collections.abc import Callable
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import discreet
from discreet.data.catalogue import Catalogue, Ids
from discreet.data.synthetic import made_table
from discreet.papers.frank_wolfe import rank_one
from discreet.papers.reproduction import Options
from discreet.privacy import Releaser
from discreet.testing import InsecureSeededNoise

DELTA = 1e-6
LARGE = (500_000, 400, 80)  # users, items, ratings per user
Found = dict[str, Any]


def ledger(seed: int) -> discreet.Ledger:
    """A ledger without a limit, whose noise can be repeated."""
    return discreet.Ledger(delta=DELTA, noise_source=InsecureSeededNoise(seed))


@cache
def made(users: int, items: int, per_user: int) -> discreet.Interactions:
    """Rank-one data."""
    return discreet.datasets.rank_one(users, items, per_user=per_user)


def timed(work: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds by a clock."""
    start = clock()
    work()
    return clock() - start


def steps(ratings: discreet.Interactions, n_steps: int, clock: Callable[[], float], **params: Any) -> float:
    """Seconds of steps: the global component, and everyone's local update."""
    model = discreet.DPFrankWolfe(epsilon=1, delta=DELTA, n_steps=n_steps, centre=False, **params)

    def work() -> None:
        with ledger(0).reserve(model.plan(ratings.n_items)) as reservation:
            model._learn_privately(Releaser(reservation, "add-remove", -1), ratings)

    return timed(work, clock)


def speed(turns: int) -> Found:
    """One step against scipy.sparse, and memory."""
    ratings = made(*LARGE)
    shape = (ratings.n_users, ratings.n_items)
    table = sp.csr_array((ratings.values.astype(np.float64), ratings.indices.astype(np.int32), ratings.indptr), shape)
    times: dict[str, list[float]] = {"scipy.sparse A^T A": [], "step": [], "step by Oja's method": []}
    for _ in range(turns):
        times["scipy.sparse A^T A"].append(timed(partial(table.T.__matmul__, table)))
        times["step"].append(steps(ratings, 1, time.perf_counter))
        times["step by Oja's method"].append(steps(ratings, 1, time.perf_counter, eigensolver="oja"))
    del table
    found: Found = {f"{name}, s": round(min(seconds), 2) for name, seconds in times.items()}
    found["step / scipy.sparse"] = round(min(times["step"]) / min(times["scipy.sparse A^T A"]), 2)
    data = ratings.indptr.nbytes + ratings.indices.nbytes + ratings.values.nbytes
    found["data, MB"] = round(data / 1e6)
    for solver in ("dense", "oja"):
        tracemalloc.start()
        fit_params: Any = {"n_steps": 2, "oja_steps": 2, "eigensolver": solver, "centre": False}
        discreet.DPFrankWolfe(epsilon=1, delta=DELTA, **fit_params).fit(ratings, ledger=ledger(0))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        found[f"highest memory above the data, {solver}, in multiples of it"] = round(peak / data, 2)
    return found


def power(sizes: list[int], seconds: list[float]) -> float:
    """The exponent of a power law through some points."""
    return round(float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0]), 2)


def growth(turns: int) -> Found:
    """Seconds of the processor, of all threads together, against each thing that they grow with, and the power."""
    start = {"users": 50_000, "items": 400, "ratings each": 40, "steps": 2}
    series = {
        "users": (50_000, 100_000, 200_000),
        "ratings each": (40, 80, 160),
        "items": (400, 800, 1600),
        "steps": (2, 4, 8),
    }
    solvers: dict[str, Any] = {"dense": {}, "oja, 4 products": {"eigensolver": "oja", "oja_steps": 4}}
    found: Found = {"start": start}
    for name, sizes in series.items():
        rows: Found = {solver: {} for solver in solvers}
        for size in sizes:
            at = {**start, name: size}
            ratings = discreet.datasets.rank_one(at["users"], at["items"], per_user=at["ratings each"])
            for solver, params in solvers.items():
                seconds = [steps(ratings, at["steps"], time.process_time, **params) for _ in range(turns)]
                rows[solver][f"{size:,}"] = round(min(seconds), 2)
        for solver in solvers:
            rows[solver]["power"] = power(list(sizes), list(rows[solver].values()))
        found[name] = show(f"growth with {name}", rows)
    return found


def spread(users: int, items: int, per_user: int) -> discreet.Interactions:
    """Rank-one data with many items: each user has one at random of every so many in a row, which takes no time."""
    rng = np.random.default_rng(0)
    width = items // per_user
    chosen = (np.arange(per_user) * width + rng.integers(0, width, (users, per_user))).ravel()
    owners = np.repeat(np.arange(users), per_user)
    left, right = rng.uniform(-1, 1, users), rng.uniform(-1, 1, items)
    catalogue = Catalogue(Ids(np.arange(items)), origin="all those generated")
    return made_table(catalogue, np.arange(users), (owners, chosen, left[owners] * right[chosen]), (-1.0, 1.0))


def large(turns: int) -> Found:
    """A million users, 20,000 items, once."""
    ratings = spread(1_000_000, 20_000, 20)
    data = ratings.indptr.nbytes + ratings.indices.nbytes + ratings.values.nbytes
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    model = discreet.DPFrankWolfe(epsilon=1, delta=DELTA, centre=False, ratings_per_user=20, n_steps=1)
    seconds = timed(lambda: model.fit(ratings, ledger=ledger(0)))
    return {
        "users, items, ratings": [ratings.n_users, ratings.n_items, len(ratings)],
        "steps, products": [1, model.oja_steps],
        "seconds": round(seconds, 1),
        "data, MB": round(data / 1e6),
        "highest memory of the process, MB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6),
        "before the fit, having made the data, MB": round(before / 1e6),
        "items x items would be, MB": round(8 * ratings.n_items**2 / 1e6),
    }


def solvers(turns: int) -> Found:
    """How good directions are that the two eigensolvers find."""
    errors: dict[tuple[float, int, str], list[float]] = {}
    for turn in range(turns):
        data = rank_one(Options(), turn).parts
        for epsilon, n_steps, solver in product((1.0, 5.0), (1, 2), ("dense", "oja")):
            params: dict[str, Any] = {"centre": False, "n_steps": n_steps, "eigensolver": solver}
            model = discreet.DPFrankWolfe(epsilon=epsilon, delta=DELTA, **params).fit(data.train)
            left = model.predict(data.history, data.test) - data.test.values
            errors.setdefault((epsilon, n_steps, solver), []).append(float(np.sqrt(np.mean(left**2))))
    found: Found = {"turns": turns}
    for epsilon, n_steps in product((1.0, 5.0), (1, 2)):
        dense, oja = (float(f"{np.mean(errors[epsilon, n_steps, solver]):.4g}") for solver in ("dense", "oja"))
        found[f"epsilon {epsilon:g}, directions {n_steps}"] = {
            "dense": dense,
            "oja": oja,
            "ratio": round(oja / dense, 4),
        }
    return found


def show(name: str, found: Found) -> Found:
    """Print it and pass it on."""
    print(f"{name:<48} " + "  ".join(f"{key} {value}" for key, value in found.items()), flush=True)
    return found


PARTS: dict[str, Callable[[int], Found]] = {"speed": speed, "growth": growth, "large": large, "solvers": solvers}


def main() -> None:
    """Print the parts, and write them if asked."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--turns", type=int, default=2, help="how often each time is measured")
    parser.add_argument("--out", type=Path, help="where to write; other parts stay there")
    options = parser.parse_args()
    document: Found = {"version": discreet.__version__, "delta": DELTA, "parts": {}}
    if options.out is not None and options.out.exists():
        document |= json.loads(options.out.read_text(encoding="utf-8"))
    for part in options.parts:
        command = f"python benchmarks/frank_wolfe.py --parts {part} --turns {options.turns}"
        document["parts"][part] = show(part, {"command": command, **PARTS[part](options.turns)})
        if options.out is not None:
            document["version"] = discreet.__version__
            options.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
