"""The private side of one-bit completion: true bits, and the mechanisms that add noise.

Mechanisms on bits return `FlippedBits` or `ShiftedBits`, which hold no true bit and are all that the solver in
`estimate` sees. Mechanisms whose guarantee is about an optimum fit the true bits here (`StronglyConvex`), and release
the result with noise.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from discreet.data.interactions import Interactions
from discreet.errors import DataError, PrivacyError
from discreet.models.one_bit.estimate import MAX_RANK, SEED, Completed
from discreet.models.one_bit.likelihood import Counts, FlippedBits, Link, Loss, Observed, ShiftedBits
from discreet.models.one_bit.matrices import Factored, Moved, in_ball, intersection, nuclear_ball, without_output_noise
from discreet.privacy import Cost, Gaussian, Laplace, Plan, Planned, PureEvent, RandomizedResponse, Releaser
from discreet.privacy.entries import (
    UP_MATRIX,
    Bits,
    ItemCounts,
    LinearPerturbation,
    Minimizer,
    PerturbedMinimizer,
    TwoValued,
    duality_gap,
    pure_cost,
)
from discreet.privacy.guarantee import account
from discreet.typing import Array
from discreet.validation import decimal, positive, whole

FLIPPED, SHIFTED = "flipped bits", "bits with noise"
GRADIENT, OUTPUT, LINEAR_TERM = "gradient", "completed matrix", "linear term of the objective"
COUNTS = "ones of each item"

NEWTON = 60  # the most steps of Newton's method between shrinking bounds: bisection alone would need as many
CHECK = 10  # steps between two computations of the gap
INERTIA = 0.23  # share of a step that the next one repeats: the steps converge below sqrt(5) - 2
PRECISION = 1e-13  # least gap of a fit relative to the size of its objective; rounding takes about a tenth of it
BISECTIONS = 60
BACK = 1 - 2.0**-10  # factor that lowers epsilon until the accountant agrees
BACK_BY = 1 - 2.0**-50  # factor that makes up for the rounding of shares of several entries
GRADIENT_SWEEPS = 50  # the most sweeps of the projection on bounded entries; it follows noise, and need not be precise
FINEST = -20  # a gradient is rounded to steps of 2^-20, or to finer ones if that suits the noise
OUTPUT_RIDGE = 0.5  # the default ridge of the output mechanism
SOLVER = 0.05  # share of epsilon to hide how far from the optimum the solver stops
ROUNDING = 1e-3  # share of epsilon that accounting for two kinds of noise may lose
EXTRA_COST = 0.25  # share of epsilon that the ratio of second derivatives costs at most, with the default ridge
LEAST_RIDGE = 0.5  # the least default ridge of the probit objective


@dataclass(frozen=True)
class TrueBits:
    """Which entries are observed (public), and their bits (private)."""

    observed: Observed
    bits: NDArray[np.int64]

    @classmethod
    def of(cls, ratings: Interactions, threshold: float) -> TrueBits:
        """1 for values of at least the threshold, 0 for values below."""
        shape = (ratings.n_users, ratings.n_items)
        observed = Observed(ratings.user_numbers().astype(np.int64), ratings.indices.astype(np.int64), shape)
        return cls(observed, (ratings.values >= np.float32(threshold)).astype(np.int64))


def two_valued(ratings: Interactions, threshold: float | None) -> float:
    """The threshold; by default the middle of the range, if all values are at its two ends.

    Neighbors have values of the same kind, so this error reveals nothing about any user's values.
    """
    low, high = ratings.value_range or (math.nan, math.nan)
    if ratings.implicit or not low < high:
        raise DataError(
            "ratings: one-bit completion needs two values; implicit feedback has just one, use discreet.DPSVD"
        )
    if threshold is None:
        ends = (np.float32(low), np.float32(high))
        if not np.isin(ratings.values, ends).all():
            raise DataError(
                f"threshold: there are values other than {low:g} and {high:g}, the ends of value_range; give the "
                "least value that counts as high"
            )
        return (low + high) / 2
    if not low < threshold <= high:
        raise DataError(f"threshold: a number above {low:g} and up to {high:g} is needed, not {threshold:g}")
    return float(threshold)


def require_flipped(ratings: Interactions, most: int | None) -> None:
    """Raise if the range, or which entries there are (both public), shows that these are not bits from `perturb`."""
    if ratings.value_range != (0.0, 1.0):
        low, high = ratings.value_range or (math.nan, math.nan)
        raise PrivacyError(
            f"perturbed: bits in the range 0 to 1 are needed, as `perturb` returns them, not values from {low:g} to "
            f"{high:g}: are these the true ones? Nothing was spent"
        )
    if most is not None and len(ratings) and int(np.diff(ratings.indptr).max()) > most:
        raise PrivacyError(
            f"max_entries: there are users with more than {most} flipped bits, which together are less private than "
            "declared; give `perturb` and `OneBit` the same number"
        )


def capped(ratings: Interactions, most: int, seed: int) -> Interactions:
    """At most `most` entries of each user, chosen by a public seed and by which entries there are (public)."""
    return ratings.where(ratings.ranks(np.random.default_rng(seed).random(len(ratings))) < most)


@dataclass(frozen=True)
class Counting:
    """The number of ones of each item, released before a mechanism with a part of epsilon.

    A count sums many bits, so its noise matters little. A noisy bit has 1 + 8 / epsilon^2 times the variance of a fair
    one. Counts get the share 1 / (1 + epsilon) for an epsilon of one bit: most of it if noisy bits are uninformative.
    """

    epsilon: float  # the epsilon of all releases together
    entries: int  # the most bits in which neighbors differ
    delta: float  # the delta of all releases together; if positive, accounting for two kinds of noise loses a little

    def noise(self) -> Laplace:
        """The noise, with a scale of few digits, so that its cost is exact."""
        return Laplace(self.entries / pure_cost(self.epsilon / (1 + self.epsilon / self.entries)).pure)

    def line(self) -> Planned:
        """The release."""
        return Planned(COUNTS, self.noise().cost(self.entries))

    def rest(self) -> float:
        """The part of epsilon that is left for the mechanism."""
        cost = self.line().cost.pure
        left = self.epsilon - cost
        if self.delta:
            left -= ROUNDING * self.epsilon
        while decimal(left) + decimal(cost) > decimal(self.epsilon):  # in the arithmetic that adds up costs
            left = math.nextafter(left, 0.0)
        return left if self.entries == 1 else left * BACK_BY

    def release(self, releaser: Releaser, true: TrueBits, link: Link) -> Counts:
        """The noisy counts."""
        observed, noise = true.observed, self.noise()
        statistic = ItemCounts(observed.columns, observed.shape[1], self.entries)
        ones = releaser.release_entries(COUNTS, statistic, true.bits, noise)
        return Counts(ones, variance(noise), link)


# -- mechanisms


@dataclass(frozen=True)
class Mechanism(ABC):
    """A way to add noise: the releases, their costs, and how they are used."""

    link: Link
    epsilon: float  # of all releases together; as published, what the paper calls epsilon
    delta: float  # of all releases together
    entries: int  # the most bits in which neighbors differ
    alpha: float  # the bound on entries
    gaussian: bool = False  # whether noise is Gaussian; otherwise Laplace
    published: bool = False  # whether the noise is as printed
    flips: tuple[float, float] | None = None  # the probabilities that a 1 and a 0 are flipped, if given
    ridge: float | None = None  # lambda, if given
    clamp: float = 0.5  # C, of gradients
    steps: int = 1  # how many gradients are released

    on_bits: ClassVar[bool] = False  # whether the noise is on the bits, so that any solver may follow
    why_not: ClassVar[str] = ""  # why there is no guarantee at all, if there is none
    error: ClassVar[str] = ""  # what is wrong in the paper

    @abstractmethod
    def lines(self) -> tuple[Planned, ...]:
        """The releases of a fit, before any data is touched."""

    def noisy_bits(self, releaser: Releaser, true: TrueBits) -> Loss:
        """For mechanisms on bits: the noisy bits, for the solver."""
        raise NotImplementedError

    def check(self, n_observed: int, radius: float) -> None:
        """Raise, before anything is released, if the mechanism is impossible with these public numbers."""
        return

    def noisy_matrix(
        self, releaser: Releaser, true: TrueBits, radius: float, alpha: float | None, base: Array | float = 0.0
    ) -> Completed:
        """For other mechanisms: the noisy matrix. With `alpha`, gradient steps keep its entries bounded.

        `base` is the prior prediction of each entry. Steps start from there; an optimum with bounded entries does
        not.
        """
        raise NotImplementedError

    def clarity(self) -> float:
        """The square root of a fit's information about x near 0, relative to a fit without noise."""
        return 1.0

    def _clarity(self, variance: float) -> float:
        """At x = 0, the variance of the loss's derivatives equals its curvature; noise adds its own."""
        return 1 / math.sqrt(1 + variance / float(self.link.log_slope(np.zeros(1))[0]) ** 2)


