"""The statistics of an item step on a card: the same integers as `exact_moments` adds up, and so the same bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from discreet.linalg.rows import Block, Rows, blocks
from discreet.linalg.threads import over_blocks
from discreet.linalg.torch_arrays import TorchArrays
from discreet.models.als.moments import MOST_USERS
from discreet.models.als.sampling import Sample
from discreet.privacy.statistics import EncodedEquations, NormalEquationsEncoder
from discreet.typing import Array

NO_VECTORS = np.zeros((0, 0))


@dataclass
class GpuMoments:
    """Adds up statistics on a card, some items at a time if it has no room for all.

    Users' vectors are put on the grid by the trusted `truncate`, on the processor: the card sees integers and returns
    integers. It keeps the table of who has what, by items, from one step to the next.
    """

    arrays: TorchArrays
    n_jobs: int | None
    table: Rows | None = None
    weights: Any = None

    def __call__(self, sample: Sample, users: Array, encoder: NormalEquationsEncoder) -> Array:
        """The stack (items, r + 1, r + 1) before noise, in cells; the last corners are 0."""
        if self.table is None:
            self._tabulate(encoder, sample)
        assert self.table is not None

        cells, some = np.zeros((len(users) + 1, users.shape[1])), MOST_USERS // 2

        def whole(start: int) -> None:
            own = users[start : start + some]
            cells[start : start + len(own)] = encoder.vectors(own)

        for _ in over_blocks(whole, range(0, len(users), some), self.n_jobs):
            pass
        columns = self.arrays.put(cells)
        total = self.arrays.host(encoder.shape, np.int64)
        most = max(1, self.arrays.most_bytes // total[0].nbytes)
        for first in range(0, len(total), most):
            self._add(total[first : first + most], first, columns)
        return total

    def _tabulate(self, encoder: NormalEquationsEncoder, sample: Sample) -> None:
        """Who has an item, with what rating and weight, in grid units: item by item."""
        n_items = encoder.statistic.n_items

        def encoded(part: Sample) -> EncodedEquations:
            return encoder.encoded(part, NO_VECTORS, part.values, part.weights)

        parts = list(over_blocks(encoded, sample.blocks(MOST_USERS), self.n_jobs))
        every = [np.concatenate([part.targets for part in parts])]
        if any(part.weights is not None for part in parts):
            ones = [np.ones(len(part.targets)) if part.weights is None else part.weights for part in parts]
            every.append(np.concatenate(ones))
        if len(every[0]) <= self.arrays.most_targets:
            indptr, order = self.arrays.by_column(sample.indices, n_items)
            users, *values = (self.arrays.put(each)[order] for each in (self.arrays.owners(sample.counts), *every))
        else:
            shape = (len(sample.counts), n_items)
            tables = [csr_array((each, sample.indices, sample.indptr), shape=shape).tocsc() for each in every]
            indptr, users, values = tables[0].indptr.astype(np.int64), tables[0].indices, [t.data for t in tables]
        self.table = Rows(indptr, users, values[0], None, np.zeros(n_items))
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
