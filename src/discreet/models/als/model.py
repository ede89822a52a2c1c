"""DPALS: private alternating least squares, the flagship.

Here are its parameters, how it divides a budget, and what is released, in order. What users contribute to a release is
in `contributions.py`, what is made of it in `estimate.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from discreet.data.catalogue import Catalogue, to_library
from discreet.data.interactions import Interactions
from discreet.engine import Blocks
from discreet.engine.batches import dense_users, equal_weights, user_batches
from discreet.errors import DataError, PrivacyError
from discreet.models.als.contributions import (
    USER_CHOICES,
    USER_VECTOR,
    Extension,
    ItemStep,
    Scale,
    on_frequent,
    own_deviations,
    own_moments,
    own_values,
    own_weights,
)
from discreet.models.als.estimate import (
    BIAS_SPREAD,
    COLUMN,
    COLUMN_SPREAD,
    MAGNITUDES,
    RESIDUAL_SPREAD,
    USER_SQUARE,
    Directions,
    ItemEstimate,
    ItemFrequencies,
    ItemPosterior,
    Observation,
    Pooled,
    UserStatistics,
    kernel_columns,
    residual_columns,
)
from discreet.models.als.knowledge import Knowledge, KnownPairs, StepInformation, standing_of
from discreet.models.als.published import PublishedDPALS
from discreet.models.base import check_parameters, learned_by, require_ratings
from discreet.models.features import item_features
from discreet.models.fold_in import FoldIn, LinearFoldIn, Penalty, RidgeFoldIn
from discreet.models.grading import SLOPE, Grading
from discreet.models.private import PrivateModel, require_sound
from discreet.models.spectral.choices import LABELS as LISTS
from discreet.models.spectral.choices import Choices, choice_shares, learn_choices
from discreet.models.spectral.estimate import COMMON_TASTE
from discreet.privacy import GramSum, OuterSum, Plan, Releaser, VectorSum
from discreet.privacy.guarantee import AdjacencyName
from discreet.privacy.releaser import Noisy
from discreet.privacy.statistics import UserBatch
from discreet.recommend.serving import Variance
from discreet.typing import Array
from discreet.validation import positive, probability, whole

if TYPE_CHECKING:
    from typing_extensions import Self

    from discreet.engine.batches import Ratings
    from discreet.privacy.ledger import Ledger

Objective: TypeAlias = Literal["ratings", "both"]

USERS, POPULARITY, WEIGHTS, BIAS = "users and their means", "item popularity", "item weights", "item biases"
SECOND_MOMENT, EXTENSION, STEP, GRAM = "second moment", "directions", "item step", "shared Gram"

LEAST_MU = 2.0**-20  # below it a contribution would be less than a unit of the noise's grid
MOST_OTHERS = 16  # columns from probes: with more, no further ones are looked for
MOST_KEPT = 1000  # of these items, for fits that go on from this one
MOST_CHOSEN = 4000  # items in the second moment for lists: memory grows with the square, time with the cube
# Of a direction of choices that becomes a column of ratings: the least sum over users of their squares along it, times
# mu. About what stands out of a second moment of 400 items that has an eighth of the budget: weaker ones cost item
# steps more than they explain. Fitted on MovieLens 1M.
COLUMN_SIGNAL = 80.0
GRAM_CLIP = 40.0  # bound of a user's contribution to the shared Gram matrix, over that to an item step


@dataclass(kw_only=True, eq=False, repr=False)
class DPALS(PrivateModel):
    """Private alternating least squares for ratings, and for lists: user-level joint differential privacy.

    The model is y_ij = m + a_i + b_j + u_i . v_j. A user's a_i and u_i are found by their own ridge regression,

        sum over their items of (y_ij - m - b_j - a_i - u_i . v_j)^2 + l a_i^2 + k |u_i - p_i|^2

    (in a unit in which ratings spread by about 1; the weight l follows from how far users' means spread, k is at most
    1.8 and falls with what predictions leave unexplained, and the prior mean p_i follows from which items they have).
    It costs nothing, because only the user sees the result.
    The first columns of v_j are the item's bias and popularity: users differ in how far they follow the common taste.
    Items are learned from noisy sums over users:

    - how many users there are, their mean rating, how far ratings spread (bound of one user's contribution: sqrt 5);
    - item popularity and weights: each user's items, with weights of length 1 together (bound 1);
    - item biases: weighted, centered ratings (bound 1);
    - where the budget allows, a second moment of users' weights, for directions of taste (bound 1), and where all
      items stand on these (bound 1); or of their residuals when the catalog is small (bound .64);
    - in each step, the residuals of users' regressions times their vectors (scaled to length .3), and one Gram matrix
      of all users' vectors (bound 12). All steps together are one estimate of what is left to know of an item. In the
      first step, random probe columns look for tastes that no other column explains.

    With objective="both", the model also learns what people choose and like, from the releases that `DPSVD` makes of
    ratings as graded likes, which share the budget; `recommend` then ranks by that, `similar_items` and `explain` are
    about it, and only `predict` gives ratings. Otherwise `recommend` ranks by predicted rating.

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
        n_steps: Item steps, which share one budget; by default 5 to 16, by epsilon, or 2 where a small catalog's
            residuals are used.
        n_users_hint: About how many users there are, if that is public. It decides whether to release a second moment.
        features: Columns of the catalog that describe items (numbers, or text: categories, several of them separated
            by "|"). They are public, and cost no privacy.
        adjacency: What neighboring data sets differ in: one user more or less ("add-remove"), or "replace".
        objective: What is learned: to predict "ratings", or "both" ratings and lists of what people choose and like.
        caution: How many standard deviations of an item's uncertainty are subtracted from its score for ranking: with
            1, the better known of two items with equal scores comes first. For lists by predicted rating.
        n_jobs: Threads, in scikit-learn's meaning. The releases are the same for any number.

    Attributes:
        n_users_: About how many users there were, by a release; at least 10.
    """

    # What a continuation needs besides: `Knowledge`.
    _KNOWN: ClassVar[tuple[str, ...]] = (
        "known_users_",
        "known_bias_",
        "known_pairs_",
        "known_frequent_",
        "known_pairs_scale_",
        "known_loadings_",
        "known_standing_",
        "known_steps_",
        "known_own_",
        "known_own_size_",
        "known_others_",
    )
    _ARRAYS: ClassVar[tuple[str, ...]] = (
        *PrivateModel._ARRAYS,
        "item_variance_",
        "item_prior_",
        "item_weights_",
        "list_factors_",
        "list_weights_",
        *_KNOWN,
    )
    _VALUES: ClassVar[tuple[str, ...]] = (
        *PrivateModel._VALUES,
        "unit_",
        "n_users_",
        "offset_penalty_",
        "vector_penalty_",
    )
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

    epsilon: float
    delta: float
    n_steps: int | None = None
    n_users_hint: int | None = None
    features: Sequence[str] | None = None
    adjacency: AdjacencyName = "add-remove"
    objective: Objective = "ratings"
    caution: float = 0.0
    n_jobs: int | None = -1

    @classmethod
    def as_published(cls, **parameters: Any) -> PublishedDPALS:
        """DPALS as it was published in 2021, with its true guarantee: `PublishedDPALS(**parameters)`."""
        return PublishedDPALS(**parameters)

    def _check_parameters(self) -> None:
        positive("epsilon", self.epsilon)
        probability("delta", self.delta)
        positive("caution", self.caution, zero=True)
        check_parameters(self, choices={"objective": ("ratings", "both")})
        if self.caution and self.objective == "both":
            raise DataError(
                "caution: this is for lists by predicted rating; leave it out, or ask for objective='ratings'"
            )
        for name in ("n_steps", "n_users_hint"):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name), 1)

    def _settings(self, n_items: int) -> Settings:
        return settings(self._mu(), n_items, self.n_users_hint, self.n_steps, lists=self.objective == "both")

    def plan(self, n_items: int) -> Plan:
        """What a fit would release, and what each release costs; needs no data, only the size of the catalog."""
        self._check_parameters()
        return self._checked(self._settings(whole("n_items", n_items, 1)).plan(self._mu()))

    @staticmethod
    def _checked(plan: Plan) -> Plan:
        if min(line.cost.mu or 0.0 for line in plan.lines if line.label != GRAM) < LEAST_MU:
            raise PrivacyError("epsilon: with so little of it, or so many steps, noise would hide any number of users")
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
        return self._learned(training, *training.begin(features))

    def _learned(
        self, training: Training, mean: float, frequencies: ItemFrequencies, items: ItemPosterior
    ) -> dict[str, Any]:
        """The model after all item steps, in the unit of the ratings."""
        items = training.steps(mean, frequencies, items)
        (low, high), unit = training.scale.value_range, training.scale.unit
        n_jobs = training.releaser.n_jobs
        kernel = kernel_columns(items.mean, frequencies.sums, n_jobs) * math.sqrt(items.taste(frequencies))
        return {
            "item_factors_": np.column_stack([items.factors, kernel]) * unit,
            "item_bias_": items.bias * unit,
            "item_variance_": items.variance * unit**2,
            "item_prior_": items.priors(frequencies),
            "item_weights_": np.column_stack([frequencies.a, frequencies.variance]),
            "popularity_": frequencies.sums / frequencies.a,
            **training.lists,
            "value_range_": (low, high),
            "implicit_": False,
            "global_mean_": float((low + high) / 2 + unit * mean),
            "unit_": float(unit),
            "n_users_": float(frequencies.n_users),
            "offset_penalty_": float(training.offset_penalty),
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
        """The settings of a continuation: they follow from what was spent before, too."""
        before = self.guarantee_.cost.mu or 0.0
        both = self.objective == "both"
        together = settings(math.hypot(more._mu(), before), n_items, self.n_users_hint, lists=both)
        begun = len(self.known_frequent_) > 0
        return more._settings(n_items).continued(together, 1.0 if begun else 1 + (before / more._mu()) ** 2)

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
        """Continue to learn, best on all ratings so far: the same releases again, pooled with those of before.

        The model is public, so it costs nothing to start from it. Items are matched by their ids; new items start from
        nothing, and items that are not in the catalog of `ratings` are dropped. Give all ratings so far, not only new
        ones: the noise is the same, and more ratings stand out from it further. A model of other people's ratings is
        prior knowledge, which counts for less the worse it predicts what is released of these.

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
                f"{', '.join(changed)}: the model was fitted with another, and a certificate of both could not be; set "
                "it back, and give fit_more what it is to spend: fit_more(ratings, epsilon=..., n_steps=...)"
            )

        def learn(releaser: Releaser, ratings: Interactions) -> dict[str, Any]:
            training = Training.of(releaser, self._continued(more, ratings.n_items), ratings)
            training.known, training.noise = self._known(ratings.catalogue), self.vector_penalty_ / USER_VECTOR
            return self._learned(training, *training.begin(item_features(ratings.catalogue, self.features or ())))

        with more._readied(ratings, reading) as table:
            require_sound(table)
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
        a, variance = self.item_weights_.T
        steps, n = self.known_steps_.astype(np.float64), self.known_others_.shape[1] // 2
        own = self.known_own_size_[:, None, None] * self.known_own_
        return Knowledge(
            unit=self.unit_,
            users=self.known_users_,
            frequencies=ItemFrequencies.known(a, self.popularity_ * a, variance),
            bias=self.known_bias_,
            items=np.column_stack([self.item_bias_ / self.unit_, self.item_variance_[:, 0] / self.unit_**2]),
            pairs=self.known_pairs_.astype(np.float64),
            frequent=self.known_frequent_,
            pairs_scale=self.known_pairs_scale_,
            loadings=self.known_loadings_,
            standing=self.known_standing_,
            steps=StepInformation(steps[:, :, :-1], steps[:, :, -1], own),
            others=self.known_others_[:, :n],
            others_variance=self.known_others_[:, n:],
        ).of_items(self.items_.numbers(catalogue.ids.to_arrow()))

    # What is known of the items

    def item_knowledge(self, library: str | None = None) -> Any:
        """How well the model knows each item: a data frame, the least known items first.

        `uncertainty` is the posterior standard deviation of an item's average rating, in the unit of the ratings.
        `known` is false where more than half of a typical item's prior variance is left: about these items the model
        says little more than that they are average. All of it is computed from releases, and may be published.

        Args:
            library: "pandas", "polars" or "pyarrow"; by default one that is installed.
        """
        uncertainty = np.sqrt(self.item_variance_[:, 0])
        order = np.argsort(-uncertainty, kind="stable")
        table = self.catalogue_.take(order).to_arrow()
        columns = {
            "popularity": self.popularity_[order],
            "average": (self.item_bias_ + self.global_mean_)[order],
            "uncertainty": uncertainty[order],
            "known": (uncertainty <= BIAS_SPREAD * self.unit_ * math.sqrt(0.5))[order],
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
            or shapes != ((m, k + 1), (m, k), (m, 2))
            or (self.item_variance_ < 0).any()
            or (self.item_weights_ <= 0).any()
        ):
            raise DataError("item_variance_, item_prior_, item_weights_: their shapes or signs do not fit the factors")
        f, d = len(self.known_frequent_), self.known_loadings_.shape[-1]
        n_lists = self.list_factors_.shape[-1]
        expected = {
            "list_factors_": (m, n_lists if self.objective == "both" else 0),
            "list_weights_": (m,),
            "known_users_": (6 + MAGNITUDES,),
            "known_bias_": (m, 2),
            "known_pairs_": (f, f),
            "known_pairs_scale_": (2,),
            "known_loadings_": (f, d),
            "known_standing_": (m, d + 1),
            "known_steps_": (m, k + 1, k + 2),
            "known_own_": (k + 1, k + 1),
            "known_own_size_": (m,),
        }
        wrong = [name for name, shape in expected.items() if getattr(self, name).shape != shape]
        if wrong or self.known_others_.shape[:-1] != (m,) or not np.isin(self.known_frequent_, np.arange(m)).all():
            raise DataError(
                f"{', '.join(wrong) or 'known_frequent_, known_others_'}: does not fit the other arrays of the model"
            )

    @property
    def _n_kernel(self) -> int:
        """How many of the last factors are kernel columns, which are computed from the others."""
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
            grading=Grading(self.global_mean_, self.offset_penalty_, self.unit_),
        )


