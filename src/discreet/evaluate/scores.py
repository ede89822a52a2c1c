"""From each user's part to values, with confidence intervals by resampling users."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import DataError
from discreet.evaluate.collect import Collected, Key, Task
from discreet.evaluate.metrics import coverage
from discreet.evaluate.result import Score
from discreet.typing import Floats

_DRAWS = 4_000_000  # users drawn at once, over all resamples of a block


def score(
    task: Task, collected: Collected, confidence: float | None, n_boot: int, random_state: Any
) -> dict[Key, Score]:
    """Values and intervals of every metric, over all items and in each bucket.

    Raises:
        DataError: If there is nobody to evaluate a metric on.
    """
    counted = [below for (_, bucket), (_, below) in collected.sums.items() if bucket is None]
    if not all(map(np.any, counted)) or not all(users for _, users in collected.shown.values()):
        raise DataError("test: no user has a target to evaluate on (with relevant=, one that is at least that)")
    scores: dict[Key, Score] = {}
    for metric, (shown, users) in collected.shown.items():  # fewer users see fewer items, so resamples would mislead
        scores[metric, None] = Score(coverage(shown), np.nan, np.nan, users)
    keys = list(collected.sums)
    if not keys:
        return scores
    above = np.column_stack([collected.sums[key][0] for key in keys])
    below = np.column_stack([collected.sums[key][1] for key in keys])
    n_users = (below > 0).sum(axis=0)
    total = below.sum(axis=0)
    means = np.divide(above.sum(axis=0), total, out=np.full(len(keys), np.nan), where=total > 0)
    ends = np.full((len(keys), 2), np.nan)
    if confidence is not None:
        resampled = resampled_ratios(above, below, n_boot, random_state)
        for at in np.flatnonzero(n_users > 1):  # of one user there is only one resample
            ends[at] = percentile_interval(resampled[:, at], confidence)
    for column, key in enumerate(keys):
        value, low, high = key[0].finish(np.array([means[column], *ends[column]])).tolist()
        scores[key] = Score(value, low, high, int(n_users[column]))
    return scores


def resampled_ratios(numerators: Floats, denominators: Floats, n_boot: int, random_state: Any) -> Floats:
    """Ratios of sums over resampled users.

    A resample draws as many users as there are, with replacement. All its sums are linear in how often each user was
    drawn, so a block of resamples is one matrix product, and every metric sees the same resamples.

    Args:
        numerators: One column for each metric, one row for each user.
        denominators: The same.
        n_boot: How many resamples.
        random_state: Seed.

    Returns:
        One row for each resample, one column for each metric; NaN where the denominator is 0.
    """
    n_users, n_metrics = numerators.shape
    generator = np.random.default_rng(random_state)
    both = np.concatenate([numerators, denominators], axis=1)
    ratios = np.empty((n_boot, n_metrics))
    size = max(1, _DRAWS // max(n_users, 1))
    for start in range(0, n_boot, size):
        block = min(size, n_boot - start)
        drawn: NDArray[np.int64] = generator.integers(0, n_users, (block, n_users))
        drawn += np.arange(block)[:, None] * n_users
        times = np.bincount(drawn.ravel(), minlength=block * n_users).reshape(block, n_users)
        sums = times.astype(np.float64) @ both
        above, below = sums[:, :n_metrics], sums[:, n_metrics:]
        ratios[start : start + block] = np.divide(above, below, out=np.full_like(above, np.nan), where=below > 0)
    return ratios


def percentile_interval(ratios: Floats, confidence: float) -> tuple[float, float]:
    """The percentile interval of one metric's resampled values, those that exist."""
    finite = ratios[np.isfinite(ratios)]
    if not len(finite):
        return np.nan, np.nan
    low, high = np.quantile(finite, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)
