"""Every formula: by hand, and against other libraries."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.data.catalogue import Ids
from discreet.errors import DataError
from discreet.evaluate import METRICS, Metric, evaluate
from discreet.evaluate.metrics import parse

from .fakes import Scorer, random_case, table

ITEMS = list("abcdefgh")
RANKING = ["recall", "plain_recall", "precision", "ndcg", "map", "mrr"]


def by_hand(metrics: Any, **options: Any) -> Any:
    """Ann is shown b c d e f g h (a is seen) and wants c, f, g; bob is shown h g f e d c and wants h."""
    model = Scorer({"ann": -np.arange(8.0), "bob": np.arange(8.0), "eve": np.arange(8.0)}, Ids(ITEMS))
    history = table([("ann", "a", 5), ("bob", "b", 1), ("bob", "a", 2), ("eve", "c", 3)], ITEMS)
    test = table([("ann", "c", 4), ("ann", "f", 5), ("ann", "g", 2), ("bob", "h", 3)], ITEMS)
    return evaluate(model, test, history=history, metrics=metrics, **options)


LOG = {r: 1 / math.log2(r + 1) for r in range(1, 9)}


@pytest.mark.parametrize(
    ("metric", "ann", "bob"),
    [
        ("recall@2", 1 / 2, 1),
        ("recall@5", 2 / 3, 1),
        ("recall@100", 1, 1),
        ("plain_recall@2", 1 / 3, 1),
        ("plain_recall@5", 2 / 3, 1),
        ("plain_recall@100", 1, 1),
        ("precision@2", 1 / 2, 1 / 2),
        ("precision@5", 2 / 5, 1 / 5),
        ("precision@10", 3 / 10, 1 / 10),
        ("ndcg@2", LOG[2] / (LOG[1] + LOG[2]), 1),
        ("ndcg@5", (LOG[2] + LOG[5]) / (LOG[1] + LOG[2] + LOG[3]), 1),
        ("map@2", (1 / 2) / 2, 1),
        ("map@5", (1 / 2 + 2 / 5) / 3, 1),
        ("map@8", (1 / 2 + 2 / 5 + 3 / 6) / 3, 1),
        ("mrr", 1 / 2, 1),
        ("mrr@1", 0, 1),
    ],
)
def test_ranking_by_hand(metric: str, ann: float, bob: float) -> None:
    result = by_hand([metric])
    assert result[metric] == pytest.approx((ann + bob) / 2)
    assert result.scores[metric].users == 2


def test_relevant_targets_only() -> None:
    assert by_hand("recall@5", relevant=4)["recall@5"] == pytest.approx(2 / 2)
    result = by_hand(["recall@5", "mae"], relevant=4)
    assert result.scores["recall@5"].users == 1  # bob has none that is
    assert result.scores["mae"].users == 2


def test_errors_by_hand() -> None:
    errors = np.array([-2 - 4, -5 - 5, -6 - 2, 7 - 3])
    result = by_hand(["rmse", "mae", "accuracy"], threshold=3)
    assert result["rmse"] == pytest.approx(math.sqrt((errors**2).mean()))
    assert result["mae"] == pytest.approx(np.abs(errors).mean())
    assert result["accuracy"] == pytest.approx(2 / 4)  # g: 2 and -6 are below; h: 3 and 7 are not


def test_coverage_and_novelty_by_hand() -> None:
    result = by_hand(["coverage@2", "coverage@8", "novelty@1", "novelty@3"])
    assert result["coverage@2"] == 4 / 8  # b c, h g
    assert result["coverage@8"] == 7 / 8  # both have seen a
    assert math.isnan(result.interval("coverage@2")[0])
    assert result["novelty@1"] == pytest.approx((math.log2(3 / 1) + math.log2(3 / 1)) / 2)
    popular = table([("u", "b", 1), ("v", "b", 1), ("w", "a", 1), ("w", "c", 1)], ITEMS)
    bits = {"b": math.log2(3 / 2), "c": math.log2(3)}
    expected = ((bits["b"] + bits["c"]) / 2 + math.log2(3)) / 2  # bob's h and g: nobody has them
    assert by_hand("novelty@2", popularity=popular)["novelty@2"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("values", "declared", "threshold"), [((0, 1), (0, 1), 0.5), ((-1, 1), (-1, 1), 0), ((0, 1), None, 0.5)]
)
def test_accuracy_of_bits(values: tuple[float, float], declared: Any, threshold: float) -> None:
    low, high = values
    model = Scorer({1: np.array([threshold + 0.1, threshold - 0.1, threshold + 0.2])}, Ids(["a", "b", "c"]))
    history = table([(1, "a", high)], ["a", "b", "c"], declared)
    test = table([(1, "a", high), (1, "b", low), (1, "c", low)], ["a", "b", "c"], declared)
    assert evaluate(model, test, history=history, metrics="accuracy", exclude_seen=False)["accuracy"] == pytest.approx(
        2 / 3
    )


def test_another_catalogue() -> None:
    """The model has its own order of items, and does not know all of the test's."""
    model = Scorer({1: np.array([3.0, 2.0, 1.0])}, Ids(["x", "b", "a"]))
    history = table([(1, "c", 2), (1, "d", 4)], ["a", "b", "c", "d", "e"])
    test = table([(1, "a", 1), (1, "e", 5)], ["a", "b", "c", "d", "e"])
    result = evaluate(model, test, history=history, metrics=["recall@3", "ndcg@3", "rmse"])
    assert result["recall@3"] == 1 / 2
    assert result["ndcg@3"] == pytest.approx(LOG[3] / (LOG[1] + LOG[2]))
    assert result["rmse"] == pytest.approx(math.sqrt(((1 - 1) ** 2 + (3 - 5) ** 2) / 2))


