"""DPALS as it was published (Chien, Jain, Krichene, Rendle, Song, Thakurta, Zhang 2021), with its true guarantee."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from discreet.data.interactions import Interactions
from discreet.errors import DataError
from discreet.models.als.calibration import ALSO, ERRORS, Calibration, Schedule, Sigmas, published
from discreet.models.als.preprocessing import Preprocessing, Sampling, n_frequent
from discreet.models.als.published_training import Training, check_size
from discreet.models.as_published import true_ledger
from discreet.models.fold_in import FoldIn, RidgeFoldIn
from discreet.models.private import PrivateModel
from discreet.models.ridge import Penalty, shared_gram
from discreet.privacy import Ledger, Plan, Releaser
from discreet.privacy.guarantee import AdjacencyName
from discreet.privacy.statement import Statement
from discreet.typing import Array
from discreet.validation import positive, probability, round_up, whole

_CHOICES = {
    "calibration": ("exact", "published", "experiments", "given"),
    "sampling": ("uniform", "adaptive", "weights", None),
    "user_items": ("all", "sampled", None),
    "start": ("random", "svd"),
    "item_step": ("solve", "gradient"),
    "adjacency": ("add-remove", "replace"),
}
_NOISES = ("gram_noise", "rhs_noise", "preprocessing_noise", "start_noise")
_POSITIVE = (*_NOISES, "user_clip", "start_scale", "learning_rate")
_OPTIONAL = ("entry_clip", "gradient_clip", "typical_count")
TYPICAL = 20  # times k, what Z is computed from


class PublishedDPALS(PrivateModel):
    """DPALS as published: Algorithm 1 on what Algorithm 2 prepares, for the loss of Eq. (24). User-level joint DP.

    Minimizes, over vectors u_i of users, no longer than `user_clip` in training, and v_j of the frequent items,

        sum over sampled (i, j) of (y_ij - m - u_i . v_j)^2 + global_penalty * sum over all (i, j) of (u_i . v_j)^2
        + regularization * (sum_i c_i^user_exponent / Z |u_i|^2 + sum_j c_j^item_exponent / Z' |v_j|^2)

    by turns: each user exactly and from their own row, items from noisy sums. c_i is the user's own number of items and
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
        epsilon: The budget; for calibration="published" and "experiments" what the paper would call epsilon.
        delta: Its delta.
        rank: r.
        regularization: lambda.
        global_penalty: lambda_0; positive for implicit feedback.
        item_exponent: mu.
        user_exponent: nu.
        n_steps: T.
        user_clip: Gamma_u.
        entry_clip: Gamma_M, which entries are clipped to before and after centering; by default the largest that a
            centered entry can be.
        max_items: k, the items of a user that train items.
        item_fraction: beta, the fraction of items that get vectors: those of the largest noisy counts.
        gram_noise: sigma_G; with calibration="exact" only the ratios of the noises matter.
        rhs_noise: sigma_g.
        preprocessing_noise: sigma_p.
        start_noise: Noise of the SVD start, in units of Gamma_M^2 (where one user moves it by k).
        calibration: "exact": the noises are scaled by one factor so that they cost (epsilon, delta), exactly.
            "published": sigma_G and sigma_g are scaled to what Theorem 1 and Appendix C ask for, which is too little.
            "experiments": the same with both releases of an item step charged, as in Table 4. "given": as they are.
        preprocess: Whether to run Algorithm 2; without it there are no counts, no mean, and a uniform sample.
        center: Whether to subtract the noisy mean; by default where there are counts. Not for implicit feedback.
        sampling: "adaptive": a user's k items of lowest count (the default with Algorithm 2); "uniform"; "weights": all
            their items, weighted by count^(-1/4) so that the squares add up to k (2023).
        user_items: Whether a user's own vector is solved, in training, from "all" their frequent items or from the
            "sampled" ones; by default the latter with adaptive sampling, as in Algorithm 2.
        typical_count: What Z is computed from, as typical_count^user_exponent; by default 20 k. Table 4 does not give
            it, because the paper's Z is private. If it is large, users' vectors are as long as `user_clip`.
        start: "random", or "svd", the leading eigenvectors of a noisy second moment.
        start_scale: Length of the vectors of a random start, or of the longest of an SVD start.
        item_step: "solve" (A_item), or "gradient", noisy gradient steps (Remark 8).
        n_gradients: How many gradients make a step.
        learning_rate: Of the gradient steps, relative to 1 / a bound on each item's curvature.
        gradient_clip: Bound of a user's whole gradient; by default the most that k items can give.
        project_first: Whether Gram matrices are projected on the positive semidefinite cone before penalties are added,
            as in code that the authors published later, and not after, as in Algorithm 1. With much noise the model is
            better: no eigenvalue is below the penalty.
        normalise: Whether the start and each step end with V (V^T V)^(-1/2) (line 13).
        adjacency: "add-remove" or "replace".
        random_state: Seed of the start and of the samples; public.
        n_jobs: Threads, in scikit-learn's meaning. The result is the same for any number.
    """

    _ARRAYS: ClassVar[tuple[str, ...]] = (*PrivateModel._ARRAYS, "frequent_")
    _VALUES: ClassVar[tuple[str, ...]] = (*PrivateModel._VALUES, "folding_")
    _in_spark: ClassVar[bool] = True

    frequent_: Array
    folding_: tuple[float, float, float, float]  # lambda, nu, Z, lambda_0

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        rank: int = 32,
        regularization: float = 80.0,
        global_penalty: float = 0.0,
        item_exponent: float = 0.5,
        user_exponent: float = 1.0,
        n_steps: int = 2,
        user_clip: float = 1.0,
        entry_clip: float | None = None,
        max_items: int = 50,
        item_fraction: float = 0.4,
        gram_noise: float = 2.0,
        rhs_noise: float = 1.0,
        preprocessing_noise: float = 1.5,
        start_noise: float = 10.0,
        calibration: Calibration = "exact",
        preprocess: bool = True,
        center: bool | None = None,
        sampling: Sampling | None = None,
        user_items: Literal["all", "sampled"] | None = None,
        typical_count: float | None = None,
        start: Literal["random", "svd"] = "random",
        start_scale: float = 1.0,
        item_step: Literal["solve", "gradient"] = "solve",
        n_gradients: int = 5,
        learning_rate: float = 1.0,
        gradient_clip: float | None = None,
        project_first: bool = False,
        normalise: bool = False,
        adjacency: AdjacencyName = "add-remove",
        random_state: int = 0,
        n_jobs: int | None = -1,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.rank = rank
        self.regularization = regularization
        self.global_penalty = global_penalty
        self.item_exponent = item_exponent
        self.user_exponent = user_exponent
        self.n_steps = n_steps
        self.user_clip = user_clip
        self.entry_clip = entry_clip
        self.max_items = max_items
        self.item_fraction = item_fraction
        self.gram_noise = gram_noise
        self.rhs_noise = rhs_noise
        self.preprocessing_noise = preprocessing_noise
        self.start_noise = start_noise
        self.calibration = calibration
        self.preprocess = preprocess
        self.center = center
        self.sampling = sampling
        self.user_items = user_items
        self.typical_count = typical_count
        self.start = start
        self.start_scale = start_scale
        self.item_step = item_step
        self.n_gradients = n_gradients
        self.learning_rate = learning_rate
        self.gradient_clip = gradient_clip
        self.project_first = project_first
        self.normalise = normalise
        self.adjacency = adjacency
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _check_parameters(self) -> None:
        positive("epsilon", self.epsilon)
        probability("delta", self.delta)
        for name in ("rank", "n_steps", "max_items", "n_gradients"):
            whole(name, getattr(self, name), 1)
        whole("random_state", self.random_state, 0)
        for name in (*_POSITIVE, *(name for name in _OPTIONAL if getattr(self, name) is not None)):
            positive(name, getattr(self, name))
        for name in ("regularization", "global_penalty", "item_exponent", "user_exponent"):
            positive(name, getattr(self, name), zero=True)
        if positive("item_fraction", self.item_fraction) > 1:
            raise DataError(f"item_fraction: a fraction of at most 1 is needed, not {self.item_fraction!r}")
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                words = ", ".join(repr(choice) for choice in choices if choice is not None)
                raise DataError(f"{name}: one of {words} is needed, not {getattr(self, name)!r}")
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

    def _schedule(self) -> Schedule:
        return Schedule(
            k=self.max_items,
            steps=self.n_steps,
            adjacency=self.adjacency,
            preprocess=self.preprocess,
            center=self._center,
            global_gram=self.global_penalty > 0,
            svd_start=self.start == "svd",
            gradients=self.n_gradients if self.item_step == "gradient" else 0,
        )

    def sigmas(self) -> Sigmas:
        """The noise multipliers of a fit: sigma_G, sigma_g, sigma_p, and that of the SVD start."""
        self._check_parameters()
        schedule = self._schedule()
        given = Sigmas(self.gram_noise, self.rhs_noise, self.preprocessing_noise, self.start_noise)
        if self.calibration == "exact":
            return given.times(schedule.mu_squared(given) ** 0.5 / self._mu())
        if self.calibration == "given":
            return given
        return published(schedule, given, self.epsilon, self.delta, self.calibration)

    def plan(self, n_items: int) -> Plan:
        """What a fit would release, and what each release truly costs; needs only the size of the catalogue."""
        self._check_parameters()
        trained = n_frequent(whole("n_items", n_items, 1), self.item_fraction)
        if self.item_step == "solve":
            check_size(trained, self.rank)
        if self.start == "svd":
            check_size(1, trained, "start, item_fraction")
        schedule, sigmas = self._schedule(), self.sigmas()
        return schedule.plan_for(self._mu(), sigmas) if self.calibration == "exact" else schedule.plan(sigmas)

    def _own_ledger(self, url: str | None = None) -> Ledger:
        if self.calibration == "exact":
            return super()._own_ledger(url)
        names = "gram_noise, rhs_noise, preprocessing_noise"
        return true_ledger(self, self._schedule().plan(self.sigmas()), names, url)

    def _learn(
        self, ratings: Interactions, ledger: Ledger | None, checkpoint: Path | None = None
    ) -> tuple[dict[str, Any], Statement]:
        if ratings.implicit and self._center:
            raise DataError("center: implicit feedback has nothing to center; pass center=False")
        learned, statement = super()._learn(ratings, ledger, checkpoint)
        if self.calibration in ERRORS:
            warnings.warn(
                f"calibration={self.calibration!r}: {ERRORS[self.calibration]}; {ALSO}. What the paper would call "
                f"epsilon = {self.epsilon:g} is really epsilon = {round_up(statement.guarantee.epsilon)}",
                stacklevel=3,
            )
        return learned, statement

    # Learning

    def _preprocessing(self) -> Preprocessing:
        return Preprocessing(
            k=self.max_items,
            fraction=self.item_fraction,
            sampling=self._sampling,
            counted=self.preprocess,
            center=self._center,
            entry_clip=self.entry_clip,
            all_items=self.user_items == "all" or (self.user_items is None and self._sampling != "adaptive"),
            seed=self.random_state,
        )

    def _learn_privately(self, releaser: Releaser, ratings: Interactions) -> dict[str, Any]:
        data = self._preprocessing().run(releaser, ratings)
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
            "item_bias_": np.zeros(m, np.float32),
            "popularity_": np.maximum(data.popularity, 0).astype(np.float32),
            "frequent_": frequent,
            "value_range_": ratings.value_range or (1.0, 1.0),
            "implicit_": ratings.implicit,
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
