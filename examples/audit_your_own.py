"""A private model of your own, the same with a mistake, and an audit that tells them apart.

`ItemMeans` predicts each item's average. It declares its releases (`plan`), and learns from nothing but those. `Leaky`
starts from the exact mean rating: harmless to look at, and one person can be found in it.
"""

from typing import Any

import numpy as np

import discreet
from discreet.engine.batches import equal_weights, user_batches
from discreet.models.fold_in import FoldIn, RidgeFoldIn
from discreet.models.private import PrivateModel
from discreet.privacy import Releaser, UserBatch, VectorSum


class ItemMeans(PrivateModel):
    """Each item's average rating. A user's contribution to either sum has length 1 at most, over all of their items.

    Args:
        epsilon: The privacy budget.
        delta: Its delta.
        adjacency: "add-remove" or "replace".
        n_jobs: Threads.
    """

    def __init__(self, *, epsilon: float, delta: float, adjacency: Any = "add-remove", n_jobs: int | None = -1) -> None:
        self.epsilon, self.delta, self.adjacency, self.n_jobs = epsilon, delta, adjacency, n_jobs

    def plan(self, n_items: int) -> discreet.Plan:
        """Two releases, which share the budget."""
        return discreet.Plan.gaussian(self._mu(), {"counts": 0.5, "sums of ratings": 0.5})

    def _learn_privately(self, releaser: Releaser, ratings: discreet.Interactions) -> dict[str, Any]:
        low, high = ratings.value_range or (0.0, 0.0)
        middle, half, size, users = (low + high) / 2, (high - low) / 2, ratings.n_items, user_batches(ratings)

        def centered(batch: UserBatch) -> Any:
            return equal_weights(batch) * (batch.values - middle) / half  # from -1 to 1, by the public range

        counts = releaser.release("counts", VectorSum(size, 1.0, nonnegative=True), users, equal_weights)
        total = releaser.release("sums of ratings", VectorSum(size, 1.0), users, centered)
        known = np.maximum(counts.values, 0) + 3 * counts.std  # shrinks what is drowned by noise
        return {
            "item_factors_": np.zeros((size, 0), np.float32),
            "item_bias_": (half * total.values / known).astype(np.float32),
            "popularity_": counts.values.astype(np.float32),
            "value_range_": (low, high),
            "implicit_": False,
            "global_mean_": self._middle(middle, ratings),
        }

    def _middle(self, middle: float, ratings: discreet.Interactions) -> float:
        return middle

    def _make_fold_in(self) -> FoldIn:
        base = self.item_bias_ + self.global_mean_
        return RidgeFoldIn(columns=self.item_factors_, base=base, offset_penalty=5.0)


class Leaky(ItemMeans):
    """The same, with an exact mean that is not released."""

    def _middle(self, middle: float, ratings: discreet.Interactions) -> float:
        return float(ratings.values.mean())


def main() -> None:
    """Audit both."""
    for model in (ItemMeans(epsilon=1, delta=1e-6), Leaky(epsilon=1, delta=1e-6)):
        report = discreet.audit.run(model)
        print(f"{type(model).__name__}: {report.verdict()}")
        for finding in next(iter(report.findings.values())):
            if not finding.ok:
                print(f"  {finding.check}: {finding.words}")
        assert report.ok == (type(model) is ItemMeans)


if __name__ == "__main__":
    main()