# -- oracles


def dense(model: Scorer, test: Any, history: Any) -> tuple[Any, Any]:
    """Relevance and scores as matrices, seen items out of reach."""
    truth = (test.to_scipy().toarray() > 0).astype(int)
    scores = np.array([model.scores[user] for user in test.users])
    scores[history.to_scipy().toarray() > 0] = -1e9
    return truth, scores


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("k", [1, 4, 30])
def test_scikit_learn_agrees(seed: int, k: int) -> None:
    from sklearn.metrics import label_ranking_average_precision_score, mean_squared_error, ndcg_score

    model, test, history = random_case(40, 30, seed)
    truth, scores = dense(model, test, history)
    result = evaluate(model, test, history=history, metrics=[f"ndcg@{k}", "map@30", "rmse"], confidence=None)
    assert result[f"ndcg@{k}"] == pytest.approx(ndcg_score(truth, scores, k=k))
    assert result["map@30"] == pytest.approx(label_ranking_average_precision_score(truth, scores))
    predicted = [model.scores[test.users[u]][i] for u, i in zip(test.user_numbers(), test.indices, strict=True)]
    assert result["rmse"] ** 2 == pytest.approx(mean_squared_error(test.values, predicted))


@pytest.mark.parametrize("k", [1, 5, 12])
def test_implicit_agrees(k: int) -> None:
    """Its map and ndcg are ours; its "precision" is all hits over all min(k, |T|), which recall is for equal |T|."""
    evaluation = pytest.importorskip("implicit.evaluation")

    model, test, history = random_case(40, 30, seed=7)

    class Adapter:
        def recommend(self, users: Any, seen: Any, N: int) -> tuple[Any, Any]:
            answer = model.recommend(history.of_users(users), N, on_unknown="ignore")
            lengths = set(np.diff(answer.indptr))
            assert lengths == {N}
            return answer.numbers.reshape(-1, N).astype(np.int32), answer.scores.reshape(-1, N)

    from scipy.sparse import csr_matrix

    theirs = evaluation.ranking_metrics_at_k(
        Adapter(), csr_matrix(history.to_scipy()), csr_matrix(test.to_scipy()), K=k, show_progress=False
    )
    ours = evaluate(model, test, history=history, metrics=[f"recall@{k}", f"map@{k}", f"ndcg@{k}"], confidence=None)
    assert ours[f"map@{k}"] == pytest.approx(theirs["map"])
    assert ours[f"ndcg@{k}"] == pytest.approx(theirs["ndcg"])
    assert ours[f"recall@{k}"] == pytest.approx(theirs["precision"])


def plainly(name: str, shown: list[int], wanted: set[int], k: int) -> float:
    """The formulas again, with nothing but loops."""
    hits = [item in wanted for item in shown[:k]]
    best = min(k, len(wanted))
    if name == "mrr":
        return next((1 / (r + 1) for r, hit in enumerate(hits) if hit), 0.0)
    if name == "map":
        return sum(sum(hits[: r + 1]) / (r + 1) for r, hit in enumerate(hits) if hit) / best
    if name == "ndcg":
        ideal = sum(1 / math.log2(r + 2) for r in range(best))
        return sum(1 / math.log2(r + 2) for r, hit in enumerate(hits) if hit) / ideal
    return sum(hits) / {"recall": best, "plain_recall": len(wanted), "precision": k}[name]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 8), st.integers(1, 4), st.sampled_from(RANKING))
