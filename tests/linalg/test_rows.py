"""Ridge regressions of many rows, against a plain dense solution of each."""

import numpy as np
import pytest
import threadpoolctl
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.linalg.arrays import NUMPY, NumpyArrays
from discreet.linalg.rows import Rows, blocks, padded, row_means, solve_rows
from discreet.linalg.torch_arrays import TorchArrays


@pytest.fixture(params=["numpy", "torch"])
def arrays(request):
    if request.param == "numpy":
        return NUMPY
    request.getfixturevalue("torch")  # skips where there is none
    return TorchArrays("cpu")


def problem(
    counts, k, *, dtype=np.float64, gram=False, first=False, centre=False, scale=0.5, seed=0, arrays=NUMPY, n_columns=50
):
    """A table with rows of the given lengths, in the types that models use."""
    rng = np.random.default_rng(seed)
    counts = np.asarray(counts)
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    columns = rng.standard_normal((n_columns, k)).astype(dtype)
    root = rng.standard_normal((k, k)).astype(dtype)
    return Rows(
        indptr,
        rng.integers(0, n_columns, int(counts.sum())).astype(np.uint8),
        rng.standard_normal(int(counts.sum())).astype(dtype),
        arrays.put(padded(columns, dtype)),
        (scale * (1 + np.arange(len(counts)) % 3)).astype(dtype),
        arrays.put(root @ root.T) if gram else None,
        (1 + np.arange(len(counts)) % 4).astype(dtype) / 2 if first else None,
        rng.standard_normal((len(counts), k)).astype(dtype) if centre else None,
        arrays=arrays,
    )


def oracle(rows):
    """Each row by itself, dense, in double precision."""
    columns = rows.arrays.get(rows.columns).astype(np.float64)
    k = columns.shape[1]
    out = np.zeros((len(rows.indptr) - 1, k)) if rows.centre is None else rows.centre.astype(np.float64)
    for i in range(len(out)):
        at = slice(rows.indptr[i], rows.indptr[i + 1])
        X = columns[rows.indices[at]].copy()
        if not len(X):
            continue
        if rows.first is not None:
            X[:, 0] *= rows.first[i]
        A = X.T @ X + rows.scale[i] * np.eye(k)
        if rows.gram is not None:
            A += rows.arrays.get(rows.gram)
        out[i] += np.linalg.pinv(A, rcond=1e-10, hermitian=True) @ X.T @ (rows.targets[at] - X @ out[i])
    return out


LENGTHS = [0, 1, 1, 2, 3, 5, 8, 8, 9, 13, 40, 41, 0, 200]


@pytest.mark.parametrize("k", [1, 2, 7, 33, 60])
@pytest.mark.parametrize("gram", [False, True])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exact(arrays, k, gram, first, dtype):
    rows = problem(LENGTHS, k, gram=gram, first=first, dtype=dtype, arrays=arrays)
    found = solve_rows(rows)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, oracle(rows), atol=1e-9 if dtype is np.float64 else 5e-3)


@pytest.mark.parametrize("gram", [False, True])
@pytest.mark.parametrize("count", [50, 300])  # by the dual system, where there is no Gram matrix, and by the primal one
def test_memory_that_is_used_again_does_not_enter(gram, count):
    """From 64 columns on only upper triangles are filled; what is below them may be anything."""
    rows = problem([count, count, count], 70, gram=gram)
    with np.errstate(invalid="ignore"):
        NUMPY.empty("gram", (3, 300, 300), rows.targets)[:] = np.nan
    with np.errstate(all="raise"):
        np.testing.assert_allclose(solve_rows(rows), oracle(rows), atol=1e-8)
    singular = problem([count, count], 70, gram=gram, n_columns=3, scale=0.0)
    np.testing.assert_allclose(solve_rows(singular), oracle(singular), atol=1e-6)


@pytest.mark.parametrize("k", [1, 7, 60])  # on both sides of GRAM_PAYS
@pytest.mark.parametrize("gram", [False, True])
@pytest.mark.parametrize("first", [False, True])
def test_conjugate_gradients_converge(arrays, k, gram, first):
    rows = problem(LENGTHS, k, gram=gram, first=first, arrays=arrays, scale=2)
    np.testing.assert_allclose(solve_rows(rows, solver="cg", cg_steps=300), oracle(rows), atol=1e-6)


@pytest.mark.parametrize("solver", ["exact", "cg"])
def test_float32_for_long(solver):
    """Many steps after convergence neither drift nor overflow."""
    rows = problem(LENGTHS, 5, dtype=np.float32)
    found = solve_rows(rows, solver=solver, cg_steps=500)
    np.testing.assert_allclose(found, oracle(rows), atol=2e-3)


