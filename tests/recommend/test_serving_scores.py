"""Scores in blocks, filtered."""

import numpy as np
import pytest

from discreet.data.catalogue import Catalogue, Ids
from discreet.data.interactions import Interactions
from discreet.recommend.serving import Scorer


def table(lists, n_items):
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in lists])]).astype(np.int64)
    indices = np.array([item for row in lists for item in row], np.uint16)
    return Interactions(
        Ids(range(len(lists))), Catalogue(range(n_items)), indptr, indices, np.ones(len(indices), np.float32)
    )


def problem(n_users=300, n_items=400, k=3, seed=0):
    rng = np.random.default_rng(seed)
    lists = [np.flatnonzero(rng.random(n_items) < rng.choice([0, 0.1, 0.9])) for _ in range(n_users)]
    vectors = rng.standard_normal((n_users, k)).astype(np.float32)
    columns = rng.standard_normal((n_items, k)).astype(np.float32)
    base, cold = rng.standard_normal((2, n_items)).astype(np.float32)
    return table(lists, n_items), vectors, columns, base, cold


def expected(histories, vectors, columns, base, cold, allowed, user, n, exclude_seen):
    seen = histories.indices[histories.indptr[user] : histories.indptr[user + 1]]
    scores = columns @ vectors[user] + base if len(seen) else cold
    may = set(range(len(base))) if allowed is None else set(np.flatnonzero(allowed))
    may -= set(seen.tolist()) if exclude_seen else set()
    return sorted(may, key=lambda item: (-scores[item], item))[:n]


@pytest.mark.parametrize("exclude_seen", [True, False])
@pytest.mark.parametrize("share", [None, 1.0, 0.5, 0.02, 0.0])
@pytest.mark.parametrize("n", [1, 7, 1000])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_against_sorting_everything(exclude_seen, share, n, n_jobs):
    histories, vectors, columns, base, cold = problem()
    allowed = None if share is None else np.random.default_rng(1).random(400) < share
    scorer = Scorer.of(columns, base, cold).among(allowed)
    numbers, _ = scorer.best(vectors, histories, n=n, exclude_seen=exclude_seen, n_jobs=n_jobs)
    assert len(numbers) == 300
    for user, found in enumerate(numbers):
        kept = found[found >= 0].tolist()
        assert kept == expected(histories, vectors, columns, base, cold, allowed, user, n, exclude_seen), user
        assert (found[len(kept) :] == -1).all()


def test_histories_that_are_not_in_order_are_left_out_too():
    histories, vectors, columns, base, cold = problem()
    mixed = [
        np.random.default_rng(2).permutation(own.copy()) for own in np.split(histories.indices, histories.indptr[1:-1])
    ]
    scorer = Scorer.of(columns, base, cold)
    for some in (scorer, scorer.among(np.arange(400) % 7 == 0)):
        found = [some.best(vectors, one, n=9, exclude_seen=True, n_jobs=1)[0] for one in (histories, table(mixed, 400))]
        assert np.array_equal(*found)


def test_no_users():
    _, vectors, columns, base, cold = problem()
    empty = table([], 400)
    numbers, scores = Scorer.of(columns, base, cold).best(vectors[:0], empty, n=3, exclude_seen=True, n_jobs=2)
    assert numbers.shape == scores.shape == (0, 3)
