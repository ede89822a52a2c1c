"""Scores as the page computes them: how a person is folded in, what a cautious model subtracts, and a cold start.

    score_j = base_j + a + columns_j . z - caution * sqrt(variance_j0 + sum_k variance_jk z_k^2)

`discreet.models.fold_in` has the three ways to find the offset a and the vector z. Without a history it is cold_j.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from discreet.data.interactions import Interactions
from discreet.models.fold_in import Description, FoldIn
from discreet.recommend.topn import deviations
from discreet.typing import Array

if TYPE_CHECKING:
    from discreet.models.base import Model


@dataclass(frozen=True)
class Scoring:
    """What a browser needs of a fitted model to score items.

    Attributes:
        fold_in: How a person is folded in.
        cold: Scores for someone without a history.
        cold_note: What these are.
        caution: How many standard deviations are subtracted from scores.
        variance: Of base and of columns, (items, 1 + rank); or None.
    """

    fold_in: FoldIn
    cold: Array
    cold_note: str
    caution: float = 0.0
    variance: Array | None = None

    @classmethod
    def of(cls, model: Model) -> Scoring:
        """That of a fitted model."""
        caution, variance = model._score_variance() or (0.0, None)
        return cls(model._fold_in, *model._cold(), float(caution), variance)

    def describe(self) -> Description:
        """For the JavaScript client; raises if only Python can do what the model does to fold a person in."""
        settings, tables, arrays = self.fold_in.describe()
        if self.variance is not None:
            tables = {**tables, "variance": self.variance}
        own = {"fold_in": settings, "caution": self.caution, "cold_note": self.cold_note}
        return own, tables, {"cold": self.cold, **arrays}

    def with_tables(self, tables: dict[str, Array]) -> Scoring:
        """The same with other tables: those that are left of these when they are stored with less precision."""
        parts = {name: table for name, table in tables.items() if name != "variance"}
        return replace(self, fold_in=self.fold_in.with_tables(parts), variance=tables.get("variance"))

    def scores(self, histories: Interactions) -> Array:
        """Scores (users, items) for users who have a history, in double precision."""
        offsets, vectors = (array.astype(np.float64) for array in self.fold_in.fold_in(histories, 1))
        scores: Array = vectors @ self.fold_in.columns.T.astype(np.float64)
        scores += self.fold_in.base + offsets[:, None]
        if self.variance is not None:
            scores -= self.caution * deviations(vectors, self.variance.astype(np.float64))
        return scores
