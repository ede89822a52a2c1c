"""How good models are: the non-private baselines on public data, and private models on any folder of data.

    python benchmarks/quality.py            needs MovieLens 100k and 1M: `discreet datasets fetch 100k`, `... 1m`
    python benchmarks/quality.py --folder FOLDER [--data NAME ...] [--models DPALS ...] [--epsilons .1 1 5 20]
                                 [--draws 2] [--out docs/results/unseen.json]

MovieLens 1M: 80/10/10 at random, seed 1234; test RMSE of a model fitted to the 80%, where a user is folded in from the
80% or, as in the papers, from these and the 10% of validation. MovieLens 100k: the division u1 that comes with it.
Implicit feedback: ratings of at least 4 in MovieLens 1M, users with at least 5, 600 validation and 600 test users held
out whole, 20% of whose items are to be found among the 20 best (recall divided by at most 20).

With a folder: its Parquet files, with the columns user and item, and rating if there are ratings. Each model is
compared with what is free, so that 1 is as good, for any number of draws of seeded noise:

- ratings: test RMSE over that of a user's own mean, shrunk as is best for the test, in brackets the best model's;
- ratings with two values (yes or no): test log loss over that of the share of yes of each item, without noise;
- clicks: recall@20 (@5 for at most 150 items) of a fifth, held out, over that of `DPPopularity` at the same epsilon.

Of ratings and answers a tenth is held out. The range of ratings is that of the file.
"""

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import discreet
from discreet.testing import InsecureSeededNoise

SHRINKAGES = (0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 30.0)
RATINGS = ("DPALS", "DPSVD", "DPCleansedSVD", "DPFrankWolfe", "DPGradientDescent", "DPSGD")
ANSWERS = ("input", "objective", "gradient", "output")
FEW = 150  # items, of which a list has 5


def rmse(model: Any, history: discreet.Interactions, test: discreet.Interactions) -> float:
    """Root mean squared error over all test ratings."""
    return float(np.sqrt(np.mean((model.predict(history, test, on_unknown="ignore") - test.values) ** 2)))


def ledger(seed: int, delta: float, **settings: Any) -> discreet.Ledger:
    """A ledger with seeded noise."""
    return discreet.Ledger(delta=delta, noise_source=InsecureSeededNoise(seed), **settings)


def log_loss(chances: Any, test: discreet.Interactions) -> float:
    """The mean over test answers, of which the higher value is a yes."""
    right = np.where(test.values == test.values.max(), chances, 1 - np.asarray(chances))
    return float(-np.log(np.maximum(right, 1e-9)).mean())


def of_ratings(data: discreet.Interactions, options: argparse.Namespace) -> dict[str, list[float]]:
    """The errors of each model over that of own means, by epsilon."""
    train, _, test = discreet.splits.holdout(data, valid=0.0, test=0.1, random_state=1234)
    own = min(rmse(discreet.MeanRating("user", shrinkage=s).fit(train), train, test) for s in SHRINKAGES)

    def over(name: str, epsilon: float) -> float:
        fits = (getattr(discreet, name)(epsilon=epsilon, delta=1e-6) for _ in range(options.draws))
        errors = [rmse(fit.fit(train, ledger=ledger(seed, 1e-6)), train, test) for seed, fit in enumerate(fits)]
        return float(np.mean(errors)) / own

    return {name: [round(over(name, e), 3) for e in options.epsilons] for name in options.models or RATINGS}


def of_answers(data: discreet.Interactions, options: argparse.Namespace) -> dict[str, list[float]]:
    """The log loss of each mechanism of `OneBit` over that of shares of yes, by epsilon."""
    train, _, test = discreet.splits.holdout(data, valid=0.0, test=0.1, random_state=1234)
    yes = (train.values == train.values.max()).astype(float)
    ones, n = np.bincount(train.indices, yes, train.n_items), np.bincount(train.indices, minlength=train.n_items)
    share = log_loss(((ones + 2 * yes.mean()) / (n + 2))[test.indices], test)

    def over(mechanism: Any, epsilon: float) -> float:
        losses = []
        for seed in range(options.draws):
            model = discreet.OneBit(mechanism, epsilon=epsilon)
            model.fit(train, ledger=ledger(seed, 0.0, unit="entry", adjacency="flip"))
            losses.append(log_loss(model.predict_proba(train, test), test))
        return float(np.mean(losses)) / share

    return {name: [round(over(name, e), 3) for e in options.epsilons] for name in options.models or ANSWERS}


