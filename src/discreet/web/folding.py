"""How a user is folded in, as numbers that another language can read.

There are three ways, and the JavaScript client (static/client/discreet.js) has all of them. A score is always

    base_j + a + columns_j . z  -  caution * sqrt(variance_j0 + sum_k variance_jk z_k^2)

and they differ in how a user's own offset a and vector z are found from her history, y_l for some items l:

- "ridge": with p the mean of prior_l over her items (0 without a prior), a and w = z - p minimise
  sum_l (y_l - base_l - columns_l . p - a - columns_l . w)^2 + w^T gram w + s |w|^2 + offset_penalty a^2, where
  s = scale * count^exponent / normaliser; without an offset_penalty a is 0.
- "projection": a = 0, z = sum_l h_l loadings_l, h = weights over her items, divided by its length.
- "sum": a = (sum_l y_l - base_l) / max(count + damping, 1), or 0 without damping; z = scale * sum_l (y_l - base_l - a)
  loadings_l, where scale = spread / max(count + damping, 1), or 1 without a spread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.completion.ridge import Ridge
from discreet.completion.spectral.local import CentredSum, Projection
from discreet.completion.spectral.neighbours import Neighbours
from discreet.data.interactions import Interactions
from discreet.errors import ModelError
from discreet.recommend.topn import deviations

if TYPE_CHECKING:
    from discreet.completion.base import Model

Array = NDArray[Any]


@dataclass(frozen=True)
class Folding:
    """A model's way to fold a user in: a few settings, and arrays by their names.

    Attributes:
        settings: What goes into JSON.
        tables: Arrays with one row of numbers for each item; these may be stored with less precision.
        vectors: Arrays that are stored as they are.
        ridge: The model's own.
        caution: How many standard deviations are taken from scores.
    """

    settings: dict[str, Any]
    tables: dict[str, Array]
    vectors: dict[str, Array]
    ridge: Ridge
    caution: float = 0.0

    @classmethod
    def of(cls, model: Model) -> Folding:
        """That of a fitted model; raises if only Python can do what the model does to fold a user in."""
        ridge = model._folding
        describe = _KINDS.get(type(ridge))  # by the very type: a subclass may do something else
        if describe is None:
            raise ModelError(
                f"model: {type(model).__name__} cannot be exported, because to fold a user in it needs more than a "
                "browser is given; DPALS, DPSVD, DPCleansedSVD, DPSGD, ALS, SVD and the baselines can be"
            )
        settings, tables, vectors = describe(ridge)
        tables = {"columns": ridge.columns, **tables}
        caution, variance = model._doubt() or (0.0, None)
        if variance is not None:
            tables["variance"] = variance
        cold, note = model._cold()
        return cls(
            {**settings, "caution": float(caution), "cold_note": note},
            tables,
            {"base": ridge.base, "cold": cold, **vectors},
            ridge,
            float(caution),
        )

    def with_tables(self, tables: dict[str, Array]) -> Folding:
        """The same with other tables: those that are left of these when they are stored with less precision."""
        parts: dict[str, Any] = {name: table for name, table in tables.items() if name != "variance"}
        return replace(self, tables=tables, ridge=replace(self.ridge, **parts))

    def scores(self, histories: Interactions) -> Array:
        """Scores (users, items) for users who have a history, in double precision."""
        offsets, vectors = (array.astype(np.float64) for array in self.ridge.fold_in(histories, 1))
        scores: Array = vectors @ self.tables["columns"].T.astype(np.float64)
        scores += self.ridge.base + offsets[:, None]
        if self.caution:
            scores -= self.caution * deviations(vectors, self.tables["variance"].astype(np.float64))
        return scores


Described = tuple[dict[str, Any], dict[str, Array], dict[str, Array]]


def _ridge(ridge: Any) -> Described:
    penalty = {name: float(getattr(ridge.penalty, name)) for name in ("scale", "exponent", "normaliser")}
    settings = {"kind": "ridge", "penalty": penalty, "offset_penalty": ridge.offset_penalty}
    tables = {} if ridge.prior is None else {"prior": ridge.prior}
    return settings, tables, {} if ridge.gram is None else {"gram": ridge.gram}


def _projection(ridge: Any) -> Described:
    return {"kind": "projection"}, {"loadings": ridge.loadings}, {"weights": ridge.weights}


def _sum(ridge: Any, spread: float | None = None) -> Described:
    return {"kind": "sum", "damping": ridge.damping, "spread": spread}, {"loadings": ridge.loadings}, {}


def _neighbours(ridge: Any) -> Described:
    return _sum(ridge, float(len(ridge.base)))


_KINDS: dict[type[Ridge], Callable[[Any], Described]] = {
    Ridge: _ridge,
    Projection: _projection,
    CentredSum: _sum,
    Neighbours: _neighbours,
}
