"""Two mechanisms as published in 2021 that have no guarantee. Not private."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtr

from discreet.models.one_bit.contributions import LINEAR_TERM, OUTPUT, Mechanism, TrueBits
from discreet.models.one_bit.estimate import LEAST_PENALTY, MAX_RANK, Completed, Problem, minimize
from discreet.models.one_bit.likelihood import FlippedBits
from discreet.models.one_bit.matrices import trimmed
from discreet.privacy import Laplace, Planned, Releaser
from discreet.privacy.entries import AsPrinted
from discreet.typing import Array


@dataclass(frozen=True)
class PerturbedBits(FlippedBits):
    """-log P(bit | x) + linear x, for true bits."""

    linear: Array = field(kw_only=True)

    def __call__(self, x: Array) -> tuple[float, Array]:
        value, slopes = super().__call__(x)
        return value + float(self.linear @ x), slopes + self.linear


class PublishedObjective(Mechanism):
    """Eq. (5) with the probit link: the maximum likelihood estimate with -H/2 x in the objective, as a solver finds it.

    The noise is half of what Theorem 2 requires, because Eq. (5) multiplies it by a half; the published sensitivity is
    2 h'(0) / h(-alpha).
    """

    why_not = (
        "objective perturbation as published for the probit link lacks a Jacobian, has half of the noise that its "
        "proof is about, and holds at an exact optimum only, which no solver finds (docs/proofs/one-bit.md)"
    )

    def _noise(self) -> Laplace:
        change = 2 * self.link.slope / float(ndtr(-self.alpha / self.link.sigma))
        return Laplace(change / (2 * self.epsilon))

    def lines(self) -> tuple[Planned, ...]:
        return (Planned(LINEAR_TERM, self._noise().cost(self.link.sensitivity(self.alpha))),)

    def noisy_matrix(
        self, releaser: Releaser, true: TrueBits, radius: float, alpha: float | None, base: Array | float = 0.0
    ) -> Completed:
        statistic = AsPrinted(self.link.sensitivity(self.alpha))
        linear = releaser.release_entries(LINEAR_TERM, statistic, np.zeros(len(true.observed)), self._noise())
        loss = PerturbedBits(true.bits, self.link, linear=linear)
        problem = Problem(true.observed, loss, radius, alpha=self.alpha)
        found = minimize(problem)
        return Completed.of_matrix(found.matrix, max(found.multiplier(problem), LEAST_PENALTY))


class PublishedOutput(Mechanism):
    """Algorithm 4: the maximum likelihood estimate, with noise for a change of one entry. A flip may change all."""

    why_not = (
        "output perturbation as published has noise for the change of one entry, and one bit may change all of "
        "them (docs/one-bit-attack.md)"
    )

    def _noise(self) -> Laplace:
        return Laplace(2 * self.alpha / self.epsilon)

    def lines(self) -> tuple[Planned, ...]:
        return (Planned(OUTPUT, self._noise().cost(2 * self.alpha)),)

    def noisy_matrix(
        self, releaser: Releaser, true: TrueBits, radius: float, alpha: float | None, base: Array | float = 0.0
    ) -> Completed:
        loss = FlippedBits(true.bits, self.link)
        problem = Problem(true.observed, loss, radius, alpha=self.alpha, max_rank=MAX_RANK)
        matrix = minimize(problem).matrix.dense()
        noisy = releaser.release_entries(OUTPUT, AsPrinted(2 * self.alpha), matrix, self._noise())
        left, values, right = np.linalg.svd(noisy, full_matrices=False)
        return Completed.of_matrix(trimmed(left, values, right.T))
