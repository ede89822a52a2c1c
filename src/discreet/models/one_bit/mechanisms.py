"""What each mechanism releases, what that costs, and what follows from it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.special import ndtr

from discreet.errors import PrivacyError
from discreet.kernels.threads import single_threaded_blas
from discreet.models.one_bit.contributions import (
    FLIPPED,
    PRECISION,
    SHIFTED,
    StronglyConvex,
    TrueBits,
    flipped,
    shifted,
    variance,
)
from discreet.models.one_bit.estimate import LEAST_PENALTY, MAX_RANK, SEED, Completed, Problem, minimize
from discreet.models.one_bit.likelihood import FlippedBits, Link, PerturbedBits, ShiftedBits
from discreet.models.one_bit.matrices import Factored, Moved, intersection, nuclear_ball, trimmed
from discreet.privacy import Cost, Gaussian, Laplace, Plan, Planned, PureEvent, RandomizedResponse, Releaser
from discreet.privacy.entries import (
    UP_MATRIX,
    AsPrinted,
    LinearPerturbation,
    Minimizer,
    PerturbedMinimizer,
    TwoValued,
    pure_cost,
)
from discreet.privacy.guarantee import account
from discreet.typing import Array
from discreet.validation import positive, whole

GRADIENT, OUTPUT, LINEAR_TERM = "gradient", "completed matrix", "linear term of the objective"
MECHANISMS = ("input", "objective", "gradient", "output")
# Those that add noise to bits, or to derivatives, one number of which moves with a flip.
ADDITIVE = (("objective", "logistic"), ("gradient", "logistic"), ("gradient", "probit"))
BISECTIONS = 60
BACK = 1 - 2.0**-10  # by how much epsilon is lowered at a time until the accountant agrees
GRADIENT_SWEEPS = 50  # of the projection on bounded entries, at most: it follows noise, and need not be precise
FINEST = -20  # a gradient is rounded to steps of 2^-20, or to what suits the noise if that is finer
ABOVE = 1.2  # times the singular value of noise: what stands out of it
OUTPUT_SWEEPS = 20  # of the projection after the noise, at most: it need not be precise
OUTPUT_RIDGE = 0.5  # by default
SOLVER = 0.05  # of epsilon, for hiding how far from the optimum the solver stops
ROUNDING = 1e-3  # of epsilon, for what accountants of two kinds of noise lose
EXTRA_COST = 0.25  # of epsilon: what the ratio of second derivatives may cost with the default ridge
LEAST_RIDGE = 0.5  # by default, for the probit objective


def binomial_delta(entries: int, bit_epsilon: float, epsilon: float) -> float:
    """The exact delta at `epsilon` of randomized response on `entries` bits, all of which may change.

    The number of bits that stay as they are is binomial, with p = 1 / (1 + e^-bit_epsilon) in one world and 1 - p in
    the other. It is all that an observer can use.
    """
    from scipy.stats import binom

    counts = np.arange(whole("entries", entries, 1) + 1)
    stay = 1 / (1 + math.exp(-positive("bit_epsilon", bit_epsilon)))
    ones, others = binom.logpmf(counts, entries, stay), binom.logpmf(counts, entries, 1 - stay) + epsilon
    worse = ones > others
    return float((np.exp(ones[worse]) * -np.expm1(others[worse] - ones[worse])).sum())


def bit_epsilon(epsilon: float, delta: float, entries: int) -> float:
    """The largest epsilon of single bits for which randomized response on `entries` bits is (epsilon, delta)-DP.

    At delta 0 it is epsilon / entries. Otherwise the exact binomial delta gives it, lowered until the ledger's
    accountant, which rounds up, agrees.
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
    """Raise unless these probabilities of a flip give epsilon: by all four ratios, or the two published ones."""
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
class Budget:
    """The noise of a mechanism, for what may be spent.

    Attributes:
        mechanism: "input", "objective", "gradient" or "output".
        link: P(bit = 1 | x).
        epsilon: Of all releases together; if `published`, what the paper calls epsilon.
        delta: Of all releases together.
        entries: In how many bits neighbors differ, at most.
        gaussian: Whether noise is Gaussian; otherwise Laplace.
        published: Whether it is the noise that was printed.
        flips: The probabilities that a 1 and a 0 are flipped, if they are given.
        alpha: The bound on entries.
        ridge: lambda, if it is given.
        clamp: C, of gradients.
        steps: Of gradients.
    """

    mechanism: str
    link: Link
    epsilon: float
    delta: float
    entries: int
    gaussian: bool
    published: bool
    flips: tuple[float, float] | None
    alpha: float
    ridge: float | None
    clamp: float
    steps: int

    def __post_init__(self) -> None:
        if self.mechanism not in MECHANISMS:
            known = ", ".join(map(repr, MECHANISMS))
            raise PrivacyError(f"mechanism: there is a proof for {known}, and none for {self.mechanism!r}")

    @property
    def on_bits(self) -> bool:
        """Whether the bits get the noise: all that follows is then post-processing, by any solver."""
        return self.mechanism == "input" or (self.mechanism == "objective" and self.link.name == "logistic")

    @property
    def releases(self) -> int:
        """The number of releases with the noise of `additive`."""
        return self.steps if self.mechanism == "gradient" else 1

    @property
    def change(self) -> float:
        """How far a flip moves the one number that it moves: a bit, or one entry of a clamped gradient.

        The latter by at most min(2 C, h'(alpha) / (h(alpha) h(-alpha))).
        """
        return min(2 * self.clamp, self.link.sensitivity(self.alpha)) if self.mechanism == "gradient" else 1.0

    def response(self) -> RandomizedResponse:
        """The coins of the input mechanism."""
        if self.flips is not None:
            return RandomizedResponse(flip_one=self.flips[0], flip_zero=self.flips[1])
        return RandomizedResponse(bit_epsilon(self.epsilon, self.delta, self.entries))

    def two_valued(self, one: Array | float = 1.0, zero: Array | float = 0.0, finest: int = 0) -> TwoValued:
        """The statistic of bits or gradients."""
        return TwoValued(one, zero, self.change, self.entries, finest)

    def additive(self) -> Laplace | Gaussian:
        """The noise on bits or gradients."""
        if (self.mechanism, self.link.name) not in ADDITIVE:
            raise PrivacyError(f"mechanism: {self.mechanism!r} with the {self.link.name} link has no noise on numbers")
        if self.published:
            half = self.steps * self.clamp if self.mechanism == "gradient" else 0.5
            return Laplace(half / self.epsilon)
        if self.gaussian:
            distance = self.two_valued().sensitivity("flip", Gaussian(1.0))
            return Gaussian.for_cost(self.share(), sensitivity=distance)
        distance = self.two_valued().sensitivity("flip", Laplace(1.0))
        scale = distance * self.releases / self.epsilon
        while (Laplace(scale).cost(distance) * self.releases).pure > self.epsilon:
            scale = math.nextafter(scale, math.inf)
        return Laplace(scale)

    def share(self) -> Cost:
        """What each of some equal releases may cost."""
        if not self.gaussian:
            return pure_cost(self.epsilon)
        mu = account(epsilon=self.epsilon, delta=self.delta).mu or 0.0
        return Plan.gaussian(mu, {"each": (1.0, self.releases)})["each"].cost

    def printed(self) -> Laplace:
        """The published noise on a linear term or on the completed matrix.

        For the linear term it is half of what Theorem 2 asks for, since Eq. (5) multiplies it by a half; the published
        sensitivity is 2 h'(0) / h(-alpha).
        """
        if self.mechanism == "output":
            return Laplace(2 * self.alpha / self.epsilon)
        change = 2 * self.link.slope / float(ndtr(-self.alpha / self.link.sigma))
        return Laplace(change / (2 * self.epsilon))


