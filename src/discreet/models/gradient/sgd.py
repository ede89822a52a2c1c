"""DPSGD: matrix factorization by differentially private stochastic gradient descent."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np

from discreet.data.interactions import Interactions
from discreet.engine import LocalBlocks
from discreet.engine.batches import parts
from discreet.errors import DataError, PrivacyError
from discreet.models.base import check_parameters, require_ratings
from discreet.models.fold_in import FoldIn, RidgeFoldIn
from discreet.models.private import PrivateModel
from discreet.models.ridge import Penalty, Ridge
from discreet.privacy import OuterSum, Plan, Planned, Releaser
from discreet.privacy.guarantee import AdjacencyName
from discreet.privacy.selection import largest_mu, sampled_cost
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array
from discreet.validation import probability, whole

GRADIENT = "item gradient over a sample of users"
START = 0.3  # the length of an item's vector at the start, in the unit of the ratings
OFFSET_PENALTY = 2.0
VECTOR_PENALTY = 2.0
FORGET, FORGET_SQUARES = 0.9, 0.99  # of earlier gradients and of their squares, in each step
LATER = 0.5  # of the steps, whose factors are averaged


class DPSGD(PrivateModel):
    """Matrix factorization by differentially private stochastic gradient descent (DP-SGD): user-level joint DP.

    The model is y_ij = middle of the range + a_i + b_j + u_i . v_j. In each step every user takes part with probability
    `sample_rate`, by a secret coin of their own. A user who does solves their own ridge regression for a and u,

        sum over their items of (y_j - middle - b_j - a - u . v_j)^2 + 2 a^2 + 2 |u|^2

    (for ratings mapped to [-2, 2]), on their own side. Their gradient, the residuals e_j times (1, u), a row for each
    of their items, is shortened to `clip` as a whole: its sum over the sample, with Gaussian noise, is released, once
    for each step. So one user moves a release by at most `clip`, and only if they are in the sample, which makes it
    cheaper. The noise is found by a privacy-loss distribution accountant. Steps follow Adam (Kingma and Ba 2015), and
    the model is the mean of the later ones' factors. docs/proofs/sgd.md has the proof.

    A ledger that pays for it must be new, or have filter="renyi". Sampling is accounted for add-remove adjacency only.

    Example:
        >>> import discreet
        >>> model = discreet.DPSGD(epsilon=5, delta=1e-6, sample_rate=0.1)  # model.fit(ratings), as for every model
        >>> print(f"{model.n_steps} steps, each on about a tenth of the users")
        100 steps, each on about a tenth of the users

    Args:
        epsilon: The privacy budget.
        delta: The delta of the budget, a constant well below 1 / the number of users.
        rank: The length of the vectors v_j.
        n_steps: How many steps.
        sample_rate: The probability that a user takes part in a step; 1: all do.
        clip: The bound of a user's gradient, for ratings mapped to [-2, 2]; public.
        learning_rate: How far the first steps go, in that unit; later ones go less far, down to a tenth.
        adjacency: "add-remove".
        random_state: Seed of the vectors at the start; public.
        n_jobs: Threads, in scikit-learn's meaning.
    """

    _VALUES: ClassVar[tuple[str, ...]] = (*PrivateModel._VALUES, "unit_")

    unit_: float

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        rank: int = 4,
        n_steps: int = 100,
        sample_rate: float = 0.1,
        clip: float = 1.0,
        learning_rate: float = 0.03,
        adjacency: AdjacencyName = "add-remove",
        random_state: int = 0,
        n_jobs: int | None = -1,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.rank = rank
        self.n_steps = n_steps
        self.sample_rate = sample_rate
        self.clip = clip
        self.learning_rate = learning_rate
        self.adjacency = adjacency
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _check_parameters(self) -> None:
        probability("delta", self.delta)
        positives = ("epsilon", "sample_rate", "clip", "learning_rate")
        check_parameters(self, positives=positives, wholes=("rank", "n_steps"))
        whole("random_state", self.random_state, 0)
        if self.sample_rate > 1:
            raise DataError(f"sample_rate: a probability is needed, not {self.sample_rate!r}")
        if self.adjacency != "add-remove":
            raise PrivacyError(
                f"adjacency: releases over samples are accounted for 'add-remove' only, not {self.adjacency!r}; use "
                "that, or another model"
            )

    @property
    def _rate(self) -> float:
        return float(self.sample_rate)

    def _noise_mu(self) -> float:
        """How private each release would be without sampling."""
        return largest_mu(float(self.epsilon), float(self.delta), self._rate, self.n_steps)

    def plan(self, n_items: int) -> Plan:
        """What a fit would release, and what each release costs; needs no data, only the size of the catalogue."""
        self._check_parameters()
        whole("n_items", n_items, 1)
        return Plan((Planned(GRADIENT, sampled_cost(self._noise_mu(), self._rate, 1), self.n_steps),))

    def _check_data(self, ratings: Interactions) -> None:
        require_ratings("DPSGD", ratings)

    def _learn_privately(self, releaser: Releaser, ratings: Interactions) -> dict[str, Any]:
        """The model, from noisy gradients alone."""
        assert ratings.value_range is not None
        low, high = ratings.value_range
        middle, unit = (low + high) / 2, (high - low) / 4
        rng = np.random.default_rng(self.random_state)
        factors = np.zeros((ratings.n_items, 1 + self.rank))
        factors[:, 1:] = START * rng.standard_normal((ratings.n_items, self.rank)) / np.sqrt(self.rank)
        adam, later = Adam(float(self.learning_rate), self.n_steps), Mean()
        statistic, noise = OuterSum(factors.shape, float(self.clip)), {"mu": self._noise_mu(), "rate": self._rate}

        def users_of(numbers: Array) -> LocalBlocks[UserBatch]:
            some = ratings if self._rate == 1 else ratings.of_users(numbers)
            return LocalBlocks(lambda: _mapped(some, middle, unit))

        for step in range(self.n_steps):
            gradient = partial(own_gradient, user_ridge(factors))
            released = releaser.release_sampled(GRADIENT, statistic, ratings.n_users, users_of, gradient, **noise)
            factors = factors + adam.step(released.values)
            if step >= LATER * self.n_steps or step == self.n_steps - 1:
                later.add(factors)
        return {
            "item_factors_": (later.value[:, 1:] * unit).astype(np.float32),
            "item_bias_": (later.value[:, 0] * unit).astype(np.float32),
            "popularity_": np.zeros(ratings.n_items, np.float32),
            "value_range_": (low, high),
            "implicit_": False,
            "global_mean_": middle,
            "unit_": unit,
        }

    def _make_fold_in(self) -> FoldIn:
        base = self.item_bias_ + np.float32(self.global_mean_)
        penalty = Penalty(VECTOR_PENALTY * self.unit_**2)
        return RidgeFoldIn(columns=self.item_factors_, base=base, penalty=penalty, offset_penalty=OFFSET_PENALTY)

    def _check_learned(self) -> None:
        super()._check_learned()
        if not 0 < self.unit_ < np.inf:
            raise DataError("unit_: a positive number is needed")


def _mapped(ratings: Interactions, middle: float, unit: float) -> Any:
    """Users' rows, ratings mapped to [-2, 2], some users at a time."""
    for part in parts(ratings, ratings.values):
        values = (part.values.astype(np.float64) - middle) / unit
        yield UserBatch(part.indptr, part.indices, values)


