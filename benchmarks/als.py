"""One sweep of ALS (all users, then all items) against implicit's and cmfrec's, side by side in one run.

    python benchmarks/als.py [--ranks 32 128] [--rounds 3]

Each library that is installed fits the same generated data of MovieLens-10M's size for one step and for more; the
difference, divided by the number of steps between, is the time of a sweep without reading, copying and starting up. The
libraries take turns, and the smallest time of each counts: on a shared machine the rest measures what others do.
float32, no biases. "exact" solves each user's and item's system by Cholesky; "cg" makes three steps of conjugate
gradients. cmfrec's exact sweep at rank 128 takes a minute: `--libraries implicit` leaves it out.
"""

import argparse
import importlib.util
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as implicit asks for: it has threads of its own

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

import discreet

PENALTY = 5.0


def ours(data: discreet.Interactions, rank: int, solver: Any, threads: int, steps: int) -> None:
    """Fit our model; the transposed table is made once, before."""
    penalty: dict[str, Any] = {"regularization": PENALTY, "user_exponent": 0, "item_exponent": 0}
    discreet.ALS(rank, **penalty, biases=False, n_steps=steps, solver=solver, n_jobs=threads).fit(data)


def theirs_implicit(matrix: Any, rank: int, solver: str, threads: int, steps: int) -> None:
    """Fit implicit's."""
    import implicit.cpu.als

    settings: dict[str, Any] = {"regularization": 0.05, "num_threads": threads, "random_state": 0, "dtype": np.float32}
    model = implicit.cpu.als.AlternatingLeastSquares(
        factors=rank, iterations=steps, use_cg=solver == "cg", use_native=True, **settings
    )
    model.fit(matrix, show_progress=False)


def theirs_cmfrec(matrix: Any, rank: int, solver: str, threads: int, steps: int) -> None:
    """Fit cmfrec's."""
    import cmfrec

    settings: dict[str, Any] = {"user_bias": False, "item_bias": False, "use_float": True, "nthreads": threads}
    model = cmfrec.CMF(
        k=rank,
        niter=steps,
        use_cg=solver == "cg",
        finalize_chol=False,
        lambda_=PENALTY,
        verbose=False,
        precompute_for_predictions=False,
        **settings,
    )
    model.fit(matrix)


def sweeps(fits: Sequence[Callable[[int], None]], more: int, rounds: int) -> list[float]:
    """Seconds per sweep of each library: they take turns, and the smallest time of each counts."""
    times = np.array([[[_seconds(fit, steps) for steps in (1, 1 + more)] for fit in fits] for _ in range(rounds)])
    one, all_of_them = times.min(axis=0).T
    found: list[float] = ((all_of_them - one) / more).tolist()
    return found


def _seconds(fit: Callable[[int], None], steps: int) -> float:
    start = time.perf_counter()
    fit(steps)
    return time.perf_counter() - start


def main() -> None:
    """Print a table of seconds and ratios."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, nargs="+", default=[32, 128])
    parser.add_argument("--sweeps", type=int, default=3, help="between the two fits; fewer are quicker, and noisier")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--libraries", nargs="*", default=["implicit", "cmfrec"], help="to compare with")
    parser.add_argument("--solvers", nargs="+", default=["exact", "cg"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--users", type=int, default=69_878)
    parser.add_argument("--items", type=int, default=10_677)
    parser.add_argument("--ratings", type=int, default=10_000_000)
    options = parser.parse_args()
    data = discreet.datasets.movielens_like(options.users, options.items, options.ratings, random_state=0)
    data.by_item  # noqa: B018  # made when first asked for
    matrix = data.to_scipy()
    rows, triples = sp.csr_matrix(matrix), sp.coo_matrix(matrix)
    size = f"{len(data):,} ratings, {data.n_users:,} users, {data.n_items:,} items"
    print(f"{size}; seconds per sweep, {options.threads} threads")
    others = {"implicit": partial(theirs_implicit, rows), "cmfrec": partial(theirs_cmfrec, triples)}
    wanted = [name for name in others if name in options.libraries and importlib.util.find_spec(name)]
    headings = ("rank", "solver", "discreet", *wanted, *(f"{name}/ours" for name in wanted))
    print("".join(f"{heading:>14}" for heading in headings))
    for rank in options.ranks:
        for solver in options.solvers:
            each = [partial(ours, data), *(others[name] for name in wanted)]
            fits = [partial(fit, rank, solver, options.threads) for fit in each]
            own, *theirs = sweeps(fits, options.sweeps, options.rounds)
            figures = [own, *theirs, *(other / own for other in theirs)]
            seconds = "".join(f"{figure:>14.2f}" for figure in figures)
            print(f"{rank:>14}{solver:>14}{seconds}", flush=True)


if __name__ == "__main__":
    main()
