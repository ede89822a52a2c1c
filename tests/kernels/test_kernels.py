"""The compiled kernels compute what the reference does, in every instruction set, and a row by itself."""

import itertools
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import discreet
from discreet import kernels
from discreet.engine.batches import FOLDS, standing, weights
from discreet.kernels import Panels, Table
from discreet.models.als.contributions import item_step, moments
from discreet.privacy.statistics import UserBatch
from tests.kernels import reference

sys.path.append(str(Path(__file__).parents[2]))
from hatch_build import FLAGS

SETS = [name for name in ("v0", "v2", "v3", "v4") if name <= kernels.instruction_set()][-3:]
KINDS = [np.float32, np.float64]
PLAIN = (0.0, 1.0, np.inf)  # the scale of values as they are
CLOSE = {np.float32: 3e-3, np.float64: 1e-8}


@pytest.fixture(params=SETS)
def instruction_set(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Each one that this processor has."""
    monkeypatch.setattr(kernels, "instruction_set", lambda: request.param)
    kernels.function.cache_clear()
    yield request.param
    kernels.function.cache_clear()


def rows(n: int = 20, m: int = 200, seed: int = 0) -> tuple[Any, Any, Any]:
    """Rows of no, few, and many entries."""
    rng = np.random.default_rng(seed)
    counts = rng.permutation(np.resize([0, 1, 2, 5, 17, 63, 64, 65, 130, m], n))
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    indices = np.concatenate([np.sort(rng.choice(m, count, replace=False)) for count in counts])
    return indptr, indices.astype(np.uint16), rng.standard_normal(len(indices))


def options(k: int, m: int = 200) -> list[dict[str, Any]]:
    rng = np.random.default_rng(1)
    base, prior = rng.standard_normal(m), rng.standard_normal((m, k))
    half = rng.standard_normal((k, k))
    return [
        {},
        {"offset_penalty": 2.0},
        {"gram": half @ half.T},
        {"offset_penalty": 1.5, "prior": prior, "base": base},
        {"offset_penalty": 1.5, "prior": prior, "prior_count": 2.5},
        {"offset_penalty": 0.5, "gram": half @ half.T, "base": base},
    ]


def solved(indptr: Any, indices: Any, values: Any, X: Any, scale: Any, kind: Any, **given: Any) -> tuple[Any, Any]:
    converted = {
        name: value.astype(kind, copy=False) if isinstance(value, np.ndarray) else value
        for name, value in given.items()
    }
    if "prior" in given:
        converted["prior"] = Table.of(given["prior"], kind)
    offsets, vectors = kernels.ridge(indptr, indices, values.astype(kind), Table.of(X, kind), scale, **converted)
    assert not vectors.padded[:, vectors.k :].any()
    return offsets, vectors.values


@cache  # for every instruction set and kind of numbers
def by_reference(k: int) -> tuple[Any, Any, list[tuple[Any, Any, Any]]]:
    """Vectors and scales; and for each of the options the offsets, vectors and residuals of all rows."""
    indptr, indices, values = rows()
    rng = np.random.default_rng(2)
    X, scale = rng.standard_normal((200, k)) / max(k, 1) ** 0.5, 0.5 + rng.random(len(indptr) - 1)
    found = []
    for given in options(k):
        offsets, vectors, left = np.zeros(len(scale)), np.zeros((len(scale), k)), np.zeros(len(indices))
        for i, (first, last) in enumerate(itertools.pairwise(indptr)):
            if first == last:
                continue
            at = indices[first:last]
            y = values[first:last] - (given["base"][at] if "base" in given else 0)
            own = {name: given[name] for name in ("gram", "offset_penalty", "prior_count") if name in given}
            own |= {"prior": given["prior"][at]} if "prior" in given else {}
            offsets[i], vectors[i] = reference.ridge_row(X[at], y, scale[i], **own)
            left[first:last] = y - offsets[i] - X[at] @ vectors[i]
        found.append((offsets, vectors, left))
    return X, scale, found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [0, 3, 17, 32, 70])
def test_ridge_is_the_reference(instruction_set: str, k: int, kind: Any) -> None:
    indptr, indices, values = rows()
    X, scale, expected = by_reference(k)
    empty = np.diff(indptr) == 0
    for given, (a, z, residuals) in zip(options(k), expected, strict=True):
        left = np.zeros(len(indices), kind)
        offsets, vectors = solved(indptr, indices, values, X, scale, kind, residuals=left, **given)
        by_steps = solved(indptr, indices, values, X, scale, kind, steps=200, **given)
        assert np.abs(by_steps[0] - offsets).max() < 10 * CLOSE[kind]
        assert np.abs(by_steps[1] - vectors).max(initial=0) < 10 * CLOSE[kind]
        assert not offsets[empty].any()
        assert not vectors[empty].any()
        assert np.abs(offsets - a).max() < CLOSE[kind]
        assert np.abs(vectors - z).max(initial=0) < CLOSE[kind]
        assert np.abs(left - residuals).max() < 3 * CLOSE[kind]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [5, 80])
def test_a_few_steps_of_conjugate_gradients(instruction_set: str, k: int, kind: Any) -> None:
    indptr, indices, values = rows()
    rng = np.random.default_rng(3)
    X, scale = rng.standard_normal((200, k)) / k**0.5, np.full(len(indptr) - 1, 0.7)
    start = rng.standard_normal((len(scale), k))
    begin = np.zeros(len(scale), kind), Table.of(start, kind)
    _, vectors = kernels.ridge(indptr, indices, values, Table.of(X, kind), scale, steps=3, start=begin)
    for i, (first, last) in enumerate(itertools.pairwise(indptr)):
        if last > first:
            own = X[indices[first:last]]
            A, b = own.T @ own + 0.7 * np.eye(k), own.T @ values[first:last]
            expected = reference.conjugate_gradients(A, b, start[i], 3)
            assert np.abs(vectors.values[i] - expected).max() < CLOSE[kind] * max(1, np.abs(expected).max())


@pytest.mark.parametrize("kind", KINDS)
def test_singular_systems_get_the_solution_of_least_norm(instruction_set: str, kind: Any) -> None:
    """Without a penalty, with two equal columns and with rows that are too short."""
    indptr, indices, values = rows()
    X = np.random.default_rng(4).standard_normal((200, 6))
    X[:, 5] = X[:, 4]
    offsets, vectors = solved(indptr, indices, values, X, np.zeros(len(indptr) - 1), kind, offset_penalty=0.0)
    for i, (first, last) in enumerate(itertools.pairwise(indptr)):
        own = np.column_stack([np.ones(last - first), X[indices[first:last]]])
        expected = np.linalg.pinv(own, rcond=1e-5) @ values[first:last]
        assert np.abs(np.append(offsets[i], vectors[i]) - expected).max() < 10 * CLOSE[kind]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("k", "count", "clip"), [(1, 0.0, 0.3), (7, 2.0, 0.0), (21, 0.0, 1e6), (21, 2.5, 0.3)])
def test_an_item_step_is_the_reference(instruction_set: str, k: int, count: float, clip: float, kind: Any) -> None:
    """The formulas of its docstring, from the regressions of the reference."""
    indptr, indices, values = rows()
    rng, folds, lift = np.random.default_rng(6), FOLDS, 10.0
    X, prior, base, a = (rng.standard_normal(shape) for shape in ((200, k), (200, k), 200, 200))
    a, penalty = np.abs(a) + 0.1, 0.5 + rng.random(k)
    tables = Table.of(X, kind), Table.of(prior, kind), base, penalty, a
    numbers = {"prior_count": count, "bias_weight": 0.6, "clip": clip, "lift": lift}
    gram_rows, (x, directions) = item_step(PLAIN, tables, **numbers)(UserBatch(indptr, indices, values))
    close = {"rtol": CLOSE[kind], "atol": 10 * CLOSE[kind]}
    for i, (first, last) in enumerate(itertools.pairwise(indptr)):
        at, fold = indices[first:last], np.arange(last - first) % folds
        y = values[first:last] - base[at]
        A, left = reference.leave_fold_out_row(X[at], y, prior[at], penalty, folds, prior_count=count)
        A[:, 0] = 0.6
        lengths, w = np.linalg.norm(A, axis=1), reference.unit_row(a[at])
        own = w * left * lengths[fold]
        scale = min(lift, clip / max(np.linalg.norm(own), 1e-12)) if clip else 1.0
        np.testing.assert_allclose(directions[folds * i : folds * (i + 1)], A / lengths[:, None], **close)
        np.testing.assert_allclose(x[first:last] / scale, own, **close)
        expected = A * np.sqrt(np.bincount(fold, w, minlength=folds) * scale)[:, None]
        np.testing.assert_allclose(gram_rows[i].reshape(folds, k) / scale**0.5, expected / scale**0.5, **close)


def test_parts_of_what_users_contribute_are_the_reference() -> None:
    """Also with entries of 0, and with rows of nothing else."""
    indptr, indices, values = rows()
    rng = np.random.default_rng(9)
    values[rng.random(len(values)) < 0.3] = 0
    values[: indptr[5]] = 0
    loadings, a, chosen = rng.standard_normal((200, 3)), rng.random(200), rng.random(200) * (np.arange(200) < 90)
    batch = UserBatch(indptr, indices, values)
    equal, weighted, rated = weights()(batch), weights(a)(batch), weights(a, rated=True)(batch)
    about = weights(a, scale=(0.25, 0.5, 1.5), penalty=2.0, mean=0.3)(batch)
    x, directions = standing(loadings, chosen, a, rated=True)(batch)
    by_length, _ = standing(loadings, chosen, a, by_length=True)(batch)
    place = np.where(rng.random(200) < 0.4, rng.permutation(200), -1)
    ends, items, entries = kernels.placed_rows(indptr, indices, values, place)
    at = place[indices]
    assert np.array_equal(ends, np.concatenate([[0], np.cumsum(at >= 0)])[indptr])
    assert np.array_equal(items, at[at >= 0])
    assert np.array_equal(entries, values[at >= 0])
    scaled = np.clip((values - 0.25) / 0.5, -1.5, 1.5)
    for i, (first, last) in enumerate(itertools.pairwise(indptr)):
        own, t = values[first:last], scaled[first:last]
        at, fold = indices[first:last], np.arange(last - first) % FOLDS
        np.testing.assert_allclose(equal[first:last], reference.unit_row(np.ones(len(own))), rtol=1e-12)
        np.testing.assert_allclose(weighted[first:last], reference.unit_row(a[at]), rtol=1e-12)
        np.testing.assert_allclose(rated[first:last], reference.unit_row(a[at] * own), rtol=1e-12)
        off = t - (t.sum() + 0.6) / (len(own) + 2)
        np.testing.assert_allclose(about[first:last], reference.unit_row(a[at]) * off, atol=1e-12)
        own_folds = slice(FOLDS * i, FOLDS * (i + 1))
        expected = reference.other_folds_row(loadings[at], reference.unit_row(chosen[at] * own), FOLDS)
        lengths = np.linalg.norm(expected, axis=1)
        np.testing.assert_allclose(lengths[:, None] * directions[own_folds], expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(x[first:last], rated[first:last], rtol=1e-12)
        expected = reference.other_folds_row(loadings[at], reference.unit_row(chosen[at]), FOLDS)
        lengths = np.linalg.norm(expected, axis=1)
        expected = reference.unit_row(reference.unit_row(a[at]) * lengths[fold])
        np.testing.assert_allclose(by_length[first:last], expected, rtol=1e-9)


def positive(rng: Any, *shape: int) -> Any:
    half = rng.standard_normal((*shape, shape[-1]))
    return half @ half.swapaxes(-1, -2) / shape[-1] + 0.1 * np.eye(shape[-1])


@pytest.mark.parametrize("k", [1, 2, 8, 21])
def test_item_posteriors_are_the_reference(instruction_set: str, k: int) -> None:
    """Before any step, in the first one and in later ones; items that are seen far better, and far worse."""
    m, rng, error = 40, np.random.default_rng(10), 0.5
    first, means, moves = rng.standard_normal((3, m, k))
    spread, gaps, own, fresh = positive(rng, m, k), positive(rng, m, k), positive(rng, k), positive(rng, k)
    scale, root = rng.random((2, k)) + 0.5
    sizes, weights = 10.0 ** rng.integers(-3, 4, (2, m))
    precision, information = np.zeros((m, k, k)), np.zeros((m, k))
    wide = spread * root[:, None] * root + sizes[:, None, None] * own
    for now in (None, wide, gaps):
        found, alone = (
            kernels.item_posteriors(
                (first[some], spread[some]),
                (scale, root),
                (sizes[some], own),
                (precision[some], information[some]),
                None
                if now is None
                else (moves[some], weights[some], fresh, means[some], None if now is wide else now[some]),
                error=error,
                n_jobs=2,
            )
            for some in (slice(m), slice(7, 8))
        )
        assert all(np.array_equal(one[7], other[0]) for one, other in zip(found, alone, strict=True))
        for i in range(m):
            given = None if now is None else (means[i] + moves[i], weights[i] * fresh, error**2 * now[i])
            prior = first[i] * scale, spread[i] * root[:, None] * root, sizes[i] * own
            expected = reference.item_posterior(*prior, precision[i], information[i], step=given)
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_allclose(one[i], other, rtol=1e-9, atol=1e-10 * np.abs(other).max())
        precision, information = found[:2]
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        kernels.item_posteriors((first, 0 * spread), (scale, root), (0 * sizes, own), (precision, information))


@pytest.mark.parametrize("size", [1e8, 1e20, 1e33])
def test_items_that_are_not_seen_stay_as_they_were_known(instruction_set: str, size: float) -> None:
    """The prior is lost in rounding where it is added to the noise, but not otherwise."""
    rng, m, k = np.random.default_rng(11), 6, 3
    first, spread, own = rng.standard_normal((m, k)), positive(rng, m, k) * 1e-3, positive(rng, k)
    step = rng.standard_normal((m, k)) * np.sqrt(size), np.full(m, size), positive(rng, k), first, None
    nothing = np.zeros((m, k, k)), np.zeros((m, k))
    *_, mean, covariance = kernels.item_posteriors(
        (first, spread), (np.ones(k), np.ones(k)), (np.full(m, size), own), nothing, step, error=0.5
    )
    np.testing.assert_allclose(mean, first, atol=1e-3)
    np.testing.assert_allclose(covariance, spread, rtol=1e-6, atol=1e-6 * spread.max())


def test_nothing_outside_of_the_arrays_is_read_or_written() -> None:
    table = Table.of(np.ones((3, 2)))
    for indptr, indices in (
        ([0, 2], [0, 3]),
        ([0, 3], [0, 1]),
        ([0, 2], [0, -1]),
        ([0, 3, 2], [0, 1]),
        ([-1, 2], [0, 1]),
    ):
        with pytest.raises(ValueError, match="every entry must have a value and a vector"):
            kernels.ridge(np.array(indptr), np.array(indices), np.ones(2), table, np.ones(1))
    for kind, rows in ((np.float32, 1), (np.float64, 2)):
        with pytest.raises(ValueError, match="start: an offset and a vector for each row"):
            start = np.zeros(rows, kind), Table.empty(rows, 2, kind)
            kernels.ridge(np.array([0, 2]), np.array([0, 1]), np.ones(2), table, np.ones(1), steps=1, start=start)
    for indptr, indices in (([0, 2], [0, 3]), ([0, 3], [0, 1]), ([0, 2, 1], [0, 1])):
        with pytest.raises(ValueError, match="every entry must have a value and a vector"):
            weights(np.ones(3))(UserBatch(np.array(indptr), np.array(indices, np.uint8), np.ones(2)))
        with pytest.raises(ValueError, match="every entry must have a value and a vector"):
            kernels.placed_rows(np.array(indptr), np.array(indices), np.ones(2), np.arange(3))
        with pytest.raises(ValueError, match="every entry must have a value and a vector"):
            targets, total = np.ones(2), np.zeros((1, 3, 3), np.int64)
            kernels.normal_equations(total, np.array(indptr), np.array(indices), np.ones((3, 2)), targets)
    for items in (np.array([0, 1 << 32]), np.array([0.0, np.nan]), np.array([0, 1 << 32], np.uint64)):
        with pytest.raises(ValueError, match="every entry must have a value and a vector"):
            weights()(UserBatch(np.array([0, 2]), items, np.ones(2)))
    for name, given in (("base", np.ones(2)), ("prior", Table.of(np.ones((2, 2))))):
        with pytest.raises(ValueError, match=f"{name}: 3 numbers or vectors are needed, not 2"):
            kernels.ridge(np.array([0, 2]), np.array([0, 1]), np.ones(2), table, np.ones(1), **{name: given})
    with pytest.raises(ValueError, match="scale: 1 numbers or vectors are needed, not 0"):
        kernels.ridge(np.array([0, 2]), np.array([0, 1]), np.ones(2), table, np.ones(0))
    panels = Panels.of(np.ones((3, 2)))
    base = panels.widened(np.ones(3))
    for own, vectors, known in ((base[:3], (1, 2), [1]), (base, (1, 3), [1]), (base, (1, 2), [1, 1])):
        with pytest.raises(ValueError, match="top_n: vectors must be as long as those of items"):
            kernels.top_n(panels, own, np.ones(vectors), 1, has_history=np.array(known), cold=base)
    with pytest.raises(ValueError, match="contiguous"):
        kernels.function("sum_rows")(np.ones((2, 2))[:, 0])


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_fails_because_of_the_data(instruction_set: str, kind: Any) -> None:
    """Vectors so large that the penalty is lost in rounding: a fold without a solution has the vector 0."""
    indptr, indices, values = np.array([0, 9, 9]), np.arange(9), np.ones(9)
    for size in (1e8, 1e18):
        table = Table.of(np.full((9, 3), size), kind)
        zeros = Table.empty(9, 3, kind)
        numbers = {"prior_count": 0.0, "bias_weight": 0.5, "clip": 0.3, "lift": 10.0}
        step = item_step(PLAIN, (table, zeros, np.zeros(9), np.ones(3), np.ones(9)), **numbers)
        grams, found = step(UserBatch(indptr, indices, values))
        assert np.isfinite(grams).all()
        assert all(np.isfinite(each).all() for each in found)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 20, 1000])
@pytest.mark.parametrize("k", [0, 3, 32])
def test_top_n_is_the_reference(instruction_set: str, n: int, k: int, kind: Any) -> None:
    """With few distinct scores, so that many are equal."""
    rng = np.random.default_rng(6)
    indptr, indices, _ = rows(300)
    X, z, base, cold = (rng.integers(-2, 3, shape).astype(kind) for shape in ((200, k), (300, k), 200, 200))
    base[::7] = -np.inf
    variance = rng.integers(0, 3, (200, 1 + k)).astype(kind)
    counts, panels = np.diff(indptr), Panels.of(X)
    owners = np.repeat(np.arange(300), counts)
    for seen, cautious in itertools.product([False, True], repeat=2):
        scores = np.where(counts[:, None] > 0, base + z @ X.T, cold)
        known = np.where(counts[:, None] > 0, z, 0)
        if cautious:
            scores = scores - 0.5 * np.sqrt(variance[:, 0] + known**2 @ variance[:, 1:].T)
        if seen:
            scores[owners, indices] = -np.inf
        best, found = kernels.top_n(
            panels,
            panels.widened(base),
            z,
            n,
            has_history=counts > 0,
            cold=panels.widened(cold),
            seen=(indptr, indices) if seen else None,
            variance=(0.5, panels.widened(variance[:, 0], 0), Panels.of(variance[:, 1:])) if cautious else None,
            n_jobs=2,
        )
        items, expected = reference.top_n(scores, n)
        if not cautious:
            assert np.array_equal(best, items)
        np.testing.assert_allclose(np.where(best >= 0, found, -np.inf), expected, rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_solve(instruction_set: str, kind: Any) -> None:
    rng = np.random.default_rng(7)
    X, b = rng.standard_normal((9, 30, 20)).astype(kind), rng.standard_normal((9, 20)).astype(kind)
    A = X.swapaxes(1, 2) @ X
    A[3] -= 100 * np.eye(20, dtype=kind)
    x, failed = kernels.solve(A, b)
    assert failed.tolist() == [i == 3 for i in range(9)]
    good = ~failed
    assert np.allclose((A[good] @ x[good][:, :, None])[:, :, 0], b[good], atol=1e-3 if kind == np.float32 else 1e-9)


# -- a row by itself: what the proofs of private models and of serving rest on


def everything(kind: Any, indptr: Any, indices: Any, values: Any, n_jobs: int = 1) -> list[Any]:
    """All that is computed of some rows, one array for each kind of result, by row or by entry."""
    rng, batch = np.random.default_rng(8), UserBatch(indptr, indices, values)
    results: list[Any] = []
    for k in (3, 20, 70):
        X, prior, base = (rng.standard_normal(shape).astype(kind) for shape in ((200, k), (200, k), 200))
        half = rng.standard_normal((k, k)).astype(kind)
        table, towards = Table.of(X), Table.of(prior)
        scale = (0.5 + np.diff(indptr) % 3).astype(kind)
        common = {"base": base, "prior": towards, "offset_penalty": 1.5, "n_jobs": n_jobs}
        for given in ({}, {"gram": half @ half.T}, {"steps": 3}, {"steps": 3, "gram": half @ half.T}):
            left = np.zeros(len(values), kind)
            a, z = kernels.ridge(indptr, indices, values, table, scale, residuals=left, **common, **given)
            results += [a, z.values, left]
            panels = Panels.of(X)
            places = kernels.top_n(
                panels,
                panels.widened(base),
                z.values,
                7,
                has_history=np.diff(indptr) > 0,
                cold=panels.widened(-base),
                seen=(indptr, indices),
                n_jobs=n_jobs,
            )
            results += [*places]
        numbers = {"prior_count": 1.5, "bias_weight": 0.5, "clip": 0.3, "lift": 10.0}
        items = table, towards, base, np.ones(k), 0.1 + np.arange(200) % 7
        gram_rows, (x, directions) = item_step((0.1, 0.7, 2.0), items, **numbers)(batch)
        results += [x, directions.reshape(len(indptr) - 1, -1), gram_rows]
    x, directions = standing(rng.standard_normal((200, 3)), np.arange(200) % 7, np.ones(200), rated=True)(batch)
    results += [x, directions.reshape(len(indptr) - 1, -1), moments(PLAIN, 2.0)(batch)]
    results += [weights(penalty=1.5, mean=0.2)(batch), kernels.row_sums(values, indptr)]
    return results


@pytest.mark.parametrize("kind", KINDS)
def test_a_rows_bits_do_not_depend_on_the_others(instruction_set: str, kind: Any) -> None:
    """Alone, in any company, in any order and on any number of threads, from wherever in memory."""
    indptr, indices, values = rows(20)
    values = values.astype(kind)
    together = everything(kind, indptr, indices, values)
    for other, one in zip(everything(kind, indptr, indices, values, 3), together, strict=True):
        assert np.array_equal(one, other)
    rng = np.random.default_rng(9)
    companies = [rng.permutation(20)[:size] for size in (1, 2, 7, 19)]
    for members in [*companies, np.arange(20)[::-1]]:
        at = np.concatenate([np.arange(indptr[i], indptr[i + 1]) for i in members])
        ends = np.concatenate([[0], np.cumsum(np.diff(indptr)[members])])
        shifted = np.empty(len(at) + 1, kind)[1:]  # not where a cache line begins
        shifted[:] = values[at]
        alone = everything(kind, ends, indices[at].astype(np.uint32), shifted)
        for one, other in zip(together, alone, strict=True):
            assert np.array_equal(one[members if len(one) == 20 else at], other)


def test_no_flag_lets_the_compiler_reorder_sums() -> None:
    assert not {"-ffast-math", "-Ofast", "-fassociative-math", "-funsafe-math-optimizations"} & set(FLAGS)


def test_arrays_that_are_not_contiguous_are_refused() -> None:
    with pytest.raises(ValueError, match="contiguous"):
        kernels.Struct(np.float32, values=np.zeros(8)[::2])


def test_a_missing_library_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "NAME", "elsewhere.so")
    with pytest.raises(ImportError, match="install discreet with pip"):
        kernels._library.__wrapped__()


def test_every_result_of_als_is_the_same_for_any_number_of_threads() -> None:
    data = discreet.datasets.movielens_like(300, 60, 6000, random_state=0)
    for solver in ("exact", "cg"):
        one, three = (discreet.ALS(rank=20, n_steps=3, solver=solver, n_jobs=n).fit(data) for n in (1, 3))
        assert np.array_equal(one.item_factors_, three.item_factors_)
        assert np.array_equal(one.predict(data, data), three.predict(data, data))