class FlippingBits(Mechanism):
    """mechanism="input": every bit is flipped by a coin."""

    on_bits = True
    error = "two of the four ratios that the two probabilities of a flip must keep are missing in the paper"

    def response(self) -> RandomizedResponse:
        if self.flips is not None:
            return RandomizedResponse(flip_one=self.flips[0], flip_zero=self.flips[1])
        return RandomizedResponse(bit_epsilon(self.epsilon, self.delta, self.entries))

    def lines(self) -> tuple[Planned, ...]:
        return (Planned(FLIPPED, self.response().cost(self.entries)),)

    def noisy_bits(self, releaser: Releaser, true: TrueBits) -> FlippedBits:
        return self.likelihood(releaser.release_entries(FLIPPED, Bits(self.entries), true.bits, self.response()))

    def likelihood(self, flipped: Array) -> FlippedBits:
        if self.flips is not None:
            return FlippedBits(flipped, self.link, *self.flips)
        flip = 1 / (1 + math.exp(bit_epsilon(self.epsilon, self.delta, self.entries)))
        return FlippedBits(flipped, self.link, flip, flip)


class Additive(Mechanism):
    """Noise on one number for each entry, in each of `steps` steps.

    The number is a derivative of the loss, clamped to C. A flip moves it by at most 2 C, and by at most
    h'(alpha) / (h(alpha) h(-alpha)). A bit is such a derivative of the logistic loss, at x = 0 and up to a constant:
    `clamp` and `steps` then have their defaults.
    """

    label: ClassVar[str]

    def two_valued(self, one: Array | float = 1.0, zero: Array | float = 0.0, finest: int = 0) -> TwoValued:
        change = min(2 * self.clamp, self.link.sensitivity(self.alpha))
        return TwoValued(one, zero, change, self.entries, finest)

    def noise(self) -> Laplace | Gaussian:
        if self.published:
            return Laplace(self.steps * self.clamp / self.epsilon)
        if self.gaussian:
            mu = account(epsilon=self.epsilon, delta=self.delta).mu or 0.0
            share = Plan.gaussian(mu, {"each": (1.0, self.steps)})["each"].cost
            return Gaussian.for_cost(share, sensitivity=self.two_valued().sensitivity("flip", Gaussian(1.0)))
        distance = self.two_valued().sensitivity("flip", Laplace(1.0))
        scale = distance * self.steps / self.epsilon
        while (Laplace(scale).cost(distance) * self.steps).pure > self.epsilon:
            scale = math.nextafter(scale, math.inf)
        return Laplace(scale)

    def lines(self) -> tuple[Planned, ...]:
        noise = self.noise()
        return (Planned(self.label, noise.cost(self.two_valued().sensitivity("flip", noise)), self.steps),)