@pytest.mark.parametrize("longest", [1, 3, 8, 40, 199, 200])
@pytest.mark.parametrize("solver", ["exact", "cg"])
@pytest.mark.parametrize("k", [4, 60])
def test_long_rows_are_summed_in_parts(arrays, monkeypatch, longest, solver, k):
    monkeypatch.setattr(type(arrays), "longest", longest)
    rows = problem(LENGTHS, k, first=True, gram=True, arrays=arrays, scale=3)
    np.testing.assert_allclose(solve_rows(rows, solver=solver, cg_steps=400), oracle(rows), atol=1e-6)


@pytest.mark.parametrize("k", [3, 60])
@pytest.mark.parametrize("gram", [False, True])
@pytest.mark.parametrize("solver", ["exact", "cg"])
@pytest.mark.parametrize("longest", [7, 4096])
def test_a_centre_and_what_is_left(arrays, monkeypatch, k, gram, solver, longest):
    monkeypatch.setattr(type(arrays), "longest", longest)
    rows = problem(LENGTHS, k, gram=gram, first=True, centre=True, arrays=arrays, scale=2)
    left = np.full(len(rows.targets), np.nan)
    expected = oracle(rows)
    start = expected + 0.1
    found = solve_rows(rows, solver=solver, cg_steps=300, start=start, residuals=left, n_jobs=2)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    columns = rows.arrays.get(rows.columns)
    for i in range(len(LENGTHS)):
        at = slice(rows.indptr[i], rows.indptr[i + 1])
        X = columns[rows.indices[at]] * np.append(rows.first[i], np.ones(k - 1))
        np.testing.assert_allclose(left[at], rows.targets[at] - X @ expected[i], atol=1e-6)


def test_what_is_left_without_columns():
    rows = problem([2, 0, 3], 0)
    left = np.full(5, np.nan)
    solve_rows(rows, residuals=left)
    np.testing.assert_array_equal(left, rows.targets)


@pytest.mark.parametrize("k", [0, 1, 5])
@pytest.mark.parametrize("longest", [7, 4096])
def test_means_of_rows(monkeypatch, k, longest):
    monkeypatch.setattr(NumpyArrays, "longest", longest)
    rows = problem(LENGTHS, k)
    expected = np.zeros((len(LENGTHS), k))
    for i, count in enumerate(LENGTHS):
        if count:
            expected[i] = rows.columns[rows.indices[rows.indptr[i] : rows.indptr[i + 1]]].mean(axis=0)
    found = row_means(rows.indptr, rows.indices, rows.columns, n_jobs=2)
    np.testing.assert_allclose(found, expected, atol=1e-12)


@given(
    st.lists(st.integers(0, 40), max_size=12),
    st.integers(0, 12),
    st.booleans(),
    st.booleans(),
    st.integers(0, 1000),
    st.sampled_from([64, 4096, 1 << 23]),
)
@settings(deadline=None)
def test_any_lengths(counts, k, gram, first, seed, size):
    rows = problem(counts, k, gram=gram, first=first and k > 0, seed=seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NumpyArrays, "block_bytes", size)
        found = solve_rows(rows)
    np.testing.assert_allclose(found, oracle(rows), atol=1e-8)


@given(st.lists(st.integers(0, 300), max_size=40), st.integers(1, 130), st.sampled_from([1, 10_000, 1 << 23]))
def test_blocks_hold_every_row_once(counts, k, size):
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NumpyArrays, "block_bytes", size)
        patch.setattr(NumpyArrays, "longest", 100)
        cut = list(blocks(indptr, k, 4))
    lengths = [block.length for block in cut]
    assert lengths == sorted(lengths, reverse=True)
    rows = np.concatenate([block.rows for block in cut] or [np.zeros(0, int)])
    assert sorted(rows) == [at for at, count in enumerate(counts) if count]
    for block in cut:
        np.testing.assert_array_equal(np.diff(indptr)[block.rows], block.counts)
        assert (
            block.counts.max() <= block.length <= block.counts.min() * (17 / 16 if k > 16 else 5 / 4) + 1
        )  # padding is small
        gathered = len(block.rows) * k * max(k, min(block.length, 100)) * 4
        assert len(block.rows) == 1 or max(gathered, 16 * len(block.rows) * block.length) <= size


