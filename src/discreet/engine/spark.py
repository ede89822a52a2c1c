"""Users in the partitions of a Spark cluster: each partition keeps its users' rows, and emits nothing but sums.

A pass over the users is one Spark job. In its first stage, a partition opens the broadcast of functions and public
arrays from the driver, works through its rows, and emits its total in blocks (`partials`). In the next stages the
blocks are added up, 16 partitions at a time. The driver gets integers, sums over all users, and releases them: only it
draws noise, once, after the job has succeeded. Why no user is counted twice: docs/proofs/spark.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.data.catalogue import smallest_unsigned
from discreet.data.spark import Broadcast, SparkInteractions, settings
from discreet.engine.local import Blocks
from discreet.engine.partials import BRANCHES, PARTIAL, Layout, added_up, emitted, kernels_of, put_together
from discreet.errors import PrivacyError
from discreet.kernels.threads import single_threaded_blas
from discreet.privacy.determinism import kernels, require_sound_arithmetic
from discreet.privacy.releaser import Encoded
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array

if TYPE_CHECKING:
    import pyarrow as pa


TRIES = 3
# A row of these tables is up to some megabytes, and Spark counts rows; plans of two stages are not worth adapting.
SETTINGS = {"spark.sql.execution.arrow.maxRecordsPerBatch": "8", "spark.sql.adaptive.enabled": "false"}


def stored_rows(row: dict[str, bytes], n_items: int) -> UserBatch:
    """Some users' rows, from the bytes that a partition keeps."""
    numbers = np.frombuffer(row["indices"], smallest_unsigned(n_items))
    return UserBatch(np.frombuffer(row["indptr"], np.int64), numbers, np.frombuffer(row["values"], np.float32))


@dataclass(frozen=True)
class Pass:
    """What a partition does with its users' rows: public functions and arrays."""

    make: Callable[[Any], Any]
    work: Encoded
    most_users: int | None
    n_items: int

    @property
    def layout(self) -> Layout:
        """Of the total."""
        return Layout(self.work.shape, self.work.symmetric)

    def total(self, batches: Iterable[pa.RecordBatch]) -> tuple[Array, set[str]]:
        """What the users of a partition contribute together, and the kernels it was read and computed with."""
        from discreet.engine.batches import parts

        total, used = np.zeros(self.work.shape, np.int64), {kernels()}
        with single_threaded_blas():  # a task has one core
            for batch in batches:
                for row in batch.select(["indptr", "indices", "values", "kernels"]).to_pylist():
                    used.add(row["kernels"])
                    rows = stored_rows(row, self.n_items)
                    for part in parts(rows, rows.values, most_users=self.most_users):
                        total = self.work.add(total, self.work(self.make(part)), 1)
        return total, used


def add_up(table: SparkInteractions, task: Pass) -> Array:
    """The exact sum of what all partitions contribute, each of them once."""
    for _ in range(TRIES):
        sums = partial_sums(table, task)
        table.require_equal_kernels(kernels_of(sums))
        total = put_together(sums, task.layout, table.n_partitions)
        if total is not None:
            return total
    raise PrivacyError(
        "ratings: Spark has computed partitions more than once, with different results, so that a user may count "
        "twice in a sum. Nothing of it was released. If the table is random, or is being written to, store it first "
        "and read it from there"
    )


@singledispatch
def partial_sums(table: SparkInteractions, task: Pass) -> pa.Table:
    """The sums of all blocks, by one job."""
    session = table.rows.sparkSession
    broadcast = Broadcast.of(task, session.sparkContext)
    try:
        with settings(session, SETTINGS):
            return _job(table.rows, broadcast, task.layout, table.n_partitions).toArrow()
    finally:
        broadcast.discard()


def _job(rows: Any, broadcast: Broadcast, layout: Layout, n_partitions: int) -> Any:
    """The stages of a pass, not yet run."""
    from pyspark.sql.functions import expr

    branches = BRANCHES  # the value here, not that of a worker

    def partial(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        require_sound_arithmetic()
        context = TaskContext.get()
        assert context is not None
        contributed, used = broadcast.open().total(batches)
        yield from emitted(contributed, layout, context.partitionId(), used)

    def total(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return added_up(batches, layout, branches)

    sums, n, cores = rows.mapInArrow(partial, PARTIAL), n_partitions, rows.sparkSession.sparkContext.defaultParallelism
    while True:
        n = -(-n // branches)
        meeting = expr(f"branch div {branches}")
        sums = sums.repartition(min(layout.n_blocks * n, cores), "block", meeting).mapInArrow(total, PARTIAL)
        if n == 1:
            return sums


@dataclass(frozen=True)
class SparkBlocks(Blocks[Any]):
    """Blocks in the partitions of a cluster.

    Attributes:
        table: Whose rows.
        most_users: Of a block.
        make: Functions that are applied to each block, in order.
    """

    table: SparkInteractions
    most_users: int | None
    make: tuple[Callable[[Any], Any], ...] = ()

    @property
    def made(self) -> Callable[[Any], Any]:
        """All of `make` as one function, which holds nothing but what is public."""
        steps = self.make

        def made(part: Any) -> Any:
            for step in steps:
                part = step(part)
            return part

        return made

    def map(self, make: Callable[[Any], Any]) -> SparkBlocks:
        """The same users, with each block replaced by `make` of it."""
        return SparkBlocks(self.table, self.most_users, (*self.make, make))

    def keep(self, n_jobs: int | None) -> SparkBlocks:
        """The same: partitions keep nothing but users' rows, and make blocks anew for each sum."""
        return self

    def add_up(self, work: Encoded, n_jobs: int | None) -> Array:
        """The sum, by a Spark job; the cluster decides on the number of threads."""
        return add_up(self.table, Pass(self.made, work, self.most_users, self.table.n_items))
