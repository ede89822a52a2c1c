"""The precision attack: the low bits of a noisy float tell neighbors apart (Mironov 2012); those of `release` do not.

The attacker sees one released number, from a statistic of 0 or of 1, looks at its size and at its lowest set bit,
chooses on one half of the samples the outcomes that speak most for 0 or for 1, and on the other half proves
(Clopper-Pearson) how large epsilon must be. 10^7 draws in all.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from discreet import Gaussian, Ledger, account
from discreet.privacy import Grid, GridArray
from discreet.testing import InsecureSeededNoise

STD, DELTA, DRAWS = 4.0, 1e-5, 5_000_000
CONFIDENCE = 1e-9


def features(released: np.ndarray) -> np.ndarray:
    """A class for each outcome: the power of two of its lowest set bit, by its size in units of a quarter."""
    mantissa, exponent = np.frexp(np.abs(released))
    whole = (mantissa * 2.0**53).astype(np.int64)
    lowest = (whole & -whole).astype(np.float64)
    power = np.where(whole > 0, exponent - 53 + np.frexp(np.maximum(lowest, 1))[1] - 1, 0)
    low_bit = np.clip(power + 70, 0, 99)
    size = np.clip(np.floor(np.abs(released) * 4), 0, 39)
    sign = released < 0
    return ((low_bit * 40 + size) * 2 + sign).astype(np.int64)


def proved_epsilon(release: Callable[[int, int], np.ndarray]) -> float:
    """The largest epsilon that the attack proves at DELTA, in either direction."""
    half = DRAWS // 2
    counts = {}
    for statistic in (0, 1):
        classes = features(release(statistic, DRAWS))
        counts[statistic] = [np.bincount(part, minlength=8000) for part in (classes[:half], classes[half:])]
    best = 0.0
    for likely, unlikely in ((0, 1), (1, 0)):
        (choose_l, test_l), (choose_u, test_u) = counts[likely], counts[unlikely]
        ratio = (choose_l + 1) / (choose_u + 1)
        for threshold in (1.5, 3, 10, 100, 1000):
            event = ratio > threshold
            hits, misses = int(test_l[event].sum()), int(test_u[event].sum())
            low = float(stats.beta.ppf(CONFIDENCE, hits, half - hits + 1)) if hits else 0.0
            high = float(stats.beta.ppf(1 - CONFIDENCE, misses + 1, half - misses))
            if low > DELTA:
                best = max(best, math.log((low - DELTA) / high))
    return best


def float_noise(statistic: int, size: int) -> np.ndarray:
    """Known bad, kept as the example of it: float64 noise added to a float64 number."""
    rng = np.random.default_rng(statistic + 1)
    return statistic + STD * rng.standard_normal(size)


def through_the_door(statistic: int, size: int) -> np.ndarray:
    """The same statistic through `Ledger.release`, on the grid that suits the noise."""
    grid = Grid.for_std(STD)
    ledger = Ledger(delta=DELTA, noise_source=InsecureSeededNoise(statistic))
    value = np.full(size, round(grid.units(statistic)), np.int64)
    return ledger.release(GridArray(value, grid), 1.0, Gaussian(STD), "statistic")


def test_the_attack_breaks_float_noise() -> None:
    claimed = account(noise_multiplier=STD, delta=DELTA).epsilon
    assert claimed < 1
    assert proved_epsilon(float_noise) > 4 > claimed


def test_the_attack_finds_nothing_against_release() -> None:
    claimed = account(noise_multiplier=STD, delta=DELTA).epsilon
    assert proved_epsilon(through_the_door) <= claimed


def test_outputs_of_neighbors_share_every_low_bit() -> None:
    """Given the same noise, neighbors' outputs differ by exactly the statistic's change: no rounding in between."""
    ours = through_the_door(0, 100_000)
    grid = Grid.for_std(STD)
    ledger = Ledger(delta=DELTA, noise_source=InsecureSeededNoise(0))
    other = ledger.release(GridArray(np.full(100_000, 1 << 18, np.int64), grid), 1.0, Gaussian(STD), "statistic")
    assert grid.step == 2.0**-18
    assert (other - ours == 1.0).all()


@pytest.mark.parametrize("std", [0.3, 1.0, 77.7])
def test_released_values_lie_on_the_public_grid(std: float) -> None:
    grid = Grid.for_std(std)
    released = Ledger().release(GridArray(np.arange(1000), grid), 1.0, Gaussian(std), "x")
    assert (np.rint(released / grid.step) == released / grid.step).all()
