"""What a trade-off gives back: a mapping that prints as tables, says in a sentence what follows, and draws itself."""

from __future__ import annotations

import html
import math
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

from discreet.data.catalogue import to_library
from discreet.errors import DataError
from discreet.evaluate.metrics import Metric
from discreet.evaluate.result import aligned, html_table, number
from discreet.evaluate.tradeoff_runs import Run

OWNER = (
    "Exact numbers about private users, for the owner's eyes only: no guarantee covers them if they are published, or "
    "if a model or an epsilon is chosen by them."
)
LOWER_IS_BETTER = ("rmse", "mae")
TOLERABLE = 0.05  # a loss against the model without privacy that is worth naming the smallest epsilon for


class Spread(NamedTuple):
    """The values of one metric over draws of the noise: mean, standard deviation (0 of one), lowest, highest."""

    mean: float
    sd: float
    low: float
    high: float
    runs: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Of some values."""
        sd = statistics.stdev(values) if len(values) > 1 else 0.0
        return cls(statistics.fmean(values), sd, min(values), max(values), len(values))

    def __str__(self) -> str:
        return number(self.mean) + (f" ± {self.sd:.4f}" if self.runs > 1 else "")


class Tradeoff(dict[str, dict[float, dict[str, float]]]):
    """Model -> epsilon -> metric -> mean over the noise: `result["DPALS"][1.0]["rmse"]`.

    Attributes:
        lines: For each model that was fitted without an epsilon to vary: metric -> value.
        runs: Every single run, with its privacy statement.
        metrics: The metrics, the one that is recommended by first.
        repeats: How many draws of the noise there are at each epsilon.
        free: The line that every private model must beat, for it needs nobody's data; None if it was not drawn.
    """

    def __init__(self, runs: Sequence[Run], *, metrics: Sequence[str], repeats: int, free: str | None) -> None:
        self.runs = tuple(runs)
        self.metrics, self.repeats, self.free = tuple(metrics), repeats, free
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

    def __missing__(self, name: str) -> NoReturn:
        raise KeyError(f"{name!r} was not tried; there are {', '.join(self)}")

    def spread(self, model: str, epsilon: float, metric: str | None = None) -> Spread:
        """How a metric (by default the first) varies over draws of the noise."""
        metric = self._metric(metric)
        found = self._values.get((model, float(epsilon), metric))
        if found is None:
            known = "; ".join(f"{name} at {', '.join(f'{e:g}' for e in points)}" for name, points in self.items())
            raise KeyError(f"{metric} of {model!r} at epsilon {epsilon:g} is not there; there are {known}")
        return Spread.of(found)

    def _metric(self, metric: str | None) -> str:
        if metric is not None and metric not in self.metrics:
            raise DataError(f"metric: {metric!r} was not measured; there are {', '.join(self.metrics)}")
        return metric or self.metrics[0]

    # -- what follows

    def _loss(self, metric: str, value: float, against: float) -> float:
        """By what part a value is worse than another; negative if it is better."""
        worse = value - against if Metric.parse(metric).name in LOWER_IS_BETTER else against - value
        return worse / abs(against) if against else math.copysign(math.inf, worse) if worse else 0.0

    def _full(self, metric: str) -> tuple[str, float] | None:
        """The best model without privacy."""
        known = {name: values[metric] for name, values in self.lines.items() if name != self.free and metric in values}
        if not known:
            return None
        return min(known.items(), key=lambda pair: self._loss(metric, pair[1], 1.0))

    def sentence(self, metric: str | None = None) -> str:
        """The recommendation: the smallest epsilon that costs little, and what it costs.

        "Little" is 5% against the best model without privacy; where no epsilon has that, it is the largest one tried.
        """
        metric = self._metric(metric)
        full = self._full(metric)
        if full is None:
            return "There is no model without privacy to compare with."
        name, against = full
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
        """The smallest epsilon from which on, in every run, a model beats what needs nobody's data; None if at none."""
        metric = self._metric(metric)
        if self.free is None or metric not in self.lines[self.free]:
            raise DataError("baselines: what needs nobody's data was not drawn; leave `baselines` out to have it")
        bar, smallest = self.lines[self.free][metric], None
        for epsilon in sorted(self[model], reverse=True):
            values = self._values[model, epsilon, metric]
            if not all(self._loss(metric, value, bar) < 0 for value in values):
                break
            smallest = epsilon
        return smallest

    def worth(self, metric: str | None = None) -> list[str]:
        """For each model a sentence: from which epsilon on it is worth having at all, in plain words."""
        metric = self._metric(metric)
        if self.free is None or metric not in self.lines[self.free]:
            return []
        bar = f"{self.free} ({metric} {number(self.lines[self.free][metric])})"
        told = []
        for model, curve in self.items():
            smallest = self.beats_free(model, metric)
            if smallest is None:
                told.append(
                    f"{model} does not beat {bar} at any epsilon up to {max(curve):g}: for a private model these are "
                    "too few data, and nothing is lost by doing without one."
                )
            elif smallest == min(curve):
                told.append(f"{model} beats {bar} at every epsilon tried, from {smallest:g} on.")
            else:
                told.append(
                    f"The smallest epsilon at which {model} beats {bar} is {smallest:g}: below it these are too few "
                    "data for a private model."
                )
        return told

    # -- words

    def table(self, metric: str | None = None) -> list[list[str]]:
        """One metric: a heading, each model with its mean and spread at every epsilon, and each line."""
        metric = self._metric(metric)
        budgets = sorted({epsilon for curve in self.values() for epsilon in curve})
        rows = [[metric, *(f"epsilon {epsilon:g}" for epsilon in budgets)]]
        for model, curve in self.items():
            cells = [str(self.spread(model, e, metric)) if metric in curve.get(e, {}) else "-" for e in budgets]
            rows.append([model, *cells])
        for name, values in self.lines.items():
            if metric in values:
                rows.append([name, number(values[metric]), *[""] * (len(budgets) - 1)])
        return rows

    def _notes(self) -> list[str]:
        noise = "one draw of the noise" if self.repeats == 1 else f"mean ± standard deviation of {self.repeats} draws"
        return [OWNER, f"On test data, {noise}; models without an epsilon are fitted once.", *self._of_entries()]

    def _of_entries(self) -> list[str]:
        """That an epsilon of single entries promises less than the same of users, if there is one."""
        private = {run.model: run.certificate.get("guarantee", {}).get("unit") for run in self.runs if run.epsilon}
        names = ", ".join(name for name, unit in private.items() if unit == "entry")
        return [f"{names}: epsilon is of single entries, which is far less than the same epsilon of users."] * bool(
            names
        )

    def __str__(self) -> str:
        lines = [*self._notes(), ""]
        for metric in self.metrics:
            lines += [*aligned(self.table(metric)), ""]
        return "\n".join([*lines, self.sentence(), *self.worth()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        said = "".join(f"<p>{html.escape(text)}</p>" for text in (*self._notes(), self.sentence(), *self.worth()))
        return said + "".join(html_table(self.table(metric)) for metric in self.metrics)

    # -- other forms

    def to_frame(self, library: str | None = None) -> Any:
        """Every run: a data frame with the columns model, epsilon (null for lines), repeat, metric, value.

        Args:
            library: "pandas", "polars" or "pyarrow" (the default).
        """
        import pyarrow as pa

        rows = [
            {"model": run.model, "epsilon": run.epsilon, "repeat": run.repeat, "metric": metric, "value": value}
            for run in self.runs
            for metric, value in run.metrics.items()
        ]
        schema = pa.schema(
            [
                ("model", pa.large_string()),
                ("epsilon", pa.float64()),
                ("repeat", pa.int64()),
                ("metric", pa.large_string()),
                ("value", pa.float64()),
            ]
        )
        return to_library(pa.Table.from_pylist(rows, schema=schema), library)

    def curve(self, model: str, metric: str | None = None) -> dict[str, Any]:
        """One model's curve as `discreet export --tradeoff` draws it: exact numbers, taken only on your word."""
        metric = self._metric(metric)
        points = [{"epsilon": epsilon, "value": values[metric]} for epsilon, values in sorted(self[model].items())]
        return {
            "metric": metric,
            "points": points,
            "references": {name: values[metric] for name, values in self.lines.items() if metric in values},
        }

    def plot(self, ax: Any = None, *, metric: str | None = None) -> Any:
        """A metric against epsilon, with the spread over the noise, and what needs no privacy as lines.

        Args:
            ax: The matplotlib axes to draw on; new ones by default.
            metric: Which metric; by default the first.

        Returns:
            The axes.

        Raises:
            MissingExtra: If matplotlib is not installed: pip install 'discreet[plot]'.
        """
        from discreet.evaluate.tradeoff_page import draw

        return draw(self, ax, self._metric(metric))

    def html(self) -> str:
        """A report, one page with nothing from elsewhere: recommendation, plots, tables, statements of the models."""
        from discreet.evaluate.tradeoff_page import page

        return page(self)
