"""`discreet evaluate` and `discreet tradeoff`: measure a model, at one epsilon or at several."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Argument, Option

from discreet.cli import inputs
from discreet.cli.common import Misuse, by_commas, merged
from discreet.cli.output import (
    figure,
    grid,
    nothing_spent,
    require_file,
    require_plot,
    show,
    spending_reported,
    warnings_shown,
)
from discreet.errors import DataError

if TYPE_CHECKING:
    from discreet.data import Interactions
    from discreet.evaluate import Evaluation, Tradeoff
    from discreet.models.base import Model
    from discreet.privacy import Ledger

BASELINES = ("DPMeanRating", "DPPopularity", "MeanRating", "Popularity")
EXPLICIT, IMPLICIT = ["rmse", "mae", "recall@20"], ["recall@20", "ndcg@100"]

Relevant = Annotated[float | None, Option(help="The lowest rating that counts as a target of ranking metrics.")]


def _require_share(given: float) -> float:
    if not 0 < given < 1:
        raise Misuse(f"--split: a share above 0 and below 1 is needed, such as 0.1, not {given:g}")
    return given


Split = Annotated[float, Option(help="The share of the table to test on.", callback=_require_share)]
SplitBy = Annotated[
    Literal["random", "time"], Option(help="Whether that share is drawn at random, or is the latest of all by time.")
]


def evaluate(
    ctx: typer.Context,
    sources: Annotated[
        list[str],
        Argument(metavar="[MODEL] TABLE", help="A saved model and test data; or, with --model, all the data."),
    ],
    *,
    history: Annotated[
        str | None, Option(help="What a saved model is shown of the test users, usually its training data.")
    ] = None,
    model: inputs.ModelName = None,
    split: Split = 0.1,
    split_by: SplitBy = "random",
    seed: Annotated[int, Option(help="With --model: the seed of that split.", min=0)] = 0,
    settings: inputs.Settings = None,
    metrics: Annotated[str | None, Option(help="The metrics, such as rmse,recall@20,ndcg@100.")] = None,
    relevant: Relevant = None,
    buckets: Annotated[int | None, Option(help="Also measure in this many buckets of items or users.")] = None,
    bucket_by: Annotated[
        Literal["items", "history"], Option(help="Bucket items by popularity, or users by the length of their history.")
    ] = "items",
    plot: Annotated[Path | None, Option(help="Where to draw the result: .png, .svg, .pdf.")] = None,
    table: inputs.TestedTable,
    budget: inputs.Budget,
) -> None:
    """Measure a saved model; or, with --model, train one on a part of a table and compare it with baselines.

    Example: discreet evaluate ratings.parquet --model dpals --epsilon 1 --delta 1e-6 --items movies.csv --range 0.5 5

    The numbers are exact and about private people: they are for the owner only.
    """
    from discreet.evaluate import evaluate as compute
    from discreet.evaluate.run import predicts_ratings

    _require_form(sources, history, model, bool(settings), budget)
    require_plot(plot)
    options: dict[str, Any] = {"relevant": relevant, "threshold": table.for_accuracy}
    asked = by_commas(metrics)
    about: dict[str, Any] = {}
    if history is not None:
        saved = inputs.saved(sources[0], "MODEL")
        test, past = (
            inputs.for_model(saved, table.read(source, argument=name), name)
            for source, name in ((sources[1], "TABLE"), (history, "history"))
        )
        past = _with_users(past, test)
        if asked is None and not test.implicit and predicts_ratings(saved):
            asked = EXPLICIT
        options |= {"metrics": _fitting(saved, test, asked), "buckets": buckets, "bucket_by": bucket_by}
        with warnings_shown():
            results = {type(saved).__name__: compute(saved, test, history=past, **options)}
    else:
        cls = inputs.find(model)
        made = inputs.make(cls, merged(ctx, "settings", settings), budget.epsilon, budget.delta)
        with nothing_spent():
            ledger = budget.open(cls)
            ratings = table.read(sources[0], private=inputs.is_private(cls))
        with spending_reported(ledger):
            division = {"by": split_by, "test": split, "random_state": seed}
            options |= {"buckets": buckets, "bucket_by": bucket_by}
            results = _compared(made, ledger, ratings, division, asked, options)
        about = {"split": split, "split by": split_by, "seed": seed, "guarantee": str(made.guarantee_)}
    if plot is not None:
        drawing = figure()
        name, result = next(iter(results.items()))
        result.plot(drawing.subplots(), buckets=bool(result.buckets)).set_ylabel(name)
        drawing.savefig(plot)
        about["plot"] = str(plot)
    _show_results(results, about)


def _with_users(history: "Interactions", test: "Interactions") -> "Interactions":
    """The history with all users of the test: those without a row in it, as `discreet split` makes some, have none."""
    import numpy as np
    import pyarrow as pa

    from discreet.data.catalogue import Ids

    known, asked = history.users.to_arrow(), test.users.to_arrow()
    missing = history.users.numbers(asked, "history") < 0
    if known.type != asked.type or missing.all() or not missing.any():
        return history  # if it has none of them, it is the history of other people
    said = f"{missing.sum():,} of {test.n_users:,} users of the test data have no rows in --history"
    typer.echo(f"discreet: {said}; the model is shown an empty history of them", err=True)
    users = Ids(pa.concat_arrays([known, asked.filter(pa.array(missing))]), "history")
    indptr = np.pad(history.indptr, (0, int(missing.sum())), mode="edge")
    return replace(history, users=users, indptr=indptr)


def _require_form(
    sources: list[str], history: str | None, model: str | None, settings: bool, budget: inputs.Budget
) -> None:
    """Raise unless it is a saved model with test data and history, or one table and the name of a model."""
    if len(sources) == 2 and model is None:
        if history is None:
            raise Misuse("--history: give what the model is shown of the test users, usually its training data")
        if settings or any(given is not None for given in (budget.epsilon, budget.delta, budget.ledger)):
            raise Misuse("--set, --epsilon, --delta and --ledger are for training, but a saved model was given")
    elif len(sources) == 1:
        if Path(sources[0], "model.json").is_file():
            raise Misuse("give the test data, too: discreet evaluate MODEL TEST --history TRAINING")
        if history is not None:
            raise Misuse("--history is for a saved model and test data: discreet evaluate model test.csv --history …")
    else:
        raise Misuse("give a saved model, test data and --history; or one table and --model")


def _compared(
    model: "Model",
    ledger: "Ledger | None",
    ratings: "Interactions",
    division: dict[str, Any],
    metrics: list[str] | None,
    options: dict[str, Any],
) -> dict[str, "Evaluation"]:
    """A model fitted to a part of a table and tested on the rest, and the baselines beside it.

    Private ones have the model's budget, but no ledger: they are for comparison, and are not kept.
    """
    from discreet.data import splits
    from discreet.evaluate import evaluate as compute

    train, _, test = splits.holdout(ratings, **division)
    if metrics is None and not ratings.implicit:
        metrics = EXPLICIT
    name = type(model).__name__
    with inputs.settings_named(model):
        model.fit(train, ledger=ledger)
    options = {**options, "history": train, "metrics": _fitting(model, ratings, metrics)}
    results = {name: compute(model, test, **options)}
    budget = _same_budget(model)
    for other in BASELINES:
        private = other.startswith("DP")
        if other != name and not (ratings.implicit and other.endswith("MeanRating")) and (budget or not private):
            baseline = inputs.find(other)(**budget if private else {}).fit(train)
            asked = _fitting(baseline, ratings, metrics, required=False)
            if asked != []:
                results[other] = compute(baseline, test, **{**options, "metrics": asked, "buckets": None})
    return results


def _same_budget(model: "Model") -> dict[str, Any]:
    """The parameters of baselines at the same epsilon; empty if the model's unit is not the user."""
    given = model.get_params(deep=False)
    if given.get("delta") is None or getattr(model, "unit", "user") != "user":
        return {}
    return {name: given[name] for name in ("epsilon", "delta", "adjacency") if name in given}


