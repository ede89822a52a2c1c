"""The private side of DPALS: what a user contributes to each release, from their own ratings and public arrays.

And with which label, bound and share of the budget each release is planned: functions of public inputs alone.
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
RESIDUALS, PAIRS = "second moment of residuals", "second moment of weights"  # this one in place of another

USERS_BOUND = math.sqrt(5)
GRAM_CLIP = 40.0  # bound of a user's contribution to the shared Gram matrix, over that to an item step
GRAM_SHARE = 0.02  # of what an item step costs, for the shared Gram matrix
USER_VECTOR = 1.8  # weight of a user's vector, squared, about its prior mean
USER_CHOICES = 7.0  # zeros that are averaged with the priors of a user's items
# Of a budget: to find directions of taste, and to locate all items on them. Chosen by test errors on
# MovieLens 1M and 100K, anime and generated data: .12 to .18 and .1 to .15 differ by up to .25%.
MOMENT_SHARE, DIRECTIONS_SHARE = 0.12, 0.15
COMMON = 0.028  # about how large the directions are that are worth their cost, over the number of users
LIFT = 2.0  # the most that residuals in a second moment are lengthened by; without a limit it is as good
MOST_ITEMS = 400  # in a second moment: of histories; of residuals, if these are all items
RESIDUAL_SHARE = 0.25  # of mu^2, for a second moment of residuals


@dataclass(frozen=True)
class Scale:
    """Counts ratings from the middle of their range, in a unit."""

    value_range: tuple[float, float]
    unit: float

    @property
    def reach(self) -> float:
        """How many units the ends of the range are from its middle."""
        low, high = self.value_range
        return (high - low) / 2 / self.unit

    def __call__(self, batch: UserBatch) -> UserBatch:
        """Some users' ratings in the unit."""
        middle, unit, reach = self.numbers
        values = np.clip((batch.values.astype(np.float64) - middle) / unit, -reach, reach)
        return UserBatch(batch.indptr, batch.indices, values)

    @property
    def numbers(self) -> kernels.Scale:
        """The middle, the unit and the reach: rounding may take the ends of the range beyond it, but not the proof."""
        return sum(self.value_range) / 2, self.unit, self.reach


def own_moments(scale: Scale) -> RowFunction:
    """The moments of a user's n ratings y, as fractions of the largest possible values: nonnegative numbers.

    With x for their mean and d for their variance these are (1 + x) / sqrt 2, (1 - x) / sqrt 2, d, 1 - 1 / n and x^2.
    Behind them is a 1 at the place of the order of magnitude of d: place k is for d from 4^-(k + 1) to 4^-k. It says
    how far ratings spread where the declared range is so wide that noise would hide d. As d is at most 1 - x^2, the
    squares add up to at most 3 - x^2 + 2 x^4 and this 1, and so to at most 5.
    """
    return moments(scale.numbers, scale.reach)


def moments(scale: kernels.Scale, reach: float) -> RowFunction:
    """The same, for any scale, and for values of which `reach` is the largest possible."""
    given = {**scaled(scale), "most": float(reach), "magnitudes": MAGNITUDES}
    return RowFunction("moments", given, each=1, k=5 + MAGNITUDES, kind="whole")


def own_residuals(batch: UserBatch, a: Array, base: Array, mean: float, offset_penalty: float) -> Array:
    """A user's ratings about `base` and their own shrunken mean, times the weights of their items, and of length 1.

    So users count equally, unless their ratings hardly differ: nobody's are lengthened by more than LIFT. Of the items
    that weigh nothing only the mean knows.
    """
    about = UserBatch(batch.indptr, batch.indices, batch.values - base[batch.indices])
    x = weights(a, penalty=offset_penalty, mean=mean)(about)
    found: Array = x * np.minimum(1 / np.maximum(np.sqrt(batch.row_sums(x**2)), 1e-300), LIFT)[batch.owners]
    return found


def own_values(batch: UserBatch) -> Array:
    """What a user's values are."""
    return batch.values


