"""All users in training: the private side of Frank-Wolfe."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.completion.private import Part, parts
from discreet.data.interactions import Interactions
from discreet.linalg.threads import over_blocks

Array = NDArray[Any]


@dataclass(frozen=True)
class Fitted(Part):
    """Some users' rows in training, on their own items.

    Attributes:
        fitted: What is fitted to them so far, Y_i: a view, which `Users.advance` writes to.
        residuals: What is left of them, A_i: likewise.
    """

    fitted: Array
    residuals: Array


class Component(Protocol):
    """A local component: what a user makes of her own ratings and public steps. Each row depends on its user alone."""

    def begin(self, part: Part) -> tuple[Array, Array]:
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

    def blocks(self, most_users: int | None = None) -> Iterator[Fitted]:
        """Some users at a time."""
        arrays = self.ratings.values, self.fitted, self.residuals
        for part, *state in zip(*(parts(self.ratings, a, most_users=most_users) for a in arrays), strict=True):
            yield Fitted(part.indptr, part.indices, part.values, *(own.values for own in state))


def residuals_of(part: Fitted) -> Array:
    """A_i of some users, on their own items."""
    return part.residuals.astype(np.float64)
