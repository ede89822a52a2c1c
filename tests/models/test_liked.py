"""How popular liked items are, from counts and from grades."""

import math
from dataclasses import replace

import numpy as np
import pytest

from discreet.models.grading import SLOPE
from discreet.models.liked import NORM, Liked
from discreet.privacy import Noisy

SPREAD = 0.35  # of offsets, before they are known
COUNTS = 3000 / np.arange(5, 205)


def known(rng: np.random.Generator, offsets: np.ndarray, counts: float, graded: float | None) -> Liked:
    """Releases with noise of these sizes, of items of which nothing else is known."""
    m = len(offsets)
    liked = COUNTS * (1 + SLOPE * offsets) / NORM
    return Liked(
        Noisy(COUNTS + counts * rng.standard_normal(m), counts),
        np.zeros(m),
        np.full(m, SPREAD**2),
        np.zeros(m),
        None if graded is None else Noisy(liked + graded * rng.standard_normal(m), graded),
    )


def error(liked: Liked, offsets: np.ndarray) -> float:
    return float(((liked.popularity.values - COUNTS * (1 + SLOPE * offsets) / NORM) ** 2).mean())


@pytest.mark.parametrize("spread", [SPREAD, 0.0])
def test_two_releases_are_better_than_either(spread: float) -> None:
    """Where ratings tell items apart, the counts alone are off; where they do not, that is seen in the releases."""
    rng = np.random.default_rng(0)
    both, counts, graded = [], [], []
    for _ in range(30):
        offsets = spread * rng.standard_normal(len(COUNTS))
        found = known(rng, offsets, 10.0, 12.0)
        both.append(error(found, offsets))
        counts.append(error(replace(found, graded=None), offsets))
        assert found.graded is not None
        graded.append(float(((found.graded.values - COUNTS * (1 + SLOPE * offsets) / NORM) ** 2).mean()))
    assert np.mean(both) < 0.95 * min(np.mean(counts), np.mean(graded))
    if not spread:  # nearly a mean by the noise of the releases
        assert np.mean(both) < 1.1 / ((NORM / 10) ** 2 + 12.0**-2)


def test_grades_are_released_where_they_tell() -> None:
    rng = np.random.default_rng(1)
    unknown = known(rng, np.zeros(len(COUNTS)), 5.0, None)
    assert unknown.gains_from_grades(5.0)
    assert not replace(unknown, variance=np.zeros(len(COUNTS))).gains_from_grades(5.0)
    # What single ratings vary by does not go away with the noise.
    little = replace(unknown, variance=np.full(len(COUNTS), 1e-3))
    assert little.gains_from_grades(0.1)
    assert not replace(little, squares=COUNTS**2).gains_from_grades(0.1)


def test_more_is_released_until_counts_of_the_whole_budget_would_be_no_better() -> None:
    rng = np.random.default_rng(2)
    noisy = known(rng, np.zeros(len(COUNTS)), 40.0, None)
    assert noisy.trails(10.0)
    assert not replace(noisy, counts=Noisy(COUNTS, 1.0)).trails(10.0)
    # Offsets that are known make up for noise.
    offsets = 2 * SPREAD * rng.standard_normal(len(COUNTS))
    sure = replace(noisy, counts=Noisy(noisy.counts.values, 15.0), variance=np.full(len(COUNTS), 1e-4))
    assert sure.trails(10.0)
    assert not replace(sure, offset=offsets).trails(10.0)
    graded = known(rng, offsets, 15.0, 3.0)
    assert not graded.trails(10.0)


def test_releases_of_one_kind_are_averaged() -> None:
    ones = np.ones(4)
    liked = Liked(Noisy(ones, 2.0), np.zeros(4), np.zeros(4), np.zeros(4)).with_counts([Noisy(3 * ones, 2.0)])
    assert np.allclose(liked.counts.values, 2)
    assert liked.counts.std == pytest.approx(math.sqrt(2))
    assert np.allclose(liked.popularity.values, 2 / NORM)
    graded = liked.with_graded([Noisy(5 * ones, 1.0)]).with_graded([Noisy(7 * ones, 1.0)]).graded
    assert graded is not None
    assert np.allclose(graded.values, 6)