class NoisyBits(Additive):
    """mechanism="objective" with the logistic link: bits with noise. 0 and 1 are representable on any grid."""

    label = SHIFTED
    on_bits = True
    error = "Eq. (5) has half of the noise that its proof is about"

    def noisy_bits(self, releaser: Releaser, true: TrueBits) -> ShiftedBits:
        noise = self.noise()
        return ShiftedBits(releaser.release_entries(SHIFTED, self.two_valued(), true.bits, noise), variance(noise))


class NoisyGradients(Additive):
    """mechanism="gradient": clamped derivatives with noise, one for each entry."""

    label = GRADIENT
    error = "noise for the bound of a clamped gradient, C, is too little: a flip moves it by up to 2 C"

    def clarity(self) -> float:
        return self._clarity(variance(self.noise()) / self.steps)  # noise is averaged over all steps

    def noisy_matrix(
        self, releaser: Releaser, true: TrueBits, radius: float, alpha: float | None, base: Array | float = 0.0
    ) -> Completed:
        """The mean of the later half of the iterates, each after a projected step of length 1 / curvature / step.

        An entry has two derivatives, for a 1 and for a 0, both public at a public x; its bit selects one of them. They
        are clamped; with a base, about their middle, or those of rare bits would be lost. The derivatives of all
        entries are released, with noise.
        """
        observed, link, noise, rng = true.observed, self.link, self.noise(), np.random.default_rng(SEED)
        now, found = Factored.zeros(observed.shape), list[Factored]()
        for step in range(1, self.steps + 1):
            x = base + now.at(observed.rows, observed.columns)
            both = -link.log_slope(x), link.log_slope(-x)
            middle = 0.0 if isinstance(base, float) else (both[0] + both[1]) / 2
            one, zero = (middle + np.clip(slopes - middle, -self.clamp, self.clamp) for slopes in both)
            slopes = releaser.release_entries(GRADIENT, self.two_valued(one, zero, FINEST), true.bits, noise)
            length = 1 / (link.curvature * step)
            moved = Moved(now, csr_array((-length * slopes, (observed.rows, observed.columns)), shape=observed.shape))
            if alpha is None:
                now = nuclear_ball(moved, radius, now, rng, MAX_RANK)
            else:
                now = intersection(moved.dense(), radius, alpha, precise=1e-4, sweeps=GRADIENT_SWEEPS)[0]
            if 2 * step > self.steps:
                found.append(now)
        left, right = np.hstack([one.left * one.values for one in found]), np.hstack([one.right for one in found])
        return Completed.of_matrix(Factored.product(left, right, len(found)))


