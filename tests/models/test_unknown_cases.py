"""What no sensitivity was derived for never gets the noise of something else."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import discreet
from discreet.errors import DataError, PrivacyError
from discreet.models.als.published import Sigmas
from discreet.models.als.published_training import private_regressions
from discreet.models.private import true_plan
from discreet.privacy import GramSum, Ledger, Plan, ProductSum, Releaser, VectorSum
from discreet.privacy.determinism import require_sound_arithmetic
from discreet.privacy.statistics import normal_equations_sensitivity

PLAN = Plan.gaussian(1.0, {"sums": 1.0})


def vector_sums(adjacency: Any) -> None:
    with Ledger(delta=1e-6).reserve(PLAN) as reservation:
        Releaser(reservation, adjacency, 1).noise("sums", VectorSum(3, 1.0))


def products(adjacency: Any) -> None:
    with Ledger(delta=1e-6).reserve(PLAN) as reservation:
        Releaser(reservation, adjacency, 1).noise("sums", ProductSum(np.eye(3), 1.0))


def published_plan(adjacency: Any) -> None:
    true_plan({"sums": (GramSum(3, 1.0), 1.0, 1)}, adjacency)


def item_step(adjacency: Any) -> None:
    normal_equations_sensitivity(1.0, adjacency)


def published_releases(adjacency: Any) -> None:
    model = discreet.DPALS.as_published(epsilon=1, delta=1e-6, global_penalty=1.0, start="svd", adjacency=adjacency)
    model._shares(Sigmas(1.0, 1.0, 1.0, 1.0))


@pytest.mark.parametrize("place", [vector_sums, products, published_plan, item_step, published_releases])
def test_sensitivities(place: Callable[[Any], None]) -> None:
    for adjacency in ("add-remove", "replace"):
        place(adjacency)
    for adjacency in ("flip", "swap", None):
        with pytest.raises(PrivacyError, match="adjacency: the sensitivity is proved for 'add-remove', 'replace'"):
            place(adjacency)


@pytest.mark.parametrize("kind", [discreet.DPALS, discreet.DPSVD, discreet.DPFrankWolfe, discreet.DPSGD])
def test_models(kind: Any) -> None:
    ratings = discreet.datasets.movielens_like(30, 10, 200, random_state=0)
    with pytest.raises(PrivacyError, match="adjacency"):
        kind(epsilon=1, delta=1e-6, adjacency="flip").fit(ratings)


def test_mechanisms_of_one_bit() -> None:
    for unknown in ("", "outputs"):
        with pytest.raises(DataError, match="mechanism: one of 'input', 'objective', 'gradient', 'output', None"):
            discreet.OneBit(unknown, epsilon=1.0).plan(1)  # type: ignore[arg-type]
    with pytest.raises(PrivacyError, match="mechanism: without one there is no privacy"):
        discreet.OneBit(None, epsilon=1.0).plan(1)
    for mechanism in ("input", "objective", "gradient", "output"):
        with pytest.raises(DataError, match="link: one of 'logistic', 'probit'"):
            discreet.OneBit(mechanism, "cauchy", epsilon=1.0).plan(1)  # type: ignore[arg-type]
        for link, published in itertools.product(("logistic", "probit"), ("exact", "published")):
            made = discreet.OneBit(mechanism, link, epsilon=5.0, calibration=published)  # type: ignore[arg-type]
            unproved = published == "published" and (mechanism, link) in UNPROVED
            assert bool(made._mechanism().why_not) == unproved


UNPROVED = {("objective", "probit"), ("output", "logistic"), ("output", "probit")}


def test_losses() -> None:
    with pytest.raises(DataError, match="loss: one of 'squared', 'logistic' is needed, not 'hinge'"):
        discreet.DPFrankWolfe(epsilon=1, delta=1e-6, loss="hinge").plan(10)  # type: ignore[arg-type]


def test_arrays_are_refused_where_bits_depend_on_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """As tables are: a person's numbers would depend on who comes before them."""
    require_sound_arithmetic.cache_clear()
    monkeypatch.setattr("discreet.privacy.determinism.address_dependent", lambda: ("solve",))
    rows, ledger = np.ones((20, 3)), Ledger(delta=1e-6, notion="dp")
    with pytest.raises(PrivacyError, match="other bits for other memory addresses"):
        discreet.DPPCA(1, epsilon=1, delta=1e-6, row_norm=1).fit(rows, ledger=ledger)
    with pytest.raises(PrivacyError, match="other bits for other memory addresses"):
        clips: dict[str, Any] = {"feature_clip": 1.0, "target_clip": 1.0, "max_targets": 1}
        private_regressions(rows, rows, epsilon=1, delta=1e-6, ledger=ledger, **clips)
    assert len(ledger.entries) == 1