@dataclass(frozen=True)
class ItemStep:
    """An item step: a user's regressions on the public items, and what these leave unexplained.

    The residual of a rating is that of the vector which was fitted to the other folds: with a vector that was fitted to
    the rating, its noise would be in both, and their product would not average out.

    Attributes:
        items: What is known of the items.
        frequencies: How often they occur.
        scale: Of ratings.
        mean: The mean rating.
        offset_penalty: Of a user's offset, squared.
        vector_penalty: Of a user's vector about its prior mean, squared.
        bias_weight: The weight of biases against factors.
        clip: The length of a user's contribution.
        shrink: A public factor of users' contributions to the shared Gram matrix.
        lift: The most that a contribution is lengthened by: a residual that is small counts for more only if most are.
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
        """The b for the shared Gram matrix; and for each rating x_j, and the directions a of each user.

        A user's x is scaled to the bound from above and, as far as `lift` allows, from below. If those whose ratings
        hardly differ counted as much as others, skewed ratings would give items their medians, not their means. The b
        of a fold is its vector, in which biases weigh at least 1, times the root of `shrink`, and of the fold's share
        of the x.
        """
        # A constant and the items' factors, and their priors. In single precision: noise is far larger.
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
    """What a user contributes to an item step, from regressions that leave out a fold.

    Entry p of a row is in fold p % FOLDS. The vector z of a fold is fitted to the others: it minimizes
    |t - X z|^2 + (z - c)^T diag(penalty) (z - c), where t is the value minus the item's base, and c the mean of the
    priors of the items in the other folds and of `prior_count` zeros. The residual t - x . z of an entry is that of its
    own fold's vector. All penalties are positive.

    With A = (bias_weight, z without its first number) for the vector z of a fold, w_j = a_j scaled to length 1 over the
    row, and e_j the residual: x_j = w_j e_j |A| for the fold of each entry, scaled to the length `clip`, but by no more
    than `lift` (clip = 0: not at all); vectors A / |A|; and as numbers A times `shrink` and the root of that scale
    times the sum of the fold's weights, its first one also times `offset`.

    Args:
        scale: Of values.
        items: The table of x, the priors, base, penalty (by number of z), and a.
        prior_count: How many zeros.
        bias_weight: The first number of A.
        clip: The length of x.
        lift: The most that x is lengthened by.
        shrink: Of numbers.
        offset: Of the first of them.
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
        shares: Label -> share of mu^2, or (share, count).
        n_steps: Item steps.
        exponent: Users weigh their items by popularity^-exponent.
        bias_clip: Bound of a user's contribution to the item biases.
        step_clip: The length of a user's contribution to an item step.
        n_directions: The most directions that are taken from the second moment.
        n_frequent: How many items are in it.
        residual: Whether it is that of residuals on all items, not of co-occurrences.
        signal: mu times the number of users, as far as it is public.
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
        """Label -> the L2 norm that a user's contribution to that release never exceeds."""
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
    """Whether directions of that size stand out from the second moment's noise, with that share of a budget of mu."""
    return math.sqrt(2 * n_frequent) / (mu * math.sqrt(share)) < size


def _share_of_users(signal: float) -> float:
    """The share of the users release, for a budget of mu and so many users that mu times their number is `signal`.

    All else is counted in the unit that follows from it. So where the budget is small it gets what it takes for an
    order of magnitude to stand out that a sixth of the users have: for 5,000 people 10% at epsilon .1, .6% from .6 on.
    """
    return min(max((6 * STANDS_OUT * USERS_BOUND / signal) ** 2, 0.006), 0.1)


def _share_of_residuals(signal: float) -> float:
    """The share of a look for tastes among frequent items, for a budget of mu and users of which mu times is `signal`.

    It is to show tastes so strong that item steps are to begin with them. For 5,000 people it is .03 at epsilon 1,
    where twice as much shows more of them, but costs others up to .1%, and .006 from epsilon 3 on.
    """
    return min(max((205 / signal) ** 2, 0.006), 0.03)


def _with_lists(shares: Mapping[str, float], signal: float, residual: bool) -> dict[str, float]:
    """Shares with that of lists, for a budget of mu and so many users that mu times their number is `signal`.

    With little signal, lists are little more than what is popular: that gets more, and directions less. From 1,500 on
    (6,000 people at epsilon 1) directions get 28%. It is a choice between ratings and lists: with .2, .33 and .5 on
    MovieLens 1M at epsilon 5, RMSE is .872, .877 and .883 and recall@20 .319, .332 and .342. Fitted there and on
    MovieLens 100K, anime, MovieTweetings and Jester, with the same outcome on each.
    """
    x = 0.28 * math.sqrt(min(signal / 1500, 1.0))
    popularity = shares[POPULARITY] * min(math.sqrt(max(6000 / signal, 1.0)), 5.0)
    kept = {label: share for label, share in shares.items() if residual or label != SECOND_MOMENT}
    return {label: (1 - x) * share for label, share in {**kept, POPULARITY: popularity}.items()} | choice_shares(x)


def _with_steps(shares: dict[str, float], n_steps: int) -> dict[str, float | tuple[float, int]]:
    """Shares, and what they leave for item steps."""
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
        n_steps: How many item steps, if not the rule's number.
        lists: Whether lists of items are learned, too.
    """
    n_users = n_users_hint or max(5_000, 1.6 * n_items)
    # 0 at epsilon = 1 and 1 at epsilon = 10, for delta = 1e-5.
    budget_level = min(max(math.log(mu / 0.27) / math.log(2.0 / 0.27), 0.0), 1.5)
    shares = {USERS: _share_of_users(mu * n_users), POPULARITY: 0.06, WEIGHTS: 0.06, BIAS: 0.08}
    residual, n_frequent = n_items <= MOST_ITEMS, min(n_items, MOST_ITEMS)
    # A second moment of residuals is always in the plan: when the number of users is known, its line may release
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
