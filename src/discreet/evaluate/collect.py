"""Each user's part in every metric, computed block by block, so that memory stays bounded.

Every metric but coverage is (a function of) a ratio of two sums over users. What this module returns are the summands:
they are all that an interval (resample users) or a private release (bound each user's part) needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.data import Interactions
from discreet.data.catalogue import Ids
from discreet.errors import DataError
from discreet.evaluate import metrics as formulas
from discreet.evaluate.metrics import Bools, Lists, Metric
from discreet.typing import Floats, Integers

_ENTRIES = 2_000_000  # recommendations held at once
_USERS = 16_384  # users in a block, at most

Key = tuple[Metric, int | None]  # a metric, over all items or in one bucket of items


class Model(Protocol):
    """What is asked of a model."""

    @property
    def items_(self) -> Ids:
        """The items that it knows."""
        ...

    def predict(self, *args: Any, **kwargs: Any) -> Any:
        """`predict(history, targets, on_unknown="ignore")`: an array aligned with the targets."""
        ...

    def recommend(self, *args: Any, **kwargs: Any) -> Any:
        """`recommend(history, n=k, exclude_seen=True, on_unknown="ignore")`: lists, as `indptr` and `numbers`."""
        ...


@dataclass(frozen=True)
class Task:
    """What to compute, all arguments checked.

    Attributes:
        model: The model.
        test: The targets.
        history: What the model is shown of the users.
        metrics: The metrics.
        relevant: Targets below this value do not count in ranking metrics; None: all count.
        threshold: What accuracy is about.
        exclude_seen: Whether items of the history are left out of the lists.
        bucket_of: The bucket of each item of the test's catalogue, or None.
        n_buckets: How many buckets.
        bits: -log2 of each model item's popularity, where novelty is asked for.
        private: For a private release: nothing in the data or the answers raises, and errors are bounded.
        max_error: The bound on errors then.
    """

    model: Model
    test: Interactions
    history: Interactions
    metrics: tuple[Metric, ...]
    relevant: float | None = None
    threshold: float | None = None
    exclude_seen: bool = True
    bucket_of: Integers | None = None
    n_buckets: int = 0
    bits: Floats | None = None
    private: bool = False
    max_error: float = np.inf

    @property
    def depth(self) -> int:
        """How long the lists must be; 0 if none are needed."""
        longest = len(self.model.items_)
        return max((longest if m.k is None else min(m.k, longest) for m in self.metrics if m.is_ranking), default=0)

    @cached_property
    def to_model(self) -> Integers:
        """The model's number of each item of the test's catalogue; -1 for those that it does not know."""
        return self.model.items_.numbers(self.test.items.to_arrow(), "items")

    def keys(self, metric: Metric) -> list[Key]:
        """The metric over all items and, where it has them, in each bucket."""
        return [(metric, None), *((metric, b) for b in range(self.n_buckets if metric.has_buckets else 0))]


@dataclass
class Collected:
    """Numerators and denominators, one pair for each user who has a target.

    Attributes:
        sums: For each metric (and bucket) two arrays, aligned with the users.
        shown: For each coverage metric which items of the model were recommended to anyone, and to how many users.
        n_users: How many users have a target.
    """

    n_users: int
    sums: dict[Key, tuple[Floats, Floats]] = field(default_factory=dict)
    shown: dict[Metric, tuple[Bools, int]] = field(default_factory=dict)


def rows(table: Interactions, numbers: NDArray[Any]) -> Interactions:
    """The rows of some users in any order, without a look at the others."""
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
            "history: there are users with targets in test who are not in it, so there is nothing to show the model "
            "of them; give the history of all test users, or evaluate on test.for_users(...) those that it has"
        )
    return asked[~missing], known[~missing]


def collect(task: Task) -> Collected:
    """Compute every user's part in every metric."""
    asked, known = paired_users(task)
    blocks = [_block(task, asked[part], known[part]) for part in _parts(task, len(asked))]
    whole = Collected(len(asked))
    for metric in task.metrics:
        if metric.name == "coverage":
            masks = [np.zeros(len(task.model.items_), dtype=bool), *(block.shown[metric][0] for block in blocks)]
            whole.shown[metric] = np.logical_or.reduce(masks), sum(block.shown[metric][1] for block in blocks)
            continue
        for key in task.keys(metric):
            pairs = [block.sums[key] for block in blocks]
            whole.sums[key] = (_joined([n for n, _ in pairs]), _joined([d for _, d in pairs]))
    return whole


def _parts(task: Task, n_users: int) -> Iterator[slice]:
    """Blocks of users; of one, for a private release: other libraries' models may answer a batch in another way."""
    size = 1 if task.private else max(1, min(_USERS, _ENTRIES // max(task.depth, 1)))
    return (slice(start, start + size) for start in range(0, n_users, size))


def _joined(arrays: list[Floats]) -> Floats:
    return np.concatenate(arrays) if arrays else np.zeros(0)


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
    """Sums of errors for each user, and of interactions."""
    predicted = np.asarray(task.model.predict(past, targets, on_unknown="ignore"), dtype=np.float64)
    if predicted.shape != targets.values.shape:
        raise DataError("model: predict must answer with one value for each target")
    if not task.private and not np.isfinite(predicted).all():
        raise DataError("model: predict answered with values that are not finite; fit it again")
    value = targets.values.astype(np.float64)
    owner = targets.user_numbers()
    bucket = 0 if task.bucket_of is None else task.bucket_of[targets.indices]
    for metric in (metric for metric in task.metrics if not metric.is_ranking):
        each = _bounded(task, metric, formulas.VALUE[metric.name](predicted, value, task.threshold))
        for key in task.keys(metric):
            inside = np.ones(len(each)) if key[1] is None else np.equal(bucket, key[1]).astype(np.float64)
            block.sums[key] = _per_user(owner, each * inside, block.n_users), _per_user(owner, inside, block.n_users)


def _per_user(owner: NDArray[Any], each: Floats, n_users: int) -> Floats:
    """Sums by user."""
    return np.bincount(owner, each, minlength=n_users).astype(np.float64)


def _bounded(task: Task, metric: Metric, each: Floats) -> Floats:
    """Errors within the bound of a private release, whatever the model answered."""
    if not task.private:
        return each
    bound = metric.bound(task.max_error)
    return np.minimum(np.nan_to_num(each, nan=bound, posinf=bound), bound)


def _rankings(task: Task, past: Interactions, targets: Interactions, block: Collected) -> None:
    """Each user's value of the ranking metrics; the denominator says whether the user counts."""
    if task.relevant is not None:
        targets = targets.where(targets.values >= task.relevant)
    answer = task.model.recommend(past, n=task.depth, exclude_seen=task.exclude_seen, on_unknown="ignore")
    indptr, numbers = np.asarray(answer.indptr, dtype=np.int64), np.asarray(answer.numbers, dtype=np.int64)
    if len(indptr) != block.n_users + 1 or indptr[-1] != len(numbers):
        raise DataError("model: recommend answered with lists that are not those of the users asked for")
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
            value = np.where(counts, formulas.RANKING[metric.name](part, k), 0.0)
            block.sums[key] = (value, counts.astype(np.float64))


def _hits(task: Task, targets: Interactions, indptr: Integers, numbers: Integers) -> tuple[Lists, Integers]:
    """Which recommendations are targets; and the item of the test's catalogue that each hit is."""
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