# -- the releases of a fit, in order


@dataclass
class Training:
    """One fit, or its continuation."""

    releaser: Releaser
    settings: Settings
    ratings: Ratings
    scale: Scale
    popularity: Noisy = field(init=False)
    offset_penalty: float = math.nan
    noise: float = 1.0  # variance of ratings about their prediction, in the unit; at most
    known: Knowledge | None = None
    kept: dict[str, Array] = field(default_factory=dict)
    lists: dict[str, Array] = field(default_factory=dict)
    inflation: float = 1.0
    first_other: int = 0  # the first column that is neither a slope, a feature nor a direction

    @classmethod
    def of(cls, releaser: Releaser, settings: Settings, ratings: Ratings) -> Training:
        """In a unit of half the range of ratings, until a better one is known."""
        assert ratings.value_range is not None
        low, high = ratings.value_range
        return cls(releaser, settings, ratings, Scale((low, high), (high - low) / 2))

    def _unscaled(self, most_users: int | None = None) -> Blocks[UserBatch]:
        """Users' items; the values are as they were given."""
        return user_batches(self.ratings, most_users, n_jobs=self.releaser.n_jobs)

    def _users(self, most_users: int | None = None) -> Blocks[UserBatch]:
        """Users' items, and their ratings in the unit."""
        return self._unscaled(most_users).map(self.scale)

    def begin(self, features: Array) -> tuple[float, ItemFrequencies, ItemPosterior]:
        """All releases before the item steps: the mean rating, how often items occur, and what is known of them."""
        mean, frequencies = self._start()
        n_features, known = features.shape[1], self.known
        columns, between = np.zeros((self.ratings.n_items, 0)), np.zeros((known.n_directions if known else 0, 0))
        bias = self._bias(frequencies, mean)
        self._keep_pairs(np.zeros((0, 0)), np.zeros(0, np.int64), 0.0, frequencies)
        self._keep_standing(np.zeros((0, 0)), np.zeros((self.ratings.n_items, 1)))
        choices = self._choices(mean, frequencies, ItemPosterior.from_bias(bias, frequencies, features).bias, features)
        if self.settings.looks_for_directions and not self.settings.residual:
            columns, between = self._directions(frequencies, choices)
            features = np.column_stack([features, columns])
        items = ItemPosterior.from_bias(bias, frequencies, features).with_slopes(frequencies)
        items = items.with_features(features[:, :n_features], frequencies)
        items = items.with_columns(columns * COLUMN**-0.5, COLUMN_SPREAD**2)
        n = items.mean.shape[1]
        if self.settings.looks_for_directions and self.settings.residual:
            items = self._with_residual_directions(items, frequencies, mean)
        if known is not None:
            items = items.with_columns(known.others, known.others_variance)
            steps = known.steps.changed(known.columns(between, n_features), self.inflation, self._rescaled)
            self.known = replace(known, steps=steps)
        self.first_other = n
        return mean, frequencies, items

    @property
    def _rescaled(self) -> float:
        """The unit of what is known, over the unit now."""
        return self.known.unit / self.scale.unit if self.known else 1.0

    def _bias(self, frequencies: ItemFrequencies, mean: float) -> Noisy | Pooled:
        statistic = VectorSum(self.ratings.n_items, self.settings.bounds[BIAS])
        contribution = partial(own_deviations, a=frequencies.a, mean=mean, offset_penalty=self.offset_penalty)
        bias: Noisy | Pooled
        bias = release = self.releaser.release(BIAS, statistic, self._users(), contribution)
        if self.known is not None:
            self.inflation = self.known.inflation(release, frequencies, self._rescaled)
            bias = self.known.with_bias(release, frequencies, self.inflation, self._rescaled)
        c = frequencies.sums
        precision = np.broadcast_to(np.square(c / bias.std), c.shape)
        self.kept["known_bias_"] = np.column_stack([bias.values / c, precision])
        return bias

    def _keep_pairs(self, pairs: Array, frequent: Array, std: float, frequencies: ItemFrequencies) -> None:
        size = float(frequencies.sums[frequent].sum() ** 2 / frequencies.n_users)
        self.kept |= {"known_pairs_": pairs.astype(np.float32), "known_frequent_": frequent}
        self.kept["known_pairs_scale_"] = np.array([std, size])

    def _keep_standing(self, loadings: Array, standing: Array) -> None:
        self.kept |= {"known_loadings_": loadings, "known_standing_": standing}

    def steps(self, mean: float, frequencies: ItemFrequencies, items: ItemPosterior) -> ItemPosterior:
        """All item steps."""
        s, m, known = self.settings, self.ratings.n_items, items.mean.shape[1]
        estimate = ItemEstimate.nothing(items)
        if self.known is not None:
            steps = self.known.steps
            estimate = ItemEstimate.of(items, steps.precision, steps.information, steps.own)
        n_others = known - self.first_other
        items = estimate.items if n_others > MOST_OTHERS else estimate.items.with_probes(n_others)
        users, vectors = self._users(), np.full(known - 1, USER_SQUARE)
        mu = math.sqrt(s.n_steps) * (self.releaser.reservation.plan[STEP].cost.mu or 0.0)
        pooled, noise, least = np.zeros(items.covariance.shape[1:]), self.noise, 1.0
        for at in range(s.n_steps):
            k, weight = items.mean.shape[1], items.bias_weight(frequencies, vectors, mu, self.releaser.n_jobs)
            step = self._step(items, frequencies, mean, weight)
            statistics = [(GRAM, GramSum(k, s.bounds[GRAM])), (STEP, OuterSum((m, k), s.bounds[STEP]))]
            gram, sums = self.releaser.release_together(statistics, users, step)
            sizes = np.append(weight, np.ones(k - 1))
            pooled = pooled[:k, :k]
            pooled = pooled + 2 / (at + 2) * (gram.values / np.outer(sizes, sizes) - pooled)  # later vectors count more
            shared = pooled * np.outer(sizes, sizes)
            observed = Observation.of(sums, gram, shared, frequencies, bias_weight=weight, clip=s.step_clip)
            least = observed.variance[0] if at == 0 else least
            self.noise = min(noise * observed.variance[1] / least, 1.0)
            if at == 0:
                items, observed = items.probed(known, observed)
                estimate = estimate.widened(items)
            estimate = estimate.updated(observed, self.releaser.n_jobs)
            items, vectors = estimate.items, observed.vectors
        others = estimate.before.mean[:, self.first_other :], estimate.before.variance[:, self.first_other :]
        information = np.concatenate([estimate.precision, estimate.information[:, :, None]], axis=2)
        self.kept |= {
            "known_steps_": information.astype(np.float32),
            "known_own_": observed.blur,
            "known_own_size_": observed.squares / observed.shares**2,
            "known_others_": np.column_stack(others),
        }
        return items

    def _step(self, items: ItemPosterior, frequencies: ItemFrequencies, mean: float, bias_weight: float) -> ItemStep:
        penalties = self.offset_penalty, USER_VECTOR * self.noise
        return ItemStep(items.means, frequencies, mean, *penalties, bias_weight, self.settings.step_clip)

    def _count_users(self) -> UserStatistics:
        statistic = VectorSum(5 + MAGNITUDES, self.settings.bounds[USERS], nonnegative=True)
        contribution = partial(own_moments, reach=self.scale.reach)
        release = self.releaser.release(USERS, statistic, self._users(), contribution)
        if self.known is not None:
            release, self.kept["known_users_"] = self.known.with_users(release)
        found = UserStatistics.of(release)
        if self.known is None:
            self.kept["known_users_"] = np.append(release.values, release.std) / found.n_users
        return found

    def _weights(self, a: Array) -> Noisy:
        statistic = VectorSum(self.ratings.n_items, self.settings.bounds[WEIGHTS], nonnegative=True)
        return self.releaser.release(WEIGHTS, statistic, self._unscaled(), partial(own_weights, a=a))

    def _start(self) -> tuple[float, ItemFrequencies]:
        """The mean rating, and how often items occur. From here on, ratings spread by about 1 unit."""
        users = self._count_users()
        self.scale = replace(self.scale, unit=self.scale.unit * users.within)
        self.offset_penalty = users.offset_penalty
        s, mean = self.settings, users.mean / users.within
        statistic = VectorSum(self.ratings.n_items, s.bounds[POPULARITY], nonnegative=True)
        self.popularity = popularity = self.releaser.release(POPULARITY, statistic, self._unscaled(), equal_weights)
        if self.known is not None:
            known = self.known.frequencies.weighed(0.0).updated(popularity, users.n_users).weighed(s.exponent)
            return mean, known.updated(self._weights(known.a), users.n_users)
        a = np.maximum(popularity.values, 0.7 + popularity.std) ** -s.exponent
        frequencies = ItemFrequencies.of(a, popularity, self._weights(a), users.n_users)
        return mean, frequencies

    def _second_moment(
        self, frequencies: ItemFrequencies, entries: Callable[[UserBatch], Array]
    ) -> tuple[Noisy, Array]:
        """The second moment of users' entries on the most frequent items, and the numbers of these."""
        frequent = np.sort(np.argsort(-frequencies.sums, kind="stable")[: self.settings.n_frequent])
        m, place = len(frequent), np.full(self.ratings.n_items, -1)
        place[frequent] = np.arange(m)
        statistic = GramSum(m, self.settings.bounds[SECOND_MOMENT], zero_diagonal=True)
        users = self._users if self.settings.residual else self._unscaled
        rows = users(dense_users(m)).map(lambda batch: on_frequent(batch, entries(batch), place))
        return self.releaser.release(SECOND_MOMENT, statistic, rows, own_values), frequent

    def _choices(self, mean: float, frequencies: ItemFrequencies, bias: Array, features: Array) -> Choices | None:
        """What users choose together, and rate highly: for lists."""
        m = self.ratings.n_items
        self.lists = {"list_factors_": np.zeros((m, 0), np.float32), "list_weights_": np.zeros(m)}
        if not self.settings.lists:
            return None
        grading = Grading(mean, self.offset_penalty, 1.0)
        # The sum over users of their graded weights, of length 1, is about popularity times the mean grade.
        grades = np.maximum(1 + SLOPE * bias, 0) / math.hypot(1, SLOPE)
        known = frequencies.sums / frequencies.a
        scale = max(float(self.popularity.values @ known), 0.0) / float(known @ known)
        popularity = Noisy(scale * known * grades, 0.0)
        choices = learn_choices(
            self.releaser,
            lambda most: self._users(most).map(grading.apply),
            popularity,
            MOST_CHOSEN,
            labels=LISTS,
            features=features,
            pool=self._known_moment(frequencies),
        )
        self.lists = {"list_factors_": choices.item_factors, "list_weights_": choices.chosen.weights}
        some = np.sort(np.argsort(-frequencies.sums[choices.items], kind="stable")[:MOST_KEPT])
        self._keep_pairs(
            choices.moment.values[np.ix_(some, some)], choices.items[some], choices.moment.std, frequencies
        )
        self._keep_standing(np.zeros((len(some), 0)), np.zeros((m, 1)))
        return choices

    def _known_moment(self, frequencies: ItemFrequencies) -> KnownPairs | None:
        return None if self.known is None else self.known.second_moment(frequencies, self.inflation)

    def _directions(self, frequencies: ItemFrequencies, choices: Choices | None) -> tuple[Array, Array]:
        """Where items stand on directions of taste, from what is chosen together; and `Knowledge.between`."""
        s = self.settings
        if choices is not None:
            chosen, frequent = choices.chosen.weights, choices.chosen.items
            least = COLUMN_SIGNAL / (self.releaser.reservation.plan.cost.mu or 1.0) / frequencies.n_users
            found = Directions.along(choices.spectrum, frequent, len(chosen), s.n_directions, least)
        else:
            frequent = np.argsort(-frequencies.sums, kind="stable")[: s.n_frequent]
            chosen = np.zeros(self.ratings.n_items)
            chosen[frequent] = frequencies.a[frequent]
            moment, frequent = self._second_moment(frequencies, partial(own_weights, a=chosen))
            pool = self._known_moment(frequencies)
            moment = moment if pool is None else pool(moment, frequent)
            self._keep_pairs(moment.values, frequent, moment.std, frequencies)
            found = Directions.of(moment, frequent, frequencies, s.n_directions)
        between = self.known.between(found, len(chosen)) if self.known else np.zeros((0, found.n))
        loadings = found.loadings[self.kept["known_frequent_"]]
        self._keep_standing(loadings, np.zeros((len(chosen), found.n + 1)))
        if not found.n:
            return found.loadings, between
        statistic = OuterSum(found.loadings.shape, s.bounds[EXTENSION])
        contribution = Extension(found.loadings, chosen, frequencies.a)
        release: Noisy | Pooled = self.releaser.release(EXTENSION, statistic, self._unscaled(), contribution)
        if self.known is not None and isinstance(release, Noisy):
            release = self.known.with_standing(release, frequencies, between, self.inflation)
        self._keep_standing(loadings, standing_of(release, frequencies))
        return found.columns(release, frequencies), between

    def _with_residual_directions(
        self, items: ItemPosterior, frequencies: ItemFrequencies, mean: float
    ) -> ItemPosterior:
        s = self.settings
        moment, frequent = self._second_moment(frequencies, self._step(items, frequencies, mean, 0.5).residuals)
        return items.with_columns(residual_columns(moment, frequent, frequencies, s.n_directions), RESIDUAL_SPREAD**2)


