"""The noise of DPALS as published: which releases there are, how far one user moves them, and how the noise is set.

As in the paper, the unit of noise is what one item of one user can move: sigma_G for the Gram matrices, sigma_g for the
right-hand sides, sigma_p for the counts and the mean. The number of items per user, k, is part of the sensitivity.
docs/proofs/dpals-published.md proves the sensitivities.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from discreet.errors import PrivacyError
from discreet.privacy import Cost, Plan, Planned
from discreet.privacy.guarantee import AdjacencyName, sensitivity_factor
from discreet.privacy.statistics import UP, normal_equations_sensitivity

Calibration = Literal["exact", "published", "experiments", "given"]

COUNTS, RECOUNTS = "item counts of a uniform sample", "item counts of the final sample"
MEAN, START = "sum of ratings", "second moment for the start"
STEP, GRAM, GRADIENT = "item step", "global Gram", "item gradient"

ERRORS = {
    "published": "Theorem 1 charges one Gaussian release for each item of a user where there are two",
    "experiments": "the rule that reproduces Table 4 charges both releases of an item step",
}
ALSO = "the mean is undercharged by a factor of up to k, and the global Gram is not charged at all"


@dataclass(frozen=True)
class Sigmas:
    """Noise multipliers: sigma_G, sigma_g, sigma_p of the paper, and that of the noisy SVD (in units of Gamma_M^2)."""

    gram: float
    rhs: float
    pre: float
    start: float

    def times(self, factor: float) -> Sigmas:
        """All of them, scaled."""
        return Sigmas(self.gram * factor, self.rhs * factor, self.pre * factor, self.start * factor)


@dataclass(frozen=True)
class Schedule:
    """Which releases a fit makes, and what each costs at given noise. Public.

    Attributes:
        k: How many items a user takes part with (or the sum of their squared weights).
        steps: T.
        adjacency: Of the guarantee.
        preprocess: Whether Algorithm 2 runs.
        center: Whether a mean is released.
        global_gram: Whether K is released, for lambda_0.
        svd_start: Whether the start is a noisy SVD.
        gradients: How many noisy gradients make an item step; 0: it solves a noisy least squares problem.
    """

    k: int
    steps: int
    adjacency: AdjacencyName
    preprocess: bool
    center: bool
    global_gram: bool
    svd_start: bool
    gradients: int

    def releases(self, sigmas: Sigmas) -> dict[str, tuple[float, float, int]]:
        """Label -> (sensitivity, std, how often), in the units of the paper: Gamma_u = Gamma_M = 1."""
        root, any_sign = math.sqrt(self.k), sensitivity_factor(self.adjacency)
        nonnegative = sensitivity_factor(self.adjacency, nonnegative=True)
        found = {}
        if self.preprocess:
            found[COUNTS] = (root * nonnegative, sigmas.pre, 1)
            found[RECOUNTS] = (root * nonnegative, sigmas.pre, 1)
            if self.center:  # a sum over k ratings moves by k, and gets noise of sqrt(k) sigma_p
                found[MEAN] = (root * any_sign, sigmas.pre, 1)
        if self.svd_start:
            found[START] = (self.k * nonnegative, sigmas.start, 1)
        if self.gradients:
            found[GRADIENT] = (root * any_sign, sigmas.rhs, self.steps * self.gradients)
        else:
            sensitivity = root * normal_equations_sensitivity(sigmas.gram / sigmas.rhs, self.adjacency)
            found[STEP] = (sensitivity, sigmas.gram, self.steps)
        if self.global_gram:
            found[GRAM] = (nonnegative, sigmas.gram, self.steps)
        return {label: (sensitivity * UP, std, count) for label, (sensitivity, std, count) in found.items()}

    def mu_squared(self, sigmas: Sigmas) -> float:
        """The true Gaussian-DP parameter of a fit, squared."""
        return math.fsum(count * (sensitivity / std) ** 2 for sensitivity, std, count in self.releases(sigmas).values())

    def plan(self, sigmas: Sigmas) -> Plan:
        """The releases at this noise, with their true costs."""
        return Plan(
            tuple(
                Planned(label, Cost.of_gaussian(sensitivity, std), count)
                for label, (sensitivity, std, count) in self.releases(sigmas).items()
            )
        )

    def plan_for(self, mu: float, sigmas: Sigmas) -> Plan:
        """A budget, all of it, divided in proportion to what the releases cost at this noise."""
        total = self.mu_squared(sigmas)
        shares: dict[str, float | tuple[float, int]] = {
            label: (count * (sensitivity / std) ** 2 / total, count)
            for label, (sensitivity, std, count) in self.releases(sigmas).items()
        }
        return Plan.gaussian(mu, shares)


def published(schedule: Schedule, sigmas: Sigmas, epsilon: float, delta: float, rule: Calibration) -> Sigmas:
    """The least sigma_G and sigma_g, in their ratio, for which a published rule gives epsilon; sigma_p stays.

    The paper finds them by binary search. The rule is a square root and a sum, so they are solved for instead.
    """
    if schedule.gradients or schedule.svd_start:
        raise PrivacyError(
            f"calibration: the paper has no rule for noisy gradients or a noisy start, so {rule!r} does not work with "
            "them; use 'exact' or 'given'"
        )
    target = published_rho_squared_for(epsilon, delta)
    pre = sigmas.pre if schedule.preprocess else math.inf
    fixed = published_rho_squared(schedule.k, schedule.steps, math.inf, math.inf, pre)
    if fixed >= target:
        raise PrivacyError(
            f"preprocessing_noise: by the paper's rule {pre:g} costs more than epsilon = {epsilon:g} alone; raise it"
        )
    both = published_rho_squared(schedule.k, schedule.steps, sigmas.gram, sigmas.rhs, math.inf)
    charged = both if rule == "experiments" else both / 2
    factor = math.sqrt(charged / (target - fixed))
    return replace(sigmas, gram=sigmas.gram * factor, rhs=sigmas.rhs * factor)


# The paper's own accounting: kept to reproduce its numbers, never to state a guarantee


def published_rho_squared(k: int, steps: int, gram_noise: float, rhs_noise: float, preprocessing_noise: float) -> float:
    """The Renyi DP, in units of alpha, that Table 4's columns are consistent with; infinite noise: no such release.

    Appendix C has kT / 2 sigma^2 + (k + 1) / sigma_p^2, with one release for an item step. The printed epsilons come
    out if both are charged, as here.
    """
    return k * steps * (0.5 / gram_noise**2 + 0.5 / rhs_noise**2) + (k + 1) / preprocessing_noise**2


def published_epsilon(rho_squared: float, delta: float) -> float:
    """The conversion of Appendix A, for Renyi DP of rho^2 alpha: rho^2 + 2 rho sqrt(log(1 / delta))."""
    return rho_squared + 2 * math.sqrt(rho_squared * math.log(1 / delta))


def published_rho_squared_for(epsilon: float, delta: float) -> float:
    """The Renyi DP at which that conversion gives epsilon: the inverse of `published_epsilon`."""
    log = math.log(1 / delta)
    return (math.sqrt(log + epsilon) - math.sqrt(log)) ** 2
