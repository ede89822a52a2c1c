"""A single score for a model, as scikit-learn's tools expect."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from discreet.data import splits
from discreet.data.interactions import Interactions
from discreet.errors import DataError

TARGET = 0.2  # share of the interactions that is held back if no targets are given
LENGTH = 20  # the length of lists
NOT_COVERED = (
    "these are exact numbers about the people in the table, and a model that is chosen by them tells more about people "
    "than its guarantee says; discreet.tune.search chooses privately"
)


def query_and_target(X: Any, y: Any) -> tuple[Interactions, Interactions]:
    """A model's input and the targets that it has to predict: as given, or a fixed random split of X."""
    for name, table in (("X", X), ("y", y)):
        if not isinstance(table, Interactions) and not (name == "y" and table is None):
            raise DataError(f"{name}: Interactions are needed, not {type(table).__name__}; see discreet.read")
    if y is None:
        parts = splits.holdout(X, test=TARGET, random_state=0)
        return parts.train, parts.test
    if X.users != y.users:
        raise DataError("y: targets of the same users as in X are needed; discreet.splits.holdout divides a table")
    return X, y


def score(model: Any, X: Any, y: Any) -> float:
    """Minus the RMSE of predicted ratings, or recall@20 of lists."""
    query, target = query_and_target(X, y)
    if not len(target):
        raise DataError("X: there is nothing to predict; give more users, or targets as y")
    if model.guarantee_.holds:
        warnings.warn(f"score: {NOT_COVERED}", stacklevel=3)
    if model._predicts_ratings and not target.implicit:
        errors = model.predict(query, target, on_unknown="ignore") - target.values
        return -float(np.sqrt(np.mean(np.square(errors, dtype=np.float64))))
    found = model.recommend(query, LENGTH, on_unknown="ignore")
    wanted = model.items_.numbers(target.items.to_arrow(), "items")[target.indices]
    shown = np.repeat(np.arange(query.n_users), np.diff(found.indptr)) * len(model.items_) + found.numbers
    owner, counts = target.user_numbers().astype(np.int64), np.diff(target.indptr)
    hits = np.isin(owner * len(model.items_) + wanted, shown) & (wanted >= 0)
    share = np.bincount(owner, hits, minlength=target.n_users) / np.minimum(np.maximum(counts, 1), LENGTH)
    return float(share[counts > 0].mean())
