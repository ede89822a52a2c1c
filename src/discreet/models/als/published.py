"""DPALS as it was published (Chien, Jain, Krichene, Rendle, Song, Thakurta, Zhang 2021), with its true guarantee."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np

from discreet.data.interactions import Interactions
from discreet.errors import DataError, PrivacyError
from discreet.models.als.published_contributions import ItemChoice, Sampling
from discreet.models.als.published_training import (
    COUNTS,
    GRADIENT,
    GRAM,
    MEAN,
    RECOUNTS,
    START,
    STEP,
    Training,
    check_size,
    n_frequent,
    prepared,
)
from discreet.models.base import Learned
from discreet.models.fold_in import FoldIn, Penalty, RidgeFoldIn, shared_gram
from discreet.models.private import Noised, PrivateModel, true_ledger, true_plan
from discreet.privacy import GramSum, Ledger, NormalEquations, OuterSum, Plan, Releaser, VectorSum
from discreet.typing import Array
from discreet.validation import Count, NotNegative, Positive, Seed, round_up

Calibration: TypeAlias = Literal["exact", "published", "given"]

TYPICAL = 20  # times k: the default of `typical_count`
ERROR = (
    "Theorem 1 charges one Gaussian release for each item of a user where there are two; the mean is undercharged by a "
    "factor of up to k, and the global Gram is not charged at all"
)


class Sigmas(NamedTuple):
    """Noise multipliers: sigma_G, sigma_g and sigma_p of the paper, and the one of a noisy SVD start.

    As in the paper, their unit is what one item of one user can move; the number of items per user, k, is part of the
    sensitivity. For the SVD start the unit is Gamma_M^2.
    """

    gram: float
    rhs: float
    pre: float
    start: float


@dataclass(kw_only=True, eq=False, repr=False)
class PublishedDPALS(PrivateModel):
    """DPALS as published: Algorithm 1 on what Algorithm 2 prepares, for the loss of Eq. (24). User-level joint DP.

    Minimizes, over vectors u_i of users, no longer than `user_clip` in training, and v_j of the frequent items,

        sum over sampled (i, j) of (y_ij - m - u_i . v_j)^2 + global_penalty * sum over all (i, j) of (u_i . v_j)^2
        + regularization * (sum_i c_i^user_exponent / Z |u_i|^2 + sum_j c_j^item_exponent / Z' |v_j|^2)

    in turn: each user exactly and from their own row, items from noisy sums. c_i is the user's own number of items and
    Z a public constant (the paper's Z, a mean over users, is private); c_j and Z' come from noisy counts, m from a
    noisy mean. Items that are not frequent get the user's own mean (ratings) or the score 0 (implicit feedback).

    Released, with k = `max_items`: twice the items' counts (a user moves them by at most sqrt(k)), a sum of ratings (k
    times half their range), and in each step a Gram matrix and a right-hand side for each item (together, at noise s_G
    and s_g, sqrt(k user_clip^4 / s_G^2 + k user_clip^2 entry_clip^2 / s_g^2) deviations), with `global_penalty` one
    more matrix (user_clip^2). Proofs, also for replace: docs/proofs/dpals-published.md. The guarantee is always the
    true one, however the noise was set.

    Example:
        >>> import discreet
        >>> model = discreet.DPALS.as_published(epsilon=20, delta=1e-6, preprocessing_noise=4, calibration="published")
        >>> round(model.plan(n_items=1000).cost.epsilon(1e-6), 1)  # what the paper calls 20
        24.4

    Args:
        epsilon: The privacy budget; for calibration="published" what the paper calls epsilon.
        delta: The delta of the budget.
        rank: r, the length of the vectors.
        regularization: lambda, the weight of the vectors' squared lengths.
        global_penalty: lambda_0, the weight of the squared scores of all pairs; positive for implicit feedback.
        item_exponent: mu, how regularization grows with an item's count.
        user_exponent: nu, how regularization grows with a user's count.
        n_steps: T, the number of steps.
        user_clip: Gamma_u, the largest length of a user's vector in training.
        entry_clip: Gamma_M, the bound on entries before and after centering; by default the largest that a centered
            entry can be.
        max_items: k, the number of a user's items that train items.
        item_fraction: beta, the fraction of items that get vectors: the ones with the largest noisy counts.
        gram_noise: sigma_G, of Gram matrices; with calibration="exact" only the ratios of the noises matter.
        rhs_noise: sigma_g, of right-hand sides.
        preprocessing_noise: sigma_p, of counts and the mean.
        start_noise: Noise of the SVD start, in units of Gamma_M^2 (where one user moves it by k).
        calibration: "exact": the noises are scaled by one factor so that they cost (epsilon, delta), exactly.
            "published": sigma_G and sigma_g are scaled to what Theorem 1 and Appendix C require, which is too little.
            "given": as they are.
        preprocess: Whether to run Algorithm 2; without it there are no counts, no mean, and a uniform sample.
        center: Whether to subtract the noisy mean; by default if there are counts. Not for implicit feedback.
        sampling: "adaptive": a user's k items of lowest count (the default with Algorithm 2); "uniform"; "weights": all
            their items, weighted by count^(-1/4) so that the squares add up to k (2023).
        user_items: Whether a user's own vector is solved, in training, from "all" their frequent items or from the
            "sampled" ones; by default the latter with adaptive sampling, as in Algorithm 2.
        typical_count: Z is typical_count^user_exponent; by default 20 k. Table 4 does not give it, because the paper's
            Z is private. If it is large, users' vectors are as long as `user_clip`.
        start: "random", or "svd", the leading eigenvectors of a noisy second moment.
        start_scale: Length of the vectors of a random start, or of the longest of an SVD start.
        item_step: "solve" (A_item), or "gradient", noisy gradient steps (Remark 8).
        n_gradients: The number of gradients in a step.
        project_first: Whether Gram matrices are projected on the positive semidefinite cone before penalties are added,
            as in code that the authors published later, not after, as in Algorithm 1. With much noise the model is
            better: no eigenvalue is below the penalty.
        normalise: Whether the start and each step end with V (V^T V)^(-1/2) (line 13).
        adjacency: "add-remove" or "replace".
        random_state: Seed of the start and of the samples; public.
        n_jobs: Number of threads, as in scikit-learn. The result is the same for any number.
    """

    _in_spark: ClassVar[bool] = True

    frequent_: Array = field(init=False)
    folding_: tuple[float, float, float, float] = field(init=False)  # lambda, nu, Z, lambda_0

    rank: Count = 32
    regularization: NotNegative = 80.0
    global_penalty: NotNegative = 0.0
    item_exponent: NotNegative = 0.5
    user_exponent: NotNegative = 1.0
    n_steps: Count = 2
    user_clip: Positive = 1.0
    entry_clip: Positive | None = None
    max_items: Count = 50
    item_fraction: Positive = 0.4
    gram_noise: Positive = 2.0
    rhs_noise: Positive = 1.0
    preprocessing_noise: Positive = 1.5
    start_noise: Positive = 10.0
    calibration: Calibration = "exact"
    preprocess: bool = True
    center: bool | None = None
    sampling: Sampling | None = None
    user_items: Literal["all", "sampled"] | None = None
    typical_count: Positive | None = None
    start: Literal["random", "svd"] = "random"
    start_scale: Positive = 1.0
    item_step: Literal["solve", "gradient"] = "solve"
    n_gradients: Count = 5
    project_first: bool = False
    normalise: bool = False
    random_state: Seed = 0

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.item_fraction > 1:
            raise DataError(f"item_fraction: a fraction of at most 1 is needed, not {self.item_fraction!r}")
        if not self.preprocess and (self.item_fraction < 1 or self._sampling != "uniform" or self._center):
            raise DataError(
                "preprocess: without Algorithm 2 there are no counts: pass item_fraction=1, and leave out sampling and "
                "center"
            )
        if not self.preprocess and self.item_step == "gradient":
            raise DataError("item_step: gradient steps take their step sizes from counts; pass preprocess=True")

    # The plan

    @property
    def _sampling(self) -> Sampling:
        return self.sampling or ("adaptive" if self.preprocess else "uniform")

    @property
    def _center(self) -> bool:
        return self.preprocess if self.center is None else self.center

    def _releases(self, sigmas: Sigmas) -> dict[str, Noised]:
        """The releases, where Gamma_u = Gamma_M = 1 as in the paper; the same for any number of items from 2 on."""
        k, n, root = self.max_items, 2, math.sqrt(self.max_items)
        found: dict[str, Noised] = {}
        if self.preprocess:
            found[COUNTS] = found[RECOUNTS] = VectorSum(n, root, nonnegative=True), sigmas.pre, 1
            if self._center:  # a sum over k ratings moves by k, and gets noise of sqrt(k) sigma_p
                found[MEAN] = VectorSum(1, root), sigmas.pre, 1
        if self.start == "svd":
            found[START] = GramSum(n, float(k)), sigmas.start, 1
        if self.item_step == "gradient":
            found[GRADIENT] = OuterSum((n, self.rank), root), sigmas.rhs, self.n_steps * self.n_gradients
        else:
            equations = NormalEquations(n, self.rank, k, 1.0, 1.0, sigmas.gram / sigmas.rhs)
            found[STEP] = equations, sigmas.gram, self.n_steps
        if self.global_penalty > 0:
            found[GRAM] = GramSum(self.rank, 1.0), sigmas.gram, self.n_steps
        return found

    def _shares(self, sigmas: Sigmas) -> dict[str, float]:
        """What the releases with each label cost together: the Gaussian-DP parameter, squared."""
        releases = self._releases(sigmas).items()
        return {label: count * (one.sensitivity(self.adjacency) / std) ** 2 for label, (one, std, count) in releases}

    def sigmas(self) -> Sigmas:
        """The noise multipliers of a fit: sigma_G, sigma_g, sigma_p, and the one of the SVD start."""
        self._check_parameters()
        given = Sigmas(self.gram_noise, self.rhs_noise, self.preprocessing_noise, self.start_noise)
        if self.calibration == "exact":
            factor = math.fsum(self._shares(given).values()) ** 0.5 / self._mu()
            return Sigmas(*(sigma * factor for sigma in given))
        return given if self.calibration == "given" else self._published(given)

    def _published(self, given: Sigmas) -> Sigmas:
        """The least sigma_G and sigma_g, in their ratio, for which the published rule gives epsilon; sigma_p stays.

        The paper finds them by binary search. The rule is a square root and a sum, so this solves for them instead.
        """
        if self.item_step == "gradient" or self.start == "svd":
            raise PrivacyError(
                "calibration: the paper has no rule for noisy gradients or a noisy start; use 'exact' or 'given'"
            )
        target = published_rho_squared_for(self.epsilon, self.delta)
        pre = given.pre if self.preprocess else math.inf
        fixed = published_rho_squared(self.max_items, self.n_steps, math.inf, math.inf, pre)
        if fixed >= target:
            raise PrivacyError(
                f"preprocessing_noise: by the paper's rule {pre:g} alone costs more than epsilon = {self.epsilon:g}; "
                "raise it"
            )
        both = published_rho_squared(self.max_items, self.n_steps, given.gram, given.rhs, math.inf)
        factor = math.sqrt(both / 2 / (target - fixed))
        return given._replace(gram=given.gram * factor, rhs=given.rhs * factor)

    def _plan(self, n_items: int) -> Plan:
        trained = n_frequent(n_items, self.item_fraction)
        if self.item_step == "solve":
            check_size(trained, self.rank)
        if self.start == "svd":
            check_size(1, trained, "start, item_fraction")
        sigmas = self.sigmas()
        releases = self._releases(sigmas)
        if self.calibration == "exact":  # the whole budget, divided in proportion to the costs at this noise
            costs = self._shares(sigmas)
            total = math.fsum(costs.values())
            return Plan.gaussian(
                self._mu(), {label: (cost / total, releases[label][2]) for label, cost in costs.items()}
            )
        return true_plan(releases, self.adjacency)

    def _own_ledger(self, url: str | None = None) -> Ledger:
        if self.calibration == "exact":
            return super()._own_ledger(url)
        return true_ledger(self, self.plan(2), "gram_noise, rhs_noise, preprocessing_noise", url)

    def _learn(self, ratings: Interactions, ledger: Ledger | None, checkpoint: Path | None = None) -> Learned:
        if ratings.implicit and self._center:
            raise DataError("center: implicit feedback has nothing to center; pass center=False")
        learned, statement = super()._learn(ratings, ledger, checkpoint)
        if self.calibration == "published":
            warnings.warn(
                f"calibration='published': {ERROR}. What the paper would call epsilon = {self.epsilon:g} is really "
                f"epsilon = {round_up(statement.guarantee.epsilon)}",
                stacklevel=3,
            )
        return learned, statement

    # Learning

    def _choice(self) -> ItemChoice:
        all_items = self.user_items == "all" or (self.user_items is None and self._sampling != "adaptive")
        return ItemChoice(self.max_items, self._sampling, all_items, self.random_state)

    def _learn_privately(self, releaser: Releaser, ratings: Interactions) -> dict[str, Any]:
        data = prepared(self, releaser, ratings)
        factors = Training(self, releaser, data).run()
        m = ratings.n_items
        frequent = np.zeros(m, np.int64)
        frequent[data.frequent] = 1
        own_mean = not ratings.implicit and len(data.frequent) < m
        table = np.zeros((m, self.rank + own_mean), np.float32)
        table[data.frequent, : self.rank] = factors
        if own_mean:
            table[frequent == 0, self.rank] = 1
        penalty = self._user_penalty()
        return {
            "item_factors_": table,
            "popularity_": np.maximum(data.popularity, 0).astype(np.float32),
            "frequent_": frequent,
            "value_range_": ratings.value_range or (1.0, 1.0),
            "global_mean_": data.mean,
            "folding_": (penalty.scale, penalty.exponent, penalty.normaliser, float(self.global_penalty)),
        }

    def _user_penalty(self) -> Penalty:
        count = float(self.typical_count or TYPICAL * self.max_items)
        return Penalty(float(self.regularization), float(self.user_exponent), count**self.user_exponent)

    def _make_fold_in(self) -> FoldIn:
        scale, exponent, normaliser, global_penalty = self.folding_
        own_mean = not self.implicit_ and not self.frequent_.all()
        factors = self.item_factors_[:, :-1] if own_mean else self.item_factors_
        gram = shared_gram(factors.astype(np.float64), global_penalty)
        return RidgeFoldIn(
            columns=self.item_factors_,
            base=self.item_bias_ + np.float32(self.global_mean_),
            penalty=Penalty(scale, exponent, normaliser),
            gram=None if gram is None else gram.astype(np.float32),
            frequent=self.frequent_,
            own_mean=own_mean,
        )

    def _check_learned(self) -> None:
        super()._check_learned()
        if self.frequent_.shape != (len(self.catalogue_),) or len(self.folding_) != 4:
            raise DataError("frequent_, folding_: they do not fit the catalogue")


# -- the paper's own accounting: only to reproduce its numbers, never to state a guarantee


def published_rho_squared(k: int, steps: int, gram_noise: float, rhs_noise: float, preprocessing_noise: float) -> float:
    """The Renyi DP, in units of alpha, that Table 4's columns are consistent with; infinite noise: no such release.

    Appendix C has kT / 2 sigma^2 + (k + 1) / sigma_p^2, with one release for an item step. The printed epsilons come
    out if both are charged, as here.
    """
    return k * steps * (0.5 / gram_noise**2 + 0.5 / rhs_noise**2) + (k + 1) / preprocessing_noise**2


def published_epsilon(rho_squared: float, delta: float) -> float:
    """The conversion of Appendix A, for Renyi DP of rho^2 alpha: rho^2 + 2 rho sqrt(log(1 / delta))."""
    return rho_squared + 2 * math.sqrt(rho_squared * math.log(1 / delta))


def published_rho_squared_for(epsilon: float, delta: float) -> float:
    """The Renyi DP at which that conversion gives epsilon: the inverse of `published_epsilon`."""
    log = math.log(1 / delta)
    return (math.sqrt(log + epsilon) - math.sqrt(log)) ** 2
