"""Private models of ratings against each user's own mean, on sparse and on dense data: test RMSE.

    python benchmarks/sparse.py [--data movietweetings anime] [--epsilons 1 20] [--draws 3] [--models DPSVD ...]
                                [--folder data] [--out docs/results/sparse.json]
    python benchmarks/sparse.py --models DPALS --data movietweetings anime jester-2 ml-100k restaurant generated
                                --epsilons .1 1 5 20 50 --out docs/results/sparse.json

Ratings are Parquet files with the columns user, item and rating, in the folder (by default $DISCREET_DATA). 10% of the
ratings are held out at random, and test users are folded in from the other 90%; small data are split in several ways,
one for each draw. Noise is seeded, one seed for each draw, so that two versions can be compared draw by draw. "own
mean" is the mean of a user's ratings with lambda more of the global mean, for the best lambda of a public list, chosen
by the test error itself. Three verdicts are printed: the largest RMSE over that of the own mean (at most 1.005), the
largest rise of the RMSE from one epsilon to a larger one (at most .5%), and at the largest epsilon the RMSE over that
of the means of users and items, which are not private (at most 1.01).
"""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import discreet
from discreet.testing import InsecureSeededNoise

DELTA = 1e-6
FOLDER = Path(os.environ.get("DISCREET_DATA", "data"))
SHRINKAGES = (0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0)
FILES = {
    "movietweetings": ("movietweetings-100k", (0, 10)),
    "anime": ("anime-5000users", (1, 10)),
    "ml-100k": ("ml-100k", (1, 5)),
    "ml-1m": ("ml-1m", (1, 5)),
    "jester-1": ("jester-1", (-1000, 1000)),
    "jester-2": ("jester-2-prefix", (-1000, 1000)),
    "restaurant": ("restaurant", (0, 2)),
    "generated": ("", (1, 5)),
}
SPLITS = {"restaurant": 30, "ml-100k": 3}  # 110 test ratings of one split do not tell
MODELS: dict[str, Any] = {
    "DPALS": discreet.DPALS,
    "DPSVD": discreet.DPSVD,
    "DPCleansedSVD": discreet.DPCleansedSVD,
    "DPFrankWolfe": discreet.DPFrankWolfe,
    "DPGradientDescent": discreet.DPGradientDescent,
    "DPSGD": discreet.DPSGD,
}


def ratings_of(name: str, folder: Path) -> discreet.Interactions:
    """A whole data set."""
    file, (low, high) = FILES[name]
    if name == "generated":
        return discreet.datasets.movielens_like(5_000, 1_000, 200_000, random_state=5)
    columns = {"user": "user", "item": "item", "value": "rating", "time": None}
    table = pq.read_table(folder / f"{file}.parquet", columns=["user", "item", "rating"])
    return discreet.read(table, items=np.unique(table["item"].to_numpy()), value_range=(low, high), **columns)


def load(name: str, folder: Path) -> list[tuple[discreet.Interactions, discreet.Interactions]]:
    """Train and test, for each split."""
    ratings, splits = ratings_of(name, folder), range(1234, 1234 + SPLITS.get(name, 1))
    found = (discreet.splits.holdout(ratings, valid=0.0, test=0.1, random_state=seed) for seed in splits)
    return [(train, test) for train, _, test in found]


def rmse(model: Any, train: discreet.Interactions, test: discreet.Interactions) -> float:
    """Root mean squared error over all test ratings."""
    return float(np.sqrt(np.mean((model.predict(train, test) - test.values) ** 2)))


def drawn(model: Any, seed: int, data: tuple[discreet.Interactions, discreet.Interactions]) -> float:
    """The error of a fit with one draw of the noise."""
    ledger = discreet.Ledger(delta=DELTA, noise_source=InsecureSeededNoise(seed))
    return rmse(model.fit(data[0], ledger=ledger), *data)


def measured(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Print and return the figures for one data set."""
    data = load(name, options.folder)
    draws = max(options.draws, len(data))
    own = min(np.mean([rmse(discreet.MeanRating("user", shrinkage=s).fit(d[0]), *d) for d in data]) for s in SHRINKAGES)
    means = np.mean([rmse(discreet.MeanRating("both").fit(d[0]), *d) for d in data])
    print(f"\n{name}: own mean {own:.4f}, means of users and items {means:.4f}")
    print(f"{'':<20}{'epsilon':>8}{'RMSE':>10}{'sd':>9}{'/ own':>9}{'seconds':>9}")
    found = []
    for model in options.models:
        for epsilon in options.epsilons:
            start = time.perf_counter()
            fits = [(MODELS[model](epsilon=epsilon, delta=DELTA), seed) for seed in range(draws)]
            errors = [drawn(*fit, data[fit[1] % len(data)]) for fit in fits]
            seconds = (time.perf_counter() - start) / draws
            mean, sd = float(np.mean(errors)), float(np.std(errors, ddof=min(1, draws - 1)))
            print(f"{model:<20}{epsilon:>8g}{mean:>10.4f}{sd:>9.4f}{mean / own:>9.4f}{seconds:>9.1f}", flush=True)
            listed = [round(error, 5) for error in errors]
            found.append({"model": model, "epsilon": epsilon, "rmse": [round(mean, 5), round(sd, 5)], "draws": listed})
        verdict([row["rmse"][0] for row in found if row["model"] == model], own, means)
    return {"data": name, "own mean": round(own, 5), "means of users and items": round(means, 5), "results": found}


def verdict(errors: list[float], own: float, means: float) -> None:
    """Print how far errors for growing epsilons are above what is free, above each other, and above means of both."""
    rise = max((later / error - 1 for at, error in enumerate(errors) for later in errors[at:]), default=0.0)
    print(
        f"  at most {max(errors) / own:.4f} of the own mean; rises by at most {rise:.2%}; "
        f"at the largest epsilon {errors[-1] / means:.4f} of the means of both",
        flush=True,
    )


def main() -> None:
    """Print the tables, and write them if asked."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", nargs="+", default=["movietweetings", "anime"], choices=list(FILES))
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0, 20.0])
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--out", type=Path, help="where to write; figures of other data and models stay there")
    options = parser.parse_args()
    for name in options.data:
        table = measured(name, options)
        if options.out:
            merge(options.out, table)


def merge(path: Path, table: dict[str, Any]) -> None:
    """Write a table; figures of other data and models stay in the file."""
    known = json.loads(path.read_text(encoding="utf-8"))["tables"] if path.exists() else []
    before = [row for one in known if one["data"] == table["data"] for row in one["results"]]
    new = {(row["model"], row["epsilon"]) for row in table["results"]}
    rows = table["results"] + [row for row in before if (row["model"], row["epsilon"]) not in new]
    table["results"] = sorted(rows, key=lambda row: (list(MODELS).index(row["model"]), row["epsilon"]))
    tables = [one for one in known if one["data"] != table["data"]] + [table]
    tables.sort(key=lambda one: list(FILES).index(one["data"]))
    document = {"version": discreet.__version__, "delta": DELTA, "tables": tables}
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
