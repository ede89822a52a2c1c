"""How speed grows with the number of cores: ALS beside implicit's, batch recommending, whole private fits.

    python benchmarks/cores.py [--threads 1 2 4 8 16] [--out docs/results/cores.json]
    python benchmarks/cores.py --threads 1 16 --without-implicit --profile    and what is serial, see phases.py
    python benchmarks/cores.py --threads 16 --only-private --profile --ratings 100e6

Generated data of MovieLens-10M's size, the two libraries by turns in one run, the smallest time of each. "sweep" is one
step of ALS (all users, then all items), float32, without biases. "recommend" is the 20 best items of all users, what
they have seen left out: ours folds every user in from their history first, implicit's takes the vectors that it stores.
"fit" is a whole default fit at epsilon 1 (DPSVD: of the ratings from 4 up, as clicks), ledger and noise included.
"""

import argparse
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as implicit asks for: it has threads of its own

import json
import platform
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import discreet
from als import _seconds, ours, sweeps, theirs_implicit
from discreet.kernels import instruction_set
from phases import report

Row = dict[str, Any]
N = 20
SMALL = 3e7  # ratings, up to which there are several rounds


def best(work: Callable[[], Any], rounds: int) -> float:
    """The smallest of some times."""
    return min(_seconds(lambda _: work(), 0) for _ in range(rounds))


def als(data: Any, rows: Any, threads: int, rounds: int) -> list[Row]:
    """Seconds of a sweep, at two ranks and by two solvers; `rows` is None if ours alone is measured."""
    found = []
    for rank in (32, 128):
        for solver in ("exact", "cg"):
            fits = [partial(ours, data, rank, solver, threads), partial(theirs_implicit, rows, rank, solver, threads)]
            alone = rows is None or threads == 1  # implicit's takes minutes on one thread
            names = ("discreet", "implicit")[: 1 if alone else 2]
            seconds = sweeps(fits[: len(names)], 2, rounds)
            found.append({"what": f"sweep, rank {rank}, {solver}", **dict(zip(names, seconds, strict=True))})
    return found


def recommending(data: Any, rows: Any, threads: int, rounds: int) -> list[Row]:
    """Seconds of the best items for everyone."""
    found, users = [], np.arange(data.n_users)
    for rank in (32, 128):
        model = discreet.ALS(rank, biases=False, n_steps=1, n_jobs=threads).fit(data)
        own = best(partial(model.recommend, data, n=N), rounds)
        found.append({"what": f"recommend, rank {rank}", "discreet": own})
        if rows is None:
            continue
        import implicit.cpu.als

        other = implicit.cpu.als.AlternatingLeastSquares(factors=rank, num_threads=threads, random_state=0)
        other.item_factors, other.user_factors = model.item_factors_.copy(), np.ascontiguousarray(model.embed(data))
        found[-1]["implicit"] = best(
            partial(other.recommend, users, rows, N=N, filter_already_liked_items=True), rounds
        )
    return found


def whole_fits(data: Any) -> dict[str, Callable[[int], Any]]:
    """Whole private fits, by name, on so many threads."""
    clicks, budget = data.to_implicit(4), {"epsilon": 1.0, "delta": 1e-6}
    return {
        "fit, DPALS": lambda threads: discreet.DPALS(**budget, n_jobs=threads).fit(data),
        "fit, DPSVD": lambda threads: discreet.DPSVD(**budget, n_jobs=threads).fit(clicks),
    }


def profile(data: Any, threads: list[int], rounds: int, *, only_private: bool) -> None:
    """Print for each phase what runs on threads, and what is serial."""
    work = whole_fits(data)
    if not only_private:
        sweeps = {f"3 sweeps, rank 32, {solver}": solver for solver in ("exact", "cg")}
        work |= {name: partial(_three_sweeps, data, solver) for name, solver in sweeps.items()}
    for name, fit in work.items():
        report(name, fit, threads, rounds)


def _three_sweeps(data: Any, solver: str, threads: int) -> None:
    ours(data, 32, solver, threads, 3)


def main() -> None:
    """Print a table, and write it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--ratings", type=float, default=10e6)
    parser.add_argument("--only-private", action="store_true", help="whole private fits alone")
    parser.add_argument("--without-implicit", action="store_true", help="ours alone")
    parser.add_argument("--profile", action="store_true", help="what is serial at the first and the last --threads")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    n = int(options.ratings)
    data = discreet.datasets.movielens_like(int(n * 0.0069878), 10_677, n, random_state=0)
    if not options.only_private:
        data.by_item  # noqa: B018  # made when first asked for
    rows = None if options.without_implicit or options.only_private else data.to_scipy()
    fits = whole_fits(data)
    print(f"{len(data):,} ratings, {data.n_users:,} users, {data.n_items:,} items; {os.cpu_count()} cores")
    table: list[Row] = []
    for threads in options.threads:
        rounds = max(options.rounds, 3) if n <= SMALL else 1  # the first includes what is done once in a process
        found = [{"what": name, "discreet": best(partial(fit, threads), rounds)} for name, fit in fits.items()]
        if not options.only_private:
            found += als(data, rows, threads, options.rounds) + recommending(data, rows, threads, options.rounds)
        for row in found:
            table.append({"threads": threads, **row})
            one = next(other for other in table if other["what"] == row["what"])
            ratio = f"{row['implicit'] / row['discreet']:8.2f}x implicit's" if "implicit" in row else ""
            grown = f"{one['discreet'] / row['discreet']:8.2f}x of {one['threads']} thread(s)"
            print(f"{threads:3} threads  {row['what']:24}{row['discreet']:9.3f} s {grown} {ratio}", flush=True)
    if options.profile:
        ends = sorted({options.threads[0], options.threads[-1]})
        profile(data, ends, options.rounds if n <= SMALL else 1, only_private=options.only_private)
    if options.out is not None:
        machine = {"cores": os.cpu_count(), "machine": platform.machine(), "instruction_set": instruction_set()}
        versions = {"discreet": discreet.__version__, "numpy": np.__version__}
        versions |= {} if rows is None else {"implicit": version("implicit")}
        data_set = {"ratings": len(data), "users": data.n_users, "items": data.n_items}
        options.out.write_text(json.dumps({**machine, **versions, **data_set, "seconds": table}, indent=1) + "\n")


if __name__ == "__main__":
    main()