def user_ridge(factors: Array) -> Ridge:
    """A user's own regression; the first column of the factors are biases."""
    return Ridge(factors[:, 1:], factors[:, 0], Penalty(VECTOR_PENALTY), offset_penalty=OFFSET_PENALTY)


def own_gradient(ridge: Ridge, part: UserBatch) -> tuple[Array, Array]:
    """The gradients of some users: the x_j, and a = (1, u) / |(1, u)|.

    A user's rows are e_j (1, u), with e_j what their own regression leaves of rating j.
    """
    left = np.zeros(len(part.indices))
    vectors = ridge.solve(part.indptr, part.indices, part.values, residuals=left)[1]
    ones = np.column_stack([np.ones(len(vectors)), vectors])
    lengths = np.sqrt((ones**2).sum(axis=1))
    return left * lengths[part.owners], ones / lengths[:, None]


@dataclass
class Adam:
    """Steps along gradients, each number in units of its own recent size (Kingma and Ba 2015). Public."""

    rate: float
    n_steps: int
    taken: int = 0
    mean: Any = 0.0
    square: Any = 0.0

    def step(self, gradient: Array) -> Array:
        """How far to go."""
        self.mean = FORGET * self.mean + (1 - FORGET) * gradient
        self.square = FORGET_SQUARES * self.square + (1 - FORGET_SQUARES) * gradient**2
        rate = self.rate * (1 - 0.9 * self.taken / self.n_steps)
        self.taken += 1
        mean = self.mean / (1 - FORGET**self.taken)
        size = np.sqrt(self.square / (1 - FORGET_SQUARES**self.taken))
        return np.asarray(np.divide(rate * mean, size, out=np.zeros_like(gradient), where=size > 0))


@dataclass
class Mean:
    """A running mean."""

    count: int = 0
    value: Any = field(default=0.0)

    def add(self, array: Array) -> None:
        """One more."""
        self.count += 1
        self.value = self.value + (array - self.value) / self.count