def broken(budget: Budget) -> str:
    """Why there is no guarantee at all, if there is none."""
    if not budget.published or budget.on_bits or budget.mechanism == "gradient":
        return ""
    if budget.mechanism == "output":
        return (
            "output perturbation as published has noise for the change of one entry, and one bit may change all of "
            "them (docs/one-bit-attack.md)"
        )
    return (
        "objective perturbation as published for the probit link lacks a Jacobian, has half of the noise that its "
        "proof is about, and holds at an exact optimum only, which no solver finds (docs/proofs/one-bit.md)"
    )


def clarity(budget: Budget) -> float:
    """The root of what is said about x by bits with the noise of gradients, or of a linear term, against true bits.

    At x = 0, derivatives of the loss have the variance of their curvature; noise, the mean over all steps, is on top.
    It is 1 for what was published, and where noise comes after the fit.
    """
    if budget.published or budget.mechanism == "output":
        return 1.0
    noise = budget.additive() if budget.mechanism == "gradient" else perturbed_objective(budget, 1.0).noise()
    spread = float(budget.link.log_slope(np.zeros(1))[0]) ** 2
    return 1 / math.sqrt(1 + variance(noise) / budget.releases / spread)


def planned(budget: Budget) -> tuple[Planned, ...]:
    """The releases of a fit, before any data is touched."""
    if budget.mechanism == "input":
        return (Planned(FLIPPED, budget.response().cost(budget.entries)),)
    if budget.mechanism == "output":
        cost = budget.printed().cost(2 * budget.alpha) if budget.published else budget.share()
        return (Planned(OUTPUT, cost),)
    if not budget.on_bits and budget.mechanism == "objective":
        if not budget.published:
            return perturbed_objective(budget, 1.0).lines()
        return (Planned(LINEAR_TERM, budget.printed().cost(budget.link.sensitivity(budget.alpha))),)
    noise, label = budget.additive(), GRADIENT if budget.mechanism == "gradient" else SHIFTED
    return (Planned(label, noise.cost(budget.two_valued().sensitivity("flip", noise)), budget.releases),)


