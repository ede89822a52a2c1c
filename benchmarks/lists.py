"""Lists where there is hardly any taste to be found, or hardly anybody: no worse than private popularity?

    python benchmarks/lists.py [--cases dense few-items ...] [--epsilons 1 5 20] [--draws 8] [--folder data]

For each case and epsilon it prints the recall of `DPPopularity`, and that of `Recommender` and of `Recommender` for
lists alone over it, with the standard errors of these ratios over seeded draws of the noise. Generated data, and shared
ones if the folder ($DISCREET_DATA) has them; a fifth of each is held out at random, of "later" data the latest fifth.
Targets are liked items, of which the share among the first 20 of a list is measured (5 or 1 for tiny catalogs).
Delta 1e-5, defaults.
"""

import argparse
import os
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

import discreet
from discreet.testing import InsecureSeededNoise
from ranking import DELTA, Case, later, rated

Made = Callable[[], tuple[Case, int]]  # data, and how long lists are


def generated(n_users: int, n_items: int, n_ratings: int, n: int = 20) -> tuple[Case, int]:
    """Generated ratings: likes are those of at least 4."""
    ratings = discreet.datasets.movielens_like(n_users, n_items, n_ratings, random_state=0)
    train, _, test = discreet.splits.holdout(ratings, test=0.2, random_state=0)
    return Case(train, train, test, 4.0), n


def chosen(
    n_users: int, n_items: int, length: int, *, taste: float = 1.0, graded: bool = False, n: int = 20
) -> tuple[Case, int]:
    """Users choose popular items more often, and by a factor those of their own kind, of four.

    Graded, they rate them 1 to 5, whatever they are.
    """
    rng = np.random.default_rng(0)
    popularity, kinds = np.arange(1, n_items + 1) ** -0.8, rng.integers(4, size=n_items)
    rows = []
    for user in range(n_users):
        likely = popularity * np.where(kinds == user % 4, taste, 1.0)
        rows += [(user, int(item)) for item in np.argsort(-np.log(likely) - rng.gumbel(size=n_items))[:length]]
    if graded:
        rows = [(*row, float(rng.integers(1, 6))) for row in rows]
    data = discreet.read(rows, items=list(range(n_items)), **({"value_range": (1, 5)} if graded else {}))
    train, _, test = discreet.splits.holdout(data, test=0.2, random_state=0)
    return Case(train, train, test, 4.0 if graded else None), n


def cases(folder: Path) -> dict[str, Made]:
    """All data sets, by name."""
    return {
        "dense": partial(generated, 300, 50, 10_800),
        "dense, 5 places": partial(generated, 300, 50, 10_800, 5),
        "5 items": partial(generated, 500, 5, 1_500, 1),
        "short": partial(generated, 500, 100, 2_500),
        "100 people": partial(generated, 100, 1_000, 5_000),
        "dense, no tastes": partial(chosen, 300, 50, 36, graded=True, n=5),
        "short, no tastes": partial(chosen, 500, 500, 5, graded=True),
        "100 people, some tastes": partial(chosen, 100, 1_000, 30, taste=3.0, graded=True),
        "no tastes": partial(chosen, 1000, 300, 20, graded=True),
        "tastes of few": partial(chosen, 100, 200, 20, taste=6.0, graded=True),
        "scattered clicks": partial(chosen, 3_000, 40_000, 6, taste=3.0),
        "scattered ratings": partial(chosen, 1_000, 5_000, 8, taste=3.0, graded=True),
        "restaurant": lambda: (rated("restaurant", (0, 2), 2, folder), 20),
        "ml-100k": lambda: (rated("ml-100k", (1, 5), 4, folder), 20),
        "ml-100k-later": lambda: (later("ml-100k", (1, 5), 4, folder), 20),
        "movietweetings-later": lambda: (later("movietweetings-100k", (0, 10), 8, folder), 20),
    }


def recalls(case: Case, n: int, make: Callable[[], discreet.Recommender], draws: int) -> np.ndarray:
    """The recall of each draw."""
    found = []
    for seed in range(draws):
        model = make().fit(case.train, ledger=discreet.Ledger(delta=DELTA, noise_source=InsecureSeededNoise(seed)))
        name = f"recall@{n}"
        result = discreet.evaluate(
            model, case.test, history=case.history, metrics=[name], relevant=case.liked, confidence=None
        )
        found.append(result[name])
    return np.array(found)


def main() -> None:
    """Print the table."""
    every = cases(Path())
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", nargs="+", default=list(every), choices=list(every))
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0, 5.0, 20.0])
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--folder", type=Path, default=Path(os.environ.get("DISCREET_DATA", "data")))
    options = parser.parse_args()
    warnings.filterwarnings("ignore", "delta: ")
    print(f"{'':<22}{'epsilon':>8}{'popularity':>18}{'both':>16}{'lists alone':>16}")
    for name in options.cases:
        case, n = cases(options.folder)[name]()
        for epsilon in options.epsilons:
            budget = {"epsilon": epsilon, "delta": DELTA, "n_jobs": 1}
            popular = recalls(case, n, lambda budget=budget: discreet.DPPopularity(**budget), options.draws)
            line = f"{name:<22}{epsilon:>8g}{popular.mean():>10.4f} ({spread(popular):.4f})"
            for objective in ("both", "lists") if case.liked is not None else ("lists",):
                make = partial(discreet.Recommender, **budget, objective=objective)
                found = recalls(case, n, make, options.draws)
                error = np.hypot(spread(found), spread(popular)) / popular.mean()
                cell = f"{found.mean() / popular.mean():.3f} ({error:.3f})"
                line += f"{cell:>16}" if case.liked is not None else f"{'':>16}{cell:>16}"
            print(line, flush=True)


def spread(found: np.ndarray) -> float:
    """The standard error of a mean."""
    return float(found.std(ddof=1) / np.sqrt(len(found)))


if __name__ == "__main__":
    main()
