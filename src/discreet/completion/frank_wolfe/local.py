"""The local component of Frank-Wolfe: what one user does with her own ratings and the public steps, and nobody else's.

Training and serving run the same code. A user's prediction is sum_t z_t v_t, so she needs no more than her coefficients
z on the public vectors; to anyone who was not there in training, they come from replaying the public steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.completion.centred import Centring, Prepared
from discreet.completion.frank_wolfe.losses import Loss, Squared
from discreet.completion.private import Part, parts
from discreet.completion.ridge import Ridge
from discreet.data.interactions import Interactions
from discreet.linalg.threads import over_blocks

Array = NDArray[Any]


@dataclass(frozen=True)
class Step:
    """What the global component tells everybody. Public.

    Attributes:
        vector: v, of length 1, or zeros.
        size: eta, how far to go to the new atom: what there was is multiplied by 1 - eta.
        gain: eta k / lambda', by which a user's residual along v is multiplied.
        ridge: How many more ratings a user pretends to have where she divides by her own |P v|^2.
    """

    vector: Array
    size: float
    gain: float
    ridge: float = 0.0


@dataclass(frozen=True)
class Local:
    """The public constants of the local component.

    Attributes:
        centring: How a user prepares her row, and L.
        loss: What a residual is.
        clip: C, the largest length of a residual row.
        fill: About what share of the items a user has rated.
        own: Whether a user divides by her own |P v|^2, with the step's ridge, which is then positive; if not, everybody
            divides by `fill`, as in the paper.
    """

    centring: Centring
    loss: Loss
    clip: float
    fill: float
    own: bool

    def residuals(self, row: Prepared, fitted: Array) -> tuple[Array, Array, Array]:
        """A_i on the user's own items, no longer than C; the slopes of the loss; and what A_i was shortened by."""
        slopes = self.loss.slope(fitted)
        found = slopes * fitted - row.values
        shortened = self.clip / np.maximum(np.sqrt(row.row_sums(found**2)), self.clip)
        return found * shortened[row.owners], slopes, shortened

    def rates(self, row: Prepared, step: Step, own: Array) -> Array:
        """What a user multiplies A_i . v by; `own` is v on her items."""
        if not self.own:
            return np.full(len(row.counts), step.gain)
        rates: Array = step.gain * self.fill / (row.row_sums(own**2) + step.ridge / len(step.vector))
        return rates

    def update(self, row: Prepared, fitted: Array, residuals: Array, step: Step) -> tuple[Array, Array, Array]:
        """One local update: (1 - eta) Y_i - eta k u_i v, projected so that it is no longer than L on her own items.

        Returns the fitted values, the coefficient of v before the projection, and what the projection multiplied by.
        """
        own = step.vector[row.indices]
        weights = -self.rates(row, step, own) * row.row_sums(residuals * own)
        moved = (1 - step.size) * fitted + weights[row.owners] * own
        limit = self.centring.row_norm
        shrunk = limit / np.maximum(np.sqrt(row.row_sums(moved**2)), limit)
        return moved * shrunk[row.owners], weights, shrunk


@dataclass(frozen=True)
class Fitted(Part):
    """Some users' rows in training, and what is fitted to them so far: a view, which `Users.advance` writes to."""

    fitted: Array


