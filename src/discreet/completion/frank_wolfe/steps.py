"""The global component of Frank-Wolfe: what is released of users' residuals, and the public step that follows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.completion.frank_wolfe.local import Step, Users
from discreet.completion.private import DENSE_CELLS, Door, Noisy
from discreet.completion.spectral.eigen import Direction, Products, leading, oja

Array = NDArray[Any]
StepRule = Literal["measured", "constant"]
Eigensolver = Literal["dense", "oja"]

COVARIANCE = "residual covariance"
PRODUCT, ENERGY, LENGTH = "residual product", "residual energy", "residual length"

MOST_DENSE = 4000  # items whose covariance is released whole, unless it is asked for
LEAST_RIDGE = 0.1  # ratings
RADIUS = {"measured": 8.0, "constant": 2.5}  # times the first singular value of the whole matrix, as far as it is known


def covariance(door: Door, users: Users, clip: float) -> Noisy:
    """Release the sum over users of A_i^T A_i, |A_i| at most `clip`: sensitivity clip^2, or sqrt(2) times that."""
    n = users.ratings.n_items
    blocks = users.blocks(max(DENSE_CELLS // n, 1))
    return door.second_moment(COVARIANCE, blocks, users.residual_rows, n, bound=clip * clip)


@dataclass(frozen=True)
class Solver:
    """How the leading direction of residuals is found.

    Attributes:
        kind: From the dense covariance, or by Oja's method.
        oja_steps: Gamma.
        oja_rate: The step of Oja's method, times the noise's standard deviation; None: as `oja` would have it.
        lengths: Whether the sum of |A_i|^2 is needed; by Oja's method that is one release more.
    """

    kind: Eigensolver
    oja_steps: int
    oja_rate: float | None
    lengths: bool


@dataclass(frozen=True)
class Found:
    """What the global component found: a direction, the sum of |A_i|^2 if needed, the covariance's diagonal if any."""

    direction: Direction
    length: float
    diagonal: Array | None


def global_component(door: Door, users: Users, solver: Solver) -> Found:
    """The leading direction of the residuals: from one release, or `oja_steps` and one or two more."""
    clip = users.local.clip
    if solver.kind == "dense":
        release = covariance(door, users, clip)
        diagonal = np.diag(release.values)
        return Found(leading(release), float(diagonal.sum()), diagonal)
    products = Products(door, users.blocks, users.residuals, users.ratings.n_items, clip * clip)
    direction = oja(products, (PRODUCT, ENERGY), solver.oja_steps, rate=solver.oja_rate)
    return Found(direction, float(products.length(LENGTH).values[0]) if solver.lengths else 0.0, None)


@dataclass(frozen=True)
class Schedule:
    """How far steps go: a function of releases and public constants.

    Attributes:
        rule: "constant": eta = 1 / T, as in the paper, with lambda'^2 = lambda^2 + a bound on what the noise hides of
            it. "measured": as far as the released eigenvalue says that the gradient carries.
        n_steps: T.
        fill: About what share of the items a user has rated.
        radius: k, the largest nuclear norm; None: to be derived from the first direction that stands out.
    """

    rule: StepRule
    n_steps: int
    fill: float
    radius: float | None

    def step(self, found: Found) -> tuple[Step, float | None]:
        """The step for a direction, and k.

        Along v the loss falls as far as -A v v^T / fill if everybody has rated that share of the items: as far as
        eta k = lambda / fill. A v that noise has turned carries less, by its squared cosine. Users' coefficients on v
        have the mean square lambda^2 / fill^2 / users, and what v leaves of |A|^2, |A|^2 - lambda^2 / fill, is taken
        for noise of single ratings: the ridge is the ratio that estimates one user's coefficient best.
        """
        direction = found.direction
        constant = self.rule == "constant"
        square = max(direction.value, 0.0) + direction.slack if constant else direction.signal
        largest = math.sqrt(square)
        vector = direction.vector.astype(np.float32).astype(np.float64)
        if not largest:
            return Step(vector, 0.0, 0.0, LEAST_RIDGE), self.radius
        radius = self.radius or RADIUS[self.rule] * largest / self.fill
        size = 1 / self.n_steps if constant else min(1.0, direction.trust * largest / (self.fill * radius))
        ridge = 0.0 if constant else max(self.fill * found.length / direction.signal - 1, LEAST_RIDGE)
        return Step(vector, size, size * radius / largest, ridge), radius
