"""All users in training: the private side of Frank-Wolfe."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from discreet.data.interactions import Interactions
from discreet.engine import Blocks, LocalBlocks
from discreet.engine.batches import parts, user_batches
from discreet.linalg.threads import over_blocks
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array

if TYPE_CHECKING:
    from discreet.data.spark_interactions import SparkInteractions
    from discreet.engine.batches import Ratings


@dataclass(frozen=True)
class Fitted(UserBatch):
    """Some users' rows in training, on their own items.

    Attributes:
        fitted: What is fitted to them so far, Y_i: a view, which `Users.advance` writes to.
        residuals: What is left of them, A_i: likewise.
    """

    fitted: Array
    residuals: Array


class Component(Protocol):
    """A local component: what a user makes of her own ratings and public steps. Each row depends on its user alone."""

    @property
    def forgets(self) -> bool:
        """Whether a step depends on no step before it."""
        ...

    def begin(self, part: UserBatch) -> tuple[Array, Array]:
        """Y_i and A_i of some users before the first step."""
        ...

    def move(self, part: Fitted, step: Any) -> tuple[Array, Array]:
        """The same after one step more."""
        ...


@dataclass(frozen=True)
class Users:
    """Everybody's ratings, and Y_i and A_i on her own items only, so that memory is O(|Omega|).

    No user-by-item matrix is ever formed.
    """

    ratings: Interactions
    component: Component
    fitted: Array
    residuals: Array
    n_jobs: int | None

    @classmethod
    def of(cls, ratings: Interactions, component: Component, n_jobs: int | None) -> Users:
        """Before the first step."""
        fitted, residuals = (np.zeros(len(ratings), np.float32) for _ in range(2))
        users = cls(ratings, component, fitted, residuals, n_jobs)
        users._put(component.begin)
        return users

    def advance(self, step: Any) -> None:
        """Everybody's local update."""
        self._put(lambda part: self.component.move(part, step))

    def _put(self, update: Any) -> None:
        def work(part: Fitted) -> None:
            part.fitted[:], part.residuals[:] = update(part)

        for _ in over_blocks(work, self.blocks(), self.n_jobs):
            pass

    def batches(self, most_users: int | None = None) -> LocalBlocks[Fitted]:
        """The same, to be added up."""
        return LocalBlocks(lambda: self.blocks(most_users))

    def blocks(self, most_users: int | None = None) -> Iterator[Fitted]:
        """Some users at a time."""
        arrays = self.ratings.values, self.fitted, self.residuals
        for part, *state in zip(*(parts(self.ratings, a, most_users=most_users) for a in arrays), strict=True):
            yield Fitted(part.indptr, part.indices, part.values, *(own.values for own in state))


@dataclass
class Replayed:
    """Everybody, elsewhere: Y_i and A_i are not kept there, but follow from the public steps, which each pass replays.

    Attributes:
        ratings: Where users' rows are.
        component: The local component.
        steps: The public steps so far; of a component that forgets, the last one.
    """

    ratings: SparkInteractions
    component: Component
    steps: tuple[Any, ...] = ()

    def advance(self, step: Any) -> None:
        """Everybody's local update, from the next pass on."""
        self.steps = (step,) if self.component.forgets else (*self.steps, step)

    def batches(self, most_users: int | None = None) -> Blocks[Fitted]:
        """Some users at a time."""
        return user_batches(self.ratings, most_users).map(partial(replayed, self.component, self.steps))


def replayed(component: Component, steps: tuple[Any, ...], part: UserBatch) -> Fitted:
    """Some users after public steps, in the precision that `Users` keeps them in."""

    def after(state: tuple[Array, Array]) -> Fitted:
        return Fitted(part.indptr, part.indices, part.values, *(array.astype(np.float32) for array in state))

    users = after(component.begin(part))
    for step in steps:
        users = after(component.move(users, step))
    return users


def users_of_ratings(ratings: Ratings, component: Component, n_jobs: int | None) -> Users | Replayed:
    """All users before the first step, wherever they are."""
    if isinstance(ratings, Interactions):
        return Users.of(ratings, component, n_jobs)
    return Replayed(ratings, component)


def residuals_of(part: Fitted) -> Array:
    """A_i of some users, on their own items."""
    return part.residuals.astype(np.float64)
