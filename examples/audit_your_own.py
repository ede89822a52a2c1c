"""A private model of your own, the same with a mistake, and an audit that tells them apart.

`ItemMeans` predicts each item's average. It declares its releases (`plan`), and learns from nothing but what the door
gives back. `Leaky` divides by the exact number of users: harmless to look at, and one person can be found in it.
"""

from typing import Any

import numpy as np
from discreet.models.door import Door

import discreet
from discreet.engine.batches import equal_weights, parts
from discreet.models.fold_in import FoldIn, RidgeFoldIn
from discreet.models.private import PrivateModel


class ItemMeans(PrivateModel):
    """Each item's average rating. A user's contribution to either sum has length 1 at most, over all of her items.

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

    def _learn_privately(self, door: Door, ratings: discreet.Interactions) -> dict[str, Any]:
        low, high = ratings.value_range or (0.0, 0.0)
        middle, half, size = (low + high) / 2, (high - low) / 2, ratings.n_items
        centred = (ratings.values - middle) / half  # from -1 to 1, by the public range

        def sums(part: Any) -> Any:
            return equal_weights(part) * part.values

        counts = door.vector("counts", parts(ratings, centred), equal_weights, size, bound=1.0, aligned=True)
        total = door.vector("sums of ratings", parts(ratings, centred), sums, size, bound=1.0, aligned=False)
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
    """The same, with an exact mean that goes round the door."""

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
