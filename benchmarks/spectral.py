"""Private matrix completion by every method of the 2018 paper and its baselines, with defaults: test RMSE.

    python benchmarks/spectral.py [--draws 5] [--data jester synthetic] [--out docs/results/spectral.json]

Jester 1 (`discreet datasets fetch jester`), scaled to 0..5: 80/10/10 at random, seed 1234; a model is fitted to the
80%, and test users are folded in from the same 80%. Synthetic: the rank-one matrix of the paper, users x 400, 80
entries of each user, of which 1% are held out. Mean and standard deviation over noise draws. The constants of these
models were set by validation ratings of Jester 1, which is not charged; a few (how DPSVD, SVD and DPGradientDescent
scale what was rated to what was not) by the error on rank-one matrices with 20,000 users, the held-out 1% included.
"""

import argparse
import json
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import discreet

DELTA = 1e-6
DATA = {"jester": "Jester 1, scaled to 0..5", "synthetic": "rank one"}


def private(epsilon: float, centre: bool) -> dict[str, Callable[[], Any]]:
    """Every private method, as it is made. A rank-one matrix about zero has no users' means."""
    budget: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA}
    own = budget if centre else {**budget, "centre": False}
    return {
        "DPALS": lambda: discreet.DPALS(**budget),
        "DPCleansedSVD": lambda: discreet.DPCleansedSVD(**budget),
        "DPCleansedSVD, neighbours": lambda: discreet.DPCleansedSVD(**budget, predictor="knn"),
        "DPSVD": lambda: discreet.DPSVD(**own),
        "DPFrankWolfe": lambda: discreet.DPFrankWolfe(**own),
        "DPGradientDescent": lambda: discreet.DPGradientDescent(**own),
        "DPSGD": lambda: discreet.DPSGD(**budget),
        "DPSVD, as published": lambda: discreet.DPSVD.as_published(**own),
        "DPCleansedSVD, as published": lambda: discreet.DPCleansedSVD.as_published(**budget),
        "DPGradientDescent, as published": lambda: discreet.DPGradientDescent.as_published(**own),
    }


def exact(centre: bool) -> dict[str, Callable[[], Any]]:
    """Lines to compare with."""
    return {
        "each user's own mean": lambda: discreet.MeanRating("user"),
        "SVD, not private": lambda: discreet.SVD(centre=centre),
        "GradientDescent, not private": lambda: discreet.GradientDescent(centre=centre),
        "ALS, not private": discreet.ALS,
    }


def load(name: str, users: int) -> tuple[discreet.Interactions, discreet.Interactions]:
    """Train and test."""
    if name == "jester":
        ratings = discreet.datasets.jester(parts=(1,)).rescale(0, 5)
        train, _, test = discreet.splits.holdout(ratings, valid=0.1, test=0.1, random_state=1234)
    else:
        ratings = discreet.datasets.rank_one(users, 400, random_state=0)
        train, _, test = discreet.splits.holdout(ratings, valid=0.0, test=0.01, random_state=1234)
    return train, test


def measured(make: Callable[[], Any], draws: int, data: tuple[discreet.Interactions, Any]) -> dict[str, Any]:
    """Mean and standard deviation of the test RMSE, the true epsilon, and seconds per fit."""
    train, test = data
    errors, seconds, epsilon = [], 0.0, 0.0
    for _ in range(draws):
        start = time.perf_counter()
        model = make().fit(train)
        seconds += time.perf_counter() - start
        errors.append(float(np.sqrt(np.mean((model.predict(train, test) - test.values) ** 2))))
        epsilon = model.guarantee_.epsilon
    spread = float(np.std(errors, ddof=1)) if draws > 1 else 0.0
    true = round(epsilon, 4) if np.isfinite(epsilon) else None
    return {
        "rmse": [round(float(np.mean(errors)), 5), round(spread, 5)],
        "true epsilon": true,
        "seconds": round(seconds / draws, 2),
    }


def table(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Print and return the figures for one data set."""
    data, centre = load(name, options.users), name == "jester"
    title = DATA[name] if name == "jester" else f"{DATA[name]}, {options.users:,} x 400"
    asked = options.methods
    print(f"\n{title}, delta {DELTA:g}, {options.draws} draws")
    print(f"{'':<34}{'epsilon':>8}{'RMSE':>10}{'sd':>9}{'true epsilon':>14}{'seconds':>9}")
    found: list[dict[str, Any]] = []

    def line(method: str, epsilon: float | None, make: Callable[[], Any], draws: int) -> None:
        figures = measured(make, draws, data)
        found.append({"method": method, "epsilon": epsilon, **figures})
        mean, sd = figures["rmse"]
        says = "-" if epsilon is None else f"{epsilon:g}"
        true = "-" if figures["true epsilon"] is None else f"{figures['true epsilon']:.4g}"
        print(f"{method:<34}{says:>8}{mean:>10.4f}{sd:>9.4f}{true:>14}{figures['seconds']:>9.1f}", flush=True)

    for method, make in exact(centre).items():
        if not asked or method in asked:
            line(method, None, make, 1)
    for epsilon in options.epsilons:
        for method, make in private(epsilon, centre).items():
            if not asked or method in asked:
                line(method, epsilon, make, options.draws)
    words = [
        "--data",
        name,
        "--draws",
        str(options.draws),
        "--epsilons",
        *(f"{epsilon:g}" for epsilon in options.epsilons),
    ]
    words += [] if name == "jester" else ["--users", str(options.users)]
    command = shlex.join(["python", "benchmarks/spectral.py", *words, *(["--methods", *asked] if asked else [])])
    return {"data": title, "delta": DELTA, "draws": options.draws, "command": command, "results": found}


def main() -> None:
    """Print the tables, and write them if asked."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--data", nargs="+", default=list(DATA), choices=list(DATA))
    parser.add_argument("--users", type=int, default=500_000, help="of the synthetic data")
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0])
    parser.add_argument("--methods", nargs="+", help="some of the methods, by their names in the table")
    parser.add_argument("--out", type=Path, help="where to write; figures of other data stay there")
    options = parser.parse_args()
    before = (
        json.loads(options.out.read_text(encoding="utf-8"))["tables"] if options.out and options.out.exists() else []
    )
    known = {table["data"]: table for table in before}
    for name in options.data:
        made = table(name, options)
        known[made["data"]] = made
        if options.out:
            document = {"version": discreet.__version__, "tables": list(known.values())}
            options.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
