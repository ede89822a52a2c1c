"""Projected gradient descent without privacy."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from discreet.data.interactions import Interactions
from discreet.engine.batches import DENSE_CELLS
from discreet.models.base import NotPrivateModel, require_ratings
from discreet.models.centering import Centering
from discreet.models.eigen import check_catalogue, second_moment
from discreet.models.gradient.contributions import prepared
from discreet.models.gradient.estimate import Step, project
from discreet.models.gradient.model import DescentModel


class GradientDescent(DescentModel, NotPrivateModel):
    """Completion of ratings by projected gradient descent on a nuclear-norm ball. Not private.

    Minimizes |P(Y - X)|^2 / 2 over matrices Y whose singular values add up to at most `radius`. P keeps the entries
    that users have rated; x_i are a user's ratings less their own mean. Steps are y = project(y - eta P(y - x)).

    Example:
        >>> import discreet
        >>> ratings = discreet.datasets.movielens_like(300, 50, 6_000, random_state=0)
        >>> len(discreet.GradientDescent().fit(ratings).recommend({3: 5.0, 14: 1.5}, n=5))
        5

    Args:
        n_steps: How many steps.
        step_size: eta for full rows, below 2; it is larger for users with few ratings (`Descent`).
        radius: The sum of singular values. By default there is none: each step keeps the directions that stand out, as
            far as they predict a row.
        centre: Whether users subtract their own mean.
        n_jobs: Threads, in scikit-learn's meaning.
    """

    def __init__(
        self,
        n_steps: int = 10,
        *,
        step_size: float = 1.0,
        radius: float | None = None,
        centre: bool = True,
        n_jobs: int | None = -1,
    ) -> None:
        self.n_steps = n_steps
        self.step_size = step_size
        self.radius = radius
        self.centre = centre
        self.n_jobs = n_jobs

    def _learn_exactly(self, ratings: Interactions) -> dict[str, Any]:
        value_range = require_ratings("GradientDescent", ratings)
        check_catalogue(ratings.n_items)
        n = ratings.n_items
        longest = 2 * max(map(abs, value_range)) * n**0.5  # no row is longer
        centering = Centering.of(value_range, longest, centre=self.centre)
        descent, steps = self._descent(n), list[Step]()
        for _ in range(self.n_steps):
            blocks = prepared(ratings, centering, DENSE_CELLS)
            moment = second_moment(blocks, partial(descent.rows, steps=list(steps)), n, self.n_jobs)
            steps.append(project(moment, 0.0, self.radius))
        return self._learned(steps, centering, np.bincount(ratings.indices, minlength=n))
