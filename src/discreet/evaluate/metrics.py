"""The metrics: the formula of each, and what each user contributes to it.

There are two families. *Value* metrics (rmse, mae, accuracy) compare a prediction with each test interaction and are
means over interactions, as in the papers: a user with many targets weighs more. *Ranking* metrics look at each user's
list of recommendations and are means over users who have at least one target. Only `coverage@k` is about all lists.

Notation: `T` is the set of a user's targets and `|T|` its size, including targets that the model has never seen.
`hit(r)` is 1 if the item at rank r = 1, 2, ... of the list is a target, else 0. A list may be shorter than k; every
missing item is a miss.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.data import Interactions
from discreet.data.catalogue import Ids
from discreet.errors import DataError
from discreet.typing import Floats, Integers

Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Lists:
    """The recommendations of a block of users, one entry for each recommended item, user by user and best first."""

    user: Integers  # the user of each entry, 0 .. n_users - 1
    rank: Integers  # the position of the entry in the user's list, from 1
    hit: Bools  # whether the item is one of the user's targets
    n_targets: Integers  # of each user
    bits: Floats | None = None  # for novelty: how surprising the item is, -log2 of its popularity

    def total(self, weights: Floats | Bools, k: int) -> Floats:
        """The sum over each user's first k entries."""
        first = self.rank <= k
        return np.bincount(self.user[first], weights[first], minlength=len(self.n_targets)).astype(np.float64)


def recall(lists: Lists, k: int) -> Floats:
    """Share of the targets that can be in the list: sum over r <= k of hit(r), divided by min(k, |T|)."""
    return lists.total(lists.hit, k) / np.minimum(k, np.maximum(lists.n_targets, 1))


def plain_recall(lists: Lists, k: int) -> Floats:
    """Share of all targets that are in the list: sum over r <= k of hit(r), divided by |T|.

    At most `recall@k`, and equal to it for users with at most k targets.
    """
    return lists.total(lists.hit, k) / np.maximum(lists.n_targets, 1)


def precision(lists: Lists, k: int) -> Floats:
    """Share of the list that is right: sum over r <= k of hit(r), divided by k."""
    return lists.total(lists.hit, k) / k


