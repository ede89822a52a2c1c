"""Users in the partitions of a Spark cluster: each partition keeps its users' rows and emits only sums.

A pass over the users is one Spark job. In the first stage, each partition reads the broadcast of functions and public
arrays from the driver, works through its rows, and emits its total in blocks of grid units. The next stages add up the
blocks, 16 partitions at a time. The driver gets integer sums over all users and releases them: only the driver draws
noise, once, after the job has succeeded. docs/proofs/spark.md proves that no user is counted twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, reduce, singledispatch
from hashlib import blake2b
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.data.catalogue import smallest_unsigned
from discreet.data.spark import Broadcast, SparkInteractions, settings
from discreet.engine.batches import Blocks, parts
from discreet.errors import PrivacyError
from discreet.parallel import single_threaded_blas
from discreet.privacy.determinism import machine_kernels, require_sound_arithmetic
from discreet.privacy.releaser import Encoded
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array

if TYPE_CHECKING:
    import pyarrow as pa


TRIES = 3
# Rows of these tables can be megabytes long, but Spark's limits count rows; plans of two stages need no adapting.
SETTINGS = {"spark.sql.execution.arrow.maxRecordsPerBatch": "8", "spark.sql.adaptive.enabled": "false"}

# -- how sums travel from partitions to the driver: in blocks with checksums, added up exactly
#
# A cluster may run a task twice, and use one block from the first run and another from the second. If the runs saw
# different rows, a user could be in both, and their contribution would exceed its bound. So a partition marks blocks
# with its number and a digest of the whole total; sums keep the checksums of their parts; and the driver accepts sums
# only if every block has the same checksums, one from each partition.

PARTIAL = "block int, branch int, checksums binary, kernels array<string>, touched binary, units binary"
BLOCK_UNITS = 1 << 17  # numbers in a block: a megabyte
BRANCHES = 16  # how many partial sums one task adds up
DIGEST = 16  # bytes of a checksum
CHECKSUM = np.dtype([("source", "<i4"), ("digest", f"V{DIGEST}")])


@dataclass(frozen=True)
class Layout:
    """How an array of integers is sent: as a (length, width) table, in blocks of rows.

    A row has all numbers of one item; rows of zeros are not sent. If the last two axes are symmetric matrices,
    only the upper triangles are sent.
    """

    shape: tuple[int, ...]
    symmetric: bool = False

    @property
    def width(self) -> int:
        """The number of columns."""
        if not self.symmetric:
            return prod(self.shape[1:])
        return 1 if len(self.shape) == 2 else len(self._triangle[0])

    @property
    def length(self) -> int:
        """The number of rows."""
        return len(self._triangle[0]) if self.symmetric and len(self.shape) == 2 else self.shape[0]

    @property
    def rows(self) -> int:
        """The number of rows in a block."""
        return max(1, BLOCK_UNITS // max(self.width, 1))

    @property
    def n_blocks(self) -> int:
        return -(-self.length // self.rows)

    def nothing(self, block: int) -> Array:
        """A block of zeros."""
        return np.zeros((min(self.rows, self.length - block * self.rows), self.width), np.int64)

    @cached_property
    def _triangle(self) -> tuple[Array, Array]:
        return np.triu_indices(self.shape[-1])

    def packed(self, total: Array) -> Array:
        """The array as a table."""
        if self.symmetric:
            total = total[(..., *self._triangle)]
        return np.ascontiguousarray(total.reshape(self.length, self.width))

    def unpacked(self, rows: Array) -> Array:
        """The inverse of `packed`, with zeros below the diagonal of symmetric matrices."""
        if not self.symmetric:
            return rows.reshape(self.shape)
        total = np.zeros(self.shape, rows.dtype)
        total[(..., *self._triangle)] = rows.reshape(*self.shape[:-2], -1)
        return total


def emitted(total: Array, layout: Layout, source: int, kernels: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """A partition's total, block by block. Blocks of zeros are sent, too: their checksums and kernels matter."""
    table = layout.packed(total)
    checksum = np.array([(source, blake2b(table.data, digest_size=DIGEST).digest())], CHECKSUM)
    for block in range(layout.n_blocks):
        rows = table[block * layout.rows : (block + 1) * layout.rows]
        yield _batch(block, source, checksum, kernels, rows)


def _batch(block: int, branch: int, checksums: Array, kernels: Iterable[str], rows: Array) -> pa.RecordBatch:
    """A block, without the rows that are zero."""
    import pyarrow as pa

    touched = rows.any(axis=1)
    return pa.RecordBatch.from_pydict(
        {
            "block": pa.array([block], pa.int32()),
            "branch": pa.array([branch], pa.int32()),
            "checksums": [np.sort(checksums, order="source").tobytes()],
            "kernels": pa.array([sorted(kernels)], pa.list_(pa.string())),
            "touched": [np.packbits(touched).tobytes()],
            "units": [rows[touched].tobytes()],
        }
    )


