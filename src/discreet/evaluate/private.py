"""Evaluation through the ledger: means over users of bounded values, with Gaussian noise on their sums.

**Released**: for each metric the sum over users of (value - 1/2), and the number of users, as one vector (`MeanSum`).
The proof is docs/proofs/evaluation.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial
from statistics import NormalDist
from typing import Any

import numpy as np

from discreet.data import Interactions
from discreet.data.catalogue import Ids
from discreet.engine import LocalBlocks
from discreet.errors import DataError, PrivacyError
from discreet.evaluate.metrics import Collected, Metric, Task, collect, parse
from discreet.evaluate.result import Evaluation, Score
from discreet.parallel import quiet
from discreet.privacy import Guarantee, Ledger, MeanSum, Noisy, Plan, Releaser
from discreet.privacy.guarantee import account
from discreet.typing import Floats
from discreet.validation import positive

# Over users, of their own values, from 0 to a public bound.
_MEANS = ("rmse", "mae", "accuracy", "recall", "plain_recall", "precision", "ndcg", "map", "mrr")
_REFUSED = {
    "coverage": "it is not a mean over users: whether anybody was shown an item can depend on a single person",
    "novelty": "popularity is counted over everyone, so one person moves the values of all others",
}


def mean_sum(metrics: Sequence[Metric], relevant: float | None, adjacency: str) -> MeanSum:
    """The statistic to release. With `relevant=`, users with a target and users with a relevant one are two groups."""
    apart = relevant is not None and len({metric.is_ranking for metric in metrics}) == 2
    return MeanSum(tuple(int(apart and metric.is_ranking) for metric in metrics), adjacency)


def label(metrics: Sequence[Metric]) -> str:
    """The name of the release in the ledger."""
    return f"evaluation: {', '.join(map(str, metrics))}"


def require_private(metric: Metric, argument: str = "metrics") -> None:
    """Raise unless a metric can be released."""
    if metric.name not in _MEANS:
        why = _REFUSED.get(metric.name, "there is no proof for it")
        raise PrivacyError(f"{argument}: {metric} cannot be private: {why}")


def plan(metrics: str | Iterable[str], *, epsilon: float, delta: float) -> Plan:
    """The plan of a private evaluation, for `ledger.preview`. It needs no data.

    Args:
        metrics: Their names.
        epsilon: How much the evaluation may spend.
        delta: The delta that goes with epsilon.
    """
    asked = parse(metrics)
    for metric in asked:
        require_private(metric)
    mu = account(epsilon=positive("epsilon", epsilon), delta=delta).mu
    assert mu is not None
    return Plan.gaussian(mu, {label(asked): 1.0})


def release(task: Task, *, ledger: Ledger, epsilon: float, delta: float, confidence: float | None) -> Evaluation:
    """Compute, bound, add up and release. `task` is private, and its public arguments have been checked."""
    metrics, statistic = task.metrics, mean_sum(task.metrics, task.relevant, ledger.adjacency)
    planned = plan(map(str, metrics), epsilon=epsilon, delta=delta)
    std = planned.noise(label(metrics), sensitivity=statistic.sensitivity(ledger.adjacency)).std
    statistic.encoder(std)  # raises if there is too little to spend
    with ledger.reserve(planned) as reservation:
        with quiet():  # a bar would show how many users there are, which is private
            collected = collect(task)
        users = LocalBlocks[Collected](lambda: [collected])
        releaser = Releaser(reservation, ledger.adjacency, None)
        public = releaser.release(label(metrics), statistic, users, partial(contributions, task))
    guarantee = ledger.guarantee(planned.cost, reservation.events, delta=delta)
    scores = read(public, task, statistic, confidence)
    return Evaluation(scores, confidence=confidence, guarantee=guarantee, noise_std=public.std)


def contributions(task: Task, collected: Collected) -> Floats:
    """Each user's values, from 0 to 1; NaN where they have none."""
    values = np.full((len(collected.lengths), len(task.metrics)), np.nan)
    for column, metric in enumerate(task.metrics):
        above, below = collected.sums[metric, None]
        there = below > 0
        values[there, column] = above[there] / below[there] / metric.bound(task.max_error)
    return values


