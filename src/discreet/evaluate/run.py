"""`discreet.evaluate(model, test, history=train, metrics=[...])`, with intervals from a bootstrap over users."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.data import Interactions
from discreet.data.catalogue import Ids
from discreet.errors import DataError, NotFitted, PrivacyError
from discreet.evaluate import private as released
from discreet.evaluate.metrics import Collected, Key, Metric, Task, collect, coverage, parse
from discreet.evaluate.result import Bucket, Evaluation, Score
from discreet.privacy import Ledger
from discreet.typing import Floats, Integers
from discreet.validation import whole

EXPLICIT, IMPLICIT = ("rmse", "mae"), ("recall@20", "ndcg@100")
THRESHOLDS = {(0.0, 1.0): 0.5, (-1.0, 1.0): 0.0}  # for values of one bit
N_BOOT = 1000
DRAWS = 4_000_000  # users drawn at once, over all resamples of a block
PRIVATE_ONLY = "without private=True the numbers are exact, and it does nothing"
EXACT_ONLY = {
    "buckets": "they are divided by exact counts, so one person can move them for everyone",
    "n_boot": "resampling needs every user's exact value, and the interval of a private number is about its noise",
    "popularity": "only novelty and buckets use it, and neither is available",
}


def evaluate(
    model: Any,
    test: Interactions,
    *,
    history: Interactions,
    metrics: str | Iterable[str] | None = None,
    relevant: float | None = None,
    threshold: float | None = None,
    exclude_seen: bool = True,
    popularity: Interactions | None = None,
    buckets: int | None = None,
    bucket_by: Literal["items", "history"] = "items",
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
    """Measure how well a model predicts the test interactions from users' histories.

    rmse, mae and accuracy are means over interactions; the ranking metrics are means over users. The formulas are in
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
        history: What the model is shown of the same users. It must have every user who has a target.
        metrics: For instance ["rmse", "recall@20", "ndcg@100"]. The default is rmse and mae, or recall@20 and ndcg@100
            if the test has no values or the model predicts no ratings.
        relevant: Ranking metrics count only targets of at least this value; by default they count all.
        threshold: Accuracy compares values with this. Needed unless the values are 0 and 1, or -1 and 1.
        exclude_seen: Whether lists leave out the items of the history. Then a target in the history is missed.
        popularity: The table in which the popularity of items is counted, for novelty and buckets; by default
            `history`.
        buckets: Also measure in this many buckets: of items by popularity (rmse, mae, accuracy and recall of the
            targets among them), or of users by the length of their histories (all metrics but coverage).
        bucket_by: Whether buckets have equal numbers of "items", or of users by "history". Users with equally long
            histories are in the same bucket, so that there may be fewer.
        confidence: The level of the intervals; None for no intervals.
        n_boot: The number of resamples of users for the intervals; 1000 by default.
        random_state: The seed of the resamples.
        private: Whether to release noisy numbers instead of exact ones.
        ledger: The ledger that a private evaluation is charged to. Its unit must be "user".
        epsilon: How much a private evaluation may spend; no default.
        delta: The delta that goes with epsilon; no default.
        max_error: A public bound that errors are clipped to; by default the width of the declared value range. A lower
            bound means less noise, for rmse by its square.
        public_model: Set this if the model has no guarantee, but was learned from public data alone.

    Returns:
        Metric -> value: a dict that prints as a table.
    """
    _check_tables(model, test, history, popularity)
    rated = not test.implicit and predicts_ratings(model)
    asked = parse((EXPLICIT if rated else IMPLICIT) if metrics is None else metrics)
    _require_ratings(model, test, asked)
    level = _level(confidence)
    least = None if relevant is None else _finite("relevant", relevant)
    task = Task(model, test, history, asked, relevant=least, exclude_seen=bool(exclude_seen), private=bool(private))
    if any(metric.name == "accuracy" for metric in asked):
        task = replace(task, threshold=threshold_of(test, threshold, private))
    if private:
        reasons = {name: f"not available with private=True: {why}" for name, why in EXACT_ONLY.items()}
        _refuse(reasons, buckets=buckets, n_boot=n_boot, popularity=popularity)
        if not isinstance(ledger, Ledger) or epsilon is None or delta is None:
            raise PrivacyError(
                "ledger, epsilon, delta: private=True needs all three: a discreet.Ledger, and how much of its budget "
                "to spend, for instance ledger=ledger, epsilon=0.1, delta=1e-6"
            )
        released.require_private_model(model, ledger, public_model)
        released.require_answers(task)
        task = replace(task, max_error=released.error_bound(task, max_error))
        return released.release(task, ledger=ledger, epsilon=epsilon, delta=delta, confidence=level)
    given = {"ledger": ledger, "epsilon": epsilon, "delta": delta, "max_error": max_error}
    _refuse(dict.fromkeys((*given, "public_model"), PRIVATE_ONLY), **given, public_model=public_model or None)
    _warn_of_seen(task)
    source = history if popularity is None else popularity
    if any(metric.name == "novelty" for metric in asked):
        share = np.maximum(counts(source, model.items_), 1)  # times the number of users
        task = replace(task, bits=np.log2(max(source.n_users, 1)) - np.log2(share))
    n_buckets = 0 if buckets is None else whole("buckets", buckets, 1, error=DataError)
    if bucket_by not in ("items", "history"):
        raise DataError(f"bucket_by: must be 'items' or 'history', not {bucket_by!r}")
    by_history = bucket_by == "history"
    task = task if by_history else _by_popularity(task, source, n_buckets)
    collected = collect(task)
    about = _by_history(collected, n_buckets) if by_history else _items_about(task, source)
    scores = score(collected, level, n_boot, random_state)
    overall = {str(metric): scores[metric, None] for metric in asked}
    table = [
        Bucket(b + 1, about[b], {str(metric): found for (metric, at), found in scores.items() if at == b})
        for b in range(len(about))
    ]
    return Evaluation(overall, confidence=level, buckets=table, bucket_by=bucket_by)


# -- checks of the arguments


def predicts_ratings(model: Any) -> bool:
    """Whether a fitted model's predictions are ratings, and not scores that order lists."""
    return bool(getattr(model, "_predicts_ratings", True))


