"""Private Frank-Wolfe as it was published (Jain, Thakkar, Thakurta 2018), with its true guarantee."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from discreet.errors import PrivacyError
from discreet.models.as_published import UP, PublishedModel, frank_wolfe_std, true_plan
from discreet.models.eigen import Direction, check_budget
from discreet.models.frank_wolfe.estimate import COVARIANCE, ENERGY, PRODUCT, Schedule, Step
from discreet.models.frank_wolfe.model import CHOICES, Eigensolver, LossName, PrivateFrankWolfe, fill_of
from discreet.models.parameters import check_parameters
from discreet.privacy import Cost, Plan, Planned
from discreet.privacy.guarantee import Adjacency
from discreet.validation import probability, whole


def oja_std(row_norm: float, steps: int, epsilon: float, delta: float) -> float:
    """The noise of Algorithm 2 as printed: sigma = L^2 sqrt(256 Gamma log(2 / delta)) / epsilon."""
    return row_norm**2 * math.sqrt(256 * steps * math.log(2 / delta)) / epsilon


def residual_lengths(count: int, loss: LossName) -> list[float]:
    """How long residuals can be at each of `count` releases, in units of L: 1, sqrt(2), 2, 2, ...

    At the first one nothing is fitted, and A_i = -x_i. The first step does not lead away from a user's ratings:
    Y_i . x_i >= 0 (with the squared loss). Later ones may.
    """
    return [1.0, math.sqrt(2) if loss == "squared" else 2.0, *[2.0] * count][:count]


@dataclass
class PublishedSchedule(Schedule):
    """Steps of Algorithm 1: lambda' = lambda + sqrt(sigma log(n / beta)) n^(1/4), the last of which is the slack.

    C is how long the residuals of a release can be: it shortens none, but the guarantee does not rely on that.
    """

    slack: float = 0.0
    later: list[tuple[float, str]] = field(default_factory=list)  # C, and how labels end, after the next release

    def step(self, direction: Direction) -> Step:
        """The step for a direction; then C and the labels of the next release."""
        made = super().step(direction)
        if self.later:
            self.clip, self.which = self.later.pop(0)
        return made

    def largest(self, direction: Direction) -> float:
        """Lambda'."""
        return math.sqrt(max(direction.value, 0.0)) + self.slack


@dataclass(kw_only=True, eq=False, repr=False)
class PublishedDPFrankWolfe(PrivateFrankWolfe, PublishedModel):
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
        epsilon: What the paper would call epsilon.
        delta: And delta.
        radius: k; the paper assumes it to be known.
        row_norm: L, by scaling; the paper assumes it, too.
        n_steps: T, at least 2.
        failure_probability: beta, in lambda'.
        eigensolver: "dense" or "oja".
        oja_steps: Gamma.
        loss: "squared" or "logistic".
        centre: Whether rows are taken about users' own means; not in the paper.
        adjacency: "add-remove" or "replace".
        n_jobs: Threads, in scikit-learn's meaning.
    """

    _error = "the printed noise does not pay for residuals as long as 2 L, nor for more than one call of Oja's method"

    epsilon: float
    delta: float
    radius: float
    row_norm: float
    n_steps: int = 10
    failure_probability: float = 0.01
    eigensolver: Eigensolver = "dense"
    oja_steps: int = 10
    loss: LossName = "squared"
    centre: bool = False
    adjacency: Adjacency = "add-remove"
    n_jobs: int | None = -1

    def _check_parameters(self) -> None:
        solvers = {"eigensolver": ("dense", "oja"), "adjacency": ("add-remove", "replace")}
        positives = ("epsilon", "radius", "row_norm")
        check_parameters(self, positives=positives, wholes=("oja_steps",), choices={**CHOICES, **solvers})
        for name in ("delta", "failure_probability"):
            probability(name, getattr(self, name))
        whole("n_steps", self.n_steps, 2)
        if self.epsilon > 2 * math.log(1 / self.delta):
            raise PrivacyError(f"epsilon: the paper's noise is for at most 2 log(1 / delta), not {self.epsilon:g}")

    def _std(self) -> float:
        """Sigma."""
        if self.eigensolver == "oja":
            return oja_std(float(self.row_norm), self.oja_steps, self.epsilon, self.delta)
        return frank_wolfe_std(float(self.row_norm), self.n_steps, self.epsilon, self.delta)

    def plan(self, n_items: int) -> Plan:
        """What a fit would release, and what each release truly costs; needs only the size of the catalogue."""
        self._check_parameters()
        solver, std = self._solver(whole("n_items", n_items, 1)), self._std()
        lines: list[Planned] = []
        for (length, which), count in Counter(self._lengths()).items():
            if solver == "dense":
                lines += true_plan({COVARIANCE + which: (length**2, True, std, count)}, self.adjacency).lines
            else:
                cost = Cost.of_gaussian(length**2 * UP, std)  # the same for both adjacencies
                lines += Planned(PRODUCT + which, cost, count * self.oja_steps), Planned(ENERGY + which, cost, count)
        return check_budget(Plan(tuple(lines)), n_items)

    def _lengths(self) -> list[tuple[float, str]]:
        """Of residuals, at each release; and how the release's label ends."""
        names = [", first", ", second", *[""] * self._n_releases()]
        lengths = residual_lengths(self._n_releases(), self.loss)
        return [(float(self.row_norm) * length, which) for length, which in zip(lengths, names, strict=False)]

    def _n_releases(self) -> int:
        return self.n_steps - 1

    def _bounds(self, value_range: tuple[float, float], n_items: int) -> tuple[float, float]:
        return float(self.row_norm), self._lengths()[0][0]

    def _rule(self, n_items: int, clip: float) -> PublishedSchedule:
        slack = math.sqrt(self._std() * math.log(n_items / self.failure_probability)) * n_items**0.25
        (_, which), *later = self._lengths()
        return PublishedSchedule(
            self.n_steps, fill_of(None, n_items), float(self.radius), clip, which, slack=slack, later=later
        )

    def _oja_rate(self, n_items: int) -> float | None:
        return 1 / (self.oja_steps * math.sqrt(n_items))

    def _public_inputs(self) -> dict[str, str]:
        return {"bounds": f"radius = {self.radius:g}, row_norm = {self.row_norm:g}, given"}
