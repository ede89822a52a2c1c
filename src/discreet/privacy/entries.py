"""Statistics of single entries: neighbors have the same entries, and at most `entries` of their secret bits differ.

Which entries exist is public here; their bits are not. As in `statistics`, each type knows its sensitivity, in the norm
of the noise: L1 for Laplace noise, L2 for Gaussian noise and `L2Laplace`, the number of bits for randomized response.
Proofs, for the "flip" adjacency only: docs/proofs/one-bit.md.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, get_args

import numpy as np

from discreet.errors import PrivacyError
from discreet.privacy.guarantee import Adjacency, Cost, require_adjacency
from discreet.privacy.noise import Gaussian, Grid, GridArray, L2Laplace, Laplace, Noise, RandomizedResponse
from discreet.privacy.statistics import fine_grid
from discreet.typing import Array
from discreet.validation import Count, NotNegative, Positive, check_fields, whole

UP = 1 + 2.0**-50  # covers the rounding of a square root and a product
UP_MATRIX = 1 + 2.0**-20  # covers the rounding of floats, in a solver and here
SHORT = 24  # binary digits of an epsilon that noise of several scales shares


class EntryStatistic(ABC):
    """A kind of statistic of secret bits."""

    noises: ClassVar[tuple[type, ...]]  # the kinds of noise for which there is a proof
    secret: ClassVar[bool] = False  # whether what is drawn must never leave the memory of the process

    def __post_init__(self) -> None:
        check_fields(self)

    def sensitivity(self, adjacency: str, noise: Noise) -> float:
        """How far a neighbor's statistic can be, in the norm of the noise; raises where there is no proof."""
        require_adjacency(adjacency, Adjacency.FLIP)
        if not isinstance(noise, self.noises):
            raise PrivacyError(f"noise: {type(self).__name__} has no proof for {type(noise).__name__}")
        return self.moved(noise)

    @abstractmethod
    def moved(self, noise: Any) -> float:
        """The sensitivity for noise with a proof."""

    @abstractmethod
    def integers(self, bits: Array, noise: Any) -> GridArray:
        """The statistic, on a grid that suits the noise."""


@dataclass(frozen=True)
class Bits(EntryStatistic):
    """The bits themselves, for randomized response."""

    noises = (RandomizedResponse,)
    entries: Count  # how many bits may differ

    def moved(self, noise: Noise) -> float:
        return self.entries

    def integers(self, bits: Array, noise: Noise) -> GridArray:
        return GridArray((np.asarray(bits) > 0).astype(np.int64), Grid())


@dataclass(frozen=True, eq=False)
class TwoValued(EntryStatistic):
    """One of two public numbers for each entry, at most `change` apart; its bit says which.

    Both are put on the grid, and the second is clipped to within `change` of the first, so the sensitivity needs no
    assumption about the numbers.
    """

    noises = (Laplace, Gaussian)
    one: Array | float  # for bits that are 1; a number for all entries, or one for each
    zero: Array | float  # for bits that are 0
    change: Positive
    entries: Count  # how many bits may differ
    finest: int = 0  # the exponent of a grid for both numbers; a finer one is used if the noise is small

    def moved(self, noise: Laplace | Gaussian) -> float:
        """`change` for each entry, added up in the norm of the noise."""
        if isinstance(noise, Laplace) or self.entries == 1:
            return self.change * self.entries
        return self.change * math.sqrt(self.entries) * UP

    def integers(self, bits: Array, noise: Noise) -> GridArray:
        grid = min(noise.grid(), Grid(self.finest), key=lambda grid: grid.exponent)
        with np.errstate(over="ignore"):  # clipped to 2^52 units
            both = (np.rint(grid.units(1.0) * np.nan_to_num(np.asarray(x, np.float64))) for x in (self.one, self.zero))
            one, zero = (np.clip(units, -(2.0**52), 2.0**52).astype(np.int64) for units in both)
        most = math.floor(grid.units(self.change))
        chosen = np.where(np.asarray(bits) > 0, one, np.clip(zero, one - most, one + most))
        return GridArray(chosen.astype(np.int64), grid)


