"""The statistics of an item step on a card: the same integers as `exact_moments` adds up, and so the same bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from discreet.completion.als.moments import MOST_USERS, ItemStep, whole_ratings
from discreet.completion.als.sampling import Sample
from discreet.linalg.rows import Block, Rows, blocks
from discreet.linalg.threads import over_blocks
from discreet.linalg.torch_arrays import TorchArrays
from discreet.privacy import Grid, truncate

Array = NDArray[Any]


@dataclass
class CardMoments:
    """Adds up statistics on a card, some items at a time if it has no room for all.

    Users' vectors are put on the grid by the trusted `truncate`, on the processor: the card sees integers and returns
    integers. It keeps the table of who has what, by items, from one step to the next.
    """

    arrays: TorchArrays
    table: Rows | None = None
    weights: Any = None

    def __call__(self, step: ItemStep, grid: Grid, sample: Sample, users: Array, n_jobs: int | None) -> Array:
        """The stack (items, r + 1, r + 1) before noise, in cells; the last corners are 0."""
        if self.table is None:
            self._tabulate(step, grid, sample, n_jobs)
        assert self.table is not None

        cells, some = np.zeros((len(users) + 1, users.shape[1])), MOST_USERS // 2

        def whole(start: int) -> None:
            own = users[start : start + some]
            cells[start : start + len(own)] = truncate(own, bound=step.user_clip, grid=grid)

        for _ in over_blocks(whole, range(0, len(users), some), n_jobs):
            pass
        columns = self.arrays.put(cells)
        total = self.arrays.host((step.n_items, users.shape[1] + 1, users.shape[1] + 1), np.int64)
        most = max(1, self.arrays.most_bytes // total[0].nbytes)
        for first in range(0, step.n_items, most):
            self._add(total[first : first + most], first, columns)
        return total

    def _tabulate(self, step: ItemStep, grid: Grid, sample: Sample, n_jobs: int | None) -> None:
        """Who has an item, with what rating and weight, in cells: item by item."""
        parts = list(over_blocks(lambda part: whole_ratings(step, grid, part), sample.blocks(MOST_USERS), n_jobs))
        every = [np.concatenate([part.values for part in parts])]
        if any(part.weights is not None for part in parts):
            every.append(np.concatenate([part.own_weights() for part in parts]))
        if len(every[0]) <= self.arrays.most_targets:
            indptr, order = self.arrays.by_column(sample.indices, step.n_items)
            users, *values = (self.arrays.put(each)[order] for each in (self.arrays.owners(sample.counts), *every))
        else:
            shape = (len(sample.counts), step.n_items)
            tables = [csr_array((each, sample.indices, sample.indptr), shape=shape).tocsc() for each in every]
            indptr, users, values = tables[0].indptr.astype(np.int64), tables[0].indices, [t.data for t in tables]
        self.table = Rows(indptr, users, values[0], None, np.zeros(step.n_items))
        self.weights = values[1] if len(values) > 1 else None

    def _add(self, total: Array, first: int, columns: Any) -> None:
        assert self.table is not None
        at, r, arrays = self.table.indptr[first : first + len(total) + 1], columns.shape[1], self.arrays
        inside = slice(at[0], at[-1])
        table = Rows(
            at - at[0], self.table.indices[inside], self.table.targets[inside], columns, self.table.scale, arrays=arrays
        )
        weights = None if self.weights is None else self.weights[inside]
        stack = arrays.zeros(total.shape, np.int64)
        for own, rows in table.some():
            heavy = None if weights is None else arrays.put(weights[table.indptr[own.start] : table.indptr[own.stop]])
            items = stack[own]
            for block in blocks(rows.indptr, r, 8, arrays):
                gram, sides = self._products(rows, block, heavy)
                place = arrays.put(block.rows)
                items[place, :r, :r], items[place, :r, r], items[place, r, :r] = gram, sides, sides
        arrays.fetch(stack, total)

    def _products(self, rows: Rows, block: Block, weights: Any) -> tuple[Any, Any]:
        """Sums of products of integers, each below 2^53 and so exact in float64, added up as integers."""
        X, t = rows.gather(block, 0, block.length)
        left = X
        if weights is not None:
            left = X * self.arrays.places(rows.indices, weights, block, slice(0, block.length), 0)[1][:, :, None]
        return self.arrays.whole_products(left, X, t)