# -- how a budget is divided, by public inputs alone


@dataclass(frozen=True)
class Settings:
    """How DPALS spends a budget.

    Attributes:
        shares: Label -> share of mu^2, or (share, count).
        n_steps: Item steps.
        exponent: Users weigh their items by popularity^-exponent.
        bias_clip: Bound of a user's contribution to the item biases.
        step_clip: The length of a user's contribution to an item step.
        n_directions: The most directions that are taken from the second moment.
        n_frequent: How many items are in it.
        residual: Whether it is that of residuals, not of co-occurrences.
        signal: mu times the number of users, as far as it is public.
    """

    shares: dict[str, float | tuple[float, int]]
    n_steps: int
    exponent: float = 0.4
    bias_clip: float = 1.0
    step_clip: float = 0.3
    n_directions: int = 10
    n_frequent: int = 400
    residual: bool = False
    signal: float = 0.0

    @property
    def bounds(self) -> dict[str, float]:
        """Label -> the L2 norm that a user's contribution to that release never exceeds."""
        return {
            USERS: math.sqrt(5),
            POPULARITY: 1.0,
            WEIGHTS: 1.0,
            BIAS: self.bias_clip,
            SECOND_MOMENT: 0.64 if self.residual else 1.0,
            **dict.fromkeys(LISTS, 1.0),
            EXTENSION: 1.0,
            STEP: self.step_clip,
            GRAM: GRAM_CLIP * self.step_clip,
        }

    @property
    def lists(self) -> bool:
        """Whether what is chosen together is released for lists."""
        return LISTS[0] in self.shares

    @property
    def looks_for_directions(self) -> bool:
        """Whether columns of ratings come from a second moment."""
        return SECOND_MOMENT in self.shares or EXTENSION in self.shares

    def plan(self, mu: float) -> Plan:
        """The releases, with their costs."""
        return Plan.gaussian(mu, self.shares)

    def continued(self, together: Settings, missing: float) -> Settings:
        """For a model that exists.

        A second moment is pooled with earlier ones, and pays if it does for the budget of all fits.

        Args:
            together: The settings for the budget of all fits.
            missing: What earlier fits could have spent on a second moment, and did not: the first makes up for it.
        """
        shares = {USERS: 0.006, POPULARITY: 0.06, WEIGHTS: 0.06, BIAS: 0.08}
        if together.looks_for_directions and not together.residual:
            shares |= {SECOND_MOMENT: min(0.08 * missing, 0.24), EXTENSION: 0.06}
        if self.lists:
            shares = _with_lists(shares, self.signal, residual=False)
        return replace(self, shares=_with_steps(shares, self.n_steps), residual=False)


