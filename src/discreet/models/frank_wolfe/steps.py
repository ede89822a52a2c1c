"""The global component of Frank-Wolfe: what is released of users' residuals, and the public step that follows."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from discreet.engine.batches import DENSE_CELLS
from discreet.models.eigen import Direction, Products, leading, oja
from discreet.models.frank_wolfe.contributions import Replayed, Users, residuals_of
from discreet.models.frank_wolfe.local import Step, packed
from discreet.privacy import GramSum, Noisy, Releaser
from discreet.typing import Array

StepRule = Literal["corrective", "constant"]
Eigensolver = Literal["dense", "oja"]
Kept = tuple[Array, list[tuple[float, ...]], float]  # vectors, the numbers of each step, and k

COVARIANCE = "residual covariance"
PRODUCT, ENERGY, LENGTH = "residual product", "residual energy", "residual length"

MOST_DENSE = 4000  # items whose covariance is released whole, unless it is asked for
RADIUS = 2.5  # times the first singular value of the whole matrix, as far as it is known


@dataclass(frozen=True)
class Solver:
    """How the leading direction of residuals is found.

    Attributes:
        kind: From the dense covariance, or by Oja's method.
        oja_steps: Gamma.
        oja_rate: The step of Oja's method, times the noise's standard deviation; None: as `oja` would have it.
    """

    kind: Eigensolver
    oja_steps: int
    oja_rate: float | None


@dataclass(frozen=True)
class Found:
    """What the global component found: a direction, and the covariance's diagonal if there is one."""

    direction: Direction
    diagonal: Array | None


def covariance(releaser: Releaser, users: Users | Replayed, clip: float, which: str = "") -> Noisy:
    """Release the sum over users of A_i^T A_i, A_i shortened to `clip`: sensitivity clip^2, or sqrt(2) times that."""
    n = users.ratings.n_items
    batches = users.batches(max(DENSE_CELLS // n, 1))
    return releaser.release(COVARIANCE + which, GramSum(n, clip * clip), batches, residuals_of)


def products(releaser: Releaser, users: Users | Replayed, clip: float) -> Products:
    """Releases of products with A and of sums of squares, A_i shortened to `clip`: sensitivity clip^2."""
    return Products(releaser, users.batches, residuals_of, users.ratings.n_items, clip * clip)


def global_component(
    releaser: Releaser, users: Users | Replayed, solver: Solver, clip: float, which: str = ""
) -> Found:
    """The leading direction of the residuals: from one release, or `oja_steps` and one more.

    `which` ends the labels of releases that are charged otherwise than those of other steps.
    """
    if solver.kind == "dense":
        release = covariance(releaser, users, clip, which)
        return Found(leading(release), np.diag(release.values))
    labels = PRODUCT + which, ENERGY + which
    return Found(oja(products(releaser, users, clip), labels, solver.oja_steps, rate=solver.oja_rate), None)


@dataclass
class Schedule:
    """Steps of one size, as in the paper: eta = 1 / T, lambda'^2 = lambda^2 + a bound on what noise hides of it.

    Attributes:
        n_steps: T.
        fill: About what share of the items a user has rated.
        radius: k, the largest nuclear norm; None: to be derived from the first release.
        clip: C.
        which: How the labels of the next releases end.
        made: The steps so far.
    """

    n_steps: int
    fill: float
    radius: float | None
    clip: float
    which: str = ""
    made: list[Step] = field(default_factory=list)

    def before(self, residuals: Products) -> bool:
        """Nothing is released before a direction, and all steps are made."""
        return True

    def step(self, found: Found) -> Step:
        """The step for a direction."""
        largest = self.largest(found)
        self.radius = self.radius or RADIUS * largest / self.fill
        vector = found.direction.vector.astype(np.float32).astype(np.float64)
        self.made.append(Step(vector, 1 / self.n_steps, self.radius / (self.n_steps * largest)))
        return self.made[-1]

    def kept(self) -> Kept:
        """What a model keeps of all steps."""
        return (*packed(self.made), self.radius or 0.0)

    def largest(self, found: Found) -> float:
        """What lambda' is: the root of the eigenvalue, with what the noise may hide of it."""
        return math.sqrt(max(found.direction.value, 0.0) + found.direction.slack)
