"""The private side of DPALS: users' contributions to each release, from their own ratings and public arrays.

The labels, bounds and shares of the budget with which releases are planned are here, too: functions of public inputs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from discreet import kernels
from discreet.engine.batches import FOLDS, scaled, weights
from discreet.kernels import RowFunction, Table
from discreet.models.als.estimate import ItemPosterior
from discreet.models.als.moments import MAGNITUDES, STANDS_OUT, ItemFrequencies
from discreet.models.choices import LABELS as LISTS
from discreet.models.choices import choice_shares
from discreet.privacy import Plan
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array

USERS, POPULARITY, WEIGHTS, BIAS = "users and their means", "item popularity", "item weights", "item biases"
SECOND_MOMENT, EXTENSION, STEP, GRAM = "second moment", "directions", "item step", "shared Gram"
RESIDUALS, PAIRS = "second moment of residuals", "second moment of weights"  # PAIRS: under a line for another

USERS_BOUND = math.sqrt(5)
GRAM_CLIP = 40.0  # bound of a user's contribution to the shared Gram matrix, relative to that to an item step
GRAM_SHARE = 0.02  # share of an item step's cost for the shared Gram matrix
USER_VECTOR = 1.8  # penalty on the squared distance of a user's vector from its prior mean
USER_CHOICES = 7.0  # zeros that are averaged with the priors of a user's items
# Shares of a budget for finding directions of taste, and for all items' loadings on them. Chosen by test errors on
# MovieLens 1M and 100K, anime and generated data: .12 to .18 and .1 to .15 differ by up to .25%.
MOMENT_SHARE, DIRECTIONS_SHARE = 0.12, 0.15
COMMON = 0.028  # approximate size of directions that are worth their cost, relative to the number of users
LIFT = 2.0  # the largest factor that scales up residuals in a second moment; without a limit, results are as good
MOST_ITEMS = 400  # in a second moment of histories; or in one of residuals, if there are no more items
RESIDUAL_SHARE = 0.25  # share of mu^2 for a second moment of residuals
# The same for a look at frequent items: mu times the number of users at which the root of this share is 1. Fitted on
# generated play counts, MovieLens, anime and MovieTweetings.
RESIDUAL_SIGNAL = 205.0


@dataclass(frozen=True)
class Scale:
    """Rescales ratings: relative to the middle of their range, in a unit."""

    value_range: tuple[float, float]
    unit: float

    @property
    def reach(self) -> float:
        """The distance of the ends of the range from its middle, in units."""
        low, high = self.value_range
        return (high - low) / 2 / self.unit

    def __call__(self, batch: UserBatch) -> UserBatch:
        """Some users' ratings in the unit."""
        middle, unit, reach = self.numbers
        values = np.clip((batch.values.astype(np.float64) - middle) / unit, -reach, reach)
        return UserBatch(batch.indptr, batch.indices, values)

    @property
    def numbers(self) -> kernels.Scale:
        """The middle, the unit and the reach, to which values are clipped: rounding might exceed it."""
        return sum(self.value_range) / 2, self.unit, self.reach


def own_moments(scale: Scale) -> RowFunction:
    """The moments of a user's n ratings y, as fractions of the largest possible values: nonnegative numbers.

    With mean x and variance d, these are (1 + x) / sqrt 2, (1 - x) / sqrt 2, d, 1 - 1 / n and x^2. Then there is a 1 at
    the place of the order of magnitude of d: place k is for d from 4^-(k + 1) to 4^-k. It shows how far ratings spread
    if the declared range is so wide that noise would hide d. As d is at most 1 - x^2, the squares add up to at most
    3 - x^2 + 2 x^4 and this 1, and so to at most 5.
    """
    return moments(scale.numbers, scale.reach)


def moments(scale: kernels.Scale, reach: float) -> RowFunction:
    """The moments for any scale, where `reach` is the largest possible value."""
    given = {**scaled(scale), "most": float(reach), "magnitudes": MAGNITUDES}
    return RowFunction("moments", given, each=1, k=5 + MAGNITUDES, kind="whole")


