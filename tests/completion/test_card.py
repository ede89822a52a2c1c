"""A card's code path, with torch on the processor in the card's place: the same model as NumPy gives."""

from typing import Any

import numpy as np
import pytest

import discreet
from discreet.datasets import movielens_like
from discreet.errors import MissingExtra
from discreet.linalg import torch_arrays
from discreet.linalg.torch_arrays import TorchArrays
from discreet.testing import InsecureSeededNoise


@pytest.fixture(scope="module")
def processor() -> TorchArrays:
    try:
        return TorchArrays("cpu")
    except MissingExtra as reason:
        pytest.skip(f"torch is not available: {reason}")


@pytest.fixture
def card(processor: TorchArrays, monkeypatch: pytest.MonkeyPatch) -> TorchArrays:
    monkeypatch.setattr(torch_arrays, "card", lambda device: processor)
    return processor


RATINGS = movielens_like(300, 80, 12_000)
LIKED = RATINGS.to_implicit(4)


def published(device: str, ratings: Any, **settings: Any) -> Any:
    model = discreet.DPALS.as_published(
        **{
            "epsilon": 20,
            "delta": 1e-6,
            "rank": 5,
            "n_steps": 3,
            "item_fraction": 0.8,
            "regularization": 2,
            **settings,
        },
        device=device,
    )
    return model.fit(ratings, ledger=discreet.Ledger(delta=1e-6, noise_source=InsecureSeededNoise(3)))


@pytest.mark.parametrize("sampling", ["adaptive", "uniform", "weights"])
@pytest.mark.parametrize("project_first", [False, True])
def test_published_is_the_same(card: TorchArrays, sampling: str, project_first: bool) -> None:
    settings = {"sampling": sampling, "project_first": project_first, "entry_clip": 5.0}
    here, there = (published(device, RATINGS, **settings) for device in ("cpu", "cuda"))
    np.testing.assert_allclose(here.item_factors_, there.item_factors_, atol=1e-6)