def ndcg(lists: Lists, k: int) -> Floats:
    """DCG / IDCG with binary gains: DCG = sum over r <= k of hit(r) / log2(r + 1), IDCG = sum over r <= min(k, |T|)."""
    deepest = int(min(k, lists.n_targets.max(initial=1)))  # no user has more targets
    longest = max(deepest, int(lists.rank.max(initial=0)))
    # One logarithm at a time: in an array, the last bit may depend on the array's length.
    discounts = np.array([1 / math.log2(r + 1) for r in range(1, longest + 1)])
    ideal = np.cumsum(discounts[:deepest])
    best: Floats = ideal[np.clip(lists.n_targets, 1, deepest) - 1]
    return lists.total(lists.hit * discounts[lists.rank - 1], k) / best


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

    An item that no user has counts as if one user had it. Users with an empty list do not count.
    """
    assert lists.bits is not None
    return lists.total(lists.bits, k) / np.maximum(lists.total(np.ones(len(lists.rank)), k), 1)


def coverage(shown: Bools) -> float:
    """Share of the model's catalog that is among the first k of anyone's list."""
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
    "plain_recall": plain_recall,
    "precision": precision,
    "ndcg": ndcg,
    "map": average_precision,
    "mrr": reciprocal_rank,
    "novelty": novelty,
}
_DOCUMENTED: dict[str, Callable[..., Any]] = {**VALUE, **RANKING, "coverage": coverage}
_SHOWN = {name: name if name in VALUE else f"{name}@k" for name in _DOCUMENTED} | {"mrr": "mrr or mrr@k"}

METRICS: dict[str, str] = {_SHOWN[name]: (function.__doc__ or "") for name, function in _DOCUMENTED.items()}
"""All metrics and their formulas."""


@dataclass(frozen=True)
class Metric:
    """A metric with its cutoff: "recall@20" is Metric("recall", 20)."""

    name: str
    k: int | None = None

    @classmethod
    def parse(cls, text: Any, argument: str = "metrics") -> Metric:
        """Read a name such as "rmse" or "recall@20".

        Args:
            text: The name.
            argument: What errors call it.

        Raises:
            DataError: If there is no such metric, or its cutoff is wrong.
        """
        found = re.fullmatch(r"([a-z_]+)(?:@(\d+))?", text.strip().lower()) if isinstance(text, str) else None
        name, k = (found[1], found[2]) if found else ("", None)
        if name not in _DOCUMENTED:
            raise DataError(f"{argument}: there is no {text!r}; there are {', '.join(_SHOWN.values())}")
        if name in VALUE and k is not None:
            raise DataError(f"{argument}: {text!r} has a cutoff, but {name} is not about lists; write {name!r}")
        if name not in VALUE and name != "mrr" and k is None:
            raise DataError(f"{argument}: {name} needs a cutoff: write for instance '{name}@20'")
        if k is not None and int(k) < 1:
            raise DataError(f"{argument}: the cutoff of {text!r} must be at least 1")
        return cls(name, None if k is None else int(k))

    def __str__(self) -> str:
        return self.name if self.k is None else f"{self.name}@{self.k}"

    @property
    def is_ranking(self) -> bool:
        """Whether it is about lists of recommendations, not predicted values."""
        return self.name not in VALUE

    @property
    def lower_is_better(self) -> bool:
        """Whether it measures an error."""
        return self.name in ("rmse", "mae")

    @property
    def has_buckets(self) -> bool:
        """Whether it can be computed for the items in one bucket."""
        return self.name in VALUE or self.name in ("recall", "plain_recall")

    def bound(self, max_error: float) -> float:
        """The largest value that is averaged, if errors are at most `max_error`."""
        return {"rmse": max_error**2, "mae": max_error}.get(self.name, 1.0)

    def finish(self, mean: Floats) -> Floats:
        """The metric, from the mean of the summands."""
        return np.sqrt(np.maximum(mean, 0)) if self.name == "rmse" else mean


def parse(metrics: str | Iterable[str]) -> tuple[Metric, ...]:
    """Read a list of names; each metric may be given once."""
    if not isinstance(metrics, Iterable):
        raise DataError(f"metrics: a list of names was expected, not {metrics!r}")
    found = [Metric.parse(text) for text in ([metrics] if isinstance(metrics, str) else metrics)]
    if not found or len(set(found)) < len(found):
        raise DataError("metrics: at least one is needed, and none of them twice")
    return tuple(found)


def best_models(scores: Mapping[str, Mapping[str, float]]) -> list[tuple[str, str]]:
    """What models are for, "lists (recall@20)" and "ratings (rmse)", and the best of them by the first such metric."""
    metrics, found = [Metric.parse(name) for name in dict.fromkeys(name for own in scores.values() for name in own)], []
    for use, ranking in (("lists", True), ("ratings", False)):
        metric = next((one for one in metrics if one.is_ranking == ranking), None)
        if metric is not None:
            known = {model: own[str(metric)] for model, own in scores.items() if str(metric) in own}
            best = (min if metric.lower_is_better else max)(known, key=lambda model: known[model])
            found.append((f"{use} ({metric})", best))
    return found


# -- what each user contributes
#
# Every metric but coverage is (a function of) a ratio of two sums over users. The summands are all that an interval
# (which resamples users) or a private release (which bounds each user's contribution) needs.

ENTRIES = 2_000_000  # recommendations in memory at once
USERS = 16_384  # users in a block, at most

Key = tuple[Metric, int | None]  # a metric, over all items or in one bucket of items


@dataclass(frozen=True)
class Task:
    """What to compute, from checked arguments."""

    model: Any
    test: Interactions
    history: Interactions
    metrics: tuple[Metric, ...]
    relevant: float | None = None  # targets below this value do not count in ranking metrics
    threshold: float | None = None  # for accuracy
    exclude_seen: bool = True
    bucket_of: Integers | None = None  # the bucket of each item of the test's catalog
    n_buckets: int = 0
    bits: Floats | None = None  # -log2 of each model item's popularity, for novelty
    private: bool = False  # nothing in the data or the answers raises, and errors are at most `max_error`
    max_error: float = np.inf

    @cached_property
    def depth(self) -> int:
        """The length of the lists; 0 if none are needed."""
        longest = len(self.model.items_)
        return max((longest if m.k is None else min(m.k, longest) for m in self.metrics if m.is_ranking), default=0)

    @cached_property
    def to_model(self) -> Integers:
        """The model's number for each item of the test's catalog; -1 if the model does not know it."""
        numbers: Integers = self.model.items_.numbers(self.test.items.to_arrow(), "items")
        return numbers

    def keys(self, metric: Metric) -> list[Key]:
        """The metric over all items and, if it has them, in each bucket."""
        return [(metric, None), *((metric, b) for b in range(self.n_buckets if metric.has_buckets else 0))]

    def in_bucket(self, targets: Interactions, bucket: int | None) -> Bools | slice:
        """Which targets are in a bucket; None means all."""
        return slice(None) if self.bucket_of is None or bucket is None else self.bucket_of[targets.indices] == bucket


@dataclass
class Collected:
    """Numerators and denominators (2, users) of each metric and bucket, for the users who have a target.

    The numerators of coverage are 0. `shown` has the items that were recommended, instead.
    """

    lengths: Integers  # of these users' histories
    sums: dict[Key, Floats]
    shown: dict[Metric, Bools]

    @property
    def n_users(self) -> int:
        """How many users have a target."""
        return len(self.lengths)


def rows(table: Interactions, numbers: NDArray[Any]) -> Interactions:
    """The rows of some users in any order. Reads no other user's row."""
    counts = np.diff(table.indptr)[numbers]
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    at = np.arange(indptr[-1]) + np.repeat(table.indptr[numbers] - indptr[:-1], counts)
    return replace(
        table,
        users=Ids(table.users.take(numbers)),
        indptr=indptr,
        indices=table.indices[at],
        values=table.values[at],
        times=None if table.times is None else table.times[at],
    )


