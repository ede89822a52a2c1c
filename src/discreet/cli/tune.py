"""`discreet tune`: choose a model's parameters privately, and save the best."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli import config, models, tables
from discreet.cli.common import Json, Misuse, plain, promise, show, spending_told
from discreet.cli.train import require_writable

if TYPE_CHECKING:
    from discreet.models.base import Model
    from discreet.tune import Found, Trial


def tune(
    ctx: typer.Context,
    source: Annotated[str, typer.Argument(help=tables.SOURCE)],
    space: Annotated[
        list[str] | None,
        typer.Option("--try", help="Values of a parameter, n_steps=2,4,8 for instance; all combinations count."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The folder for the model; without it, only say what would be.")
    ] = None,
    model: models.Name = None,
    settings: models.Settings = None,
    trials: Annotated[float, typer.Option(help="How many trials on average; how many there are is secret.")] = 5.0,
    law: Annotated[str, typer.Option(help="Of their number: poisson, geometric or logarithmic.")] = "poisson",
    metric: Annotated[str | None, typer.Option(help="What trials are compared by: rmse, recall@20, …")] = None,
    items: tables.Items = None,
    value_range: tables.Range = None,
    user: tables.User = None,
    item: tables.Item = None,
    value: tables.Value = None,
    time: tables.Time = None,
    connection: tables.Connection = None,
    observed_items_are_public: tables.Observed = False,
    implicit: tables.Implicit = False,
    threshold: Annotated[float | None, typer.Option(help="With --implicit: leave out lower ratings.")] = None,
    on_duplicate: tables.OnDuplicate = "last",
    on_invalid: tables.OnInvalid = "raise",
    on_unknown: tables.OnUnknownRows = "raise",
    separator: tables.Separator = None,
    time_format: tables.TimeFormat = None,
    epsilon: Annotated[float | None, typer.Option("--epsilon", help="What the whole search may spend.")] = None,
    delta: models.Delta = None,
    ledger: models.LedgerUrl = None,
    ledger_name: models.LedgerName = "default",
    config_file: config.Config = None,
    as_json: Json = False,
) -> None:
    """Choose parameters by a private search, all of it paid for; or, without --out, say what a trial would get.

    Example: discreet tune ratings.parquet --try n_steps=2,4 --epsilon 4 --delta 1e-6 --items movies.csv --range 0.5 5

    The parameters that a model has by itself cost nothing: try these first.
    """
    cls = models.find(model)
    made = models.make(cls, config.merged(ctx, "settings", settings), epsilon, delta)
    if not models.is_private(cls):
        raise Misuse(f"{cls.__name__} is not private: there is nothing to pay for; try its parameters with evaluate")
    tried = config.merged(ctx, "space", space)
    if not tried:
        raise Misuse("--try: say what to choose from, n_steps=2,4,8 for instance")
    spending = models.ledger(cls, ledger, ledger_name)
    if threshold is not None and not implicit:
        raise Misuse("--threshold: it says which ratings count for implicit feedback; give --implicit too")
    if out is not None:
        require_writable(out, [])
    reading = tables.Reading(
        user, item, value, time, connection, items, value_range, observed_items_are_public,
        on_duplicate, on_invalid, on_unknown, separator, time_format,
    )  # fmt: skip
    ratings = tables.forgotten(reading.read(source), implicit, threshold)
    from discreet.tune import preview, search

    tables.require_public(ratings)
    made = models.chosen(made, ratings)
    values = _space(made, tried)
    budget = (made.get_params()["epsilon"], made.get_params()["delta"])
    asked: dict[str, Any] = {"metric": metric or ("recall@20" if ratings.implicit else "rmse")}
    asked |= {"trials": trials, "law": law}
    trial = preview(made, values, ratings.n_items, budget, **asked)
    if out is None:
        show(
            _planned(trial),
            as_json,
            str(trial),
            "",
            "Nothing was spent. --out FOLDER searches, and saves the best model.",
        )
        return
    show(None, False, *([] if as_json else [str(trial), ""]))
    with spending_told(spending):
        found = search(made, values, ratings, budget, spending, **asked)
        found.model.save(out)
    show({**_planned(trial), **_result(found), "out": str(out)}, as_json, *_words(found, out))


def _space(model: "Model", tried: list[str]) -> dict[str, list[Any]]:
    """Parameters and their values, from name=value,value texts."""
    found: dict[str, list[Any]] = {}
    for text in tried:
        name, sign, values = text.partition("=")
        if not sign or not values.strip():
            raise Misuse(f"--try: name=value,value is needed, n_steps=2,4,8 for instance, not {text!r}")
        if name.strip() in found:
            raise Misuse(f"--try: {name.strip()} is given twice; put all its values behind one =")
        parts = [part.strip() for part in values.split(",") if part.strip()]
        found[name.strip()] = [models.parameter(type(model), name.strip(), part) for part in parts]
    return found


def _planned(trial: "Trial") -> dict[str, Any]:
    return {
        "trials": trial.trials.mean,
        "settings": trial.settings,
        "trial": {"epsilon": trial.fit, "score epsilon": trial.score},
        "epsilon": trial.epsilon,
        "delta": trial.delta,
        "metric": trial.metric,
    }


def _result(found: "Found") -> dict[str, Any]:
    return {
        "model": type(found.model).__name__,
        "chosen": {name: plain(value) for name, value in found.settings.items()},
        "score": found.score,
        "sentence": str(found.guarantee_),
        "guarantee": found.guarantee_.to_json(),
    }


def _words(found: "Found", out: Path) -> list[Any]:
    chosen = ", ".join(f"{name}={value}" for name, value in found.settings.items())
    return [
        f"Chosen: {chosen}, with {found.metric} about {found.score:.4g} (noisy, and the best of several).",
        promise(found.guarantee_),
        "",
        f"The model is in {out}.",
    ]
