"""The constants of DPALS, from public inputs alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from discreet.privacy import Plan

# In a unit in which ratings spread by about 1. These constants were set on MovieLens 1M, Jester and generated data;
# benchmarks/dpals.py measures the result.
NOISE = 1.0  # standard deviation of a rating about a good prediction
USER_BIAS = 5.5  # weight of a user's offset, squared: NOISE^2 / its variance
BIAS_SPREAD = 0.35  # standard deviation of item biases about what popularity predicts
FEATURE_BIAS = 0.2  # and of what a public feature adds to them
COLUMN_SPREAD, RESIDUAL_SPREAD = 0.11, 0.05  # and of factors about what co-occurrences, or residuals, predict
SLOPE_BIAS, SLOPE_POPULARITY, COLUMN, FEATURE = 1.2, 25.0, 300.0, 10.0  # NOISE^2 / variance of users' coefficients
USER_VECTOR = 1.2  # weight of a user's vector, squared, about its prior mean
USER_PRIOR = 0.45  # size of the prior mean of a user's vector, from the items they chose, in standard deviations
OVERLAP = 1.5  # about how much more an item step observes than the shared Gram matrix says
PROBES, PROBE_SIZE, PROBE_SPREAD = 8, 0.05, 0.2  # random probe columns: how many, their size, how far they may grow
CHANGE = 0.15  # how much an item's share of all interactions may change from one release to the next, relatively
GRAM_CLIP = 20.0  # bound of a user's contribution to the shared Gram matrix, over that to an item step
LEAST_EIGENVALUE = 1.05  # of a direction that is kept, over the largest eigenvalue of the noise


@dataclass(frozen=True)
class Settings:
    """How DPALS spends a budget.

    Attributes:
        shares: Label -> share of mu^2, or (share, count).
        n_steps: Item steps.
        exponent: Users weigh their items by popularity^-exponent.
        bias_clip: Bound of a user's contribution to the item biases.
        step_clip: The length of a user's contribution to an item step.
        bias_weight: The weight of biases against factors in an item step.
        n_directions: The most directions that are taken from the second moment.
        n_frequent: How many items are in it.
        residual: Whether it is that of residuals, not of co-occurrences.
        clear: Standard deviations of the noise by which what probe columns find must stand out.
    """

    shares: dict[str, float | tuple[float, int]]
    n_steps: int
    exponent: float = 0.3
    bias_clip: float = 0.55
    step_clip: float = 0.3
    bias_weight: float = 0.6
    n_directions: int = 10
    n_frequent: int = 1500
    residual: bool = False
    clear: float = 4.0

    @property
    def bounds(self) -> dict[str, float]:
        """Label -> the L2 norm that a user's contribution to that release never exceeds."""
        return {
            USERS: math.sqrt(2),
            POPULARITY: 1.0,
            WEIGHTS: 1.0,
            BIAS: self.bias_clip,
            SECOND_MOMENT: 0.64 if self.residual else 1.0,
            STEP: self.step_clip,
            GRAM: GRAM_CLIP * self.step_clip,
        }

    @property
    def looks_for_directions(self) -> bool:
        """Whether a second moment is released."""
        return SECOND_MOMENT in self.shares

    def plan(self, mu: float) -> Plan:
        """The releases, with their costs."""
        return Plan.gaussian(mu, self.shares)

    def without_biases(self) -> Settings:
        """For data in which items differ by tastes alone: a low weight of biases, and probe columns are always kept."""
        return replace(self, bias_weight=0.2, clear=0.0)

    def continued(self) -> Settings:
        """For a model that exists: how often items occur is released again, and the rest of the budget is for steps."""
        shares: dict[str, float | tuple[float, int]] = {USERS: 0.006, WEIGHTS: 0.06}
        return replace(self, shares=_with_steps(shares, self.n_steps), residual=False)


def _with_steps(shares: dict[str, float | tuple[float, int]], n_steps: int) -> dict[str, float | tuple[float, int]]:
    """Shares, and what they leave for item steps."""
    rest = 1 - math.fsum(share if isinstance(share, float) else share[0] for share in shares.values())
    return {**shares, GRAM: (0.01 * rest, n_steps), STEP: (rest - 0.01 * rest, n_steps)}


USERS, POPULARITY, WEIGHTS, BIAS = "users and their means", "item popularity", "item weights", "item biases"
SECOND_MOMENT, STEP, GRAM = "second moment", "item step", "shared Gram"


def settings(mu: float, n_items: int, n_users_hint: int | None = None, n_steps: int | None = None) -> Settings:
    """The settings for a budget, from public inputs only.

    Args:
        mu: The Gaussian-DP parameter of the whole budget.
        n_items: The size of the catalogue.
        n_users_hint: About how many users there are, if that is public; by default 1.6 for each item, at least 5,000.
        n_steps: How many item steps, if not the rule's number.
    """
    n_users = n_users_hint or max(5_000, 1.6 * n_items)
    # 0 at epsilon = 1 and 1 at epsilon = 10, for delta = 1e-5.
    budget_level = min(max(math.log(mu / 0.27) / math.log(2.0 / 0.27), 0.0), 1.5)
    capped_level = min(budget_level, 1.0)
    bias, weights = 0.23 - 0.14 * capped_level, 0.06 + 0.04 * capped_level
    shares: dict[str, float | tuple[float, int]] = {USERS: 0.006, POPULARITY: 0.06, WEIGHTS: weights, BIAS: bias}
    n_frequent = min(n_items, 1500)
    share = 0.25
    # The second moment pays if its directions stand out from the noise, whose largest eigenvalue is `edge`. Those of
    # co-occurrences are some hundredths of the number of users.
    edge = math.sqrt(2 * n_frequent) / (mu * math.sqrt(share))
    residual = n_items <= 400
    pays = edge < (0.018 if not residual else 0.05) * n_users
    if pays:
        shares[SECOND_MOMENT] = share
    steps = n_steps or (2 if residual and pays else 4 + round(9 * budget_level))
    # Biases that are well known already, as those of a small catalogue are, need less weight in the steps.
    bias_weight = 0.5 if residual else 1.5 - 0.9 * min(1.0, capped_level / 0.7)
    return Settings(
        _with_steps(shares, steps), steps, bias_weight=bias_weight, n_frequent=n_frequent, residual=residual
    )
