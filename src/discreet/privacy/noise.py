"""The noise mechanisms of the door: what they add to integers on a grid, and what that costs.

`sensitivity` is always the largest change of the statistic between neighbouring data sets, under the ledger's
unit and adjacency, in the statistic's own units: L2 for Gaussian noise (Frobenius for a symmetric matrix), L1 for
Laplace noise (L2 for `L2Laplace`), the number of bits for randomised response.
"""

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from discreet.errors import PrivacyError, Unbounded
from discreet.privacy import sampling
from discreet.privacy.accounting import Cost, PureEvent
from discreet.privacy.keystream import NoiseSource, Stream
from discreet.privacy.lattice import Grid, GridArray
from discreet.typing import Floats, Integers
from discreet.validation import decimal, positive, probability

Sampler = Callable[[Stream, Integers], None]

_SQRT_HALF = math.nextafter(math.sqrt(0.5), 1.0)


def _plus(values: Integers, grid: Grid, sampler: Sampler, stream: Stream) -> Floats:
    """The values plus noise, in the statistic's own units; block by block, so that the noise stays in the cache."""
    flat, result, memory = values.ravel(), np.empty(values.size), np.empty(min(values.size, sampling.BLOCK), np.int64)
    for start in range(0, values.size, sampling.BLOCK):
        part = flat[start : start + sampling.BLOCK]
        noise = memory[: part.size]
        sampler(stream, noise)
        noise += part
        np.multiply(noise, grid.step, out=result[start : start + part.size])
    return result.reshape(values.shape)


_sensitivity = partial(positive, "sensitivity", error=Unbounded)  # without one there is no guarantee


def _scale(name: str, scale: float, grid: Grid) -> float:
    cells = grid.cells(positive(name, scale))
    if not 2.0**-20 <= cells <= sampling.MAX_SCALE:
        raise PrivacyError(f"{name}: {scale:g} is {cells:.3g} cells of the grid, not in [2^-20, 2^30]: choose another")
    return cells


@dataclass(frozen=True)
class Gaussian:
    """round(std Z) on the grid: exactly (sensitivity / std)-Gaussian DP, since rounding is post-processing.

    With `symmetric`, the statistic is a symmetric matrix (or a stack of them, on the last two axes), of which the upper
    triangle is read: the diagonal gets `std`, the rest std / sqrt 2, mirrored. The sensitivity is then that of the full
    matrix in the Frobenius norm.
    """

    kind: ClassVar[str] = "gaussian"
    std: float
    symmetric: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "std", positive("noise.std", self.std))
        object.__setattr__(self, "symmetric", bool(self.symmetric))

    @classmethod
    def for_cost(cls, cost: Cost, *, sensitivity: float, symmetric: bool = False) -> "Gaussian":
        """The least noise that a Gaussian cost pays for."""
        std = _sensitivity(sensitivity) / positive("mu", cost.mu)
        while Cost.of_gaussian(sensitivity, std).gaussian > cost.gaussian:
            std = math.nextafter(std, math.inf)
        return cls(std, symmetric)

    def grid(self) -> Grid:
        """The grid that suits this noise: about 2^20 cells to a standard deviation."""
        return Grid.for_std(self.std)

    def cost(self, sensitivity: float) -> Cost:
        """What a release costs."""
        return Cost.of_gaussian(_sensitivity(sensitivity), self.std)

    def check(self, statistic: GridArray) -> None:
        """Raise if this noise cannot be put on a statistic of this shape and grid."""
        _scale("noise.std", self.std, statistic.grid)
        shape = statistic.values.shape
        if self.symmetric and (len(shape) < 2 or shape[-1] != shape[-2]):
            raise PrivacyError(f"statistic: symmetric noise needs square matrices, not arrays of shape {shape}")

    def add(self, statistic: GridArray, source: NoiseSource) -> npt.NDArray[Any]:
        """The public array, in the statistic's own units."""
        sigma, values, grid = _scale("noise.std", self.std, statistic.grid), statistic.values, statistic.grid
        wide, narrow = (partial(sampling.gaussian, scale) for scale in (sigma, sigma * _SQRT_HALF))
        stream = Stream(key := source.fresh_key())
        if not self.symmetric:
            return _plus(values, grid, wide, stream)
        n, (i, j) = values.shape[-1], np.triu_indices(values.shape[-1], k=1)
        diagonal, above, place = np.arange(n) * (n + 1), i * n + j, np.zeros((n, n), np.intp)
        place.flat[np.concatenate([diagonal, above])] = np.arange(n + len(i))
        place[j, i] = place[i, j]
        flat = values.reshape(math.prod(values.shape[:-2]), n * n)
        result, some = flat.view(float) if statistic.spare else np.empty(flat.shape), 1 + 2 * sampling.BLOCK // n**2
        diagonals = _plus(flat.take(diagonal, axis=1), grid, wide, stream)

        def fill(at: int) -> None:  # as many matrices as fit in the cache; of the keystream a part that is theirs alone
            rows, own = slice(at, at + some), Stream(key, at) if at else stream
            noisy = [diagonals[rows], _plus(flat[rows].take(above, axis=1), grid, narrow, own)]
            np.concatenate(noisy, axis=1).take(place.ravel(), axis=1, out=result[rows], mode="clip")

        with ThreadPoolExecutor(min(os.cpu_count() or 1, 8)) as pool:  # more would wait for each other
            list(pool.map(fill, range(0, len(flat), some)))
        return result.reshape(values.shape)