@dataclass(frozen=True, eq=False)
class ItemCounts(EntryStatistic):
    """The number of bits of each item that are 1."""

    noises = (Laplace,)
    items: Array  # the item of each entry
    n_items: Count
    entries: Count  # how many bits may differ

    def moved(self, noise: Laplace) -> float:
        """A bit that differs moves one count by 1."""
        return self.entries

    def integers(self, bits: Array, noise: Laplace) -> GridArray:
        """Counts in grid units, at most 2^52 of them."""
        grid = min(noise.grid(), Grid(), key=lambda grid: grid.exponent)
        one = int(grid.units(1.0))
        counts = np.bincount(np.asarray(self.items)[np.asarray(bits) > 0], minlength=self.n_items)
        return GridArray(np.minimum(counts, (1 << 52) // one).astype(np.int64) * one, grid)


@dataclass(frozen=True)
class LinearPerturbation(EntryStatistic):
    """The random linear term of an objective. It is only noise, which stays secret; the optimum is released.

    Releasing the exact optimum is as private as releasing the objective's derivatives with this noise, which a flip
    moves by `change`, except for the ratio of second derivatives, which costs `extra` of epsilon for each entry.
    """

    noises = (Laplace,)
    secret = True
    size: Annotated[int, partial(whole, least=0)]  # how many entries there are
    change: Positive
    entries: Count  # how many bits may differ
    extra: NotNegative = 0.0  # the largest |log| of the ratio of second derivatives

    def moved(self, noise: Laplace) -> float:
        """The sensitivity of the derivatives, and `extra` converted with the scale of the noise."""
        return self.entries * (self.change + noise.scale * self.extra)

    def integers(self, bits: Array, noise: Laplace) -> GridArray:
        """Zeros: the private part is in the objective."""
        return GridArray(np.zeros(self.size, np.int64), fine_grid(noise.scale, noise.scale))


@dataclass(frozen=True)
class AsPrinted(EntryStatistic):
    """Numbers with a sensitivity that a paper prints but that is wrong: there is no guarantee."""

    noises = get_args(Noise)
    printed: float

    def moved(self, noise: Noise) -> float:
        return self.printed

    def integers(self, bits: Array, noise: Noise) -> GridArray:
        """The numbers, rounded to the grid of the noise."""
        grid = noise.grid()
        return GridArray(np.rint(np.asarray(bits, np.float64) / grid.step).astype(np.int64), grid)


# -- matrices that follow from bits by optimization


@dataclass(frozen=True)
class Minimizer:
    """The approximate minimizer of a strongly convex function of a matrix that depends on bits."""

    ridge: Positive  # the modulus of strong convexity
    alpha: Positive  # the largest entry of the matrix
    change: Positive  # how far a flip moves a derivative
    bend: NotNegative  # the least second derivative of an entry's loss
    entries: Count  # how many bits may differ
    slack: Positive = 0.01  # how much the solver may add to the distance of two minimizers, relative to it

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def exact_distance(self) -> float:
        """The distance of the exact minimizers of neighbors, in the Frobenius norm.

        Let D be the difference of the two minimizers and t the norm of D at the entries that differ. Then
        ridge |D|^2 + bend t^2 <= change sqrt(entries) t, with t at most |D| and at most 2 alpha sqrt(entries).
        """
        t = min(2 * self.alpha, self.change / (self.bend + max(self.ridge, self.bend)))
        return math.sqrt(self.entries * t * (self.change - self.bend * t) / self.ridge)

    @property
    def gap(self) -> float:
        """How far above its minimum the function may be: the matrix is then within slack / 2 * `exact_distance`."""
        return self.ridge / 2 * (self.slack / 2 * self.exact_distance) ** 2

    @property
    def distance(self) -> float:
        """The distance of the matrices that a solver finds for neighbors."""
        return self.exact_distance * (1 + self.slack) * UP_MATRIX


@dataclass(frozen=True)
class PerturbedMinimizer:
    """A matrix near the minimizer that a `LinearPerturbation` has paid for: noise must hide only the solver's error.

    The linear term is on a grid. Rounding each of its numbers by at most a unit moves the minimizer by at most
    1 / ridge times the norm of these roundings.
    """

    ridge: float  # the modulus of strong convexity
    gap: float  # how far above its minimum the function may be
    noise: Laplace  # of the linear term
    size: int  # how many numbers the linear term has

    @property
    def distance(self) -> float:
        """The distance of two such matrices."""
        step = fine_grid(self.noise.scale, self.noise.scale).step
        rounded = step * math.sqrt(self.size) / self.ridge
        return 2 * (math.sqrt(2 * self.gap / self.ridge) + rounded) * UP_MATRIX


def duality_gap(matrix: Array, gradient: Array, dual: Array, radius: float, alpha: float) -> float:
    """A bound on how far the value of a convex function F at a solver's matrix X is above its minimum.

    The minimum is over all Z whose singular values add up to at most `radius`, with entries up to `alpha`. Let G be the
    `gradient` of F at X. By convexity F(Z) >= F(X) + <G, Z - X>. For any matrix A (`dual`) and B = -G - A,
    <-G, Z> = <A, Z> + <B, Z> is at most radius |A| + alpha sum |B_ij|, where |A| is the largest singular value. The gap
    is this bound minus <-G, X>. `Minimizer` and `PerturbedMinimizer` rely on it.
    """
    rest = -gradient - dual
    square = dual @ dual.T if dual.shape[0] <= dual.shape[1] else dual.T @ dual
    norm = math.sqrt(max(float(np.linalg.eigvalsh(square)[-1]), 0.0))
    ball = radius * norm - float((dual * matrix).sum())
    return ball + float((alpha * np.abs(rest) - rest * matrix).sum())


def matrix_noise(cost: Cost, distance: float, size: int) -> tuple[Grid, float, L2Laplace | Gaussian]:
    """The grid, sensitivity and noise, for a cost, of a matrix that neighbors move by at most `distance`.

    A Gaussian cost pays for Gaussian noise, a pure cost for noise N with density exp(-epsilon |N| / distance).
    """
    grid = fine_grid(noise_std(_least_noise(cost, distance)[1], size), distance)
    # Each entry is rounded to the nearest unit, for both neighbors, which moves them apart by at most a unit in each.
    return grid, *_least_noise(cost, (distance + grid.step * math.sqrt(size)) * UP_MATRIX)


def noise_std(noise: L2Laplace | Gaussian, size: int) -> float:
    """The standard deviation of the noise on each of `size` numbers."""
    return noise.std(size) if isinstance(noise, L2Laplace) else noise.std


def _least_noise(cost: Cost, sensitivity: float) -> tuple[float, L2Laplace | Gaussian]:
    """The least noise that a cost pays for, and the declared sensitivity: the given one or slightly more."""
    if cost.gaussian:
        return sensitivity, Gaussian.for_cost(cost, sensitivity=sensitivity)
    # Rounded up to few digits, so that the product fits a float's 53 bits and costs exactly the planned epsilon.
    scale = -shortened(-sensitivity / cost.pure, SHORT + 4)
    return scale * cost.pure, L2Laplace(scale)


def shortened(value: float, digits: int = SHORT) -> float:
    """A number rounded down to `digits` binary digits."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(math.floor(math.ldexp(mantissa, digits)), exponent - digits)


def pure_cost(epsilon: float) -> Cost:
    """The cost of Laplace noise for at most this epsilon, with few digits, so that other scales cost the same."""
    short = shortened(epsilon)
    while Laplace(1.0).cost(short).pure != short:  # the number it prints as is slightly below it
        short = shortened(math.nextafter(short, 0.0))
    return Laplace(1.0).cost(short)