def _fitting(
    model: "Model", ratings: "Interactions", metrics: list[str] | None, *, required: bool = True
) -> list[str] | None:
    """The metrics that make sense for a model: without ratings there is no rmse."""
    from discreet.evaluate import Metric
    from discreet.evaluate.run import predicts_ratings

    if not metrics or ratings.implicit or predicts_ratings(model):
        return metrics
    found = [name for name in metrics if Metric.parse(name).is_ranking]
    if required and not found:
        name = type(model).__name__
        raise DataError(f"metrics: {name} predicts no ratings here; ask for a ranking metric, such as recall@20")
    return found


def _show_results(results: dict[str, "Evaluation"], about: dict[str, Any]) -> None:
    """One table: one model with intervals, or several side by side."""
    from discreet.evaluate.metrics import best_models
    from discreet.evaluate.result import OWNER, span
    from discreet.recommend.results import aligned

    tested = {
        name: {
            "metrics": _scores(result.scores),
            "buckets": [{"bucket": b.number, **b.about, "metrics": _scores(b.scores)} for b in result.buckets],
        }
        for name, result in results.items()
    }
    name, first = next(iter(results.items()))
    lines: list[Any] = [name, "", str(first)]
    if "split" in about:
        names = list(dict.fromkeys(metric for result in results.values() for metric in result))
        rows = [[name, *(_cell(result, metric) for metric in names)] for name, result in results.items()]
        rows.insert(1, ["  95% interval", *(span(first.scores[metric]) if metric in first else "" for metric in names)])
        which = "the latest" if about["split by"] == "time" else "at random"
        tested_on = f"Tested on {about['split']:.0%} of the table, {which}."
        lines = [OWNER, f"{tested_on} {about['guarantee']}", "", grid(["model", *names], rows)]
        others = list(results)[1:]
        private = [other for other in others if other.startswith("DP")]
        if private:
            same = f"Baselines at the same epsilon, which no ledger is charged for: {' and '.join(private)}."
            best = best_models({model: results[model] for model in (name, *private)})
            taken = " and ".join(f"{model} for {' and for '.join(uses)}" for model, uses in _by_model(best).items())
            lines += ["", f"{same} Of the private models here, by these exact numbers, take {taken}."]
        if exact := " and ".join(other for other in others if other not in private):
            lines += ["", f"Baselines, which are not private: {exact}."]
        if first.buckets:
            lines += ["", first._bucket_title(), *aligned(first._bucket_rows())]
    if "plot" in about:
        lines.append(f"The plot is in {about['plot']}.")
    show({**about, "note": OWNER, "models": tested}, *lines)