@dataclass(frozen=True)
class _Pure:
    """Noise whose density falls by a factor of e over each `scale`, in some norm: epsilon is sensitivity / scale."""

    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", positive("noise.scale", self.scale))

    def cost(self, sensitivity: float) -> Cost:
        """What a release costs."""
        ratio = Fraction(_sensitivity(sensitivity)) / Fraction(self.scale)
        epsilon = float(ratio)
        return Cost.of(PureEvent(epsilon if decimal(epsilon) >= ratio else math.nextafter(epsilon, math.inf)))


class Laplace(_Pure):
    """The two-sided geometric law, exp(-|k| step / scale), on the grid: exactly (sensitivity / scale)-DP, no delta."""

    kind: ClassVar[str] = "laplace"

    def grid(self) -> Grid:
        """The grid that suits this noise."""
        return Grid.for_std(self.scale)

    def check(self, statistic: GridArray) -> None:
        """Raise if this noise cannot be put on a statistic of this grid."""
        _scale("noise.scale", self.scale, statistic.grid)

    def add(self, statistic: GridArray, source: NoiseSource) -> npt.NDArray[Any]:
        """The public array, in the statistic's own units."""
        law = partial(sampling.two_sided_geometric, _scale("noise.scale", self.scale, statistic.grid))
        return _plus(statistic.values, statistic.grid, law, Stream(source.fresh_key()))


class L2Laplace(_Pure):
    """round(N) on the grid, N of density exp(-|x| / scale), |x| the Euclidean length of the whole array.

    Exactly (sensitivity / scale)-DP, no delta, in the L2 sensitivity; rounding is post-processing. Of n numbers each
    gets a standard deviation of scale sqrt(n + 1), or of 2 scale if there are fewer than three.
    """

    kind: ClassVar[str] = "l2-laplace"

    def std(self, size: int) -> float:
        """The standard deviation of the noise on each of so many numbers."""
        return self.scale * math.sqrt(max(size, 3) + 1)

    def grid(self, size: int = 3) -> Grid:
        """The grid that suits this noise on so many numbers."""
        return Grid.for_std(self.std(size))

    def check(self, statistic: GridArray) -> None:
        """Raise if this noise cannot be put on a statistic of this size and grid."""
        _scale("noise.scale", self.std(statistic.values.size), statistic.grid)

    def add(self, statistic: GridArray, source: NoiseSource) -> npt.NDArray[Any]:
        """The public array, in the statistic's own units."""
        stream, values, grid = Stream(source.fresh_key()), statistic.values, statistic.grid
        scale = sampling.random_scale(grid.cells(self.scale), values.size, stream)
        return _plus(values, grid, partial(sampling.gaussian, scale), stream)


@dataclass(frozen=True)
class RandomizedResponse:
    """Each bit (1 if positive, else 0) is flipped by an exact coin: with `epsilon`, at 1 / (1 + e^epsilon).

    Or with `flip_one` and `flip_zero`, the probabilities that a 1 and a 0 are flipped; the epsilon is then the largest
    of the four log ratios. The sensitivity is the number of bits that may differ between neighbours.
    """

    kind: ClassVar[str] = "randomized-response"
    epsilon: float | None = None
    flip_one: float | None = None
    flip_zero: float | None = None

    def __post_init__(self) -> None:
        if self.epsilon is not None:
            object.__setattr__(self, "epsilon", positive("noise.epsilon", self.epsilon))
            if self.flip_one is not None or self.flip_zero is not None:
                raise PrivacyError("noise: give either epsilon, or flip_one and flip_zero")
        else:
            object.__setattr__(self, "flip_one", probability("noise.flip_one", self.flip_one))
            object.__setattr__(self, "flip_zero", probability("noise.flip_zero", self.flip_zero))

    def _flips(self, digits: int) -> tuple[Decimal, Decimal]:
        """The two flip probabilities, of a 1 and of a 0."""
        if self.flip_one is not None and self.flip_zero is not None:
            return Decimal(self.flip_one), Decimal(self.flip_zero)
        with sampling.precision(digits + 5):
            flip = 1 / (1 + Decimal(repr(self.epsilon)).exp())
        return flip, flip

    @property
    def bit_epsilon(self) -> float:
        """The epsilon of one bit, rounded up."""
        if self.epsilon is not None:
            return self.epsilon
        with sampling.precision(50):
            one, zero = self._flips(50)
            ratios = ((1 - one) / zero, zero / (1 - one), one / (1 - zero), (1 - zero) / one)
            epsilon = float(max(ratios).ln())
        return math.nextafter(epsilon, math.inf)

    def grid(self) -> Grid:
        """Bits are whole numbers."""
        return Grid()

    def cost(self, sensitivity: float) -> Cost:
        """What a release costs."""
        bits = _sensitivity(sensitivity)
        if bits != int(bits):
            raise Unbounded(f"sensitivity: randomised response counts whole bits, not {bits:g}")
        return Cost.of(PureEvent(self.bit_epsilon), int(bits))

    def check(self, statistic: GridArray) -> None:
        """Raise if the statistic is not on the grid of whole numbers."""
        if statistic.grid != Grid():
            raise PrivacyError("statistic: randomised response takes bits, on the grid of whole numbers")

    def add(self, statistic: GridArray, source: NoiseSource) -> npt.NDArray[Any]:
        """The flipped bits, as int8."""
        bits = statistic.values.ravel() > 0
        stream, flips = Stream(source.fresh_key()), np.empty((2, bits.size), np.int64)
        for k in (0, 1):
            sampling.bernoulli(lambda digits, k=k: self._flips(digits)[k], stream, flips[k])  # type: ignore[misc]
        result: npt.NDArray[np.int8] = (bits ^ (np.where(bits, flips[0], flips[1]) > 0)).astype(np.int8)
        return result.reshape(statistic.values.shape)


Noise = Gaussian | Laplace | L2Laplace | RandomizedResponse
