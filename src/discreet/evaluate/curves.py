"""Privacy against accuracy: `discreet.evaluate.tradeoff(...)` fits models at several epsilons."""

from __future__ import annotations

import html
import inspect
import io
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial
from os import PathLike
from typing import Any, Literal, NamedTuple, NoReturn, TypeAlias

from sklearn.base import clone

from discreet.data import Interactions, splits
from discreet.data.catalogue import to_library
from discreet.errors import DataError, MissingExtra, PrivacyError
from discreet.evaluate.metrics import Metric, best_models, parse
from discreet.evaluate.result import ON_PLOTS, new_axes, number
from discreet.evaluate.run import evaluate, pair
from discreet.evaluate.runs import Question, Run, Store, context_of
from discreet.models.als import ALS
from discreet.models.base import Model
from discreet.models.baselines import DPMeanRating, DPPopularity, MeanRating, Popularity
from discreet.models.recommender import Recommender
from discreet.parallel import Bar, quiet
from discreet.privacy import Ledger
from discreet.privacy.noise import InsecureSeededNoise
from discreet.privacy.rendering import article, document
from discreet.recommend.results import aligned, html_table, paragraphs
from discreet.validation import positive, probability, whole

Kind: TypeAlias = Model | Recommender | type[Model] | type[Recommender]

EPSILONS = (0.5, 1.0, 2.0, 5.0, 10.0)
TWIN, OWN_MEAN, POPULAR = "ALS, not private", "each user's own mean", "popularity, not private"
EXPLICIT, IMPLICIT = ("rmse",), ("recall@20", "ndcg@100")
OWNER = (
    "Exact numbers about private users, for the owner's eyes only: no guarantee covers them if they are published, or "
    "if a model or an epsilon is chosen by them."
)
TOLERABLE = 0.05  # a recommended epsilon loses at most this fraction to the best model without privacy
COLORS = ("#2f6f6d", "#b3541e", "#5b4b8a", "#7a6a1c", "#8a2f55", "#33639b")
STYLES = ("--", ":", "-.")
CSS = """
.plot svg{max-width:100%;height:auto}
.plot{margin:1rem 0;background:#fff;color:#1c2430;border-radius:4px}
figcaption{font-size:.8rem;padding:0 .6rem .6rem}
details{border-bottom:1px solid #d5dae1;padding:.4rem 0}
summary{cursor:pointer;font-weight:600}
"""


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


# -- the result


class Spread(NamedTuple):
    """The values of one metric over draws of the noise: mean, standard deviation (0 for one draw), lowest, highest."""

    mean: float
    sd: float
    low: float
    high: float
    runs: int

    def __str__(self) -> str:
        return number(self.mean) + (f" ± {self.sd:.4f}" if self.runs > 1 else "")


