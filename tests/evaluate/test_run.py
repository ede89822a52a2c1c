"""The call: who counts, blocks, buckets, intervals, and what is refused."""

import inspect
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discreet
import discreet.evaluate
from discreet.data.catalogue import Ids
from discreet.errors import DataError, NotFitted, PrivacyError
from discreet.evaluate import evaluate, run
from discreet.evaluate import metrics as collecting
from discreet.evaluate.metrics import Task, collect, parse
from discreet.evaluate.run import counts, divided, percentile_interval, resampled_ratios

from .fakes import Scorer, random_case, table

ALL = ["rmse", "mae", "recall@3", "precision@3", "ndcg@3", "map@3", "mrr", "coverage@3", "novelty@3"]


def test_the_module_can_be_called() -> None:
    model, test, history = random_case(5, 10, 0)
    called = discreet.evaluate(model, test, history=history, metrics=["rmse"])  # type: ignore[operator]
    assert called["rmse"] == evaluate(model, test, history=history, metrics=["rmse"])["rmse"]
    assert list(inspect.signature(discreet.evaluate).parameters)[:3] == ["model", "test", "history"]  # type: ignore[arg-type]
    assert discreet.evaluate.module is discreet.evaluate
    assert discreet.evaluate.Evaluation.__name__ == "Evaluation"


def test_default_metrics_follow_the_kind_of_data() -> None:
    model, test, history = random_case(5, 10, 0)
    assert list(evaluate(model, test, history=history)) == ["rmse", "mae"]
    assert list(evaluate(model, test.to_implicit(), history=history)) == ["recall@20", "ndcg@100"]


def test_only_users_with_targets_are_asked_for() -> None:
    model, test, history = random_case(20, 10, 1)
    few = test.where(test.user_numbers() % 4 == 0)  # all users stay, most without a target
    whole = evaluate(model, few, history=history, metrics=ALL)
    assert model.asked == [5]
    assert whole == evaluate(model, few.for_users(few.users[::4]), history=history, metrics=ALL)
    assert all(score.users == 5 for score in whole.scores.values())


@pytest.mark.parametrize("implicit", [False, True])
def test_a_persons_part_does_not_depend_on_who_else_is_evaluated(implicit: bool) -> None:
    """To the last bit, in every metric: also where scores are so close that rounding decides which item is first."""
    ratings = discreet.datasets.movielens_like(1200, 257, 60_000, random_state=0)
    train, _, test = discreet.splits.holdout(ratings.to_implicit() if implicit else ratings, test=0.3, random_state=0)
    model = discreet.ALS(rank=8, n_steps=2, biases=False).fit(train)
    model.item_factors_ = model.item_factors_[np.arange(257) % 15]  # in groups of items that are all alike
    names = [name for name in ALL if not name.startswith(("coverage", "novelty"))] + ["ndcg@50", "map@50"]

    def parts(users: Any) -> Any:
        task = Task(model, test.of_users(users), train, parse(names))
        return np.column_stack([side for pair in collect(task).sums.values() for side in pair])

    counted = np.flatnonzero(np.diff(test.indptr))[:1026]
    alone = np.concatenate([parts(counted[at : at + 1]) for at in range(100)])
    for size in (2, 5, 1025, 1026):
        several = parts(counted[:size])
        assert np.array_equal(several[:100], alone[:size])


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model, test, history = random_case(23, 12, 2)
    options: dict[str, Any] = {"history": history, "metrics": ALL, "buckets": 3}
    before = evaluate(model, test, **options)
    model.asked.clear()
    monkeypatch.setattr(collecting, "ENTRIES", 12 * 5)
    after = evaluate(model, test, **options)
    assert model.asked == [5, 5, 5, 5, 3]
    assert after == before
    assert str(after) == str(before)


def test_users_in_another_order() -> None:
    """The history's users need not be those of the test, nor in their order."""
    model, test, history = random_case(8, 12, 3)
    before = evaluate(model, test, history=history, metrics=ALL)
    numbers = np.array([5, 2, 7, 0, 1, 6, 3, 4])
    assert evaluate(model, test, history=collecting.rows(history, numbers), metrics=ALL) == before
    assert collecting.rows(history, np.arange(8)) == history


