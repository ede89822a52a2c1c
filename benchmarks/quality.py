"""How good the non-private baselines are on public data: the figures that private models are measured against.

    python benchmarks/quality.py            needs MovieLens 100k and 1M: `discreet datasets fetch 100k`, `... 1m`

MovieLens 1M: 80/10/10 at random, seed 1234; test RMSE of a model fitted to the 80%, where a user is folded in from the
80% or, as in the papers, from these and the 10% of validation. MovieLens 100k: the division u1 that comes with it.
Implicit feedback: ratings of at least 4 in MovieLens 1M, users with at least 5, 600 validation and 600 test users held
out whole, 20% of whose items are to be found among the 20 best (recall divided by at most 20).
"""

from typing import Any

import numpy as np
import pyarrow as pa

import discreet


def rmse(model: Any, history: discreet.Interactions, test: discreet.Interactions) -> float:
    """Root mean squared error over all test ratings."""
    return float(np.sqrt(np.mean((model.predict(history, test, on_unknown="ignore") - test.values) ** 2)))


def main() -> None:
    """Print the figures."""
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
