"""Noise as it was printed, with the guarantee that it truly gives: what `as_published` models have in common."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from discreet.data.interactions import Interactions
from discreet.errors import DataError, PrivacyError
from discreet.models.private import PrivateModel
from discreet.privacy import Cost, Ledger, Plan, Planned
from discreet.privacy.accounting import MAX_EPSILON
from discreet.privacy.guarantee import Adjacency, sensitivity_factor
from discreet.privacy.statement import Statement
from discreet.validation import round_up

UP = 1 + 2.0**-40  # makes up for the rounding of a sensitivity's own arithmetic


def frank_wolfe_std(bound: float, releases: int, epsilon: float, delta: float) -> float:
    """The noise that Jain, Thakkar and Thakurta (2018) print: sigma = L^2 sqrt(64 T log(1 / delta)) / epsilon.

    Args:
        bound: L^2, the squared length of a row.
        releases: T.
        epsilon: What they call epsilon.
        delta: And delta.
    """
    return bound * math.sqrt(64 * releases * math.log(1 / delta)) / epsilon


def true_plan(releases: Mapping[str, tuple[float, bool, float, int]], adjacency: Adjacency) -> Plan:
    """A plan at given noise. Label -> (a contribution's norm, whether any two are aligned, std, how often)."""
    lines = []
    for label, (bound, aligned, std, count) in releases.items():
        apart = sensitivity_factor(adjacency, nonnegative=aligned)
        lines.append(Planned(label, Cost.of_gaussian(bound * apart * UP, std), count))
    return Plan(tuple(lines))


def true_ledger(model: PrivateModel, plan: Plan, name: str, url: str | None) -> Ledger:
    """A ledger with just the budget that a plan at given noise truly takes; `name` is what the noise follows from."""
    true = plan.cost.epsilon(model.delta) * (1 + 1e-6)
    if true > MAX_EPSILON:
        raise PrivacyError(f"{name}: there is so little noise that nothing is protected")
    return Ledger(url, epsilon=true, delta=model.delta, adjacency=model.adjacency)


class PublishedModel(PrivateModel):
    """A model whose noise is what a paper prints. Its ledger, guarantee and statement have what that truly costs.

    `epsilon` is then a name, not a promise; a warning says so where the truth is worse.
    """

    _error = ""  # what was published wrongly

    def _own_ledger(self, url: str | None = None) -> Ledger:
        # The cost does not depend on the catalogue, so any size will do.
        return true_ledger(self, self.plan(self._least_items()), "epsilon", url)

    def _least_items(self) -> int:
        """A number of items for which there is a plan."""
        return 1

    def _learn(
        self, ratings: Interactions, ledger: Ledger | None, checkpoint: Path | None = None
    ) -> tuple[dict[str, Any], Statement]:
        learned, statement = super()._learn(ratings, ledger, checkpoint)
        if statement.guarantee.epsilon > self.epsilon:
            warnings.warn(
                f"{type(self).__name__}: {self._error}. What is published as epsilon = {self.epsilon:g} is really "
                f"epsilon = {round_up(statement.guarantee.epsilon)}",
                stacklevel=3,
            )
        return learned, statement


def require_rank(rank: int | None, n_items: int) -> None:
    """Raise if there are fewer items than directions to look for."""
    if rank is not None and rank > n_items:
        raise DataError(
            f"rank: {rank} directions are too many for {n_items} items; ask for at most as many as there are"
        )
