"""The metrics: what each one is, as a formula and as array code.

Two families. *Value* metrics (rmse, mae, accuracy) compare a prediction with each test interaction and are means over
interactions, as in the papers: a user with many targets weighs more. *Ranking* metrics look at each user's list of
recommendations and are means over users who have at least one target; `coverage@k` alone is about all lists together.

Notation: `T` are a user's targets, `|T|` their number (those that the model has never seen included), `hit(r)` is 1 if
the item at rank r = 1, 2, ... of the list is a target, else 0. A list may be shorter than k; what is missing is a miss.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import DataError
from discreet.typing import Floats, Integers

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Lists:
    """The recommendations of a block of users, one entry for each recommended item, user by user and best first.

    Attributes:
        user: Whose list the entry is in, 0 .. n_users - 1.
        rank: Its place in that list, from 1.
        hit: Whether it is one of the user's targets.
        n_targets: How many targets each user has.
        bits: How surprising the item is, -log2 of its popularity; None unless novelty is asked for.
    """

    user: Integers
    rank: Integers
    hit: Bools
    n_targets: Integers
    bits: Floats | None = None

    def total(self, weights: Floats | Bools, k: int) -> Floats:
        """The sum over each user's first k entries."""
        first = self.rank <= k
        return np.bincount(self.user[first], weights[first], minlength=len(self.n_targets)).astype(np.float64)


def recall(lists: Lists, k: int) -> Floats:
    """Share of the targets that are found: sum over r <= k of hit(r), divided by min(k, |T|)."""
    return lists.total(lists.hit, k) / np.minimum(k, np.maximum(lists.n_targets, 1))


def precision(lists: Lists, k: int) -> Floats:
    """Share of the list that is right: sum over r <= k of hit(r), divided by k."""
    return lists.total(lists.hit, k) / k


def ndcg(lists: Lists, k: int) -> Floats:
    """DCG / IDCG with binary gains: DCG = sum over r <= k of hit(r) / log2(r + 1), IDCG = sum over r <= min(k, |T|)."""
    deepest = int(min(k, lists.n_targets.max(initial=1)))  # a sum that goes no further than anybody's targets
    longest = max(deepest, int(lists.rank.max(initial=0)))
    # One logarithm at a time: those of a whole array may differ, in the last bit, with how many there are.
    discounts = np.array([1 / math.log2(r + 1) for r in range(1, longest + 1)])
    ideal = np.cumsum(discounts[:deepest])
    value: Floats = (
        lists.total(lists.hit * discounts[lists.rank - 1], k) / ideal[np.clip(lists.n_targets, 1, deepest) - 1]
    )
    return value


def average_precision(lists: Lists, k: int) -> Floats:
    """Mean average precision: sum over r <= k of hit(r) * (hits up to r) / r, divided by min(k, |T|)."""
    so_far = np.cumsum(lists.hit)
    before = np.bincount(lists.user, lists.hit, minlength=len(lists.n_targets)).cumsum()
    within = so_far - np.concatenate([[0.0], before])[lists.user]
    return lists.total(lists.hit * within / lists.rank, k) / np.minimum(k, np.maximum(lists.n_targets, 1))


def reciprocal_rank(lists: Lists, k: int) -> Floats:
    """Mean reciprocal rank: 1 / r of the first hit, 0 if there is none (with @k: none among the first k)."""
    best = np.zeros(len(lists.n_targets))
    found = lists.hit & (lists.rank <= k)
    np.maximum.at(best, lists.user[found], 1 / lists.rank[found])
    return best


def novelty(lists: Lists, k: int) -> Floats:
    """Mean surprise in bits: mean over r <= k of -log2(share of users who have item r in `popularity`).

    An item that nobody has counts as one that a single user has. Users whose list is empty do not count.
    """
    assert lists.bits is not None
    return lists.total(lists.bits, k) / np.maximum(lists.total(np.ones(len(lists.rank)), k), 1)


def coverage(shown: Bools) -> float:
    """Share of the model's catalogue that is among the first k of anyone's list."""
    return float(shown.mean())


