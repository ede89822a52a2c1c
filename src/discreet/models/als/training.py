"""The releases of a DPALS fit, in order."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.engine import Blocks
from discreet.engine.batches import dense_users, equal_weights, on_items, shared_users, standing, user_batches, weights
from discreet.kernels import RowFunction
from discreet.models.als.contributions import (
    BIAS,
    COMMON,
    EXTENSION,
    GRAM,
    MOMENT_SHARE,
    PAIRS,
    POPULARITY,
    RESIDUALS,
    SECOND_MOMENT,
    STEP,
    USER_VECTOR,
    USERS,
    WEIGHTS,
    ItemStep,
    Scale,
    Settings,
    directions_stand_out,
    own_moments,
    own_residuals,
)
from discreet.models.als.estimate import (
    COLUMN,
    COLUMN_SPREAD,
    PROBE_SPREAD,
    ByItem,
    ItemEstimate,
    ItemPosterior,
    SharedVectors,
)
from discreet.models.als.knowledge import FLUCTUATION, Knowledge, KnownPairs, StepInformation, standing_of
from discreet.models.als.lists import learn_lists, popularity_of, unbiased_popularity
from discreet.models.als.moments import (
    MAGNITUDES,
    Directions,
    ItemFrequencies,
    MostFrequent,
    Pooled,
    Tastes,
    UserStatistics,
    weights_by,
)
from discreet.models.choices import Choices
from discreet.models.eigen import places
from discreet.models.grading import Grading
from discreet.privacy import GramSum, OuterSum, Releaser, VectorSum
from discreet.privacy.releaser import Noisy, mean_of, noise_edge
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array

if TYPE_CHECKING:
    from discreet.engine.batches import Ratings


MOST_OTHERS = 16  # columns from probes: once there are this many, no further ones are looked for
MOST_KEPT = 1000  # items of a second moment that is kept for continuations
# The least size of a direction of choices that becomes a column for ratings: mu times the sum over users of squared
# coordinates along it. About this much stands out of a second moment of 400 items with an eighth of the budget; weaker
# directions cost item steps more than they explain. Fitted on MovieLens 1M.
COLUMN_SIGNAL = 80.0
# Share of a rating's variance: if another release of users' moments reduces the loss that is due to their uncertainty
# by more than this, half a percent of the error, it is worth more than item steps.
TOLERANCE = 0.01
LEAST_TASTE = 1 / 8  # share of ratings' variance along the strongest direction of taste that can usually be expected
# The same among frequent items: weaker tastes are not worth the lines of item steps that they would take. On MovieLens,
# anime and generated stars such shares are up to .2, where taking these lines would cost up to .3% of the error.
STRONG_TASTES = 1 / 4
LOOKS = 5  # one in this many item steps is given up for such tastes
PARTS = 3  # into which each item step is divided once the first has found strong tastes that no column explains


@dataclass
class Training:
    """One fit, or its continuation."""

    releaser: Releaser
    settings: Settings
    ratings: Ratings
    scale: Scale
    popularity: Noisy = field(init=False)
    weights: Noisy = field(init=False)
    offset_penalty: float = math.nan
    noise: float = 1.0  # upper estimate of the variance of ratings about their predictions, in the unit
    known: Knowledge | None = None
    biases: list[Noisy] = field(default_factory=list)
    kept: dict[str, Array] = field(default_factory=dict)
    lists: dict[str, Array] = field(default_factory=dict)
    inflation: float = 1.0
    n_steps: Fraction = Fraction(0)  # item steps: fewer than planned if other releases take the lines of some
    has_residuals: bool = False  # whether the second moment of residuals has a line in the plan
    tastes: Tastes | None = None  # its tastes, if it covers all items; then there are no item steps
    has_strong: bool = False  # whether it shows strong tastes among frequent items, with which item steps then begin
    first_other: int = 0  # the first column that is neither a slope, a feature nor a direction

    @classmethod
    def of(cls, releaser: Releaser, settings: Settings, ratings: Ratings) -> Training:
        """A fit whose unit is half the range of ratings, until a better one is known."""
        assert ratings.value_range is not None
        low, high = ratings.value_range
        found = cls(releaser, settings, ratings, Scale((low, high), (high - low) / 2))
        found.n_steps = Fraction(settings.n_steps)
        found.has_residuals = found.own_line in settings.shares
        return found

    @property
    def own_line(self) -> str:
        """The plan's line for the second moment of residuals."""
        return SECOND_MOMENT if self.settings.residual else RESIDUALS

    def begin(self, features: Array) -> tuple[float, ItemFrequencies, ItemPosterior]:
        """Make all releases before item steps. Returns the mean rating, frequencies, and the posterior of the items."""
        mean, frequencies = self._start()
        n_features, known = features.shape[1], self.known
        columns, between = np.zeros((self.ratings.n_items, 0)), np.zeros((known.n_directions if known else 0, 0))
        self._keep_no_directions(frequencies)
        spared = self._spared(frequencies)
        bias = self._bias(frequencies, mean, *spared)
        choices = self._choices(mean, frequencies, ItemPosterior.from_bias(bias, frequencies, features), features)
        if self.settings.looks_for_directions and not self.settings.residual and EXTENSION not in spared:
            columns, between = self._directions(mean, frequencies, choices)
            if not columns.size and choices is None:
                bias = self._bias(frequencies, mean, EXTENSION)
            elif columns.size and self.has_residuals:
                bias = self._bias(frequencies, mean, RESIDUALS)
                self.has_residuals = False
            features = np.column_stack([features, columns])
        items = ItemPosterior.from_bias(bias, frequencies, features).with_slopes(frequencies)
        items = items.with_features(features[:, :n_features], frequencies)
        items = items.with_columns(columns * COLUMN**-0.5, COLUMN_SPREAD**2)
        n = items.mean.shape[1]
        if self.has_residuals and self.settings.residual:
            self.tastes = self._tastes(items, frequencies, mean)
        elif self.has_residuals:
            tastes = self._tastes_of(self._most_frequent(frequencies, RESIDUALS), items, frequencies, mean)
            self.has_strong = tastes.n_clear > 0 and tastes.noise < 1 - STRONG_TASTES
        if known is not None:
            known = known if self.tastes is None else known.without_others()
            items = items.with_columns(known.others, known.others_variance)
            steps = known.steps.changed(known.columns(between, n_features), self.inflation, self._rescaled)
            self.known = replace(known, steps=steps)
        self.first_other = n
        return mean, frequencies, items

    # -- users, and how often items occur

    def _start(self) -> tuple[float, ItemFrequencies]:
        """The mean rating, and how often items occur. From here on, ratings spread by about 1 unit."""
        s = self.settings
        statistic = VectorSum(5 + MAGNITUDES, s.bounds[USERS], nonnegative=True)
        moments = own_moments(self.scale)
        release = self.releaser.release(USERS, statistic, self._rows, moments)
        counts = VectorSum(self.ratings.n_items, s.bounds[POPULARITY], nonnegative=True)
        self.popularity = popularity = self.releaser.release(POPULARITY, counts, self._rows, equal_weights)
        users = self._surer(release, (statistic, moments))
        self.scale = replace(self.scale, unit=self.scale.unit * users.within)
        self.offset_penalty, mean = users.offset_penalty, users.mean / users.within
        if self.known is not None:
            known = self.known.frequencies.weighed(0.0).updated(popularity, users.n_users).weighed(s.exponent)
            return mean, known.updated(self._weights(known.a), users.n_users)
        a = weights_by(popularity.values, popularity.std, s.exponent)
        frequencies = ItemFrequencies.of(a, popularity, self._weights(a), users.n_users)
        return mean, frequencies

    def _surer(self, release: Noisy, work: tuple[VectorSum, RowFunction]) -> UserStatistics:
        """Statistics of users. With too few users, lines that were planned for items release their moments again."""
        users = self._known_users(release)
        lines = [(GRAM, STEP)] * int(PARTS * self.n_steps) + [(self.own_line,)] * self.has_residuals
        for labels in () if self.settings.lists else lines:  # lists gain more from popularity
            parts = PARTS if STEP in labels else 1
            variance = parts * self.releaser.noise(labels[-1], work[0]).std ** 2
            gain = users.n_variance / (users.n_variance + variance)
            if gain * users.loss(self.popularity) < TOLERANCE:
                break
            again = self.releaser.release_repeatedly(labels, work[0], self._rows, work[1], what=USERS, parts=parts)
            release = mean_of([release, *again])
            users = self._known_users(release)
            self.n_steps -= Fraction(STEP in labels, PARTS)
            self.has_residuals &= STEP in labels
        return users

    def _known_users(self, release: Noisy) -> UserStatistics:
        """Statistics of users, from a release of their moments and earlier knowledge."""
        if self.known is not None:
            release, self.kept["known_users_"] = self.known.with_users(release)
        found = UserStatistics.of(release)
        if self.known is None:
            self.kept["known_users_"] = np.append(release.values, release.std) / found.n_users
        return found

    def _weights(self, a: Array) -> Noisy:
        statistic = VectorSum(self.ratings.n_items, self.settings.bounds[WEIGHTS], nonnegative=True)
        self.weights = self.releaser.release(WEIGHTS, statistic, self._rows, weights(a))
        return self.weights

    # -- item biases

    def _bias(self, frequencies: ItemFrequencies, mean: float, *spared: str) -> Noisy | Pooled:
        """The mean of all releases of item biases. The `spared` lines pay for further ones."""
        statistic = VectorSum(self.ratings.n_items, self.settings.bounds[BIAS])
        contribution = weights(frequencies.a, scale=self.scale.numbers, penalty=self.offset_penalty, mean=mean)
        if not self.biases:
            self.biases.append(self.releaser.release(BIAS, statistic, self._rows, contribution))
        if spared:
            self.biases += self.releaser.release_repeatedly(spared, statistic, self._rows, contribution, what=BIAS)
        bias: Noisy | Pooled
        bias = release = mean_of(self.biases)
        if self.known is not None:
            self.inflation = self.known.inflation(release, frequencies, self._rescaled)
            bias = self.known.with_bias(release, frequencies, self.inflation, self._rescaled)
        c = frequencies.sums
        precision = np.broadcast_to(np.square(c / bias.std), c.shape)
        self.kept["known_bias_"] = np.column_stack([bias.values / c, precision])
        return bias

    # -- lists

    def _choices(
        self, mean: float, frequencies: ItemFrequencies, items: ItemPosterior, features: Array
    ) -> Choices | None:
        """What users choose together, and rate highly: for lists."""
        m = self.ratings.n_items
        self.lists = {"list_factors_": np.zeros((m, 0), np.float32), "list_weights_": np.zeros(m)}
        if not self.settings.lists:
            return None
        known = popularity_of(frequencies, self.popularity)
        counts = known if self.known else unbiased_popularity(frequencies, self.popularity, self.weights)
        # Without directions there is nothing to extend.
        lines = [(EXTENSION,)] * (EXTENSION in self.settings.shares) + [(GRAM, STEP)] * int(self.n_steps)
        lines += [(self.own_line,)] * self.has_residuals
        choices, n = learn_lists(
            self.releaser,
            partial(self._graded, mean),
            (known, counts),
            items,
            frequencies,
            features=features,
            pool=self._known_moment(frequencies),
            lines=lines,
        )
        self.n_steps -= lines[:n].count((GRAM, STEP))
        self.has_residuals &= (self.own_line,) not in lines[:n]
        self.lists = {"list_factors_": choices.item_factors, "list_weights_": choices.chosen.weights}
        some = np.sort(np.argsort(-frequencies.sums[choices.items], kind="stable")[:MOST_KEPT])
        moment = choices.moment.values[np.ix_(some, some)]
        self._keep_pairs(moment, choices.items[some], choices.moment.std, frequencies)
        self._keep_standing(np.zeros((len(some), 0)), np.zeros((m, 1)))
        return choices

    def _known_moment(self, frequencies: ItemFrequencies) -> KnownPairs | None:
        if self.known is None or not len(self.known.chosen.items):
            return None
        return self.known.chosen.pool(frequencies, self.inflation)

    # -- directions of taste, from what is liked together

    def _spared(self, frequencies: ItemFrequencies) -> tuple[str, ...]:
        """The lines of directions, or of tastes, if there are too few users for these to stand out."""
        s, mu = self.settings, self.releaser.reservation.plan.cost.mu or 0.0
        spared = self.has_residuals and not self._may_show_tastes(frequencies)
        self.has_residuals &= not spared
        lines = (self.own_line,) * spared
        if s.residual or self.known is not None or s.lists or not s.looks_for_directions:
            return lines
        found = directions_stand_out(mu, s.n_frequent, MOMENT_SHARE, COMMON * frequencies.n_users)
        return lines if found else (*lines, SECOND_MOMENT, EXTENSION)

    def _directions(self, mean: float, frequencies: ItemFrequencies, choices: Choices | None) -> tuple[Array, Array]:
        """All items' loadings on directions of taste, from what is liked together; and `Knowledge.between`."""
        s = self.settings
        if choices is not None:
            chosen, frequent = choices.chosen.weights, choices.chosen.items
            least = COLUMN_SIGNAL / (self.releaser.reservation.plan.cost.mu or 1.0) / frequencies.n_users
            found = Directions.along(choices.spectrum, frequent, len(chosen), s.n_directions, least)
        else:
            frequent = np.argsort(-frequencies.sums, kind="stable")[: s.n_frequent]
            chosen = np.zeros(self.ratings.n_items)
            chosen[frequent] = frequencies.a[frequent]
            moment, frequent = self._second_moment(frequencies, weights(chosen, **self._grades(mean)))
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
        contribution = standing(found.loadings, chosen, frequencies.a, by_length=True, **self._grades(mean))
        release: Noisy | Pooled = self.releaser.release(EXTENSION, statistic, self._rows, contribution)
        if self.known is not None and isinstance(release, Noisy):
            release = self.known.with_standing(release, frequencies, between, self.inflation)
        self._keep_standing(loadings, standing_of(release, frequencies))
        return found.columns(release, frequencies), between

    def _second_moment(self, frequencies: ItemFrequencies, entries: RowFunction) -> tuple[Noisy, Array]:
        """The second moment of users' entries on the most frequent items, and the numbers of these."""
        frequent = np.sort(np.argsort(-frequencies.sums, kind="stable")[: self.settings.n_frequent])
        place = places(frequent, self.ratings.n_items)
        statistic = GramSum(len(frequent), self.settings.bounds[SECOND_MOMENT], zero_diagonal=True)
        return self.releaser.release(SECOND_MOMENT, statistic, self._rows, replace(entries, place=place)), frequent

    # -- tastes, from residuals

    def _may_show_tastes(self, frequencies: ItemFrequencies) -> bool:
        """Whether a direction with LEAST_TASTE of the residuals would stand out of their second moment."""
        if not self.settings.residual:
            return self._most_frequent(frequencies, RESIDUALS).n > 0 and not (self.known and self.known.others.size)
        std = self.releaser.noise(SECOND_MOMENT, self._residuals).std
        pool = self._known_residuals(frequencies)
        edge = float(noise_edge(std if pool is None else pool.std(std), self.ratings.n_items))
        return edge / 2 < LEAST_TASTE * float((frequencies.sums**2).sum()) / frequencies.n_users

    @property
    def _residuals(self) -> GramSum:
        return GramSum(self.ratings.n_items, self.settings.bounds[SECOND_MOMENT])

    def _known_residuals(self, frequencies: ItemFrequencies) -> KnownPairs | None:
        if self.known is None or not len(self.known.residuals.items):
            return None
        return self.known.residuals.pool(frequencies, self.inflation)

    def _tastes(self, items: ItemPosterior, frequencies: ItemFrequencies, mean: float) -> Tastes | None:
        """The tastes that the second moment of residuals shows, if any; then it takes the lines of item steps, too.

        An item step says more about directions along which few ratings vary, but it has to know them first.
        """
        users, pool = self._users(dense_users(self.ratings.n_items)), self._known_residuals(frequencies)
        contribution = partial(
            own_residuals, a=frequencies.a, base=items.bias, mean=mean, offset_penalty=self.offset_penalty
        )
        given = self._residuals, users, contribution
        release = self.releaser.release(SECOND_MOMENT, *given)

        def shown(pairs: Noisy | None = None) -> Tastes:
            moment = release if pool is None else pool(release, np.arange(self.ratings.n_items))
            self._keep_residuals(moment.values, moment.std, frequencies)
            return Tastes.of(moment, frequencies, items.factors, pairs)

        if not (tastes := shown()).n_clear:
            return None
        if self.n_steps:
            release = mean_of([release, *self._again(STEP, SECOND_MOMENT, *given)])
            tastes = shown(mean_of(self._again(GRAM, PAIRS, self._residuals, self._rows, weights(frequencies.a))))
        self.n_steps, self.noise = Fraction(0), tastes.noise
        return tastes

    def _most_frequent(self, frequencies: ItemFrequencies, label: str, n: int = 1) -> MostFrequent:
        """As many of the most frequent items as possible if n releases under this label must show a direction."""
        std = self.releaser.noise(label, GramSum(1, self.settings.bounds[RESIDUALS])).std / math.sqrt(n)
        popularity = np.maximum(popularity_of(frequencies, self.popularity).values, 0)
        return MostFrequent.of(frequencies, popularity, std, LEAST_TASTE, self.settings.n_frequent)

    def _tastes_of(
        self, seen: MostFrequent, items: ItemPosterior, frequencies: ItemFrequencies, mean: float, n: int = 0
    ) -> Tastes:
        """Tastes from a second moment of residuals on some items, released alone or under lines of n item steps."""
        place = places(seen.items, self.ratings.n_items)
        a = np.where(place >= 0, frequencies.a, 0.0)
        residuals = partial(own_residuals, a=a, base=items.bias, mean=mean, offset_penalty=self.offset_penalty)
        users = self._users(dense_users(seen.n)).map(partial(on_items, residuals, place))
        statistic = GramSum(seen.n, self.settings.bounds[RESIDUALS])
        factors, own = items.factors[seen.items], replace(weights(a), place=place)
        given = statistic, users, attrgetter("values")
        if not n:
            return Tastes.of(self.releaser.release(RESIDUALS, *given), seen.frequencies, factors)
        moment = mean_of(list(self.releaser.release_repeatedly([STEP] * n, *given, what=RESIDUALS)))
        pairs = mean_of(list(self.releaser.release_repeatedly([GRAM] * n, statistic, self._rows, own, what=PAIRS)))
        return Tastes.of(moment, seen.frequencies, factors, pairs)

    def _columns(self, tastes: Tastes, seen: MostFrequent) -> tuple[Array, Array]:
        """Columns of tastes that stand out among some items, and their variance.

        For other items, only the prior variance is known yet.
        """
        m, k = self.ratings.n_items, min(tastes.n_clear, MOST_OTHERS)
        found, known = tastes.columns[:, :k], tastes.variance[:, :k]
        columns, variance = np.zeros((m, k)), np.zeros((m, k))
        if k:
            variance[:] = np.average(found**2 + known, axis=0, weights=seen.frequencies.sums)
        columns[seen.items], variance[seen.items] = found, known
        # The penalty of users' vectors corresponds to a variance of 1 / USER_VECTOR.
        return math.sqrt(USER_VECTOR) * columns, USER_VECTOR * variance

    def _again(self, label: str, what: str, *given: Any) -> list[Noisy]:
        """Release a statistic under the lines of item steps, or the parts of them that are left."""
        whole, rest = divmod(self.n_steps, 1)
        found: list[Noisy] = []
        for n, parts in ((whole, 1), (rest * PARTS, PARTS)):
            found += self.releaser.release_repeatedly([label] * int(n), *given, what=what, parts=parts) if n else []
        return found

    # -- item steps

    def steps(self, mean: float, frequencies: ItemFrequencies, items: ItemPosterior) -> ItemPosterior:
        """Make all item steps."""
        s, m, known = self.settings, self.ratings.n_items, items.mean.shape[1]
        estimate = ItemEstimate.nothing(items)
        if self.known is not None:
            steps = self.known.steps
            estimate = ItemEstimate.of(items, steps.precision, steps.information, steps.own)
        n_others, own, sure = known - self.first_other, (np.zeros(m), np.zeros((known, known))), 1.0
        probes = self.n_steps and n_others <= MOST_OTHERS
        items = estimate.items.with_probes(n_others) if probes else estimate.items
        limit = FLUCTUATION if self.known else 2.0  # false columns would cost every continuation
        # Columns in doubt are kept until all steps show more: that costs little. Strong tastes have better ones.
        least = limit if self.known or self.has_strong else limit / 2
        users, found = self._rows, SharedVectors.nothing(known, s.bounds[GRAM], s.step_clip)
        mu = math.sqrt(self.n_steps) * (self.releaser.reservation.plan[STEP].cost.mu or 0.0)
        noise, left, parts, spread = self.noise, self.n_steps, self.n_steps.denominator, 0.0
        while left:
            k, weight = items.mean.shape[1], items.bias_weight(frequencies, found.squares, mu, self.releaser.n_jobs)
            step = replace(self._step(items, frequencies, mean, weight), shrink=found.shrink)
            statistics = [(GRAM, GramSum(k, s.bounds[GRAM])), (STEP, OuterSum((m, k), s.bounds[STEP]))]
            gram, sums = self.releaser.release_together(statistics, users, step.contribution, parts=parts)
            first, observed = not found.n_steps, found.observed(gram, sums, weight, frequencies)
            self.noise = min(noise * found.unexplained, 1.0)
            if first and k > known:
                spread, sure = items.probed(known, observed, (least, 2 * limit))
                observed = observed if spread else observed.first(known)
                estimate = estimate.widened(items.mean[:, known:], spread) if spread else estimate
            estimate = estimate.updated(observed, self.releaser.n_jobs)
            items, found.squares, own = estimate.items, observed.vectors, observed.own
            left -= Fraction(1, parts)
            if first and self.has_strong and not spread and left > 1:
                n = max(round(left / LOOKS), 1)
                if (seen := self._most_frequent(frequencies, STEP, n)).n:
                    columns = self._columns(self._tastes_of(seen, items, frequencies, mean, n), seen)
                    estimate, found, left = estimate.widened(*columns), found.first_numbers(known), left - n
                    items, sure, spread = estimate.items, 1.0, math.inf
            # If tastes are strong, later parts correct what the first ones had to assume. Otherwise parts are not worth
            # the time, and only the rest of a step is in parts, if releases of moments took some of it.
            parts = PARTS if spread > PROBE_SPREAD**2 else left.denominator
        return self._settled(estimate, own, len(own[1]) if sure else known, limit)

    def _step(self, items: ItemPosterior, frequencies: ItemFrequencies, mean: float, bias_weight: float) -> ItemStep:
        penalties = self.offset_penalty * self.noise, USER_VECTOR * self.noise
        clip, lift = self.settings.step_clip, 1 / math.sqrt(self.noise)
        return ItemStep(items.means, frequencies, self.scale, mean, *penalties, bias_weight, clip, lift=lift)

    def _settled(self, estimate: ItemEstimate, own: ByItem, known: int, limit: float) -> ItemPosterior:
        """The posterior after the last step, without columns after the known ones that show only noise."""
        seen = StepInformation(estimate.precision, estimate.information, own)
        if len(own[1]) > known and not seen.proves(known, limit, self.releaser.n_jobs):
            seen = seen.first(known)
            estimate = ItemEstimate.of(estimate.before.first(known), seen.precision, seen.information, seen.own)
        self._keep_steps(estimate.before, seen)
        return estimate.items

    # -- users' rows

    @property
    def _rows(self) -> Blocks[Any]:
        """Users' rows, for compiled functions; the values are as they were given."""
        return shared_users(self.ratings)

    def _users(self, most_users: int | None = None) -> Blocks[UserBatch]:
        """Users' items, and their ratings in the unit."""
        return user_batches(self.ratings, most_users, n_jobs=self.releaser.n_jobs).map(self.scale)

    def _grading(self, mean: float) -> Grading:
        """How much users like each of their items, by their ratings in the unit."""
        return Grading(mean, self.offset_penalty, 1.0)

    def _graded(self, mean: float, most_users: int | None = None) -> Blocks[UserBatch]:
        """Users' items, and how much they like each."""
        return self._users(most_users).map(self._grading(mean).apply)

    def _grades(self, mean: float) -> dict[str, Any]:
        """The same, as arguments of compiled functions."""
        return {"rated": self._grading(mean).numbers, "scale": self.scale.numbers}

    # -- what is kept for a continuation

    @property
    def _rescaled(self) -> float:
        """The unit of earlier knowledge, relative to the unit now."""
        return self.known.unit / self.scale.unit if self.known else 1.0

    def _keep_no_directions(self, frequencies: ItemFrequencies) -> None:
        """Keep empty directions, until there are some."""
        self._keep_residuals(np.zeros((0, 0)), 0.0, frequencies)
        self._keep_pairs(np.zeros((0, 0)), np.zeros(0, np.int64), 0.0, frequencies)
        self._keep_standing(np.zeros((0, 0)), np.zeros((self.ratings.n_items, 1)))

    def _keep_residuals(self, moment: Array, std: float, frequencies: ItemFrequencies) -> None:
        size = float(frequencies.sums.sum() ** 2 / frequencies.n_users)
        self.kept |= {"known_residuals_": moment.astype(np.float32), "known_residuals_scale_": np.array([std, size])}

    def _keep_pairs(self, pairs: Array, frequent: Array, std: float, frequencies: ItemFrequencies) -> None:
        size = float(frequencies.sums[frequent].sum() ** 2 / frequencies.n_users)
        self.kept |= {"known_pairs_": pairs.astype(np.float32), "known_frequent_": frequent}
        self.kept["known_pairs_scale_"] = np.array([std, size])

    def _keep_standing(self, loadings: Array, standing: Array) -> None:
        self.kept |= {"known_loadings_": loadings, "known_standing_": standing}

    def _keep_steps(self, before: ItemPosterior, seen: StepInformation) -> None:
        information = np.concatenate([seen.precision, seen.information[:, :, None]], axis=2)
        self.kept |= {
            "known_steps_": information.astype(np.float32),
            "known_own_size_": seen.own[0],
            "known_own_": seen.own[1],
            "known_others_": np.column_stack([each[:, self.first_other :] for each in (before.mean, before.variance)]),
        }
