"""Routines that are called for each matrix in turn."""

import ctypes.util

import numpy as np
import pytest

from discreet.linalg import blas

KINDS = {"f": (np.float32, 1e-4), "d": (np.float64, 1e-11)}


@pytest.fixture(params=["NumPy's", "NumPy's, by stairs", "SciPy's"])
def library(request, monkeypatch):
    """The library that NumPy ships, as if it had kernels for small matrices or not, and what there is without it."""
    blas._routines.cache_clear()
    if request.param == "SciPy's":
        monkeypatch.setattr(blas, "blas_libraries", list)
    monkeypatch.setattr(blas, "_has_small_kernels", lambda: "stairs" in request.param)
    yield request.param
    blas._routines.cache_clear()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dual", [False, True])
@pytest.mark.parametrize(
    "shape", [(3, 5, 7), (2, 100, 70), (2, 70, 100), (0, 80, 80), (2, 1, 64), (1, 160, 160), (1, 9, 20), (1, 900, 80)]
)
def test_gram(library, kind, dual, shape):
    dtype, tolerance = KINDS[kind]
    X = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    expected = X @ X.swapaxes(1, 2) if dual else X.swapaxes(1, 2) @ X
    for upper in (False, True):
        found = blas.gram(X, np.full_like(expected, np.nan), dual=dual, upper=upper)
        assert found.dtype == dtype
        np.testing.assert_allclose(np.triu(found), np.triu(expected), rtol=tolerance / 100, atol=tolerance)
        if not upper:
            np.testing.assert_allclose(found, expected, atol=tolerance)
        blas.gram(X, found, dual=dual, add=True, upper=upper)
        np.testing.assert_allclose(np.triu(found), 2 * np.triu(expected), rtol=tolerance / 100, atol=tolerance)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 20, 90])
def test_cholesky_solve(library, kind, k):
    dtype, tolerance = KINDS[kind]
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4, 3 * k, k)).astype(dtype)
    A, b = X.swapaxes(1, 2) @ X, rng.standard_normal((4, k)).astype(dtype)
    A[1, 0, 0] = -1  # LAPACK says so, and goes on with the next
    factors, x = A.copy(), b.copy()
    status = blas.cholesky_solve(factors, x)
    assert list(status != 0) == [False, True, False, False]
    np.testing.assert_array_equal(np.tril(factors, -1), np.tril(A, -1))
    for i in (0, 2, 3):
        np.testing.assert_allclose(A[i] @ x[i], b[i], atol=100 * tolerance)


def test_a_library_without_the_names_is_passed_over(monkeypatch):
    class Other:
        filepath = ctypes.util.find_library("c")

    monkeypatch.setattr(blas, "blas_libraries", lambda: [Other])
    blas._routines.cache_clear()
    assert blas._routines("d").syrk is None
    blas._routines.cache_clear()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("length", [3000, 3600, 3001])
def test_long_sums_by_stairs(monkeypatch, kind, add, length):
    """They are cut into parts of one length, and what was in memory below the diagonal neither counts nor warns."""
    monkeypatch.setattr(blas, "_has_small_kernels", lambda: True)
    dtype, tolerance = KINDS[kind]
    X = np.random.default_rng(0).standard_normal((3, length, 64)).astype(dtype)
    assert (blas._parts(blas.STAIR // X.itemsize, length, 64) > 1) == (length != 3001)
    below = np.tri(64, k=-1, dtype=bool)
    out = np.full((3, 64, 64), np.inf, dtype)
    out[:, ~below] = 1
    blas.gram(X, out, add=add, upper=True)
    expected = X.swapaxes(1, 2) @ X + add
    np.testing.assert_allclose(out[:, ~below], expected[:, ~below], rtol=tolerance / 50, atol=5 * tolerance)
    one = blas.gram(X[1:2], np.ones_like(out[1:2]), add=add, upper=True)
    np.testing.assert_array_equal(one[0, ~below], out[1, ~below])  # whoever is beside it


@pytest.mark.parametrize(("version", "taken"), [("0.3.30", True), ("0.3.31.188.0", False), ("0.3.34.0.0", True)])
def test_a_slow_library_multiplies_but_does_not_solve(monkeypatch, version, taken):
    shipped = [library for library in blas.blas_libraries() if "openblas64_" in library.filepath]
    if not shipped:
        pytest.skip("NumPy ships no OpenBLAS here")
    monkeypatch.setattr(shipped[0], "version", version)
    monkeypatch.setattr(blas, "blas_libraries", lambda: shipped)
    blas._routines.cache_clear()
    routines = blas._routines("f")
    assert (routines.integer is ctypes.c_int64) == taken
    assert routines.syrk is not None
    A, b = np.eye(3, dtype=np.float32)[None] * 4, np.ones((1, 3), np.float32)
    assert not blas.cholesky_solve(A, b).any()
    np.testing.assert_array_equal(b, 0.25)
    blas._routines.cache_clear()


def test_stairs_are_for_kernels_that_take_matrices_as_they_lie(monkeypatch):
    monkeypatch.setattr(blas, "blas_libraries", list)
    blas._has_small_kernels.cache_clear()
    assert not blas._has_small_kernels()
    blas._has_small_kernels.cache_clear()
