"""Regressions on all but a fold, against each of them written out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.linalg import folds as module
from discreet.linalg.arrays import NUMPY
from discreet.linalg.folds import Folds, LeaveFoldOut, LeaveFoldOutBlocks
from discreet.linalg.rows import padded

LENGTHS = [0, 1, 2, 3, 4, 5, 9, 40, 0, 120]
ITEMS = 150


def table(lengths, seed=0):
    """Row bounds, and each row's items, in increasing order."""
    rng = np.random.default_rng(seed)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    rows = [np.sort(rng.choice(ITEMS, count, replace=False)) for count in lengths]
    return indptr, np.concatenate([np.zeros(0, np.int64), *rows]).astype(np.uint8)


def regressions(k, dtype=np.float64):
    """Columns and priors."""
    rng = np.random.default_rng(1)
    return LeaveFoldOut(*(rng.standard_normal((ITEMS, k)).astype(dtype) for _ in range(2)))


def solved(lengths, k, n, dtype=np.float64):
    """The inputs, in the order in which they are given, and what is found, in that order too."""
    indptr, indices = table(lengths)
    rng = np.random.default_rng(2)
    targets, penalty = rng.standard_normal(len(indices)), rng.uniform(0.5, 2, (len(lengths), k)).astype(dtype)
    split, model = Folds.of(indptr, n), regressions(k, dtype)
    z, left = model.solve(split, split.together(indices), split.together(targets), penalty)
    return (indptr, indices, targets, penalty, model), z, left[split.place]


@pytest.mark.parametrize("n", [1, 2, 4])
def test_entry_p_of_a_row_is_in_fold_p_modulo_n(n):
    indptr, indices = table(LENGTHS)
    split = Folds.of(indptr, n)
    together = split.together(indices)
    for i in range(len(LENGTHS)):
        own = indices[indptr[i] : indptr[i + 1]]
        for f in range(n):
            at = slice(split.indptr[n * i + f], split.indptr[n * i + f + 1])
            np.testing.assert_array_equal(together[at], own[f::n])
            assert set(split.which[indptr[i] + f : indptr[i + 1] : n]) <= {n * i + f}
    np.testing.assert_array_equal(together[split.place], indices)


@pytest.mark.parametrize("k", [1, 3, 20])
@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("block", [1, 1 << 24])
def test_folds_are_left_out(monkeypatch, k, n, block):
    monkeypatch.setattr(module, "BLOCK_BYTES", block)
    (indptr, indices, targets, penalty, model), z, left = solved(LENGTHS, k, n)
    for i, count in enumerate(LENGTHS):
        X, t = (array[indptr[i] : indptr[i + 1]] for array in (model.columns[indices], targets))
        centre = model.prior[indices[indptr[i] : indptr[i + 1]]].mean(axis=0) if count else np.zeros(k)
        for f in range(n):
            others = np.arange(count) % n != f
            A, b = X[others].T @ X[others] + np.diag(penalty[i]), X[others].T @ t[others] + penalty[i] * centre
            expected = np.linalg.solve(A, b)
            np.testing.assert_allclose(z[i, f], expected, atol=1e-9)
            found = left[indptr[i] : indptr[i + 1]][~others]
            np.testing.assert_allclose(found, t[~others] - X[~others] @ expected, atol=1e-9)


def test_single_precision_is_kept():
    _, z, left = solved(LENGTHS, 5, 4, np.float32)
    _, exact, remainder = solved(LENGTHS, 5, 4)
    assert z.dtype == left.dtype == np.float32
    np.testing.assert_allclose(z, exact, atol=1e-4)
    np.testing.assert_allclose(left, remainder, atol=1e-4)


@pytest.mark.parametrize("n", [1, 4])
def test_padded_blocks_give_the_same(n):
    lengths, k = [*LENGTHS, 17, 0, 33, 5], 8
    indptr, indices = table(lengths)
    targets, split, model = np.random.default_rng(2).standard_normal(len(indices)), Folds.of(indptr, n), regressions(k)
    moved, penalty = (split.together(indices), split.together(targets)), np.linspace(0.5, 2, k)
    expected, _ = model.solve(split, *moved, np.tile(penalty, (len(lengths), 1)))
    padded_ = (padded(each, np.float64) for each in (model.columns, model.prior))
    found = LeaveFoldOutBlocks(*padded_, penalty, NUMPY).solve(n, split.indptr, *moved)
    np.testing.assert_allclose(found, expected, atol=1e-9)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=8), st.integers(1, 14), st.integers(0, 7), st.data())
def test_a_row_gets_the_same_bits_whoever_is_beside_it(lengths, k, before, data):
    one = data.draw(st.integers(0, len(lengths) - 1))
    indptr, indices = table(lengths)
    targets = np.random.default_rng(3).standard_normal(len(indices))
    penalty, model = np.full((len(lengths), k), 1.5, np.float32), regressions(k, np.float32)
    split = Folds.of(indptr, 4)
    z, left = model.solve(split, split.together(indices), split.together(targets), penalty)
    own = slice(indptr[one], indptr[one + 1])
    # The same row alone, behind some other rows that were not there.
    extra = np.arange(before, dtype=np.uint8)
    rows = np.concatenate([extra, indices[own]]), np.concatenate([np.ones(before), targets[own]])
    alone = Folds.of(np.array([0, before, before + lengths[one]]), 4)
    z_alone, left_alone = model.solve(alone, *map(alone.together, rows), np.full((2, k), 1.5, np.float32))
    np.testing.assert_array_equal(z_alone[1], z[one])
    np.testing.assert_array_equal(left_alone[alone.place][before:], left[split.place][own])