def squared_error(predicted: Floats, value: Floats, threshold: float | None = None) -> Floats:
    """Root mean squared error: sqrt(sum of (prediction - value)^2 / number of interactions)."""
    with np.errstate(over="ignore"):
        return np.square(predicted - value)


def absolute_error(predicted: Floats, value: Floats, threshold: float | None = None) -> Floats:
    """Mean absolute error: sum of |prediction - value| / number of interactions."""
    return np.abs(predicted - value)


def same_side(predicted: Floats, value: Floats, threshold: float | None = None) -> Floats:
    """One-bit accuracy: share of interactions where prediction and value are on the same side of the threshold.

    "At least the threshold" is one side, below it is the other. The threshold is 0.5 for values 0 and 1, 0 for values
    -1 and 1, and given by `threshold=` otherwise.
    """
    assert threshold is not None
    return np.equal(predicted >= threshold, value >= threshold).astype(np.float64)


VALUE: dict[str, Callable[[Floats, Floats, float | None], Floats]] = {
    "rmse": squared_error,
    "mae": absolute_error,
    "accuracy": same_side,
}
RANKING: dict[str, Callable[[Lists, int], Floats]] = {
    "recall": recall,
    "precision": precision,
    "ndcg": ndcg,
    "map": average_precision,
    "mrr": reciprocal_rank,
    "novelty": novelty,
}
_DOCUMENTED: dict[str, Callable[..., Any]] = {**VALUE, **RANKING, "coverage": coverage}
_SHOWN = {name: name if name in VALUE else f"{name}@k" for name in _DOCUMENTED} | {"mrr": "mrr or mrr@k"}

METRICS: dict[str, str] = {_SHOWN[name]: (function.__doc__ or "") for name, function in _DOCUMENTED.items()}
"""Every metric there is, and its formula."""


@dataclass(frozen=True)
class Metric:
    """One metric with its cut-off: "recall@20" is Metric("recall", 20)."""

    name: str
    k: int | None = None

    @classmethod
    def parse(cls, text: Any) -> Metric:
        """Read a name such as "rmse" or "recall@20".

        Raises:
            DataError: If there is no such metric, listing those there are; or if its cut-off is wrong.
        """
        found = re.fullmatch(r"([a-z]+)(?:@(\d+))?", text.strip().lower()) if isinstance(text, str) else None
        name, k = (found[1], found[2]) if found else ("", None)
        if name not in _DOCUMENTED:
            raise DataError(f"metrics: there is no {text!r}; there are {', '.join(_SHOWN.values())}")
        if name in VALUE and k is not None:
            raise DataError(f"metrics: {text!r} has a cut-off, but {name} is not about lists; write {name!r}")
        if name not in VALUE and name != "mrr" and k is None:
            raise DataError(f"metrics: {name} needs a cut-off: write for instance '{name}@20'")
        if k is not None and int(k) < 1:
            raise DataError(f"metrics: the cut-off of {text!r} must be at least 1")
        return cls(name, None if k is None else int(k))

    def __str__(self) -> str:
        return self.name if self.k is None else f"{self.name}@{self.k}"

    @property
    def is_ranking(self) -> bool:
        """Whether it looks at lists of recommendations rather than at predicted values."""
        return self.name not in VALUE

    @property
    def has_buckets(self) -> bool:
        """Whether it can be told apart by the popularity of the target."""
        return self.name in VALUE or self.name == "recall"

    def bound(self, max_error: float) -> float:
        """The largest possible value of what is averaged, when errors are at most `max_error`."""
        return {"rmse": max_error**2, "mae": max_error}.get(self.name, 1.0)

    def finish(self, mean: Floats) -> Floats:
        """From the mean of what is added up to the metric."""
        return np.sqrt(np.maximum(mean, 0)) if self.name == "rmse" else mean


def parse(metrics: str | Iterable[str]) -> tuple[Metric, ...]:
    """Read a list of names; each metric may be given once."""
    if not isinstance(metrics, Iterable):
        raise DataError(f"metrics: a list of names was expected, not {metrics!r}")
    found = [Metric.parse(text) for text in ([metrics] if isinstance(metrics, str) else metrics)]
    if not found or len(set(found)) < len(found):
        raise DataError("metrics: at least one is needed, and none of them twice")
    return tuple(found)