def test_times_come_along() -> None:
    timed = discreet.read([(1, 1, 1.0, 10), (2, 1, 1.0, 20), (2, 2, 2.0, 30)])
    part = collecting.rows(timed, np.array([1]))
    assert part == timed.for_users([2])


def test_what_is_seen_can_be_found_if_wanted() -> None:
    model = Scorer({1: np.array([2.0, 1.0])}, Ids([1, 2]))
    again = table([(1, 1, 5)], [1, 2])
    with pytest.warns(UserWarning, match=r"^history: .* targets are in it too") as told:
        assert evaluate(model, again, history=again, metrics="recall@1")["recall@1"] == 0
    assert told[0].filename == __file__
    assert evaluate(model, again, history=again, metrics="recall@1", exclude_seen=False)["recall@1"] == 1


# -- buckets


def test_buckets_by_hand() -> None:
    per_item = np.array([1, 9, 4, 4, 0, 2])
    assert divided(per_item, 3).tolist() == [2, 0, 0, 1, 2, 1]
    assert divided(per_item, 4).tolist() == [2, 0, 0, 1, 3, 1]


@settings(max_examples=80)
@given(st.lists(st.integers(0, 50), min_size=1, max_size=40), st.integers(1, 10))
def test_buckets_are_ordered_and_even(per_item: list[int], n: int) -> None:
    n = min(n, len(per_item))
    popular = np.array(per_item)
    bucket = divided(popular, n)
    assert ((bucket >= 0) & (bucket < n)).all()
    order = np.argsort(-popular, kind="stable")
    assert (np.diff(bucket[order]) >= 0).all()
    sizes = np.bincount(bucket, minlength=n)
    assert sizes.max() - sizes.min() <= 1


def test_bucket_metrics_by_hand() -> None:
    items = list("abcd")
    popular = table([(u, i, 1) for u, i in [(1, "c"), (2, "c"), (3, "c"), (1, "a"), (2, "a"), (3, "d")]], items)
    model = Scorer({1: np.array([4.0, 3.0, 2.0, 1.0]), 2: np.array([1.0, 2.0, 3.0, 4.0])}, Ids(items))
    history = table([(1, "d", 1), (2, "d", 1)], items)
    test = table([(1, "a", 5), (1, "b", 1), (1, "c", 2), (2, "c", 1)], items)
    result = evaluate(model, test, history=history, metrics=["rmse", "recall@2", "mrr"], popularity=popular, buckets=2)
    top, tail = result.buckets  # c and a; d and b
    assert (top.number, top.about) == (1, {"items": 2, "share": pytest.approx(5 / 6)})
    assert top.scores["rmse"].value == pytest.approx(math.sqrt((1 + 0 + 4) / 3))
    assert tail.scores["rmse"].value == pytest.approx(2)
    assert top.scores["recall@2"].value == pytest.approx((1 / 2 + 1) / 2)  # user 1 is shown a, b; user 2 c, b
    assert tail.scores["recall@2"] == (1, pytest.approx(math.nan, nan_ok=True), pytest.approx(math.nan, nan_ok=True), 1)
    assert "mrr" not in top.scores


def test_buckets_of_users_by_hand() -> None:
    items = list("abcd")
    scores = np.array([4.0, 3.0, 2.0, 1.0])
    model = Scorer(dict.fromkeys((1, 2, 3, 4), scores), Ids(items))
    history = table([(1, "d", 1), (2, "d", 1), (3, "c", 1), (3, "d", 1), (4, "d", 1), (4, "c", 1), (4, "b", 1)], items)
    test = table([(1, "a", 4), (2, "b", 5), (3, "a", 1), (4, "a", 4)], items)
    options: dict[str, Any] = {"history": history, "bucket_by": "history", "metrics": ["rmse", "mrr", "coverage@1"]}
    result = evaluate(model, test, buckets=2, **options)
    short, long = result.buckets
    assert (short.number, short.about) == (1, {"users": 2, "shortest": 1, "longest": 1})
    assert (long.number, long.about) == (2, {"users": 2, "shortest": 2, "longest": 3})
    assert short.scores["rmse"].value == pytest.approx(math.sqrt((0 + 4) / 2))
    assert long.scores["rmse"].value == pytest.approx(math.sqrt((9 + 0) / 2))
    assert (short.scores["mrr"].value, long.scores["mrr"].value) == (0.75, 1)
    assert "coverage@1" not in short.scores
    assert "By the length of the history" in str(result)
    assert result.to_frame(buckets=True).column_names[:4] == ["bucket", "users", "shortest", "longest"]
    many = evaluate(model, test, buckets=9, **options)
    assert [part.about["users"] for part in many.buckets] == [2, 1, 1]  # equally long ones stay together
    with pytest.raises(DataError, match="coverage is about all lists"):
        evaluate(model, test, buckets=2, **{**options, "metrics": "coverage@1"})