def own_residuals(batch: UserBatch, a: Array, base: Array, mean: float, offset_penalty: float) -> Array:
    """A user's ratings relative to `base` and their own shrunken mean, times item weights, scaled to length 1.

    So users count equally, unless their ratings hardly differ: the scaling factor is at most LIFT. Items with weight 0
    only enter the user's mean.
    """
    about = UserBatch(batch.indptr, batch.indices, batch.values - base[batch.indices])
    x = weights(a, penalty=offset_penalty, mean=mean)(about)
    found: Array = x * np.minimum(1 / np.maximum(np.sqrt(batch.row_sums(x**2)), 1e-300), LIFT)[batch.owners]
    return found


@dataclass(frozen=True)
class ItemStep:
    """An item step: users' regressions on the public items, and the residuals of these.

    The residual of a rating comes from a vector that was fitted to the other folds. If the vector had been fitted to
    the rating itself, both would contain its noise, and their product would not average out.

    Attributes:
        items: The posterior of the items.
        frequencies: How often they occur.
        scale: The scale of ratings.
        mean: The mean rating.
        offset_penalty: The penalty on a user's squared offset.
        vector_penalty: The penalty on the squared distance of a user's vector from its prior mean.
        bias_weight: The weight of biases relative to factors.
        clip: The norm of a user's contribution.
        shrink: A public factor of users' contributions to the shared Gram matrix.
        lift: The largest factor that scales a contribution up: a small residual counts for more only if most are small.
    """

    items: ItemPosterior
    frequencies: ItemFrequencies
    scale: Scale
    mean: float
    offset_penalty: float
    vector_penalty: float
    bias_weight: float
    clip: float
    shrink: float = 1.0
    lift: float = 1.0

    @cached_property
    def contribution(self) -> RowFunction:
        """Computes b for the shared Gram matrix, and for the item step x_j of each rating and each user's directions a.

        A user's x is scaled down to the bound, or up to it as far as `lift` allows. If users whose ratings hardly
        differ counted as much as others, skewed ratings would give items their medians, not their means. The b of a
        fold is its vector, in which biases weigh at least 1, times the root of `shrink` and of the fold's share of
        the x.
        """
        # A constant and the items' factors, and their priors. In single precision: noise far exceeds rounding.
        m, k = self.items.mean.shape
        table, prior = (Table.empty(m, k, np.float32) for _ in range(2))
        table.values[:, 0] = 1
        table.values[:, 1:], prior.values[:, 1:] = self.items.factors, self.items.priors(self.frequencies)
        penalty = np.full(k, self.vector_penalty, np.float32)
        penalty[0] = self.offset_penalty
        base = (self.items.bias + self.mean).astype(np.float32)
        return item_step(
            self.scale.numbers,
            (table, prior, base, penalty, self.frequencies.a),
            prior_count=USER_CHOICES,
            bias_weight=self.bias_weight,
            clip=self.clip,
            lift=self.lift,
            shrink=math.sqrt(self.shrink),
            offset=max(1 / self.bias_weight, 1.0),
        )


def item_step(
    scale: kernels.Scale,
    items: tuple[Table, Table, Array, Array, Array],
    *,
    prior_count: float,
    bias_weight: float,
    clip: float,
    lift: float,
    shrink: float = 1.0,
    offset: float = 1.0,
) -> RowFunction:
    """Users' contributions to an item step, from regressions that leave out a fold.

    Entry p of a row is in fold p % FOLDS. The vector z of a fold is fitted to the other folds: it minimizes
    |t - X z|^2 + (z - c)^T diag(penalty) (z - c), where t is the value minus the item's base, and c the mean of the
    priors of the other folds' items and of `prior_count` zeros. The residual of an entry is t - x . z, with the vector
    of its own fold. All penalties are positive.

    For the vector z of a fold, let A = (bias_weight, z without its first number). With w_j = a_j scaled to length 1
    over the row, and the residual e_j, x_j = w_j e_j |A| for the fold of each entry; x is scaled to the norm `clip`, by
    a factor of at most `lift` (not at all if clip = 0). The vectors are A / |A|. The numbers are A times `shrink`,
    times the root of this factor and of the sum of the fold's weights; the first one also times `offset`.

    Args:
        scale: The scale of values.
        items: The table of x, the priors, base, penalty (by coordinate of z), and a.
        prior_count: The number of zeros.
        bias_weight: The first number of A.
        clip: The norm of x.
        lift: The largest factor that scales x up.
        shrink: A factor of the numbers.
        offset: A further factor of the first number.
    """
    table, prior, base, penalty, a = items
    kind, ld, number = table.padded.dtype, table.padded.shape[1], table.padded.itemsize
    base, penalty = (np.ascontiguousarray(numbers, kind) for numbers in (base, penalty))
    fields: dict[str, Any] = {**scaled(scale), "table": table, "base": base, "prior": prior}
    fields |= {
        "penalty": penalty,
        "a": np.ascontiguousarray(a, np.float64),
        "prior_count": float(prior_count),
        "bias_weight": float(bias_weight),
    }
    fields |= {"clip": float(clip), "lift": float(lift), "shrink": float(shrink), "offset": float(offset)}
    fields |= {"k": table.k, "ld": ld, "folds": FOLDS}
    size = min(len(each) for each in (table.padded, prior.padded, base, a))
    memory = number * ((FOLDS + 2) * (ld + 2) * ld + (kernels.GATHERED + FOLDS) * ld), number
    return RowFunction("item_step", fields, size, kind, FOLDS, table.k, "squares", memory)


