"""Projected gradient descent as it was published (Jain, Thakkar and Thakurta 2018), with its true guarantee."""

from __future__ import annotations

from discreet.data.interactions import Interactions
from discreet.models.eigen import check_catalog
from discreet.models.gradient.model import MOMENT, DPGradientDescent
from discreet.models.private import PublishedModel, frank_wolfe_std, true_plan
from discreet.privacy import GramSum, Plan, Releaser


class PublishedDPGradientDescent(PublishedModel, DPGradientDescent):
    """Projected gradient descent with the noise that was published: L^2 sqrt(64 T log(1 / delta)) / epsilon.

    It is otherwise the same as `DPGradientDescent`. Rows are clipped to norm L as a whole; the paper bounds the rated
    entries only, which does not bound the row once y is filled in. `guarantee_` has the epsilon that the noise truly
    gives. The parameters are those of `DPGradientDescent`; `epsilon` is what the paper would call epsilon.

    Example:
        >>> import discreet
        >>> model = discreet.DPGradientDescent.as_published(epsilon=5, delta=1e-6)
        >>> round(model.plan(n_items=1000).cost.epsilon(1e-6), 2)  # more noise than it takes
        0.69
    """

    _error = "the noise is too little for rows of this length"

    def _plan(self, n_items: int) -> Plan:
        check_catalog(n_items)
        std = frank_wolfe_std(1.0, self.n_steps, self.epsilon, self.delta)
        return true_plan({MOMENT: (GramSum(n_items, 1.0), std, self.n_steps)}, self.adjacency)

    @property
    def _releases_means(self) -> bool:
        return False

    def _popularity(self, releaser: Releaser, ratings: Interactions) -> None:
        """All items are used, so none are chosen by popularity."""
