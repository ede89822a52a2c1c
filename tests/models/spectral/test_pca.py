"""DPPCA and the private eigensolvers: their bounds, what they spend, and that they find the leading directions."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import discreet
from discreet.engine import batches
from discreet.errors import BudgetExceeded, DataError, NotFitted, PrivacyError
from discreet.models.eigen import leading, orthonormal, start
from discreet.models.spectral.pca import ENERGY, PRODUCT, SECOND_MOMENT
from discreet.privacy import Noisy, statistics
from discreet.privacy import statistics as sums
from discreet.testing import InsecureSeededNoise
from tests.models.replay import record, replay

DELTA = 1e-6
METHODS = ["dense", "oja", "block"]


def seeded(seed: int = 1, **settings: Any) -> discreet.Ledger:
    return discreet.Ledger(delta=DELTA, noise_source=InsecureSeededNoise(seed), **settings)


def model(n_components: int = 2, epsilon: float = 30.0, **params: Any) -> discreet.DPPCA:
    return discreet.DPPCA(n_components, **{"epsilon": epsilon, "delta": DELTA, "row_norm": 1.0, "n_steps": 5, **params})


def cloud(n_rows: int = 4000, n: int = 25) -> np.ndarray[Any, Any]:
    """Rows with two directions that stand out."""
    rng = np.random.default_rng(0)
    axes = orthonormal(rng.standard_normal((n, 2)))
    rows = rng.standard_normal((n_rows, 2)) * [0.5, 0.25] @ axes.T + 0.02 * rng.standard_normal((n_rows, n))
    return np.asarray(rows)


# The bounds


@pytest.mark.parametrize("method", METHODS)
def test_one_person_moves_each_statistic_by_its_bound_and_no_more(monkeypatch: Any, method: Any) -> None:
    """The worst is a row as long as it may be along the direction that is found."""
    crowd = np.zeros((3000, 12))
    crowd[:, 4] = 1.0
    for row, reached in ((np.eye(12)[4] * 7, 0.95), (np.ones(12), 0.0), (np.zeros(12), 0.0)):
        found = replay(monkeypatch, lambda: model(1, method=method), np.vstack([crowd, row]), crowd)
        assert set(found) == {"dense": {SECOND_MOMENT}, "oja": {PRODUCT, ENERGY}, "block": {PRODUCT}}[method]
        assert reached <= min(found.values())
        assert max(found.values()) <= 1


@pytest.mark.parametrize("method", METHODS)
def test_replacing_a_person_moves_each_statistic_by_its_bound_and_no_more(monkeypatch: Any, method: Any) -> None:
    """For products with one vector L^2 is enough, and for matrices it takes sqrt(2) L^2: both are reached."""
    crowd = np.zeros((3000, 12))
    crowd[:2000, 4] = 1.0
    crowd[2000:, 5] = 1.0
    e = np.eye(12)
    rng = np.random.default_rng(3)
    pairs = [(e[4], e[5]), (e[4], e[7]), (e[4], -e[4]), ((e[4] + e[9]) / 2**0.5, (e[4] - e[9]) / 2**0.5)]
    pairs += [tuple(orthonormal(rng.standard_normal((12, 2))).T) for _ in range(5)]
    best: dict[str, float] = {}
    for one, other in pairs:

        def make() -> discreet.DPPCA:
            return model(2 if method == "block" else 1, method=method, adjacency="replace")

        found = replay(monkeypatch, make, np.vstack([crowd, one]), np.vstack([crowd, other]), adjacency="replace")
        assert max(found.values()) <= 1
        best = {label: max(best.get(label, 0.0), moved) for label, moved in found.items()}
    assert min(best.values()) >= 0.95, best


def test_the_products_are_what_they_say(monkeypatch: Any) -> None:
    X = cloud(500) * 3  # some rows are longer than 1
    seen = record(monkeypatch, lambda paid: model(method="oja").fit(X, ledger=paid), None)
    short = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1)
    v0 = start(25, 1, np.zeros((25, 0)))
    assert np.allclose(seen.statistics[0], short.T @ (short @ v0), atol=1e-4)
    assert seen.labels == ([PRODUCT] * 5 + [ENERGY]) * 2
    assert seen.statistics[0].shape == (25, 1)


def test_sums_are_the_same_however_they_are_cut(monkeypatch: Any) -> None:
    X = cloud(700)
    for method in METHODS:
        whole = record(monkeypatch, lambda paid, m=method: model(method=m, n_jobs=1).fit(X, ledger=paid), None)
        with monkeypatch.context() as patched:
            patched.setattr(batches, "PART", 1000)
            patched.setattr(statistics, "SMALL", 7)
            patched.setattr(sums, "STRIPES", 7)
            cut = record(monkeypatch, lambda paid, m=method: model(method=m, n_jobs=3).fit(X, ledger=paid), None)
        assert all(np.array_equal(one, other) for one, other in zip(whole.statistics, cut.statistics, strict=True))


# What it finds


@pytest.mark.parametrize("method", METHODS)
def test_finds_the_leading_directions(method: Any) -> None:
    X = cloud()
    fitted = model(method=method, n_steps=12).fit(X, ledger=seeded())
    assert np.allclose(fitted.components_ @ fitted.components_.T, np.eye(2), atol=1e-9)
    short = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1)
    values, vectors = np.linalg.eigh(short.T @ short)
    cosines = np.abs((fitted.components_ * vectors[:, ::-1].T[:2]).sum(axis=1))
    assert (cosines > 0.98).all(), cosines
    assert np.allclose(fitted.explained_variance_, values[::-1][:2], rtol=0.1)
    assert fitted.transform(X).shape == (4000, 2)
    left = X - fitted.low_rank(X)
    assert np.linalg.norm(left) < 0.3 * np.linalg.norm(X)


@pytest.mark.parametrize("method", METHODS)
def test_arrays_sparse_matrices_and_interactions_are_the_same(method: Any) -> None:
    ratings = discreet.datasets.rank_one(300, 20, per_user=8, random_state=0)
    table = sp.csr_array((ratings.values, ratings.indices, ratings.indptr), shape=(300, 20))
    forms = [ratings, table, sp.coo_matrix(table), table.toarray()]
    found = [model(method=method, n_jobs=1).fit(form, ledger=seeded()).components_ for form in forms]
    assert all(np.allclose(found[0], other, atol=1e-6) for other in found[1:])
    coordinates = [model(method=method).fit(table, ledger=seeded()).transform(form) for form in forms]
    assert all(np.allclose(coordinates[0], other, atol=1e-5) for other in coordinates)


def test_a_sparse_matrix_is_left_as_it_was() -> None:
    twice = sp.csr_array((np.ones(4), np.array([1, 0, 1, 1]), np.array([0, 2, 4])), shape=(2, 3))
    model(1).fit(twice, ledger=seeded())
    assert twice.nnz == 4
    assert twice.indices.tolist() == [1, 0, 1, 1]


def test_noise_is_told_from_signal() -> None:
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((200, 200))
    noise = (noise + noise.T) / 2
    nothing = leading(Noisy(noise - np.eye(200), 1.0))
    assert nothing.signal == nothing.trust == 0
    assert np.isclose(nothing.slack, 20)
    e = np.eye(200)[0]
    found = leading(Noisy(noise + 60 * np.outer(e, e), 1.0))
    assert np.isclose(found.signal, 60, rtol=0.05)
    assert np.isclose(found.trust, found.vector[0] ** 2, atol=0.02)


# What is spent


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize("method", METHODS)
def test_the_certificate_lists_every_release(method: Any, adjacency: Any) -> None:
    fitted = model(epsilon=2.0, method=method, adjacency=adjacency, n_steps=3).fit(cloud(300))
    assert fitted.guarantee_.holds
    assert 1.99 <= fitted.guarantee_.epsilon <= 2
    assert (fitted.guarantee_.adjacency, fitted.guarantee_.notion) == (adjacency, "dp")
    labels = [release["label"] for release in fitted.statement().certificate["releases"]]
    expected = {"dense": [SECOND_MOMENT], "oja": ([PRODUCT] * 3 + [ENERGY]) * 2, "block": [PRODUCT] * 3}
    assert labels == expected[method]
    assert str(fitted.guarantee_) in str(fitted.statement())


def test_nothing_is_spent_on_wrong_input() -> None:
    X = cloud(50)
    wrong: list[tuple[type[Exception], str, Any, discreet.DPPCA]] = [
        (PrivacyError, "row_norm", X, model(row_norm=None)),
        (PrivacyError, "row_norm", X, model(row_norm=0.0)),
        (PrivacyError, "n_components", X, model(0)),
        (DataError, "n_components", X, model(26)),
        (PrivacyError, "n_steps", X, model(n_steps=0)),
        (DataError, "method", X, model(method="svd")),
        (PrivacyError, "adjacency", X, model(adjacency="flip")),
        (PrivacyError, "adjacency", X, model(adjacency="replace")),
        (PrivacyError, "epsilon", X, model(epsilon=1e-6)),
        (BudgetExceeded, "plan", X, model(epsilon=200.0)),
        (DataError, "X", X[0], model()),
        (DataError, "X", [["a", "b"]], model()),
        (DataError, "X", np.zeros((3, 0)), model()),
        (DataError, "method", sp.csr_array((5, 100_000)), model()),
    ]
    ledger = seeded(epsilon=100.0)
    for kind, words, data, asked in wrong:
        with pytest.raises(kind, match=words):
            asked.fit(data, ledger=ledger)
    assert [entry.kind for entry in ledger.entries] == ["open"]
    with pytest.raises(TypeError, match="row_norm"):
        discreet.DPPCA(2, epsilon=1, delta=DELTA)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("X", "said"),
    [
        ([["1", "77.25 of Ann"], ["2", "3"]], "could not convert string to float"),
        (np.array([1.5, 77.25, 3.0]), "Expected 2D array, got 1D array instead. Reshape your data"),
        (np.full((40, 30), 77.25)[0], "Expected 2D array, got 1D array instead. Reshape your data"),
        (np.array([[1 + 2j, 77.25]]), "Complex data not supported"),
    ],
)
def test_an_error_quotes_no_cell(X: Any, said: str) -> None:
    """Scikit-learn's messages do."""
    with pytest.raises(DataError, match=f"^X: {said}") as refused:
        model().fit(X, ledger=seeded())
    assert "77" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_it_is_an_estimator() -> None:
    made = model(3, method="block")
    assert clone(made).get_params() == made.get_params()
    for call in (lambda: made.transform(cloud(5)), made.statement):
        with pytest.raises(NotFitted, match="fit"):
            call()
    fitted = made.fit(cloud(100), ledger=seeded())
    assert fitted is made
    assert fitted.get_feature_names_out().tolist() == ["dppca0", "dppca1", "dppca2"]
    frame = fitted.set_output(transform="pandas").transform(cloud(5))
    assert frame.columns.tolist() == ["dppca0", "dppca1", "dppca2"]
    with pytest.raises(DataError, match="X: X has 7 features, but DPPCA is expecting 25"):
        fitted.transform(np.zeros((2, 7)))


@pytest.mark.parametrize("method", METHODS)
def test_odd_data_makes_no_error(method: Any) -> None:
    odd = np.array([[np.nan, np.inf, 0.0], [1e300, -1e300, 1.0], [0.0, 0.0, 0.0]])
    for data in (odd, np.zeros((0, 3)), np.zeros((4, 3)), sp.csr_array((4, 3))):
        fitted = model(2, method=method).fit(data, ledger=seeded())
        assert np.isfinite(fitted.components_).all()
        assert np.isfinite(fitted.explained_variance_).all()
