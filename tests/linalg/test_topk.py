"""The best few of each row."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from discreet.linalg import topk
from discreet.linalg.topk import top_k

INF = np.inf


def oracle(scores, k):
    """Sort everything, best first, earlier columns first among equals."""
    k = min(k, scores.shape[1])
    best, values = np.full((len(scores), k), -1), np.full((len(scores), k), -INF, scores.dtype)
    for row, line in enumerate(scores):
        order = [c for c in sorted(range(len(line)), key=lambda c: (-line[c], c)) if line[c] > -INF][:k]
        best[row, : len(order)], values[row, : len(order)] = order, line[order]
    return best, values


def check(scores, k):
    best, values = top_k(scores, k)
    expected = oracle(scores, k)
    np.testing.assert_array_equal(best, expected[0])
    np.testing.assert_array_equal(values, expected[1])
    assert values.dtype == scores.dtype


few_values = st.sampled_from([-INF, -1.0, 0.0, -0.0, 0.5, 1.0])
shapes = st.tuples(st.integers(0, 4), st.integers(0, 400))


@given(hnp.arrays(np.float32, shapes, elements=few_values), st.integers(1, 30))
def test_many_ties(scores, k):
    check(scores, k)


@given(st.integers(0, 2**32 - 1), st.integers(1, 2000), st.integers(1, 25), st.sampled_from([np.float32, np.float64]))
def test_any_width(seed, width, k, dtype):
    check(np.random.default_rng(seed).standard_normal((3, width)).astype(dtype), k)


@given(st.integers(0, 2**32 - 1), st.integers(1, 1500), st.integers(1, 20), st.booleans())
def test_fewer_are_the_first_of_more(seed, width, k, ties):
    scores = np.random.default_rng(seed).standard_normal((4, width)).astype(np.float32)
    scores = scores.round(1) if ties else scores
    fewer, more = top_k(scores, k), top_k(scores, k + 5)
    for few, many in zip(fewer, more, strict=True):
        np.testing.assert_array_equal(few, many[:, : few.shape[1]])


@pytest.mark.parametrize("width", [15, 16, 17, 255, 256, 257, 271, 272, 511, 527, 528, 10_677])
@pytest.mark.parametrize("k", [1, 2, 20])
def test_edges_of_chunks(width, k):
    """The best are where chunks begin and end, and in what is left over."""
    scores = np.random.default_rng(0).standard_normal((3, width)).astype(np.float32)
    scores[0, -1] = scores[1, 0] = scores[2, min(width - 1, width // topk.CHUNK * topk.CHUNK)] = 99
    check(scores, k)


@pytest.mark.parametrize("value", [0.0, -3.0e38, 1e-45, -INF])
def test_rows_of_one_value(value):
    check(np.full((3, 1000), value, np.float32), 7)


def test_best_all_in_one_chunk():
    """The floor is then far below the best, and most of the row a candidate."""
    scores = np.tile(np.linspace(1, 0, 1024, dtype=np.float32), (2, 1))
    scores[:, 3 :: 1024 // topk.CHUNK] += 5
    check(scores, 10)


def test_a_crowded_row_beside_others():
    scores = np.random.default_rng(0).standard_normal((5, 3000)).astype(np.float32)
    scores[1], scores[3, 10:] = 0, -INF
    check(scores, 9)


def test_more_than_there_are():
    best, values = top_k(np.array([[1.0, -INF, 3.0]]), 10)
    assert best.tolist() == [[2, 0, -1]]
    assert values.tolist() == [[3.0, 1.0, -INF]]


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
def test_nothing(shape):
    best, values = top_k(np.zeros(shape, np.float32), 3)
    assert best.shape == values.shape == (shape[0], min(3, shape[1]))


def test_scores_are_left_alone():
    scores = np.random.default_rng(0).standard_normal((2, 2000))
    before = scores.copy()
    top_k(scores, 5)
    np.testing.assert_array_equal(scores, before)
