"""`discreet train`: a table in, a model and its privacy statement out."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli import config, models, tables
from discreet.cli.common import Json, Misuse, pairs, plain, promise, require_file, require_folder, show
from discreet.errors import ModelError

if TYPE_CHECKING:
    from discreet.completion.base import Model
    from discreet.data import Interactions
    from discreet.statement import Statement

FACES = (".html", ".md", ".json")


def train(
    ctx: typer.Context,
    source: Annotated[str, typer.Argument(help=tables.SOURCE)],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for the model; one that is there is replaced.")],
    model: models.Name = None,
    settings: models.Settings = None,
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
    epsilon: models.Epsilon = None,
    delta: models.Delta = None,
    ledger: models.LedgerUrl = None,
    ledger_name: models.LedgerName = "default",
    statement: Annotated[
        list[Path] | None, typer.Option(help="Where to write the privacy statement: .html, .md or .json.")
    ] = None,
    config_file: config.Config = None,
    as_json: Json = False,
) -> None:
    """Learn a model from a table of who liked what, and save it.

    Example: discreet train ratings.parquet --epsilon 1 --delta 1e-6 --items movies.csv --range 0.5 5 --out model

    It says what it will do, and what that will spend, before it does it.
    """
    cls = models.find(model)
    made = models.make(cls, config.merged(ctx, "settings", settings), epsilon, delta)
    spending = models.ledger(cls, ledger, ledger_name)
    if threshold is not None and not implicit:
        raise Misuse("--threshold: it says which ratings count for implicit feedback; give --implicit too")
    files = statement or []
    require_writable(out, files)
    reading = tables.Reading(
        user, item, value, time, connection, items, value_range, observed_items_are_public,
        on_duplicate, on_invalid, on_unknown, separator, time_format,
    )  # fmt: skip
    ratings = tables.forgotten(reading.read(source), implicit, threshold)
    if models.is_private(cls):
        tables.require_public(ratings)
    made = models.chosen(made, ratings)
    costs = models.preview(made, ratings, spending)
    show(None, False, *([] if as_json else _intention(made, ratings, source, costs)))
    made.fit(ratings, ledger=spending)
    made.save(out)
    for file in files:
        file.write_text(_face(made.statement(), file.suffix), encoding="utf-8")
    show(_result(made, costs, out, files), as_json, "", *_outcome(made, out, files))


def require_writable(out: Path, files: list[Path]) -> None:
    """Find out before hours of training, not after."""
    if out.exists() and not out.is_dir():
        raise ModelError(f"{str(out)!r}: it exists and is not a folder; give another")
    if out.is_dir() and any(out.iterdir()) and not (out / "model.json").exists():
        raise ModelError(f"{str(out)!r}: this folder is not empty and holds no model; give another, or empty it")
    require_folder("--out", out)
    for file in files:
        if file.resolve().parent == out.resolve():
            raise Misuse(f"--statement: {str(file)!r} is in the model's folder; put it beside the model")
        require_file("--statement", file, FACES)


def _intention(model: "Model", ratings: "Interactions", source: str, costs: str) -> list[Any]:
    """What will be done, in public words alone."""
    from rich.markup import escape

    name = type(model).__name__
    private = models.is_private(type(model))
    rows = {
        "model": name + ("" if private else " ([bold red]NOT PRIVATE[/bold red])"),
        "parameters": escape(models.described(model)),
        "table": escape(source),
        **{f"public {key}": escape(value) for key, value in ratings.public_inputs.items()},
    }
    return [pairs(rows), *(["", costs] if costs else [])]


def _face(statement: "Statement", suffix: str) -> str:
    faces = {".html": statement.html, ".md": statement.__str__, ".json": statement.json}
    return faces[suffix.lower()]()


def _result(model: "Model", costs: str, out: Path, files: list[Path]) -> dict[str, Any]:
    guarantee = model.guarantee_
    return {
        "model": type(model).__name__,
        "parameters": {name: plain(value) for name, value in model.get_params(deep=False).items()},
        "private": guarantee.holds,
        "sentence": str(guarantee),
        "guarantee": guarantee.to_json(),
        "public_inputs": model.statement().certificate["public_inputs"],
        "plan": costs or None,
        "items": _items(model),
        "out": str(out),
        "statement": [str(file) for file in files],
    }


def _outcome(model: "Model", out: Path, files: list[Path]) -> list[Any]:
    written = f"The statement is in {', '.join(map(str, files))}." if files else (
        "The privacy statement is inside; --statement statement.html writes it out."
    )  # fmt: skip
    items = _items(model)
    doubt = []
    if items and items["known too little"]:
        doubt = [
            f"Of {items['all']:,} items, {items['known too little']:,} are known too little to tell them from average."
        ]
    return [promise(model.guarantee_), "", *doubt, f"The model is in {out}. {written}"]


def _items(model: "Model") -> dict[str, int] | None:
    """How many items there are, and how many of them the model says little about; None if it does not know."""
    if not hasattr(model, "item_knowledge"):
        return None
    known = model.item_knowledge("pyarrow")["known"].to_pylist()
    return {"all": len(known), "known too little": len(known) - sum(known)}
