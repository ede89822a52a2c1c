"""Lists, learned with ratings: what users choose together and rate highly, from all releases of popularity."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from discreet.engine import Blocks
from discreet.models.als.estimate import ItemPosterior
from discreet.models.als.moments import CHANGE, ItemFrequencies
from discreet.models.choices import LABELS, Choices, Pool, learn_choices, with_popularity
from discreet.models.grading import SLOPE
from discreet.models.liked import Liked
from discreet.privacy.releaser import Noisy, Releaser
from discreet.privacy.statistics import UserBatch
from discreet.typing import Array

MOST_CHOSEN = 4000  # items in the second moment for lists: memory grows with the square, time with the cube


def learn_lists(
    releaser: Releaser,
    users: Callable[[int | None], Blocks[UserBatch]],
    popularity: tuple[Noisy, Noisy],
    items: ItemPosterior,
    frequencies: ItemFrequencies,
    *,
    features: Array,
    pool: Pool | None,
    lines: Sequence[Sequence[str]],
) -> tuple[Choices, int]:
    """Learn what users choose together. Also returns how many of the further `lines` released popularity.

    Args:
        releaser: Its plan must have `LABELS` and the lines.
        users: As for `learn_choices`; values are how much users like each item.
        popularity: The estimate (`popularity_of`), and a release that further ones can be pooled with.
        items: The posterior of item biases.
        frequencies: How often items occur.
        features: Public numbers that describe items.
        pool: Combines the second moment with earlier ones.
        lines: Groups of labels that may release popularity, in order of use.
    """
    known, counts = popularity
    grades = np.maximum(1 + SLOPE * items.bias, 0) / math.hypot(1, SLOPE)
    choices = learn_choices(
        releaser,
        users,
        Noisy(known.values * grades, known.std),
        MOST_CHOSEN,
        labels=LABELS,
        features=features,
        pool=pool,
        liked=Liked(counts, items.bias, items.variance[:, 0], frequencies.squares),
    )
    return with_popularity(choices, releaser, users, lines)


def popularity_of(frequencies: ItemFrequencies, released: Noisy) -> Noisy:
    """Popularity, from the frequencies."""
    known = frequencies.sums / frequencies.a
    # Noise may make it negative for items with hardly any ratings; then it is set to the level that noise hides.
    square = float(known @ known)
    scale = max(float(released.values @ known) / square, released.std / math.sqrt(square))
    return Noisy(scale * known, scale * math.sqrt(float(np.mean(frequencies.variance / frequencies.a**2))))


def unbiased_popularity(frequencies: ItemFrequencies, released: Noisy, weights: Noisy) -> Noisy:
    """Unbiased popularity from its two releases, so that further releases can be pooled with it."""
    a, typical = frequencies.a, frequencies.sums / frequencies.a
    # Users' weights are scaled to length 1, so they are about a divided by its root mean square.
    scale = math.sqrt(float(typical @ a**2 / typical.sum()))
    variance = (scale * weights.std / a) ** 2 + (CHANGE * scale * typical) ** 2
    precision = released.std**-2 + 1 / variance
    values = released.values / released.std**2 + scale * weights.values / a / variance
    return Noisy(values / precision, math.sqrt(float(np.mean(1 / precision))))
