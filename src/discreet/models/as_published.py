"""Models as published: with the noise of a paper, and the guarantee that this noise truly gives.

`X.as_published(**parameters)` returns a `PublishedX`, derived from `PublishedModel`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from pathlib import Path

from discreet.data.interactions import Interactions
from discreet.errors import PrivacyError
from discreet.models.base import Learned
from discreet.models.private import PrivateModel
from discreet.privacy import Cost, Ledger, Plan, Planned
from discreet.privacy.guarantee import MAX_EPSILON, AdjacencyName, sensitivity_factor
from discreet.validation import Count, round_up

UP = 1 + 2.0**-40  # makes up for the rounding of a sensitivity's own arithmetic


def frank_wolfe_std(row_norm: float, releases: int, epsilon: float, delta: float) -> float:
    """The noise of Jain, Thakkar and Thakurta (2018) for T releases: L^2 sqrt(64 T log(1 / delta)) / epsilon."""
    return row_norm**2 * math.sqrt(64 * releases * math.log(1 / delta)) / epsilon


def true_plan(releases: Mapping[str, tuple[float, bool, float, int]], adjacency: AdjacencyName) -> Plan:
    """A plan at given noise. Label -> (norm of a contribution, whether inner products are nonnegative, std, count)."""
    lines = []
    for label, (bound, nonnegative, std, count) in releases.items():
        factor = sensitivity_factor(adjacency, nonnegative=nonnegative)
        lines.append(Planned(label, Cost.of_gaussian(bound * factor * UP, std), count))
    return Plan(tuple(lines))


def true_ledger(model: PrivateModel, plan: Plan, name: str, url: str | None) -> Ledger:
    """A ledger with the true budget of a plan at given noise; `name` is the parameter that sets the noise."""
    true = plan.cost.epsilon(model.delta) * (1 + 1e-6)
    if true > MAX_EPSILON:
        raise PrivacyError(f"{name}: there is so little noise that nothing is protected; give more")
    return Ledger(url, epsilon=true, delta=model.delta, adjacency=model.adjacency)


class PublishedModel(PrivateModel):
    """A model with the noise of a paper. Its ledger, guarantee and statement state the true cost.

    `epsilon` is then a name, not a promise; there is a warning if the truth is worse.
    """

    _error = ""  # of the paper

    rank: Count | None = None

    def _own_ledger(self, url: str | None = None) -> Ledger:
        # The cost does not depend on the size of the catalog, if there are as many items as directions.
        return true_ledger(self, self.plan(self.rank or 1), "epsilon", url)

    def _learn(self, ratings: Interactions, ledger: Ledger | None, checkpoint: Path | None = None) -> Learned:
        learned, statement = super()._learn(ratings, ledger, checkpoint)
        if statement.guarantee.epsilon > self.epsilon:
            warnings.warn(
                f"{type(self).__name__}: {self._error}. What is published as epsilon = {self.epsilon:g} is really "
                f"epsilon = {round_up(statement.guarantee.epsilon)}",
                stacklevel=3,
            )
        return learned, statement
