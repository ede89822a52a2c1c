"""Published errors in guarantees, as they would be in this library (docs/proofs has what is right)."""

from __future__ import annotations

from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np

from discreet.audit.zoo.mutant import Patch, mutant, together, wrapping
from discreet.data.readers import read
from discreet.models import eigen
from discreet.models.als import calibration
from discreet.models.frank_wolfe.estimate import COVARIANCE
from discreet.models.one_bit.contributions import PerturbedObjective
from discreet.models.one_bit.published import PublishedObjective, PublishedOutput
from discreet.models.spectral.model import SECOND_MOMENT
from discreet.privacy import ProductSum, Releaser, releaser, statistics, truncate
from discreet.privacy.entries import TwoValued

ALS, ALGORITHM_1 = "PublishedDPALS, add-remove", "PublishedDPALS, Algorithm 1, add-remove"
GRADIENT = "OneBit, gradient, flip"
DIVIDED = {item: 5.0 * (item % 2) for item in range(20)}


def _undercharged(label: str, factor: float) -> Patch:
    """The sensitivity of a release is taken to be smaller than it is; contributions stay as long as they are."""
    real = Releaser._calibrated

    def calibrated(self: Releaser, name: str, statistic: Any) -> Any:
        sensitivity = real(self, name, statistic)[0] * (factor if name == label else 1.0)
        return sensitivity, self.reservation.plan.noise(name, sensitivity=sensitivity, symmetric=statistic.symmetric)

    return patch.object(Releaser, "_calibrated", calibrated)


@mutant("missing factor 2", "DPALS 2021, Theorem 1", ALGORITHM_1)
def one_of_two_releases() -> Patch:
    """An item step releases a Gram matrix and a right-hand side, and one is charged."""
    modules = calibration, statistics
    return together(*(patch.object(one, "normal_equations_sensitivity", lambda *given: 1.0) for one in modules))


@mutant("mean charged sqrt k", "DPALS 2021, section 5.2", ALS)
def mean_charged_sqrt_k() -> Patch:
    """A sum of k ratings moves by k, not by sqrt k."""
    return _undercharged(calibration.MEAN, 120**-0.5)


@mutant("noisy start of one rating", "DPALS 2021, Remark 2", ALGORITHM_1)
def start_of_one_rating() -> Patch:
    """A row of k ratings has the square k, not 1."""
    return _undercharged(calibration.START, 1 / 120)


@mutant("residuals as long as rows", "Frank-Wolfe, if L is charged for 2 L", "PublishedDPFrankWolfe, add-remove")
def residuals_as_rows() -> Patch:
    """Residuals grow to twice the length of a row."""
    return _undercharged(COVARIANCE, 1 / 4)


@mutant(
    "eps_entry = eps_user / xi",
    "Frank-Wolfe 2018, discussion",
    "DPSVD of ratings, replace",
    pairs=[(DIVIDED, {**DIVIDED, 3: 0.0})],
)
def one_of_eighty() -> Patch:
    """One rating of 80 moves a second moment by far more than an 80th of the row."""
    return _undercharged(SECOND_MOMENT, 1 / 80)


@mutant(
    "unnormalized Oja start",
    "Frank-Wolfe 2018, Algorithm 2",
    "DPPCA by Oja's method, add-remove",
    pairs=[(eigen.start(12, 1)[:, 0], None)],
)
def unnormalized_start() -> Patch:
    """A product with v ~ N(0, I), whose length is not 1, is not bounded by the row."""
    start = eigen.start

    def loosely(rows: Any, *, bound: float, **given: Any) -> Any:
        return truncate(rows, bound=4 * bound, **given)  # with |v| = 1 no clip of products is needed

    return together(
        patch.object(ProductSum, "__post_init__", lambda self: None),
        patch.object(statistics, "truncate", loosely),
        patch.object(eigen, "start", lambda size, *given: start(size, *given) * np.sqrt(size)),
    )


@mutant("gradients charged C", "one-bit completion 2021, GraP", GRADIENT, wrapping(TwoValued, "sensitivity"))
def half_of_a_gradient(real: Any, *given: Any) -> float:
    """A flip moves a clamped derivative from -C to C, by 2 C."""
    return float(real(*given)) / 2


def _unsaid() -> Patch:
    """What was published without a valid guarantee claims to have it."""
    unsaid = (patch.object(kind, "why_not", "") for kind in (PublishedObjective, PublishedOutput))
    return together(*unsaid, patch.object(releaser, "AsPrinted", ()))


@cache
def _two_groups(flipped: tuple[int, ...]) -> Any:
    """Two groups of users, each with one taste, and one bit that says whether the tastes are the same."""
    rows = [(user, item, 1.0) for user in range(16) for item in range(16) if user // 8 == item // 8]
    rows.append((0, 8, -1.0 if flipped else 1.0))
    return read(rows, items=list(range(16)), value_range=(-1, 1))


@mutant(
    "output perturbation",
    "one-bit completion 2021, OutP",
    "OneBit, output, flip",
    pairs=[((1,), ())],
    world=_two_groups,
    params={
        "noise": "laplace", "delta": 0.0, "epsilon": 1.0, "calibration": "published", "ridge": None, "tau": None,
    },
)  # fmt: skip
def output_perturbation() -> Patch:
    """The noise is for one entry, and one bit moves all of them."""
    return _unsaid()


@mutant(
    "probit without its Jacobian",
    "one-bit completion 2021, ObjP",
    "OneBit, objective, flip",
    params={"link": "probit", "calibration": "published"},
)
def probit_as_printed() -> Patch:
    """The density of the optimum contains the ratio of second derivatives."""
    return _unsaid()


@mutant(
    "probit without its Jacobian, at a certified optimum",
    "one-bit completion 2021, ObjP",
    "OneBit, probit objective, flip",
)
def no_second_derivatives() -> Patch:
    """With all else mended, a bit costs more than its linear perturbation, by the ratio of second derivatives."""
    return patch.object(PerturbedObjective, "extra", 0.0)
