"""New items: how well DPSVD ranks items that nobody has chosen yet, by their features.

    python benchmarks/new_items.py [--epsilons 1 5 10] [--draws 3] [--folder data]

MovieLens 1M, ratings of at least 4; Parquet files in the folder (by default $DISCREET_DATA). All that users chose of a
random tenth of the films is held out. The films stay in the catalog, with their genres and year. Lists have only these
films; recall@20 of those that a user chose, divided by at most 20. Delta 1e-5; mean and standard deviation over seeded
draws of the noise, a new tenth for each. Also how good lists of all films are, with and without features.
"""

import argparse
import os
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import discreet
from discreet.testing import InsecureSeededNoise

DELTA, LIST = 1e-5, 20
FEATURES = ["genres", "year"]


def load(folder: Path) -> discreet.Interactions:
    """Films that were liked, with a catalog that has genres and years."""
    ratings, items = (pq.read_table(folder / f"ml-1m{part}.parquet") for part in ("", "-items"))
    years = [int(title.rstrip()[-5:-1]) for title in items["title"].to_pylist()]
    catalog = discreet.Catalogue(items["item"], pa.table({"genres": items["genres"], "year": years}))
    columns = {"user": "user", "item": "item", "value": "rating", "time": None}
    return discreet.read(ratings, items=catalog, value_range=(1, 5), **columns).to_implicit(4)


def recall(lists: Any, target: discreet.Interactions) -> float:
    """The mean over users who have anything to find."""
    found = []
    for user, numbers in enumerate(lists):
        items = target.indices[target.indptr[user] : target.indptr[user + 1]]
        if len(items):
            found.append(np.isin(numbers, items).sum() / min(LIST, len(items)))
    return float(np.mean(found))


def draw(liked: discreet.Interactions, epsilon: float, seed: int) -> dict[str, float]:
    """Recall of one split and one draw of the noise."""
    new = np.random.default_rng(seed).random(liked.n_items) < 0.1
    found = {}
    old, target = liked.where(~new[liked.indices]), liked.where(new[liked.indices])
    counts = np.where(new, np.bincount(target.indices, minlength=liked.n_items), -1)
    best = np.argsort(-counts)[:LIST]
    found["the most popular (not known)"] = recall([best] * liked.n_users, target)
    found["at random"] = recall([np.flatnonzero(new)[:LIST]] * liked.n_users, target)
    for name, features in (("without features", None), ("with features", FEATURES)):
        ledger = discreet.Ledger(epsilon=epsilon, delta=DELTA, noise_source=InsecureSeededNoise(seed))
        model = discreet.DPSVD(epsilon=epsilon, delta=DELTA, features=features).fit(old, ledger=ledger)
        allowed = [liked.items[int(number)] for number in np.flatnonzero(new)]
        found[name] = recall(model.recommend(old, n=LIST, allow=allowed).numbers.reshape(-1, LIST), target)
    return found


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0, 5.0, 10.0])
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path(os.environ.get("DISCREET_DATA", "data")))
    options = parser.parse_args()
    liked = load(options.folder)
    for epsilon in options.epsilons:
        draws = [draw(liked, epsilon, seed) for seed in range(options.draws)]
        for name in draws[0]:
            values = [one[name] for one in draws]
            print(f"epsilon {epsilon:<5g}{name:<30}{statistics.mean(values):.4f} ({statistics.stdev(values):.4f})")
    split = discreet.splits.held_out_users(liked, valid=600, test=600, random_state=98765)
    for epsilon in options.epsilons:
        for features in (None, FEATURES):
            values = []
            for seed in range(options.draws):
                ledger = discreet.Ledger(epsilon=epsilon, delta=DELTA, noise_source=InsecureSeededNoise(seed))
                model = discreet.DPSVD(epsilon=epsilon, delta=DELTA, features=features).fit(split.train, ledger=ledger)
                test = split.test
                said = discreet.evaluate(model, test.target, history=test.query, metrics=["recall@20"])
                values.append(float(said["recall@20"]))
            name = f"all films, {'with' if features else 'without'} features"
            print(f"epsilon {epsilon:<5g}{name:<30}{statistics.mean(values):.4f} ({statistics.stdev(values):.4f})")


if __name__ == "__main__":
    main()
