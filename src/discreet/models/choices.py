"""The releases from which a model of taste is learned, about what users choose together, and users' contributions.

A model provides users' histories, with a nonnegative weight for each item, and popularities that it has released. It
may make other releases, too: its plan has these two lines, with the shares that it gives them. A user's sums are added
up in the order of their items, so that their row does not depend, to the last bit, on other rows. Proof:
docs/proofs/dpsvd.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Protocol

import numpy as np

from discreet.engine import Blocks
from discreet.engine.batches import DENSE_CELLS, FOLDS, dense_users, equal_weights, on_items, standing, weights
from discreet.models.eigen import frequent_items, places
from discreet.models.liked import Liked
from discreet.models.taste import (
    COVERED,
    LIST,
    SHORT_COVERED,
    SHORT_HISTORY,
    Chosen,
    Directions,
    Spectrum,
    after_power_step,
    by_features,
    surely_popular,
)
from discreet.privacy import GramSum, Noisy, OuterSum, Releaser, VectorSum
from discreet.privacy.releaser import mean_of
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array

POPULARITY = "item popularity"  # the label of the earlier release of popularity
SECOND_MOMENT, POWER_STEP = "second moment of histories", "power step of histories"
LABELS = (SECOND_MOMENT, POWER_STEP)
STEP_SHARE = 0.4  # the power step's share of the budget of both releases
LEAST_POPULARITY = 1.2  # the least popularity in the power step, in units of the norm of a row's noise
MOST_CELLS = 1 << 25  # the most numbers in a power step


# -- users' contributions


@dataclass(frozen=True)
class Residuals:
    """Users' weighted histories without the common taste: rows of length at most 1.

    The values of a batch are users' own weights of their items, at least 0: 1 for all, or more for items that they like
    more.
    """

    place: Array  # the position of each item among the chosen ones; -1: not chosen
    weights: Array  # a factor of each item's weights; 0 where `place` is -1
    common: Array  # the common taste, over the chosen items

    @classmethod
    def of(cls, chosen: Chosen) -> Residuals:
        """The residuals for the chosen items."""
        return cls(places(chosen.items, len(chosen.weights)), chosen.weights, chosen.common[chosen.items])

    def __call__(self, part: UserBatch) -> Array:
        """The rows of some users."""
        owners, at = part.owners, self.place[part.indices]
        own = weights(self.weights, rated=True)(part)
        counted = at >= 0
        along = part.row_sums(np.where(counted, own * self.common[at], 0))
        left = np.sqrt(np.maximum(1 - along**2, 0.25))
        rows: Array = (-along / left)[:, None] * self.common
        rows[owners[counted], at[counted]] += (own / left[owners])[counted]
        return rows


own_weights = weights(rated=True)  # users' weights of their items, scaled to length 1


# -- the releases, and estimates from them


@dataclass(frozen=True)
class Choices:
    """What the releases about histories say about taste."""

    popularity: Noisy  # of all items
    chosen: Chosen
    spectrum: Spectrum
    moment: Noisy  # the second moment that the spectrum comes from
    items: Array  # the numbers of its items
    features: Array  # public, of all items
    liked: Liked | None = None  # the posterior of popularity, if counts and ratings are known separately

    @property
    def item_factors(self) -> Array:
        """One vector for each item: the common taste, and sqrt(f_k) q_k.

        The latter is known for the chosen items; for others it is predicted from their features, or 0.
        """
        chosen, vectors = self.chosen, self.spectrum.vectors * np.sqrt(self.spectrum.shrinkage)
        factors = np.zeros((len(chosen.weights), 1 + vectors.shape[1]), np.float32)
        factors[:, 0] = chosen.common
        if self.features.shape[1]:
            factors[:, 1:] = by_features(self.features, chosen.common, chosen.items, vectors)
        factors[chosen.items, 1:] = vectors
        return factors


class Pool(Protocol):
    """Combines a second moment with earlier releases of it."""

    def std(self, std: float) -> float:
        """The noise after pooling a new release with this standard deviation."""
        ...

    def __call__(self, release: Noisy, items: Array) -> Noisy:
        """The result of pooling a new release, of items with these numbers."""
        ...


def choice_shares(share: float) -> dict[str, float]:
    """The two lines of a plan for `learn_choices`, given their total share of mu^2."""
    return {SECOND_MOMENT: (1 - STEP_SHARE) * share, POWER_STEP: STEP_SHARE * share}


def learn_choices(
    releaser: Releaser,
    users: Callable[[int | None], Blocks[UserBatch]],
    popularity: Noisy,
    most_items: int,
    *,
    labels: Sequence[str] = (SECOND_MOMENT,),
    features: Array | None = None,
    pool: Pool | None = None,
    liked: Liked | None = None,
) -> Choices:
    """Choose items by their popularity, and release how they are chosen together.

    If too few items are clear of the noise, tastes are unlikely to be found, and unless popularity is sure already, all
    labels release it again, so that lists are as good as by popularity alone. With two labels, the second is for
    popularity again if that is not known well enough yet; for the second moment again if its items J have a large share
    of all choices, since the mean of both is as good as one release with the whole budget; otherwise for a power step
    from the directions found, which reaches items that the noise hides from the second moment, with the noise of k
    numbers for each of them.

    Args:
        releaser: Its plan must have the labels.
        users: Returns all users, in batches of at most the given number; values are users' weights of items, at least
            0.
        popularity: Of each item, released (`POPULARITY`): a sum over users of vectors of length at most 1.
        most_items: The most items in the second moment.
        labels: The labels of the releases: one, or two if there may be a power step.
        features: Public numbers that describe all items, (items, any number), to help with items that few users have.
        pool: Pools the second moment with earlier ones.
        liked: The posterior of popularity, if counts and ratings are known separately.
    """
    described = np.zeros((len(popularity.values), 0)) if features is None else features
    precisions = [releaser.noise(label, GramSum(1, 1.0)).std ** -2 for label in labels]
    std = sum(precisions) ** -0.5
    chosen = Chosen.by(popularity, std if pool is None else pool.std(std), most_items)
    if pool is None and not (chosen.tells(popularity, most_items) or surely_popular(popularity, 2 * LIST)):
        popularity, liked = _again(releaser, users, popularity, labels, liked)
        chosen = Chosen.of(popularity, frequent_items(popularity, math.inf)).expecting(popularity, described)
        nothing = Noisy(np.zeros((0, 0)), std)
        return Choices(popularity, chosen, Spectrum.nothing(chosen), nothing, np.zeros(0, np.int64), described, liked)
    n = len(chosen.items)
    statistic = GramSum(n, 1.0, few=chosen.sparse)
    if chosen.sparse:
        # Rows stay sparse: the common taste is removed from the sum. In long histories it would be most of a row.
        some = _on(chosen, users(DENSE_CELLS // n))
        own = weights(chosen.weights[chosen.items], rated=True)
        releases = releaser.release_repeatedly(labels, statistic, some, own.__call__)
    else:
        releases = releaser.release_repeatedly(labels, statistic, users(dense_users(n)), Residuals.of(chosen))
    moments = [next(releases)]
    if len(labels) > 1:
        moment = moments[0] if pool is None else pool(moments[0], chosen.items)
        if pool is None and not surely_popular(popularity, 2 * LIST):
            popularity, liked = _again(releaser, users, popularity, labels[1:], liked)
            chosen = Chosen.of(popularity, chosen.items)
            expected, spectrum = chosen.expecting(popularity, described), Spectrum.of(moment, chosen)
            return Choices(popularity, expected, spectrum, moment, chosen.items, described, liked)
        length = (chosen.total / max(float(np.trace(moment.values)), 1.0)) ** 2
        if chosen.covered < (SHORT_COVERED if length < SHORT_HISTORY else COVERED):
            directions = Directions.of(moment, chosen)
            if directions.vectors.shape[1]:
                wide, step = _power_step(releaser, users, popularity, (chosen, directions), labels[1])
                spectrum = after_power_step(step, directions, chosen, wide, described)
                expected = wide.expecting(popularity, described)
                return Choices(popularity, expected, spectrum, moment, chosen.items, described, liked)
        moments += releases
    moment = mean_of([Noisy(one.values, a**-0.5) for a, one in zip(precisions, moments, strict=True)])
    moment = moment if pool is None else pool(moment, chosen.items)
    expected = chosen.expecting(popularity, described)
    return Choices(popularity, expected, Spectrum.of(moment, chosen), moment, chosen.items, described, liked)


def with_popularity(
    choices: Choices,
    releaser: Releaser,
    users: Callable[[int | None], Blocks[UserBatch]],
    lines: Sequence[Sequence[str]],
) -> tuple[Choices, int]:
    """If no tastes were found, use further lines of the plan to release popularity, until lists are good enough.

    That is, as good as those by counts with the whole budget. Knowing how much items are liked, which counts do not
    show, makes up for part of the budget. Returns the choices, and the number of groups of lines that were used.

    Args:
        choices: The result of `learn_choices`.
        releaser: Its plan must have the labels.
        users: As for `learn_choices`.
        lines: Groups of labels, in order of use.
    """
    liked, n = choices.liked, 0
    if choices.spectrum.vectors.shape[1] or liked is None:
        return choices, n
    plan, statistic = releaser.reservation.plan, VectorSum(len(liked.offset), 1.0, nonnegative=True)
    of_all = releaser.noise(POPULARITY, statistic).std * (plan[POPULARITY].cost.mu or 0.0) / (plan.cost.mu or 1.0)
    while n < len(lines) and liked.trails(of_all):
        liked = _more(releaser, users, liked, lines[n])
        n += 1
    popularity = liked.popularity if n else choices.popularity
    chosen = Chosen.of(popularity, choices.chosen.items).expecting(popularity, choices.features)
    return replace(choices, popularity=popularity, chosen=chosen, liked=liked), n


def _again(
    releaser: Releaser,
    users: Callable[[int | None], Blocks[UserBatch]],
    known: Noisy,
    labels: Sequence[str],
    liked: Liked | None,
) -> tuple[Noisy, Liked | None]:
    """Release popularity again under these labels. Returns the mean of all releases, weighted by precision."""
    if liked is not None:
        liked = _more(releaser, users, liked, labels)
        return liked.popularity, liked
    statistic = VectorSum(len(known.values), 1.0, nonnegative=True)
    found = releaser.release_repeatedly(labels, statistic, users(None), own_weights, what=POPULARITY)
    return mean_of([known, *found]), None


def _more(
    releaser: Releaser, users: Callable[[int | None], Blocks[UserBatch]], liked: Liked, labels: Sequence[str]
) -> Liked:
    """Release popularity again under these labels, graded or not, whichever is more informative."""
    statistic = VectorSum(len(liked.offset), 1.0, nonnegative=True)
    std = sum(releaser.noise(label, statistic).std ** -2 for label in labels) ** -0.5
    graded = liked.gains_from_grades(std)
    weights = own_weights if graded else equal_weights
    found = list(releaser.release_repeatedly(labels, statistic, users(None), weights, what=POPULARITY))
    return liked.with_graded(found) if graded else liked.with_counts(found)


def _power_step(
    releaser: Releaser,
    users: Callable[[int | None], Blocks[UserBatch]],
    popularity: Noisy,
    found: tuple[Chosen, Directions],
    label: str,
) -> tuple[Chosen, Noisy]:
    """The items of a power step, and its release."""
    chosen, directions = found
    k = directions.vectors.shape[1]
    std = releaser.noise(label, OuterSum((1, k), 1.0)).std
    wide = chosen.wider(popularity, LEAST_POPULARITY * std * k**0.5, MOST_CELLS // k)
    loadings = np.zeros((len(wide.items), k))
    loadings[np.searchsorted(wide.items, chosen.items)] = directions.vectors
    # A user's direction is that of their history on the fewer items J, projected on the loadings.
    narrow, own = chosen.weights[wide.items], wide.weights[wide.items]
    contribution = standing(loadings, narrow, own, rated=True)
    some = _on(wide, users(max(DENSE_CELLS // (FOLDS * k), 1)))
    return wide, releaser.release(label, OuterSum(loadings.shape, 1.0), some, contribution)


def _on(chosen: Chosen, users: Blocks[UserBatch]) -> Blocks[UserBatch]:
    """Histories restricted to the chosen items, which are renumbered."""
    return users.map(partial(on_items, attrgetter("values"), places(chosen.items, len(chosen.weights))))