def _with_lists(shares: Mapping[str, float], signal: float, residual: bool) -> dict[str, float]:
    """Shares with that of lists, for a budget of mu and so many users that mu times their number is `signal`.

    With little signal, lists are little more than what is popular: that gets more, and directions less. From 1,500 on
    (6,000 people at epsilon 1) directions get 28%. There ratings are predicted about as well as without lists, and
    lists are about as good as with a third of the budget more; half or double the share moves both by 1 to 3%. Measured
    on MovieLens 100K and 1M, anime, MovieTweetings and Jester.
    """
    x = 0.28 * math.sqrt(min(signal / 1500, 1.0))
    popularity = shares[POPULARITY] * min(math.sqrt(max(6000 / signal, 1.0)), 5.0)
    kept = {label: share for label, share in shares.items() if residual or label != SECOND_MOMENT}
    return {label: (1 - x) * share for label, share in {**kept, POPULARITY: popularity}.items()} | choice_shares(x)


def _with_steps(shares: dict[str, float], n_steps: int) -> dict[str, float | tuple[float, int]]:
    """Shares, and what they leave for item steps."""
    rest = 1 - math.fsum(shares.values())
    return {**shares, GRAM: (0.02 * rest, n_steps), STEP: (rest - 0.02 * rest, n_steps)}


