"""One table or figure of a paper: the data it needs, the published numbers, and how it is measured here.

A `Reproduction` makes points. A point is measured in several runs and becomes a row, a flat dictionary: the keys that
identify it (data, method, epsilon, ...), the mean and standard deviation of what is measured, the number of runs, the
epsilon that truly holds, and seconds per run. Methods whose names end in ", as published" use the noise that the paper
printed or that its rule asks for; all other noise is exactly what epsilon requires. Numbers about test ratings are
exact, and so not covered by any epsilon: research only.
"""

from __future__ import annotations

import inspect
import math
import statistics
import textwrap
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from discreet.data.interactions import Interactions

Row = dict[str, Any]
Ours = Callable[[Sequence[Row]], float | None]
Points = Callable[["Options"], Iterable["Point"]]
Declaration = Callable[[Points], "Reproduction"]  # a decorator

AS_PUBLISHED = ", as published"
NOT_KEYS = frozenset({"sd", "runs", "true_epsilon", "seconds"})  # columns of a row besides its keys and measures


@dataclass(frozen=True)
class Options:
    """What the caller can choose."""

    runs: int | None = None  # runs per point; by default as many as in the paper
    quick: bool = False  # few runs and points on little data, to check that it works
    generated: bool = False  # generated data of the same size instead of data that cannot be redistributed
    data: str | None = None  # name of another data set to use instead of the paper's
    source: str | None = None  # the file of the data set, if it is not in the usual place
    calibration: Literal["published", "exact"] | None = None  # only methods with published noise, or only the others

    @property
    def flags(self) -> list[str]:
        """These options as they are given on the command line."""
        calibration = {"published": ["--as-published"], "exact": ["--exact"], None: []}[self.calibration]
        given = {"--runs": self.runs, "--data": self.data, "--source": self.source}
        words = [word for flag, value in given.items() if value is not None for word in (flag, str(value))]
        return [*calibration, *words, *["--generated"] * self.generated, *["--quick"] * self.quick]

    def wants(self, method: str) -> bool:
        """Whether a private method has the requested calibration."""
        return self.calibration is None or method.endswith(AS_PUBLISHED) == (self.calibration == "published")

    def few(self, values: Sequence[Any], n: int = 1) -> Sequence[Any]:
        """The values of an axis: all of them, or the last `n` in a quick run."""
        return values[-n:] if self.quick else values


@dataclass(frozen=True)
class Point:
    """One point of a figure, or one number of a table."""

    keys: Mapping[str, Any]  # identify it: data, method, epsilon, and anything else on an axis
    run: Callable[[int], Mapping[str, float | None]]  # seed -> measures and, if private, true_epsilon
    runs: int | None = None  # at most this many runs; None: as many as the other points

    def measured(self, runs: int) -> Row:
        """The row of this point: means over runs, and the standard deviation of the first measure."""
        start = time.perf_counter()
        found = [self.run(seed) for seed in range(runs)]
        seconds = (time.perf_counter() - start) / runs
        measures = {
            name: [math.nan if (value := one[name]) is None else float(value) for one in found]
            for name in found[0]
            if name != "true_epsilon"
        }
        true = found[-1].get("true_epsilon")
        return {
            **self.keys,
            **{name: _rounded(statistics.mean(values)) for name, values in measures.items()},
            "sd": _rounded(statistics.stdev(next(iter(measures.values())))) if runs > 1 else None,
            "runs": runs,
            "true_epsilon": None if true is None or not math.isfinite(true) else _rounded(true),
            "seconds": round(seconds, 1),
        }


@dataclass(frozen=True)
class Published:
    """A number that a paper prints, and how to find the same number in our rows."""

    what: str  # a description
    value: float
    ours: Ours  # None if the rows, which all have the same data, do not contain it
    where: str  # the place in the paper
    says: str = ""  # the paper's qualifier: "", "about", "above", "below", "at least" or "at most"
    at: Mapping[str, Any] | None = None  # the keys of its point in the plot, if it has one


@dataclass(frozen=True)
class Plot:
    """How rows are drawn."""

    x: str = "epsilon"  # the key on the horizontal axis
    label: str = "epsilon, as claimed"  # of that axis
    panels: str | None = None  # the key with one panel for each value
    log: str = "x"  # which axes are logarithmic: some of "x" and "y"
    lines: tuple[str, ...] = ()  # keys, besides the method, with one curve for each value


