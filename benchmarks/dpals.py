"""How good DPALS is on public data, with defaults: test RMSE, mean and standard deviation over noise draws.

    python benchmarks/dpals.py [--draws 5] [--out docs/results/dpals.json]

Needs MovieLens 1M and Jester 1 (`discreet datasets fetch 1m`, `... jester`). 80/10/10 at random, seed 1234. A model is
fitted to the 80%. "train": test users are folded in from the same 80%; "train + valid": from these and the 10% of
validation, as the papers do. Nothing was chosen by looking at test ratings of these runs; the constants in
`discreet/models/als/training.py` were set by validation error on MovieLens 1M and Jester 1, which is not charged.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import discreet

SOURCES = {
    "MovieLens 1M": (1e-5, (0.05, 1.0, 5.0, 10.0, 20.0), {}),
    "MovieLens 1M, with public genres and years": (1e-5, (1.0, 5.0, 10.0, 20.0), {"features": ["genres", "year"]}),
    "Jester 1, scaled to 0..5": (1e-6, (0.1, 0.5, 1.0, 5.0), {}),
}


def load(name: str) -> discreet.Interactions:
    """A data set."""
    if name.startswith("Jester"):
        return discreet.datasets.jester(parts=(1,)).rescale(0, 5)
    return discreet.datasets.movielens("1m")


def rmse(model: Any, history: discreet.Interactions, test: discreet.Interactions) -> float:
    """Root mean squared error over all test ratings."""
    return float(np.sqrt(np.mean((model.predict(history, test) - test.values) ** 2)))


def measure(name: str, draws: int) -> dict[str, Any]:
    """Print and return the figures for one data set."""
    delta, epsilons, settings = SOURCES[name]
    ratings = load(name)
    train, valid, test = discreet.splits.holdout(ratings, valid=0.1, test=0.1, random_state=1234)
    both = discreet.read(
        pa.concat_tables([train.to_arrow(), valid.to_arrow()]), items=ratings.catalogue, value_range=ratings.value_range
    )
    own, als = discreet.MeanRating("user").fit(train), discreet.ALS().fit(train)
    lines = {"each user's own mean": rmse(own, both, test), "ALS, not private": rmse(als, both, test)}
    print(f"\n{name}, delta {delta:g}; " + ", ".join(f"{key} {value:.4f}" for key, value in lines.items()))
    print(f"{'epsilon':>8}{'train':>10}{'sd':>8}{'train + valid':>15}{'sd':>8}")
    found = []
    for epsilon in epsilons:
        errors = []
        for _ in range(draws):
            model = discreet.DPALS(epsilon=epsilon, delta=delta, **settings).fit(train)  # type: ignore[arg-type]
            errors.append((rmse(model, train, test), rmse(model, both, test)))
        mean, sd = np.mean(errors, axis=0), np.std(errors, axis=0, ddof=1 if draws > 1 else 0)
        print(f"{epsilon:>8g}{mean[0]:>10.4f}{sd[0]:>8.4f}{mean[1]:>15.4f}{sd[1]:>8.4f}", flush=True)
        figures = {"train": [mean[0], sd[0]], "train + valid": [mean[1], sd[1]]}
        found.append({"epsilon": epsilon, **{key: [round(x, 5) for x in pair] for key, pair in figures.items()}})
    rounded = {key: round(value, 5) for key, value in lines.items()}
    return {"data": name, "delta": delta, "draws": draws, "lines": rounded, "rmse": found}


def main() -> None:
    """Print the tables, and write them if asked."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--data", nargs="+", default=list(SOURCES), choices=list(SOURCES))
    parser.add_argument("--out", type=Path, help="where to write; other data's figures stay there")
    options = parser.parse_args()
    before = (
        json.loads(options.out.read_text(encoding="utf-8"))["results"] if options.out and options.out.exists() else []
    )
    known = {result["data"]: result for result in before}
    known |= {name: measure(name, options.draws) for name in options.data}
    if options.out:
        command = f"python benchmarks/dpals.py --draws {options.draws}"
        results = [known[name] for name in SOURCES if name in known]
        document = {"version": discreet.__version__, "command": command, "results": results}
        options.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