@dataclass(frozen=True)
class Users:
    """All users in training: the private side. What is fitted is kept on their own items only, so memory is O(|Omega|).

    No user-by-item matrix is ever formed.
    """

    ratings: Interactions
    local: Local
    fitted: Array
    n_jobs: int | None

    @classmethod
    def of(cls, ratings: Interactions, local: Local, n_jobs: int | None) -> Users:
        """Before the first step: Y = 0."""
        return cls(ratings, local, np.zeros(len(ratings), np.float32), n_jobs)

    def blocks(self, most_users: int | None = None) -> Iterator[Fitted]:
        """Some users at a time."""
        ratings = self.ratings
        cut = (parts(ratings, values, most_users=most_users) for values in (ratings.values, self.fitted))
        for part, state in zip(*cut, strict=True):
            yield Fitted(part.indptr, part.indices, part.values, state.values)

    def residuals(self, part: Fitted) -> Array:
        """A_i of some users, on their own items."""
        return self.local.residuals(self.local.centring.prepare(part), part.fitted.astype(np.float64))[0]

    def residual_rows(self, part: Fitted) -> Array:
        """The same as dense rows, of few users at a time, for the dense covariance."""
        rows = np.zeros((len(part.counts), self.ratings.n_items))
        rows[part.owners, part.indices] = self.residuals(part)
        return rows

    def advance(self, step: Step) -> None:
        """Everybody's local update."""

        def work(part: Fitted) -> None:
            row, fitted = self.local.centring.prepare(part), part.fitted.astype(np.float64)
            residuals = self.local.residuals(row, fitted)[0]
            part.fitted[:] = self.local.update(row, fitted, residuals, step)[0]

        for _ in over_blocks(work, self.blocks(), self.n_jobs):
            pass


@dataclass(frozen=True)
class Replay(Ridge):
    """Folds a user in by replaying the public steps on her own history.

    Attributes:
        local: The constants of the local component.
        steps: The public steps; `columns` holds their vectors.
    """

    local: Local = field(default_factory=lambda: Local(Centring(0.0, None, 1.0), Squared(), 1.0, 1.0, False))
    steps: Sequence[Step] = ()

    def fold_in(self, histories: Interactions, n_jobs: int | None) -> tuple[Array, Array]:
        """Users' own offsets, less the public centre, and coefficients, in units of ratings."""
        kind = self.columns.dtype

        def work(part: Part) -> tuple[Array, Array]:
            row = self.local.centring.prepare(part)
            fitted = np.zeros(len(row.values))
            vectors = np.zeros((len(row.counts), len(self.steps)))
            for t, step in enumerate(self.steps):
                residuals = self.local.residuals(row, fitted)[0]
                fitted, weights, shrunk = self.local.update(row, fitted, residuals, step)
                vectors[:, :t] *= ((1 - step.size) * shrunk)[:, None]
                vectors[:, t] = weights * shrunk
            vectors /= row.scales[:, None]
            return (row.offsets - self.local.centring.centre).astype(kind), vectors.astype(kind)

        found = [*over_blocks(work, parts(histories, histories.values), n_jobs)]
        if not found:
            return np.zeros(0, kind), np.zeros((0, len(self.steps)), kind)
        offsets, vectors = zip(*found, strict=True)
        return np.concatenate(offsets), np.concatenate(vectors)

    def contributions(self, indices: Array, values: Array, item: int) -> Array:
        """What each rating adds to the score of an item: they and `base` add up to it.

        How much the user was scaled, shortened, projected, and how steep the loss was, is taken as it turned out for
        her whole history. Given these, every coefficient is a sum over her centred ratings, and so is the score: the
        replay runs forward, and the score's derivatives run back through it.
        """
        whole = np.array([0, len(indices)])
        row = self.local.centring.prepare(Part(whole, indices.astype(np.int64), values))
        fitted, seen = np.zeros(len(values)), []
        for step in self.steps:
            residuals, slopes, shortened = self.local.residuals(row, fitted)
            own = step.vector[row.indices]
            rate = self.local.rates(row, step, own)[0]
            fitted, _, shrunk = self.local.update(row, fitted, residuals, step)
            seen.append((step, own, rate, slopes, shortened[0], shrunk[0]))
        by_fitted, by_rating, kept = np.zeros(len(values)), np.zeros(len(values)), 1.0
        for t in reversed(range(len(seen))):
            step, own, rate, slopes, shortened_by, shrunk_by = seen[t]
            kept *= shrunk_by
            by_weight = kept * float(self.columns[item, t]) + shrunk_by * float((own * by_fitted).sum())
            kept *= 1 - step.size
            by_residual = -rate * by_weight * shortened_by * own
            by_fitted = shrunk_by * (1 - step.size) * by_fitted + slopes * by_residual
            by_rating -= by_residual
        added: Array = self.local.centring.offset_shares(values) + by_rating * row.values / row.scales[0]
        return added
