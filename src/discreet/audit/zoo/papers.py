"""Published errors in guarantees, as they would be in this library (docs/proofs has what is right)."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import numpy as np

from discreet.audit.patching import patched
from discreet.audit.zoo.bounds import together
from discreet.audit.zoo.mutant import Mutant, Patch
from discreet.models import eigen
from discreet.models.als import calibration
from discreet.models.frank_wolfe.estimate import COVARIANCE
from discreet.models.one_bit.mechanisms import PerturbedObjective
from discreet.models.spectral.model import SECOND_MOMENT
from discreet.privacy import ProductSum, Releaser, releaser, statistics, truncate
from discreet.privacy.entries import TwoValued


def _undercharged(factors: dict[str, float]) -> Patch:
    """The sensitivity of some releases is taken to be smaller than it is; contributions stay as long as they are."""
    real = Releaser._calibrated

    def calibrated(self: Releaser, label: str, statistic: Any) -> Any:
        sensitivity = real(self, label, statistic)[0] * factors.get(label, 1.0)
        return sensitivity, self.reservation.plan.noise(label, sensitivity=sensitivity, symmetric=statistic.symmetric)

    return patched(Releaser, _calibrated=calibrated)


def _one_of_two_releases() -> Patch:
    """Theorem 1: of a Gram matrix and a right-hand side, one is charged."""
    modules = calibration, statistics
    return together(*(patched(module, normal_equations_sensitivity=lambda *given: 1.0) for module in modules))


def _unnormalised_start() -> Patch:
    """v0 ~ N(0, I), as it comes, and no clip of products, which the proof has no need of if |v| = 1."""
    start = eigen.start

    def loosely(rows: Any, *, bound: float, **given: Any) -> Any:
        return truncate(rows, bound=4 * bound, **given)

    return together(
        patched(ProductSum, __post_init__=lambda self: None),
        patched(statistics, truncate=loosely),
        patched(eigen, start=lambda size, *given: start(size, *given) * np.sqrt(size)),
    )


def _half_of_a_gradient() -> Patch:
    """Noise for C, where a flip moves a clamped derivative by 2 C."""
    real = TwoValued.sensitivity
    return patched(TwoValued, sensitivity=lambda self, *given: real(self, *given) / 2)


def _no_second_derivatives() -> Patch:
    """The density of an optimum is taken to be that of its tilt."""
    return patched(PerturbedObjective, extra=0.0)


def _unsaid() -> Patch:
    """What was published without a guarantee that holds is said to have it."""
    from discreet.models.one_bit import mechanisms

    return together(patched(mechanisms, broken=lambda budget: ""), patched(releaser, AsPrinted=()))


@cache
def _two_groups(flipped: tuple[int, ...]) -> Any:
    """Two groups of people with a taste of their own, and one bit that says whether it is the same."""
    import discreet

    rows = [(user, item, 1.0) for user in range(16) for item in range(16) if user // 8 == item // 8]
    rows.append((0, 8, -1.0 if flipped else 1.0))
    return discreet.read(rows, items=list(range(16)), value_range=(-1, 1))


ONE_RATING = {item: 5.0 * (item % 2) for item in range(20)}
MUTANTS = [
    Mutant(
        "missing factor 2",
        "an item step releases two statistics of a user, and one is charged",
        "DPALS 2021, Theorem 1",
        "PublishedDPALS, Algorithm 1, add-remove",
        _one_of_two_releases,
    ),
    Mutant(
        "mean charged sqrt k",
        "a sum of k ratings moves by k, not by sqrt k",
        "DPALS 2021, section 5.2",
        "PublishedDPALS, add-remove",
        partial(_undercharged, {calibration.MEAN: 120**-0.5}),
    ),
    Mutant(
        "noisy start of one rating",
        "a row of k ratings has the square k, not 1",
        "DPALS 2021, Remark 2",
        "PublishedDPALS, Algorithm 1, add-remove",
        partial(_undercharged, {calibration.START: 1 / 120}),
    ),
    Mutant(
        "residuals as long as rows",
        "residuals grow to twice the length of a row",
        "Frank-Wolfe, if L is charged for 2 L",
        "PublishedDPFrankWolfe, add-remove",
        partial(_undercharged, {COVARIANCE: 1 / 4}),
    ),
    Mutant(
        "eps_entry = eps_user / xi",
        "one rating of 80 moves a second moment by far more than an 80th of the row",
        "Frank-Wolfe 2018, discussion",
        "DPSVD of ratings, replace",
        partial(_undercharged, {SECOND_MOMENT: 1 / 80}),
        pairs=[(ONE_RATING, {**ONE_RATING, 3: 0.0})],
    ),
    Mutant(
        "unnormalised Oja start",
        "a product with a vector that is not of length 1 is not bounded by the row",
        "Frank-Wolfe 2018, Algorithm 2",
        "DPPCA by Oja's method, add-remove",
        _unnormalised_start,
        pairs=[(eigen.start(12, 1)[:, 0], None)],
    ),
    Mutant(
        "gradients charged C",
        "a flip moves a clamped derivative from -C to C",
        "one-bit completion 2021, GraP",
        "OneBit, gradient, flip",
        _half_of_a_gradient,
    ),
    Mutant(
        "output perturbation",
        "the noise is for one entry, and one bit moves all of them",
        "one-bit completion 2021, OutP",
        "OneBit, output, flip",
        _unsaid,
        pairs=[((1,), ())],
        world=_two_groups,
        params=(
            ("noise", "laplace"),
            ("delta", 0.0),
            ("epsilon", 1.0),
            ("calibration", "published"),
            ("ridge", None),
            ("tau", None),
        ),
    ),
    Mutant(
        "probit without its Jacobian",
        "the optimum's density has the ratio of second derivatives in it",
        "one-bit completion 2021, ObjP",
        "OneBit, objective, flip",
        _unsaid,
        params=(("link", "probit"), ("calibration", "published")),
    ),
    Mutant(
        "probit without its Jacobian, at a certified optimum",
        "with all else mended, a bit costs more than its tilt by what second derivatives differ by",
        "one-bit completion 2021, ObjP",
        "OneBit, probit objective, flip",
        _no_second_derivatives,
    ),
]
