"""Products of one shape: right, and to the same bits whoever is multiplied beside."""

from typing import Any

import numpy as np
import pytest

from discreet.linalg.arrays import NUMPY
from discreet.linalg.products import Columns
from discreet.kernels.threads import single_threaded_blas

HEIGHT, WIDTH = NUMPY.tile


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    with single_threaded_blas():
        yield


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [0, 1, 2, 7, 64, 129])
@pytest.mark.parametrize("n_items", [0, 1, WIDTH - 1, WIDTH, 3 * WIDTH + 5])
def test_against_a_product_of_everything(n_items: int, k: int, dtype: Any) -> None:
    rng = np.random.default_rng(k)
    columns = rng.standard_normal((n_items, k)).astype(dtype)
    for n in (0, 1, HEIGHT, HEIGHT + 3):
        vectors = rng.standard_normal((n, k)).astype(dtype)
        found = Columns(columns).times(vectors, "scores")
        assert found.dtype == dtype
        assert found.shape == (n, -(-n_items // WIDTH) * WIDTH)
        np.testing.assert_allclose(found[:, :n_items], vectors @ columns.T, rtol=1e-4, atol=1e-4)
        assert not found[:, n_items:].any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 3, 8, 31, 64])
def test_a_row_is_the_same_in_any_company(k: int, dtype: Any) -> None:
    rng = np.random.default_rng(k)
    items = Columns(rng.standard_normal((2 * WIDTH + 9, k)).astype(dtype))
    vectors = rng.standard_normal((1026, k)).astype(dtype)
    alone = [items.times(vectors[at : at + 1], "scores")[0].copy() for at in range(20)]
    for size in (1, 2, 5, HEIGHT, HEIGHT + 1, 1025, 1026):
        for at, expected in enumerate(alone):
            place = (at * 7) % size
            company = rng.permutation(vectors)[:size]
            company[place] = vectors[at]
            assert np.array_equal(items.times(company, "scores")[place], expected)


def test_every_product_has_the_same_shape_and_begins_with_a_cache_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a BLAS could choose its kernels by does not depend on who is there."""
    seen = set()
    real = np.matmul

    def noted(left: Any, right: Any, out: Any) -> Any:
        seen.add((left.shape[-2:], right.shape[-2:], out.shape[-2:], out.strides[-2]))
        for array in (left, right, out):
            offsets = array.ctypes.data + np.add.outer(
                np.arange(array.shape[0]) * array.strides[0],
                np.arange(array.shape[1]) * array.strides[1] if array.ndim == 4 else [0],
            )
            assert not (offsets % 64).any()
        return real(left, right, out=out)

    monkeypatch.setattr("discreet.linalg.arrays.np.matmul", noted)
    items = Columns(np.ones((3 * WIDTH + 5, 7), np.float32))
    for n in (1, 2, 5, 8, 9, 1025, 1026):
        items.times(np.ones((n, 7), np.float32), "scores")
    assert seen == {((HEIGHT, 8), (8, WIDTH), (HEIGHT, WIDTH), 4 * WIDTH * 4)}


def test_memory_that_is_used_again_leaves_nothing_behind() -> None:
    items = Columns(np.eye(3, dtype=np.float32))
    items.times(np.full((9, 3), np.nan, np.float32), "scores")
    assert np.array_equal(items.times(np.eye(3, dtype=np.float32)[:1], "scores")[:, :3], [[1, 0, 0]])
