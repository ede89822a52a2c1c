"""An adjacency that no sensitivity was derived for never gets another one's noise."""

from collections.abc import Callable
from typing import Any

import pytest

import discreet
from discreet.completion.als.calibration import Schedule, Sigmas, step_sensitivity
from discreet.completion.door import Door
from discreet.completion.spectral.calibration import true_plan
from discreet.completion.spectral.eigen import Products
from discreet.errors import PrivacyError
from discreet.privacy import Ledger, Plan

PLAN = Plan.gaussian(1.0, {"sums": 1.0})


def door_noise(adjacency: Any) -> None:
    with Ledger(delta=1e-6).reserve(PLAN) as reservation:
        Door(reservation, adjacency, 1).noise("sums", 1.0, aligned=True)


def products(adjacency: Any) -> None:
    with Ledger(delta=1e-6).reserve(PLAN) as reservation:
        Products(Door(reservation, adjacency, 1), lambda: iter(()), lambda part: part, 3, 1.0)._calibrated("sums", 1)


def published_plan(adjacency: Any) -> None:
    true_plan({"sums": (1.0, True, 1.0, 1)}, adjacency)


def item_step(adjacency: Any) -> None:
    step_sensitivity(1.0, adjacency)


def schedule(adjacency: Any) -> None:
    on = {"preprocess": True, "center": True, "global_gram": True, "svd_start": True, "gradients": 1}
    Schedule(k=2, steps=1, adjacency=adjacency, **on).releases(Sigmas(1.0, 1.0, 1.0, 1.0))  # type: ignore[arg-type]


@pytest.mark.parametrize("place", [door_noise, products, published_plan, item_step, schedule])
def test_sensitivities(place: Callable[[Any], None]) -> None:
    for adjacency in ("add-remove", "replace"):
        place(adjacency)
    for adjacency in ("flip", "swap", None):
        with pytest.raises(PrivacyError, match="adjacency: the sensitivity is proved for 'add-remove', 'replace', not"):
            place(adjacency)


@pytest.mark.parametrize("kind", [discreet.DPALS, discreet.DPSVD, discreet.DPFrankWolfe, discreet.DPSGD])
def test_models(kind: Any) -> None:
    ratings = discreet.datasets.movielens_like(30, 10, 200, random_state=0)
    with pytest.raises(PrivacyError, match="adjacency"):
        kind(epsilon=1, delta=1e-6, adjacency="flip").fit(ratings)
