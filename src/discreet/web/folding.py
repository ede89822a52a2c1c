"""How a user is folded in, as numbers that another language can read.

The JavaScript client (static/client/discreet.js) has all the ways there are. A score is always

    base_j + a + columns_j . z  -  caution * sqrt(variance_j0 + sum_k variance_jk z_k^2)

and they differ in how a user's own offset a and vector z are found from her history, y_l for some items l:

- "ridge": with p the mean of prior_l over her items (0 without a prior), a and w = z - p minimise
  sum_l (y_l - base_l - columns_l . p - a - columns_l . w)^2 + w^T gram w + s |w|^2 + offset_penalty a^2, where
  s = scale * count^exponent / normaliser; without an offset_penalty a is 0.
- "frequent": the same from her frequent items alone. With own_mean the last of z is the mean of y_l - base_l over all
  her items, and its column, which is 1 for the other items, is no part of the regression.
- "refits": such a regression for each of `rounds` (k, factor), on the first k columns times the factor. It is of aims
  that the fit f of the last one sets (at first f = base). For a logistic loss, with g = f - base: f - tanh(s) / s g + y
  - centre, s = 2 g / width. For bits: f + unit / curvature * sign * (log h)'(sign * (f - threshold) / unit), where sign
  is 1 for y from the threshold on, else -1, and h is the link.
- "projection": a = 0, z = sum_l h_l loadings_l, h = weights over her items, divided by its length.
- "sum": a = (sum_l y_l - base_l) / max(count + damping, 1), or 0 without damping; z = scale * sum_l (y_l - base_l - a)
  loadings_l, where scale = spread / max(count + damping, 1), or 1 without a spread.
- "frank-wolfe", "descent": x_l = c (y_l - centre - a), where a is her mean damped by `shrinkage`, or 0 without it, and
  c at most 1, so that |x| is at most row_norm. The public steps are replayed on x, and z are her coefficients over c:
  `Replay` in discreet.completion.frank_wolfe.local and in discreet.completion.gradient.local.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.completion.als.frequent import FrequentRidge
from discreet.completion.centred import Centring
from discreet.completion.frank_wolfe.corrective import Refit, Refits
from discreet.completion.frank_wolfe.local import Replay as Steps
from discreet.completion.gradient.local import PRETENDED
from discreet.completion.gradient.local import Replay as Descents
from discreet.completion.one_bit.local import STEPS, BitRidge
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
        if type(ridge) not in _KINDS:  # by the very type: a subclass may do something else
            raise ModelError(
                f"model: {type(model).__name__} cannot be exported, because browsers do not know how it folds a user "
                "in; every model that discreet brings can be"
            )
        caution, variance = model._doubt() or (0.0, None)
        cold, note = model._cold()
        return cls._described(ridge, float(caution), variance, cold, note)

    @classmethod
    def _described(cls, ridge: Ridge, caution: float, variance: Array | None, cold: Array, note: str) -> Folding:
        settings, tables, vectors = _KINDS[type(ridge)](ridge)
        doubt = {} if variance is None else {"variance": variance}
        return cls(
            {**settings, "caution": caution, "cold_note": note},
            {"columns": ridge.columns, **tables, **doubt},
            {"base": ridge.base, "cold": cold, **vectors},
            ridge,
            caution,
        )

    def with_tables(self, tables: dict[str, Array]) -> Folding:
        """The same with other tables: those that are left of these when they are stored with less precision."""
        parts = {name: table for name, table in tables.items() if name != "variance"}
        ridge = _REBUILT.get(type(self.ridge), _replaced)(self.ridge, parts)
        cold, note = self.vectors["cold"], self.settings["cold_note"]
        return self._described(ridge, self.caution, tables.get("variance"), cold, note)

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


def _frequent(ridge: Any) -> Described:
    settings, tables, vectors = _ridge(ridge)
    return (
        {**settings, "kind": "frequent", "own_mean": ridge.own_mean},
        tables,
        {**vectors, "frequent": ridge.frequent},
    )


def _refits(ridge: Any) -> Described:
    component, last = ridge.component, ridge.noises[-1]
    loss = {"name": "logistic", "width": component.loss.width, "centre": component.centre}
    rounds = [[t, math.sqrt(last / noise)] for t, noise in enumerate(ridge.noises, 1)]
    return {**_ridge(ridge)[0], "kind": "refits", "loss": loss, "rounds": rounds}, {}, {}


def _bits(ridge: Any) -> Described:
    link = ridge.link
    loss = {
        "name": "bits",
        "link": link.name,
        "sigma": float(link.sigma),
        "curvature": link.curvature,
        "threshold": float(np.float32(ridge.threshold)),
        "unit": float(ridge.unit),
    }
    rounds = [[ridge.columns.shape[1], 1.0]] * STEPS
    return {**_ridge(ridge)[0], "kind": "refits", "loss": loss, "rounds": rounds}, {}, {}


def _centring(centring: Centring) -> dict[str, Any]:
    return {name: getattr(centring, name) for name in ("centre", "shrinkage", "row_norm")}


def _frank_wolfe(ridge: Any) -> Described:
    steps = [[step.size, step.gain] for step in ridge.steps]
    width = getattr(ridge.local.loss, "width", None)
    return {"kind": "frank-wolfe", **_centring(ridge.local.centring), "width": width, "steps": steps}, {}, {}


def _descent(ridge: Any) -> Described:
    """Of the last step there is no table of its own: its directions are the columns."""
    steps = ridge.steps
    settings = {
        "kind": "descent",
        **_centring(ridge.centring),
        "size": ridge.descent.size,
        "ranks": [len(step.gains) for step in steps],
        "gains": np.concatenate([step.gains for step in steps]).tolist(),
        "room": [PRETENDED * float((step.vectors**2).sum(axis=1).mean()) for step in steps],
    }
    carried = [before.vectors.T @ step.vectors for before, step in pairwise(steps)]
    transitions = np.concatenate([matrix.ravel() for matrix in carried]) if carried else np.zeros(0)
    earlier = np.hstack([np.zeros((len(ridge.base), 0)), *(step.vectors for step in steps[:-1])])
    return settings, {"steps": earlier}, {"transitions": transitions}


_KINDS: dict[type[Ridge], Callable[[Any], Described]] = {
    Ridge: _ridge,
    FrequentRidge: _frequent,
    Refit: _ridge,
    Refits: _refits,
    BitRidge: _bits,
    Projection: _projection,
    CentredSum: _sum,
    Neighbours: _neighbours,
    Steps: _frank_wolfe,
    Descents: _descent,
}


# -- with other tables


def _replaced(ridge: Any, tables: dict[str, Any]) -> Ridge:
    found: Ridge = replace(ridge, **tables)
    return found


def _other_vectors(ridge: Any, tables: dict[str, Any]) -> Ridge:
    vectors = tables["columns"]
    steps = [replace(step, vector=vectors[:, t].astype(np.float64)) for t, step in enumerate(ridge.steps)]
    return _replaced(ridge, {"columns": vectors, "steps": steps})


def _other_directions(ridge: Any, tables: dict[str, Any]) -> Ridge:
    ends = np.cumsum([len(step.gains) for step in ridge.steps[:-1]])
    earlier = np.split(tables["steps"], ends[:-1], axis=1) if len(ends) else []
    steps = [
        replace(step, vectors=vectors.astype(np.float64))
        for step, vectors in zip(ridge.steps, [*earlier, tables["columns"]], strict=True)
    ]
    return _replaced(ridge, {"columns": tables["columns"], "steps": steps})


_REBUILT: dict[type[Ridge], Callable[[Any, dict[str, Any]], Ridge]] = {
    Steps: _other_vectors,
    Descents: _other_directions,
}
