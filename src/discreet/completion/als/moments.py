"""The statistics of an item step: for each item a Gram matrix and a right-hand side, summed over users and released.

A user has one vector u, and for each of her items a weight w_j and a rating y_j. She adds, for her items alone,
w_j u u^T to the item's Gram matrix and w_j y_j u to its right-hand side. Both are released together, as one stack of
symmetric matrices that have the right-hand side, suitably scaled, as their last column: then one bound covers both, and
two people's opposite ratings and opposite vectors cannot be counted twice. Proof: docs/proofs/dpals-published.md.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.completion.als.calibration import UP, step_sensitivity
from discreet.completion.als.sampling import Sample
from discreet.completion.cells import MOST_CELLS
from discreet.completion.door import Door
from discreet.errors import DataError
from discreet.linalg.arrays import NUMPY
from discreet.linalg.rows import Block, Rows, blocks, padded
from discreet.linalg.threads import over_blocks
from discreet.privacy import Gaussian, Grid, GridArray, truncate

Array = NDArray[Any]

AddUp = Callable[["ItemStep", Grid, Any, Any, "int | None"], Array]

MOST_USERS = 1 << 14  # at a time, for the memory; below 2^22, sums of 2^30 cells of each stay exact in float64
WEIGHT_CELLS = 6  # a weight of 1 is 2^6 cells


@dataclass(frozen=True)
class Moments:
    """The noisy statistics, as they are released: the last columns of symmetric matrices are right-hand sides.

    Attributes:
        stack: (items, r + 1, r + 1).
        unit: What the right-hand sides are to be multiplied by.
    """

    stack: Array
    unit: float


@dataclass(frozen=True)
class ItemStep:
    """The public constants of an item step.

    Attributes:
        label: In the plan.
        k: The most items of a user, or the most that the squares of her weights add up to.
        n_items: How many items there are.
        user_clip: Gamma_u, the bound of a user's vector.
        entry_clip: The bound of a rating.
        ratio: sigma_G / sigma_g.
        weighted: Whether items have weights.
    """

    label: str
    k: int
    n_items: int
    user_clip: float
    entry_clip: float
    ratio: float
    weighted: bool = False

    def noise(self, door: Door) -> tuple[float, Gaussian]:
        """The sensitivity of the stack, and the noise that the plan pays for."""
        one = step_sensitivity(self.ratio, door.adjacency)
        sensitivity = math.sqrt(self.k) * one * self.user_clip**2 * UP
        return sensitivity, door.reservation.plan.noise(self.label, sensitivity=sensitivity, symmetric=True)

    @property
    def weight_grid(self) -> Grid:
        """The grid of the weights: whole numbers if all are 1."""
        return Grid(-WEIGHT_CELLS if self.weighted else 0)

    def grid(self, std: float) -> Grid:
        """The grid of the vectors: weight x vector x vector is at most about 2^29 cells, and so is the noise."""
        heaviest = math.sqrt(self.k) if self.weighted else 1.0
        most = max(std, heaviest * self.user_clip**2 * max(1.0, self.ratio))
        return Grid(-((MOST_CELLS + self.weight_grid.exponent - math.frexp(most)[1]) // 2))

    def target_cells(self, grid: Grid) -> float:
        """How many cells a rating of `entry_clip` is: it weighs ratio / sqrt 2 as much as a vector of `user_clip`."""
        return self.ratio / math.sqrt(2) * grid.cells(self.user_clip)


def check_size(n_items: int, rank: int, names: str = "rank, item_fraction") -> None:
    """Raise if so many matrices of this size are too large to be released at once on this machine."""
    size, most = n_items * (rank + 1) ** 2 * 8, most_bytes()
    if size > most:
        raise DataError(
            f"{names}: {n_items:,} x {rank + 1:,} x {rank + 1:,} numbers would be released at once, which is "
            f"{size / 2**30:.1f} GiB, and at most a quarter of the memory can be, here {most / 2**30:.1f}; lower one "
            "of these"
        )


def most_bytes() -> int:
    """Of a stack of matrices: a quarter of the machine's memory, where that is known."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4
    except (AttributeError, ValueError, OSError):  # Windows
        return 1 << 31