@dataclass(frozen=True)
class Reproduction:
    """A table or figure."""

    name: str  # as in `discreet reproduce NAME`
    paper: str
    title: str  # what it shows
    protocol: str  # how it was measured, and what differs here
    measure: str  # what is measured: a key of the rows
    points: Points  # in order of importance
    published: tuple[Published, ...] = ()
    needs: tuple[str, ...] = ()  # names of data sets; empty if the data is made by a formula
    runs: int = 10  # at each point in the paper
    plot: Plot | None = Plot()  # None for a table

    def rows(self, options: Options, done: Sequence[Row] = ()) -> Iterator[Row]:
        """Measure the points that are not among `done` with enough runs."""
        runs = options.runs or (1 if options.quick else self.runs)
        known = {self.identity(row): row["runs"] for row in done}
        for point in self.points(options):
            wanted = min(runs, point.runs or runs)
            if known.get(self.identity(point.keys), 0) < wanted:
                yield point.measured(wanted)

    def identity(self, row: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
        """The keys that distinguish a row from the others."""
        return tuple(sorted((key, value) for key, value in row.items() if self.is_key(key, value)))

    def is_key(self, key: str, value: Any) -> bool:
        """Whether a cell distinguishes rows: strings, epsilon, and whatever is on an axis do."""
        axes = () if self.plot is None else (self.plot.x, self.plot.panels, *self.plot.lines)
        return key not in NOT_KEYS and (key in ("epsilon", *axes) or isinstance(value, str))

    def comparison(self, rows: Sequence[Row]) -> list[Row]:
        """The published values, ours and their ratio, for each data set in the rows."""
        lines = []
        for data in dict.fromkeys(row["data"] for row in rows):
            mine = [row for row in rows if row["data"] == data]
            for one in self.published:
                ours = one.ours(mine)
                if ours is not None:
                    ratio = _rounded(ours / one.value) if one.value else None
                    line = {"what": one.what, "where": one.where, "says": one.says, "published": one.value}
                    lines.append({**line, "ours": _rounded(ours), "ratio": ratio, "data": data})
        return lines


@dataclass(frozen=True)
class Paper:
    """A paper; each of its tables and figures is a function that makes points, decorated by `shows`."""

    prefix: str  # of the names of its tables and figures
    title: str  # authors and year
    runs: int  # at each point, unless a figure says otherwise

    def shows(self, measure: str, *published: Published, **other: Any) -> Declaration:
        """A `Reproduction` named after the function, whose docstring has the title and the protocol."""

        def declared(points: Points) -> Reproduction:
            title, *paragraphs = inspect.cleandoc(points.__doc__ or "").split("\n\n")
            protocol = "\n\n".join(textwrap.fill(text, 120, break_on_hyphens=False) for text in paragraphs)
            about = (f"{self.prefix}-{points.__name__}", self.title, title.removesuffix("."), protocol)
            return Reproduction(*about, measure, points, published, **{"runs": self.runs, **other})

        return declared


# Finding published numbers in our rows


def _having(rows: Sequence[Row], keys: Mapping[str, Any]) -> list[Row]:
    return [row for row in rows if all(row.get(key) == value for key, value in keys.items())]


def value_of(measure: str, **keys: Any) -> Ours:
    """What was measured in the first row with these keys."""
    return lambda rows: next((row[measure] for row in _having(rows, keys)), None)


def ratio_of(measure: str, above: Row, below: Row, **keys: Any) -> Ours:
    """The ratio of what was measured in two rows, found by their own keys and those of both."""

    def found(rows: Sequence[Row]) -> float | None:
        first, second = (value_of(measure, **own, **keys)(rows) for own in (above, below))
        return None if first is None or not second else first / second

    return found


def best_of(axis: str, measure: str, pick: Callable[..., Any] = min, **keys: Any) -> Ours:
    """Where on an axis the best value is, among the rows with these keys; None if there is nothing to choose."""

    def found(rows: Sequence[Row]) -> float | None:
        mine = _having(rows, keys)
        return float(pick(mine, key=lambda row: row[measure])[axis]) if len(mine) > 1 else None

    return found


def printed(
    values: Mapping[float, float], measure: str, methods: Sequence[str], where: str, says: str = "", **keys: Any
) -> list[Published]:
    """Published numbers by epsilon, to be compared with several of our methods."""
    found = []
    for epsilon, value in values.items():
        for method in methods:
            what = ", ".join([method, *map(str, keys.values()), f"epsilon {epsilon:g}"])
            ours = value_of(measure, method=method, epsilon=epsilon, **keys)
            found.append(Published(what, value, ours, where, says, {"epsilon": epsilon, **keys}))
    return found


# Measuring


def fitted(model: Any, ratings: Interactions) -> Any:
    """A fitted model, without warnings that the claimed epsilon is not the true one: the row shows both."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.fit(ratings)


def scored(model: Any, train: Interactions, measure: str, score: Callable[[Any], float]) -> dict[str, float | None]:
    """The result of one run: the score of the fitted model, and the epsilon that truly holds."""
    model = fitted(model, train)
    true = float(model.guarantee_.epsilon) if model.guarantee_.holds else None
    return {measure: score(model), "true_epsilon": true}


def number(value: str | float | None) -> str:
    """A number with four digits, a string as it is."""
    if value is None:
        return "-"
    return value if isinstance(value, str) else f"{value:.4g}" if abs(value) < 10_000 else f"{value:,.0f}"


def _rounded(value: float) -> float:
    """To five digits."""
    return float(f"{value:.5g}")
