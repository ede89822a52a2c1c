"""The call: `discreet.evaluate(model, test, history=train, metrics=[...])`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.data import Interactions
from discreet.errors import DataError, PrivacyError
from discreet.evaluate import popularity as popular
from discreet.evaluate.collect import Model, Task, collect
from discreet.evaluate.metrics import parse
from discreet.evaluate.popularity import BucketBy
from discreet.evaluate.result import Evaluation
from discreet.evaluate.scores import score

if TYPE_CHECKING:
    from discreet.privacy import Ledger

_EXPLICIT, _IMPLICIT = ("rmse", "mae"), ("recall@20", "ndcg@100")
_ONE_BIT = {(0.0, 1.0): 0.5, (-1.0, 1.0): 0.0}
_N_BOOT = 1000
_EXACT_ONLY = {
    "buckets": "not available with private=True: items are sorted by exact counts, so one person can move them for "
    "everybody",
    "n_boot": "not available with private=True: resampling needs every user's exact value, and the interval of a "
    "private number is that of its noise",
    "popularity": "not available with private=True: only novelty and buckets use it, and neither is available",
}
_PRIVATE_ONLY = dict.fromkeys(
    ("ledger", "epsilon", "delta", "max_error", "public_model"),
    "without private=True the numbers are exact, and it does nothing",
)


def evaluate(
    model: Model,
    test: Interactions,
    *,
    history: Interactions,
    metrics: str | Iterable[str] | None = None,
    relevant: float | None = None,
    threshold: float | None = None,
    exclude_seen: bool = True,
    popularity: Interactions | None = None,
    buckets: int | None = None,
    bucket_by: BucketBy = "items",
    confidence: float | None = 0.95,
    n_boot: int | None = None,
    random_state: int | None = 0,
    private: bool = False,
    ledger: Ledger | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    max_error: float | None = None,
    public_model: bool = False,
) -> Evaluation:
    """How well a model foretells the test interactions from users' histories.

    rmse, mae and accuracy are means over interactions, the ranking metrics means over users; the formulas are in
    `discreet.evaluate.METRICS`. Only users with at least one target count. Items that the model does not know are
    missed targets in a ranking, and get the user's own mean as a prediction.

    The numbers are exact, about private users, and for the owner's eyes only. With `private=True` they are means over
    users (for rmse: the root of the mean over users of each one's mean squared error) with noise, released through
    `ledger`; docs/proofs/evaluation.md says what is released and why it is private.

    Example:
        >>> import discreet
        >>> ratings = discreet.datasets.movielens_like(300, 50, 6_000, random_state=0)
        >>> train, _, test = discreet.splits.holdout(ratings, test=0.1)
        >>> model = discreet.ALS(rank=4).fit(train)
        >>> result = discreet.evaluate(model, test, history=train, metrics=["rmse", "ndcg@10"])
        >>> sorted(result)
        ['ndcg@10', 'rmse']
        >>> low, high = result.interval("rmse")
        >>> low < result["rmse"] < high
        True

    Args:
        model: A fitted model.
        test: The targets: interactions that the model has not seen.
        history: What the model is shown of the same users; has all users who have targets.
        metrics: For instance ["rmse", "recall@20", "ndcg@100"]; by default rmse and mae, or recall@20 and ndcg@100
            where the test has no values.
        relevant: Ranking metrics count targets of at least this value; by default all of them.
        threshold: What values are told apart by accuracy; needed unless they are 0 and 1, or -1 and 1.
        exclude_seen: Whether lists leave out what is in the history. A target in it is then missed.
        popularity: Where the popularity of items is counted, for novelty and buckets; by default `history`.
        buckets: Into how many buckets of items, by popularity, to divide rmse, mae, accuracy and recall.
        bucket_by: Whether buckets have equal numbers of "items" or of "interactions".
        confidence: The level of the intervals; None for no intervals.
        n_boot: How many resamples of users intervals are made of; 1000 by default.
        random_state: Seed of the resamples.
        private: Whether to release noisy numbers instead of exact ones.
        ledger: Whose budget that spends. It needs unit "user".
        epsilon: What the evaluation may spend of it; no default.
        delta: The delta at which it does; no default.
        max_error: Errors are cut to this public bound, by default the width of the declared value range. Less of it is
            less noise: it enters rmse with its square.
        public_model: Your word that the model was learned from public data alone, where it has no guarantee.

    Returns:
        Metric -> value: a dict that prints as a table.
    """
    _check_tables(model, test, history, popularity)
    asked = parse((_IMPLICIT if test.implicit else _EXPLICIT) if metrics is None else metrics)
    level = None if confidence is None else _level(confidence)
    least = None if relevant is None else _finite("relevant", relevant)
    task = Task(model, test, history, asked, relevant=least, exclude_seen=bool(exclude_seen), private=bool(private))
    if any(metric.name == "accuracy" for metric in asked):
        task = replace(task, threshold=threshold_of(test, threshold, private))
    if private:
        _refuse(_EXACT_ONLY, {"buckets": buckets, "n_boot": n_boot, "popularity": popularity})
        return _privately(
            task,
            ledger=ledger,
            epsilon=epsilon,
            delta=delta,
            max_error=max_error,
            public_model=public_model,
            confidence=level,
        )
    given = (ledger, epsilon, delta, max_error, public_model or None)
    _refuse(_PRIVATE_ONLY, dict(zip(_PRIVATE_ONLY, given, strict=True)))
    source = history if popularity is None else popularity
    if any(metric.name == "novelty" for metric in asked):
        task = replace(task, bits=popular.surprise(source, model.items_))
    if buckets is not None:
        task = popular.with_buckets(task, source, _count("buckets", buckets), bucket_by)
    resamples = _count("n_boot", _N_BOOT if n_boot is None else n_boot)
    scores = score(task, collect(task), level, resamples, random_state)
    overall = {str(metric): scores[metric, None] for metric in asked}
    return Evaluation(
        overall, confidence=level, buckets=popular.bucket_table(task, source, scores), bucket_by=bucket_by
    )


def _refuse(reasons: dict[str, str], given: dict[str, Any]) -> None:
    for name, value in given.items():
        if value is not None:
            raise PrivacyError(f"{name}: {reasons[name]}; leave it out")


def _check_tables(model: Any, test: Any, history: Any, popularity: Any) -> None:
    if not all(hasattr(model, name) for name in ("predict", "recommend")):
        raise DataError(f"model: a model of discreet was expected, not {type(model).__name__}")
    for name, table in (("test", test), ("history", history), ("popularity", popularity)):
        if not isinstance(table, Interactions) and not (name == "popularity" and table is None):
            raise DataError(f"{name}: Interactions were expected, not {type(table).__name__}; see discreet.read")


def _finite(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise DataError(f"{name}: a number was expected, not {value!r}")
    return float(value)


def _level(confidence: Any) -> float:
    level = _finite("confidence", confidence)
    if not 0 < level < 1:
        raise DataError(f"confidence: a level between 0 and 1 was expected, for instance 0.95, not {confidence!r}")
    return level


def _count(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise DataError(f"{name}: a whole number of at least 1 was expected, not {value!r}")
    return int(value)


def threshold_of(test: Interactions, threshold: float | None, private: bool) -> float:
    """What accuracy tells values apart by: given, or known from what the values are."""
    if threshold is not None:
        return _finite("threshold", threshold)
    if test.value_range in _ONE_BIT:
        return _ONE_BIT[test.value_range]
    present = () if private else tuple(np.unique(test.values).tolist())  # private values decide nothing
    if len(present) == 2 and present in _ONE_BIT:
        return _ONE_BIT[present]
    raise DataError(
        "threshold: accuracy needs one, unless value_range is (0, 1) or (-1, 1): values of at least the threshold are "
        "one side, those below it the other"
    )


def _privately(
    task: Task,
    *,
    ledger: Ledger | None,
    epsilon: float | None,
    delta: float | None,
    max_error: float | None,
    public_model: bool,
    confidence: float | None,
) -> Evaluation:
    """Check everything public, before anything private is touched; then release."""
    from discreet.evaluate import private as door
    from discreet.privacy import Ledger

    if not isinstance(ledger, Ledger) or epsilon is None or delta is None:
        raise PrivacyError(
            "ledger, epsilon, delta: private=True needs all three: a discreet.Ledger, and how much of its budget to "
            "spend, for instance ledger=ledger, epsilon=0.1, delta=1e-6"
        )
    door.require_private_model(task.model, ledger, public_model)
    door.require_range(task)
    task = replace(task, max_error=door.error_bound(task, max_error))
    return door.release(task, ledger=ledger, epsilon=epsilon, delta=delta, confidence=confidence)
