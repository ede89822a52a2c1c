"""DPSVD on implicit feedback, dense and sparse: recall and coverage at several epsilons, beside popularity.

    python benchmarks/implicit_sparse.py [--data ml-1m citeulike amazon-sports] [--epsilons 1 5 10] [--draws 3]
                                         [--folder data] [--out figures.json]

Data are Parquet files in the folder (by default $DISCREET_DATA). MovieLens 1M: ratings of at least 4, and 600
validation and 600 test users held out whole, 20% of whose items are to be found. The others come with their own split
of each user's items: the model is fitted to the part "train", and finds "test" from "train". Recall is divided by at
most 20. Delta 1e-5, add-remove, defaults; mean and standard deviation over seeded draws of the noise.
"""

import argparse
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

import discreet
from discreet.testing import InsecureSeededNoise

DELTA = 1e-5
METRIC = "recall@20"


def load(name: str, folder: Path) -> tuple[discreet.Interactions, discreet.Interactions, discreet.Interactions]:
    """What to fit to, test users' histories, and what is to be found."""
    table = pq.read_table(folder / f"{name}.parquet")
    items = np.unique(table["item"].to_numpy())
    columns = {"user": "user", "item": "item", "time": None}
    if name == "ml-1m":
        ratings = discreet.read(table, items=items, value="rating", value_range=(1, 5), **columns)
        split = discreet.splits.held_out_users(ratings.to_implicit(4), valid=600, test=600, random_state=98765)
        return split.train, split.test.query, split.test.target
    train, test = (
        discreet.read(table.filter(pc.equal(table["part"], part)).select(["user", "item"]), items=items, **columns)
        for part in ("train", "test")
    )
    return train, train, test


def measured(model: Any, history: discreet.Interactions, target: discreet.Interactions) -> tuple[float, int]:
    """Recall, and how many different items are in the lists."""
    found = discreet.evaluate(model, target, history=history, metrics=[METRIC])
    lists = model.recommend(history, n=20).numbers
    return float(found[METRIC]), len(np.unique(lists))


def figures(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Print and return the figures for one data set."""
    train, history, target = load(name, options.folder)
    popular, shown = measured(discreet.Popularity().fit(train), history, target)
    print(f"\n{name}: popularity {popular:.4f}, {shown} different items", flush=True)
    print(f"{'epsilon':>8}{METRIC:>12}{'sd':>9}{'/ popular':>11}{'different':>11}{'items':>8}{'seconds':>9}")
    rows = []
    for epsilon in options.epsilons:
        draws, start = [], time.perf_counter()
        for seed in range(options.draws):
            ledger = discreet.Ledger(epsilon=epsilon, delta=DELTA, noise_source=InsecureSeededNoise(seed))
            model = discreet.DPSVD(epsilon=epsilon, delta=DELTA).fit(train, ledger=ledger)
            draws.append(measured(model, history, target))
        recalls = [recall for recall, _ in draws]
        row = {
            "epsilon": epsilon,
            METRIC: round(statistics.mean(recalls), 4),
            "sd": round(statistics.stdev(recalls), 4) if len(recalls) > 1 else None,
            "over popularity": round(statistics.mean(recalls) / popular, 3),
            "different items": round(statistics.mean(count for _, count in draws)),
            "items with directions": int(np.count_nonzero(model.history_weights_)),
            "seconds": round((time.perf_counter() - start) / options.draws, 1),
        }
        rows.append(row)
        widths = (8, 12, 9, 11, 11, 8, 9)
        print("".join(f"{cell!s:>{width}}" for cell, width in zip(row.values(), widths, strict=True)), flush=True)
    return {"popularity": round(popular, 4), "DPSVD": rows}


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", nargs="+", default=["ml-1m", "citeulike", "amazon-sports"])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0, 5.0, 10.0])
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path(os.environ.get("DISCREET_DATA", "data")))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = {name: figures(name, options) for name in options.data}
    if options.out:
        document = {"version": discreet.__version__, "delta": DELTA, "draws": options.draws, "figures": found}
        options.out.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
