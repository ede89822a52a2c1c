"""Fold-in: three kinds, each of which computes what it says, explains it, and describes itself."""

import json
from typing import Any

import numpy as np
import pytest

import discreet
from discreet.models.centering import Centering
from discreet.models.fold_in import FoldIn, LinearFoldIn, Penalty, ReplayFoldIn, RidgeFoldIn
from discreet.models.frank_wolfe.contributions import Corrective, Local, Loss
from discreet.models.frank_wolfe.estimate import Step
from discreet.models.gradient.contributions import Descent
from discreet.models.gradient.estimate import Step as Projection
from discreet.models.one_bit.likelihood import Link
from discreet.models.one_bit.model import BitTargets

M, K = 30, 4
RNG = np.random.default_rng(0)
COLUMNS, PRIOR, LOADINGS = (RNG.standard_normal((M, K)) / 3 for _ in range(3))
BASE, CENTER = 3 + RNG.standard_normal(M) / 5, np.full(M, 3.0)
FREQUENT = (np.arange(M) % 3 > 0).astype(float)
OTHERS = np.column_stack([COLUMNS * FREQUENT[:, None], 1 - FREQUENT])  # with the column of the own mean
DIRECTIONS = np.linalg.qr(RNG.standard_normal((M, 2 * K)))[0]
CENTERING = Centering.of((1, 5), 3.0, centre=True)
DATA = discreet.datasets.movielens_like(40, M, 400, random_state=1).rescale(1, 5)
RIDGE: dict[str, Any] = {"columns": COLUMNS, "base": BASE, "penalty": Penalty(2.0, 0.5)}

FOLD_INS: dict[str, FoldIn] = {
    "ridge": RidgeFoldIn(**RIDGE),
    "ridge, offset, prior": RidgeFoldIn(**RIDGE, offset_penalty=2.0, prior=PRIOR),
    "ridge, gram": RidgeFoldIn(**RIDGE, offset_penalty=2.0, gram=np.eye(K) + 0.2),
    "ridge, frequent items": RidgeFoldIn(**{**RIDGE, "columns": OTHERS[:, :-1]}, frequent=FREQUENT),
    "ridge, own mean": RidgeFoldIn(**{**RIDGE, "columns": OTHERS}, frequent=FREQUENT, own_mean=True),
    "ridge, logistic": RidgeFoldIn(
        **{**RIDGE, "base": CENTER}, targets=Corrective(Loss(4.0), 3.0, False, [8.0, 4.0, 2.0, 1.0]), double=True
    ),
    "ridge, bits": RidgeFoldIn(**RIDGE, offset_penalty=2.0, targets=BitTargets(Link(), 3.0, 1.0)),
    "linear, weights": LinearFoldIn(columns=COLUMNS, base=BASE, loadings=LOADINGS, weights=FREQUENT),
    "linear": LinearFoldIn(columns=COLUMNS, base=BASE, loadings=LOADINGS),
    "linear, damping": LinearFoldIn(columns=COLUMNS, base=BASE, loadings=LOADINGS, damping=2.0),
    "linear, spread": LinearFoldIn(columns=COLUMNS, base=BASE, loadings=LOADINGS, damping=2.0, spread=9.0),
    "replay, Frank-Wolfe": ReplayFoldIn(
        columns=DIRECTIONS[:, :K],
        base=CENTER,
        steps=Local(CENTERING, Loss(4.0), [Step(v, 0.3, 0.9) for v in DIRECTIONS.T[:K]]),
    ),
    "replay, descent": ReplayFoldIn(
        columns=DIRECTIONS[:, K:],
        base=CENTER,
        steps=Descent(1.2, M, CENTERING, [Projection(V, np.full(K, 0.8)) for V in np.hsplit(DIRECTIONS, 2)]),
    ),
}


def rows() -> list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    at = DATA.indptr[1:-1]
    return list(zip(np.split(DATA.indices, at), np.split(DATA.values, at), strict=True))


@pytest.mark.parametrize("name", FOLD_INS)
def test_contributions_and_base_add_up_to_the_score(name: str) -> None:
    fold_in = FOLD_INS[name]
    offsets, vectors = fold_in.fold_in(DATA, 1)
    scores = fold_in.base + offsets[:, None] + vectors @ fold_in.columns.T
    assert np.abs(scores - fold_in.base).max() > 0.05
    for user in (0, 7):
        for item in (0, 1, 20):
            added = fold_in.contributions(*rows()[user], item)
            assert fold_in.base[item] + added.sum() == pytest.approx(scores[user, item], abs=1e-6)


@pytest.mark.parametrize("name", FOLD_INS)
def test_its_description_and_its_tables(name: str) -> None:
    fold_in = FOLD_INS[name]
    settings, tables, arrays = fold_in.describe()
    assert settings["kind"] == name.partition(",")[0]
    assert json.loads(json.dumps(settings, allow_nan=False)) == settings
    assert all(len(table) == M for table in tables.values())
    assert {"columns", "base"} <= {*tables, *arrays}
    for one, other in zip(fold_in.fold_in(DATA, 2), fold_in.with_tables(tables).fold_in(DATA, 2), strict=True):
        np.testing.assert_array_equal(one, other)
    halves = fold_in.with_tables({table: numbers / 2 for table, numbers in tables.items()})
    assert np.abs(halves.fold_in(DATA, 1)[1] - fold_in.fold_in(DATA, 1)[1]).max() > 1e-3


@pytest.mark.parametrize("damping", [None, 2.0])
@pytest.mark.parametrize("spread", [None, 9.0])
def test_linear(damping: float | None, spread: float | None) -> None:
    fold_in = LinearFoldIn(columns=COLUMNS, base=BASE, loadings=LOADINGS, damping=damping, spread=spread)
    for (items, ratings), offset, vector in zip(rows(), *fold_in.fold_in(DATA, 1), strict=True):
        amounts, n = ratings - BASE[items], len(items) + (damping or 0)
        mean = 0 if damping is None else amounts.sum() / n
        scale = 1 if spread is None else spread / n
        assert offset == pytest.approx(mean)
        np.testing.assert_allclose(vector, scale * (amounts - mean) @ LOADINGS[items], atol=1e-12)


def test_weights_are_all_that_counts_of_a_history() -> None:
    fold_in = FOLD_INS["linear, weights"]
    offsets, vectors = fold_in.fold_in(DATA, 1)
    assert not offsets.any()
    for (items, _), vector in zip(rows(), vectors, strict=True):
        own = FREQUENT[items] / np.linalg.norm(FREQUENT[items])
        np.testing.assert_allclose(vector, own @ LOADINGS[items], atol=1e-12)


def test_other_items_are_scored_by_the_own_mean() -> None:
    vectors = FOLD_INS["ridge, own mean"].fold_in(DATA, 1)[1]
    means = [(ratings - BASE[items]).mean() for items, ratings in rows()]
    np.testing.assert_allclose(vectors[:, -1], means)
    np.testing.assert_allclose(vectors[:, :-1], FOLD_INS["ridge, frequent items"].fold_in(DATA, 1)[1])


def test_they_are_composed_and_not_derived_from_each_other() -> None:
    """What is derived would describe itself as what it is derived from."""
    with pytest.raises(TypeError, match="Half: a fold-in is derived from FoldIn alone"):

        class Half(RidgeFoldIn):
            pass


@pytest.mark.parametrize("name", FOLD_INS)
def test_nobody(name: str) -> None:
    offsets, vectors = FOLD_INS[name].fold_in(DATA.of_users([]), 1)
    assert (offsets.shape, vectors.shape) == ((0,), (0, FOLD_INS[name].columns.shape[1]))