@pytest.mark.parametrize("solver", ["exact", "cg"])
@pytest.mark.parametrize("k", [5, 70])
@pytest.mark.parametrize("cache", [1, 100_000, 1 << 22])
def test_a_row_is_the_same_bits_alone_and_among_others(monkeypatch, solver, k, cache):
    counts = np.random.default_rng(3).integers(0, 300, 60)
    counts[[3, 30, 50, 59]] = 2047, 2000, 960, 961  # summed in parts
    rows = problem(counts, k, dtype=np.float32, first=True)
    monkeypatch.setattr(NumpyArrays, "cache", cache)
    together = solve_rows(rows, solver=solver)
    monkeypatch.undo()
    for i in range(60):
        at = slice(rows.indptr[i], rows.indptr[i + 1])
        alone = Rows(
            np.array([0, at.stop - at.start]),
            rows.indices[at],
            rows.targets[at],
            rows.columns,
            rows.scale[i : i + 1],
            first=rows.first[i : i + 1],
        )
        np.testing.assert_array_equal(solve_rows(alone, solver=solver)[0], together[i])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 4, 30])
def test_singular_systems(arrays, k, dtype):
    """Without a penalty there is no single solution; the shortest is as good as any, and not NaN."""
    counts = [1, 2, 2, 3, 7, 20]
    rows = problem(counts, k, dtype=dtype, scale=0.0, arrays=arrays, n_columns=3)
    found = solve_rows(rows)
    np.testing.assert_allclose(found, oracle(rows), atol=2e-2 if dtype is np.float32 else 1e-7)
    cg = solve_rows(rows, solver="cg", cg_steps=50)
    assert np.isfinite(cg).all()


@pytest.mark.filterwarnings("error")
def test_columns_of_zeros(arrays):
    rows = problem(LENGTHS, 3, scale=0.0, arrays=arrays)
    rows = Rows(rows.indptr, rows.indices, rows.targets, arrays.put(np.zeros((51, 3))), rows.scale, arrays=arrays)
    for solver in ("exact", "cg"):
        np.testing.assert_array_equal(solve_rows(rows, solver=solver), 0)


def test_no_rows_no_columns():
    assert solve_rows(problem([], 4)).shape == (0, 4)
    assert solve_rows(problem([3, 0, 2], 0)).shape == (3, 0)
    np.testing.assert_array_equal(solve_rows(problem([0, 0], 4)), 0)


def test_start():
    """No step leaves the start as it is; rows without targets are zero whatever the start says."""
    rows = problem([3, 0, 9], 4)
    start = np.random.default_rng(1).standard_normal((3, 4))
    np.testing.assert_array_equal(solve_rows(rows, solver="cg", start=start, cg_steps=0), start * [[1], [0], [1]])
    solution = oracle(rows)
    np.testing.assert_allclose(solve_rows(rows, solver="cg", start=solution, cg_steps=3), solution, atol=1e-9)
    far = np.abs(solve_rows(rows, solver="cg", cg_steps=1) - solution).max()
    assert np.abs(solve_rows(rows, solver="cg", cg_steps=4) - solution).max() < far


def test_inputs_are_left_alone():
    rows = problem(LENGTHS, 6, gram=True, first=True)
    arrays = (rows.indptr, rows.indices, rows.targets, rows.columns, rows.scale, rows.gram, rows.first)
    before = [array.copy() for array in arrays]
    for array in arrays:
        array.flags.writeable = False
    solve_rows(rows, n_jobs=2)
    solve_rows(rows, solver="cg", start=np.zeros((len(LENGTHS), 6)))
    for array, was in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, was)


@pytest.mark.parametrize("solver", ["exact", "cg"])
@pytest.mark.parametrize("k", [5, 70])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_same_bits_for_any_number_of_threads(monkeypatch, solver, k, dtype):
    monkeypatch.setattr(NumpyArrays, "block_bytes", 1 << 16)  # many blocks
    monkeypatch.setattr(NumpyArrays, "longest", 500)
    counts = np.random.default_rng(3).integers(0, 90, 400)
    counts[7] = 1200
    rows = problem(counts, k, dtype=dtype, first=True, gram=k == 5)
    expected = solve_rows(rows, solver=solver, n_jobs=1)
    for n_jobs in (2, 3, 7):
        np.testing.assert_array_equal(solve_rows(rows, solver=solver, n_jobs=n_jobs), expected)
    for threads in (1, 2, 4):
        with threadpoolctl.threadpool_limits(threads, "blas"):
            np.testing.assert_array_equal(solve_rows(rows, solver=solver, n_jobs=2), expected)
