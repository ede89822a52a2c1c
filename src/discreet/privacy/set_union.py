"""The set of items that people have, where it is private, too: private set union, or partition selection.

Each user gives the weight 1 / sqrt(k) to k of their items. Items with a positive weight get noise, and those whose
noisy weight exceeds a threshold become public. Items that only one person has pass it with probability at most `delta`,
so the set does not tell whether this person was there (Gopi et al. 2020). Proof: docs/proofs/private-catalog.md.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from discreet.errors import PrivacyError
from discreet.privacy.guarantee import Cost, ThresholdEvent, sensitivity_factor
from discreet.privacy.noise import Gaussian, Grid, GridArray, NoiseSource
from discreet.privacy.statistics import Statistic, UserBatch, countable, fine_grid
from discreet.typing import Array, Integers
from discreet.validation import Count, probability, whole

MOST = 256  # the most items of a user that count; the threshold grows slowly with it
MOST_POSSIBLE = 1 << 16
LEAST_DELTA = 1e-100


def weights(grid: Grid, most: int) -> Integers:
    """The weight of each of a user's items if they have k = 0, ..., most: 1 / sqrt(k) in grid units, rounded down.

    k times the squared weight is at most the square of 1 in units, in exact integers.
    """
    one = 1 << -grid.exponent if grid.exponent <= 0 else 0
    found = np.array([0, *(math.isqrt(one * one // k) for k in range(1, most + 1))], np.int64)
    if not found[-1]:
        raise PrivacyError("epsilon: too little to choose items with: the noise would drown out any number of people")
    return found


@dataclass(frozen=True)
class Threshold:
    """A threshold that the noisy weight of an item must reach for the item to become public.

    Attributes:
        delta: The largest probability that any item passes that only one person has.
        most: How many items each user gives weight to, at most.
    """

    delta: float
    most: int = MOST

    def __post_init__(self) -> None:
        if probability("delta", self.delta) < LEAST_DELTA:
            raise PrivacyError(f"delta: at least {LEAST_DELTA:g} is needed for a threshold, not {self.delta:g}")
        object.__setattr__(self, "most", whole("most", self.most, 1, MOST_POSSIBLE))

    @property
    def cost(self) -> Cost:
        """The cost in addition to that of the noise."""
        return Cost.of(ThresholdEvent(self.delta))

    def units(self, std: float, grid: Grid) -> int:
        """The threshold in grid units, for noise round(std Z) on the grid.

        If only one person has k items, each weighs w = 1 / sqrt(k) at most, and passes a threshold t with probability
        p = Phi(-(t - w - 1/2) / std). None passes with probability (1 - p)^k at least, which must be 1 - delta or more.
        """
        from scipy.special import ndtri

        k = np.arange(1, self.most + 1)
        passing = -np.expm1(np.log1p(-self.delta) / k)
        needed = weights(grid, self.most)[1:] + 0.5 - grid.units(std) * ndtri(passing)
        most = float(needed.max())
        return math.ceil(most + 1e-9 * abs(most)) + 1  # rounded up by far more than the error of `ndtri`

    def passed(self, statistic: GridArray, noise: Any, source: NoiseSource) -> npt.NDArray[Any]:
        """Two rows: the positions of the entries that pass, and their noisy values. Only positive entries get noise."""
        if not isinstance(noise, Gaussian) or noise.symmetric or statistic.values.ndim != 1:
            raise PrivacyError("noise: a threshold is proved for a vector with Gaussian noise")
        least = self.units(noise.std, statistic.grid) * statistic.grid.step
        there = np.flatnonzero(statistic.values > 0)
        noisy = noise.add(GridArray(statistic.values[there], statistic.grid), source)
        return np.stack([there, noisy])[:, noisy >= least]


@dataclass(frozen=True)
class SetUnion(Statistic):
    """The weight of each item: the sum over users of 1 / sqrt(k) for each of their k items.

    At most `most` items of a user count; of more, evenly spaced ones in their row. A contribution says for each entry
    whether it may count (items that are public already need not). Weights are positive: sqrt 2 is enough for replace.
    """

    size: Count  # how many different items there are: private, and not published by a release with a threshold
    most: Annotated[int, partial(whole, least=1, most=MOST_POSSIBLE)] = MOST

    @property
    def shape(self) -> tuple[int, ...]:
        """One number for each item."""
        return (self.size,)

    def sensitivity(self, adjacency: str) -> float:
        """1 for add-remove, sqrt 2 for replace."""
        return sensitivity_factor(adjacency, nonnegative=True)

    def grids_for(self, std: float) -> tuple[Grid, ...]:
        """The grid of the weights."""
        return (fine_grid(std, 1.0),)

    def add_batch(self, total: Array, batch: UserBatch, contribution: Array) -> None:
        """Add the weights of some users, in exact integers."""
        items, counts = countable(batch, self.size)
        wanted = np.asarray(contribution, bool)
        if wanted.shape != items.shape:
            raise PrivacyError("contribution: say for each entry whether it counts")
        wanted = wanted if counts is None else wanted & counts
        n, owners = len(batch.indptr) - 1, batch.owners[wanted]
        own = np.bincount(owners, minlength=n)
        place = np.arange(len(owners)) - np.repeat(np.cumsum(own) - own, own)  # position of an entry in its user's row
        k, d = np.minimum(own, self.most)[owners], own[owners]
        chosen = (place + 1) * k // d > place * k // d
        units = weights(self.grid, self.most)[k[chosen]]
        np.add.at(total, items[wanted][chosen], units)
