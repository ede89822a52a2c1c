"""What is audited in a way of its own: a model whose noise stays secret, and an evaluation, which is no model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.audit.recording import Recording
from discreet.completion.baselines import MeanRating
from discreet.completion.one_bit.mechanisms import TrueBits, two_valued
from discreet.completion.one_bit.objectives import TILT
from discreet.completion.one_bit.releases import _tilted
from discreet.completion.spectral import DPSVD
from discreet.data.interactions import Interactions
from discreet.data.readers import read
from discreet.evaluate import evaluate
from discreet.privacy import Ledger
from discreet.privacy.guarantee import Adjacency
from discreet.tune import search

Array = NDArray[Any]


def secret_tilt(first: Recording, data: Interactions, neighbour: Interactions) -> tuple[list[Array], dict[str, float]]:
    """With which tilt a neighbour has the same optimum, and how much less (or more) likely that tilt makes it.

    What is released is the optimum X, a function of the bits B and of a secret tilt H. At an optimum within all
    constraints H = -(l'(X; B) + ridge X): for other bits B' it is H' = H + l'(X; B) - l'(X; B'). The density of X is
    that of H times the determinant of its derivative, the product of l''(X; B) + ridge over all entries.
    """
    tilt, matrix = first.releases[0], first.releases[1].statistic
    fit = _tilted(first.model._budget(), 1.0).fit
    cells = TrueBits.of(data, two_valued(data, None)).cells
    signs = [np.where(TrueBits.of(table, two_valued(table, None)).bits > 0, 1.0, -1.0) for table in (data, neighbour)]
    x = matrix[cells.rows, cells.columns]
    slopes = [-sign * fit.link.log_slope(sign * x) for sign in signs]
    bends = [np.log(fit.ridge + fit.link.bend(sign * x)) for sign in signs]
    changed = np.rint((slopes[0] - slopes[1]) / tilt.step) * tilt.step
    other = tilt.answer + changed
    likelier = float(((np.abs(tilt.answer) - np.abs(other)) / tilt.scale + bends[1] - bends[0]).sum())
    return [other, *first.answers[1:]], {TILT: abs(likelier) * tilt.scale / tilt.sensitivity}


@dataclass
class Searched:
    """A private search for one parameter of DPSVD, in the form of a model."""

    adjacency: Adjacency
    epsilon: float = 15.0
    delta: float = 1e-6

    def fit(self, data: Interactions, ledger: Ledger) -> Any:
        """The model that is found, with all that is told of it."""
        base = DPSVD(epsilon=self.epsilon, delta=self.delta, adjacency=self.adjacency, n_jobs=1)
        found = search(base, {"rank": [2, 4]}, data, (self.epsilon, self.delta), ledger, trials=2.0)
        found.model.searched_ = (dict(found.settings), found.score, found.metric)
        return found.model


@cache
def _public_model(n_items: int) -> MeanRating:
    """Predicts 2.5, whatever the item and whoever asks."""
    rows = [(user, item, 2.5) for user in range(3) for item in range(n_items)]
    return MeanRating("global").fit(read(rows, items=list(range(n_items)), value_range=(0, 5)))


@dataclass
class Evaluated:
    """A private evaluation of a public model, in the form of a model: half of everybody's ratings are targets."""

    adjacency: Adjacency
    epsilon: float = 5.0
    delta: float = 1e-6
    n_items: int = 20

    def __post_init__(self) -> None:
        self._model = _public_model(self.n_items)

    def fit(self, data: Interactions, ledger: Ledger) -> Evaluated:
        """Evaluate, with all that is released kept."""
        target = data.indices % 2 == 0
        found = evaluate(
            self._model,
            data.where(target),
            history=data.where(~target),
            metrics=["rmse", "recall@5"],
            private=True,
            public_model=True,
            max_error=1.0,
            ledger=ledger,
            epsilon=self.epsilon,
            delta=self.delta,
        )
        self.values_, self.guarantee_ = dict(found), found.guarantee_
        return self
