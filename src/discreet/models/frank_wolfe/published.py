"""Private Frank-Wolfe as it was published (Jain, Thakkar, Thakurta 2018), with its true guarantee."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from discreet.errors import PrivacyError
from discreet.models.centering import Centering
from discreet.models.eigen import check_budget
from discreet.models.frank_wolfe.estimate import COVARIANCE, ENERGY, PRODUCT, Schedule
from discreet.models.frank_wolfe.model import DPFrankWolfe, Eigensolver
from discreet.models.private import Noised, PublishedModel, frank_wolfe_std, true_plan
from discreet.privacy import GramSum, Plan, ProductSum, VectorSum
from discreet.validation import Count, Positive, Probability, whole


@dataclass(kw_only=True, eq=False, repr=False)
class PublishedDPFrankWolfe(PublishedModel, DPFrankWolfe):
    """Private Frank-Wolfe as published: Algorithm 1, and Algorithm 2 with eigensolver="oja". User-level joint DP.

    Y_i = Pi((1 - 1/T) Y_i - k/T (A_i . v) / lambda' v) for t = 2, ..., T: the first round of the T only finds v, so
    there are T - 1 releases. Residuals are at most L long at the first of them, sqrt(2) L at the second and 2 L later:
    one user moves A^T A by up to L^2, 2 L^2, 4 L^2, 4 L^2, ... (add-remove), or sqrt(2) times that (replace).

    The noise is what the paper prints, sigma = L^2 sqrt(64 T log(1 / delta)) / epsilon (made symmetric, which is
    post-processing); with Oja's method, L^2 sqrt(256 Gamma log(2 / delta)) / epsilon for one call, though T - 1 are
    made. The guarantee is the true one: better than `epsilon` where the printed noise is more than it takes, worse
    (with a warning) where it is less. The start of Oja's method is normalized, without which there would be none.

    Example:
        >>> import discreet
        >>> model = discreet.DPFrankWolfe.as_published(epsilon=5, delta=1e-6, radius=100, row_norm=5)
        >>> round(model.plan(n_items=1000).cost.epsilon(1e-6), 2)
        2.63

    Args:
        epsilon: What the paper calls epsilon.
        delta: What the paper calls delta.
        radius: k, the nuclear norm, which the paper assumes to be known.
        row_norm: L. Longer rows are scaled down to it; the paper assumes that there are none.
        n_steps: T, the number of rounds, at least 2.
        failure_probability: beta, from which lambda' follows.
        eigensolver: "dense" or "oja".
        oja_steps: Gamma, the number of products for each direction.
        loss: "squared" or "logistic".
        centre: Whether rows are taken about users' own means; not in the paper.
        adjacency: "add-remove" or "replace".
        n_jobs: Number of threads, as in scikit-learn.
    """

    _error = "the printed noise does not pay for residuals as long as 2 L, nor for more than one call of Oja's method"

    radius: Positive = field()
    row_norm: Positive = field()
    n_steps: int = 10
    failure_probability: Probability = 0.01
    eigensolver: Eigensolver = "dense"
    oja_steps: Count = 10
    centre: bool = False
    step: Literal["constant"] = field(init=False, default="constant")
    residual_clip: None = field(init=False, default=None)
    ratings_per_user: None = field(init=False, default=None)
    _releases_means: ClassVar[bool] = False

    def _check_parameters(self) -> None:
        super()._check_parameters()
        whole("n_steps", self.n_steps, 2)
        if self.epsilon > 2 * math.log(1 / self.delta):
            raise PrivacyError(f"epsilon: the paper's noise is for at most 2 log(1 / delta), not {self.epsilon:g}")

    def _std(self) -> float:
        """Sigma: that of Algorithm 2, L^2 sqrt(256 Gamma log(2 / delta)) / epsilon, or of Algorithm 1."""
        if self.eigensolver == "oja":
            return float(self.row_norm) ** 2 * math.sqrt(256 * self.oja_steps * math.log(2 / self.delta)) / self.epsilon
        return frank_wolfe_std(float(self.row_norm), self.n_steps, self.epsilon, self.delta)

    def _plan(self, n_items: int) -> Plan:
        solver, std = self._solver(n_items), self._std()
        releases: dict[str, Noised] = {}
        for (length, which), count in Counter(self._lengths()).items():
            if solver == "dense":
                releases[COVARIANCE + which] = GramSum(n_items, length**2), std, count
            else:
                releases[PRODUCT + which] = ProductSum(np.eye(n_items, 1), length**2), std, count * self.oja_steps
                releases[ENERGY + which] = VectorSum(1, length**2, nonnegative=True), std, count
        return check_budget(true_plan(releases, self.adjacency), n_items)

    def _lengths(self) -> list[tuple[float, str]]:
        """Bounds on residuals at each release, L, sqrt(2) L, 2 L, 2 L, ..., and the suffixes of its label.

        At first nothing is fitted, and A_i = -x_i. With the squared loss, the first step does not lead away from a
        user's ratings: Y_i . x_i >= 0. Later steps may. Used as C, these bounds clip nothing, but the guarantee does
        not rely on that.
        """
        count, second = self._n_releases(), math.sqrt(2) if self.loss == "squared" else 2.0
        units = [(1.0, ", first"), (second, ", second"), *[(2.0, "")] * count][:count]
        return [(float(self.row_norm) * length, which) for length, which in units]

    def _n_releases(self) -> int:
        return self.n_steps - 1

    def _rule(self, n_items: int, centering: Centering) -> Schedule:
        # lambda' = lambda + sqrt(sigma log(n / beta)) n^(1/4)
        slack = math.sqrt(self._std() * math.log(n_items / self.failure_probability)) * n_items**0.25
        rate = 1 / (self.oja_steps * math.sqrt(n_items))
        (clip, which), *later = self._lengths()
        constants = self.n_steps, self._fill(n_items), float(self.radius)
        return Schedule(*constants, clip, which, later, slack=slack, oja_rate=rate)

    def _public_inputs(self) -> dict[str, str]:
        return {"bounds": f"radius = {self.radius:g}, row_norm = {self.row_norm:g}, given"}
