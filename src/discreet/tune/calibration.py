"""What one trial of a private search may spend, so that the whole search keeps its budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sklearn.base import clone

from discreet.errors import PrivacyError
from discreet.evaluate.private import plan as score_plan
from discreet.privacy import Cost, Guarantee, Selection
from discreet.privacy.guarantee import account
from discreet.privacy.selection import Trials
from discreet.tune.space import Setting
from discreet.validation import positive, probability, round_up

SAME = 1e-9  # how far costs of settings may be apart, relatively: plans round in the last bits
SHRINK = 0.98  # of mu, where a model costs more than Gaussian releases of its epsilon


@dataclass(frozen=True)
class Trial:
    """What each trial gets, whichever setting it tries: print it.

    Attributes:
        fit: The epsilon of its fit, at `delta`.
        score: The epsilon of its private score.
        delta: At which delta both, and the whole, are stated.
        run: What a trial costs: fit and score.
        trials: How many there are.
        settings: How many settings there are to choose from.
        metric: What trials are compared by.
        budget: The epsilon that the whole search was to keep.
    """

    fit: float
    score: float
    delta: float
    run: Cost
    trials: Trials
    settings: int
    metric: str
    budget: float

    @property
    def cost(self) -> Cost:
        """What the whole search costs: one event, by Papernot and Steinke."""
        return Cost.of(Selection(self.run, self.trials.mean, self.trials.shape))

    @property
    def epsilon(self) -> float:
        """The epsilon of the whole search."""
        return self.cost.epsilon(self.delta)

    def __str__(self) -> str:
        lines = [
            f"{self.trials}, each of one of {self.settings:,} settings, drawn at random.",
            f"A trial fits with epsilon = {round_up(self.fit)} and is scored, by {self.metric}, with epsilon = "
            f"{round_up(self.score)}.",
            f"The search as a whole costs epsilon = {round_up(self.epsilon)}; all at delta = {round_up(self.delta)}.",
        ]
        return "\n".join(lines)


def budget_of(budget: Any) -> tuple[float, float]:
    """Epsilon and delta of a pair, or of a Guarantee."""
    if isinstance(budget, Guarantee):
        budget = (budget.epsilon, budget.delta)
    if not isinstance(budget, tuple | list) or len(budget) != 2:
        raise PrivacyError(f"budget: a pair (epsilon, delta) was expected, not {budget!r}")
    return positive("budget: epsilon", budget[0]), probability("budget: delta", budget[1])


def calibrated(
    model: Any,
    settings: Sequence[Setting],
    n_items: int,
    budget: tuple[float, float],
    *,
    trials: Trials,
    metric: str,
    share: float,
) -> Trial:
    """The most that a trial may spend, for any of these settings of a model.

    Raises:
        PrivacyError: If no trial is affordable, or if settings cost differently.
    """
    if not positive("score_share", share) < 1:
        raise PrivacyError(f"score_share: a share between 0 and 1 is needed, not {share:g}")
    epsilon, delta = budget
    mu = _largest_mu(epsilon, delta, trials)
    while mu:
        fit = account(mu=mu * math.sqrt(1 - share), delta=delta).epsilon
        score = account(mu=mu * math.sqrt(share), delta=delta).epsilon
        run = _fit_cost(model, settings, n_items, (fit, delta)) + score_plan([metric], epsilon=score, delta=delta).cost
        trial = Trial(fit, score, delta, run, trials, len(settings), metric, epsilon)
        if trial.epsilon <= epsilon:
            return trial
        # Rounding, at first; for models that are not Gaussian, what they cost in Renyi's terms.
        mu *= 1 - SAME if trial.epsilon <= epsilon * (1 + 100 * SAME) else SHRINK
        mu = mu if mu > 1e-6 else 0.0
    raise PrivacyError(
        f"budget: epsilon = {epsilon:g} at delta = {delta:g} is too little for {trials}; give more, or make fewer"
    )


def _largest_mu(epsilon: float, delta: float, trials: Trials) -> float:
    """The largest mu of a Gaussian trial with which a search keeps the budget; 0 if there is none."""
    from scipy.optimize import brentq

    def excess(log_mu: float) -> float:
        cost = Cost.of(Selection(Cost.of_mu(math.exp(log_mu)), trials.mean, trials.shape))
        return math.log(max(cost.epsilon(delta), 1e-12) / epsilon)

    high = math.log(account(epsilon=epsilon, delta=delta).mu or 1e-300)
    low = high - 9.0
    if high < -600 or excess(low) > 0:
        return 0.0
    return math.exp(brentq(excess, low, high, xtol=1e-10) - 1e-10) if excess(high) > 0 else math.exp(high)


def _fit_cost(model: Any, settings: Sequence[Setting], n_items: int, budget: tuple[float, float]) -> Cost:
    """What a fit costs, the same for all settings."""
    costs = []
    for setting in settings:
        tried = clone(model).set_params(**setting, epsilon=budget[0], delta=budget[1])
        costs.append(tried.plan(n_items).cost)
    most = max(cost.gaussian for cost in costs)
    for setting, cost in zip(settings, costs, strict=True):
        if cost.events != costs[0].events or cost.gaussian < most * (1 - SAME):
            raise PrivacyError(
                f"space: {setting} does not cost what the other settings do; leave out what changes that"
            )
    return Cost(most, max(cost.releases for cost in costs), costs[0].events)
