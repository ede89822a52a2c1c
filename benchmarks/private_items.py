"""A private choice of items: how many are chosen, and the share of all interactions that are with them.

    python benchmarks/private_items.py [--data ml-1m anime] [--epsilons 0.1 1 5] [--share 0.25] [--draws 3]
                                       [--folder data] [--recall]

Tables are Parquet files with the columns user and item, in the folder (by default $DISCREET_DATA). The choice gets a
share of mu^2 and a fifth of delta = 1e-6, as it does in a fit. "two rounds" is `discreet.select_items`; "one round"
spends everything on one; "adaptive" is one round of MaximumAdaptiveDegree (Chen et al. 2025) for users of up to so many
items, with the discount for which docs/proofs/private-catalog.md has a bound. The last two are computed in float64, for
comparison only, and share their noise draw by draw: else the differences between them would be those of the noise.

With --recall, the recall@20 of `DPSVD` instead, for several shares of mu^2 and with the catalog public: of a tenth of
the interactions (ratings of at least 4 of 5, or 7 of 10), held out at random; those with items that were not chosen
count.
"""

import argparse
import math
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import discreet
from discreet.models import private_items
from discreet.models.private_items import DELTA_SHARE, _chosen, plan_of
from discreet.privacy.guarantee import account
from discreet.privacy.set_union import Threshold
from discreet.privacy.statistics import fine_grid

DELTA = 1e-6
FILES = {
    "ml-100k": "ml-100k",
    "ml-1m": "ml-1m",
    "anime": "anime-5000users",
    "movietweetings": "movietweetings-100k",
    "amazon-sports": "amazon-sports",
    "citeulike": "citeulike",
}


def load(name: str, folder: Path) -> discreet.Interactions:
    """All interactions, with private items."""
    table = pq.read_table(folder / f"{FILES[name]}.parquet", columns=["user", "item"])
    return discreet.read(table, user="user", item="item", value=None, time=None, items="private")


def two_rounds(table: discreet.Interactions, gaussian: int, delta: float, _: int) -> np.ndarray:
    """What the library does, with fresh noise: the numbers of the chosen items."""
    ledger = discreet.Ledger(delta=DELTA)
    try:
        plan = plan_of(gaussian, delta)
        chosen = _chosen(table, plan, ledger, delta=DELTA, adjacency="add-remove", n_jobs=-1)
    except discreet.errors.DataError:  # none
        return np.zeros(0, np.int64)
    return table.items.numbers(chosen.items.to_arrow())


def limited(table: discreet.Interactions, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Users and items of the interactions that count, and how many each user has."""
    d = np.diff(table.indptr)
    users, place = table.user_numbers(), np.arange(len(table)) - np.repeat(table.indptr[:-1], d)
    k, own = np.minimum(d, most)[users], d[users]
    kept = (place + 1) * k // own > place * k // own
    return users[kept], table.indices[kept].astype(np.int64), np.minimum(d, most)


def one_round(table: discreet.Interactions, gaussian: int, delta: float, draw: int, degree: int = 0) -> np.ndarray:
    """One round with equal weights; with a degree, with adaptive ones for users of up to so many items."""
    std, n, threshold = 1 / discreet.privacy.Cost(gaussian, 1).mu, table.n_items, Threshold(delta)  # type: ignore[operator]
    least = threshold.units(std, grid := fine_grid(std, 1.0)) * grid.step
    users, items, d = limited(table, threshold.most)
    weights = np.bincount(items, 1 / np.sqrt(d[users]), minlength=n)
    if degree:
        some = (d <= degree)[users]
        users, items = users[some], items[some]
        first = np.bincount(items, 1 / d[users], minlength=n)
        enough = least + 2 * std
        excess = np.maximum(0.0, 1 - enough / np.maximum(first, enough))
        returned = np.bincount(users, excess[items] / d[users], minlength=len(d))
        discount = 1 - 1 / (2 * math.sqrt(degree))
        weights += np.minimum(first, enough) - first
        weights += np.bincount(items, returned[users] * discount / degree, minlength=n)
    noise = np.random.default_rng(draw).normal(0, std, n)
    return np.flatnonzero((weights > 0) & (weights + noise >= least))


def recall(model: Any, train: discreet.Interactions, test: discreet.Interactions) -> float:
    """Hits among 20, divided by all that were possible."""
    known = test.of_users(np.flatnonzero(np.diff(test.indptr)))
    known = known.of_users(np.flatnonzero(train.users.numbers(known.users.to_arrow()) >= 0))
    lists = model.recommend(train.for_users(known.users.to_list()), n=20, on_unknown="ignore").to_frame("pandas")
    held_out = known.to_arrow().select(["user", "item"]).to_pandas()
    return len(lists.merge(held_out)) / int(np.minimum(np.diff(known.indptr), 20).sum())


def recalls(name: str, given: argparse.Namespace) -> None:
    """Print the recall of a model for several shares of its budget."""
    table = pq.read_table(given.folder / f"{FILES[name]}.parquet", columns=["user", "item", "rating"])
    columns = {"user": "user", "item": "item", "value": "rating", "time": None}
    public = discreet.read(table, items=discreet.observed_items_are_public, value_range=(0, 10), **columns)
    liked = public.to_implicit(4 if name.startswith("ml") else 7)
    train, _, test = discreet.splits.holdout(liked, valid=0.0, test=0.1, random_state=1)
    for epsilon in given.epsilons:
        for share in (None, 0.1, 0.25, 0.5, 0.7):
            private_items.SHARE = share or 0.0
            data, found = train if share is None else train.with_public(items="private"), []
            for _ in range(given.draws):
                model = discreet.DPSVD(epsilon=epsilon, delta=DELTA).fit(data)
                found.append((recall(model, train, test), len(model.items_)))
            (mean, items), (spread, _) = np.mean(found, axis=0), np.std(found, axis=0)
            way = "public catalog" if share is None else f"share {share:g}"
            print(f"  epsilon {epsilon:<4g} {way:<15} items {items:7.1f}   recall@20 {mean:.4f} +- {spread:.4f}")


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=list(FILES), choices=list(FILES))
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 1.0, 5.0])
    parser.add_argument("--share", type=float, default=0.25)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path(os.environ.get("DISCREET_DATA", "data")))
    parser.add_argument("--recall", action="store_true")
    given = parser.parse_args()
    ways: dict[str, Callable[..., Any]] = {"two rounds": two_rounds, "one round": one_round}
    ways |= {f"adaptive {degree}": partial(one_round, degree=degree) for degree in (16, 64, 256)}
    for name in given.data:
        if given.recall:
            print(name)
            recalls(name, given)
            continue
        table = load(name, given.folder)
        print(f"{name}: {table.n_users:,} users, {table.n_items:,} items, {len(table):,} interactions")
        for epsilon in given.epsilons:
            exposed = DELTA * DELTA_SHARE
            gaussian = math.floor(account(epsilon=epsilon, delta=DELTA - exposed).cost.gaussian * given.share)
            for way, choose in ways.items():
                found = [choose(table, gaussian, exposed, draw) for draw in range(given.draws)]
                items, covered = [len(one) for one in found], [np.isin(table.indices, one).mean() for one in found]
                print(
                    f"  epsilon {epsilon:<4g} {way:<12} items {np.mean(items):7.1f} +- {np.std(items):5.1f}"
                    f"   interactions {np.mean(covered):6.1%} +- {np.std(covered):.1%}"
                )


if __name__ == "__main__":
    main()
