"""Item steps of DPALS with a card: users' regressions and the sums are there, what makes integers of them is here.

A card folds everybody in. What she contributes comes back, is shortened to its bound and put on the grid by the trusted
`truncate`, on the processor's threads, and goes to the card again as integers, which it adds up exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.engine import Blocks, LocalBlocks
from discreet.linalg.folds import Folds, LeaveFoldOutBlocks
from discreet.linalg.rows import Rows, blocks, padded
from discreet.linalg.threads import over_blocks
from discreet.linalg.torch_arrays import TorchArrays
from discreet.models.als.settings import filled_columns
from discreet.models.als.training import FOLDS, Local, own_weights
from discreet.privacy.statistics import GramEncoder, OuterEncoder, UserBatch
from discreet.typing import Array

NOTHING = np.zeros(0)
SOME_USERS = 1 << 12  # whose contributions one thread puts on the grid at a time


@dataclass(frozen=True)
class Prepared:
    """Some users' rows, with what is the same in every step.

    Attributes:
        part: The rows.
        folds: Their folds.
        weights: Of each entry.
        shares: What each of a user's folds weighs, (users, FOLDS).
    """

    part: UserBatch
    folds: Folds
    weights: Array
    shares: Array

    @classmethod
    def of(cls, part: UserBatch, a: Array) -> Prepared:
        """For users who weigh items by `a`."""
        folds, weights = Folds.of(part.indptr, FOLDS), own_weights(part, a)
        shares = np.bincount(folds.which, weights, minlength=len(folds.indptr) - 1)
        return cls(part, folds, weights, shares.reshape(-1, FOLDS))


@dataclass(frozen=True)
class GpuBatch:
    """Many users' rows on a card. What is of users is here, what is of entries, in the order of the rows, is there.

    Attributes:
        indptr: Where users' rows begin.
        starts: Where their folds begin, when the entries of a fold stand together.
        shares: What each fold weighs.
        place: Where an entry goes then.
        which: The fold of each entry.
        indices: Items.
        values: Ratings.
        weights: Of each entry.
        items: Where each item begins, when entries are ordered by items.
        order: Which entry comes next in that order.
        raters: The fold of each entry in that order.
    """

    indptr: Array
    starts: Array
    shares: Array
    place: Any
    which: Any
    indices: Any
    values: Any
    weights: Any
    items: Array
    order: Any
    raters: Any

    @classmethod
    def of(cls, several: list[Prepared], n_items: int, gpu: TorchArrays) -> GpuBatch:
        """Of parts that follow each other."""
        users = np.cumsum([0, *(len(own.shares) for own in several)])
        entries = np.cumsum([0, *(len(own.weights) for own in several)])

        def there(arrays: list[Array]) -> Any:
            return gpu.put(np.concatenate(arrays))

        place = there([own.folds.place + at for own, at in zip(several, entries[:-1], strict=True)])
        which = there([own.folds.which + FOLDS * at for own, at in zip(several, users[:-1], strict=True)])
        indptr, starts = (
            np.concatenate([[0], *(own[1:] + at for own, at in zip(bounds, entries[:-1], strict=True))])
            for bounds in ([own.part.indptr for own in several], [own.folds.indptr for own in several])
        )
        indices = there([own.part.indices.astype(np.int64) for own in several])
        items, order = gpu.by_column(indices, n_items)
        return cls(
            indptr,
            starts,
            np.concatenate([own.shares for own in several]),
            place,
            which,
            indices,
            there([own.part.values for own in several]),
            there([own.weights for own in several]),
            items,
            order,
            which[order],
        )


@dataclass(frozen=True)
class GpuSteps:
    """Adds up item steps on a card, some users at a time if it has no room for all.

    Attributes:
        card: The card.
        kept: The users on it, if it has room for all;
        parts: else as many together as it has room for, which are brought there for each step.
        n_items: How many items there are.
        n_jobs: Threads, in scikit-learn's meaning.
    """

    gpu: TorchArrays
    kept: list[GpuBatch]
    parts: list[list[Prepared]]
    n_items: int
    n_jobs: int | None

    @classmethod
    def of(
        cls,
        gpu: TorchArrays,
        every: Callable[[int], Blocks[UserBatch]],
        a: Array,
        most_columns: int,
        n_jobs: int | None,
    ) -> GpuSteps:
        """For users, so many at a time at most, who weigh items by `a`."""
        columns = filled_columns(most_columns)
        room = gpu.most_targets // 4, max(1, gpu.most_bytes // (4 * FOLDS * columns**2 * 4))  # entries, users
        blocks_ = every(room[1])
        assert isinstance(blocks_, LocalBlocks)
        made = blocks_.map(lambda part: Prepared.of(part, a)).each(n_jobs)
        parts = list(_grouped(made, *room))
        kept = [GpuBatch.of(parts.pop(), len(a), gpu)] if len(parts) == 1 else []
        return cls(gpu, kept, parts, len(a), n_jobs)

    def _there(self) -> Iterator[GpuBatch]:
        yield from self.kept
        for several in self.parts:
            yield GpuBatch.of(several, self.n_items, self.gpu)

    def add_up(self, local: Local, encoders: tuple[GramEncoder, OuterEncoder]) -> Array:
        """Both sums of an item step, one below the other."""
        k = encoders[0].statistic.size
        total = np.zeros((k + self.n_items, k), np.int64)
        for part in self._there():
            total += self._sums(part, local, *encoders)
        return total

    def _sums(self, part: GpuBatch, local: Local, gram_encoder: GramEncoder, outer_encoder: OuterEncoder) -> Array:
        entries, vectors = self._contributions(part, local)
        k = gram_encoder.statistic.size
        x = self.gpu.host((len(entries),), np.float64)
        a = self.gpu.host((FOLDS * len(vectors) + 1, k), np.float64)
        a[-1] = 0

        def work(first: int) -> Array:
            users = slice(first, min(first + SOME_USERS, len(vectors)))
            own = slice(part.indptr[users.start], part.indptr[users.stop])
            rows = UserBatch(part.indptr[users.start : users.stop + 1] - own.start, NOTHING, NOTHING)
            lengthened = local.lengthened(rows, entries[own], vectors[users], part.shares[users])
            x[own], a[FOLDS * users.start : FOLDS * users.stop] = outer_encoder.factors(rows, *lengthened[:2])
            return gram_encoder.encode(rows, lengthened[2])

        gram = np.zeros((k, k), np.int64)
        for made in over_blocks(work, range(0, len(vectors), SOME_USERS), self.n_jobs):
            gram += made
        return np.vstack([gram, self._by_item(part, x, a)])

    def _contributions(self, part: GpuBatch, local: Local) -> tuple[Array, Array]:
        """For each entry w_j e_j |A|, and all vectors A (users, FOLDS, k): what `Local` makes of them."""
        gpu, k = self.gpu, len(local.penalty)
        more = filled_columns(k) - k
        columns, prior = (
            gpu.put(padded(np.pad(each, ((0, 0), (0, more))), np.float32))
            for each in (local.regressions.columns, local.regressions.prior)
        )
        targets = (part.values - gpu.put(local.predicted)[part.indices]).float()
        indices, together = gpu.zeros(part.indices.shape, np.int64), gpu.zeros(targets.shape, np.float32)
        indices[part.place], together[part.place] = part.indices, targets
        penalty = np.pad(local.penalty, (0, more), constant_values=1)
        solved = LeaveFoldOutBlocks(columns, prior, penalty, gpu).solve(FOLDS, part.starts, indices, together)[:, :, :k]
        z, predicted = solved.reshape(-1, k).T.contiguous(), gpu.zeros(targets.shape, np.float32)
        for column, own in zip(columns.T.contiguous(), z, strict=False):  # the last ones are zeros
            predicted += column[part.indices] * own[part.which]
        vectors = solved.double()
        vectors[:, :, 0] = local.settings.bias_weight  # in place of her offset
        squares = gpu.zeros(vectors.shape[:2], np.float64)
        for column in range(k):
            squares += vectors[:, :, column] ** 2
        entries = part.weights * (targets - predicted).double() * squares.sqrt().ravel()[part.which]
        return gpu.get(entries), gpu.get(vectors)

    def _by_item(self, part: GpuBatch, x: Array, a: Array) -> Array:
        """The sum over users of x_j a^T, in rows by items: of integers whose sums stay below 2^53, as int64."""
        gpu, k = self.gpu, a.shape[1]
        rows = Rows(part.items, part.raters, gpu.put(x)[part.order], gpu.put(a), NOTHING, arrays=gpu)
        total = gpu.zeros((self.n_items, k), np.int64)
        for block in blocks(part.items, k, 8, gpu):
            X, t = rows.gather(block, 0, block.length)
            total[gpu.put(block.rows)] = gpu.whole_sums(t, X)
        return gpu.get(total)


def gram_on_gpu(gpu: TorchArrays, encoder: GramEncoder, blocks: Blocks[UserBatch], n_jobs: int | None) -> Array:
    """The sum of x x^T for sparse x: units are made here, and their products, below 2^53 as here, are there."""
    size = encoder.statistic.size
    total = gpu.zeros((size, size), np.int64)

    def work(part: UserBatch) -> UserBatch:
        return UserBatch(part.indptr, *encoder.entries(part, part.values))

    def add(sums: Array, part: UserBatch, n_jobs: int | None) -> Array:
        dense = gpu.zeros((len(part.counts), size), np.float64)
        dense[gpu.put(part.owners), gpu.put(part.indices).long()] = gpu.put(part.values).double()
        total.add_((dense.T @ dense).long())
        return sums

    blocks.add_up(work, (), n_jobs, add=add)
    return gpu.get(total)


def _grouped(several: Iterator[Prepared], most_entries: int, most_users: int) -> Iterator[list[Prepared]]:
    """As many together as there is room for, and at least one."""
    group: list[Prepared] = []
    entries = users = 0
    for made in several:
        entries, users = entries + len(made.weights), users + len(made.shares)
        if group and (entries > most_entries or users > most_users):
            yield group
            group, entries, users = [], len(made.weights), len(made.shares)
        group.append(made)
    if group:
        yield group
