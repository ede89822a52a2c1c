"""DPALS as published: one person moves each statistic by its declared sensitivity (nearly), and never by more."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import discreet
from discreet.data import Interactions
from discreet.models.als import PublishedDPALS, published_training
from discreet.models.als.published_contributions import Sample, user_ridge
from discreet.models.als.published_training import COUNTS, GRADIENT, GRAM, MEAN, RECOUNTS, START, STEP, random_start
from discreet.privacy import NormalEquations
from tests.models.equations import encoder_on, exact_equations, some_of
from tests.models.replay import Recording, moved, record, replay

ITEMS, K, PENALTY, GLOBAL = 240, 120, 0.5, 0.1
FREE = 6  # of a designed person's ratings are not 1 or -1

Row = dict[int, float]


def world(row: Row | None) -> Interactions:
    """Ordinary people, and perhaps one more."""
    rng = np.random.default_rng(0)
    rows = [
        (f"user {user:03}", int(item), float(rng.uniform(-1, 1)))
        for user in range(25)
        for item in rng.choice(ITEMS, 20, replace=False)
    ]
    rows += [("x", item, value) for item, value in (row or {}).items()]
    return discreet.read(rows, items=list(range(ITEMS)), value_range=(-1, 1))


def designed(direction: tuple[float, float], sign: float, global_penalty: float, V: Any = None) -> Row:
    """Ratings of +-1 of the first K items, but for a few, by which the user's vector gets the wanted direction.

    A row with the opposite sign has opposite ratings; the directions of their vectors are free all the same. V are the
    item vectors of the first step: those of the random start, if not others.
    """
    V = random_start(ITEMS, 2, 1.0, 0) if V is None else V
    own, free = V[: K - FREE], V[K - FREE : K]
    signs, total = np.ones(len(own)), np.zeros(2)
    for j in np.argsort(-np.linalg.norm(own, axis=1)):
        signs[j] = -1.0 if total @ own[j] > 0 else 1.0
        total += signs[j] * own[j]
    A = V[:K].T @ V[:K] + global_penalty * V.T @ V + PENALTY * np.eye(2)
    rest = np.linalg.lstsq(free.T, A @ (0.01 * np.array(direction)) - sign * total, rcond=None)[0]
    assert np.abs(rest).max() < 1
    return dict(enumerate([*(sign * signs).tolist(), *rest.tolist()]))


def model(**params: Any) -> PublishedDPALS:
    return PublishedDPALS(
        **{
            "epsilon": 3.0, "delta": 1e-6, "rank": 2, "max_items": K, "item_fraction": 1.0, "entry_clip": 1.0,
            "user_clip": 1e-3, "regularization": PENALTY, "item_exponent": 0.0, "user_exponent": 0.0, **params,
        }
    )  # fmt: skip


def furthest(monkeypatch: Any, pairs: list[tuple[Row | None, Row | None]], **params: Any) -> dict[str, float]:
    """How far any of these changes of one person moves each statistic, as a fraction of its sensitivity."""

    def make() -> PublishedDPALS:
        return model(**params)

    found: dict[str, float] = {}
    for before, after in pairs:
        shares = replay(monkeypatch, make, world(before), world(after), adjacency=make().adjacency, delta=1e-6)
        for label, share in shares.items():
            found[label] = max(found.get(label, 0.0), share)
    assert max(found.values()) <= 1
    return found


FAN = dict.fromkeys(range(K), 1.0)
CRITIC = dict.fromkeys(range(K), -1.0)
OTHER = dict.fromkeys(range(K, ITEMS), 1.0)
FEW = dict.fromkeys(range(20), 1.0)  # with a weight of more than 2 each
ALONE: dict[str, Any] = {"preprocess": False}
VARIANTS: list[tuple[set[str], dict[str, Any]]] = [
    ({STEP, GRAM}, {**ALONE, "global_penalty": GLOBAL}),
    ({STEP}, {**ALONE, "gram_noise": 1.0}),
    ({START, STEP}, {**ALONE, "start": "svd"}),
    ({COUNTS, RECOUNTS, MEAN, STEP}, {"entry_clip": None}),
    ({COUNTS, RECOUNTS, MEAN, STEP}, {"sampling": "weights", "entry_clip": None}),
    ({COUNTS, RECOUNTS, GRADIENT}, {"item_step": "gradient", "center": False}),
    ({COUNTS, RECOUNTS, GRADIENT}, {"item_step": "gradient", "center": False, "sampling": "weights"}),
]


@pytest.mark.parametrize(("labels", "params"), VARIANTS)
def test_add_remove(monkeypatch: Any, labels: set[str], params: dict[str, Any]) -> None:
    found = furthest(monkeypatch, [(FAN, None), (CRITIC, None), (FEW, None)], **params)
    assert set(found) == labels
    assert min(found.values()) >= 0.95, found


@pytest.mark.parametrize(("labels", "params"), [VARIANTS[at] for at in (0, 1)])
@pytest.mark.parametrize("ratio", [0.7, 1.0, 1.3, 2.0])
def test_replace_in_an_item_step(monkeypatch: Any, labels: set[str], params: dict[str, Any], ratio: float) -> None:
    """Opposite ratings, and vectors at an angle of cosine ratio^2 / 2."""
    penalty = params.get("global_penalty", 0.0)
    cosine = min(1.0, ratio**2 / 2)
    one = designed((1.0, 0.0), 1.0, penalty)
    pairs = [
        (one, designed((cosine, (1 - cosine**2) ** 0.5), -1.0, penalty)),
        (one, designed((0.0, 1.0), -1.0, penalty)),
    ]
    found = furthest(monkeypatch, pairs, adjacency="replace", **{**params, "gram_noise": ratio, "rhs_noise": 1.0})
    assert set(found) == labels
    assert min(found.values()) >= 0.95, found


@pytest.mark.parametrize(("labels", "params"), [VARIANTS[at] for at in (2, 3, 4, 5, 6)])
def test_replace_elsewhere(monkeypatch: Any, labels: set[str], params: dict[str, Any]) -> None:
    """Disjoint items, opposite ratings, and opposite ratings with one and the same vector."""
    same = [designed((1.0, 0.0), sign, 0.0) for sign in (1.0, -1.0)]
    found = furthest(monkeypatch, [(FAN, CRITIC), (FAN, OTHER), (same[0], same[1])], adjacency="replace", **params)
    assert set(found) == labels
    assert min(value for label, value in found.items() if label != STEP) >= 0.95, found


@pytest.mark.parametrize("params", [VARIANTS[at][1] for at in (2, 3, 4)])
def test_replace_in_an_item_step_after_other_releases(monkeypatch: Any, params: dict[str, Any]) -> None:
    """The same worst case after a noisy start, or counts and a mean: whatever these were, a step has its bound.

    Earlier releases may be anything; here all items are as frequent, and the mean is that of the range.
    """
    seen: list[Any] = []
    ledger: dict[str, Any] = {"adjacency": "replace", "delta": 1e-6}

    def fit(row: Row | None, answers: list[Any] | None) -> Recording:
        made = model(adjacency="replace", gram_noise=1.0, rhs_noise=1.0, **params)
        return record(monkeypatch, lambda ledger: made.fit(world(row), ledger=ledger), answers, **ledger)

    def watched(factors: Any, *others: Any) -> Any:
        seen.append(factors)
        return user_ridge(factors, *others)

    monkeypatch.setattr(published_training, "user_ridge", watched)
    first = fit(None, None)
    neutral = {COUNTS: 100.0, RECOUNTS: 100.0, MEAN: 0.0}
    answers = [
        np.full_like(answer, neutral[label]) if label in neutral else answer
        for label, answer in zip(first.labels, first.answers, strict=True)
    ]
    seen.clear()
    fit(None, answers)
    rows = [designed((1.0, 0.0), 1.0, 0.0, seen[0]), designed((0.5, 0.75**0.5), -1.0, 0.0, seen[0])]
    found = moved(*(fit(row, answers) for row in rows))
    assert 0.95 <= found[STEP] <= 1, found


# -- the bound on item steps, for any two people


@st.composite
def people(draw: Any) -> tuple[NormalEquations, Sample, Any]:
    """Two people with any items, ratings, weights and vectors, beyond the bounds too."""
    weighted = draw(st.booleans())
    k, m, r = draw(st.integers(1, 6)), 8, draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    rows = [np.sort(rng.choice(m, rng.integers(0, m + 1), replace=False)) for _ in range(2)]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    n = int(indptr[-1])
    values = np.where(rng.random(n) < 0.5, np.sign(rng.standard_normal(n)), rng.uniform(-3, 3, n))
    weights = rng.exponential(2, n) if weighted else None
    step = NormalEquations(m, r, k, 1.0, 1.0, float(draw(st.floats(0.2, 4))), weighted)
    users = rng.standard_normal((2, r)) * draw(st.sampled_from([0.1, 1.0, 100.0]))
    if draw(st.booleans()):
        users[1] = -users[0] + draw(st.floats(0, 2)) * users[1]
    return step, Sample(indptr, np.concatenate(rows), values, weights), users


@given(people())
def test_no_two_people_are_further_apart_than_the_bound(case: tuple[NormalEquations, Sample, Any]) -> None:
    step, sample, users = case
    encoder = encoder_on(step, -8)
    each = [exact_equations(encoder, some_of(sample, i, i + 1), users[i : i + 1]) * encoder.grid.step for i in (0, 1)]
    for one in each:
        assert np.linalg.norm(one) <= step.sensitivity("add-remove")
    assert np.linalg.norm(each[0] - each[1]) <= step.sensitivity("replace")
