"""DPFrankWolfe: private matrix completion by the Frank-Wolfe method (Jain, Thakkar, Thakurta 2018)."""

from __future__ import annotations

import math
from typing import Any, Literal

from discreet.errors import DataError
from discreet.models.centering import public_row_norm
from discreet.models.eigen import check_budget
from discreet.models.frank_wolfe.common import fill_of
from discreet.models.frank_wolfe.corrective import Correction
from discreet.models.frank_wolfe.losses import LossName
from discreet.models.frank_wolfe.published import PublishedDPFrankWolfe
from discreet.models.frank_wolfe.steps import COVARIANCE, ENERGY, LENGTH, PRODUCT, Eigensolver, Schedule, StepRule
from discreet.models.frank_wolfe.training import PrivateFrankWolfe
from discreet.privacy import Plan
from discreet.privacy.guarantee import Adjacency
from discreet.validation import whole

ENERGY_SHARE, LENGTH_SHARE = 0.05, 0.01  # of the budget: single numbers, of which the noise matters little
MOST_STEPS = 20


class DPFrankWolfe(PrivateFrankWolfe):
    """Private matrix completion by Frank-Wolfe steps, one direction at a time. User-level joint differential privacy.

    It makes the sum over users of |P(Y_i - x_i)|^2 / 2 small over matrices Y of low rank; x_i is user i's row of
    ratings, and P keeps the items that she has rated. With A_i = P(Y_i - x_i), shortened to length C at most, each of T
    steps is

    - global: release A^T A, the sum over users of A_i^T A_i, with symmetric noise. One user moves it by at most C^2
      (add-remove), or sqrt(2) C^2 (replace). Its leading eigenvector v and eigenvalue lambda^2 are public.
    - local: each user fits her own ratings along all v so far, by a ridge regression whose penalties are public, and an
      offset of her own with it: fully corrective steps. C follows the residuals: before each step the sum of |A_i|^2 is
      released, with the last C (one user moves it by at most C^2), and C shrinks as its root does. So does the noise.
      Where it says that nothing but rounding is left, steps end, and the ledger gets the rest of the budget back; the
      guarantee stays that of the whole plan.

    With step="constant" the local part is the paper's: Y_i = (1 - eta) Y_i - eta k / lambda' (A_i . v) v, eta = 1 / T,
    with x_i about her own mean and scaled to length L at most, projected so that |P Y_i| is at most L; Y stays in the
    ball of nuclear norm k, and C is the same for all steps.

    With eigensolver="oja" the matrix is never formed: v comes from `oja_steps` releases of A^T A v, which one user
    moves by at most C^2 in both adjacencies, and lambda^2 = |A v|^2 from one more. A new user is folded in by what is
    public of the steps and her own history. Proofs: docs/proofs/frank-wolfe.md, docs/proofs/oja.md.

    Example:
        >>> import discreet
        >>> ratings = discreet.datasets.movielens_like(3000, 100, 60_000, random_state=0)
        >>> model = discreet.DPFrankWolfe(epsilon=5, delta=1e-6).fit(ratings)
        >>> len(model.recommend({ratings.items[0]: 5.0}, n=5))
        5

    Args:
        epsilon: The privacy parameter.
        delta: The other one: a constant well below 1 / the number of users.
        n_steps: T, the most steps. By default 10 sqrt(mu): 5 at epsilon 1 and delta 1e-6, never more than 20.
        radius: k, for constant steps. By default 2.5 times what the first release says of the largest singular value of
            the whole matrix.
        row_norm: L. By default the length of a typical row: a fifth of the value range (not centred: half the largest
            rating; logistic: half the range) times the root of `ratings_per_user`.
        residual_clip: C, of the first step or of constant ones; by default L.
        ratings_per_user: About how many ratings a user has: a public guess, by default 80, or all items if fewer.
        eigensolver: "dense", or "oja", in memory linear in items and ratings; by default the former up to 4,000 items.
        oja_steps: Gamma, how many products make a direction.
        noise: "gaussian".
        loss: "squared", or "logistic" for ratings that are mostly at the ends of their range.
        step: "corrective", or "constant", as in the paper, but with C.
        centre: Whether rows are taken about users' own means, which is local and free; False for centred data.
        adjacency: "add-remove" or "replace".
        n_jobs: Threads, in scikit-learn's meaning. The result is the same for any number.
    """

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        n_steps: int | None = None,
        radius: float | None = None,
        row_norm: float | None = None,
        residual_clip: float | None = None,
        ratings_per_user: int | None = None,
        eigensolver: Eigensolver | None = None,
        oja_steps: int = 8,
        noise: Literal["gaussian"] = "gaussian",
        loss: LossName = "squared",
        step: StepRule = "corrective",
        centre: bool = True,
        adjacency: Adjacency = "add-remove",
        n_jobs: int | None = -1,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.n_steps = n_steps
        self.radius = radius
        self.row_norm = row_norm
        self.residual_clip = residual_clip
        self.ratings_per_user = ratings_per_user
        self.eigensolver = eigensolver
        self.oja_steps = oja_steps
        self.noise = noise
        self.loss = loss
        self.step = step
        self.centre = centre
        self.adjacency = adjacency
        self.n_jobs = n_jobs

    @classmethod
    def as_published(cls, **parameters: Any) -> PublishedDPFrankWolfe:
        """As it was published in 2018, with its true guarantee: `PublishedDPFrankWolfe(**parameters)`."""
        return PublishedDPFrankWolfe(**parameters)

    def _check_parameters(self) -> None:
        self._check_private()
        for name in ("n_steps", "ratings_per_user"):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name), 1)
        self._check_choices(
            ("radius", "row_norm", "residual_clip"),
            {"eigensolver": (None, "dense", "oja"), "noise": ("gaussian",), "step": ("corrective", "constant")},
        )

        if self.radius is not None and self._corrective:
            raise DataError("radius: corrective steps have none; pass step='constant', or leave radius out")

    @property
    def _corrective(self) -> bool:
        return self.step == "corrective"

    def plan(self, n_items: int) -> Plan:
        """What a fit would release, and what each release costs; needs no data, only the size of the catalogue."""
        self._check_parameters()
        count = self._n_releases()
        length = LENGTH_SHARE if self._corrective else 0.0
        shares: dict[str, float | tuple[float, int]] = {LENGTH: (length, count)} if length else {}
        if self._solver(whole("n_items", n_items, 1)) == "oja":
            shares |= {PRODUCT: (1 - ENERGY_SHARE - length, count * self.oja_steps), ENERGY: (ENERGY_SHARE, count)}
        else:
            shares |= {COVARIANCE: (1 - length, count)}
        return check_budget(Plan.gaussian(self._mu(), shares), n_items)

    def _n_releases(self) -> int:
        return self.n_steps or min(max(round(10 * math.sqrt(self._mu())), 1), MOST_STEPS)

    def _bounds(self, value_range: tuple[float, float], n_items: int) -> tuple[float, float]:
        width = value_range[1] - value_range[0]
        ends, centre = ((-width, width), False) if self.loss == "logistic" else (value_range, self.centre)
        row_norm = float(
            self.row_norm or public_row_norm(ends, n_items, ratings_per_user=self.ratings_per_user, centre=centre)
        )
        return row_norm, float(self.residual_clip or row_norm)

    def _rule(self, n_items: int, clip: float) -> Schedule | Correction:
        fill = fill_of(self.ratings_per_user, n_items)
        if self._corrective:
            return Correction.of(n_items, fill, clip)
        return Schedule(self._n_releases(), fill, self.radius, clip)

    def _public_inputs(self) -> dict[str, str]:
        given = ("n_steps", "radius", "row_norm", "residual_clip", "ratings_per_user")
        words = [f"{name} = {getattr(self, name)}" for name in given if getattr(self, name) is not None]
        return {"bounds": ", ".join(words) + ", given"} if words else {}
