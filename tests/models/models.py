"""A model that is as much of one as saving needs, and ways to tamper with what was saved of it."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import safetensors.numpy
from sklearn.base import BaseEstimator

from discreet import Catalogue, Gaussian, Ledger, Statement
from discreet.errors import DataError, DiscreetError, ModelError, PrivacyError
from discreet.models import storage
from discreet.models.storage import load
from discreet.privacy.statement import _digest

NAMES = ["factors.safetensors", "items.parquet", "model.json"]


@cache
def certificate(std: float) -> Statement:
    ledger = Ledger(epsilon=1, delta=1e-6)
    ledger.release(np.array([5, 3]), 1, Gaussian(std), "clicks")
    return ledger.statement(title="A shop", public_inputs={"catalogue": "given"})


class Fake(BaseEstimator):
    """As much of a model as saving needs."""

    _ARRAYS: tuple[str, ...] = ("item_factors_", "item_bias_", "counts_")
    _VALUES: tuple[str, ...] = ("value_range_", "implicit_", "note_", "history_")

    def __init__(
        self, rank: int = 2, solver: str = "exact", weights: Any = (1.0, 0.5), random_state: Any = None
    ) -> None:
        self.rank = rank
        self.solver = solver
        self.weights = weights
        self.random_state = random_state

    def fit(self, ids: Any, columns: pa.Table | None = None, *, seed: int = 0, std: float = 20.0) -> "Fake":
        rng = np.random.default_rng(seed)
        self.catalogue_ = Catalogue(ids, columns)
        self.item_factors_ = rng.standard_normal((len(self.catalogue_), self.rank)).astype(np.float32)
        self.item_bias_ = rng.standard_normal(len(self.catalogue_))
        self.counts_ = rng.integers(0, 1 << 60, len(self.catalogue_))
        self.value_range_ = (0.5, 5.0)
        self.implicit_ = False
        self.note_ = "größer als 1½ \ud800"
        self.history_ = [1, 2.5, None, ["a", True], (3, ())]
        self.user_factors_ = np.full((7, self.rank), 123456789.0)  # which nobody may ever find in a file
        self._certificate = certificate(std)
        self.guarantee_ = self._certificate.guarantee
        return self

    def statement(self) -> Statement:
        return self._certificate

    @classmethod
    def _restored(
        cls, params: dict[str, Any], arrays: dict[str, Any], values: dict[str, Any], catalogue: Any, statement: Any
    ) -> "Fake":
        model = cls(**params)
        for name, value in (*arrays.items(), *values.items()):
            setattr(model, name, value)
        model.catalogue_, model._certificate, model.guarantee_ = catalogue, statement, statement.guarantee
        if model.item_factors_.shape != (len(catalogue), model.rank) or model.item_factors_.dtype != np.float32:
            raise ValueError(f"item_factors_: has the shape {model.item_factors_.shape}")
        if model.item_bias_.shape != (len(catalogue),):
            raise DataError("item_bias_: one for each item is needed")
        return model


class Other(Fake):
    """Another registered class."""


REGISTRY = {"Fake": __name__, "Other": __name__}


TITLES = pa.table({"title": ["Å", "B", None], "genres": [["x", "y"], [], None], "year": [1999, None, 2001]})


def fitted(seed: int = 0, **params: Any) -> Fake:
    return Fake(**params).fit(["a", "b", "c"], TITLES, seed=seed)


def same(left: Any, right: Any) -> bool:
    return bool(
        type(left) is type(right)
        and left.get_params() == right.get_params()
        and all(np.array_equal(getattr(left, n), getattr(right, n)) for n in left._ARRAYS)
        and all(getattr(left, n).dtype == getattr(right, n).dtype for n in left._ARRAYS)
        and all(getattr(left, n) == getattr(right, n) for n in left._VALUES)
        and left.catalogue_ == right.catalogue_
        and left.catalogue_.origin == right.catalogue_.origin
        and left.guarantee_ == right.guarantee_
        and left.statement().json() == right.statement().json()
    )


def refused(folder: Path, file: str | None = None, reason: str = ".", kind: type[Exception] = DiscreetError) -> str:
    """The reason, which names the file: any other exception fails the test."""
    with pytest.raises(kind, match=reason) as caught:
        load(folder)
    message = str(caught.value)
    assert isinstance(caught.value, ModelError | PrivacyError)
    assert str(folder / file if file else folder) in message
    assert len(message) > len(str(folder)) + 15
    return message


def loaded_or_refused(folder: Path) -> Any:
    """The model, or None if it is refused by name: any other exception fails the test."""
    try:
        return load(folder)
    except (ModelError, PrivacyError) as error:
        if str(folder) not in str(error):
            raise
    return None


def edit(folder: Path, change: Callable[[dict[str, Any]], object], *, text: Callable[[str], str] = str) -> None:
    """Change model.json, with all digests made right again."""
    document = json.loads((folder / "model.json").read_text())
    change(document)
    document["digest"] = storage._digest(document)
    (folder / "model.json").write_text(text(json.dumps(document, indent=2)) + "\n")


def forged(model: Fake) -> Statement:
    """A certificate of a smaller epsilon, with its own digest made right again."""
    content = json.loads(model.statement().json())
    cheaper(content)
    return Statement(content)


def cheaper(certificate: dict[str, Any]) -> None:
    certificate["guarantee"].update(epsilon=0.01)
    certificate["digest"] = _digest(certificate)


def quieter(certificate: dict[str, Any]) -> None:
    certificate["releases"][0]["noise"]["std"] = 200.0
    certificate["digest"] = _digest(certificate)


def hushed(certificate: dict[str, Any]) -> None:
    certificate["sentence"] = "Perfectly private."
    certificate["digest"] = _digest(certificate)


def smuggle(folder: Path, name: str, content: bytes) -> None:
    """Put another content in the place of a file, with all digests made right again."""
    (folder / name).write_bytes(content)
    edit(folder, lambda d: d["files"].update({name: {"sha256": storage.digest(content), "size": len(content)}}))


def tensors(**changes: Any) -> bytes:
    model = fitted()
    arrays = {name: getattr(model, name) for name in Fake._ARRAYS}
    return safetensors.numpy.save({k: v for k, v in {**arrays, **changes}.items() if v is not None})
