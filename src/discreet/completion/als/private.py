"""DPALS: private alternating least squares, the flagship."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from discreet.completion.als import directions
from discreet.completion.als.features import item_features
from discreet.completion.als.items import Items, Seen, Weights
from discreet.completion.als.published import PublishedDPALS
from discreet.completion.als.settings import (
    BIAS,
    BIAS_SPREAD,
    COLUMN_SPREAD,
    GRAM,
    POPULARITY,
    SECOND_MOMENT,
    STEP,
    USER_BIAS,
    USER_VECTOR,
    USERS,
    WEIGHTS,
    Settings,
    settings,
)
from discreet.completion.private import DENSE_CELLS, Door, Part, PrivateModel, equal_weights, parts, require_sound
from discreet.completion.ridge import Penalty, Ridge
from discreet.data.catalogue import Catalogue
from discreet.data.frames import to_library
from discreet.data.interactions import Interactions
from discreet.errors import DataError, PrivacyError
from discreet.numbers import positive, probability, whole
from discreet.privacy import Plan
from discreet.privacy.guarantee import Adjacency

if TYPE_CHECKING:
    from typing_extensions import Self

    from discreet.privacy.ledger import Ledger

Array = NDArray[Any]

FOLDS = 4
LEAST_MU = 2.0**-20  # below it a contribution would be less than a cell of the noise's grid
GRAM_CLIP = 20.0  # times the length of a contribution to an item step
LIFT = 10.0  # the most that such a contribution is lengthened by


class DPALS(PrivateModel):
    """Private alternating least squares for ratings: user-level joint differential privacy.

    The model is y_ij = m + a_i + b_j + u_i . v_j. A user's a_i and u_i are found by her own ridge regression,

        sum over her items of (y_ij - m - b_j - a_i - u_i . v_j)^2 + 5.5 a_i^2 + 1.2 |u_i - p_i|^2

    (for ratings mapped to [-2, 2]; p_i is foretold by which items she has), which costs nothing, since only she sees
    the result. The first columns of v_j are the item's bias and popularity, so that users differ in how far they follow
    the common taste. Items are learned from noisy sums over users:

    - how many users there are and their mean rating (bound of one user's contribution: sqrt 2);
    - item popularity and weights: each user's items, weighted so that they have length 1 together (bound 1);
    - item biases: weighted, centred ratings, shortened to length .55 as a whole;
    - where the budget allows, a second moment of users' weights, for directions of taste (bound 1), or of their
      residuals when the catalogue is small (bound .64);
    - in each step, the residuals of users' regressions times their vectors (scaled to length .3), and one Gram matrix
      of all users' vectors (bound 6). Steps accumulate: each is a Kalman update of what is known of an item. In the
      first, some random columns look for tastes that nothing has foretold.

    Bounds are L2 norms of a user's whole contribution: the sensitivity for add-remove. docs/proofs/dpals.md has the
    proof. How the budget is divided follows from epsilon, delta, the size of the catalogue and `n_users_hint` alone;
    `preview` prints it.

    Args:
        epsilon: The privacy budget.
        delta: The delta of the budget, a constant well below 1 / the number of users.
        n_steps: Item steps; by default 8, or 2 where a small catalogue's residuals are used. They share one budget.
        n_users_hint: About how many users there are, if that may be known. It decides whether a second moment pays.
        features: Columns of the catalogue that say something about items (numbers, or text: categories, several of
            them separated by "|"). They are public, and cost no privacy.
        adjacency: What neighbouring data sets differ in: one user more or less ("add-remove"), or "replace".
        caution: How many standard deviations of what is not known of an item are taken from its score when items are
            ranked: with 1, of two items that look as good, the one that is better known comes first.
        n_jobs: Threads, in scikit-learn's meaning. The releases are the same for any number.
    """

    _ARRAYS: ClassVar[tuple[str, ...]] = (*PrivateModel._ARRAYS, "item_variance_", "item_prior_", "item_weights_")
    _VALUES: ClassVar[tuple[str, ...]] = (*PrivateModel._VALUES, "unit_")

    item_variance_: Array
    item_prior_: Array
    item_weights_: Array
    unit_: float

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        n_steps: int | None = None,
        n_users_hint: int | None = None,
        features: Sequence[str] | None = None,
        adjacency: Adjacency = "add-remove",
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
            raise PrivacyError(
                "epsilon: with so little of it, or so many steps, the noise would drown any number of people"
            )
        return plan

    def _check_data(self, ratings: Interactions) -> None:
        if ratings.implicit:
            raise DataError("ratings: DPALS learns from ratings; for implicit feedback use discreet.DPSVD")
        assert ratings.value_range is not None
        low, high = ratings.value_range
        if not 1e-30 < high - low < 1e30:
            raise DataError(f"value_range: from {low:g} to {high:g} is too narrow or too wide to compute with; rescale")
        item_features(ratings.catalogue, self.features or ())  # raises if there is no such column

    def _public_inputs(self) -> dict[str, str]:
        hint = {} if self.n_users_hint is None else {"n_users_hint": f"about {self.n_users_hint:,} users"}
        return hint | ({"features": ", ".join(self.features)} if self.features else {})

    def _learn_privately(self, door: Door, ratings: Interactions) -> dict[str, Any]:
        training = _Training.of(door, self._settings(ratings.n_items), ratings)
        mean, weights, items = training.begin(item_features(ratings.catalogue, self.features or ()))
        return self._learned(training, mean, weights, items)

    def _learned(self, training: _Training, mean: float, weights: Weights, items: Items) -> dict[str, Any]:
        """The model after all item steps, in the unit of the ratings."""
        items = training.steps(mean, weights, items)
        (low, high), unit = training.value_range, training.unit
        return {
            "item_factors_": items.factors * unit,
            "item_bias_": items.bias * unit,
            "item_variance_": items.variance * unit**2,
            "item_prior_": items.priors(weights),
            "item_weights_": np.column_stack([weights.a, weights.variance]),
            "popularity_": weights.sums / weights.a,
            "value_range_": (low, high),
            "implicit_": False,
            "global_mean_": float((low + high) / 2 + unit * mean),
            "unit_": float(unit),
        }

    # Going on

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
        self, ratings: Any, ledger: Ledger | None = None, *, epsilon: float | None = None, n_steps: int | None = None
    ) -> Self:
        """Go on learning from where the model is: more item steps, on the same ratings or on new ones.

        What the model knows is public, and so is where it starts: a model of last month is prior knowledge for this
        month's ratings, and costs nothing once more. Items are found by their ids; new ones start from nothing, and
        what is not in the catalogue of `ratings` is forgotten. Other ratings of the same people count as new
        knowledge; the very same ratings again cannot make up for what they do not say, only for noise.

        Args:
            ratings: Ratings with the same range of values, or anything that `discreet.read` takes.
            ledger: Where the cost is recorded; by default a ledger of its own. Give the one that `fit` had, if there
                was one: a budget holds only if all that is spent on it goes through one ledger.
            epsilon: What this costs, at the model's delta; by default as much as `fit` did. `plan_more` says on what.
            n_steps: How many steps; by default 8.

        Returns:
            The model itself; its guarantee is now that of all fits together, for someone who is in all of them. If
            anything fails, the model is what it was before.
        """
        after, more = self.statement(), self._more(epsilon, n_steps)
        ratings = more._readied(ratings)
        require_sound(ratings)
        self._check_data(ratings)
        if ratings.value_range != tuple(self.value_range_):
            low, high = self.value_range_
            raise DataError(f"ratings: this model knows values from {low:g} to {high:g}; rescale the ratings to that")
        plan = self.plan_more(ratings.n_items, epsilon=epsilon, n_steps=n_steps)

        def learn(door: Door, ratings: Interactions) -> dict[str, Any]:
            training = _Training.of(door, more._settings(ratings.n_items).continued(), ratings)
            return self._learned(training, *training.go_on(self._known(ratings.catalogue)))

        paying = more._own_ledger() if ledger is None else ledger
        learned, statement = more._under(plan, paying, ratings, learn, after)
        self._set(learned, ratings.catalogue, statement)
        return self

    def _known(self, catalogue: Catalogue) -> tuple[float, Weights, Items]:
        """What the model knows of these items, in the unit of the training."""
        at = self.items_.numbers(catalogue.ids.to_arrow())
        a, variance = self.item_weights_.T
        low, high = self.value_range_
        weights = Weights.known(a, self.popularity_ * a, variance)
        mean = np.column_stack([self.item_bias_, self.item_factors_]) / self.unit_
        items = Items.known(mean, self.item_variance_ / self.unit_**2)
        middle = (self.global_mean_ - (low + high) / 2) / self.unit_
        return middle, weights.of_items(at), items.of_items(at, weights)

    # What is known of the items

    def item_knowledge(self, library: str | None = None) -> Any:
        """How well the model knows each item: a data frame, the least known items first.

        `uncertainty` is the standard deviation of what is not known of an item's average rating, in the unit of the
        ratings. `known` is false where more than half of what was unknown of a typical item before training still is:
        about these items the model says little more than that they are average. All of it is computed from releases,
        and may be shown to anyone.

        Args:
            library: "pandas", "polars" or "pyarrow"; by default whichever there is.
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

    def _doubt(self) -> tuple[float, Array] | None:
        return (self.caution, self.item_variance_) if self.caution else None

    def _ridge(self) -> Ridge:
        return Ridge(
            self.item_factors_,
            self.item_bias_ + self.global_mean_,
            Penalty(USER_VECTOR * self.unit_**2),
            offset_penalty=USER_BIAS,
            prior=self.item_prior_,
        )


@dataclass
class _Training:
    """One fit. Methods with a `part` are the private side: one user's own data and what is public."""

    door: Door
    settings: Settings
    ratings: Interactions
    value_range: tuple[float, float]
    unit: float

    @classmethod
    def of(cls, door: Door, settings: Settings, ratings: Interactions) -> _Training:
        """The ratings are mapped to [-2, 2]: one such unit is a quarter of their range."""
        assert ratings.value_range is not None
        low, high = ratings.value_range
        return cls(door, settings, ratings, (low, high), (high - low) / 4)

    def _parts(self, most_users: int | None = None) -> Iterator[Part]:
        middle = sum(self.value_range) / 2
        for part in parts(self.ratings, self.ratings.values, most_users=most_users):
            # Rounding may take the mapped ends of the range beyond -2 and 2; the proof needs that nothing is.
            mapped = np.clip((part.values.astype(np.float64) - middle) / self.unit, -2, 2)
            yield Part(part.indptr, part.indices, mapped)

    def begin(self, features: Array) -> tuple[float, Weights, Items]:
        """All releases before the item steps: the mean rating, how often items occur, and what is known of them."""
        mean, weights = self._start()
        items = Items.from_bias(self._bias(mean, weights), weights).with_slopes(weights)
        items = items.with_features(features, weights)
        if self.settings.looks_for_directions:
            items = self._with_directions(items, weights, mean)
        return mean, weights, items

    def go_on(self, known: tuple[float, Weights, Items]) -> tuple[float, Weights, Items]:
        """The same for a model that exists: how often items occur now."""
        mean, before, items = known
        n_users, _ = self._users()
        return mean, before.again(self._weights(before.a), n_users), items

    def steps(self, mean: float, weights: Weights, items: Items) -> Items:
        """All item steps."""
        s, m, known = self.settings, self.ratings.n_items, items.mean.shape[1]
        bounds = (s.step_clip, GRAM_CLIP * s.step_clip)
        items = items.with_explorers()
        for at in range(s.n_steps):
            local, shape = _Local(items, weights, mean, s), (m, items.mean.shape[1])
            step, gram = self.door.item_step((STEP, GRAM), self._parts(), local.step, shape, bounds=bounds)
            seen = Seen.of(step, gram, weights, s.bias_weight, s.step_clip)
            if at == 0:
                items, seen = items.explored(known, seen)
            items = items.updated(seen)
        return items

    def _users(self) -> tuple[float, float]:
        """Roughly how many users there are, and their mean rating."""
        users = self.door.rows(USERS, self._parts(), _own_mean, 2, bound=math.sqrt(2), aligned=True)
        n_users = max(float(users.values[0]), 10.0)
        return n_users, float(np.clip(2 * users.values[1] / n_users, -2, 2))

    def _weights(self, a: Array) -> Any:
        def entries(part: Part) -> Array:
            return own_weights(part, a)

        return self.door.vector(WEIGHTS, self._parts(), entries, self.ratings.n_items, bound=1.0, aligned=True)

    def _start(self) -> tuple[float, Weights]:
        """The mean rating, and how often items occur."""
        n_users, mean = self._users()
        m, s = self.ratings.n_items, self.settings
        popularity = self.door.vector(POPULARITY, self._parts(), equal_weights, m, bound=1.0, aligned=True)
        a = np.maximum(popularity.values, 0.7 + popularity.std) ** -s.exponent
        return mean, Weights.of(a, popularity, self._weights(a), n_users)

    def _bias(self, mean: float, weights: Weights) -> Any:
        def entries(part: Part) -> Array:
            own = (part.row_sums(part.values) + USER_BIAS * mean) / (part.counts + USER_BIAS)
            return own_weights(part, weights.a) * (part.values - own[part.owners])

        clip = self.settings.bias_clip
        return self.door.vector(BIAS, self._parts(), entries, self.ratings.n_items, bound=clip, aligned=False)

    def _with_directions(self, items: Items, weights: Weights, mean: float) -> Items:
        s = self.settings
        frequent = np.sort(np.argsort(-weights.sums, kind="stable")[: s.n_frequent])
        place = np.full(self.ratings.n_items, -1)
        place[frequent] = np.arange(len(frequent))
        local = _Local(items, weights, mean, s)

        def rows(part: Part) -> Array:
            entries = local.weighted_residuals(part) if s.residual else own_weights(part, weights.a)
            dense = np.zeros((len(part.indptr) - 1, len(frequent)))
            at = place[part.indices]
            dense[part.owners[at >= 0], at[at >= 0]] = entries[at >= 0]
            return dense

        bound = 0.64 if s.residual else 1.0
        blocks = self._parts(max(1, DENSE_CELLS // len(frequent)))  # dense rows of so many users at a time
        release = self.door.second_moment(SECOND_MOMENT, blocks, rows, len(frequent), bound=bound, hollow=True)
        look, spread = (directions.of_residuals, 0.05) if s.residual else (directions.of_co_occurrences, COLUMN_SPREAD)
        return items.with_columns(look(release, frequent, weights, s.n_directions), spread**2)


def _own_mean(part: Part) -> Array:
    """One, and half the user's mean rating, which is between -1 and 1."""
    means = part.row_sums(part.values) / np.maximum(part.counts, 1)
    return np.column_stack([np.ones(len(means)), means / 2])


def own_weights(part: Part, a: Array) -> Array:
    """A user's weights of her items, a_j scaled to length 1."""
    chosen = a[part.indices]
    lengths = np.sqrt(part.row_sums(chosen**2))
    return chosen / lengths[part.owners]


@dataclass(frozen=True)
class _Local:
    """The local side of an item step: a user folds herself in, and says what the public model leaves unexplained.

    Her ratings are divided into `FOLDS` by their place in her row. What is said about a rating uses the vector that was
    fitted to the other folds: else the rating's own noise would be in both, and their product would not average out.
    """

    items: Items
    weights: Weights
    mean: float
    settings: Settings

    def _solve(self, part: Part) -> tuple[Array, Array, Array]:
        """Vectors (bias_weight, u) of (users, folds), residuals of all ratings, and the fold of each."""
        base, prior = self.items.bias + self.mean, self.items.priors(self.weights)
        ridge = Ridge(self.items.factors, base, Penalty(USER_VECTOR), offset_penalty=USER_BIAS, prior=prior)
        u, residuals = ridge.solve_left_out(part.indptr, part.indices, part.values, FOLDS)
        bias_weight = np.full((*u.shape[:2], 1), self.settings.bias_weight)
        fold = (np.arange(len(part.indices)) - part.indptr[part.owners]) % FOLDS
        return np.concatenate([bias_weight, u], axis=2), residuals, fold

    def weighted_residuals(self, part: Part) -> Array:
        """w_j e_j |A| for each rating."""
        return self._weighted(part)[0]

    def _weighted(self, part: Part) -> tuple[Array, Array, Array, Array]:
        vectors, residuals, fold = self._solve(part)
        which, weights = part.owners * FOLDS + fold, own_weights(part, self.weights.a)
        lengths = np.sqrt((vectors**2).sum(axis=2))
        return weights * residuals * lengths.ravel()[which], vectors, which, weights

    def step(self, part: Part) -> tuple[Array, Array, Array, Array]:
        """For each rating x_j; directions a of length 1; which of them is whose; and b, for the shared Gram matrix.

        Her x is lengthened to the bound as it is shortened to it: what a user says counts as much if values hardly
        differ, or if most of them are explained. The b of a fold is her vector (bias_weight, u) times the root of what
        the fold weighs in the item step.
        """
        entries, vectors, which, weights = self._weighted(part)
        lengths = np.sqrt((vectors**2).sum(axis=2))
        size = np.sqrt(part.row_sums(entries**2))
        scale = np.minimum(LIFT, self.settings.step_clip / np.maximum(size, 1e-12))
        entries *= scale[part.owners]
        shares = np.bincount(which, weights, minlength=lengths.size).reshape(lengths.shape) * scale[:, None]
        directions_ = (vectors / lengths[:, :, None]).reshape(-1, vectors.shape[2])
        rows = (vectors * np.sqrt(shares)[:, :, None]).reshape(len(vectors), -1)
        return entries, directions_, which, rows