def _require_ratings(model: Any, test: Interactions, metrics: Iterable[Metric]) -> None:
    """Raise if ratings would be compared with scores."""
    wrong = next((metric for metric in metrics if not metric.is_ranking), None)
    if wrong is not None and not test.implicit and not predicts_ratings(model):
        raise DataError(
            f"metrics: {wrong} compares ratings, and this {type(model).__name__} predicts none, only scores; "
            "ask for a ranking metric, such as recall@20"
        )


def _check_tables(model: Any, test: Any, history: Any, popularity: Any) -> None:
    if not all(hasattr(model, name) for name in ("predict", "recommend")):
        raise DataError(f"model: a model of discreet was expected, not {type(model).__name__}")
    if not hasattr(model, "items_"):
        raise NotFitted(f"model: this {type(model).__name__} is not fitted yet; call fit before evaluate")
    for name, table in (("test", test), ("history", history), ("popularity", popularity)):
        if not isinstance(table, Interactions) and not (name == "popularity" and table is None):
            raise DataError(f"{name}: Interactions were expected, not {type(table).__name__}; see discreet.read")


def _warn_of_seen(task: Task) -> None:
    """Warn if the model is shown what it is tested on. The number is exact, so this is not for private evaluation."""
    test, history = task.test, task.history
    if not task.exclude_seen:
        return
    users = history.users.numbers(test.users.to_arrow(), "users")[test.user_numbers()].astype(np.int64)
    items = history.items.numbers(test.items.to_arrow(), "items")[test.indices].astype(np.int64)
    known = (users >= 0) & (items >= 0)
    past = history.user_numbers().astype(np.int64) * history.n_items + history.indices
    seen = np.count_nonzero(np.isin(users[known] * history.n_items + items[known], past, assume_unique=True))
    if seen:
        warnings.warn(
            f"history: {seen:,} of {len(test):,} targets are in it too. The model is shown them, so errors look too "
            "small, and lists, which leave out what was seen, miss them; give the history without the test data",
            stacklevel=3,
        )