def noisy_bits(releaser: Releaser, true: TrueBits, budget: Budget) -> FlippedBits | ShiftedBits:
    """The bits as the solver gets them."""
    if budget.mechanism == "input":
        return flipped(releaser, true, budget.response(), budget.entries, budget.link)
    return shifted(releaser, true, budget.two_valued(), budget.additive())


def noisy_matrix(releaser: Releaser, true: TrueBits, budget: Budget, radius: float, alpha: float | None) -> Completed:
    """The matrix of a mechanism that needs the true bits; `alpha` if gradient steps are to keep the entries bounded."""
    with single_threaded_blas():
        if budget.mechanism == "gradient":
            return _descend(releaser, true, budget, radius, alpha)
        if budget.published:
            return _as_printed(releaser, true, budget, radius)
        if budget.mechanism == "objective":
            return perturbed_objective(budget, radius).release(releaser, true)
        fit = StronglyConvex(budget.link, radius, budget.alpha, budget.ridge or OUTPUT_RIDGE)
        bend, change = budget.link.least_bend(budget.alpha), budget.link.sensitivity(budget.alpha)
        statistic = Minimizer(fit.ridge, budget.alpha, change, bend, budget.entries)
        noisy = releaser.release_matrix(OUTPUT, statistic, fit.solve(true, 0.0, statistic.gap))
        return _projected(noisy.values, noisy.std, radius, budget.alpha)


def _descend(releaser: Releaser, true: TrueBits, budget: Budget, radius: float, alpha: float | None) -> Completed:
    """The mean of the later half of the iterates, each after a projected step of length 1 / curvature / step.

    An entry has two clamped derivatives, that of a 1 and that of a 0, both public at a public x; its bit decides which
    it is. Released are the derivatives of all entries, with noise.
    """
    observed, link, noise, rng = true.observed, budget.link, budget.additive(), np.random.default_rng(SEED)
    now, found = Factored.zeros(observed.shape), list[Factored]()
    for step in range(1, budget.steps + 1):
        x = now.at(observed.rows, observed.columns)
        one, zero = (np.clip(s, -budget.clamp, budget.clamp) for s in (-link.log_slope(x), link.log_slope(-x)))
        slopes = releaser.release_entries(GRADIENT, budget.two_valued(one, zero, FINEST), true.bits, noise)
        length = 1 / (link.curvature * step)
        moved = Moved(now, csr_array((-length * slopes, (observed.rows, observed.columns)), shape=observed.shape))
        if alpha is None:
            now = nuclear_ball(moved, radius, now, rng, MAX_RANK)
        else:
            now = intersection(moved.dense(), radius, alpha, precise=1e-4, sweeps=GRADIENT_SWEEPS)[0]
        if 2 * step > budget.steps:
            found.append(now)
    left, right = np.hstack([one.left * one.values for one in found]), np.hstack([one.right for one in found])
    return Completed.of_matrix(Factored.product(left, right, len(found)))


def _projected(noisy: Array, std: float, radius: float, alpha: float) -> Completed:
    """A noisy matrix, projected on the ball and on bounded entries: post-processing.

    Singular values are first lowered by what noise alone has, which is near std (sqrt(d1) + sqrt(d2)).
    """
    left, values, right = np.linalg.svd(noisy, full_matrices=False)
    values = np.maximum(values - ABOVE * std * (math.sqrt(noisy.shape[0]) + math.sqrt(noisy.shape[1])), 0.0)
    matrix = intersection((left * values) @ right, radius, alpha, precise=1e-4, sweeps=OUTPUT_SWEEPS)[0]
    return Completed.of_matrix(matrix)


