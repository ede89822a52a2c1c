"""FrankWolfe: the non-private twin, with exact singular vectors and the classic step sizes or a line search."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import brentq
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator, eigsh

from discreet.data.interactions import Interactions
from discreet.data.progress import Bar
from discreet.engine.batches import DENSE_CELLS, parts
from discreet.kernels.threads import single_threaded_blas
from discreet.models.base import NotPrivateModel, check_parameters, require_ratings
from discreet.models.centering import Prepared
from discreet.models.eigen import second_moment
from discreet.models.frank_wolfe.contributions import Local, LossName
from discreet.models.frank_wolfe.estimate import Step, packed
from discreet.models.frank_wolfe.model import CHOICES, FrankWolfeModel
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array

NO_BOUND = 1e100  # longer than any row
SMALL = 1000  # items whose covariance is formed: it is quicker then
RADIUS = 2.0  # times the largest singular value of the ratings, scaled up to the whole matrix


class FrankWolfe(FrankWolfeModel, NotPrivateModel):
    """Matrix completion in a nuclear-norm ball by Frank-Wolfe steps, not private: the twin of `DPFrankWolfe`.

    Minimizes the sum of losses of fitted ratings over matrices of nuclear norm at most k. Each step goes from Y
    towards -k u v^T, u and v being the leading singular vectors of the gradient on what is rated.

    Example:
        >>> import discreet
        >>> ratings = discreet.datasets.movielens_like(300, 50, 6_000, random_state=0)
        >>> len(discreet.FrankWolfe().fit(ratings).recommend({3: 5.0, 14: 1.5}, n=5))
        5

    Args:
        n_steps: T.
        radius: k; by default twice the largest singular value of the ratings, scaled up to the whole matrix.
        step: "line-search": as far as the loss falls, at most the whole way. "classic": eta = 2 / (t + 2).
        loss: "squared" or "logistic".
        centre: Whether rows are taken about users' own means.
        n_jobs: Threads, in scikit-learn's meaning.
    """

    def __init__(
        self,
        *,
        n_steps: int = 20,
        radius: float | None = None,
        step: Literal["line-search", "classic"] = "line-search",
        loss: LossName = "squared",
        centre: bool = True,
        n_jobs: int | None = -1,
    ) -> None:
        self.n_steps = n_steps
        self.radius = radius
        self.step = step
        self.loss = loss
        self.centre = centre
        self.n_jobs = n_jobs

    def _check_parameters(self) -> None:
        steps = {"step": ("line-search", "classic")}
        check_parameters(self, positives=("radius",), wholes=("n_steps",), choices={**CHOICES, **steps})

    def _learn_exactly(self, ratings: Interactions) -> dict[str, Any]:
        low, high = require_ratings("FrankWolfe", ratings)
        fill = len(ratings) / (ratings.n_users * ratings.n_items)
        local = self._local((low, high), NO_BOUND)
        row = local.centering.prepare_all(ratings)
        fitted, radius = np.zeros(len(row.values)), self.radius
        steps: list[Step] = []
        with Bar("FrankWolfe", self.n_steps, "steps") as bar:
            for t in range(self.n_steps):
                residuals = local.residuals(row, fitted)[0]
                vector, largest = _leading(ratings, residuals, self.n_jobs)
                radius = radius or RADIUS * largest / fill
                gain = radius / largest if largest else 0.0
                atom = local.update(row, fitted, residuals, Step(vector, 1.0, gain))[0]
                size = 2 / (t + 2) if self.step == "classic" else _line_search(local, row, fitted, atom)
                fitted += size * (atom - fitted)
                steps.append(Step(vector, size, size * gain))
                bar.advance(1)
        popularity = np.bincount(ratings.indices, minlength=ratings.n_items)
        return {
            **self._learned(*packed(steps), popularity),
            "value_range_": (low, high),
            "row_norm_": NO_BOUND,
            "radius_": float(radius or 0.0),
        }


def _leading(ratings: Interactions, residuals: Array, n_jobs: int | None) -> tuple[Array, float]:
    """The leading right singular vector of a sparse matrix of residuals, and its singular value."""
    n = ratings.n_items
    if not residuals.any():
        return np.zeros(n), 0.0
    if n <= SMALL:
        blocks = parts(ratings, residuals, most_users=max(DENSE_CELLS // n, 1))
        square = second_moment(blocks, lambda part: _dense(part, n), n, n_jobs)
        with single_threaded_blas():
            values, vectors = eigh(square, subset_by_index=[n - 1, n - 1])
    else:
        table = csr_array((residuals, ratings.indices, ratings.indptr), shape=(ratings.n_users, n))
        operator = LinearOperator((n, n), matvec=lambda v: table.T @ (table @ v), dtype=np.float64)
        begin = np.random.default_rng(0).standard_normal(n)
        with single_threaded_blas():
            values, vectors = eigsh(operator, k=1, v0=begin, tol=1e-4)
    vector = vectors[:, 0].astype(np.float32).astype(np.float64)
    return vector, float(np.sqrt(max(values[0], 0.0)))


def _dense(part: UserBatch, size: int) -> Array:
    rows = np.zeros((len(part.counts), size), part.values.dtype)
    rows[part.owners, part.indices] = part.values
    return rows


def _line_search(local: Local, row: Prepared, fitted: Array, atom: Array) -> float:
    """How far on the way to the atom the loss is least, between 0 and 1: its derivative rises."""
    change = atom - fitted

    def derivative(size: float) -> float:
        return float((local.residuals(row, fitted + size * change)[0] * change).sum())

    if derivative(0.0) >= 0:
        return 0.0
    return 1.0 if derivative(1.0) <= 0 else float(brentq(derivative, 0.0, 1.0, xtol=1e-9))
