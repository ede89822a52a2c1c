"""Privacy against accuracy: `discreet.evaluate.tradeoff(...)` fits models at several epsilons."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial
from os import PathLike
from typing import Any, Literal, TypeAlias

from sklearn.base import clone

from discreet.data import Interactions, splits
from discreet.errors import DataError, PrivacyError
from discreet.evaluate.curves import OWN_MEAN, Tradeoff
from discreet.evaluate.metrics import Metric, parse
from discreet.evaluate.run import evaluate, pair
from discreet.evaluate.runs import Question, Store, context_of
from discreet.models.als import ALS
from discreet.models.base import Model
from discreet.models.baselines import DPMeanRating, DPPopularity, MeanRating, Popularity
from discreet.models.recommender import Recommender
from discreet.parallel import Bar, quiet
from discreet.privacy import Ledger
from discreet.privacy.noise import InsecureSeededNoise
from discreet.validation import positive, probability, whole

Kind: TypeAlias = Model | Recommender | type[Model] | type[Recommender]

TWIN, POPULAR = "ALS, not private", "popularity, not private"
EXPLICIT, IMPLICIT = ("rmse",), ("recall@20", "ndcg@100")
EPSILONS = (0.5, 1.0, 2.0, 5.0, 10.0)


def tradeoff(
    models: Kind | Sequence[Kind] | Mapping[str, Kind],
    data: Interactions | tuple[Interactions, Interactions],
    epsilons: Iterable[float] = EPSILONS,
    repeats: int = 3,
    *,
    delta: float | None = None,
    metrics: str | Iterable[str] | None = None,
    baselines: Mapping[str, Model] | None = None,
    relevant: float | None = None,
    threshold: float | None = None,
    by: Literal["random", "time"] = "random",
    test: float = 0.1,
    random_state: int = 0,
    results: str | PathLike[str] | None = None,
    insecure_seed: int | None = None,
) -> Tradeoff:
    """Measure models at several epsilons, over several draws of the noise, next to baselines with and without privacy.

    Every (model, epsilon, repeat) is fitted with its own noise and measured on the same test data. The numbers are
    exact, about private users, and for the owner's eyes only. The fits are not charged to any ledger, because they are
    not meant to be published, and choosing a model or an epsilon by them is a choice by private data.

    Args:
        models: Private models, whose epsilon is replaced: one, a list, or a mapping from names to models. Each is an
            instance, or a class (which needs `delta`). A model without an epsilon is fitted once and drawn as a line.
        data: Interactions, part of which is held out; or a pair (train, test).
        epsilons: The budgets.
        repeats: The number of draws of the noise at each epsilon.
        delta: The delta of all private models; by default each one keeps its own.
        metrics: For instance ["rmse", "recall@20"]; by default rmse, or recall@20 and ndcg@100 without values. The
            recommendation uses the first one.
        baselines: Names and models: private ones are fitted at the same epsilons, others are drawn as lines. By default
            `DPMeanRating` (for lists: `DPPopularity`), unless a model protects less than users, and, without privacy,
            `ALS` and each user's own mean (for lists: the most popular items).
        relevant: As for `discreet.evaluate`.
        threshold: As for `discreet.evaluate`.
        by: Whether "random" interactions are held out or, by "time", the latest, unless `data` is a pair.
        test: The share of the interactions to hold out.
        random_state: The seed of a random split, which is public.
        results: A DuckDB file for the runs. Runs that it already has are not repeated, so a killed call continues where
            it stopped. By default results are kept in memory.
        insecure_seed: For tests: repeatable noise. The models then say NOT PRIVATE.

    Returns:
        Model -> epsilon -> metric -> mean over the repeats: a mapping that prints as a table, with `plot`, `to_frame`,
        `sentence` and `html`.
    """
    seed = whole("random_state", random_state, 0)
    train, held_out = pair(data, "test", lambda table: splits.holdout(table, by=by, test=test, random_state=seed)[::2])
    budgets = _budgets(epsilons)
    repeats = whole("repeats", repeats, 1)
    contenders = _named(models, train, delta)
    for_lists = train.implicit or all(map(_for_lists, contenders.values()))
    asked = parse((IMPLICIT if for_lists else EXPLICIT) if metrics is None else metrics)
    for name, model in contenders.items():
        if not any(_gives(model, metric) for metric in asked):
            raise DataError(f"metrics: none of them measures {name}; ask for recall@20 or rmse too")
    lines = _usual(asked, contenders.values()) if baselines is None else dict(baselines)
    if baselines is None:  # a contender is not a baseline
        lines = {name: model for name, model in lines.items() if name not in contenders}
    if twice := set(lines) & set(contenders):
        raise DataError(f"baselines: {', '.join(sorted(twice))} is among the models too; give it another name")
    options: dict[str, Any] = {"relevant": relevant, "threshold": threshold}
    context = context_of(train, held_out, {**options, "insecure_seed": insecure_seed})
    questions = []
    for name, model in {**contenders, **lines}.items():
        varied = _is_private(model)
        for epsilon in budgets if varied else [None]:
            wanted = _checked(model, epsilon, train.n_items)
            measured = tuple(str(m) for m in asked if _gives(model, m))
            times = range(repeats if varied else 1)
            questions += [Question(name, wanted, epsilon, repeat, measured, context) for repeat in times]
    runs = []
    with closing(Store(results)) as store, Bar("trade-off", len(questions), f"of {len(questions)} runs") as bar:
        for question in questions:
            runs.append(store.run(question, partial(_measured, question, train, held_out, options, insecure_seed)))
            bar.advance(1, question.name if question.epsilon is None else f"{question.name}, {question.epsilon:g}")
    free = POPULAR if asked[0].is_ranking else OWN_MEAN
    return Tradeoff(
        runs,
        metrics=[str(m) for m in asked],
        repeats=repeats,
        free=free if free in lines else None,
        baselines=[name for name, model in lines.items() if _is_private(model)],
    )


def _measured(
    question: Question, train: Interactions, test: Interactions, options: dict[str, Any], seed: int | None
) -> tuple[dict[str, float], dict[str, Any]]:
    """The scores and the certificate of a fit. It has its own ledger, whose noise a seed makes repeatable."""
    model, ledger = clone(question.model), None
    if seed is not None and question.epsilon is not None:
        source = InsecureSeededNoise(int(question.key, 16) ^ question.repeat)
        ledger = Ledger(delta=model.delta, unit=model.unit, adjacency=model.adjacency, noise_source=source)
    with quiet():  # one bar at a time
        model.fit(train, ledger=ledger)
        scores = evaluate(model, test, history=train, metrics=question.metrics, confidence=None, **options)
    return dict(scores), model.statement().certificate


def _checked(model: Model, epsilon: float | None, n_items: int) -> Model:
    """A model with this epsilon, checked as far as possible before the first run."""
    found: Model = clone(model) if epsilon is None else clone(model).set_params(epsilon=epsilon)
    found._check_parameters()
    if epsilon is not None and hasattr(found, "plan"):
        found.plan(n_items)
    return found


def _budgets(epsilons: Iterable[float]) -> list[float]:
    if isinstance(epsilons, str) or not isinstance(epsilons, Iterable):
        epsilons = [epsilons]
    found = sorted({positive("epsilons", epsilon) for epsilon in epsilons})
    if not found:
        raise PrivacyError("epsilons: at least one is needed, for instance [0.5, 1, 2, 5]")
    return found


def _named(models: Any, train: Interactions, delta: float | None) -> dict[str, Model]:
    if isinstance(models, Mapping):
        found = {str(name): _made(model, train, delta) for name, model in models.items()}
    else:
        several = models if isinstance(models, Sequence) and not isinstance(models, str) else [models]
        made = [_made(model, train, delta) for model in several]
        found = {type(model).__name__: model for model in made}
        if len(found) < len(made):
            raise DataError("models: several are of one class; give them names, as {'short': model, 'long': model}")
    if not any(_is_private(model) for model in found.values()):
        raise DataError("models: at least one private model is needed: one with an epsilon to vary")
    return found


def _made(model: Any, train: Interactions, delta: float | None) -> Model:
    """A model to clone: an instance, with this delta; for a model that chooses another, the other."""
    if inspect.isclass(model):
        takes = inspect.signature(model).parameters
        if "epsilon" in takes and delta is None:
            raise PrivacyError(f"delta: {model.__name__} has no default; give one, well below 1 / the number of users")
        private = {"epsilon": 1.0, "delta": delta}
        model = model(**{name: value for name, value in private.items() if name in takes})
    if not hasattr(model, "get_params") or not hasattr(model, "fit"):
        raise DataError(f"models: models of discreet were expected, not {type(model).__name__}")
    if delta is not None and "delta" in model.get_params(deep=False):
        model = clone(model).set_params(delta=probability("delta", delta))
    found: Model = model.choose(train) if hasattr(type(model), "choose") else model
    return found


def _is_private(model: Model) -> bool:
    return "epsilon" in model.get_params(deep=False)


def _gives(model: Model, metric: Metric) -> bool:
    """Whether a metric says something about a model: popularity predicts no ratings, and item means order no lists."""
    if isinstance(model, DPMeanRating):
        return not metric.is_ranking
    return metric.is_ranking or not (isinstance(model, Popularity | DPPopularity) or _for_lists(model))


def _for_lists(model: Model) -> bool:
    return getattr(model, "objective", None) == "lists"


def _usual(metrics: Sequence[Metric], contenders: Iterable[Model]) -> dict[str, Model]:
    """The default baselines."""
    lines: dict[str, Model] = {}
    private: list[Any] = [model for model in contenders if _is_private(model)]
    if all(model.unit == "user" and model.delta is not None for model in private):
        budget = {name: getattr(private[0], name) for name in ("epsilon", "delta", "adjacency")}
        made = DPMeanRating(**budget), DPPopularity(**budget)
        lines = {type(one).__name__: one for one in made if any(_gives(one, metric) for metric in metrics)}
    lines[TWIN] = ALS()
    if any(not metric.is_ranking for metric in metrics):
        lines[OWN_MEAN] = MeanRating("user")
    if any(metric.is_ranking for metric in metrics):
        lines[POPULAR] = Popularity()
    return lines