def of_clicks(data: discreet.Interactions, options: argparse.Namespace) -> dict[str, list[float]]:
    """The recall of `Recommender` over that of `DPPopularity`, by epsilon."""
    train, _, test = discreet.splits.holdout(data, valid=0.0, test=0.2, random_state=0)
    metric = "recall@5" if data.n_items <= FEW else "recall@20"

    def recall(name: str, epsilon: float) -> float:
        found = []
        for seed in range(options.draws):
            model = getattr(discreet, name)(epsilon=epsilon, delta=1e-5).fit(train, ledger=ledger(seed, 1e-5))
            result = discreet.evaluate(model, test, history=train, metrics=[metric], confidence=None)
            found.append(result[metric])
        return float(np.mean(found))

    names = options.models or ["Recommender"]
    return {name: [round(recall(name, e) / recall("DPPopularity", e), 3) for e in options.epsilons] for name in names}


def measured(path: Path, options: argparse.Namespace) -> dict[str, Any]:
    """The figures of one file."""
    table = pq.read_table(path)
    rated = "rating" in table.column_names
    columns = {"user": "user", "item": "item", "value": "rating" if rated else None, "time": None}
    items = np.unique(table["item"].to_numpy())
    values = np.unique(table["rating"].to_numpy()) if rated else np.zeros(0)
    given: dict[str, Any] = {"value_range": (float(values[0]), float(values[-1]))} if rated else {}
    data = discreet.read(table.select([one for one in columns.values() if one]), items=items, **columns, **given)
    kind, measure = ("clicks", of_clicks)
    if rated:
        kind, measure = ("answers", of_answers) if len(values) == 2 else ("ratings", of_ratings)
    sizes = {"users": data.n_users, "items": data.n_items, "entries": len(data)}
    return {"data": path.stem, "kind": kind, **sizes, "epsilons": options.epsilons, "models": measure(data, options)}


def of_folder(options: argparse.Namespace) -> None:
    """Print a line for each file, and keep all figures if a file is given for them."""
    warnings.simplefilter("ignore")  # data with less than what `holdout` would like
    found = json.loads(options.out.read_text()) if options.out and options.out.exists() else []
    for path in sorted(options.folder.glob("*.parquet")):
        if options.data and path.stem not in options.data:
            continue
        row = measured(path, options)
        table = np.array(list(row["models"].values()))
        worst, best = (table.min(axis=0), table.max(axis=0))[:: 1 if row["kind"] == "clicks" else -1]
        cells = [f"{w:.3f} ({b:.3f})" if w != b else f"{w:.3f}" for w, b in zip(worst, best, strict=True)]
        print(f"| {path.stem} | {row['users']:,} x {row['items']:,} | {' | '.join(cells)} |", flush=True)
        found = [*(one for one in found if one["data"] != row["data"]), row]
        if options.out:
            options.out.write_text(json.dumps(found, indent=1) + "\n")


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--data", nargs="+")
    parser.add_argument("--models", nargs="+")
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 1.0, 5.0, 20.0])
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.folder:
        of_folder(options)
    else:
        of_baselines()


def of_baselines() -> None:
    """Print the figures of models without privacy."""
    ratings = discreet.datasets.movielens("1m")
    train, valid, test = discreet.splits.holdout(ratings, valid=0.1, test=0.1, random_state=1234)
    both = discreet.read(
        pa.concat_tables([train.to_arrow(), valid.to_arrow()]), items=ratings.catalogue, value_range=ratings.value_range
    )
    fold = discreet.datasets.movielens_folds("u1")
    models = {f"mean by {by}": discreet.MeanRating(by) for by in ("global", "user", "item", "both")}  # type: ignore[arg-type]
    print(f"{'test RMSE':<20}{'1M, from train':>16}{'1M, and valid':>16}{'100k u1':>10}")
    for name, model in {**models, "ALS": discreet.ALS(), "ALS, rank 32": discreet.ALS(32)}.items():
        fitted = model.fit(train)
        figures = rmse(fitted, train, test), rmse(fitted, both, test)
        print(f"{name:<20}{figures[0]:>16.4f}{figures[1]:>16.4f}{rmse(model.fit(fold[0]), fold[0], fold[2]):>10.4f}")
    liked = ratings.to_implicit(4)
    parts = discreet.splits.held_out_users(liked, valid=600, test=600, random_state=98765)
    print(f"\n{'implicit, ML-1M':<20}{'recall@20':>16}{'recall@50':>16}{'ndcg@100':>10}")
    for name, model in {"popularity": discreet.Popularity(), "ALS": discreet.ALS()}.items():
        fitted = model.fit(parts.train)
        metrics = ["recall@20", "recall@50", "ndcg@100"]
        found = discreet.evaluate(fitted, parts.test.target, history=parts.test.query, metrics=metrics)
        print(f"{name:<20}{found['recall@20']:>16.4f}{found['recall@50']:>16.4f}{found['ndcg@100']:>10.4f}")


if __name__ == "__main__":
    main()
