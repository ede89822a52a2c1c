"""The way out: sums of bounded contributions of users, released with noise under a plan."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.completion.cells import (
    StepCells,
    add_products,
    exact_gram,
    fine_grid,
    half_grid,
    outer_cells,
    outer_grids,
    root_below,
    stripes,
)
from discreet.completion.parts import Everybody, Part, Some
from discreet.data.progress import Bar
from discreet.engine import Blocks, Here, added
from discreet.engine.local import Add
from discreet.privacy import Gaussian, GridArray, truncate
from discreet.privacy.guarantee import Adjacency, sensitivity_factor
from discreet.privacy.ledger import Reservation

if TYPE_CHECKING:
    from discreet.linalg.torch_arrays import TorchArrays

Array = NDArray[Any]

WHOLE = 1024  # columns of a second moment up to which each thread has one of its own


@dataclass(frozen=True)
class Noisy:
    """A released array, and the standard deviation of its noise (off the diagonal of symmetric ones: / sqrt 2)."""

    values: Array
    std: float


@dataclass(frozen=True)
class Door:
    """Releases sums over users, each user's contribution bounded as a whole, under a plan.

    Contributions are computed a part of the users at a time, and may use nothing but the user's own data and what is
    public. They are shortened to their bound, put on a grid and added up exactly, so that their sum has the declared
    sensitivity whatever they are: `bound` for add-remove; for replace twice that, or sqrt(2) times where any two
    contributions have a nonnegative inner product (`aligned`: nonnegative vectors, positive semidefinite matrices).
    """

    reservation: Reservation
    adjacency: Adjacency
    n_jobs: int | None
    bar: Bar | None = None
    card: TorchArrays | None = None

    def release(self, sums: GridArray, sensitivity: float, noise: Gaussian, label: str) -> Noisy:
        """Make sums public, with the noise that the plan pays for. The bar shows what of the budget is spent."""
        released = self.reservation.release(sums, sensitivity, noise, label)
        if self.bar is not None:
            plan = self.reservation.plan
            whole = plan.cost.gaussian
            share = plan[label].cost.gaussian / whole if whole else 1 / sum(line.count for line in plan.lines)
            self.bar.advance(100 * share, label)
        return Noisy(released, noise.std)

    def noise(self, label: str, bound: float, aligned: bool, symmetric: bool = False) -> tuple[float, Gaussian]:
        """The sensitivity of a sum of contributions of this norm, and the noise that the plan pays for."""
        apart = sensitivity_factor(self.adjacency, nonnegative=aligned)
        sensitivity = bound if apart == 1 else math.nextafter(bound * apart, math.inf)
        return sensitivity, self.reservation.plan.noise(label, sensitivity=sensitivity, symmetric=symmetric)

    def add_up(
        self,
        work: Callable[[Any], Any],
        blocks: Everybody[Any],
        shape: tuple[int, ...],
        *,
        add: Add = added,
        symmetric: bool = False,
    ) -> Array:
        """The exact sum of what some users at a time contribute, in cells; see `Blocks.add_up`."""
        where = blocks if isinstance(blocks, Blocks) else Here(lambda: blocks)
        return where.add_up(work, shape, self.n_jobs, add=add, symmetric=symmetric)

    def vector(
        self,
        label: str,
        blocks: Everybody[Some],
        entries: Callable[[Some], Array],
        size: int,
        *,
        bound: float,
        aligned: bool,
    ) -> Noisy:
        """Release the sum over users of sparse vectors: `entries` gives a user's numbers on her own items."""
        sensitivity, noise = self.noise(label, bound, aligned)
        grid = fine_grid(noise.std, bound)

        def work(part: Some) -> Array:
            cells = truncate(entries(part), bound=bound, grid=grid, indptr=part.indptr)
            # Sums of at most 2^53 in float64 are exact: a part has at most 2^16 users, of at most 2^30 cells each.
            return np.bincount(part.indices, cells, minlength=size).astype(np.int64)

        sums = self.add_up(work, blocks, (size,))
        return self.release(GridArray(sums, grid), sensitivity, noise, label)

    def rows(
        self,
        label: str,
        blocks: Everybody[Some],
        rows: Callable[[Some], Array],
        size: int,
        *,
        bound: float,
        aligned: bool,
    ) -> Noisy:
        """Release the sum over users of short vectors: `rows` gives one row for each user."""
        sensitivity, noise = self.noise(label, bound, aligned)
        grid = fine_grid(noise.std, bound)

        def work(part: Some) -> Array:
            total: Array = truncate(rows(part), bound=bound, grid=grid).sum(axis=0, dtype=np.int64)
            return total

        sums = self.add_up(work, blocks, (size,))
        return self.release(GridArray(sums, grid), sensitivity, noise, label)

    def outer(
        self,
        label: str,
        blocks: Everybody[Some],
        contribution: Callable[[Some], tuple[Array, Array, Array]],
        shape: tuple[int, int],
        *,
        bound: float,
    ) -> Noisy:
        """Release the sum over users of matrices with a row x_j a^T for each of her items j.

        `contribution` gives the x_j, of length at most `bound` for each user; vectors a, of length at most 1; and for
        each x_j the number of its a, of which a user may have several.
        """
        sensitivity, noise = self.noise(label, bound, aligned=False)
        grids = outer_grids(noise.std, bound)

        def work(part: Some) -> Array:
            return outer_cells(part, contribution(part), shape[0], bound, grids)

        sums = GridArray(self.add_up(work, blocks, shape), grids[0] * grids[1])
        return self.release(sums, sensitivity, noise, label)

    def item_step(
        self,
        labels: tuple[str, str],
        blocks: Everybody[Some],
        contribution: Callable[[Some], tuple[Array, Array, Array, Array]],
        shape: tuple[int, int],
        *,
        bounds: tuple[float, float],
        add_up: Callable[[StepCells], Array] | None = None,
    ) -> tuple[Noisy, Noisy]:
        """Release two sums over users, from one pass: of matrices with a row x_j a^T for each item, and of b b^T.

        `contribution` gives what it gives for `outer`, with bounds[0]; and the b, side by side if there are several,
        with the sum of their |b|^2 at most bounds[1]. `add_up` adds up the same cells, one sum below the other, in
        another way.
        """
        items, k = shape
        sensitivity, noise = self.noise(labels[0], bounds[0], aligned=False)
        gram_sensitivity, gram_noise = self.noise(labels[1], bounds[1], aligned=True, symmetric=True)
        length = root_below(bounds[1])
        grids = outer_grids(noise.std, bounds[0])
        cells = StepCells(k, bounds[0], grids, length, half_grid(gram_noise.std, length))

        def work(part: Some) -> Array:
            entries, vectors, which, rows = contribution(part)
            step = outer_cells(part, (entries, vectors, which), items, bounds[0], grids)
            return np.vstack([step, cells.gram(rows)])

        sums = add_up(cells) if add_up is not None else self.add_up(work, blocks, (items + k, k))
        gram_sums = GridArray(sums[items:].copy(), cells.gram_grid * cells.gram_grid)
        gram = self.release(gram_sums, gram_sensitivity, gram_noise, labels[1])
        return self.release(GridArray(sums[:items].copy(), grids[0] * grids[1]), sensitivity, noise, labels[0]), gram

    def second_moment(
        self,
        label: str,
        blocks: Everybody[Some],
        rows: Callable[[Some], Array],
        size: int,
        *,
        bound: float,
        hollow: bool = False,
        sparse: bool = False,
    ) -> Noisy:
        """Release the sum over users of x x^T, |x|^2 at most `bound`; `hollow` leaves out the diagonal, as zeros.

        Leaving it out is a projection: it brings no two contributions further apart. A user may have several x, side by
        side in her row: then the sum of their |x|^2 is at most `bound`, and so is the norm of the sum of x x^T. If x is
        `sparse`, `rows` gives each user's numbers on her own items.
        """
        sensitivity, noise = self.noise(label, bound, aligned=True, symmetric=True)
        length = root_below(bound)
        grid = half_grid(noise.std, length)
        most = math.floor(grid.cells(length))

        def sparse_cells(part: Some) -> Array:
            return truncate(rows(part), bound=length, grid=grid, indptr=part.indptr)

        def work(part: Some) -> Array:
            if not sparse:
                return truncate(rows(part), bound=length, grid=grid).reshape(-1, size)
            return part.dense(sparse_cells(part), size)

        def add(sums: Array, cells: Array, n_jobs: int | None) -> Array:
            return add_products(sums, cells, most, n_jobs)

        def product(part: Some) -> Array:
            return exact_gram(work(part), most)

        if sparse and self.card is not None:
            sums = self._on_card(self.card, sparse_cells, blocks, size)
        elif size <= WHOLE:  # few enough numbers for each part to have a sum of its own
            sums = self.add_up(product, blocks, (size, size), symmetric=True)
        else:
            sums = self.add_up(work, blocks, (size, size), add=add, symmetric=True)
        for stripe in stripes(size):  # the lower triangle, which the release does not read, is a copy of the upper one
            sums[stripe, : stripe.start] = sums[: stripe.start, stripe].T
        if hollow:
            np.fill_diagonal(sums, 0)
        return self.release(GridArray(sums, grid * grid), sensitivity, noise, label)

    def _on_card(self, card: TorchArrays, cells: Callable[[Some], Array], blocks: Everybody[Some], size: int) -> Array:
        """The sum of x x^T for sparse x: cells are made here, and their products, below 2^53 as here, are there."""
        total = card.zeros((size, size), np.int64)

        def work(part: Some) -> Part:
            return Part(part.indptr, part.indices, cells(part))

        def add(sums: Array, part: Part, n_jobs: int | None) -> Array:
            dense = card.zeros((len(part.counts), size), np.float64)
            dense[card.put(part.owners), card.put(part.indices).long()] = card.put(part.values).double()
            total.add_((dense.T @ dense).long())
            return sums

        self.add_up(work, blocks, (), add=add)
        return card.get(total)