def test_buckets_add_up() -> None:
    model, test, history = random_case(30, 20, 4)
    result = evaluate(model, test, history=history, metrics=["rmse", "mae"], buckets=4)
    per_item = counts(history, test.items)
    bucket = divided(per_item, 4)
    sizes = np.bincount(bucket[test.indices], minlength=4)
    errors = [part.scores["mae"].value for part in result.buckets]
    assert np.nansum(sizes * np.array(errors)) / sizes.sum() == pytest.approx(result["mae"])
    assert sum(part.about["items"] for part in result.buckets) == 20
    assert sum(part.about["share"] for part in result.buckets) == pytest.approx(1)


# -- intervals


def test_intervals_are_those_of_plain_resampling() -> None:
    generator = np.random.default_rng(0)
    above, below = generator.random((50, 2)), generator.integers(1, 4, (50, 2)).astype(float)
    ratios = resampled_ratios(above, below, 4000, 1)
    plain = []
    for _ in range(4000):
        drawn = generator.integers(0, 50, 50)
        plain.append(above[drawn].sum(axis=0) / below[drawn].sum(axis=0))
    for column in range(2):
        ours, theirs = (
            percentile_interval(ratios[:, column], 0.9),
            np.quantile(np.array(plain)[:, column], [0.05, 0.95]),
        )
        assert ours == pytest.approx(tuple(theirs), rel=0.02)


def test_resamples_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:

    above = np.random.default_rng(0).random((40, 1))
    whole = resampled_ratios(above, np.ones((40, 1)), 30, 5)
    monkeypatch.setattr(run, "DRAWS", 40 * 7)
    assert np.array_equal(resampled_ratios(above, np.ones((40, 1)), 30, 5), whole)


def test_intervals_cover_as_often_as_they_say() -> None:
    """Of many samples of users, nine in ten have the truth in their 90% interval, for a ratio of sums too."""
    generator = np.random.default_rng(11)
    truth, covered = np.array([0.5, 1.0]), np.zeros(2)
    for trial in range(300):
        targets = generator.integers(1, 6, 120).astype(float)
        errors = generator.gamma(targets, 1.0)  # a mean of 1 for each target
        above = np.column_stack([generator.random(120), errors])
        ratios = resampled_ratios(above, np.column_stack([np.ones(120), targets]), 300, trial)
        for column in range(2):
            low, high = percentile_interval(ratios[:, column], 0.9)
            covered[column] += low <= truth[column] <= high
    assert (covered / 300 > 0.85).all()
    assert (covered / 300 < 0.95).all()


def test_intervals_of_an_evaluation() -> None:
    model, test, history = random_case(60, 20, 5)
    metrics = ["rmse", "recall@3"]
    wide = evaluate(model, test, history=history, metrics=metrics, confidence=0.99)
    narrow = evaluate(model, test, history=history, metrics=metrics, confidence=0.5)
    assert narrow == wide
    for name in metrics:
        assert wide.interval(name)[0] < narrow.interval(name)[0] < narrow[name]
        assert narrow[name] < narrow.interval(name)[1] < wide.interval(name)[1]
    again, other = (evaluate(model, test, history=history, metrics=metrics, random_state=s) for s in (0, 1))
    assert again.scores == evaluate(model, test, history=history, metrics=metrics).scores
    assert again.scores != other.scores
    without = evaluate(model, test, history=history, metrics=metrics, confidence=None)
    assert without == wide
    assert math.isnan(without.interval("rmse")[0])


