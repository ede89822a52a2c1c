"""The objective mechanism with the probit link: a random linear term, and the optimum that goes with it.

With the logistic link such a term is noise on the bits (`mechanisms.shifted`) and nothing has to be optimal. With the
probit link it is not: what is released is the optimum itself, a function of the true bits and of a secret tilt.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from discreet.errors import PrivacyError
from discreet.linalg.threads import single_threaded_blas
from discreet.models.one_bit.certified import PRECISION, StronglyConvex
from discreet.models.one_bit.contributions import TrueBits
from discreet.models.one_bit.fitting import Completed, Effects
from discreet.models.one_bit.likelihood import TiltedBits
from discreet.models.one_bit.links import Link
from discreet.models.one_bit.outputs import OUTPUT, projected
from discreet.models.one_bit.solver import Problem, minimise
from discreet.privacy import Laplace, Plan, Planned, Releaser
from discreet.privacy.entries import UP_MATRIX, AsPrinted, LinearPerturbation, PerturbedMinimizer, pure_cost
from discreet.privacy.guarantee import account

TILT = "linear term of the objective"
SOLVER = 0.05  # of epsilon, for hiding how far from the optimum the solver stops
ROUNDING = 1e-3  # of epsilon, for what accountants of two kinds of noise lose
EXTRA = 0.25  # of epsilon, what the ratio of second derivatives may cost if the ridge is not given
LEAST_RIDGE = 0.5  # if it is not given


def usual_ridge(link: Link, alpha: float, epsilon: float) -> float:
    """The ridge at which the ratio of second derivatives costs EXTRA of an entry's epsilon; LEAST_RIDGE at least."""
    most, least = link.bend(np.array([-alpha, alpha])).tolist()
    ratio = math.exp(EXTRA * epsilon) if epsilon < 100 else math.inf
    return max((most - least * ratio) / (ratio - 1) if math.isfinite(ratio) else 0.0, LEAST_RIDGE)


@dataclass(frozen=True)
class Tilted:
    """argmin over the ball and the box of the loss of true bits + <H, X> + ridge / 2 |X|^2, H being Laplace noise.

    A flip costs `change` / scale of H, for the derivative moves by `change` at most; and `extra`, for the density of
    the optimum also has the determinant of second derivatives in it. This is said of the optimum: the fit is released
    with a little noise more, which hides how far from it the solver stopped.

    Attributes:
        fit: The constraints, the ridge and the link.
        entries: How many bits may change.
        epsilon: Of both releases together.
        delta: For the noise on the matrix. With one it is Gaussian, of the same size however many entries there are.
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
        """The random term for so many entries."""
        return LinearPerturbation(size, self.fit.link.sensitivity(self.fit.alpha), self.entries, self.extra)

    def noise(self) -> Laplace:
        """The law of H."""
        change = self.fit.link.sensitivity(self.fit.alpha)
        left = self.epsilon * (1 - SOLVER) - self.entries * self.extra
        if left <= 0:
            raise PrivacyError(
                f"ridge, alpha: with the probit link the objective mechanism costs {self.entries * self.extra:.3g} of "
                f"epsilon for second derivatives alone, of {self.epsilon:g}; give a larger ridge or a smaller alpha"
            )
        return Laplace(self.entries * change / left * UP_MATRIX)

    def lines(self) -> tuple[Planned, Planned]:
        """What is released: the tilt, which stays secret, and the matrix."""
        noise = self.noise()
        first = noise.cost(self.perturbation().sensitivity("flip", noise))
        left = self.epsilon - first.pure
        if not self.delta:
            return Planned(TILT, first), Planned(OUTPUT, pure_cost(left))
        mu = account(epsilon=left - ROUNDING * self.epsilon, delta=self.delta).mu or 0.0
        return Planned(TILT, first), Plan.gaussian(mu, {OUTPUT: 1.0})[OUTPUT]

    def gap(self, observed: int) -> float:
        """At which the fit stops: from what is public."""
        size = self.fit.alpha * observed * (self.fit.link.sensitivity(self.fit.alpha) + self.noise().scale)
        return PRECISION * size

    def release(self, releaser: Releaser, true: TrueBits) -> Completed:
        """The tilt is drawn by the ledger, where its cost is recorded, and is never told to anybody."""
        noise, size = self.noise(), len(true.cells)
        tilt = releaser.release_entries(TILT, self.perturbation(size), true.bits, noise)
        gap = self.gap(size)
        with single_threaded_blas():
            matrix = self.fit.solve(true, tilt, gap)
            noisy = releaser.release_matrix(OUTPUT, PerturbedMinimizer(self.fit.ridge, gap, noise, size), matrix)
            return projected(noisy.values, noisy.std, self.fit.radius, self.fit.alpha)


def printed_change(link: Link, alpha: float) -> float:
    """The sensitivity that was published for the probit link: 2 h'(0) / h(-alpha)."""
    return 2 * link.slope / float(ndtr(-alpha / link.sigma))


def as_printed(
    releaser: Releaser, true: TrueBits, noise: Laplace, *, link: Link, radius: float, alpha: float
) -> Completed:
    """Eq. (5): the maximum likelihood estimate with -H/2 x in the objective, as the solver finds it. Not private."""
    nothing = np.zeros(len(true.cells))
    tilt = releaser.release_entries(TILT, AsPrinted(link.sensitivity(alpha)), nothing, noise)
    with single_threaded_blas():
        problem = Problem(true.cells, TiltedBits(true.bits, link, tilt=tilt), radius, alpha=alpha)
        found = minimise(problem)
    return Completed(Effects.none(true.cells.shape), found.matrix, max(found.multiplier(problem), 1e-3))