class Tradeoff(dict[str, dict[float, dict[str, float]]]):
    """Model -> epsilon -> metric -> mean over the noise: `result["DPALS"][1.0]["rmse"]`.

    Attributes:
        lines: For each model that was fitted without an epsilon to vary: metric -> value.
        runs: Every run, with its privacy statement.
        metrics: The metrics. The recommendation uses the first one.
        repeats: The number of draws of the noise at each epsilon.
        free: The baseline that needs nobody else's data, so every private model must beat it; None if it is missing.
        baselines: Which of the private models are baselines.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        *,
        metrics: Sequence[str],
        repeats: int,
        free: str | None,
        baselines: Sequence[str] = (),
    ) -> None:
        self.runs = tuple(runs)
        self.metrics, self.repeats, self.free, self.baselines = tuple(metrics), repeats, free, tuple(baselines)
        self.lines = {run.model: dict(run.metrics) for run in runs if run.epsilon is None}
        self._values: dict[tuple[str, float, str], list[float]] = {}
        for run in runs:
            if run.epsilon is not None:
                for metric, value in run.metrics.items():
                    self._values.setdefault((run.model, run.epsilon, metric), []).append(value)
        means: dict[str, dict[float, dict[str, float]]] = {}
        for (model, epsilon, metric), values in self._values.items():
            means.setdefault(model, {}).setdefault(epsilon, {})[metric] = statistics.fmean(values)
        super().__init__(means)
        self._epsilons = sorted({epsilon for curve in means.values() for epsilon in curve})

    def __missing__(self, name: str) -> NoReturn:
        raise KeyError(f"{name!r} was not tried; there are {', '.join(self)}")

    def spread(self, model: str, epsilon: float, metric: str | None = None) -> Spread:
        """How a metric (by default the first) varies over draws of the noise."""
        metric = self._metric(metric)
        found = self._values.get((model, float(epsilon), metric))
        if found is None:
            known = "; ".join(f"{name} at {', '.join(f'{e:g}' for e in points)}" for name, points in self.items())
            raise KeyError(f"{metric} of {model!r} at epsilon {epsilon:g} is not there; there are {known}")
        sd = statistics.stdev(found) if len(found) > 1 else 0.0
        return Spread(statistics.fmean(found), sd, min(found), max(found), len(found))

    def _metric(self, metric: str | None) -> str:
        if metric is not None and metric not in self.metrics:
            raise DataError(f"metric: {metric!r} was not measured; there are {', '.join(self.metrics)}")
        return metric or self.metrics[0]

    # -- conclusions

    def _loss(self, metric: str, value: float, against: float) -> float:
        """By what fraction a value is worse than another; negative if it is better."""
        worse = value - against if Metric.parse(metric).lower_is_better else against - value
        return worse / abs(against) if against else math.copysign(math.inf, worse) if worse else 0.0

    def sentence(self, metric: str | None = None) -> str:
        """The recommendation: the smallest epsilon that loses at most 5% to the best model without privacy.

        Where every epsilon loses more, it is the largest one.
        """
        metric = self._metric(metric)
        known = {name: values[metric] for name, values in self.lines.items() if name != OWN_MEAN and metric in values}
        if not known:
            return "There is no model without privacy to compare with."
        name, against = min(known.items(), key=lambda pair: self._loss(metric, pair[1], 1.0))
        points = [
            (epsilon, self._loss(metric, values[metric], against), model)
            for model, curve in self.items()
            for epsilon, values in curve.items()
            if metric in values
        ]
        good = [point for point in points if point[1] <= TOLERABLE]
        at = min(good)[0] if good else max(points)[0]
        _, loss, model = min((point for point in points if point[0] == at), key=lambda point: point[1])
        numbers = f"{self.spread(model, at, metric)} against {number(against)}"
        found = f"you lose {loss:.1%} {metric}" if loss > 0 else f"you lose nothing in {metric}"
        return f"At epsilon {at:g} {found} with {model} against {name} ({numbers})."

    def beats_free(self, model: str, metric: str | None = None) -> float | None:
        """The smallest epsilon such that every run there and above beats the baseline `free`; None if there is none."""
        metric = self._metric(metric)
        if self.free is None or metric not in self.lines[self.free]:
            raise DataError("baselines: the one that needs nobody's data is missing; leave `baselines` out to have it")
        bar, smallest = self.lines[self.free][metric], None
        for epsilon in sorted(self[model], reverse=True):
            values = self._values[model, epsilon, metric]
            if not all(self._loss(metric, value, bar) < 0 for value in values):
                break
            smallest = epsilon
        return smallest

    def worth(self, metric: str | None = None) -> list[str]:
        """A sentence for each model: the epsilon from which it beats the baseline `free`."""
        metric = self._metric(metric)
        if self.free is None or metric not in self.lines[self.free]:
            return []
        bar = f"{self.free} ({metric} {number(self.lines[self.free][metric])})"
        sentences = []
        for model, curve in self.items():
            if model in self.baselines or metric not in next(iter(curve.values())):
                continue
            smallest = self.beats_free(model, metric)
            if smallest is None:
                sentences.append(
                    f"{model} does not beat {bar} at any epsilon up to {max(curve):g}: there is too little data for a "
                    "private model, and you lose nothing by doing without one."
                )
            elif smallest == min(curve):
                sentences.append(f"{model} beats {bar} at every epsilon tried, from {smallest:g} on.")
            else:
                sentences.append(
                    f"The smallest epsilon at which {model} beats {bar} is {smallest:g}: below it there is too little "
                    "data for a private model."
                )
        return sentences

    def conclusions(self) -> list[str]:
        """All sentences: the recommendation, the advice, and what each model is worth."""
        return [self.sentence(), *([self.advice()] if len(self) > 1 else []), *self.worth()]

    def advice(self) -> str:
        """Which private model to take at each epsilon: for lists, and for predicted ratings."""
        found: dict[str, dict[str, list[str]]] = {}
        for epsilon in self._epsilons:
            for use, model in best_models({name: curve.get(epsilon, {}) for name, curve in self.items()}):
                found.setdefault(use, {}).setdefault(model, []).append(f"{epsilon:g}")
        sentences = []
        for use, best in found.items():
            names = [f"{model} at epsilon {', '.join(at)}" for model, at in best.items()] if len(best) > 1 else best
            sentences.append(f"For {use} take {' and '.join(names)}.")
        return " ".join(sentences)

    # -- words

    def table(self, metric: str | None = None) -> list[list[str]]:
        """One metric: a heading, each model with its mean and spread at every epsilon, and each line."""
        metric = self._metric(metric)
        rows = [[metric, *(f"epsilon {epsilon:g}" for epsilon in self._epsilons)]]
        for model, curve in self.items():
            cells = [str(self.spread(model, e, metric)) if metric in curve.get(e, {}) else "-" for e in self._epsilons]
            if set(cells) != {"-"}:
                rows.append([model, *cells])
        for name, values in self.lines.items():
            if metric in values:
                rows.append([name, number(values[metric]), *[""] * (len(self._epsilons) - 1)])
        return rows

    def _notes(self) -> list[str]:
        noise = "one draw of the noise" if self.repeats == 1 else f"mean ± standard deviation of {self.repeats} draws"
        notes = [OWNER, f"On test data, {noise}; models without an epsilon are fitted once."]
        private = {run.model: run.certificate.get("guarantee", {}).get("unit") for run in self.runs if run.epsilon}
        if names := ", ".join(name for name, unit in private.items() if unit == "entry"):
            notes.append(f"{names}: epsilon protects single entries, far less than the same epsilon for users.")
        return notes

    def __str__(self) -> str:
        lines = [*self._notes(), ""]
        for metric in self.metrics:
            lines += [*aligned(self.table(metric)), ""]
        return "\n".join([*lines, *self.conclusions()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        text = paragraphs([*self._notes(), *self.conclusions()])
        return text + "".join(html_table(self.table(metric)) for metric in self.metrics)

    # -- other forms

    def to_frame(self, library: str | None = None) -> Any:
        """Every run: a data frame with the columns model, epsilon (null for lines), repeat, metric, value.

        Args:
            library: "pandas", "polars" or "pyarrow" (the default).
        """
        import pyarrow as pa

        rows = [(r.model, r.epsilon, r.repeat, metric, value) for r in self.runs for metric, value in r.metrics.items()]
        text, real = pa.large_string(), pa.float64()
        kinds = {"model": text, "epsilon": real, "repeat": pa.int64(), "metric": text, "value": real}
        columns = zip(*rows, strict=True) if rows else ([] for _ in kinds)
        arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds.values(), strict=True)]
        return to_library(pa.table(arrays, names=list(kinds)), library)

    def curve(self, model: str, metric: str | None = None) -> dict[str, Any]:
        """One model's curve, for `discreet export --tradeoff`. The numbers are exact: publish them only if you may."""
        metric = self._metric(metric)
        points = [{"epsilon": epsilon, "value": values[metric]} for epsilon, values in sorted(self[model].items())]
        return {
            "metric": metric,
            "points": points,
            "references": {name: values[metric] for name, values in self.lines.items() if metric in values},
        }

    def plot(self, ax: Any = None, *, metric: str | None = None) -> Any:
        """Draw a metric against epsilon, with its range over the runs, and the baselines as lines.

        Args:
            ax: The matplotlib axes to draw on; new ones by default.
            metric: Which metric; by default the first.

        Returns:
            The axes.

        Raises:
            MissingExtra: If matplotlib is not installed: pip install 'discreet[plot]'.
        """
        metric = self._metric(metric)
        ax = new_axes() if ax is None else ax
        for at, (model, curve) in enumerate(self.items()):
            epsilons = [epsilon for epsilon in sorted(curve) if metric in curve[epsilon]]
            if not epsilons:
                continue
            spreads = [self.spread(model, epsilon, metric) for epsilon in epsilons]
            reach = [s.mean - s.low for s in spreads], [s.high - s.mean for s in spreads]
            look = {"marker": "o", "markersize": 4, "capsize": 3, "color": COLORS[at % len(COLORS)]}
            ax.errorbar(epsilons, [s.mean for s in spreads], yerr=reach, label=model, **look)
        for at, (name, values) in enumerate(self.lines.items()):
            if metric in values:
                look = {"color": "#69727d", "linestyle": STYLES[at % len(STYLES)], "linewidth": 1.2}
                ax.axhline(values[metric], label=name, **look)
        ax.set_xscale("log")
        ax.set_xticks(self._epsilons, [f"{epsilon:g}" for epsilon in self._epsilons])
        ax.minorticks_off()
        ax.set_xlabel("epsilon: less is more private")
        ax.set_ylabel(metric)
        ax.set_title(ON_PLOTS, fontsize="small", loc="left")
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False, fontsize="small")
        return ax

    def html(self) -> str:
        """A report as one self-contained page: recommendation, plots, tables, statements of the models."""
        text = html.escape
        owner, *notes = self._notes()
        sentence, *others = self.conclusions()
        plots = "".join(
            f'<h2>{text(metric)}</h2><figure class="plot">{self._svg(metric)}<figcaption>Bars reach from the lowest to '
            f'the highest of {self.repeats} runs.</figcaption></figure><div class="wide">'
            f"{html_table(self.table(metric))}</div>"
            for metric in self.metrics
        )
        statements = "".join(
            f"<details><summary>{text(run.title)}</summary>{article(run.certificate)}</details>"
            for run in self.runs
            if run.repeat == 0
        )
        content = (
            f'<p class="holds"><strong>{text(sentence)}</strong></p>{paragraphs(others)}'
            f'<p class="void">{text(owner)}</p>{paragraphs(notes)}{plots}'
            f"<h2>What each model promises</h2><p>The statement of the first run at each epsilon. It is about that run "
            f"alone, and none of these models is meant to be published.</p>{statements}"
        )
        return document("Privacy against accuracy", content, CSS)

    def _svg(self, metric: str) -> str:
        """The plot as an SVG element, without the header of a file."""
        try:
            import matplotlib as mpl
            from matplotlib.figure import Figure
        except ImportError:
            raise MissingExtra("the plot of a report", "plot") from None
        figure = Figure(figsize=(7, 4), layout="constrained")
        self.plot(figure.subplots(), metric=metric)
        text = io.StringIO()
        with mpl.rc_context({"svg.hashsalt": metric, "svg.fonttype": "none"}):
            figure.savefig(text, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
        return text.getvalue()[text.getvalue().index("<svg") :]
