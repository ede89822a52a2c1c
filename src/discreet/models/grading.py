"""Ratings as graded likes: how strongly a rating suggests that its user will choose similar items."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet import kernels
from discreet.models.centering import UserMeans
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array

# How much more an item counts if it was rated one standard deviation above the user's mean. Recall of liked items is
# within 2% of its best for .25 to .75, on MovieLens 100K and 1M, anime, MovieTweetings and Jester.
SLOPE = 0.5


@dataclass(frozen=True)
class Grading:
    """A user's weight of an item is max(1 + SLOPE (y - a) / unit, 0), where a is their own shrunken mean.

    Attributes:
        mean: The value that users' own means are shrunk to.
        shrinkage: The number of pseudo-ratings of that value, positive.
        unit: The standard deviation of ratings about their user's mean.
    """

    mean: float
    shrinkage: float
    unit: float

    @classmethod
    def of(cls, users: UserMeans) -> Grading:
        """The grading that follows from estimates about users' means."""
        return cls(users.mean, users.shrinkage, users.spread)

    def __call__(self, part: UserBatch) -> Array:
        """The weights of some users' items. Sums are in the order of items, and do not depend on other users."""
        about = (part.values.astype(np.float64) - self.mean) / self.unit
        own = part.row_sums(about) / (part.counts + self.shrinkage)
        return np.asarray(np.maximum(1 + SLOPE * (about - own[part.owners]), 0))

    @property
    def numbers(self) -> kernels.Grades:
        """The parameters of the compiled function that computes the same."""
        return self.mean, self.shrinkage, self.unit, SLOPE

    def apply(self, part: UserBatch) -> UserBatch:
        """The same users, with weights in place of ratings."""
        return UserBatch(part.indptr, part.indices, self(part))

    def describe(self) -> dict[str, float]:
        """The parameters for the JavaScript client."""
        return {"mean": self.mean, "shrinkage": self.shrinkage, "slope": SLOPE / self.unit}