def collect(task: Task) -> Collected:
    """Compute what every user contributes to every metric, in blocks of users so that memory stays bounded."""
    asked, known = _users(task)
    keys = [key for metric in task.metrics for key in task.keys(metric)]
    shown = {m: np.zeros(len(task.model.items_), bool) for m in task.metrics if m.name == "coverage"}
    found = Collected(np.diff(task.history.indptr)[known], {key: np.zeros((2, len(asked))) for key in keys}, shown)
    # A private release asks for one user at a time: other libraries' models may answer differently in a batch.
    size = 1 if task.private else max(1, min(USERS, ENTRIES // max(task.depth, 1)))
    for start in range(0, len(asked), size):
        block = slice(start, start + size)
        past = rows(task.history, known[block])
        targets = replace(rows(task.test, asked[block]), users=past.users)
        if any(not metric.is_ranking for metric in task.metrics):
            _values(found, block, task, past, targets)
        if task.depth:
            _rankings(found, block, task, past, targets)
    return found


def _users(task: Task) -> tuple[Integers, Integers]:
    """The users who have targets: their numbers in the test and in the history."""
    asked = np.flatnonzero(np.diff(task.test.indptr))
    known = task.history.users.numbers(task.test.users.to_arrow(), "users")[asked]
    missing = known < 0
    if missing.any() and not task.private:  # a private release leaves them out: whether there are any is private
        raise DataError(
            "history: some users with test data are not in it, so the model has nothing to go on; give the history of "
            "all test users, or leave the other users out of the test data"
        )
    return asked[~missing], known[~missing]


def _values(found: Collected, block: slice, task: Task, past: Interactions, targets: Interactions) -> None:
    """Each user's sums of errors, and numbers of interactions."""
    predicted = np.asarray(task.model.predict(past, targets, on_unknown="ignore"), dtype=np.float64)
    if predicted.shape != targets.values.shape:
        raise DataError("model: predict must return one value for each target")
    if not task.private and not np.isfinite(predicted).all():
        raise DataError("model: predict returned values that are not finite; fit it again")
    value, owner = targets.values.astype(np.float64), targets.user_numbers()
    for metric in (metric for metric in task.metrics if not metric.is_ranking):
        each = VALUE[metric.name](predicted, value, task.threshold)
        if task.private:  # within the bound, whatever the model answered
            bound = metric.bound(task.max_error)
            each = np.minimum(np.nan_to_num(each, nan=bound, posinf=bound), bound)
        for key in task.keys(metric):
            inside = task.in_bucket(targets, key[1])
            for side, weights in enumerate((each, np.ones(len(each)))):
                found.sums[key][side, block] = np.bincount(owner[inside], weights[inside], minlength=targets.n_users)


def _rankings(found: Collected, block: slice, task: Task, past: Interactions, targets: Interactions) -> None:
    """Each user's value of the ranking metrics; the denominator says whether the user counts."""
    if task.relevant is not None:
        targets = targets.where(targets.values >= task.relevant)
    answer = task.model.recommend(past, n=task.depth, exclude_seen=task.exclude_seen, on_unknown="ignore")
    indptr, numbers = np.asarray(answer.indptr, dtype=np.int64), np.asarray(answer.numbers, dtype=np.int64)
    if len(indptr) != targets.n_users + 1 or indptr[-1] != len(numbers):
        raise DataError("model: recommend must return one list for each user")
    in_bucket = {bucket: _lists(task, targets, bucket, indptr, numbers) for bucket in (None, *range(task.n_buckets))}
    for metric, bucket in (key for one in task.metrics if one.is_ranking for key in task.keys(one)):
        k, lists = task.depth if metric.k is None else metric.k, in_bucket[bucket]
        counts = lists.n_targets > 0
        if metric.name == "coverage":
            found.shown[metric][numbers[(lists.rank <= k) & counts[lists.user]]] = True
            value = np.zeros(targets.n_users)
        else:
            value = RANKING[metric.name](lists, k)
        if metric.name == "novelty":
            counts &= np.diff(indptr) > 0
        found.sums[metric, bucket][:, block] = np.where(counts, value, 0.0), counts


def _lists(task: Task, targets: Interactions, bucket: int | None, indptr: Integers, numbers: Integers) -> Lists:
    """The recommendations, and which of them are targets in a bucket."""
    inside = task.in_bucket(targets, bucket)
    owner, wanted = targets.user_numbers()[inside].astype(np.int64), task.to_model[targets.indices[inside]]
    lengths, size = np.diff(indptr), max(len(task.model.items_), 1)
    user = np.repeat(np.arange(targets.n_users), lengths)
    return Lists(
        user,
        rank=np.arange(len(numbers)) - np.repeat(indptr[:-1], lengths) + 1,
        hit=np.isin(user * size + numbers, (owner * size + wanted)[wanted >= 0]),
        n_targets=np.bincount(owner, minlength=targets.n_users),
        bits=None if task.bits is None else task.bits[numbers],
    )