class NoisyOutput(Mechanism):
    """mechanism="output": the minimizer of a strongly convex objective, with noise."""

    def lines(self) -> tuple[Planned, ...]:
        if not self.gaussian:
            return (Planned(OUTPUT, pure_cost(self.epsilon)),)
        mu = account(epsilon=self.epsilon, delta=self.delta).mu or 0.0
        return Plan.gaussian(mu, {OUTPUT: 1.0}).lines

    def fit(self, radius: float) -> StronglyConvex:
        return StronglyConvex(self.link, radius, self.alpha, self.ridge or OUTPUT_RIDGE)

    def minimizer(self, fit: StronglyConvex) -> Minimizer:
        bend, change = self.link.least_bend(self.alpha), self.link.sensitivity(self.alpha)
        return Minimizer(fit.ridge, self.alpha, change, bend, self.entries)

    def check(self, n_observed: int, radius: float) -> None:
        fit = self.fit(radius)
        fit.check(n_observed, self.minimizer(fit).gap)

    def noisy_matrix(
        self, releaser: Releaser, true: TrueBits, radius: float, alpha: float | None, base: Array | float = 0.0
    ) -> Completed:
        fit = self.fit(radius)
        statistic = self.minimizer(fit)
        noisy = releaser.release_matrix(OUTPUT, statistic, fit.solve(true, 0.0, statistic.gap))
        return Completed.of_matrix(without_output_noise(noisy.values, noisy.std, radius, self.alpha))


