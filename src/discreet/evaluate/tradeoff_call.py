"""The call: `discreet.evaluate.tradeoff(models, data, epsilons, repeats)`."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Any

from sklearn.base import clone

from discreet.data import Interactions, splits
from discreet.data.progress import Bar, quiet
from discreet.errors import DataError, PrivacyError
from discreet.evaluate.metrics import Metric, parse
from discreet.evaluate.run import evaluate
from discreet.evaluate.tradeoff_result import Tradeoff
from discreet.evaluate.tradeoff_runs import Question, Run, Store, context_of
from discreet.validation import positive, probability, whole

EPSILONS = (0.5, 1.0, 2.0, 5.0, 10.0)
TWIN, OWN_MEAN, POPULAR = "ALS, not private", "each user's own mean", "popularity, not private"
_EXPLICIT, _IMPLICIT = ("rmse",), ("recall@20", "ndcg@100")


def tradeoff(
    models: Any,
    data: Interactions | tuple[Interactions, Interactions],
    epsilons: Iterable[float] = EPSILONS,
    repeats: int = 3,
    *,
    delta: float | None = None,
    metrics: str | Iterable[str] | None = None,
    baselines: Mapping[str, Any] | None = None,
    relevant: float | None = None,
    threshold: float | None = None,
    test: float = 0.1,
    random_state: int = 0,
    results: str | PathLike[str] | None = None,
    insecure_seed: int | None = None,
) -> Tradeoff:
    """How good models are at several epsilons, over several draws of the noise, beside what needs no privacy.

    Every (model, epsilon, repeat) is fitted with noise of its own and measured on the same test data. The numbers are
    exact, about private users, and for the owner's eyes only: the fits are not charged to any ledger, since nothing of
    them is to be published, and a model or an epsilon that is chosen by them is chosen by private data.

    Args:
        models: Private models, whose epsilon is replaced: one, a list, or a mapping from names to them. Each is an
            instance, or a class (which needs `delta`). A model that has no epsilon is fitted once, and is a line.
        data: Interactions, of which a part is held out at random; or a pair (train, test).
        epsilons: The budgets.
        repeats: How many draws of the noise at each.
        delta: The delta of all private models; by default each one's own.
        metrics: For instance ["rmse", "recall@20"]; by default rmse, or recall@20 and ndcg@100 without values. The
            first is the one that is recommended by.
        baselines: Names and models that are not private, drawn as lines; by default `ALS` and what costs nothing: each
            user's own mean (for lists: the most popular items).
        relevant: As for `discreet.evaluate`.
        threshold: As for `discreet.evaluate`.
        test: The share of the interactions that is held out, where `data` is not divided yet.
        random_state: The seed of that division, which is public.
        results: A DuckDB file for the runs. What is in it already is not run again: so a killed call goes on. By
            default results are kept in memory.
        insecure_seed: For tests: noise that can be repeated, of models that then say NOT PRIVATE.

    Returns:
        Model -> epsilon -> metric -> mean over the repeats: a mapping that prints as a table, with `plot`, `to_frame`,
        `sentence` and `html`.
    """
    train, held_out = _divided(data, test, random_state)
    asked = parse((_IMPLICIT if train.implicit else _EXPLICIT) if metrics is None else metrics)
    budgets = _budgets(epsilons)
    repeats = whole("repeats", repeats, 1)
    contenders = _named(models, train, delta)
    lines = _usual(train, asked) if baselines is None else dict(baselines)
    if twice := set(lines) & set(contenders):
        raise DataError(f"baselines: {', '.join(sorted(twice))} is among the models too; give it another name")
    bench = Bench(train, held_out, asked, {"relevant": relevant, "threshold": threshold}, repeats, insecure_seed)
    questions = []
    for name, model in {**contenders, **lines}.items():
        questions += bench.questions(name, model, budgets if name in contenders and _is_private(model) else [None])
    with Store(results) as store, Bar("trade-off", len(questions), f"of {len(questions)} runs") as bar:
        runs = []
        for question in questions:
            runs.append(store.find(question) or bench.answer(question, store))
            bar.advance(1, question.name if question.epsilon is None else f"{question.name}, {question.epsilon:g}")
    free = POPULAR if asked[0].is_ranking else OWN_MEAN
    return Tradeoff(runs, metrics=[str(m) for m in asked], repeats=repeats, free=free if free in lines else None)


@dataclass(frozen=True)
class Bench:
    """What all runs have in common: data, metrics with their options, the number of repeats, and a seed for tests."""

    train: Interactions
    test: Interactions
    metrics: tuple[Metric, ...]
    options: dict[str, Any]
    repeats: int
    seed: int | None

    @cached_property
    def _context(self) -> str:
        return context_of(self.train, self.test, {**self.options, "insecure_seed": self.seed})

    def questions(self, name: str, model: Any, budgets: Sequence[float | None]) -> list[Question]:
        """All runs of a model, checked as far as that can be done before the first of them."""
        from discreet.models.baselines import Popularity

        fitting = tuple(str(m) for m in self.metrics if m.is_ranking or not isinstance(model, Popularity))
        questions = []
        for epsilon in budgets:
            asked = clone(model) if epsilon is None else clone(model).set_params(epsilon=epsilon)
            asked._check_parameters()
            if epsilon is not None and hasattr(asked, "plan"):
                asked.plan(self.train.n_items)
            times = range(1 if epsilon is None else self.repeats)
            questions += [Question(name, asked, epsilon, repeat, fitting, self._context) for repeat in times]
        return questions

    def answer(self, question: Question, store: Store) -> Run:
        """Fit a model, measure it, and keep the result."""
        model = clone(question.model)
        with quiet():  # one bar at a time
            model.fit(self.train, ledger=self._ledger(question))
            options = {**self.options, "metrics": question.metrics, "confidence": None}
            measured = evaluate(model, self.test, history=self.train, **options)
        return store.add(question, dict(measured), model.statement().certificate)

    def _ledger(self, question: Question) -> Any:
        """None, for a ledger of the fit's own with the system's noise; with a seed, one whose noise can be repeated."""
        if self.seed is None or question.epsilon is None:
            return None
        from discreet.privacy import Ledger
        from discreet.privacy.noise import InsecureSeededNoise

        model = question.model
        source = InsecureSeededNoise(int(question.key, 16) ^ question.repeat)
        return Ledger(delta=model.delta, unit=model.unit, adjacency=model.adjacency, noise_source=source)


# -- what was given


def _divided(data: Any, test: float, random_state: int) -> tuple[Interactions, Interactions]:
    if isinstance(data, Interactions):
        parts = splits.holdout(data, test=test, random_state=whole("random_state", random_state, 0))
        return parts.train, parts.test
    if isinstance(data, tuple | list) and len(data) == 2 and all(isinstance(part, Interactions) for part in data):
        return data[0], data[1]
    raise DataError("data: Interactions (see discreet.read) or a pair (train, test) of them was expected")


def _budgets(epsilons: Iterable[float]) -> list[float]:
    if isinstance(epsilons, str) or not isinstance(epsilons, Iterable):
        epsilons = [epsilons]  # one number will do
    found = sorted({positive("epsilons", epsilon) for epsilon in epsilons})
    if not found:
        raise PrivacyError("epsilons: at least one is needed, for instance [0.5, 1, 2, 5]")
    return found


def _named(models: Any, train: Interactions, delta: float | None) -> dict[str, Any]:
    """Names and models of whichever form was given."""
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


def _made(model: Any, train: Interactions, delta: float | None) -> Any:
    """A model to clone: of a class, with this delta; and where it chooses by itself, the one that it chooses."""
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
    return model.choose(train) if hasattr(type(model), "choose") else model


def _is_private(model: Any) -> bool:
    return "epsilon" in model.get_params(deep=False)


def _usual(train: Interactions, metrics: Sequence[Metric]) -> dict[str, Any]:
    """The lines that are drawn unless others are given."""
    from discreet.models.als import ALS
    from discreet.models.baselines import MeanRating, Popularity

    lines: dict[str, Any] = {TWIN: ALS()}
    if any(not metric.is_ranking for metric in metrics):
        lines[OWN_MEAN] = MeanRating("user")
    if any(metric.is_ranking for metric in metrics):
        lines[POPULAR] = Popularity()
    return lines
