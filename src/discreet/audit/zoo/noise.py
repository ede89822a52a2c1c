"""Broken noise: of the wrong law or size, of too few numbers, or drawn twice."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from discreet.audit.patching import patched
from discreet.audit.zoo.mutant import Mutant, Patch
from discreet.privacy import Gaussian, Laplace, sampling
from discreet.privacy.keystream import InsecureSeededNoise, SystemNoise
from discreet.privacy.ledger import Reservation
from discreet.privacy.noise import RandomizedResponse


def _floats() -> Patch:
    """Noise in float64, on a statistic in float64."""

    def add(self: Gaussian, statistic: Any, source: Any) -> Any:
        rng = np.random.default_rng(np.frombuffer(source.fresh_key(), np.uint64))
        noise = rng.standard_normal(statistic.values.shape) * self.std
        if self.symmetric:
            noise = (noise + noise.swapaxes(-1, -2)) / 2
        return statistic.values * statistic.grid.step + noise

    return patched(Gaussian, add=add)


def _smaller(factor: float) -> Patch:
    """Gaussian noise of another size than the cost is computed for."""
    real = sampling.gaussian
    return patched(sampling, gaussian=lambda sigma, stream, out: real(sigma * factor, stream, out))


def _smaller_laplace() -> Patch:
    real = sampling.two_sided_geometric
    return patched(sampling, two_sided_geometric=lambda scale, stream, out: real(scale / 2, stream, out))


def _half_a_triangle() -> Patch:
    """The lower triangle keeps its exact numbers."""
    real = Gaussian.add

    def add(self: Gaussian, statistic: Any, source: Any) -> Any:
        noisy = real(self, statistic, source)
        return np.triu(noisy) + np.tril(statistic.values * statistic.grid.step, -1) if self.symmetric else noisy

    return patched(Gaussian, add=add)


def _diagonal_as_the_rest() -> Patch:
    """The diagonal gets the noise of the rest, which is less."""
    real = Gaussian.add

    def add(self: Gaussian, statistic: Any, source: Any) -> Any:
        if not self.symmetric:
            return real(self, statistic, source)
        upper = np.triu(real(Gaussian(self.std * math.sqrt(0.5)), statistic, source))
        return upper + np.triu(upper, 1).swapaxes(-1, -2)

    return patched(Gaussian, add=add)


def _remembered_key() -> Patch:
    """A source with a state, which a fork copies."""
    state = InsecureSeededNoise(0)
    return patched(SystemNoise, fresh_key=lambda self: state.fresh_key())


def _one_key() -> Patch:
    """The same noise in every release."""
    return patched(InsecureSeededNoise, fresh_key=lambda self: bytes(32))


def _no_noise(label: str) -> Patch:
    """One release without noise, though the ledger has it."""
    real = Reservation.release

    def release(self: Reservation, statistic: Any, sensitivity: float, noise: Any, name: str) -> Any:
        answer = real(self, statistic, sensitivity, noise, name)
        return statistic.values * statistic.grid.step if name == label else answer

    return patched(Reservation, release=release)


def _two_of_four_ratios() -> Patch:
    """The epsilon of asymmetric flips, by the two conditions that were printed."""

    def epsilon(self: RandomizedResponse) -> float:
        one, zero = (float(flip) for flip in self._flips(30))
        return max(math.log((1 - one) / zero), math.log(one / (1 - zero)))

    return patched(RandomizedResponse, bit_epsilon=property(epsilon))


def _clipped_laplace() -> Patch:
    """Noise that is cut off where it is large: outside, one of two worlds is impossible."""
    real = Laplace.add

    def add(self: Laplace, statistic: Any, source: Any) -> Any:
        exact = statistic.values * statistic.grid.step
        return np.clip(real(self, statistic, source), exact - self.scale, exact + self.scale)

    return patched(Laplace, add=add)


MUTANTS = [
    Mutant(
        "float noise",
        "the low bits of a noisy float64 tell neighbours apart",
        "Mironov 2012",
        "DPSVD, add-remove",
        _floats,
    ),
    Mutant(
        "noise 5% too small",
        "the standard deviation is 0.95 of what is paid for",
        "DP libraries, after a dependency changed its scale",
        "DPSVD, add-remove",
        partial(_smaller, 0.95),
    ),
    Mutant(
        "noise / sqrt 2",
        "the standard deviation of a symmetric matrix's rest is used for all",
        "a common slip with (N + N^T) / 2",
        "DPSVD of ratings, add-remove",
        partial(_smaller, math.sqrt(0.5)),
    ),
    Mutant(
        "half the triangle",
        "only the upper triangle of a symmetric matrix gets noise, both are released",
        "field list of broken mechanisms",
        "DPSVD, add-remove",
        _half_a_triangle,
    ),
    Mutant(
        "diagonal too quiet",
        "the diagonal of a symmetric matrix gets noise of std / sqrt 2, as the rest does",
        "a common slip with GOE noise",
        "DPGradientDescent, add-remove",
        _diagonal_as_the_rest,
    ),
    Mutant(
        "noise reused after a fork",
        "a source with a state gives forked workers the same noise",
        "workers of data loaders, NumPy's global generator",
        "DPSVD, add-remove",
        _remembered_key,
    ),
    Mutant(
        "one key for all releases",
        "the difference of two releases has no noise",
        "nonce reuse",
        "DPCleansedSVD, add-remove",
        _one_key,
    ),
    Mutant(
        "a release without noise",
        "recorded and charged, but answered exactly",
        "diffprivlib: sensitivity 0 meant no noise",
        "DPCleansedSVD, add-remove",
        partial(_no_noise, "item counts"),
    ),
    Mutant(
        "Laplace noise of half the scale",
        "the printed objective has H with a factor 1/2",
        "one-bit completion 2021, Eq. (5)",
        "OneBit, objective, flip",
        _smaller_laplace,
    ),
    Mutant(
        "noise cut off",
        "bounded noise makes some answers impossible in one of two worlds",
        "clipping 'outliers' of noise",
        "OneBit, objective, flip",
        _clipped_laplace,
    ),
    Mutant(
        "asymmetric flips, two of four ratios",
        "flips of 2% and 40% pass the printed condition at epsilon 1; it is 3.4",
        "one-bit completion 2021, input perturbation",
        "OneBit, input, flip",
        _two_of_four_ratios,
        params=(("flip_one", 0.02), ("flip_zero", 0.4), ("calibration", "published")),
    ),
]
