"""How popular items are: buckets of items from the most to the least popular, and the surprise of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import numpy as np

from discreet.data import Interactions
from discreet.data.catalogue import Ids
from discreet.errors import DataError
from discreet.evaluate.collect import Key, Task
from discreet.evaluate.result import Bucket, Score
from discreet.typing import Floats, Integers

BucketBy = Literal["items", "interactions"]


def counts(popularity: Interactions, items: Ids) -> Integers:
    """How many interactions each of some items has in a table; 0 for those that it does not know."""
    known = np.bincount(popularity.indices, minlength=popularity.n_items)
    at = popularity.items.numbers(items.to_arrow(), "items")
    return np.where(at >= 0, known[at], 0).astype(np.int64) if len(known) else np.zeros(len(items), np.int64)


def surprise(popularity: Interactions, items: Ids) -> Floats:
    """-log2 of the share of users who have each item; an item that nobody has counts as one that a single user has."""
    bits: Floats = np.log2(max(popularity.n_users, 1)) - np.log2(np.maximum(counts(popularity, items), 1))
    return bits


def buckets(per_item: Integers, n_buckets: int, by: BucketBy) -> Integers:
    """The bucket of each item, 0 for the most popular ones.

    Items are sorted by count, ties in the order of the catalogue, and divided

    - by "items": into buckets of equal numbers of items (they differ by one at most, the first are the larger ones);
    - by "interactions": into buckets of equal numbers of interactions, as nearly as whole items allow: an item
      belongs to the bucket that the middle of its stretch of the cumulative count falls into. An item with more
      than its share of all interactions can leave a bucket empty.
    """
    if by not in ("items", "interactions"):
        raise DataError(f"bucket_by: must be 'items' or 'interactions', not {by!r}")
    if n_buckets > max(len(per_item), 1):
        raise DataError(f"buckets: {n_buckets} buckets cannot be made of {len(per_item)} items; ask for fewer")
    order = np.argsort(-per_item, kind="stable")
    bucket = np.empty(len(per_item), dtype=np.int64)
    if by == "items":
        sizes = [len(part) for part in np.array_split(order, n_buckets)]
        bucket[order] = np.repeat(np.arange(n_buckets), sizes)
    else:
        ends = np.cumsum(per_item[order])
        middle = (ends - per_item[order] / 2) / max(int(per_item.sum()), 1)
        bucket[order] = np.minimum(middle * n_buckets, n_buckets - 1).astype(np.int64)
    return bucket


def with_buckets(task: Task, source: Interactions, n_buckets: int, by: BucketBy) -> Task:
    """The same task, with its items in buckets by their popularity in a table."""
    if not any(metric.has_buckets for metric in task.metrics):
        raise DataError("buckets: none of the metrics can be divided by item; rmse, mae, accuracy and recall@k can")
    bucket_of = buckets(counts(source, task.test.items), n_buckets, by)
    return replace(task, bucket_of=bucket_of, n_buckets=n_buckets)


def bucket_table(task: Task, source: Interactions, scores: Mapping[Key, Score]) -> list[Bucket]:
    """What is in each bucket, and how well the model does there; empty without buckets."""
    if task.bucket_of is None:
        return []
    per_item = counts(source, task.test.items)
    items = np.bincount(task.bucket_of, minlength=task.n_buckets)
    share = np.bincount(task.bucket_of, per_item, minlength=task.n_buckets) / max(int(per_item.sum()), 1)
    divided = [metric for metric in task.metrics if metric.has_buckets]
    return [
        Bucket(b + 1, int(items[b]), float(share[b]), {str(metric): scores[metric, b] for metric in divided})
        for b in range(task.n_buckets)
    ]
