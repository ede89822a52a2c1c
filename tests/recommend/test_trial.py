"""Before a private model serves: what is tried out on this machine, and what is refused."""

import os
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import discreet
from discreet.errors import PrivacyError
from discreet.linalg.arrays import NumpyArrays
from discreet.models.base import DERIVED
from discreet.recommend import trial
from discreet.testing import InsecureSeededNoise

RATINGS = discreet.datasets.movielens_like(200, 60, 6000, random_state=0)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A private model that has not served anyone, in a process that has tried nothing."""
    monkeypatch.setattr(trial, "_sound", set())
    ledger = discreet.Ledger(delta=1e-6, noise_source=InsecureSeededNoise(0))
    return discreet.DPALS(epsilon=20, delta=1e-6).fit(RATINGS, ledger=ledger)


def mixed_products(self: NumpyArrays, vectors: Any, tiles: Any, out: Any) -> None:
    """Products that depend, a little, on who is there."""
    whole = vectors @ tiles + 1e-6 * np.abs(vectors).sum(dtype=np.float32)
    out[:] = whole.swapaxes(0, 1).reshape(out.shape)


def misplaced_products(self: NumpyArrays, vectors: Any, tiles: Any, out: Any) -> None:
    """Products whose last rows are rounded in another way."""
    out[:] = (vectors @ tiles).swapaxes(0, 1).reshape(out.shape)
    out[self.tile[0] - 1 :: self.tile[0]] *= np.float32(1 + 2**-22)


def mixed_solutions(self: NumpyArrays, A: Any, b: Any, whole: Any) -> Any:
    x = np.linalg.solve(A, b[..., None])[..., 0]
    return x + 1e-6 * len(x)


@pytest.mark.parametrize(
    ("method", "replaced"),
    [("multiply", mixed_products), ("multiply", misplaced_products), ("solve_spd", mixed_solutions)],
)
@pytest.mark.parametrize("ask", ["recommend", "predict", "embed", "explain"])
def test_a_machine_whose_bits_depend_on_others_is_refused(
    model: Any, ask: str, method: str, replaced: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = RATINGS.history(RATINGS.users[0])
    asked: dict[str, Any] = {
        "recommend": lambda model: model.recommend(history),
        "predict": lambda model: model.predict(history, list(history)),
        "embed": lambda model: model.embed(history),
        "explain": lambda model: model.explain(history, RATINGS.items[0]),
    }
    public = discreet.ALS(4, n_steps=1).fit(RATINGS)
    with monkeypatch.context() as patched:
        patched.setattr(NumpyArrays, method, replaced)
        for _ in range(2):  # a refusal is not forgotten
            with pytest.raises(PrivacyError, match=r"gives a person other bits .* OPENBLAS_CORETYPE"):
                asked[ask](model)
        asked[ask](public)  # which promises nothing
    asked[ask](model)


def test_it_is_tried_once_for_each_kind(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []
    real = trial._multiplies
    monkeypatch.setattr(trial, "_multiplies", lambda *given: tried.append(1) or real(*given))
    for _ in range(2):
        model.recommend({})
        pickle.loads(pickle.dumps(model)).recommend(RATINGS)
    assert len(tried) == 1


def test_a_copy_is_tried_where_it_arrives(model: Any) -> None:
    model.recommend(RATINGS)
    assert set(DERIVED) <= set(vars(model))
    assert not set(DERIVED) & set(vars(pickle.loads(pickle.dumps(model))))


def test_a_small_catalogue() -> None:
    rows = [(user, 0) for user in range(30)]
    data = discreet.read(rows, items=[0])
    ledger = discreet.Ledger(delta=1e-6, noise_source=InsecureSeededNoise(0))
    model = discreet.DPSVD(epsilon=5, delta=1e-6).fit(data, ledger=ledger)
    assert model.recommend([], n=3).items == [0]


PEELS = """
import numpy as np
from discreet.models.fold_in import RidgeFoldIn
from discreet.models.ridge import Penalty
from discreet.data.catalogue import Catalogue
from discreet.recommend.trial import require_same_bits_served
columns = np.random.default_rng(0).standard_normal((60, 33))
fold_in = RidgeFoldIn(columns=columns, base=np.zeros(60), penalty=Penalty(1.0))
require_same_bits_served(fold_in, Catalogue(range(60)), (1.0, 5.0))
"""


def test_a_kernel_that_peels_is_refused() -> None:
    """An old kernel, which OpenBLAS can be told to use, treats unaligned numbers apart."""
    environment = {**os.environ, "OPENBLAS_CORETYPE": "Sandybridge"}
    command = [sys.executable, "-c", PEELS]
    found = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if not found.returncode:
        pytest.skip("this BLAS is not an OpenBLAS with that kernel, or the kernel does not depend on addresses")
    assert "gives a person other bits" in found.stderr
