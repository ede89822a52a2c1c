"""The result of a trade-off: accuracy by epsilon, as a table, in sentences, plots and reports."""

from __future__ import annotations

import html
import io
import math
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

from discreet.data.catalogue import to_library
from discreet.errors import DataError, MissingExtra
from discreet.evaluate.metrics import Metric, best_models
from discreet.evaluate.result import ON_PLOTS, new_axes, number
from discreet.evaluate.runs import Run
from discreet.privacy.rendering import article, document
from discreet.recommend.results import aligned, html_table, paragraphs

OWN_MEAN = "each user's own mean"
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