def test_one_user_has_no_interval() -> None:
    model, test, history = random_case(1, 10, 6)
    assert math.isnan(evaluate(model, test, history=history, metrics="rmse").interval("rmse")[1])
    assert all(map(math.isnan, percentile_interval(np.array([np.nan, np.nan]), 0.9)))


def test_coverage_alone() -> None:
    model, test, history = random_case(3, 20, 6)
    result = evaluate(model, test, history=history, metrics="coverage@2")
    assert 2 / 20 <= result["coverage@2"] <= 6 / 20
    assert result.scores["coverage@2"].users == 3


# -- what is refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metrics": "accuracy"}, "^threshold: accuracy needs one"),
        ({"metrics": "accuracy", "threshold": "3"}, "^threshold: a number was expected"),
        ({"metrics": "recall@5", "relevant": math.nan}, "^relevant: a number was expected"),
        ({"metrics": "recall@5", "relevant": 9}, "^test: no user has a target"),
        ({"metrics": "coverage@5", "relevant": 9}, "^test: no user has a target"),
        ({"confidence": 95}, "^confidence: a level between 0 and 1"),
        ({"n_boot": 0}, "^n_boot must be a whole number >= 1"),
        ({"buckets": 2.5}, "^buckets must be a whole number >= 1"),
        ({"buckets": True}, "^buckets must be a whole number >= 1"),
        ({"buckets": 11}, "^buckets: 11 buckets cannot be made of 10 items"),
        ({"buckets": 2, "bucket_by": "users"}, "^bucket_by: must be 'items' or 'history'"),
        ({"buckets": 2, "metrics": "mrr"}, "^buckets: none of the metrics can be divided by item; rmse"),
        ({"popularity": [1, 2]}, "^popularity: Interactions were expected, not list"),
        ({"history": None}, "^history: Interactions were expected, not NoneType; see discreet.read"),
    ],
)
def test_wrong_arguments(options: dict[str, Any], message: str) -> None:
    model, test, history = random_case(5, 10, 0)
    with pytest.raises(DataError, match=message):
        evaluate(model, test, **{"history": history, **options})


@pytest.mark.parametrize("name", ["ledger", "epsilon", "delta", "max_error", "public_model"])
def test_private_arguments_do_nothing_silently(name: str) -> None:
    model, test, history = random_case(5, 10, 0)
    options: dict[str, Any] = {name: True if name == "public_model" else 1.0}
    with pytest.raises(PrivacyError, match=f"^{name}: without private=True the numbers are exact"):
        evaluate(model, test, history=history, **options)


def test_wrong_models_and_tables() -> None:
    model, test, history = random_case(5, 10, 0)
    with pytest.raises(DataError, match=r"^model: a model of discreet was expected, not str"):
        evaluate("als", test, history=history)  # type: ignore[arg-type]
    with pytest.raises(NotFitted, match=r"^model: this ALS is not fitted yet; call fit"):
        evaluate(discreet.ALS(), test, history=history)
    with pytest.raises(DataError, match=r"^test: Interactions were expected"):
        evaluate(model, [(1, 2)], history=history)  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"^history: some users with test data are not in it"):
        evaluate(model, test, history=history.for_users([0, 1]))
    with pytest.raises(DataError, match=r"^test: no user has a target"):
        evaluate(model, test.where(np.zeros(len(test), bool)), history=history)


@pytest.mark.parametrize(
    ("method", "answer", "message"),
    [
        ("predict", lambda *_, **__: np.zeros(3), "one value for each target"),
        ("predict", lambda _, targets, **__: np.full(len(targets), np.nan), "not finite"),
        ("recommend", lambda *_, **__: type("Lists", (), {"indptr": [0], "numbers": []}), "one list for each user"),
    ],
)
def test_wrong_answers(method: str, answer: Any, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, test, history = random_case(5, 10, 0)
    monkeypatch.setattr(model, method, answer, raising=False)
    with pytest.raises(DataError, match=f"^model: .*{message}"):
        evaluate(model, test, history=history, metrics=["rmse" if method == "predict" else "mrr"])
