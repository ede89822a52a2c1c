"""DPGradientDescent: private projected gradient descent on a nuclear-norm ball."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np

from discreet.data.interactions import Interactions
from discreet.engine import LocalBlocks
from discreet.engine.batches import DENSE_CELLS
from discreet.errors import DataError
from discreet.models.as_published import PublishedModel, frank_wolfe_std, true_plan
from discreet.models.base import Model
from discreet.models.centering import Centring
from discreet.models.directions import noise_edge
from discreet.models.fold_in import FoldIn, ReplayFoldIn
from discreet.models.gradient.contributions import Descent, DescentSteps, prepared
from discreet.models.gradient.estimate import Step, packed, project, unpacked
from discreet.models.private import PrivateModel
from discreet.models.spectral.cleansing import check_catalogue
from discreet.privacy import GramSum, Plan, Releaser
from discreet.privacy.guarantee import Adjacency
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array
from discreet.validation import positive, probability, whole

MOMENT = "second moment of gradient steps"


class DescentModel(Model):
    """What private and not private descent share: the steps that a model keeps, and how a user replays them."""

    _ARRAYS: ClassVar[tuple[str, ...]] = (*Model._ARRAYS, "steps_", "gains_")
    _VALUES: ClassVar[tuple[str, ...]] = (*Model._VALUES, "ranks_", "row_norm_")

    step_size: float
    n_steps: int
    radius: float | None
    centre: bool
    steps_: Array
    gains_: Array
    ranks_: list[int]
    row_norm_: float

    def _check_descent(self) -> None:
        whole("n_steps", self.n_steps, 1)
        if positive("step_size", self.step_size) >= 2:
            raise DataError(f"step_size: below 2 is needed, or steps overshoot ever more, not {self.step_size!r}")
        if self.radius is not None:
            positive("radius", self.radius)

    def _descent(self, n_items: int) -> Descent:
        return Descent(float(self.step_size), n_items)

    def _learned(self, steps: list[Step], centring: Centring, popularity: Array) -> dict[str, Any]:
        vectors = steps[-1].vectors
        return {
            **packed(steps),
            "item_factors_": vectors.astype(np.float32),
            "item_bias_": np.zeros(len(vectors), np.float32),
            "popularity_": popularity.astype(np.float32),
            "implicit_": False,
            "global_mean_": float(centring.centre),
            "row_norm_": float(centring.row_norm),
        }

    def _make_fold_in(self) -> FoldIn:
        centring = Centring.of(self.value_range_, self.row_norm_, centre=self.centre)
        steps = unpacked(self.steps_, self.gains_, self.ranks_)
        return ReplayFoldIn(
            columns=self.item_factors_,
            base=self.item_bias_ + np.float32(self.global_mean_),
            steps=DescentSteps(self._descent(len(self.item_bias_)), centring, steps),
        )

    def _check_learned(self) -> None:
        super()._check_learned()
        m, ranks = len(self.catalogue_), list(self.ranks_)
        fit = len(ranks) == self.n_steps and self.steps_.shape == (m, sum(ranks)) and self.gains_.shape == (sum(ranks),)
        if not fit or ranks[-1] != self.item_factors_.shape[1] or not self.row_norm_ > 0:
            raise DataError("steps_, gains_, ranks_, row_norm_: they do not fit together")


class DPGradientDescent(DescentModel, PrivateModel):
    """Completion of ratings by projected gradient descent on a nuclear-norm ball: user-level joint DP.

    Minimises |P(Y - X)|^2 / 2 over matrices Y whose singular values add up to at most `radius`; P keeps the entries
    that users have rated, x_i are a user's ratings less her own mean, scaled down to a length of at most `row_norm`. In
    each of T = `n_steps` steps a user computes, on her own side, z = y - eta P(y - x), with eta = `step_size`, or more
    for who has rated few items (`Descent`). Released is the sum of z z^T, z being shortened to C = `clip` as a whole,
    with symmetric noise: a user moves it by at most C^2 (add-remove), or sqrt(2) C^2 (replace), in the Frobenius norm.
    From its eigenvectors V and the roots of its eigenvalues, lowered as the ball asks for, follow V and gains; then
    y = z V diag(gains) V^T, on her side again.
    docs/proofs/gradient-descent.md has the proof.

    A user's prediction is her own mean and y after the last step; whoever comes later replays the public steps.
    Nobody's row is kept: her state is her coefficients on public directions, at most 64 or half of the items.

    Example:
        >>> import discreet
        >>> ratings = discreet.datasets.movielens_like(300, 50, 6_000, random_state=0)
        >>> model = discreet.DPGradientDescent(epsilon=5, delta=1e-6).fit(ratings)
        >>> len(model.recommend({3: 5.0, 14: 1.5}, n=5))
        5

    Args:
        epsilon: The privacy budget.
        delta: The delta of the budget, a constant well below 1 / the number of users.
        n_steps: T; the steps share the budget.
        step_size: eta for full rows, below 2; public.
        radius: The sum of singular values, public. By default there is none: each step keeps the directions that stand
            out of the noise, as far as they foretell a row (`discreet.models.gradient.estimate.foretelling`).
        row_norm: L, public; by default from the range of ratings and the number of items
            (`discreet.models.centering.public_row_norm`).
        clip: C, public; by default L.
        centre: Whether users subtract their own mean.
        adjacency: "add-remove" or "replace".
        n_jobs: Threads, in scikit-learn's meaning.
    """

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        n_steps: int = 5,
        step_size: float = 1.0,
        radius: float | None = None,
        row_norm: float | None = None,
        clip: float | None = None,
        centre: bool = True,
        adjacency: Adjacency = "add-remove",
        n_jobs: int | None = -1,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.n_steps = n_steps
        self.step_size = step_size
        self.radius = radius
        self.row_norm = row_norm
        self.clip = clip
        self.centre = centre
        self.adjacency = adjacency
        self.n_jobs = n_jobs

    @classmethod
    def as_published(cls, **parameters: Any) -> PublishedDPGradientDescent:
        """With the noise that was published in 2018: `PublishedDPGradientDescent(**parameters)`."""
        return PublishedDPGradientDescent(**parameters)

    def _check_parameters(self) -> None:
        positive("epsilon", self.epsilon)
        probability("delta", self.delta)
        self._check_descent()
        for name in ("row_norm", "clip"):
            if getattr(self, name) is not None:
                positive(name, getattr(self, name))

    def plan(self, n_items: int) -> Plan:
        """What a fit would release, and what each release costs; needs no data, only the size of the catalogue."""
        self._check_parameters()
        check_catalogue(whole("n_items", n_items, 1))
        return Plan.gaussian(self._mu(), {MOMENT: (1.0, self.n_steps)})

    def _check_data(self, ratings: Interactions) -> None:
        self._centring(ratings)  # raises if there is no bound

    def _centring(self, ratings: Interactions) -> Centring:
        return Centring.public(type(self).__name__, ratings, self.row_norm, centre=self.centre)

    def _learn_privately(self, releaser: Releaser, ratings: Interactions) -> dict[str, Any]:
        n, centring = ratings.n_items, self._centring(ratings)
        bound = float(self.clip or centring.row_norm) ** 2
        descent, steps, rated = self._descent(n), list[Step](), np.zeros(n)
        for _ in range(self.n_steps):
            users: LocalBlocks[UserBatch] = LocalBlocks(partial(prepared, ratings, centring, DENSE_CELLS))
            rows = partial(descent.rows, steps=list(steps))
            moment = releaser.release(MOMENT, GramSum(n, bound), users, rows)
            if not steps:  # how much of all ratings, squared, is of each item: the nearest there is to popularity
                rated = np.maximum(np.diag(moment.values), 0) / centring.row_norm**2
            steps.append(project(moment.values, float(noise_edge(moment.std, n)), self.radius))
        return {"value_range_": ratings.value_range, **self._learned(steps, centring, rated)}


class PublishedDPGradientDescent(PublishedModel, DPGradientDescent):
    """Projected gradient descent with the noise that was published: L^2 sqrt(64 T log(1 / delta)) / epsilon.

    It differs from `DPGradientDescent` in nothing else. Rows are shortened to L as a whole; the paper bounds the rated
    entries only, which bounds nothing once y is filled in. `guarantee_` has the epsilon that the noise truly gives. The
    parameters are those of `DPGradientDescent`; `epsilon` is what the paper would call epsilon.

    Example:
        >>> import discreet
        >>> model = discreet.DPGradientDescent.as_published(epsilon=5, delta=1e-6)
        >>> round(model.plan(n_items=1000).cost.epsilon(1e-6), 2)  # more noise than it takes
        0.69
    """

    _error = "the noise is too little for rows of this length"

    def plan(self, n_items: int) -> Plan:
        """What a fit would release, and what each release truly costs; needs only the size of the catalogue."""
        self._check_parameters()
        check_catalogue(whole("n_items", n_items, 1))
        self._mu()  # checks the adjacency
        std = frank_wolfe_std(1.0, self.n_steps, self.epsilon, self.delta)
        return true_plan({MOMENT: (1.0, True, std, self.n_steps)}, self.adjacency)
