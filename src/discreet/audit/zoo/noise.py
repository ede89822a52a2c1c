"""Broken noise: of the wrong distribution or size, missing in places, or drawn twice."""

from __future__ import annotations

import math
from typing import Any
from unittest.mock import patch

import numpy as np

from discreet.audit.zoo.mutant import Patch, mutant, wrapping
from discreet.privacy import Gaussian, Laplace, noise
from discreet.privacy.ledger import Reservation
from discreet.privacy.noise import InsecureSeededNoise, RandomizedResponse, SystemNoise

SVD, CLEANSED, BITS = "DPSVD, add-remove", "DPCleansedSVD, add-remove", "OneBit, objective, flip"


def _exact(statistic: Any) -> Any:
    return statistic.values * statistic.grid.step


@mutant("float noise", "Mironov 2012", SVD, wrapping(Gaussian, "add"))
def float_noise(real: Any, self: Gaussian, statistic: Any, source: Any) -> Any:
    """The low bits of a noisy float64 tell neighbors apart."""
    rng = np.random.default_rng(np.frombuffer(source.fresh_key(), np.uint64))
    noise = rng.standard_normal(statistic.values.shape) * self.std
    if self.symmetric:
        noise = (noise + noise.swapaxes(-1, -2)) / 2
    return _exact(statistic) + noise


@mutant("noise 5% too small", "DP libraries, after a dependency changed its scale", SVD, wrapping(noise, "gaussian"))
def too_small(real: Any, sigma: float, *given: Any) -> None:
    """The standard deviation is 0.95 of what is paid for."""
    real(sigma * 0.95, *given)


@mutant(
    "noise / sqrt 2", "a common slip with (N + N^T) / 2", "DPSVD of ratings, add-remove", wrapping(noise, "gaussian")
)
def as_off_the_diagonal(real: Any, sigma: float, *given: Any) -> None:
    """The standard deviation off the diagonal of a symmetric matrix is used for all of it."""
    real(sigma * math.sqrt(0.5), *given)


@mutant("half the triangle", "field list of broken mechanisms", SVD, wrapping(Gaussian, "add"))
def half_a_triangle(real: Any, self: Gaussian, statistic: Any, source: Any) -> Any:
    """Only the upper triangle of a symmetric matrix gets noise, and both are released."""
    noisy = real(self, statistic, source)
    return np.triu(noisy) + np.tril(_exact(statistic), -1) if self.symmetric else noisy


@mutant(
    "diagonal too quiet", "a common slip with GOE noise", "DPGradientDescent, add-remove", wrapping(Gaussian, "add")
)
def quiet_diagonal(real: Any, self: Gaussian, statistic: Any, source: Any) -> Any:
    """The diagonal of a symmetric matrix gets noise of std / sqrt 2, as the rest does."""
    if not self.symmetric:
        return real(self, statistic, source)
    upper = np.triu(real(Gaussian(self.std * math.sqrt(0.5)), statistic, source))
    return upper + np.triu(upper, 1).swapaxes(-1, -2)


@mutant("noise reused after a fork", "workers of data loaders, NumPy's global generator", SVD)
def remembered_key() -> Patch:
    """A source with a state gives forked workers the same noise."""
    state = InsecureSeededNoise(0)
    return patch.object(SystemNoise, "fresh_key", lambda self: state.fresh_key())


@mutant("one key for all releases", "nonce reuse", CLEANSED)
def one_key() -> Patch:
    """The difference of two releases has no noise."""
    return patch.object(InsecureSeededNoise, "fresh_key", lambda self: bytes(32))


@mutant(
    "a release without noise", "diffprivlib: sensitivity 0 meant no noise", CLEANSED, wrapping(Reservation, "release")
)
def without_noise(real: Any, self: Reservation, statistic: Any, *given: Any) -> Any:
    """A release is recorded and charged, and returned exactly."""
    answer = real(self, statistic, *given)
    return _exact(statistic) if given[-1] == "item counts" else answer


@mutant(
    "Laplace noise of half the scale", "one-bit completion 2021, Eq. (5)", BITS, wrapping(noise, "two_sided_geometric")
)
def half_the_scale(real: Any, scale: float, *given: Any) -> None:
    """The printed objective has H with a factor 1/2."""
    real(scale / 2, *given)


@mutant("noise cut off", "clipping 'outliers' of noise", BITS, wrapping(Laplace, "add"))
def cut_off(real: Any, self: Laplace, statistic: Any, source: Any) -> Any:
    """Bounded noise makes some answers impossible in one of two cases."""
    exact = _exact(statistic)
    return np.clip(real(self, statistic, source), exact - self.scale, exact + self.scale)


@mutant(
    "asymmetric flips, two of four ratios",
    "one-bit completion 2021, input perturbation",
    "OneBit, input, flip",
    params={"flip_one": 0.02, "flip_zero": 0.4, "calibration": "published"},
)
def two_of_four_ratios() -> Patch:
    """Flips of 2% and 40% pass the printed conditions at epsilon 1; it is 3.4."""

    def epsilon(self: RandomizedResponse) -> float:
        one, zero = (float(flip) for flip in self._flips(30))
        return max(math.log((1 - one) / zero), math.log(one / (1 - zero)))

    return patch.object(RandomizedResponse, "bit_epsilon", property(epsilon))