def item_moments(door: Door, step: ItemStep, sample: Any, users: Any, add_up: AddUp | None = None) -> Moments:
    """Release the statistics of one item step.

    Args:
        door: Where to.
        step: The public constants.
        sample: Users' items, at most k of each without weights, and ratings.
        users: Users' vectors, each computed from her own data and public numbers.
        add_up: How the statistics are added up; by default `exact_moments`.
    """
    sensitivity, noise = step.noise(door)
    grid = step.grid(noise.std)
    sums = (add_up or exact_moments)(step, grid, sample, users, door.n_jobs)
    statistic = GridArray(sums, grid * grid * step.weight_grid, spare=True)
    released = door.release(statistic, sensitivity, noise, step.label).values
    return Moments(released, step.entry_clip / (step.ratio / math.sqrt(2) * step.user_clip))


def exact_moments(step: ItemStep, grid: Grid, sample: Sample, users: Array, n_jobs: int | None) -> Array:
    """The stack (items, r + 1, r + 1) before noise, in cells; the last corners are 0."""
    r = users.shape[1]
    total = np.zeros((step.n_items, r + 1, r + 1), np.int64)
    for part in sample.blocks(MOST_USERS):
        add_block(total, (step, grid), part, users[part.first : part.first + len(part.counts)], n_jobs)
    total[:, r, :r] = total[:, :r, r]
    return total


def add_block(total: Array, by: tuple[ItemStep, Grid], part: Sample, own: Array, n_jobs: int | None) -> None:
    """Add what some users contribute, from their rows and their own vectors; not the last rows, copies of columns."""
    step, grid = by
    cells = padded(truncate(own, bound=step.user_clip, grid=grid), np.float64)
    _add(total, whole_ratings(step, grid, part), cells, n_jobs)


def whole_ratings(step: ItemStep, grid: Grid, part: Sample) -> Sample:
    """Some users' ratings, times weights, and weights: in cells."""
    weights, targets = _whole_weights(step, part), _whole_targets(step, grid, part.values)
    if weights is not None:
        targets *= weights
    return Sample(part.indptr, part.indices, targets, weights, part.first)


def _whole_weights(step: ItemStep, part: Sample) -> Array | None:
    """Weights in cells, None if all are 1; the squares of a user's add up to at most k."""
    if part.weights is None and part.counts.max(initial=0) <= step.k:
        return None
    if part.weights is None:
        place = np.arange(len(part.indices)) - np.repeat(part.indptr[:-1], part.counts)
        allowed: Array = (place < step.k).astype(np.float64)  # a second line: a sample has no more than k
        return allowed
    bound = math.nextafter(math.sqrt(step.k), 0)
    cells = truncate(np.maximum(part.weights, 0), bound=bound, grid=step.weight_grid, indptr=part.indptr)
    whole: Array = cells.astype(np.float64)
    return whole


def _whole_targets(step: ItemStep, grid: Grid, values: Array) -> Array:
    """Ratings in cells, none above the cells of `entry_clip`."""
    most = step.target_cells(grid)
    scaled = np.clip(np.nan_to_num(values.astype(np.float64)) / step.entry_clip, -1, 1) * most
    whole: Array = np.clip(np.trunc(scaled), -math.floor(most), math.floor(most))
    return whole


def _add(total: Array, part: Sample, cells: Array, n_jobs: int | None) -> None:
    """Add the sums of these users: products of integers whose sums stay below 2^53, so float64 keeps them exact."""
    from scipy.sparse import csr_array

    shape = (len(part.indptr) - 1, len(total))

    def by_item(entries: Array) -> Any:
        return csr_array((entries, part.indices, part.indptr), shape=shape).tocsc()

    table, r = by_item(part.values), cells.shape[1]
    weights = None if part.weights is None else by_item(part.weights).data
    rows = Rows(table.indptr.astype(np.int64), table.indices, table.data, cells, np.zeros(0))

    def work(block: Block) -> None:
        length = min(block.length, NUMPY.longest)
        for some in block.cuts(max(1, NUMPY.cache // (max(length, r) * r * 8))):
            for first in range(0, block.length, length):
                last = min(block.length, first + length)
                X, t = rows.gather(some, first, last)
                left = X if weights is None else X * _aligned(weights, some, first, last)[:, :, None]
                # An item is in one block, which one thread works on: no two write to the same matrices.
                total[some.rows, :r, :r] += (left.swapaxes(1, 2) @ X).astype(np.int64)
                total[some.rows, :r, r] += (t[:, None, :] @ X)[:, 0].astype(np.int64)

    for _ in over_blocks(work, blocks(rows.indptr, r, 8), n_jobs):
        pass


def _aligned(values: Array, block: Block, first: int, last: int) -> Array:
    """The values at places first..last of each row of a block, zero where a row has none."""
    place = np.arange(first, last)
    at = np.minimum(block.starts[:, None] + place, len(values) - 1)
    found: Array = np.where(place < block.counts[:, None], values[at], 0.0)
    return found
