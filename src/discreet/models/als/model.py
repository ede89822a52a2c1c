"""DPALS: private alternating least squares, the flagship.

Here are its parameters, how it divides a budget, and what is released, in order. What users contribute to a release is
in `contributions.py`, what is made of it in `estimate.py`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

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
    RESIDUAL_SPREAD,
    USER_SQUARE,
    Directions,
    ItemEstimate,
    ItemFrequencies,
    ItemPosterior,
    Observation,
    UserStatistics,
    residual_columns,
)
from discreet.models.als.kernel_columns import kernel_columns
from discreet.models.als.published import PublishedDPALS
from discreet.models.base import learned_by, require_ratings
from discreet.models.fold_in import FoldIn, Penalty, RidgeFoldIn
from discreet.models.private import PrivateModel, require_sound
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

USERS, POPULARITY, WEIGHTS, BIAS = "users and their means", "item popularity", "item weights", "item biases"
SECOND_MOMENT, EXTENSION, STEP, GRAM = "second moment", "directions", "item step", "shared Gram"

LEAST_MU = 2.0**-20  # below it a contribution would be less than a unit of the noise's grid
MOST_CATEGORIES = 100  # of one column of the catalog; rarer ones are left out
GRAM_CLIP = 20.0  # bound of a user's contribution to the shared Gram matrix, over that to an item step


@dataclass(kw_only=True, eq=False, repr=False)
class DPALS(PrivateModel):
    """Private alternating least squares for ratings: user-level joint differential privacy.

    The model is y_ij = m + a_i + b_j + u_i . v_j. A user's a_i and u_i are found by their own ridge regression,

        sum over their items of (y_ij - m - b_j - a_i - u_i . v_j)^2 + l a_i^2 + 1.8 |u_i - p_i|^2

    (in a unit in which ratings spread by about 1; the weight l follows from how far users' means spread, and the prior
    mean p_i from which items they have). It costs nothing, because only the user sees the result.
    The first columns of v_j are the item's bias and popularity: users differ in how far they follow the common taste.
    Items are learned from noisy sums over users:

    - how many users there are, their mean rating, how far ratings spread (bound of one user's contribution: 2);
    - item popularity and weights: each user's items, with weights of length 1 together (bound 1);
    - item biases: weighted, centered ratings (bound 1);
    - where the budget allows, a second moment of users' weights, for directions of taste (bound 1), and where all
      items stand on these (bound 1); or of their residuals when the catalog is small (bound .64);
    - in each step, the residuals of users' regressions times their vectors (scaled to length .3), and one Gram matrix
      of all users' vectors (bound 6). Each step is a Kalman update of what is known of an item. In the first step,
      random probe columns look for tastes that no other column explains.

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
        n_steps: Item steps, which share one budget; by default 4 to 18, by epsilon, or 2 where a small catalog's
            residuals are used.
        n_users_hint: About how many users there are, if that is public. It decides whether to release a second moment.
        features: Columns of the catalog that describe items (numbers, or text: categories, several of them separated
            by "|"). They are public, and cost no privacy.
        adjacency: What neighboring data sets differ in: one user more or less ("add-remove"), or "replace".
        caution: How many standard deviations of an item's uncertainty are subtracted from its score for ranking: with
            1, the better known of two items with equal scores comes first.
        n_jobs: Threads, in scikit-learn's meaning. The releases are the same for any number.

    Attributes:
        n_users_: About how many users there were, by a release; at least 10.
    """

    _ARRAYS: ClassVar[tuple[str, ...]] = (*PrivateModel._ARRAYS, "item_variance_", "item_prior_", "item_weights_")
    _VALUES: ClassVar[tuple[str, ...]] = (*PrivateModel._VALUES, "unit_", "n_users_", "offset_penalty_")
    _NOT_LEARNED: ClassVar[tuple[str, ...]] = (*PrivateModel._NOT_LEARNED, "caution")
    _in_spark: ClassVar[bool] = True

    item_variance_: Array = field(init=False)
    item_prior_: Array = field(init=False)
    item_weights_: Array = field(init=False)
    unit_: float = field(init=False)
    n_users_: float = field(init=False)
    offset_penalty_: float = field(init=False)

    epsilon: float
    delta: float
    n_steps: int | None = None
    n_users_hint: int | None = None
    features: Sequence[str] | None = None
    adjacency: AdjacencyName = "add-remove"
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
        for name in ("n_steps", "n_users_hint"):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name), 1)

    def _settings(self, n_items: int) -> Settings:
        return settings(self._mu(), n_items, self.n_users_hint, self.n_steps)

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
        noise = plan.noise(USERS, sensitivity=2.0)  # of either adjacency, and more: the bound is sqrt 2
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
        kernel = kernel_columns(items.mean, frequencies.sums) * math.sqrt(items.taste(frequencies))
        return {
            "item_factors_": np.column_stack([items.factors, kernel]) * unit,
            "item_bias_": items.bias * unit,
            "item_variance_": items.variance * unit**2,
            "item_prior_": items.priors(frequencies),
            "item_weights_": np.column_stack([frequencies.a, frequencies.variance]),
            "popularity_": frequencies.sums / frequencies.a,
            "value_range_": (low, high),
            "implicit_": False,
            "global_mean_": float((low + high) / 2 + unit * mean),
            "unit_": float(unit),
            "n_users_": float(frequencies.n_users),
            "offset_penalty_": float(training.offset_penalty),
        }

    # Continuing

    def plan_more(self, n_items: int, *, epsilon: float | None = None, n_steps: int | None = None) -> Plan:
        """What `fit_more` would release, and what each release costs."""
        more = self._more(epsilon, n_steps)
        more._check_parameters()
        return self._checked(more._settings(whole("n_items", n_items, 1)).continued().plan(more._mu()))

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
        """Continue to learn: more item steps, on the same ratings or on new ones.

        The model is public, so it costs nothing to start from it: last month's model is prior knowledge for this
        month's ratings. Items are matched by their ids; new items start from nothing, and items that are not in the
        catalog of `ratings` are dropped. New ratings of the same users add knowledge; the same ratings again only
        reduce noise.

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
            settings = more._settings(ratings.n_items).continued()
            scale = Scale(self.value_range_, self.unit_)
            training = Training(releaser, settings, ratings, scale, self.offset_penalty_)
            return self._learned(training, *training.go_on(self._known(ratings.catalogue)))

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

    def _known(self, catalogue: Catalogue) -> tuple[float, ItemFrequencies, ItemPosterior]:
        """What the model knows of these items, in the unit of the training."""
        at = self.items_.numbers(catalogue.ids.to_arrow())
        a, variance = self.item_weights_.T
        low, high = self.value_range_
        frequencies = ItemFrequencies.known(a, self.popularity_ * a, variance)
        factors = self.item_factors_[:, : self.item_prior_.shape[1]]
        mean = np.column_stack([self.item_bias_, factors]) / self.unit_
        items = ItemPosterior.known(mean, self.item_variance_ / self.unit_**2)
        middle = (self.global_mean_ - (low + high) / 2) / self.unit_
        return middle, frequencies.of_items(at), items.of_items(at, frequencies)

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

    @property
    def _n_kernel(self) -> int:
        """How many of the last factors are kernel columns, which are computed from the others."""
        return int(self.item_factors_.shape[1] - self.item_prior_.shape[1])

    def _similar_columns(self) -> slice:
        return slice(0, self.item_prior_.shape[1])

    def _score_variance(self) -> Variance:
        if not self.caution:
            return None
        return self.caution, np.pad(self.item_variance_, ((0, 0), (0, self._n_kernel)))

    def _make_fold_in(self) -> FoldIn:
        return RidgeFoldIn(
            columns=self.item_factors_,
            base=self.item_bias_ + self.global_mean_,
            penalty=Penalty(USER_VECTOR * self.unit_**2),
            offset_penalty=self.offset_penalty_,
            prior=np.pad(self.item_prior_, ((0, 0), (0, self._n_kernel))),
            prior_count=USER_CHOICES,
        )


# -- the releases of a fit, in order


@dataclass
class Training:
    """One fit, or its continuation."""

    releaser: Releaser
    settings: Settings
    ratings: Ratings
    scale: Scale
    offset_penalty: float = math.nan

    @classmethod
    def of(cls, releaser: Releaser, settings: Settings, ratings: Ratings) -> Training:
        """In a unit of half the range of ratings, until a better one is known."""
        assert ratings.value_range is not None
        low, high = ratings.value_range
        return cls(releaser, settings, ratings, Scale((low, high), (high - low) / 2))

    def _users(self, most_users: int | None = None) -> Blocks[UserBatch]:
        return user_batches(self.ratings, most_users, n_jobs=self.releaser.n_jobs).map(self.scale)

    def begin(self, features: Array) -> tuple[float, ItemFrequencies, ItemPosterior]:
        """All releases before the item steps: the mean rating, how often items occur, and what is known of them."""
        mean, frequencies = self._start()
        n_features = features.shape[1]
        statistic = VectorSum(self.ratings.n_items, self.settings.bounds[BIAS])
        contribution = partial(own_deviations, a=frequencies.a, mean=mean, offset_penalty=self.offset_penalty)
        bias = self.releaser.release(BIAS, statistic, self._users(), contribution)
        columns = np.zeros((self.ratings.n_items, 0))
        if self.settings.looks_for_directions and not self.settings.residual:
            columns = self._directions(frequencies)
            features = np.column_stack([features, columns])
        items = ItemPosterior.from_bias(bias, frequencies, features).with_slopes(frequencies)
        items = items.with_features(features[:, :n_features], frequencies)
        items = items.with_columns(columns * COLUMN**-0.5, COLUMN_SPREAD**2)
        if self.settings.looks_for_directions and self.settings.residual:
            items = self._with_residual_directions(items, frequencies, mean)
        return mean, frequencies, items

    def go_on(
        self, known: tuple[float, ItemFrequencies, ItemPosterior]
    ) -> tuple[float, ItemFrequencies, ItemPosterior]:
        """The same for a model that exists: how often items occur now."""
        mean, before, items = known
        return mean, before.updated(self._weights(before.a), self._count_users().n_users), items

    def steps(self, mean: float, frequencies: ItemFrequencies, items: ItemPosterior) -> ItemPosterior:
        """All item steps."""
        s, m, known = self.settings, self.ratings.n_items, items.mean.shape[1]
        items = items.with_probes()
        estimate = ItemEstimate.nothing(items)
        users, vectors = self._users(), np.full(known - 1, USER_SQUARE)
        mu = math.sqrt(s.n_steps) * (self.releaser.reservation.plan[STEP].cost.mu or 0.0)
        for at in range(s.n_steps):
            k, weight = items.mean.shape[1], items.bias_weight(frequencies, vectors, mu)
            step = self._step(items, frequencies, mean, weight)
            statistics = [(GRAM, GramSum(k, s.bounds[GRAM])), (STEP, OuterSum((m, k), s.bounds[STEP]))]
            gram, sums = self.releaser.release_together(statistics, users, step)
            observed = Observation.of(sums, gram, frequencies, weight, s.step_clip)
            if at == 0:
                items, observed = items.probed(known, observed)
                estimate = ItemEstimate.nothing(items)
            estimate = estimate.updated(observed, self.releaser.n_jobs)
            items, vectors = estimate.items, observed.vectors
        return items

    def _step(self, items: ItemPosterior, frequencies: ItemFrequencies, mean: float, bias_weight: float) -> ItemStep:
        return ItemStep(items.means, frequencies, mean, self.offset_penalty, bias_weight, self.settings.step_clip)

    def _count_users(self) -> UserStatistics:
        statistic = VectorSum(5, self.settings.bounds[USERS], cone="nonnegative")
        contribution = partial(own_moments, reach=self.scale.reach)
        return UserStatistics.of(self.releaser.release(USERS, statistic, self._users(), contribution))

    def _weights(self, a: Array) -> Noisy:
        statistic = VectorSum(self.ratings.n_items, self.settings.bounds[WEIGHTS], cone="nonnegative")
        return self.releaser.release(WEIGHTS, statistic, self._users(), partial(own_weights, a=a))

    def _start(self) -> tuple[float, ItemFrequencies]:
        """The mean rating, and how often items occur. From here on, ratings spread by about 1 unit."""
        users = self._count_users()
        self.scale = replace(self.scale, unit=self.scale.unit * users.within)
        self.offset_penalty = users.offset_penalty
        s = self.settings
        statistic = VectorSum(self.ratings.n_items, s.bounds[POPULARITY], cone="nonnegative")
        popularity = self.releaser.release(POPULARITY, statistic, self._users(), equal_weights)
        a = np.maximum(popularity.values, 0.7 + popularity.std) ** -s.exponent
        frequencies = ItemFrequencies.of(a, popularity, self._weights(a), users.n_users)
        return users.mean / users.within, frequencies

    def _second_moment(
        self, frequencies: ItemFrequencies, entries: Callable[[UserBatch], Array]
    ) -> tuple[Noisy, Array]:
        """The second moment of users' entries on the most frequent items, and the numbers of these."""
        frequent = np.sort(np.argsort(-frequencies.sums, kind="stable")[: self.settings.n_frequent])
        m, place = len(frequent), np.full(self.ratings.n_items, -1)
        place[frequent] = np.arange(m)
        statistic = GramSum(m, self.settings.bounds[SECOND_MOMENT], zero_diagonal=True)
        rows = self._users(dense_users(m)).map(lambda batch: on_frequent(batch, entries(batch), place))
        return self.releaser.release(SECOND_MOMENT, statistic, rows, own_values), frequent

    def _directions(self, frequencies: ItemFrequencies) -> Array:
        """Where items stand on directions of taste, from what is chosen together."""
        s = self.settings
        frequent = np.argsort(-frequencies.sums, kind="stable")[: s.n_frequent]
        chosen = np.zeros(self.ratings.n_items)
        chosen[frequent] = frequencies.a[frequent]
        moment, frequent = self._second_moment(frequencies, partial(own_weights, a=chosen))
        found = Directions.of(moment, frequent, frequencies, s.n_directions)
        if not found.n:
            return found.loadings
        statistic = OuterSum(found.loadings.shape, s.bounds[EXTENSION])
        contribution = Extension(found.loadings, chosen, frequencies.a)
        return found.columns(self.releaser.release(EXTENSION, statistic, self._users(), contribution), frequencies)

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
    """

    shares: dict[str, float | tuple[float, int]]
    n_steps: int
    exponent: float = 0.4
    bias_clip: float = 1.0
    step_clip: float = 0.3
    n_directions: int = 10
    n_frequent: int = 400
    residual: bool = False

    @property
    def bounds(self) -> dict[str, float]:
        """Label -> the L2 norm that a user's contribution to that release never exceeds."""
        return {
            USERS: 2.0,
            POPULARITY: 1.0,
            WEIGHTS: 1.0,
            BIAS: self.bias_clip,
            SECOND_MOMENT: 0.64 if self.residual else 1.0,
            EXTENSION: 1.0,
            STEP: self.step_clip,
            GRAM: GRAM_CLIP * self.step_clip,
        }

    @property
    def looks_for_directions(self) -> bool:
        """Whether a second moment is released."""
        return SECOND_MOMENT in self.shares

    def plan(self, mu: float) -> Plan:
        """The releases, with their costs."""
        return Plan.gaussian(mu, self.shares)

    def continued(self) -> Settings:
        """For a model that exists: how often items occur is released again, and the rest of the budget is for steps."""
        shares: dict[str, float | tuple[float, int]] = {USERS: 0.006, WEIGHTS: 0.06}
        return replace(self, shares=_with_steps(shares, self.n_steps), residual=False)


def _with_steps(shares: dict[str, float | tuple[float, int]], n_steps: int) -> dict[str, float | tuple[float, int]]:
    """Shares, and what they leave for item steps."""
    rest = 1 - math.fsum(share if isinstance(share, float) else share[0] for share in shares.values())
    return {**shares, GRAM: (0.01 * rest, n_steps), STEP: (rest - 0.01 * rest, n_steps)}


def settings(mu: float, n_items: int, n_users_hint: int | None = None, n_steps: int | None = None) -> Settings:
    """The settings for a budget, from public inputs only.

    Args:
        mu: The Gaussian-DP parameter of the whole budget.
        n_items: The size of the catalog.
        n_users_hint: About how many users there are, if that is public; by default 1.6 for each item, at least 5,000.
        n_steps: How many item steps, if not the rule's number.
    """
    n_users = n_users_hint or max(5_000, 1.6 * n_items)
    # 0 at epsilon = 1 and 1 at epsilon = 10, for delta = 1e-5.
    budget_level = min(max(math.log(mu / 0.27) / math.log(2.0 / 0.27), 0.0), 1.5)
    shares: dict[str, float | tuple[float, int]] = {USERS: 0.006, POPULARITY: 0.06, WEIGHTS: 0.06, BIAS: 0.08}
    residual, n_frequent = n_items <= 400, min(n_items, 400)
    share = 0.25 if residual else 0.08
    # The second moment pays if its directions stand out from the noise, whose largest eigenvalue is `edge`. Those of
    # co-occurrences are some hundredths of the number of users.
    edge = math.sqrt(2 * n_frequent) / (mu * math.sqrt(share))
    pays = edge < (0.034 if not residual else 0.05) * n_users
    if pays:
        shares |= {SECOND_MOMENT: share} if residual else {SECOND_MOMENT: share, EXTENSION: 0.06}
    steps = n_steps or (2 if residual and pays else 4 + round(8 * budget_level))
    return Settings(_with_steps(shares, steps), steps, n_frequent=n_frequent, residual=residual)


# -- public features of items


def item_features(catalogue: Catalogue, names: Sequence[str]) -> Array:
    """One column for each category of a text column, and one of unit variance for a column of numbers."""
    if isinstance(names, str):
        raise DataError(f"features: a list of columns is needed, for instance [{names!r}]")
    columns = [column for name in names for column in _feature_columns(catalogue, name)]
    return np.column_stack(columns) if columns else np.zeros((len(catalogue), 0))


def _feature_columns(catalogue: Catalogue, name: str) -> list[Array]:
    if name not in catalogue.names:
        raise DataError(
            f"features: the catalogue has no column {name!r}; it has {', '.join(catalogue.names) or 'none'}"
        )
    entries = catalogue.column(name)
    present = [entry for entry in entries if entry is not None]
    if all(isinstance(entry, int | float) and not isinstance(entry, bool) for entry in present):
        numbers = np.array([np.nan if entry is None else float(entry) for entry in entries])
        known = np.isfinite(numbers)
        if not known.any() or np.ptp(numbers[known]) == 0:
            return []
        centered = np.where(known, numbers - numbers[known].mean(), 0.0)
        return [centered / np.sqrt(np.mean(centered[known] ** 2))]
    tags = [set() if entry is None else _tags(entry) for entry in entries]
    counts = Counter(tag for own in tags for tag in own)
    common = sorted(counts, key=lambda tag: (-counts[tag], tag))[:MOST_CATEGORIES]
    # Each item's categories have length 1 together, as its numbers do.
    return [np.array([(tag in own) / np.sqrt(max(len(own), 1)) for own in tags]) for tag in common]


def _tags(entry: Any) -> set[str]:
    tags = entry if isinstance(entry, list | tuple) else str(entry).split("|")
    return {str(tag).strip() for tag in tags if str(tag).strip()}
