"""DPGradientDescent: private projected gradient descent on a nuclear-norm ball."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from discreet.data.interactions import Interactions
from discreet.engine import LocalBlocks
from discreet.engine.batches import DENSE_CELLS
from discreet.errors import DataError
from discreet.models.base import Model, check_parameters
from discreet.models.centering import Centering
from discreet.models.directions import noise_edge
from discreet.models.eigen import check_catalogue
from discreet.models.fold_in import FoldIn, ReplayFoldIn
from discreet.models.gradient.contributions import Descent, DescentSteps, prepared
from discreet.models.gradient.estimate import Step, packed, project, unpacked
from discreet.models.private import PrivateModel
from discreet.privacy import GramSum, Plan, Releaser
from discreet.privacy.guarantee import AdjacencyName
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array
from discreet.validation import probability, whole

if TYPE_CHECKING:
    from discreet.models.gradient.published import PublishedDPGradientDescent

MOMENT = "second moment of gradient steps"


class DescentModel(Model):
    """The steps that a model of descent keeps, and how a user replays them; private or not."""

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

    def _check_parameters(self) -> None:
        check_parameters(self, positives=("step_size", "radius"), wholes=("n_steps",))
        if self.step_size >= 2:
            raise DataError(f"step_size: below 2 is needed, or steps overshoot more and more, not {self.step_size!r}")

    def _descent(self, n_items: int) -> Descent:
        return Descent(float(self.step_size), n_items)

    def _learned(self, steps: list[Step], centering: Centering, popularity: Array) -> dict[str, Any]:
        vectors = steps[-1].vectors
        return {
            **packed(steps),
            "item_factors_": vectors.astype(np.float32),
            "item_bias_": np.zeros(len(vectors), np.float32),
            "popularity_": popularity.astype(np.float32),
            "implicit_": False,
            "global_mean_": float(centering.centre),
            "row_norm_": float(centering.row_norm),
        }

    def _make_fold_in(self) -> FoldIn:
        centering = Centering.of(self.value_range_, self.row_norm_, centre=self.centre)
        steps = unpacked(self.steps_, self.gains_, self.ranks_)
        return ReplayFoldIn(
            columns=self.item_factors_,
            base=self.item_bias_ + np.float32(self.global_mean_),
            steps=DescentSteps(self._descent(len(self.item_bias_)), centering, steps),
        )

    def _check_learned(self) -> None:
        super()._check_learned()
        m, ranks = len(self.catalogue_), list(self.ranks_)
        fit = len(ranks) == self.n_steps and self.steps_.shape == (m, sum(ranks)) and self.gains_.shape == (sum(ranks),)
        if not fit or ranks[-1] != self.item_factors_.shape[1] or not self.row_norm_ > 0:
            raise DataError("steps_, gains_, ranks_, row_norm_: they do not fit together")


class DPGradientDescent(DescentModel, PrivateModel):
    """Completion of ratings by projected gradient descent on a nuclear-norm ball: user-level joint DP.

    Minimizes |P(Y - X)|^2 / 2 over matrices Y whose singular values add up to at most `radius`. P keeps the entries
    that users have rated; x_i are a user's ratings less their own mean, scaled down to a length of at most `row_norm`.
    In each of T = `n_steps` steps a user computes, on their own side, z = y - eta P(y - x), with eta = `step_size`, or
    more if they have rated few items (`Descent`). Released is the sum of z z^T, where z is shortened to C = `clip` as a
    whole, with symmetric noise: a user moves it by at most C^2 (add-remove), or sqrt(2) C^2 (replace), in the Frobenius
    norm. Its eigenvectors V and the roots of its eigenvalues, lowered to fit in the ball, give the gains; then
    y = z V diag(gains) V^T, on the user's side again. docs/proofs/gradient-descent.md has the proof.

    A user's prediction is their own mean and y after the last step; new users replay the public steps. No user's row is
    kept: their state is their coefficients on public directions, at most 64 or half of the items.

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
            out of the noise, as far as they predict a row (`discreet.models.gradient.estimate.predictive`).
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
        adjacency: AdjacencyName = "add-remove",
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
        from discreet.models.gradient.published import PublishedDPGradientDescent

        return PublishedDPGradientDescent(**parameters)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        probability("delta", self.delta)
        check_parameters(self, positives=("epsilon", "row_norm", "clip"))

    def plan(self, n_items: int) -> Plan:
        """What a fit would release, and what each release costs; needs no data, only the size of the catalogue."""
        self._check_parameters()
        check_catalogue(whole("n_items", n_items, 1))
        return Plan.gaussian(self._mu(), {MOMENT: (1.0, self.n_steps)})

    def _check_data(self, ratings: Interactions) -> None:
        self._centering(ratings)  # raises if there is no bound

    def _centering(self, ratings: Interactions) -> Centering:
        return Centering.public(type(self).__name__, ratings, self.row_norm, centre=self.centre)

    def _learn_privately(self, releaser: Releaser, ratings: Interactions) -> dict[str, Any]:
        n, centering = ratings.n_items, self._centering(ratings)
        bound = float(self.clip or centering.row_norm) ** 2
        descent, steps, rated = self._descent(n), list[Step](), np.zeros(n)
        for _ in range(self.n_steps):
            users: LocalBlocks[UserBatch] = LocalBlocks(partial(prepared, ratings, centering, DENSE_CELLS))
            rows = partial(descent.rows, steps=list(steps))
            moment = releaser.release(MOMENT, GramSum(n, bound), users, rows)
            if not steps:  # the share of each item in all ratings, squared: the nearest there is to popularity
                rated = np.maximum(np.diag(moment.values), 0) / centering.row_norm**2
            steps.append(project(moment.values, float(noise_edge(moment.std, n)), self.radius))
        return {"value_range_": ratings.value_range, **self._learned(steps, centering, rated)}