def settings(
    mu: float, n_items: int, n_users_hint: int | None = None, n_steps: int | None = None, *, lists: bool = False
) -> Settings:
    """The settings for a budget, from public inputs only.

    Args:
        mu: The Gaussian-DP parameter of the whole budget.
        n_items: The size of the catalog.
        n_users_hint: About how many users there are, if that is public; by default 1.6 for each item, at least 5,000.
        n_steps: How many item steps, if not the rule's number.
        lists: Whether lists of items are learned, too.
    """
    n_users = n_users_hint or max(5_000, 1.6 * n_items)
    # 0 at epsilon = 1 and 1 at epsilon = 10, for delta = 1e-5.
    budget_level = min(max(math.log(mu / 0.27) / math.log(2.0 / 0.27), 0.0), 1.5)
    shares = {USERS: 0.006, POPULARITY: 0.06, WEIGHTS: 0.06, BIAS: 0.08}
    residual, n_frequent = n_items <= 400, min(n_items, 400)
    share = 0.25 if residual else 0.08
    # The second moment pays if its directions stand out from the noise, whose largest eigenvalue is `edge`. Those of
    # co-occurrences are some hundredths of the number of users.
    edge = math.sqrt(2 * n_frequent) / (mu * math.sqrt(share))
    pays = edge < (0.034 if not residual else 0.05) * n_users
    if pays:
        shares |= {SECOND_MOMENT: share} if residual else {SECOND_MOMENT: share, EXTENSION: 0.06}
    if lists:
        shares = _with_lists(shares, mu * n_users, residual)
    steps = n_steps or (2 if residual and pays else 5 + round(7 * budget_level))
    shared = _with_steps(shares, steps)
    return Settings(shared, steps, n_frequent=n_frequent, residual=residual, signal=mu * n_users)