# -- how a budget is divided, by public inputs alone


@dataclass(frozen=True)
class Settings:
    """How DPALS spends a budget.

    Attributes:
        shares: Shares of mu^2, or (share, count), by label.
        n_steps: The number of item steps.
        exponent: Users weigh their items by popularity^-exponent.
        bias_clip: The bound on a user's contribution to the item biases.
        step_clip: The norm of a user's contribution to an item step.
        n_directions: The most directions that are taken from the second moment.
        n_frequent: The number of items in it.
        residual: Whether it is that of residuals on all items, instead of co-occurrences.
        signal: mu times the number of users, as far as that is public.
    """

    shares: dict[str, float | tuple[float, int]]
    n_steps: int
    exponent: float = 0.4
    bias_clip: float = 1.0
    step_clip: float = 0.3
    n_directions: int = 10
    n_frequent: int = MOST_ITEMS
    residual: bool = False
    signal: float = 0.0

    @property
    def bounds(self) -> dict[str, float]:
        """The bound on the L2 norm of a user's contribution to each release, by label."""
        return {
            USERS: USERS_BOUND,
            POPULARITY: 1.0,
            WEIGHTS: 1.0,
            BIAS: self.bias_clip,
            SECOND_MOMENT: 1.0,
            **dict.fromkeys(LISTS, 1.0),
            **dict.fromkeys((EXTENSION, RESIDUALS), 1.0),
            STEP: self.step_clip,
            GRAM: GRAM_CLIP * self.step_clip,
        }

    @property
    def lists(self) -> bool:
        """Whether there are releases for lists, of what is chosen together."""
        return LISTS[0] in self.shares

    @property
    def looks_for_directions(self) -> bool:
        """Whether columns of ratings come from a second moment."""
        return SECOND_MOMENT in self.shares or EXTENSION in self.shares

    def plan(self, mu: float) -> Plan:
        """The releases, with their costs."""
        return Plan.gaussian(mu, self.shares)

    def continued(self, together: Settings, missing: float) -> Settings:
        """The settings for continuing a model.

        A second moment is pooled with earlier ones, so it is released if it pays for the budget of all fits together.

        Args:
            together: The settings for the budget of all fits.
            missing: The budget that earlier fits did not spend on a second moment, and the first one makes up for.
        """
        shares = {USERS: _share_of_users(self.signal), POPULARITY: 0.06, WEIGHTS: 0.06, BIAS: 0.08}
        if self.residual:
            shares |= {SECOND_MOMENT: RESIDUAL_SHARE}
        elif together.looks_for_directions:
            shares |= {SECOND_MOMENT: min(MOMENT_SHARE * missing, 2 * MOMENT_SHARE), EXTENSION: DIRECTIONS_SHARE}
        if RESIDUALS in self.shares:
            shares |= {RESIDUALS: _share_of_residuals(self.signal)}
        if self.lists:
            shares = _with_lists(shares, self.signal, self.residual)
        return replace(self, shares=_with_steps(shares, self.n_steps))


def directions_stand_out(mu: float, n_frequent: int, share: float, size: float) -> bool:
    """Whether directions of this size stand out of a second moment's noise, for this share of a budget of mu."""
    return math.sqrt(2 * n_frequent) / (mu * math.sqrt(share)) < size


