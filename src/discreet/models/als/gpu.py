"""Users' regressions in an item step of DPALS by a GPU: those of `ItemStep`, for many users at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from discreet.engine.gpu import GpuBlocks
from discreet.linalg.folds import LeaveFoldOutBlocks
from discreet.linalg.rows import padded
from discreet.linalg.torch_arrays import TorchArrays
from discreet.models.als.contributions import FOLDS, ItemStep, SolvedBatch, WeightedBatch
from discreet.models.als.settings import filled_columns
from discreet.typing import Array


@dataclass(frozen=True)
class GpuTable:
    """Several batches on a GPU, with what is the same in every step: entries in the order of the rows.

    Attributes:
        batches: The batches, here.
        starts: Where each fold begins when the entries of a fold stand together; here.
        place: Where an entry goes then.
        which: The fold of each entry.
        indices: Items.
        values: Ratings.
        weights: Of each entry.
    """

    batches: list[WeightedBatch]
    starts: Array
    place: Any
    which: Any
    indices: Any
    values: Any
    weights: Any

    @classmethod
    def of(cls, batches: list[WeightedBatch], gpu: TorchArrays) -> GpuTable:
        """Bring batches there."""
        users = np.cumsum([0, *(len(batch.counts) for batch in batches)])
        entries = np.cumsum([0, *(len(batch.indices) for batch in batches)])
        starts = [batch.folds.indptr[1:] + at for batch, at in zip(batches, entries[:-1], strict=True)]
        return cls(
            batches,
            np.concatenate([[0], *starts]),
            *(
                gpu.put(np.concatenate(arrays))
                for arrays in (
                    [batch.folds.place + at for batch, at in zip(batches, entries[:-1], strict=True)],
                    [batch.folds.which + FOLDS * at for batch, at in zip(batches, users[:-1], strict=True)],
                    [batch.indices.astype(np.int64) for batch in batches],
                    [batch.values for batch in batches],
                    [batch.weights for batch in batches],
                )
            ),
        )


def solve(step: ItemStep, users: GpuBlocks[WeightedBatch]) -> Iterator[SolvedBatch]:
    """What `step` makes of each batch of users, or of pieces of batches."""
    for table in _tables(users, filled_columns(len(step.penalty))):
        entries, vectors = residuals(step, table, users.gpu)
        first = begin = 0
        for batch in table.batches:
            last, end = first + len(batch.counts), begin + len(batch.indices)
            own, found = entries[begin:end], vectors[first:last]
            yield SolvedBatch(batch.indptr, batch.indices, own, found, batch.folds.which, batch.shares)
            first, begin = last, end


def _tables(users: GpuBlocks[WeightedBatch], n_columns: int) -> Iterator[GpuTable]:
    """All users, as many together as the GPU has room for; kept there for the next step if that is all of them."""
    gpu = users.gpu
    if "table" in users.kept:
        yield users.kept["table"]
        return
    most_users = max(1, gpu.most_bytes // (4 * FOLDS * n_columns**2 * 4))

    def prepared(batch: WeightedBatch) -> list[WeightedBatch]:
        pieces = list(batch.cut(most_users))
        for piece in pieces:
            _ = piece.shares  # by the threads
        return pieces

    pieces = chain.from_iterable(users.blocks.map(prepared).each(users.n_jobs))
    groups = _grouped(pieces, gpu.most_targets // 4, most_users)
    first, second = next(groups, []), next(groups, None)
    if second is None:
        users.kept["table"] = GpuTable.of(first, gpu)
        yield users.kept["table"]
        return
    for group in chain([first, second], groups):
        yield GpuTable.of(group, gpu)


def _grouped(batches: Iterable[WeightedBatch], most_entries: int, most_users: int) -> Iterator[list[WeightedBatch]]:
    """As many together as there is room for, and at least one."""
    group: list[WeightedBatch] = []
    entries = users = 0
    for batch in batches:
        entries, users = entries + len(batch.indices), users + len(batch.counts)
        if group and (entries > most_entries or users > most_users):
            yield group
            group, entries, users = [], len(batch.indices), len(batch.counts)
        group.append(batch)
    if group:
        yield group


def residuals(step: ItemStep, table: GpuTable, gpu: TorchArrays) -> tuple[Array, Array]:
    """For each entry w_j e_j |A|, and all vectors A (users, FOLDS, k)."""
    k = len(step.penalty)
    more = filled_columns(k) - k
    columns, prior = (
        gpu.put(padded(np.pad(each, ((0, 0), (0, more))), np.float32))
        for each in (step.regressions.columns, step.regressions.prior)
    )
    targets = (table.values - gpu.put(step.base)[table.indices]).float()
    indices, together = gpu.zeros(table.indices.shape, np.int64), gpu.zeros(targets.shape, np.float32)
    indices[table.place], together[table.place] = table.indices, targets
    penalty = np.pad(step.penalty, (0, more), constant_values=1)
    solved = LeaveFoldOutBlocks(columns, prior, penalty, gpu).solve(FOLDS, table.starts, indices, together)[:, :, :k]
    z, predicted = solved.reshape(-1, k).T.contiguous(), gpu.zeros(targets.shape, np.float32)
    for column, own in zip(columns.T.contiguous(), z, strict=False):  # the last columns are zeros
        predicted += column[table.indices] * own[table.which]
    vectors = solved.double()
    vectors[:, :, 0] = step.settings.bias_weight  # in place of the offset
    squares = gpu.zeros(vectors.shape[:2], np.float64)
    for column in range(k):
        squares += vectors[:, :, column] ** 2
    entries = table.weights * (targets - predicted).double() * squares.sqrt().ravel()[table.which]
    return gpu.get(entries), gpu.get(vectors)
