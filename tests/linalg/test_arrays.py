"""NumPy and torch, by one set of operations."""

import builtins
import threading

import numpy as np
import pytest

from discreet.errors import MissingExtra
from discreet.linalg.arrays import NUMPY, NumpyArrays
from discreet.linalg.torch_arrays import TorchArrays


@pytest.fixture(params=["numpy", "torch"])
def arrays(request):
    if request.param == "numpy":
        return NumpyArrays()
    request.getfixturevalue("torch")  # skips where there is none
    return TorchArrays("cpu")


def test_there_and_back(arrays):
    for array in (
        np.arange(6.0, dtype=np.float32).reshape(2, 3),
        np.arange(6.0)[::-2],
        np.arange(3, dtype=np.uint16),
        np.zeros((0, 4)),
    ):
        np.testing.assert_array_equal(arrays.get(arrays.put(array)), array)
        if array.dtype.kind == "f":
            assert arrays.get(arrays.put(array)).dtype == array.dtype


def test_a_read_only_array_can_be_put(arrays):
    array = np.ones(3)
    array.flags.writeable = False
    np.testing.assert_array_equal(arrays.get(arrays.put(array)), 1)


def test_gather(arrays):
    columns = np.random.default_rng(0).standard_normal((5, 3))
    index = np.array([[0, 4], [2, 2], [1, 3]])
    np.testing.assert_array_equal(arrays.get(arrays.gather(arrays.put(columns), index)), columns[index])


def test_gram(arrays):
    X = np.random.default_rng(0).standard_normal((4, 5, 3))
    x = arrays.put(X)
    out = arrays.empty("gram", (4, 3, 3), x)
    arrays.gram(x, out)
    np.testing.assert_allclose(arrays.get(out), X.swapaxes(1, 2) @ X)
    arrays.gram(x, out, add=True)
    np.testing.assert_allclose(arrays.get(out), 2 * X.swapaxes(1, 2) @ X)
    out = arrays.empty("gram", (4, 5, 5), x)
    arrays.gram(x, out, dual=True)
    np.testing.assert_allclose(arrays.get(out), X @ X.swapaxes(1, 2))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_solve(arrays, dtype):
    X = np.random.default_rng(0).standard_normal((4, 9, 3)).astype(dtype)
    A, b = X.swapaxes(1, 2) @ X, X[:, 0].copy()
    A[1] = 0
    A[2] = b[2] = 1  # singular
    found = arrays.get(arrays.solve_spd(arrays.put(A.copy()), arrays.put(b.copy()), lambda i: arrays.put(A[i])))
    expected = [np.linalg.pinv(a.astype(np.float64), hermitian=True) @ y for a, y in zip(A, b, strict=True)]
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_add_to_diagonal(arrays):
    A = arrays.put(np.ones((2, 3, 3)))
    arrays.add_to_diagonal(A, arrays.put(np.array([1.0, 2.0])))
    np.testing.assert_array_equal(arrays.get(A)[1], np.ones((3, 3)) + 2 * np.eye(3))


@pytest.mark.filterwarnings("error")
def test_divide(arrays):
    a, b = arrays.put(np.array([[1.0], [2.0], [0.0]])), arrays.put(np.array([[4.0], [0.0], [0.0]]))
    np.testing.assert_array_equal(arrays.get(arrays.divide(a, b)), [[0.25], [0], [0]])


def test_memory_is_used_again_but_not_shared_between_threads():
    columns, index = np.ones((3, 2)), np.zeros((4, 5), int)
    mine = NUMPY.gather(columns, index)
    assert np.shares_memory(mine, NUMPY.gather(columns, index[:2]))
    other = []
    thread = threading.Thread(target=lambda: other.append(NUMPY.gather(columns, index)))
    thread.start()
    thread.join()
    assert not np.shares_memory(mine, other[0])


def test_without_torch(monkeypatch):
    real = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name == "torch":
            raise ModuleNotFoundError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtra, match=r"device='cuda'.*discreet\[gpu\]"):
        TorchArrays("cuda")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_memory_begins_with_a_cache_line(dtype):
    arrays = NumpyArrays()
    for shape in ((3, 5), (7, 11, 13), (1,)):
        memory = arrays.empty("some", shape, np.zeros(0, dtype))
        assert memory.shape == shape
        assert memory.dtype == dtype
        assert memory.flags.c_contiguous
        assert memory.ctypes.data % 64 == 0