class PerturbedObjective(Mechanism):
    """mechanism="objective" with the probit link: the optimum of loss + <H, X> + ridge / 2 |X|^2, with Laplace noise H.

    (With the logistic link such a term is noise on the bits, and nothing has to be optimal.)

    A flip costs sensitivity / scale of H, for the derivative that it moves, plus `extra`, because the density of the
    optimum also contains the determinant of second derivatives. This is about the exact optimum: the fit is released
    with a little more noise, which hides how far from the optimum the solver stopped. With a `delta` that noise is
    Gaussian, of the same size for any number of entries.
    """

    @property
    def effective_ridge(self) -> float:
        """The ridge; by default, such that the ratio of second derivatives costs EXTRA_COST of an entry's epsilon."""
        if self.ridge:
            return self.ridge
        most, least = self.link.bend(np.array([-self.alpha, self.alpha])).tolist()
        each = self.epsilon / self.entries
        ratio = math.exp(EXTRA_COST * each) if each < 100 else math.inf
        return max((most - least * ratio) / (ratio - 1) if math.isfinite(ratio) else 0.0, LEAST_RIDGE)

    @property
    def extra(self) -> float:
        """The largest |log| of the ratio of second derivatives of the two losses, with the ridge."""
        return self.link.log_bends(self.alpha, self.effective_ridge)

    def fit(self, radius: float) -> StronglyConvex:
        return StronglyConvex(self.link, radius, self.alpha, self.effective_ridge)

    def perturbation(self, n_entries: int = 0) -> LinearPerturbation:
        return LinearPerturbation(n_entries, self.link.sensitivity(self.alpha), self.entries, self.extra)

    def noise(self) -> Laplace:
        left = self.epsilon * (1 - SOLVER) - self.entries * self.extra
        if left <= 0:
            raise PrivacyError(
                f"ridge, alpha: with the probit link the objective mechanism costs {self.entries * self.extra:.3g} of "
                f"epsilon for second derivatives alone, of {self.epsilon:g}; give a larger ridge or a smaller alpha"
            )
        return Laplace(self.entries * self.link.sensitivity(self.alpha) / left * UP_MATRIX)

    def clarity(self) -> float:
        return self._clarity(variance(self.noise()))

    def lines(self) -> tuple[Planned, ...]:
        noise = self.noise()
        first = noise.cost(self.perturbation().sensitivity("flip", noise))
        left = self.epsilon - first.pure
        if not self.delta:
            return Planned(LINEAR_TERM, first), Planned(OUTPUT, pure_cost(left))
        mu = account(epsilon=left - ROUNDING * self.epsilon, delta=self.delta).mu or 0.0
        return Planned(LINEAR_TERM, first), *Plan.gaussian(mu, {OUTPUT: 1.0}).lines

    def gap(self, n_observed: int) -> float:
        """The duality gap at which the fit stops, a function of public numbers."""
        return PRECISION * (self.alpha * n_observed * (self.link.sensitivity(self.alpha) + self.noise().scale))

    def noisy_matrix(
        self, releaser: Releaser, true: TrueBits, radius: float, alpha: float | None, base: Array | float = 0.0
    ) -> Completed:
        """The ledger draws the linear term and records its cost. The term itself stays secret."""
        noise, size, fit = self.noise(), len(true.observed), self.fit(radius)
        linear = releaser.release_entries(LINEAR_TERM, self.perturbation(size), true.bits, noise)
        gap = self.gap(size)
        statistic = PerturbedMinimizer(fit.ridge, gap, noise, size)
        noisy = releaser.release_matrix(OUTPUT, statistic, fit.solve(true, linear, gap))
        return Completed.of_matrix(without_output_noise(noisy.values, noisy.std, radius, self.alpha))


def variance(noise: Laplace | Gaussian) -> float:
    """The variance of the noise on one number."""
    return 2 * noise.scale**2 if isinstance(noise, Laplace) else noise.std**2


def binomial_delta(entries: int, bit_epsilon: float, epsilon: float) -> float:
    """The exact delta at `epsilon` of randomized response on `entries` bits, all of which may change.

    The number of bits that stay as they are is binomial, with p = 1 / (1 + e^-bit_epsilon) for one data set and 1 - p
    for its neighbor. It is a sufficient statistic.
    """
    from scipy.stats import binom

    counts = np.arange(whole("entries", entries, 1) + 1)
    stay = 1 / (1 + math.exp(-positive("bit_epsilon", bit_epsilon)))
    ones, others = binom.logpmf(counts, entries, stay), binom.logpmf(counts, entries, 1 - stay) + epsilon
    worse = ones > others
    return float((np.exp(ones[worse]) * -np.expm1(others[worse] - ones[worse])).sum())


def bit_epsilon(epsilon: float, delta: float, entries: int) -> float:
    """The largest epsilon of single bits for which randomized response on `entries` bits is (epsilon, delta)-DP.

    At delta 0 it is epsilon / entries. Otherwise it follows from the exact binomial delta, and is lowered until the
    ledger's accountant, which rounds up, agrees.
    """
    least = epsilon / entries
    if delta == 0 or entries == 1:
        return least
    low, high = least, epsilon
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if binomial_delta(entries, middle, epsilon) <= delta else (low, middle)
    while low > least and Cost.of(PureEvent(low), entries).epsilon(delta) > epsilon:
        low *= BACK
    return max(low, least)


