"""The private side of gradient methods: what users compute from their own ratings and public numbers.

In projected descent, a user's iterate is y = c V^T, where V has the directions of the last step, so their coefficients
c are all that is needed. Training and serving compute c by replaying the public steps. Rows are multiplied one by one,
so that no user's rounding depends on the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from scipy.sparse import csr_array

from discreet.data.interactions import Interactions
from discreet.engine.batches import DENSE_CELLS, on_items, parts
from discreet.models.centering import Centering, Prepared
from discreet.models.fold_in import Description, Penalty, Ridge
from discreet.models.gradient.estimate import Step, nothing
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array

EXTRA_ITEMS = 2  # counted in addition to a user's own in the size of their steps
VECTOR_PENALTY = 2.0  # penalty of a user's regression in stochastic gradient descent
SERVING_ENTRIES = 1 << 17  # numbers in the dense rows that each thread has in memory


@dataclass(frozen=True)
class Descent:
    """What users do in each step: z = y - eta P(y - x), and y = z V diag(gains) V^T. For training and for fold-in.

    P keeps the items that a user rated, and x are their centered ratings. Only the part of P(y - x) along V counts in
    y, and P shortens V. To make up for that, eta, which is `size` (below 2) for full rows, is divided by |P V|^2 + 2 r
    / n, for r directions of n items, where that is below 1: as if two more items were rated. (|P V|^2 is at least the
    largest eigenvalue of V^T P V, so that steps do not overshoot.)
    """

    size: float
    n_items: int
    centering: Centering
    steps: Sequence[Step] = ()  # the public steps so far

    def blocks(self, ratings: Interactions, place: Array) -> Iterator[UserBatch]:
        """The users' centered rows, some at a time, so that their dense rows fit in memory.

        Items are renumbered by `place`; those with -1 are left out.
        """
        for part in parts(ratings, ratings.values, most_users=max(DENSE_CELLS // self.n_items, 1)):
            yield on_items(self.centering.entries, place, part)

    def eta(self, part: UserBatch, step: Step) -> Array:
        """Each user's step size, for the directions V of this step."""
        if not len(step.gains):
            return np.full(len(part.counts), self.size)
        squares = (step.vectors**2).sum(axis=1)
        room = part.row_sums(squares[part.indices]) + extra_room(step)
        return np.asarray(self.size / np.minimum(room, 1))

    def replay(self, part: UserBatch) -> tuple[Array, Array, Array]:
        """Some users' coefficients c after all steps, (users, rank); their y, (users, items); and eta P(y - x)."""
        n, before = len(part.counts), nothing(self.n_items)
        own, rows = np.zeros((n, 0)), np.zeros((n, self.n_items))
        change = -self.size * part.values
        for step in self.steps:
            own = (_times(own, before.vectors.T @ step.vectors) - _along(part, change, step)) * step.gains
            rows = _times(own, step.vectors.T)
            change = self.eta(part, step)[part.owners] * (rows[part.owners, part.indices] - part.values)
            before = step
        return own, rows, change

    def rows(self, part: UserBatch) -> Array:
        """The rows z of some users after all steps, from which the next step is computed."""
        _, rows, change = self.replay(part)
        rows[part.owners, part.indices] -= change
        return rows

    # The interface of `Steps` for `ReplayFoldIn`; the columns are the directions of the last step.

    @property
    def most_users(self) -> int:
        """The number of users who have `SERVING_ENTRIES` numbers in their dense rows."""
        return max(SERVING_ENTRIES // self.n_items, 1)

    def coefficients(self, row: Prepared) -> Array:
        """Some users' coefficients (users, rank)."""
        return self.replay(row)[0]

    def contributions(self, part: UserBatch, aim: Array) -> Array:
        """The contribution of each of one user's ratings to the offset plus coefficients . aim."""
        offsets = self.centering.offset_shares(part.values)
        about = part.values.astype(np.float64) - self.centering.centre - offsets.sum()
        loads = self._shares(part.indices) @ aim
        # A rating counts directly, and through its part in the offset, which is subtracted from every rating.
        return np.asarray(loads * (about + offsets.sum()) + offsets * (1 - loads.sum()))

    def _shares(self, indices: Array) -> Array:
        """The derivatives of one user's coefficients with respect to their centered ratings, (ratings, rank)."""
        part = UserBatch(np.array([0, len(indices)]), indices, np.zeros(len(indices)))
        own, before = np.zeros((len(indices), 0)), nothing(self.n_items)
        for step in self.steps:
            change = self.eta(part, before)[0] * (own @ before.vectors[indices].T - np.eye(len(indices)))
            own = (own @ (before.vectors.T @ step.vectors) - change @ step.vectors[indices]) * step.gains
            before = step
        return own

    def describe(self) -> Description:
        """Directions of all steps but the last, whose directions are the columns, and transitions of coefficients."""
        steps = self.steps
        settings = {
            "rule": "descent",
            "size": self.size,
            "ranks": [len(step.gains) for step in steps],
            "gains": np.concatenate([step.gains for step in steps]).tolist(),
            "room": [extra_room(step) for step in steps],
        }
        carried = [(before.vectors.T @ step.vectors).ravel() for before, step in pairwise(steps)]
        earlier = [np.zeros((self.n_items, 0)), *(step.vectors for step in steps[:-1])]
        return settings, {"steps": np.hstack(earlier)}, {"transitions": np.concatenate([np.zeros(0), *carried])}

    def with_tables(self, tables: dict[str, Array]) -> Descent:
        """A copy with other directions."""
        every = np.hstack([tables["steps"], tables["columns"]]).astype(np.float64)
        ends = np.cumsum([len(step.gains) for step in self.steps])[:-1]
        pairs = zip(self.steps, np.split(every, ends, axis=1), strict=True)
        return replace(self, steps=[replace(step, vectors=vectors) for step, vectors in pairs])


def extra_room(step: Step) -> float:
    """The increase by `EXTRA_ITEMS` more items of |P V|^2; items without loadings do not count."""
    squares = (step.vectors**2).sum(axis=1)
    return EXTRA_ITEMS * float(squares.sum()) / max(int(np.count_nonzero(squares)), 1)


def _times(rows: Array, matrix: Array) -> Array:
    """A product, one row at a time."""
    return np.asarray(np.matmul(rows[:, None, :], matrix)[:, 0])


def _along(part: UserBatch, entries: Array, step: Step) -> Array:
    """Sparse rows times V, computed row by row, entry by entry."""
    table = csr_array((entries, part.indices, part.indptr), shape=(len(part.counts), len(step.vectors)))
    return np.asarray(table @ step.vectors)


# -- stochastic gradients


def user_ridge(factors: Array, shrinkage: float) -> Ridge:
    """A user's own regression; the first column of the factors has the biases."""
    return Ridge(factors[:, 1:], factors[:, 0], Penalty(VECTOR_PENALTY), offset_penalty=shrinkage)


def own_gradient(ridge: Ridge, mean: float, unit: float, part: UserBatch) -> tuple[Array, Array]:
    """Some users' gradients: the x_j, and a = (1, u) / |(1, u)|.

    A user's rows are e_j (1, u), where e_j is the residual of rating j in their own regression, in the given unit.
    """
    left, targets = np.zeros(len(part.indices)), (part.values.astype(np.float64) - mean) / unit
    vectors = ridge.solve(part.indptr, part.indices, targets, residuals=left)[1]
    ones = np.column_stack([np.ones(len(vectors)), vectors])
    lengths = np.sqrt((ones**2).sum(axis=1))
    return left * lengths[part.owners], ones / lengths[:, None]
