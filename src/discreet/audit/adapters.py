"""Adapters for what needs its own kind of audit: a model whose noise stays secret, a search, and an evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from discreet.audit.recording import Recording
from discreet.data.interactions import Interactions
from discreet.data.readers import read
from discreet.evaluate import evaluate
from discreet.models.baselines import MeanRating
from discreet.models.one_bit.contributions import LINEAR_TERM, TrueBits, two_valued
from discreet.models.one_bit.likelihood import Link
from discreet.models.spectral import DPSVD
from discreet.privacy import Ledger
from discreet.privacy.guarantee import Adjacency
from discreet.tune import search
from discreet.typing import Array

NUDGE = 1e-3  # the change of the perturbation by which the derivative of an optimum is found


def secret_perturbation(
    first: Recording, data: Interactions, neighbor: Interactions
) -> tuple[list[Array], dict[str, float]]:
    """The linear perturbation with which a neighbor, with one bit flipped, has the same optimum, and its likelihood.

    What is released is the optimum X, a function of the bits B and of a secret linear perturbation H. At the optimum,
    H = -(l'(X; B) + ridge X + what constraints add), so that for other bits B' it is H' = H + l'(X; B) - l'(X; B'). The
    density of X is that of H times the determinant of A = -dH/dX. One entry of its diagonal differs by e, that of the
    bit: the ratio of the determinants is 1 + e / A, by that entry of the inverse of A, -dX/dH.
    """
    secret, matrix = first.releases[0], first.releases[1].statistic
    true, other = (TrueBits.of(table, two_valued(table, None)) for table in (data, neighbor))
    ((at,),) = np.nonzero(true.bits != other.bits)
    mechanism = first.model._mechanism()
    fit, link = mechanism.fit(first.model.tau), mechanism.link
    place = true.observed.rows[at], true.observed.columns[at]
    nudge = np.where(np.arange(len(secret.answer)) == at, NUDGE, 0.0)
    ends = [fit.solve(true, secret.answer + way * nudge, mechanism.gap(len(nudge)))[place] for way in (-1.0, 1.0)]
    signs = np.where(np.array([true.bits[at], other.bits[at]]) > 0, 1.0, -1.0)
    slopes, bends = -signs * link.log_slope(signs * matrix[place]), link.bend(signs * matrix[place])
    answer = np.array(secret.answer)
    answer[at] += np.rint((slopes[0] - slopes[1]) / secret.step) * secret.step
    likelier = float(np.abs(secret.answer).sum() - np.abs(answer).sum()) / secret.scale
    likelier += float(np.log1p((bends[1] - bends[0]) * (ends[0] - ends[1]) / (2 * NUDGE)))
    return [answer, *first.answers[1:]], {LINEAR_TERM: abs(likelier) * secret.scale / secret.sensitivity}


def cornered(link: Link, ridge: float) -> tuple[float, Array]:
    """tau, and the linear perturbation of bits that are all 1 that makes the first of them matter most.

    For one entry, the density of the perturbation and the determinant of second derivatives change in opposite
    directions where no constraint is active. Here the ball holds the entry up, against its own perturbation: the matrix
    has a large singular value, in which there is little of the entry, and a small negative one; its nuclear norm would
    be larger were the entry smaller. All other values are positive, so that the ball hardly keeps it from moving.
    """
    size, large, share, value, others, multiplier = 20, 15.0, 0.08, 0.98, 0.2, 3.0
    small = (share * large - value) / (1 - share)
    first = np.where(np.arange(size) == 0, share**0.5, ((1 - share) / (size - 1)) ** 0.5)
    second = np.where(np.arange(size) == 0, (1 - share) ** 0.5, -((share / (size - 1)) ** 0.5))
    rest = np.eye(size) - np.outer(first, first) - np.outer(second, second)
    matrix = large * np.outer(first, first) - small * np.outer(second, second) + others * rest
    normal = np.outer(first, first) - np.outer(second, second) + rest
    slope = link.log_slope(matrix) - ridge * matrix - multiplier * normal
    return large + small + (size - 2) * others, np.rint(slope.ravel() * 2**20) / 2**20  # on any finer grid


@dataclass
class Searched:
    """A private search for one parameter of DPSVD, with the interface of a model."""

    adjacency: Adjacency
    epsilon: float = 15.0
    delta: float = 1e-6

    def fit(self, data: Interactions, ledger: Ledger) -> Any:
        """The model that is found, with everything that the search reports of it."""
        base = DPSVD(epsilon=self.epsilon, delta=self.delta, adjacency=self.adjacency, n_jobs=1)
        found = search(base, {"rank": [2, 4]}, data, (self.epsilon, self.delta), ledger, trials=2.0)
        found.model.searched_ = (dict(found.settings), found.score, found.metric)
        return found.model


@cache
def _public_model(n_items: int) -> MeanRating:
    """Predicts 2.5 for every item and user."""
    rows = [(user, item, 2.5) for user in range(3) for item in range(n_items)]
    return MeanRating("global").fit(read(rows, items=list(range(n_items)), value_range=(0, 5)))


@dataclass
class Evaluated:
    """A private evaluation of a public model, with the interface of a model: half of all ratings are targets."""

    adjacency: Adjacency
    epsilon: float = 5.0
    delta: float = 1e-6
    n_items: int = 20

    def __post_init__(self) -> None:
        self._model = _public_model(self.n_items)

    def fit(self, data: Interactions, ledger: Ledger) -> Evaluated:
        """Evaluate, and keep everything that is released."""
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
