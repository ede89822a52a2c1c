"""The metrics: each one's formula, and each user's part in it.

Two families. *Value* metrics (rmse, mae, accuracy) compare a prediction with each test interaction and are means over
interactions, as in the papers: a user with many targets weighs more. *Ranking* metrics look at each user's list of
recommendations and are means over users who have at least one target; `coverage@k` alone is about all lists together.

Notation: `T` are a user's targets and `|T|` is their number, including targets that the model has never seen. `hit(r)`
is 1 if the item at rank r = 1, 2, ... of the list is a target, else 0. A list may be shorter than k; every missing item
is a miss.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
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

    user: Integers  # whose list the entry is in, 0 .. n_users - 1
    rank: Integers  # its place in that list, from 1
    hit: Bools  # whether it is one of the user's targets
    n_targets: Integers  # of each user
    bits: Floats | None = None  # how surprising the item is, -log2 of its popularity, for novelty

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

    An item that nobody has counts as one that a single user has. Users whose list is empty do not count.
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
    def lower_is_better(self) -> bool:
        """Whether it measures an error."""
        return self.name in ("rmse", "mae")

    @property
    def has_buckets(self) -> bool:
        """Whether it can be computed for items of some popularity alone."""
        return self.name in VALUE or self.name == "recall"

    def bound(self, max_error: float) -> float:
        """The largest possible value of what is averaged, when errors are at most `max_error`."""
        return {"rmse": max_error**2, "mae": max_error}.get(self.name, 1.0)

    def finish(self, mean: Floats) -> Floats:
        """The metric, from the mean of what is added up."""
        return np.sqrt(np.maximum(mean, 0)) if self.name == "rmse" else mean


def parse(metrics: str | Iterable[str]) -> tuple[Metric, ...]:
    """Read a list of names; each metric may be given once."""
    if not isinstance(metrics, Iterable):
        raise DataError(f"metrics: a list of names was expected, not {metrics!r}")
    found = [Metric.parse(text) for text in ([metrics] if isinstance(metrics, str) else metrics)]
    if not found or len(set(found)) < len(found):
        raise DataError("metrics: at least one is needed, and none of them twice")
    return tuple(found)


# -- each user's part in a metric
#
# Every metric but coverage is (a function of) a ratio of two sums over users. The summands are all that an interval
# (which resamples users) or a private release (which bounds each user's part) needs.

ENTRIES = 2_000_000  # recommendations in memory at once
USERS = 16_384  # users in a block, at most

Key = tuple[Metric, int | None]  # a metric, over all items or in one bucket of items


@dataclass(frozen=True)
class Task:
    """What to compute. All arguments have been checked."""

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
        """How long the lists must be; 0 if none are needed."""
        longest = len(self.model.items_)
        return max((longest if m.k is None else min(m.k, longest) for m in self.metrics if m.is_ranking), default=0)

    @cached_property
    def to_model(self) -> Integers:
        """The model's number of each item of the test's catalog; -1 for an item that it does not know."""
        numbers: Integers = self.model.items_.numbers(self.test.items.to_arrow(), "items")
        return numbers

    def keys(self, metric: Metric) -> list[Key]:
        """The metric over all items and, where it has them, in each bucket."""
        return [(metric, None), *((metric, b) for b in range(self.n_buckets if metric.has_buckets else 0))]


@dataclass
class Collected:
    """Numerators and denominators of each metric (and bucket), one pair for each user who has a target."""

    n_users: int
    sums: dict[Key, tuple[Floats, Floats]] = field(default_factory=dict)
    shown: dict[Metric, tuple[Bools, int]] = field(default_factory=dict)  # coverage: items recommended, users counted


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


def paired_users(task: Task) -> tuple[Integers, Integers]:
    """The users who have targets: their numbers in the test and in the history."""
    asked = np.flatnonzero(np.diff(task.test.indptr))
    known = task.history.users.numbers(task.test.users.to_arrow(), "users")[asked]
    missing = known < 0
    if missing.any() and not task.private:  # a private release leaves them out: whether there are any is private
        raise DataError(
            "history: there are users with targets in test who are not in it, so the model has nothing to go on; give "
            "the history of all test users, or evaluate on test.for_users(...) the users that it has"
        )
    return asked[~missing], known[~missing]


def collect(task: Task) -> Collected:
    """Compute every user's part in every metric, in blocks of users so that memory stays bounded."""
    asked, known = paired_users(task)
    # A private release asks for one user at a time: other libraries' models may answer differently in a batch.
    size = 1 if task.private else max(1, min(USERS, ENTRIES // max(task.depth, 1)))
    parts = [slice(start, start + size) for start in range(0, len(asked), size)]
    blocks = [_block(task, asked[part], known[part]) for part in parts]
    total = Collected(len(asked))
    for metric in task.metrics:
        if metric.name == "coverage":
            masks = [np.zeros(len(task.model.items_), dtype=bool), *(block.shown[metric][0] for block in blocks)]
            total.shown[metric] = np.logical_or.reduce(masks), sum(block.shown[metric][1] for block in blocks)
            continue
        for key in task.keys(metric):
            above, below = (
                np.concatenate([np.zeros(0), *(block.sums[key][side] for block in blocks)]) for side in (0, 1)
            )
            total.sums[key] = above, below
    return total


def _block(task: Task, asked: Integers, known: Integers) -> Collected:
    past = rows(task.history, known)
    targets = replace(rows(task.test, asked), users=past.users)
    block = Collected(len(asked))
    if any(not metric.is_ranking for metric in task.metrics):
        _values(task, past, targets, block)
    if task.depth:
        _rankings(task, past, targets, block)
    return block


def _values(task: Task, past: Interactions, targets: Interactions, block: Collected) -> None:
    """Each user's sums of errors, and numbers of interactions."""
    predicted = np.asarray(task.model.predict(past, targets, on_unknown="ignore"), dtype=np.float64)
    if predicted.shape != targets.values.shape:
        raise DataError("model: predict must return one value for each target")
    if not task.private and not np.isfinite(predicted).all():
        raise DataError("model: predict returned values that are not finite; fit it again")
    value = targets.values.astype(np.float64)
    owner = targets.user_numbers()
    bucket = 0 if task.bucket_of is None else task.bucket_of[targets.indices]
    for metric in (metric for metric in task.metrics if not metric.is_ranking):
        each = VALUE[metric.name](predicted, value, task.threshold)
        if task.private:  # within the bound, whatever the model answered
            bound = metric.bound(task.max_error)
            each = np.minimum(np.nan_to_num(each, nan=bound, posinf=bound), bound)
        for key in task.keys(metric):
            inside = np.ones(len(each)) if key[1] is None else np.equal(bucket, key[1]).astype(np.float64)
            above, below = (np.bincount(owner, x, minlength=block.n_users) for x in (each * inside, inside))
            block.sums[key] = above.astype(np.float64), below.astype(np.float64)


def _rankings(task: Task, past: Interactions, targets: Interactions, block: Collected) -> None:
    """Each user's value of the ranking metrics; the denominator says whether the user counts."""
    if task.relevant is not None:
        targets = targets.where(targets.values >= task.relevant)
    answer = task.model.recommend(past, n=task.depth, exclude_seen=task.exclude_seen, on_unknown="ignore")
    indptr, numbers = np.asarray(answer.indptr, dtype=np.int64), np.asarray(answer.numbers, dtype=np.int64)
    if len(indptr) != block.n_users + 1 or indptr[-1] != len(numbers):
        raise DataError("model: recommend returned lists that are not those of the users asked for")
    lists, item = _hits(task, targets, indptr, numbers)
    for metric in (metric for metric in task.metrics if metric.is_ranking):
        k = task.depth if metric.k is None else metric.k
        if metric.name == "coverage":
            counts = lists.n_targets > 0
            shown = np.zeros(len(task.model.items_), dtype=bool)
            shown[numbers[(lists.rank <= k) & counts[lists.user]]] = True
            block.shown[metric] = shown, int(counts.sum())
            continue
        for key in task.keys(metric):
            part = lists if key[1] is None else _in_bucket(task, targets, lists, item, key[1])
            counts = part.n_targets > 0
            if metric.name == "novelty":
                counts &= np.diff(indptr) > 0
            value = np.where(counts, RANKING[metric.name](part, k), 0.0)
            block.sums[key] = (value, counts.astype(np.float64))


def _hits(task: Task, targets: Interactions, indptr: Integers, numbers: Integers) -> tuple[Lists, Integers]:
    """Which recommendations are targets; and the item of the test's catalog that each hit is."""
    n_users, size = targets.n_users, max(len(task.model.items_), 1)
    lengths = np.diff(indptr)
    user = np.repeat(np.arange(n_users), lengths)
    rank = np.arange(len(numbers)) - np.repeat(indptr[:-1], lengths) + 1
    owner = targets.user_numbers().astype(np.int64)
    wanted = task.to_model[targets.indices]
    known = np.flatnonzero(wanted >= 0)
    keys = owner[known] * size + wanted[known]
    order = np.argsort(keys)
    keys, known = keys[order], known[order]
    item = np.full(len(numbers), -1, dtype=np.int64)
    hit = np.zeros(len(numbers), dtype=bool)
    if len(keys):
        found = user * size + numbers
        at = np.minimum(np.searchsorted(keys, found), len(keys) - 1)
        hit = keys[at] == found
        item[hit] = targets.indices[known[at[hit]]]
    bits = None if task.bits is None else task.bits[numbers]
    return Lists(user, rank, hit, np.bincount(owner, minlength=n_users), bits), item


def _in_bucket(task: Task, targets: Interactions, lists: Lists, item: Integers, bucket: int) -> Lists:
    """The same lists, when only the targets in one bucket count."""
    assert task.bucket_of is not None
    inside = task.bucket_of[targets.indices] == bucket
    n_targets = np.bincount(targets.user_numbers()[inside], minlength=targets.n_users)
    return replace(lists, hit=lists.hit & (task.bucket_of[item] == bucket), n_targets=n_targets)
