"""DPALS: private alternating least squares, the flagship."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from discreet.data.catalogue import Catalogue, to_library
from discreet.data.interactions import Interactions
from discreet.errors import DataError, PrivacyError
from discreet.models.als.estimate import ItemFrequencies, ItemPosterior
from discreet.models.als.published import PublishedDPALS
from discreet.models.als.settings import BIAS_SPREAD, GRAM, USER_BIAS, USER_VECTOR, USERS, Settings, settings
from discreet.models.als.training import Training
from discreet.models.base import require_ratings
from discreet.models.fold_in import FoldIn, RidgeFoldIn
from discreet.models.private import PrivateModel, require_sound
from discreet.models.ridge import Penalty
from discreet.models.storage import learned_by
from discreet.privacy import Plan, Releaser
from discreet.privacy.guarantee import AdjacencyName
from discreet.recommend.topn import Variance
from discreet.typing import Array
from discreet.validation import positive, probability, whole

if TYPE_CHECKING:
    from typing_extensions import Self

    from discreet.privacy.ledger import Ledger


LEAST_MU = 2.0**-20  # below it a contribution would be less than a unit of the noise's grid
MOST_CATEGORIES = 100  # of one column of the catalogue; rarer ones are left out


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


class DPALS(PrivateModel):
    """Private alternating least squares for ratings: user-level joint differential privacy.

    The model is y_ij = m + a_i + b_j + u_i . v_j. A user's a_i and u_i are found by their own ridge regression,

        sum over their items of (y_ij - m - b_j - a_i - u_i . v_j)^2 + 5.5 a_i^2 + 1.2 |u_i - p_i|^2

    (in a unit in which ratings spread by about 1; the prior mean p_i follows from which items they have). It costs
    nothing, because only the user sees the result. The first columns of v_j are the item's bias and popularity: users
    differ in how far they follow the common taste. Items are learned from noisy sums over users:

    - how many users there are, their mean rating, how far ratings spread (bound of one user's contribution: sqrt 2);
    - item popularity and weights: each user's items, with weights of length 1 together (bound 1);
    - item biases: weighted, centered ratings (bound .55);
    - where the budget allows, a second moment of users' weights, for directions of taste (bound 1), or of their
      residuals when the catalogue is small (bound .64);
    - in each step, the residuals of users' regressions times their vectors (scaled to length .3), and one Gram matrix
      of all users' vectors (bound 6). Each step is a Kalman update of what is known of an item. In the first step,
      random probe columns look for tastes that no other column explains.

    Bounds are L2 norms of a user's whole contribution: the sensitivity for add-remove. docs/proofs/dpals.md has the
    proof. How the budget is divided follows from epsilon, delta, the size of the catalogue and `n_users_hint` alone;
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
        n_steps: Item steps, which share one budget; by default 4 to 18, by epsilon, or 2 where a small catalogue's
            residuals are used.
        n_users_hint: About how many users there are, if that is public. It decides whether to release a second moment.
        features: Columns of the catalogue that describe items (numbers, or text: categories, several of them separated
            by "|"). They are public, and cost no privacy.
        adjacency: What neighboring data sets differ in: one user more or less ("add-remove"), or "replace".
        caution: How many standard deviations of an item's uncertainty are subtracted from its score for ranking: with
            1, the better known of two items with equal scores comes first.
        n_jobs: Threads, in scikit-learn's meaning. The releases are the same for any number.

    Attributes:
        n_users_: About how many users there were, by a release; at least 10.
    """

    _ARRAYS: ClassVar[tuple[str, ...]] = (*PrivateModel._ARRAYS, "item_variance_", "item_prior_", "item_weights_")
    _VALUES: ClassVar[tuple[str, ...]] = (*PrivateModel._VALUES, "unit_", "n_users_")
    _NOT_LEARNED: ClassVar[tuple[str, ...]] = (*PrivateModel._NOT_LEARNED, "caution")
    _in_spark: ClassVar[bool] = True

    item_variance_: Array
    item_prior_: Array
    item_weights_: Array
    unit_: float
    n_users_: float

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        n_steps: int | None = None,
        n_users_hint: int | None = None,
        features: Sequence[str] | None = None,
        adjacency: AdjacencyName = "add-remove",
        caution: float = 0.0,
        n_jobs: int | None = -1,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.n_steps = n_steps
        self.n_users_hint = n_users_hint
        self.features = features
        self.adjacency = adjacency
        self.caution = caution
        self.n_jobs = n_jobs

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
        """What a fit would release, and what each release costs; needs no data, only the size of the catalogue."""
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
        return {
            "item_factors_": items.factors * unit,
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
        catalogue of `ratings` are dropped. New ratings of the same users add knowledge; the same ratings again only
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
            training = Training.of(releaser, settings, ratings, self.unit_)
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
        mean = np.column_stack([self.item_bias_, self.item_factors_]) / self.unit_
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
        m, k = self.item_factors_.shape
        shapes = self.item_variance_.shape, self.item_prior_.shape, self.item_weights_.shape
        if shapes != ((m, k + 1), (m, k), (m, 2)) or (self.item_variance_ < 0).any() or (self.item_weights_ <= 0).any():
            raise DataError("item_variance_, item_prior_, item_weights_: their shapes or signs do not fit the factors")

    def _score_variance(self) -> Variance:
        return (self.caution, self.item_variance_) if self.caution else None

    def _make_fold_in(self) -> FoldIn:
        return RidgeFoldIn(
            columns=self.item_factors_,
            base=self.item_bias_ + self.global_mean_,
            penalty=Penalty(USER_VECTOR * self.unit_**2),
            offset_penalty=USER_BIAS,
            prior=self.item_prior_,
        )
