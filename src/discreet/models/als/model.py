"""DPALS, private alternating least squares: its parameters, and the methods of a fitted model.

The releases, in order, are in `training.py`, users' contributions to them in `contributions.py`, and the estimates from
them in `estimate.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, cast

import numpy as np
import pyarrow as pa

from discreet.data.catalogue import Catalogue, item_features, to_library
from discreet.data.interactions import Interactions
from discreet.errors import DataError, PrivacyError
from discreet.models.als.contributions import BIAS, GRAM, STEP, USER_CHOICES, USER_VECTOR, USERS, Settings, settings
from discreet.models.als.estimate import BIAS_SPREAD, ItemPosterior, user_priors
from discreet.models.als.knowledge import Knowledge, KnownMoment, StepInformation
from discreet.models.als.moments import MAGNITUDES, ItemFrequencies, kernel_columns
from discreet.models.als.training import Training
from discreet.models.base import learned_by, require_ratings
from discreet.models.fold_in import FoldIn, LinearFoldIn, Penalty, RidgeFoldIn
from discreet.models.grading import Grading
from discreet.models.private import PrivateModel, require_sound
from discreet.models.taste import COMMON_TASTE
from discreet.parallel import single_threaded_blas
from discreet.privacy import Plan, Releaser
from discreet.recommend.serving import Variance
from discreet.typing import Array
from discreet.validation import Count, NotNegative, whole

if TYPE_CHECKING:
    from typing_extensions import Self

    from discreet.privacy.ledger import Ledger

Objective: TypeAlias = Literal["ratings", "both"]

LEAST_MU = 2.0**-20  # below it a contribution would be less than a unit of the noise's grid


@dataclass(kw_only=True, eq=False, repr=False)
class DPALS(PrivateModel):
    """Private alternating least squares for ratings, and for lists: user-level joint differential privacy.

    The model is y_ij = m + a_i + b_j + u_i . v_j. A user's a_i and u_i are found by their own ridge regression,

        sum over their items of (y_ij - m - b_j - a_i - u_i . v_j)^2 + l a_i^2 + k |u_i - p_i|^2

    (in a unit of about the standard deviation of a user's ratings; l follows from how far users' means spread, k is at
    most 1.8, both shrink with the variance that predictions leave unexplained, and the prior mean p_i follows from
    which items the user has). It costs nothing, because only the user sees the result. The first columns of v_j are the
    item's bias and popularity: users differ in how closely they follow the common taste. Items are learned from noisy
    sums over users:

    - how many users there are, their mean rating, how far ratings spread (bound of one user's contribution: sqrt 5);
    - item popularity and weights: each user's items, with weights scaled to length 1 (bound 1);
    - item biases: weighted, centered ratings (bound 1);
    - if the budget allows, a second moment of users' weights, for directions of taste, and all items' loadings on these
      (bounds 1); or, for at most 400 items, a second moment of users' residuals (bound 1). If that shows tastes, it is
      released again in place of item steps, with one of weights (bound 1): u_i and v_j then follow from it alone;
    - for more than 400 items, a second moment of users' residuals on the most frequent ones (bound 1). If that shows
      strong tastes, it is released again, with one of weights, in place of a fifth of the further item steps. If it
      cannot show any, or directions of taste were found, item biases are released again in its place;
    - with objective="both", what is chosen together and rated highly, for lists (bounds 1), as `DPSVD` does;
    - in each step, the residuals of users' regressions times their vectors (scaled to length .3), and one Gram matrix
      of all users' vectors (bound 12). All steps together give one estimate of an item's remaining parameters. In the
      first step, random probe columns look for tastes that no other column explains. If these are strong, each
      further step is made in three parts, at a third of its cost each: later parts correct what earlier ones could not.

    With objective="both", the model also learns what people choose and like, from the releases that `DPSVD` makes of
    ratings as graded likes, which share the budget; `recommend` then ranks by that, `similar_items` and `explain` are
    about it, and only `predict` gives ratings. If no taste stands out of the noise, popularity is released again in
    place of item steps, until lists are expected to be as good as those of `DPPopularity`. With objective="ratings",
    `recommend` ranks by predicted rating.

    Bounds are L2 norms of a user's whole contribution: the sensitivity for add-remove. docs/proofs/dpals.md has the
    proof. How the budget is divided follows from epsilon, delta, the size of the catalog and `n_users_hint` alone;
    `preview` prints it.

    Example:
        >>> import discreet
        >>> ratings = discreet.datasets.movielens_like(3000, 100, 90_000, random_state=0)
        >>> model = discreet.DPALS(epsilon=1.0, delta=1e-6).fit(ratings)
        >>> model.guarantee_.epsilon <= 1
        True
        >>> len(model.recommend({3: 5.0, 14: 1.5}, n=5))
        5

    Args:
        epsilon: The privacy budget.
        delta: The delta of the budget, a constant well below 1 / the number of users.
        n_steps: The number of item steps, which share one budget; by default 5 to 16, depending on epsilon.
        n_users_hint: About how many users there are, if that is public. It decides whether to release a second moment
            of weights.
        features: Columns of the catalog that describe items (numbers, or text: categories, several of them separated
            by "|"). They are public, and cost no privacy.
        adjacency: What neighboring data sets differ in: one user more or less ("add-remove"), or "replace".
        objective: To predict "ratings", by which lists are ranked, too; or "both", to learn lists of their own, by what
            users choose together and rate highly, at the same total cost. `predict` gives ratings in either case.
        caution: How many standard deviations of an item's uncertainty are subtracted from its score for ranking: with
            1, the better known of two items with equal scores comes first. For lists by predicted rating.
        n_jobs: Number of threads, as in scikit-learn. The releases are the same for any number.

    Attributes:
        n_users_: The approximate number of users, from a release; at least 10.
    """

    _NOT_LEARNED: ClassVar[tuple[str, ...]] = (*PrivateModel._NOT_LEARNED, "caution")
    _in_spark: ClassVar[bool] = True

    item_variance_: Array = field(init=False)
    item_prior_: Array = field(init=False)
    item_weights_: Array = field(init=False)
    list_factors_: Array = field(init=False)
    list_weights_: Array = field(init=False)
    known_users_: Array = field(init=False)
    known_bias_: Array = field(init=False)
    known_pairs_: Array = field(init=False)
    known_frequent_: Array = field(init=False)
    known_pairs_scale_: Array = field(init=False)
    known_residuals_: Array = field(init=False)
    known_residuals_scale_: Array = field(init=False)
    known_loadings_: Array = field(init=False)
    known_standing_: Array = field(init=False)
    known_steps_: Array = field(init=False)
    known_own_: Array = field(init=False)
    known_own_size_: Array = field(init=False)
    known_others_: Array = field(init=False)
    unit_: float = field(init=False)
    n_users_: float = field(init=False)
    offset_penalty_: float = field(init=False)
    vector_penalty_: float = field(init=False)

    n_steps: Count | None = None
    n_users_hint: Count | None = None
    features: Sequence[str] | None = None
    objective: Objective = "ratings"
    caution: NotNegative = 0.0

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.caution and self.objective == "both":
            raise DataError(
                "caution: this is for lists by predicted rating; leave it out, or ask for objective='ratings'"
            )

    def _settings(self, n_items: int) -> Settings:
        return settings(self._mu(), n_items, self.n_users_hint, self.n_steps, lists=self.objective == "both")

    def _plan(self, n_items: int) -> Plan:
        return self._checked(self._settings(n_items).plan(self._mu()))

    @staticmethod
    def _checked(plan: Plan) -> Plan:
        if min(line.cost.mu or 0.0 for line in plan.lines if line.label != GRAM) < LEAST_MU:
            raise PrivacyError("epsilon: too small, or n_steps too large: noise would hide any number of users")
        return plan

    def _check_data(self, ratings: Interactions) -> None:
        require_ratings("DPALS", ratings)
        item_features(ratings.catalogue, self.features or ())  # raises if there is no such column

    def _people(self, learned: Mapping[str, Any], plan: Plan) -> float:
        noise = plan.noise(USERS, sensitivity=math.sqrt(10))  # of either adjacency: the bound is sqrt 5
        return float(max(learned["n_users_"] - 3 * noise.std, self.n_users_hint or 0))

    def _public_inputs(self) -> dict[str, str]:
        hint = {} if self.n_users_hint is None else {"n_users_hint": f"about {self.n_users_hint:,} users"}
        return hint | ({"features": ", ".join(self.features)} if self.features else {})

    def _learn_privately(self, releaser: Releaser, ratings: Interactions) -> dict[str, Any]:
        features = item_features(ratings.catalogue, self.features or ())
        training = Training.of(releaser, self._settings(ratings.n_items), ratings)
        with single_threaded_blas():  # BLAS threads would spin for a while after each call, and take time from ours
            return self._learned(training, *training.begin(features))

    def _learned(
        self, training: Training, mean: float, frequencies: ItemFrequencies, items: ItemPosterior
    ) -> dict[str, Any]:
        """The learned attributes after all item steps, in the unit of the ratings."""
        items = training.steps(mean, frequencies, items)
        (low, high), unit = training.scale.value_range, training.scale.unit
        n_jobs = training.releaser.n_jobs
        own, variance, kernel = items.factors, items.variance, np.zeros((len(items.mean), 0))
        if (tastes := training.tastes) is not None:
            # The penalty of users' vectors corresponds to a variance of 1 / USER_VECTOR.
            own = math.sqrt(USER_VECTOR) * np.column_stack([own * tastes.sizes, tastes.columns])
            scale = USER_VECTOR * np.append(1 / USER_VECTOR, np.square(tastes.sizes))
            variance = np.column_stack([variance * scale, USER_VECTOR * tastes.variance])
        else:
            size = math.sqrt(min(items.taste(frequencies), training.noise))  # at most what the other columns leave
            kernel = kernel_columns(items.mean, frequencies.sums, n_jobs) * size
        return {
            "item_factors_": np.column_stack([own, kernel]) * unit,
            "item_bias_": items.bias * unit,
            "item_variance_": variance * unit**2,
            "item_prior_": user_priors(own, frequencies),
            "item_weights_": np.column_stack([frequencies.a, frequencies.released, frequencies.noise]),
            "popularity_": frequencies.sums / frequencies.a,
            **training.lists,
            "value_range_": (low, high),
            "implicit_": False,
            "global_mean_": float((low + high) / 2 + unit * mean),
            "unit_": float(unit),
            "n_users_": float(frequencies.n_users),
            "offset_penalty_": float(training.offset_penalty * training.noise),
            "vector_penalty_": float(USER_VECTOR * training.noise),
            **training.kept,
        }

    # Continuing

    def plan_more(self, n_items: int, *, epsilon: float | None = None, n_steps: int | None = None) -> Plan:
        """What `fit_more` would release, and what each release costs."""
        more = self._more(epsilon, n_steps)
        more._check_parameters()
        return self._checked(self._continued(more, whole("n_items", n_items, 1)).plan(more._mu()))

    def _continued(self, more: DPALS, n_items: int) -> Settings:
        """The settings of a continuation: they also depend on what is known already.

        With fewer ratings, the information in a second moment falls with the square of their number, in biases with it.
        """
        before = (self.guarantee_.cost.mu or 0.0) * self._known_share
        both = self.objective == "both"
        together = settings(math.hypot(more._mu(), before), n_items, self.n_users_hint, lists=both)
        begun = len(self.known_frequent_) > 0
        return more._settings(n_items).continued(together, 1.0 if begun else 1 + (before / more._mu()) ** 2)

    @property
    def _known_share(self) -> float:
        """The precision of known item biases, relative to the same releases made only from the last fit's ratings.

        It is below 1 if earlier releases were of fewer ratings, or of other people's.
        """
        releases = self.statement().certificate["releases"]
        precision = sum(each["noise"]["std"] ** -2 for each in releases if each.get("what", each["label"]) == BIAS)
        sums = self.popularity_ * self.item_weights_[:, 0]
        return min(float(self.known_bias_[:, 1].sum() / (sums**2).sum() / precision), 1.0)

    def _more(self, epsilon: float | None, n_steps: int | None) -> DPALS:
        """The parameters of a continuation."""
        given = {"epsilon": self.epsilon if epsilon is None else epsilon, "n_steps": n_steps}
        return DPALS(**{**self.get_params(deep=False), **given})

    def fit_more(
        self,
        ratings: Any,
        ledger: Ledger | None = None,
        *,
        epsilon: float | None = None,
        n_steps: int | None = None,
        **reading: Any,
    ) -> Self:
        """Continue to learn, from all ratings so far: repeat the releases, and pool them with the earlier ones.

        The model is public, so it costs nothing to start from it. Items are matched by their ids; new items start from
        the prior, and items that are not in the catalog of `ratings` are dropped. Give all ratings so far, not only new
        ones: the noise is the same, and more ratings stand out from it further. A model of other people's ratings is
        prior knowledge, whose weight shrinks with the difference between its released item biases and the new ones.

        Args:
            ratings: Ratings with the same range of values, or anything that `discreet.read` takes.
            ledger: Where the cost is recorded; by default a ledger of its own. Give the one that `fit` had, if there
                was one: a budget holds only if all that is spent on it goes through one ledger.
            epsilon: What this costs, at the model's delta; by default as much as `fit` did. `plan_more` says on what.
            n_steps: How many steps; by default as many as `fit` would make.
            reading: Other arguments of `discreet.read`, if the table has not been read yet.

        Returns:
            The model itself; its guarantee is now that of all fits together, for users who are in all of them. If
            anything fails, the model does not change.
        """
        after, more = self.statement(), self._more(epsilon, n_steps)
        fitted = after.certificate["model"]["params"]
        if changed := [name for name, value in learned_by(self).items() if fitted.get(name) != value]:
            raise DataError(
                f"{', '.join(changed)}: the model was fitted with another value, and no certificate can cover both; "
                "set it back, and tell fit_more what to spend: fit_more(ratings, epsilon=..., n_steps=...)"
            )

        def learn(releaser: Releaser, ratings: Interactions) -> dict[str, Any]:
            training = Training.of(releaser, self._continued(more, ratings.n_items), ratings)
            training.known = self._known(ratings.catalogue)
            training.noise = 1.0 if self._shows_tastes else self._noise  # without tastes, more variance is unexplained
            return self._learned(training, *training.begin(item_features(ratings.catalogue, self.features or ())))

        with more._readied(ratings, reading) as table:
            require_sound(table)
            self._check_chosen(table)
            self._check_data(table)
            if table.value_range != tuple(self.value_range_):
                low, high = self.value_range_
                raise DataError(
                    f"ratings: this model knows values from {low:g} to {high:g}; rescale the ratings to that range"
                )
            plan = self.plan_more(table.n_items, epsilon=epsilon, n_steps=n_steps)
            learned, statement = more._under(plan, ledger, table, learn, after=after)
            self._set(learned, table.catalogue, statement)
        return self

    def _known(self, catalogue: Catalogue) -> Knowledge:
        """What the model keeps of its releases, for these items."""
        a, released, noise = self.item_weights_.T
        steps, n = self.known_steps_.astype(np.float64), self.known_others_.shape[1] // 2
        own = self.known_own_size_, self.known_own_
        knowledge = Knowledge(
            unit=self.unit_,
            users=self.known_users_,
            frequencies=ItemFrequencies.known(a, self.popularity_ * a, released, noise),
            bias=self.known_bias_,
            items=np.column_stack([self.item_bias_ / self.unit_, self.item_variance_[:, 0] / self.unit_**2]),
            chosen=KnownMoment(self.known_pairs_.astype(np.float64), self.known_frequent_, self.known_pairs_scale_),
            residuals=KnownMoment(
                self.known_residuals_.astype(np.float64),
                np.arange(len(self.known_residuals_)),
                self.known_residuals_scale_,
            ),
            loadings=self.known_loadings_,
            standing=self.known_standing_,
            steps=StepInformation(steps[:, :, :-1], steps[:, :, -1], own),
            others=self.known_others_[:, :n],
            others_variance=self.known_others_[:, n:],
        )
        return knowledge.proven().of_items(self.items_.numbers(catalogue.ids.to_arrow()))

    # What is known of the items

    def item_knowledge(self, library: str | None = None) -> Any:
        """How well the model knows each item: a data frame, the least known items first.

        `uncertainty` is the posterior standard deviation of an item's average rating, in the unit of the ratings.
        `known` is false where what was released of an item leaves more than half of a typical item's prior variance:
        about these items the model says little more than that they are average. All of it is computed from releases,
        and may be published.

        Args:
            library: "pandas", "polars" or "pyarrow"; by default one that is installed.
        """
        uncertainty = np.sqrt(self.item_variance_[:, 0])
        shares = self._settings(len(uncertainty)).shares
        steps, biases = cast("tuple[float, int]", shares[STEP])[0], cast("float", shares[BIAS])
        # The release of biases shows how far an item stands out of noise; item steps have this much more of the budget.
        information = self.known_bias_[:, 1] * (1 if self._shows_tastes else 1 + steps / biases)
        order = np.argsort(-uncertainty, kind="stable")
        table = self.catalogue_.take(order).to_arrow()
        columns = {
            "popularity": self.popularity_[order],
            "average": (self.item_bias_ + self.global_mean_)[order],
            "uncertainty": uncertainty[order],
            "known": (information >= BIAS_SPREAD**-2)[order],
        }
        for name, values in columns.items():
            table = table.append_column(name, pa.array(values))
        return to_library(table, library)

    def _check_learned(self) -> None:
        super()._check_learned()
        m, k = len(self.item_factors_), self.item_prior_.shape[-1]
        shapes = self.item_variance_.shape, self.item_prior_.shape, self.item_weights_.shape
        if (
            self._n_kernel < 0
            or shapes != ((m, k + 1), (m, k), (m, 3))
            or (self.item_variance_ < 0).any()
            or (self.item_weights_[:, ::2] <= 0).any()
        ):
            raise DataError("item_variance_, item_prior_, item_weights_: their shapes or signs do not fit the factors")
        f, d = len(self.known_frequent_), self.known_loadings_.shape[-1]
        n_lists, q = self.list_factors_.shape[-1], min(len(self.known_own_), k + 1)
        expected = {
            "list_factors_": (m, n_lists if self.objective == "both" else 0),
            "list_weights_": (m,),
            "known_users_": (6 + MAGNITUDES,),
            "known_bias_": (m, 2),
            "known_pairs_": (f, f),
            "known_pairs_scale_": (2,),
            "known_residuals_": (m, m) if self.known_residuals_.size else (0, 0),
            "known_residuals_scale_": (2,),
            "known_loadings_": (f, d),
            "known_standing_": (m, d + 1),
            "known_steps_": (m, q, q + 1),
            "known_own_": (q, q),
            "known_own_size_": (m,),
        }
        wrong = [name for name, shape in expected.items() if getattr(self, name).shape != shape]
        if wrong or self.known_others_.shape[:-1] != (m,) or not np.isin(self.known_frequent_, np.arange(m)).all():
            raise DataError(
                f"{', '.join(wrong) or 'known_frequent_, known_others_'}: does not fit the other arrays of the model"
            )

    @property
    def _noise(self) -> float:
        """`Training.noise` after the last step."""
        return self.vector_penalty_ / USER_VECTOR

    @property
    def _shows_tastes(self) -> bool:
        """Whether tastes come from a second moment of residuals, and not from item steps."""
        return bool(len(self.known_own_) <= self.item_prior_.shape[1])

    @property
    def _n_kernel(self) -> int:
        """The number of last factors that are kernel columns, which are computed from the others."""
        return int(self.item_factors_.shape[1] - self.item_prior_.shape[1])

    def _similar_columns(self) -> slice:
        lists = self.list_factors_.shape[1]
        return slice(1, lists) if lists else slice(0, self.item_prior_.shape[1])

    def _search_vectors(self) -> Array:
        if not self.list_factors_.shape[1]:
            return super()._search_vectors()
        return np.column_stack([self.list_factors_, self._ranking.base])

    def _score_variance(self) -> Variance:
        if not self.caution or self.list_factors_.shape[1]:
            return None
        return self.caution, np.pad(self.item_variance_, ((0, 0), (0, self._n_kernel)))

    def _make_fold_in(self) -> FoldIn:
        return RidgeFoldIn(
            columns=self.item_factors_,
            base=self.item_bias_ + self.global_mean_,
            penalty=Penalty(self.vector_penalty_ * self.unit_**2),
            offset_penalty=self.offset_penalty_,
            prior=np.pad(self.item_prior_, ((0, 0), (0, self._n_kernel))),
            prior_count=USER_CHOICES,
        )

    def _make_ranking(self) -> FoldIn:
        if not self.list_factors_.shape[1]:
            return self._fold_in
        factors, weights = self.list_factors_, self.list_weights_
        return LinearFoldIn(
            columns=factors,
            base=COMMON_TASTE * factors[:, 0],
            loadings=factors,  # an item that is not in the second moment has the weight 0, and adds nothing
            weights=weights,
            grading=Grading(self.global_mean_, self.offset_penalty_ / self._noise, self.unit_),
        )