def _as_printed(releaser: Releaser, true: TrueBits, budget: Budget, radius: float) -> Completed:
    """Two published mechanisms without a guarantee. Not private.

    Eq. (5): the maximum likelihood estimate with -H/2 x in the objective, as the solver finds it. Algorithm 4: the
    maximum likelihood estimate plus noise for a change of 2 alpha in all, which is what one entry can change by; a flip
    may change all of them.
    """
    observed, link, alpha = true.observed, budget.link, budget.alpha
    if budget.mechanism == "objective":
        statistic = AsPrinted(link.sensitivity(alpha))
        linear = releaser.release_entries(LINEAR_TERM, statistic, np.zeros(len(observed)), budget.printed())
        problem = Problem(observed, PerturbedBits(true.bits, link, linear=linear), radius, alpha=alpha)
        found = minimize(problem)
        return Completed.of_matrix(found.matrix, max(found.multiplier(problem), LEAST_PENALTY))
    problem = Problem(observed, FlippedBits(true.bits, link), radius, alpha=alpha, max_rank=MAX_RANK)
    matrix = minimize(problem).matrix.dense()
    noisy = releaser.release_entries(OUTPUT, AsPrinted(2 * alpha), matrix, budget.printed())
    left, values, right = np.linalg.svd(noisy, full_matrices=False)
    return Completed.of_matrix(trimmed(left, values, right.T))


@dataclass(frozen=True)
class PerturbedObjective:
    """The optimum of the loss of true bits + <H, X> + ridge / 2 |X|^2 over feasible X, H being Laplace noise.

    For the probit link: with the logistic link such a term is noise on the bits, and nothing has to be optimal.

    A flip costs `change` / scale of H, since the derivative moves by `change` at most; and `extra`, since the density
    of the optimum also contains the determinant of second derivatives. This is about the exact optimum: the fit is
    released with a little more noise, which hides how far from it the solver stopped. With a `delta` that noise is
    Gaussian, of the same size for any number of entries.
    """

    fit: StronglyConvex
    entries: int
    epsilon: float
    delta: float = 0.0

    @property
    def extra(self) -> float:
        """The largest |log| of the ratio of second derivatives of the two losses, with the ridge."""
        return self.fit.link.log_bends(self.fit.alpha, self.fit.ridge)

    def perturbation(self, size: int = 0) -> LinearPerturbation:
        """The statistic for so many entries."""
        return LinearPerturbation(size, self.fit.link.sensitivity(self.fit.alpha), self.entries, self.extra)

    def noise(self) -> Laplace:
        """The distribution of H."""
        change = self.fit.link.sensitivity(self.fit.alpha)
        left = self.epsilon * (1 - SOLVER) - self.entries * self.extra
        if left <= 0:
            raise PrivacyError(
                f"ridge, alpha: with the probit link the objective mechanism costs {self.entries * self.extra:.3g} of "
                f"epsilon for second derivatives alone, of {self.epsilon:g}; give a larger ridge or a smaller alpha"
            )
        return Laplace(self.entries * change / left * UP_MATRIX)

    def lines(self) -> tuple[Planned, Planned]:
        """The releases: the linear term, which stays secret, and the matrix."""
        noise = self.noise()
        first = noise.cost(self.perturbation().sensitivity("flip", noise))
        left = self.epsilon - first.pure
        if not self.delta:
            return Planned(LINEAR_TERM, first), Planned(OUTPUT, pure_cost(left))
        mu = account(epsilon=left - ROUNDING * self.epsilon, delta=self.delta).mu or 0.0
        return Planned(LINEAR_TERM, first), Plan.gaussian(mu, {OUTPUT: 1.0})[OUTPUT]

    def gap(self, n_observed: int) -> float:
        """The gap at which the fit stops, from public numbers."""
        size = self.fit.alpha * n_observed * (self.fit.link.sensitivity(self.fit.alpha) + self.noise().scale)
        return PRECISION * size

    def release(self, releaser: Releaser, true: TrueBits) -> Completed:
        """The ledger draws the linear term and records its cost. The term itself is never shown."""
        noise, size = self.noise(), len(true.observed)
        linear = releaser.release_entries(LINEAR_TERM, self.perturbation(size), true.bits, noise)
        gap = self.gap(size)
        matrix = self.fit.solve(true, linear, gap)
        noisy = releaser.release_matrix(OUTPUT, PerturbedMinimizer(self.fit.ridge, gap, noise, size), matrix)
        return _projected(noisy.values, noisy.std, self.fit.radius, self.fit.alpha)


def perturbed_objective(budget: Budget, radius: float) -> PerturbedObjective:
    """The objective mechanism with the probit link.

    By default the ridge is so large that the ratio of second derivatives costs EXTRA_COST of an entry's epsilon, and
    at least LEAST_RIDGE.
    """
    ridge = budget.ridge
    if not ridge:
        most, least = budget.link.bend(np.array([-budget.alpha, budget.alpha])).tolist()
        each = budget.epsilon / budget.entries
        ratio = math.exp(EXTRA_COST * each) if each < 100 else math.inf
        ridge = max((most - least * ratio) / (ratio - 1) if math.isfinite(ratio) else 0.0, LEAST_RIDGE)
    fit = StronglyConvex(budget.link, radius, budget.alpha, ridge)
    return PerturbedObjective(fit, budget.entries, budget.epsilon, budget.delta)
