"""Many small positive definite systems."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.linalg.cholesky import least_norm, solve_spd

TOLERANCE = {np.float32: 2e-3, np.float64: 1e-9}


def systems(seed, batch, k, dtype, targets=None):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((batch, targets or 3 * k, k)).astype(dtype)
    return X.swapaxes(1, 2) @ X, rng.standard_normal((batch, k)).astype(dtype)


@given(st.integers(0, 2**32 - 1), st.integers(0, 5), st.integers(0, 40), st.sampled_from([np.float32, np.float64]))
def test_against_a_dense_solver(seed, batch, k, dtype):
    A, b = systems(seed, batch, k, dtype)
    x = solve_spd(A.copy(), b.copy())
    expected = np.linalg.solve(A.astype(np.float64), b.astype(np.float64)[..., None])[..., 0]
    assert x.dtype == dtype
    np.testing.assert_allclose(x, expected, rtol=0, atol=TOLERANCE[dtype] * (1 + np.abs(expected).max(initial=0)))


def test_the_solution_is_in_b():
    A, b = systems(0, 3, 4, np.float64)
    assert solve_spd(A, b) is b


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("k", "rank"), [(1, 0), (4, 2), (8, 3), (32, 10), (64, 20)])
def test_singular_systems_get_the_solution_of_least_norm(dtype, k, rank):
    """Also where rounding lets the factorisation pass, which then solves for noise."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        X = np.repeat(rng.standard_normal((rank, k)), 3, axis=0).astype(dtype)
        A, b = X.T @ X, X.T @ rng.standard_normal(3 * rank).astype(dtype)
        x = solve_spd(A[None].copy(), b[None].copy())[0]
        kept = rank * 3 * np.finfo(dtype).eps
        expected = np.linalg.pinv(X.T.astype(np.float64) @ X, rcond=max(kept, 1e-12), hermitian=True) @ b
        np.testing.assert_allclose(x, expected, atol=TOLERANCE[dtype] * (1 + np.abs(expected).max()))


def test_a_bad_system_does_not_spoil_its_neighbours():
    A, b = systems(0, 5, 6, np.float64)
    A[2] = 0
    x = solve_spd(A.copy(), b.copy())
    np.testing.assert_array_equal(x[2], 0)
    for i in (0, 1, 3, 4):
        np.testing.assert_allclose(A[i] @ x[i], b[i], atol=1e-9)


@pytest.mark.parametrize("k", [16, 70])
def test_upper_triangles_are_enough(k):
    A, b = systems(0, 4, k, np.float64)
    A[2] = A[2, :, :1] @ A[2, :1]  # singular
    b[2] = A[2, 0]
    halves = np.triu(A) + np.tril(np.full_like(A, np.nan), -1)
    asked = []
    x = solve_spd(halves, b.copy(), lambda i: asked.append(i) or A[i])
    assert asked == [2]
    np.testing.assert_allclose((A @ x[:, :, None])[:, :, 0], b, rtol=1e-6, atol=1e-9)


@pytest.mark.filterwarnings("error")
def test_a_matrix_that_is_not_positive_is_no_error():
    A = np.array([[[-1.0, 0.0], [0.0, 2.0]]])
    np.testing.assert_allclose(solve_spd(A, np.array([[1.0, 4.0]])), [[0, 2]])


def test_ill_conditioned_but_solvable():
    A = np.diag([1.0, 1e-3, 1e3])[None].astype(np.float32)
    np.testing.assert_allclose(solve_spd(A, np.ones((1, 3), np.float32)), [[1, 1e3, 1e-3]], rtol=1e-6)


@pytest.mark.parametrize(
    ("A", "b"),
    [
        (np.zeros((2, 3, 3)), np.zeros((2, 4))),
        (np.zeros((2, 3, 3)), np.zeros((2, 3), np.float32)),
        (np.zeros((2, 3, 3))[:, ::-1], np.zeros((2, 3))),
        (np.zeros((2, 3, 3)), np.zeros((3, 2)).T),
        (np.zeros((3, 2, 3)), np.zeros((3, 3))),
    ],
)
def test_what_lapack_would_misread_is_refused(A, b):
    with pytest.raises(ValueError, match="A, b"):
        solve_spd(A, b)


def test_least_norm_of_nothing_is_zero():
    np.testing.assert_array_equal(least_norm(np.zeros((3, 3)), np.ones(3)), 0)
