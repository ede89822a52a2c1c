"""Users in the partitions of a Spark cluster: each partition keeps its users' rows, and emits nothing but sums.

A pass over the users is one Spark job. In its first stage, a partition opens the broadcast of functions and public
arrays from the driver, works through its rows, and emits its total in blocks of grid units. In the next stages the
blocks are added up, 16 partitions at a time. The driver gets integers, sums over all users, and releases them: only it
draws noise, once, after the job has succeeded. Why no user is counted twice: docs/proofs/spark.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, singledispatch
from hashlib import blake2b
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.data.catalogue import smallest_unsigned
from discreet.data.spark import Broadcast, SparkInteractions, settings
from discreet.engine.batches import Blocks, parts
from discreet.errors import PrivacyError
from discreet.kernels import single_threaded_blas
from discreet.privacy.lattice import machine_kernels, require_sound_arithmetic
from discreet.privacy.releaser import Encoded
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array

if TYPE_CHECKING:
    import pyarrow as pa


TRIES = 3
# A row of these tables is up to some megabytes, and Spark counts rows; plans of two stages are not worth adapting.
SETTINGS = {"spark.sql.execution.arrow.maxRecordsPerBatch": "8", "spark.sql.adaptive.enabled": "false"}

# -- sums on their way from partitions to the driver: in blocks, with checksums, added up exactly
#
# A cluster may run a task twice, and take one block from the first run and another one from the second. If these runs
# saw different rows, a user could be in both halves, and their contribution would be longer than its bound. So a
# partition marks what it emits with its own number and a digest of the whole; sums keep the checksums of all that is in
# them; and the driver accepts them only if every block has the same checksums, one of each partition.

PARTIAL = "block int, branch int, checksums binary, kernels array<string>, touched binary, units binary"
BLOCK_UNITS = 1 << 17  # of a block: a megabyte
BRANCHES = 16  # whose sums one task adds up
DIGEST = 16  # bytes
CHECKSUM = np.dtype([("source", "<i4"), ("digest", f"V{DIGEST}")])


@dataclass(frozen=True)
class Layout:
    """How an array of integers is cut into blocks.

    Attributes:
        shape: Of the array.
        symmetric: Whether only the upper triangles of its last two axes are sent.
    """

    shape: tuple[int, ...]
    symmetric: bool = False

    @property
    def width(self) -> int:
        """How many numbers are sent or left out together: all those of an item."""
        if not self.symmetric:
            return prod(self.shape[1:])
        side = self.shape[-1]
        return 1 if len(self.shape) == 2 else side * (side + 1) // 2

    @property
    def length(self) -> int:
        """How many rows of `width` numbers there are."""
        if self.symmetric and len(self.shape) == 2:
            return self.shape[0] * (self.shape[0] + 1) // 2
        return self.shape[0]

    @property
    def rows(self) -> int:
        """Rows of a block."""
        return max(1, BLOCK_UNITS // max(self.width, 1))

    @property
    def n_blocks(self) -> int:
        """How many blocks there are."""
        return -(-self.length // self.rows)

    def nothing(self, block: int) -> Array:
        """A block of zeros."""
        return np.zeros((min(self.rows, self.length - block * self.rows), self.width), np.int64)

    @cached_property
    def _triangle(self) -> tuple[Array, Array]:
        return np.triu_indices(self.shape[-1])

    def packed(self, total: Array) -> Array:
        """The array as rows, (length, width)."""
        if self.symmetric:
            total = total[(..., *self._triangle)]
        return np.ascontiguousarray(total.reshape(self.length, self.width))

    def unpacked(self, rows: Array) -> Array:
        """The array; what is below the diagonal of a symmetric one is zero."""
        if not self.symmetric:
            return rows.reshape(self.shape)
        total = np.zeros(self.shape, rows.dtype)
        total[(..., *self._triangle)] = rows.reshape(*self.shape[:-2], -1)
        return total


def emitted(total: Array, layout: Layout, source: int, kernels: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """A partition's total, block by block: also blocks of zeros, for their checksums and kernels."""
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
    """The sums of some blocks over the branches that meet here, with the checksums and the kernels of all."""
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


def kernels_of(sums: pa.Table) -> set[str]:
    """All kernels that these sums were computed with."""
    return {kernel for row in sums["kernels"].to_pylist() for kernel in row}


def put_together(sums: pa.Table, layout: Layout, n_sources: int) -> Array | None:
    """The whole array; None unless each block is the sum of the same totals, one of each partition."""
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