def _by_model(best: list[tuple[str, str]]) -> dict[str, list[str]]:
    """What each of the best models is best for."""
    found: dict[str, list[str]] = {}
    for use, model in best:
        found.setdefault(model, []).append(use)
    return found


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _scores(scores: Any) -> dict[str, Any]:
    return {
        name: {"value": _number(s.value), "low": _number(s.low), "high": _number(s.high), "users": s.users}
        for name, s in scores.items()
    }


def _cell(result: "Evaluation", name: str) -> str:
    return f"{result[name]:.4f}" if name in result else "-"


# -- tradeoff


def tradeoff(
    ctx: typer.Context,
    source: inputs.Source,
    *,
    model: Annotated[
        list[str] | None,
        inputs.model_option(
            "A model: dpals, dpsvd, …; may be repeated. By default the private one for this kind of data."
        ),
    ] = None,
    epsilons: Annotated[str, Option(help="The epsilons to try.")] = "0.5,1,2,5,10",
    repeats: Annotated[int, Option(help="How many fits at each, with fresh noise.", min=1)] = 3,
    delta: inputs.Delta = None,
    settings: inputs.Settings = None,
    metrics: Annotated[
        str | None, Option(help="The metrics, such as rmse,recall@20. The recommendation uses the first.")
    ] = None,
    relevant: Relevant = None,
    split: Split = 0.1,
    split_by: SplitBy = "random",
    seed: Annotated[int, Option(help="The seed of that split.", min=0)] = 0,
    results: Annotated[Path, Option(help="A DuckDB file that keeps finished runs.")] = Path("tradeoff.duckdb"),
    report: Annotated[Path | None, Option(help="Where to write the report, an HTML page.")] = None,
    plot: Annotated[Path | None, Option(help="Where to draw the first metric: .png, .svg, .pdf.")] = None,
    curve: Annotated[
        Path | None,
        Option(help="Where to write the first model's curve for `discreet export --tradeoff`, if it may be public."),
    ] = None,
    table: inputs.TestedTable,
) -> None:
    """Fit private models at several epsilons, plot error against epsilon, and recommend an epsilon.

    Example: discreet tradeoff ratings.parquet --epsilons 1,4 --delta 1e-6 --items movies.csv --range 0.5 5

    If the command is interrupted, run it again to continue. The numbers are exact, and for the owner only.
    """
    if report is not None or plot is not None:
        figure("--plot and --report")
    require_file("--report", report, (".html", ".htm"))
    require_plot(plot)
    require_file("--curve", curve)
    require_file("--results", results)
    models = _models(model or [], merged(ctx, "settings", settings), delta)
    tried = _numbers(epsilons)
    ratings = table.read(source, private=any(inputs.is_private(type(made)) for made in models))
    from discreet.evaluate import tradeoff as compute

    try:
        found = compute(
            {type(made).__name__: made for made in (inputs.chosen(made, ratings) for made in models)},
            ratings,
            tried,
            repeats,
            metrics=by_commas(metrics),
            relevant=relevant,
            threshold=table.for_accuracy,
            by=split_by,
            test=split,
            random_state=seed,
            results=results,
        )
    except KeyboardInterrupt:
        typer.echo(f"discreet: stopped; finished runs are in {str(results)!r}; the same command continues", err=True)
        raise typer.Exit(130) from None
    files = {"report": report, "plot": plot, "curve": curve}
    if report is not None:
        report.write_text(found.html(), encoding="utf-8")
    if plot is not None:
        drawing = figure(figsize=(7, 4))
        found.plot(drawing.subplots())
        drawing.savefig(plot)
    if curve is not None:
        curve.write_text(json.dumps(found.curve(next(iter(found)))), encoding="utf-8")
    _show_tradeoff(found, results, {name: str(file) for name, file in files.items() if file is not None})