def _share_of_users(signal: float) -> float:
    """The share of the users release, for a budget with mu times the number of users equal to `signal`.

    The unit of all other numbers follows from this release. If the budget is small, the share makes an order of
    magnitude that a sixth of users have stand out: for 5,000 people 10% at epsilon .1, and .6% from epsilon .6 on.
    """
    return min(max((6 * STANDS_OUT * USERS_BOUND / signal) ** 2, 0.006), 0.1)


def _share_of_residuals(signal: float) -> float:
    """The share of the test for tastes among frequent items, for a budget with mu times the number of users = `signal`.

    It must show tastes that are strong enough for item steps to begin with them. For 5,000 people it is .03 at epsilon
    1, where twice as much would show more of them but cost other data up to .1%, and .006 from epsilon 3 on.
    """
    return min(max((RESIDUAL_SIGNAL / signal) ** 2, 0.006), 0.03)


def _with_lists(shares: Mapping[str, float], signal: float, residual: bool) -> dict[str, float]:
    """Shares with that of lists, for a budget with mu times the number of users equal to `signal`.

    With little signal, lists are little more than what is popular, so popularity gets more, and directions less. From a
    signal of 1,500 on (6,000 people at epsilon 1) directions get 28%. This trades ratings for lists: with .2, .33, .5
    on MovieLens 1M at epsilon 5, RMSE is .872, .877 and .883 and recall@20 .319, .332 and .342. Fitted there and on
    MovieLens 100K, anime, MovieTweetings and Jester, with the same outcome on each.
    """
    x = 0.28 * math.sqrt(min(signal / 1500, 1.0))
    popularity = shares[POPULARITY] * min(math.sqrt(max(6000 / signal, 1.0)), 5.0)
    kept = {label: share for label, share in shares.items() if residual or label != SECOND_MOMENT}
    return {label: (1 - x) * share for label, share in {**kept, POPULARITY: popularity}.items()} | choice_shares(x)


def _with_steps(shares: dict[str, float], n_steps: int) -> dict[str, float | tuple[float, int]]:
    """Shares, with the rest for item steps."""
    rest = 1 - math.fsum(shares.values())
    return {**shares, GRAM: (GRAM_SHARE * rest, n_steps), STEP: (rest - GRAM_SHARE * rest, n_steps)}


def settings(
    mu: float, n_items: int, n_users_hint: int | None = None, n_steps: int | None = None, *, lists: bool = False
) -> Settings:
    """The settings for a budget, from public inputs only.

    Args:
        mu: The Gaussian-DP parameter of the whole budget.
        n_items: The size of the catalog.
        n_users_hint: About how many users there are, if that is public; by default 1.6 for each item, at least 5,000.
        n_steps: The number of item steps; by default, a rule decides.
        lists: Whether lists of items are learned, too.
    """
    n_users = n_users_hint or max(5_000, 1.6 * n_items)
    # 0 at epsilon = 1 and 1 at epsilon = 10, for delta = 1e-5.
    budget_level = min(max(math.log(mu / 0.27) / math.log(2.0 / 0.27), 0.0), 1.5)
    shares = {USERS: _share_of_users(mu * n_users), POPULARITY: 0.06, WEIGHTS: 0.06, BIAS: 0.08}
    residual, n_frequent = n_items <= MOST_ITEMS, min(n_items, MOST_ITEMS)
    # A second moment of residuals is always in the plan. Once the number of users is known, its line may release
    # something else.
    if residual:
        shares |= {SECOND_MOMENT: RESIDUAL_SHARE}
    elif directions_stand_out(mu, n_frequent, MOMENT_SHARE, COMMON * n_users):
        shares |= {SECOND_MOMENT: MOMENT_SHARE, EXTENSION: DIRECTIONS_SHARE}
    if not residual:
        shares |= {RESIDUALS: _share_of_residuals(mu * n_users)}
    if lists:
        shares = _with_lists(shares, mu * n_users, residual)
    steps = n_steps or 5 + round(7 * budget_level)
    shared = _with_steps(shares, steps)
    return Settings(shared, steps, n_frequent=n_frequent, residual=residual, signal=mu * n_users)