def read(public: Noisy, task: Task, statistic: MeanSum, confidence: float | None) -> dict[str, Score]:
    """Values and noise intervals from a release: post-processing."""
    encoder = statistic.encoder(public.std)
    weights = encoder.counts * encoder.grid.step
    users = public.values[len(task.metrics) :] / weights
    scores = {}
    for column, metric in enumerate(task.metrics):
        group = statistic.groups[column]
        ends = ratio(float(public.values[column]), float(users[group]), public.std, float(weights[group]), confidence)
        value, low, high = metric.finish((np.array(ends) + 0.5) * metric.bound(task.max_error)).tolist()
        scores[str(metric)] = Score(value, low, high, max(round(float(users[group])), 0))
    return scores


def ratio(
    total: float, users: float, std: float, weight: float, confidence: float | None
) -> tuple[float, float, float]:
    """The mean total / users, within [-1/2, 1/2], and its noise interval (Fieller 1954).

    `total` has noise of `std`, `users` of `std / weight`. For the true mean c, total - c users is Gaussian with mean 0
    and std sqrt(1 + (c / weight)^2) times `std`: the interval is the set of c that this does not make unlikely. It is
    exact, not an approximation. With too few users it is the whole range, and the mean may be NaN.
    """
    mean = min(max(total / users, -0.5), 0.5) if users > 0 else math.nan
    if confidence is None:
        return mean, math.nan, math.nan
    reach = NormalDist().inv_cdf((1 + confidence) / 2) * std
    leading = users**2 - (reach / weight) ** 2
    if users <= 0 or leading <= 0:
        return mean, -0.5, 0.5
    middle = total * users / leading
    half = reach * math.sqrt(max(leading + (total / weight) ** 2, 0.0)) / leading
    low, high = (min(max(end, -0.5), 0.5) for end in (middle - half, middle + half))
    return mean, low, high


def require_private_model(model: Any, ledger: Ledger, public_model: bool) -> None:
    """Raise unless the model is public, or private in the unit and adjacency of the ledger.

    Otherwise one person changes the model and thus all users' errors, and bounding their own part does not help.
    """
    if ledger.unit != "user":
        raise PrivacyError(
            f"ledger: its unit is {ledger.unit!r}, but the bound of a private evaluation is proved for users; use a "
            "ledger with unit='user'"
        )
    if public_model:
        return
    guarantee = getattr(model, "guarantee_", None)
    if not isinstance(guarantee, Guarantee) or not guarantee.holds:
        raise PrivacyError(
            "model: it is not private, so one person can change it and thus everyone's errors; noise on their sums "
            "does not hide that. Evaluate a private model; or, if this one was learned from public data alone, pass "
            "public_model=True"
        )
    ledger.expect(unit=guarantee.unit, adjacency=guarantee.adjacency)


def require_answers(task: Task) -> None:
    """Raise if the model might refuse a person's history or targets, which would reveal something about them.

    It must accept every value in the declared range of the history, and know items of both tables: with ids of another
    type it would refuse those of anyone, but not those of no one.
    """
    for name, table in (("test", task.test), ("history", task.history)):
        require_known(name, table, task.model.items_)
    known, history = getattr(task.model, "value_range_", None), task.history
    if known is None or history.implicit or getattr(task.model, "implicit_", False):
        return
    history.require_public()
    assert history.value_range is not None
    (low, high), (least, most) = history.value_range, known
    if low < least or high > most:
        raise DataError(
            f"history: its values may be from {low:g} to {high:g}, but this model takes values from {least:g} to "
            f"{most:g}; rescale the history, or declare its real value_range"
        )


def require_known(name: str, table: Interactions, items: Ids) -> None:
    """Raise if a model of these items knows none of a table's, judged by the catalogs alone."""
    table.catalogue.require_public()
    if (items.numbers(table.items.to_arrow(), name) < 0).all():
        raise DataError(f"{name}: the model knows none of its items; give tables with the model's ids")


def error_bound(task: Task, max_error: float | None) -> float:
    """The public bound on an error: the one given, and at most the width of the range of values."""
    task.test.require_public()
    assert task.test.value_range is not None
    low, high = task.test.value_range
    return min(math.inf if max_error is None else positive("max_error", max_error), high - low)