def require_flips(flip_one: float, flip_zero: float, epsilon: float, *, published: bool) -> None:
    """Raise unless these flips give epsilon, by all four ratios or by the two published ones."""
    one, zero = (positive(name, flip) for name, flip in (("flip_one", flip_one), ("flip_zero", flip_zero)))
    if one + zero >= 1:
        raise PrivacyError(
            f"flip_one, flip_zero: they must add up to less than 1, or noisy bits say nothing (or the opposite), not "
            f"{one:g} + {zero:g}"
        )
    ratios = {
        "(1 - flip_one) / flip_zero": (1 - one) / zero,
        "flip_one / (1 - flip_zero)": one / (1 - zero),
        "(1 - flip_zero) / flip_one": (1 - zero) / one,  # missing in the paper
    }  # the fourth, flip_zero / (1 - flip_one), is below 1
    for name, ratio in list(ratios.items())[: 2 if published else 3]:
        if math.log(ratio) > epsilon * (1 + 1e-12):
            raise PrivacyError(
                f"flip_one, flip_zero: {name} is e^{math.log(ratio):.4g}, more than epsilon = {epsilon:g} admits; "
                "raise the lower of the two"
            )


@dataclass(frozen=True)
class StronglyConvex:
    """F(X) = loss of the true bits + <linear, X> + ridge / 2 |X|^2, for |X|_* <= radius and all |x| <= alpha.

    The linear term is at observed entries. F is minimized to a computed gap. All entries are kept: this is for matrices
    that LAPACK decomposes quickly.

    It is solved in the dual: A is the multiplier of the ball, and X(A), which minimizes F(X) + <A, X> within alpha, is
    found entry by entry. The gradient of the dual at A is X(A), which moves at most 1 / ridge times as far as A. So
    proximal steps of length `ridge` converge for any data, and faster with a little inertia (Lorenz and Pock 2015).
    """

    link: Link
    radius: float
    alpha: float
    ridge: float

    def check(self, n_observed: int, gap: float) -> None:
        """Raise if rounding could hide the gap, by public numbers."""
        if gap < PRECISION * self.alpha * n_observed * self.link.sensitivity(self.alpha):
            raise PrivacyError(
                "ridge: its optimum would have to be known more precisely than is possible; give a smaller one"
            )

    def solve(self, true: TrueBits, linear: Array | float, gap: float) -> Array:
        """A feasible matrix whose F is at most `gap` above the minimum. Private.

        The number of steps has no limit, because reaching a limit would reveal something about the data. Public numbers
        guarantee that the gap can be reached.
        """
        self.check(len(true.observed), gap)
        dual = before = np.zeros(true.observed.shape)
        at, signs = (true.observed.rows, true.observed.columns), np.where(true.bits > 0, 1.0, -1.0)
        x = np.zeros(len(signs))
        while True:
            for _ in range(CHECK):
                ahead = dual + INERTIA * (dual - before)
                primal, x = self._primal(at, signs, linear, ahead, x)
                moved = ahead / self.ridge + primal
                before, dual = dual, self.ridge * (moved - in_ball(moved, self.radius))
            found, own = self._primal(at, signs, linear, dual, x)
            share = min(1.0, self.radius / max(float(np.linalg.svd(found, compute_uv=False).sum()), 1e-300))
            found *= share  # into the ball
            gradient = self.ridge * found
            gradient[at] += -signs * self.link.log_slope(signs * (share * own)) + linear
            if duality_gap(found, gradient, dual, self.radius, self.alpha) <= gap:
                return found

    def _primal(
        self, at: tuple[Array, Array], signs: Array, linear: Array | float, dual: Array, x: Array
    ) -> tuple[Array, Array]:
        """X(A) and its observed entries, by Newton's method from a guess, with bisection if it leaves the bounds."""
        primal = np.clip(dual / -self.ridge, -self.alpha, self.alpha)
        pull = dual[at] + linear
        low, high = np.full(len(x), -self.alpha), np.full(len(x), self.alpha)
        for _ in range(NEWTON):
            slopes = -signs * self.link.log_slope(signs * x) + self.ridge * x + pull
            low, high = np.where(slopes < 0, x, low), np.where(slopes < 0, high, x)
            aim = x - slopes / (self.link.bend(signs * x) + self.ridge)
            # Where |x| = alpha and the slope points outwards, Newton's step ends beyond alpha, and x stays at alpha.
            aim = np.where(aim <= -self.alpha, -self.alpha, np.where(aim >= self.alpha, self.alpha, aim))
            aim = np.where((aim < low) | (aim > high), (low + high) / 2, aim)
            moved = float(np.abs(aim - x).max(initial=0.0))
            x = aim
            if moved <= 1e-15 * self.alpha:
                break
        primal[at] = x
        return primal, x