def _level(confidence: Any) -> float | None:
    if confidence is None:
        return None
    level = _finite("confidence", confidence)
    if not 0 < level < 1:
        raise DataError(f"confidence: a level between 0 and 1 was expected, for instance 0.95, not {confidence!r}")
    return level


def pair(
    data: Any, second: str, split: Callable[[Interactions], tuple[Interactions, Interactions]]
) -> tuple[Interactions, Interactions]:
    """Two tables to train and to test on: as given, or split."""
    if isinstance(data, Interactions):
        return split(data)
    if isinstance(data, tuple | list) and len(data) == 2 and all(isinstance(part, Interactions) for part in data):
        return data[0], data[1]
    raise DataError(f"data: Interactions (see discreet.read) or a pair (train, {second}) of them was expected")


def _refuse(reasons: dict[str, str], **given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise PrivacyError(f"{name}: {reasons[name]}; leave it out")


def _finite(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise DataError(f"{name}: a number was expected, not {value!r}")
    return float(value)


def threshold_of(test: Interactions, threshold: float | None, private: bool) -> float:
    """The threshold of accuracy: the one given, or the one that follows from the kind of values."""
    if threshold is not None:
        return _finite("threshold", threshold)
    if test.value_range in THRESHOLDS:
        return THRESHOLDS[test.value_range]
    present = () if private else tuple(np.unique(test.values).tolist())  # private values decide nothing
    if len(present) == 2 and present in THRESHOLDS:
        return THRESHOLDS[present]
    raise DataError(
        "threshold: accuracy needs one, unless value_range is (0, 1) or (-1, 1): values of at least the threshold are "
        "one side, values below it the other"
    )


# -- the popularity of items


def counts(popularity: Interactions, items: Ids) -> Integers:
    """How many interactions each item has in a table; 0 for an item that the table does not know."""
    known = np.append(np.bincount(popularity.indices, minlength=popularity.n_items), 0)
    found: Integers = known[popularity.items.numbers(items.to_arrow(), "items")]  # unknown is -1, the last one
    return found


def divided(per_item: Integers, n_buckets: int) -> Integers:
    """The bucket of each item, 0 for the most popular ones: of equal numbers of items, or the first have one more.

    Items with equal counts are in the order of the catalog.
    """
    if n_buckets > max(len(per_item), 1):
        raise DataError(f"buckets: {n_buckets} buckets cannot be made of {len(per_item)} items; ask for fewer")
    bucket = np.empty(len(per_item), dtype=np.int64)
    for number, items in enumerate(np.array_split(np.argsort(-per_item, kind="stable"), n_buckets)):
        bucket[items] = number
    return bucket


def _by_history(collected: Collected, n_buckets: int) -> list[dict[str, float]]:
    """Divide users by the length of their histories, add their sums by bucket, and say what is in each."""
    if not n_buckets:
        return []
    if all(metric in collected.shown for metric, _ in collected.sums):
        raise DataError("buckets: coverage is about all lists, and has none; ask for another metric too")
    lengths, at, users = np.unique(collected.lengths, return_inverse=True, return_counts=True)
    middle = (np.cumsum(users) - users / 2) / users.sum()  # of the users with each length, among all
    used, of_length = np.unique((middle * n_buckets).astype(np.int64), return_inverse=True)
    bucket = of_length[at]
    for metric, _ in list(collected.sums):
        if metric not in collected.shown:  # coverage is about all lists
            sums = collected.sums[metric, None]
            collected.sums |= {(metric, b): sums * (bucket == b) for b in range(len(used))}
    inside = [(users[of_length == b], lengths[of_length == b]) for b in range(len(used))]
    return [{"users": int(n.sum()), "shortest": int(some[0]), "longest": int(some[-1])} for n, some in inside]


def _by_popularity(task: Task, source: Interactions, n_buckets: int) -> Task:
    """With buckets of items, if there are any."""
    if not n_buckets:
        return task
    if not any(metric.has_buckets for metric in task.metrics):
        raise DataError("buckets: none of the metrics can be divided by item; rmse, mae, accuracy and recall@k can")
    return replace(task, bucket_of=divided(counts(source, task.test.items), n_buckets), n_buckets=n_buckets)


def _items_about(task: Task, source: Interactions) -> list[dict[str, float]]:
    """What is in each bucket of items; empty without buckets."""
    if task.bucket_of is None:
        return []
    per_item = counts(source, task.test.items)
    items = np.bincount(task.bucket_of, minlength=task.n_buckets)
    share = np.bincount(task.bucket_of, per_item, minlength=task.n_buckets) / max(int(per_item.sum()), 1)
    return [{"items": int(items[b]), "share": float(share[b])} for b in range(task.n_buckets)]


# -- values and intervals


def score(
    collected: Collected, confidence: float | None, n_boot: int | None, random_state: int | None
) -> dict[Key, Score]:
    """Values and intervals of every metric, over all and in each bucket."""
    resamples = whole("n_boot", N_BOOT if n_boot is None else n_boot, 1, error=DataError)
    if not all(below.any() for (_, bucket), (_, below) in collected.sums.items() if bucket is None):
        raise DataError("test: no user has a target to evaluate on (with relevant=, none of at least that value)")
    users = {key: int((below > 0).sum()) for key, (_, below) in collected.sums.items()}
    scores: dict[Key, Score] = {  # coverage has no interval: fewer users see fewer items
        (metric, None): Score(coverage(shown), np.nan, np.nan, users[metric, None])
        for metric, shown in collected.shown.items()
    }
    keys = [key for key in collected.sums if key not in scores]
    if not keys:
        return scores
    above, below = (np.column_stack([collected.sums[key][side] for key in keys]) for side in (0, 1))
    total = below.sum(axis=0)
    values = np.full((len(keys), 3), np.nan)
    np.divide(above.sum(axis=0), total, out=values[:, 0], where=total > 0)
    if confidence is not None:
        resampled = resampled_ratios(above, below, resamples, random_state)
        for at, key in enumerate(keys):
            if users[key] > 1:  # a single user has only one resample
                values[at, 1:] = percentile_interval(resampled[:, at], confidence)
    for key, means in zip(keys, values, strict=True):
        value, low, high = key[0].finish(means).tolist()
        scores[key] = Score(value, low, high, users[key])
    return scores


def resampled_ratios(numerators: Floats, denominators: Floats, n_boot: int, random_state: int | None) -> Floats:
    """Ratios of sums over resampled users (resamples, metrics); NaN where the denominator is 0.

    A resample draws as many users as there are, with replacement. All its sums are linear in how often each user was
    drawn, so a block of resamples is one matrix product, and every metric sees the same resamples.
    """
    n_users, n_metrics = numerators.shape
    generator = np.random.default_rng(random_state)
    both = np.concatenate([numerators, denominators], axis=1)
    ratios = np.empty((n_boot, n_metrics))
    size = max(1, DRAWS // max(n_users, 1))
    for start in range(0, n_boot, size):
        block = min(size, n_boot - start)
        drawn: NDArray[np.int64] = generator.integers(0, n_users, (block, n_users))
        drawn += np.arange(block)[:, None] * n_users
        times = np.bincount(drawn.ravel(), minlength=block * n_users).reshape(block, n_users)
        sums = times.astype(np.float64) @ both
        above, below = sums[:, :n_metrics], sums[:, n_metrics:]
        ratios[start : start + block] = np.divide(above, below, out=np.full_like(above, np.nan), where=below > 0)
    return ratios


def percentile_interval(ratios: Floats, confidence: float) -> tuple[float, float]:
    """The percentile interval of one metric's resampled values; NaN if none of them is finite."""
    finite = ratios[np.isfinite(ratios)]
    if not len(finite):
        return np.nan, np.nan
    low, high = np.quantile(finite, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)
