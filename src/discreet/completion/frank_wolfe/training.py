"""How private Frank-Wolfe models learn: the global and the local component by turns (Algorithm 1)."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.completion.base import require_ratings
from discreet.completion.frank_wolfe.common import Constants, FrankWolfeModel
from discreet.completion.frank_wolfe.local import Step, Users
from discreet.completion.frank_wolfe.steps import MOST_DENSE, Eigensolver, Found, Solver, global_component
from discreet.completion.private import Door, PrivateModel
from discreet.data.interactions import Interactions
from discreet.errors import DataError
from discreet.numbers import positive, probability, whole

Array = NDArray[Any]

LARGEST_DENSE = 1 << 14  # items whose covariance can be released whole: 2 GiB


class StepMaker(Protocol):
    """Makes a public step of a direction that was released, and says what radius it was made for."""

    def step(self, found: Found) -> tuple[Step, float | None]:
        """The step, and k; None as long as it is to be derived."""
        ...


class PrivateFrankWolfe(FrankWolfeModel, PrivateModel):
    """What private Frank-Wolfe models share: T releases of residuals, each followed by everybody's local update."""

    radius: float | None
    eigensolver: Eigensolver | None
    oja_steps: int

    def _check_private(self) -> None:
        positive("epsilon", self.epsilon)
        probability("delta", self.delta)
        whole("oja_steps", self.oja_steps, 1)

    def _solver(self, n_items: int) -> Eigensolver:
        """Which eigensolver: the dense covariance, unless there are very many items."""
        if self.eigensolver is None:
            return "dense" if n_items <= MOST_DENSE else "oja"
        if self.eigensolver == "dense" and n_items > LARGEST_DENSE:
            raise DataError(
                f"eigensolver: the covariance of {n_items:,} items is too large to be released whole; use 'oja'"
            )
        return self.eigensolver

    def _constants(self, value_range: tuple[float, float], n_items: int) -> Constants:
        """What `local_` will be, from public inputs; raises if something does not follow from them."""
        raise NotImplementedError

    def _schedule(self, n_items: int, radius: float | None) -> StepMaker:
        """How far steps go."""
        raise NotImplementedError

    def _n_releases(self) -> int:
        """How many directions are found."""
        raise NotImplementedError

    def _check_data(self, ratings: Interactions) -> None:
        self._constants(require_ratings(type(self).__name__, ratings), ratings.n_items)
        self._solver(ratings.n_items)

    def _learn_privately(self, door: Door, ratings: Interactions) -> dict[str, Any]:
        value_range = require_ratings(type(self).__name__, ratings)
        n, radius = ratings.n_items, self.radius
        constants = self._constants(value_range, n)
        users = Users.of(ratings, self._local(value_range, constants), self.n_jobs)
        solver = Solver(self._solver(n), self.oja_steps, self._oja_rate(n), lengths=constants[3])
        steps: list[Step] = []
        popularity = np.zeros(n)
        for t in range(self._n_releases()):
            if steps:
                users.advance(steps[-1])  # the local component, on everybody's side
            found = global_component(door, users, solver)
            step, radius = self._schedule(n, radius).step(found)
            steps.append(step)
            if t == 0 and found.diagonal is not None:
                popularity = found.diagonal  # items that are rated often, and not all alike
        return {
            **self._learned(steps, popularity),
            "value_range_": value_range,
            "implicit_": False,
            "global_mean_": sum(value_range) / 2,
            "local_": constants,
            "radius_": radius or 0.0,
        }

    def _oja_rate(self, n_items: int) -> float | None:
        """The step of Oja's method, times the noise's standard deviation; None: steps by which products count alike."""
        return None
