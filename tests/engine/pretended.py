"""A cluster without Spark: partitions in this process, which run the very functions that Spark would run."""

from __future__ import annotations

import io
import pickle
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.cloudpickle import CloudPickler

import discreet
from discreet.data.cleaning import Recipe
from discreet.data.sources import choose
from discreet.data.spark import SparkInteractions, chunks, read_partition
from discreet.engine.spark import Layout, Pass, added_up, emitted, partial_sums


def shipped(thing: Any) -> Any:
    """What arrives elsewhere: a releaser, a ledger or another user's rows in it would not."""
    content = io.BytesIO()
    CloudPickler(content).dump(thing)
    return pickle.loads(content.getvalue())


@dataclass(frozen=True)
class Pretended(SparkInteractions):
    """Users divided by a hash of their ids; `trouble` is what happens to the partial sums on their way."""

    partitions: list[list[pa.RecordBatch]] = field(default_factory=list)
    trouble: Callable[[list[pa.RecordBatch]], list[pa.RecordBatch]] = lambda partials: partials

    @classmethod
    def of(cls, data: discreet.Interactions, n: int, **given: Any) -> Pretended:
        table = data.to_arrow()
        columns = choose(
            table.column_names, user="user", item="item", value=None if data.implicit else "rating", time=None
        )
        recipe = Recipe(columns, data.items, data.value_range, "raise", "raise", "raise")
        where = np.array([zlib.crc32(str(user).encode()) % n for user in table["user"].to_pylist()])
        own = [table.select(columns.names).filter(pa.array(where == i)).to_batches() for i in range(n)]
        kept = [list(chunks(*read_partition(recipe, batches))) for batches in own]
        return cls(None, n, data.catalogue, data.value_range, data.implicit, partitions=kept, **given)


@partial_sums.register
def _pretended_sums(table: Pretended, task: Pass) -> pa.Table:
    layout = task.layout
    totals = [shipped(task).total(kept) for kept in table.partitions]
    partials = [one for i, (total, used) in enumerate(totals) for one in emitted(total, layout, i, used)]
    return pa.Table.from_batches(tree(table.trouble(partials), layout, len(totals)))


def tree(partials: list[pa.RecordBatch], layout: Layout, n: int, branches: int = 3) -> list[pa.RecordBatch]:
    """Sums of partials, a few branches at a time."""
    while True:
        partials, n = list(added_up(partials, layout, branches)), -(-n // branches)
        if n == 1:
            return partials