def _models(names: list[str], settings: list[str], delta: float | None) -> list["Model"]:
    """The models, each with those settings that are its parameters."""
    classes = [inputs.find(name) for name in names or [inputs.BEST]]
    if len(set(classes)) < len(classes):
        raise Misuse("--model: one is given twice; in Python you can compare several settings of one model")
    given = {text: text.partition("=")[0].strip() for text in settings}
    for text, name in given.items():
        if not any(inputs.takes(cls, name) for cls in classes):
            inputs.make(classes[0], [text], None, None)  # raises an error that lists the parameters
    made = []
    for cls in classes:
        mine = [text for text, name in given.items() if inputs.takes(cls, name)]
        private = inputs.is_private(cls)
        made.append(inputs.make(cls, mine, 1.0 if private else None, delta if private else None))
    if not any(map(inputs.is_private, classes)):
        raise Misuse("--model: at least one private model is needed, with an epsilon to vary, such as dpals")
    return made


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in by_commas(text) or ()]
    except ValueError:
        raise Misuse(f"--epsilons: {text!r} must be numbers separated by commas, such as 0.5,1,2") from None


def _show_tradeoff(found: "Tradeoff", results: Path, files: dict[str, str]) -> None:
    curves = {
        model: [
            {
                "epsilon": epsilon,
                "metrics": {metric: found.spread(model, epsilon, metric)._asdict() for metric in values},
            }
            for epsilon, values in sorted(curve.items())
        ]
        for model, curve in found.items()
    }
    notes = found._notes()
    data = {
        "note": notes[0],
        "repeats": found.repeats,
        "models": curves,
        "lines": found.lines,
        "recommendation": found.sentence(),
        "advice": found.advice(),
        "worth": found.worth(),
        "results": str(results),
        **files,
    }
    lines: list[Any] = [*notes, ""]
    for metric in found.metrics:
        head, *rows = found.table(metric)
        lines += [grid(head, rows), ""]
    written = "".join(f", the {name} in {file}" for name, file in files.items())
    show(data, *lines, *found.conclusions(), "", f"Every run is in {results}{written}.")