def test_loops_agree(seed: int, k: int, n_history: int, n_targets: int, name: str) -> None:
    """Lists may be shorter than k."""
    model, test, history = random_case(5, 12, seed, n_targets=n_targets, n_history=n_history)
    expected = []
    for user in test.users:
        seen, wanted = set(history.history(user)), set(test.history(user))
        shown = [int(i) for i in np.argsort(-model.scores[user], kind="stable") if int(i) not in seen]
        expected.append(plainly(name, shown, wanted, k))
    result = evaluate(model, test, history=history, metrics=f"{name}@{k}", confidence=None)
    assert result[f"{name}@{k}"] == pytest.approx(np.mean(expected))


# -- properties


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4))
def test_bounds_and_monotony(seed: int, n_targets: int) -> None:
    model, test, history = random_case(6, 15, seed, n_targets=n_targets)
    names = [f"{name}@{k}" for name in [*RANKING, "coverage"] for k in range(1, 16)]
    result = evaluate(model, test, history=history, metrics=[*names, "mrr"])
    assert all(0 <= value <= 1 for value in result.values())
    for k in range(1, 15):
        found, more = (result[f"recall@{at}"] * min(at, n_targets) for at in (k, k + 1))
        assert found <= more + 1e-12
        assert result[f"coverage@{k}"] <= result[f"coverage@{k + 1}"]
        assert result[f"mrr@{k}"] <= result[f"mrr@{k + 1}"]
        assert result[f"precision@{k}"] * k == pytest.approx(result[f"recall@{k}"] * min(k, n_targets))
    assert result["recall@15"] == pytest.approx(1)
    assert result["mrr@15"] == result["mrr"]
    for name, score in result.scores.items():
        assert math.isnan(score.low) == (Metric.parse(name).name == "coverage")


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.permutations(range(8)))
def test_names_and_order_of_users_do_not_matter(seed: int, names: list[int]) -> None:
    metrics = ["rmse", "mae", "recall@3", "ndcg@3", "map@3", "mrr", "coverage@3", "novelty@3"]
    model, test, history = random_case(8, 12, seed)
    before = evaluate(model, test, history=history, metrics=metrics, confidence=None)
    renamed = Scorer({names[user]: row for user, row in model.scores.items()}, model.items_)
    moved = [
        table([(names[u], i, v) for u, i, v in zip(*part.to_arrow().to_pydict().values(), strict=True)], range(12))
        for part in (test, history)
    ]
    after = evaluate(renamed, moved[0], history=moved[1], metrics=metrics, confidence=None)
    assert after == pytest.approx(before)


def test_perfect_and_hopeless() -> None:
    items = list(range(6))
    wanted = {1: [0, 1], 2: [2]}
    test = table([(user, item, 5) for user, row in wanted.items() for item in row], items)
    history = table([(1, 5, 1), (2, 5, 1)], items)
    for sign, value in ((1, 1), (-1, 0)):
        scores = {user: np.array([sign * (10 - i) if i in row else -i for i in items]) for user, row in wanted.items()}
        model = Scorer(scores, Ids(items))
        result = evaluate(model, test, history=history, metrics=["recall@2", "ndcg@2", "map@2", "mrr@2"])
        assert set(result.values()) == {value}


# -- names


def test_names() -> None:
    assert parse(["RMSE", " recall@20 ", "mrr"]) == (Metric("rmse"), Metric("recall", 20), Metric("mrr"))
    assert str(Metric("recall", 20)) == "recall@20"
    assert all(text.strip() for text in METRICS.values())
    assert {"rmse", "mae", "accuracy", "recall@k", "map@k", "mrr or mrr@k", "coverage@k"} <= set(METRICS)


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ("auc", r"there is no 'auc'; there are rmse, .*recall@k.*coverage@k"),
        ("recall@", "there is no 'recall@'"),
        ("recall@-1", "there is no"),
        ("recall", "recall needs a cutoff: write for instance 'recall@20'"),
        ("coverage", "coverage needs a cutoff"),
        ("rmse@5", "rmse is not about lists; write 'rmse'"),
        ("recall@0", "must be at least 1"),
        ([], "at least one is needed"),
        (["mae", "mae"], "none of them twice"),
        ([7], "there is no 7"),
        (7, "a list of names was expected, not 7"),
    ],
)
def test_wrong_names(metrics: Any, message: str) -> None:
    with pytest.raises(DataError, match=f"^metrics: .*{message}"):
        by_hand(metrics)