def added_up(batches: Iterable[pa.RecordBatch], layout: Layout, branches: int) -> Iterator[pa.RecordBatch]:
    """The sums of blocks over the branches of this task, with all their checksums and kernels."""
    sums: dict[tuple[int, int], tuple[Array, list[Array], set[str]]] = {}
    for batch in batches:
        for row in batch.to_pylist():
            zero = layout.nothing(row["block"]), list[Array](), set[str]()
            total, checksums, kernels = sums.setdefault((row["block"], row["branch"] // branches), zero)
            total[_touched(row, total)] += np.frombuffer(row["units"], np.int64).reshape(-1, layout.width)
            checksums.append(np.frombuffer(row["checksums"], CHECKSUM))
            kernels.update(row["kernels"])
    for (block, branch), (total, checksums, kernels) in sums.items():
        yield _batch(block, branch, np.concatenate(checksums), kernels, total)


def _touched(row: dict[str, Any], rows: Array) -> Array:
    return np.unpackbits(np.frombuffer(row["touched"], np.uint8), count=len(rows)).astype(bool)


def put_together(sums: pa.Table, layout: Layout, n_sources: int) -> Array | None:
    """The whole array, or None unless each block is the sum of the same totals, one from each partition."""
    found = sums.to_pylist()
    complete = sorted(row["block"] for row in found) == list(range(layout.n_blocks))
    alike = {row["checksums"] for row in found}
    if not (complete and len(alike) == 1):
        return None
    if not np.array_equal(np.frombuffer(alike.pop(), CHECKSUM)["source"], np.arange(n_sources)):
        return None
    rows = np.zeros((layout.length, layout.width), np.int64)
    for row in found:
        own = rows[row["block"] * layout.rows : (row["block"] + 1) * layout.rows]
        own[_touched(row, own)] = np.frombuffer(row["units"], np.int64).reshape(-1, layout.width)
    return layout.unpacked(rows)


# -- passes over the users


def stored_rows(row: dict[str, bytes], n_items: int) -> UserBatch:
    """Users' rows, from the bytes that a partition keeps."""
    numbers = np.frombuffer(row["indices"], smallest_unsigned(n_items))
    return UserBatch(np.frombuffer(row["indptr"], np.int64), numbers, np.frombuffer(row["values"], np.float32))


@dataclass(frozen=True)
class Pass:
    """What a partition computes from its users' rows: public functions and arrays."""

    make: Callable[[Any], Any]
    work: Encoded
    most_users: int | None
    n_items: int

    @property
    def layout(self) -> Layout:
        return Layout(self.work.shape, self.work.encoder.symmetric)

    def total(self, batches: Iterable[pa.RecordBatch]) -> tuple[Array, set[str]]:
        """The total of a partition's users, and the kernels that read and computed it."""
        total, used = np.zeros(self.work.shape, np.int64), {machine_kernels()}
        with single_threaded_blas():  # a task has one core
            for batch in batches:
                for row in batch.select(["indptr", "indices", "values", "kernels"]).to_pylist():
                    used.add(row["kernels"])
                    rows = stored_rows(row, self.n_items)
                    for part in parts(rows, rows.values, most_users=self.most_users):
                        total = self.work.add(total, self.work(self.make(part)), 1)
        return total, used


def add_up(table: SparkInteractions, task: Pass) -> Array:
    """The exact sum of all partitions' contributions, each counted once."""
    for left in reversed(range(TRIES)):
        try:
            sums = partial_sums(table, task)
        except Exception as error:
            # Some blocks had arrived when an executor was lost: Spark cannot take these back, and ends the job.
            if left and "indeterminate" in str(error):
                continue
            raise
        table.require_equal_kernels({kernel for row in sums["kernels"].to_pylist() for kernel in row})
        total = put_together(sums, task.layout, table.n_partitions)
        if total is not None:
            return total
    raise PrivacyError(
        "ratings: Spark has computed partitions more than once, with different results, so a user may count twice in "
        "a sum. This sum was not released; what was released before it stays spent. If the table is random, or is "
        "being written to, store it first and read it from there"
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

    branches = BRANCHES  # a local copy, so that workers use the driver's value

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
    """Blocks in the partitions of a cluster."""

    table: SparkInteractions
    most_users: int | None  # the most users of a block
    steps: tuple[Callable[[Any], Any], ...] = ()  # functions that are applied to each block, in order

    def map(self, make: Callable[[Any], Any]) -> SparkBlocks:
        return replace(self, steps=(*self.steps, make))

    def keep(self, n_jobs: int | None) -> SparkBlocks:
        return self  # partitions keep nothing but users' rows

    def add_up(self, work: Encoded, n_jobs: int | None) -> Array:
        steps = self.steps  # a local copy: functions sent to workers must not refer to the table

        def made(part: Any) -> Any:
            return reduce(lambda found, step: step(found), steps, part)

        return add_up(self.table, Pass(made, work, self.most_users, self.table.n_items))
