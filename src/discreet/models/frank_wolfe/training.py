"""How private Frank-Wolfe models learn: the global and the local component by turns (Algorithm 1)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from discreet.data.interactions import Interactions
from discreet.errors import DataError
from discreet.models.base import require_ratings
from discreet.models.frank_wolfe.common import FrankWolfeModel
from discreet.models.frank_wolfe.contributions import users_of_ratings
from discreet.models.frank_wolfe.corrective import Correction
from discreet.models.frank_wolfe.steps import MOST_DENSE, Eigensolver, Schedule, Solver, global_component, products
from discreet.models.private import PrivateModel
from discreet.privacy import Releaser
from discreet.validation import positive, probability, whole

LARGEST_DENSE = 1 << 14  # items whose covariance can be released whole: 2 GiB


class PrivateFrankWolfe(FrankWolfeModel, PrivateModel):
    """What private Frank-Wolfe models share: T releases of residuals at most, each followed by a local update."""

    _in_spark: ClassVar[bool] = True

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

    def _bounds(self, value_range: tuple[float, float], n_items: int) -> tuple[float, float]:
        """L and C, from public inputs; raises if something does not follow from them."""
        raise NotImplementedError

    def _rule(self, n_items: int, clip: float) -> Schedule | Correction:
        """How steps are made."""
        raise NotImplementedError

    def _n_releases(self) -> int:
        """How many directions are found."""
        raise NotImplementedError

    def _check_data(self, ratings: Interactions) -> None:
        self._bounds(require_ratings(type(self).__name__, ratings), ratings.n_items)
        self._solver(ratings.n_items)

    def _learn_privately(self, releaser: Releaser, ratings: Interactions) -> dict[str, Any]:
        value_range = require_ratings(type(self).__name__, ratings)
        n = ratings.n_items
        row_norm, clip = self._bounds(value_range, n)
        component = self._refitting(value_range) if self._corrective else self._local(value_range, row_norm)
        users = users_of_ratings(ratings, component, self.n_jobs)
        rule, solver = self._rule(n, clip), Solver(self._solver(n), self.oja_steps, self._oja_rate(n))
        popularity, last = np.zeros(n), self._n_releases() - 1
        for t in range(last + 1):
            if not rule.before(products(releaser, users, rule.clip)):
                break  # by what was released: the rest of the plan is not spent
            found = global_component(releaser, users, solver, rule.clip, rule.which)
            step = rule.step(found)
            if t == 0 and found.diagonal is not None:
                popularity = found.diagonal  # items that are rated often, and not all alike
            if t < last:  # the last step is made when users are folded in
                users.advance(step)  # the local component, on everybody's side
        vectors, numbers, radius = rule.kept()
        return {
            **self._learned(vectors, numbers, popularity),
            "value_range_": value_range,
            "implicit_": False,
            "global_mean_": sum(value_range) / 2,
            "row_norm_": row_norm,
            "radius_": radius,
        }

    def _oja_rate(self, n_items: int) -> float | None:
        """The step of Oja's method, times the noise's standard deviation; None: steps by which products count alike."""
        return None
