"""`discreet recommend`: what to show to one person or to many, from a saved model."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from discreet.cli import config, models, tables
from discreet.cli.common import Json, Misuse, grid, plain, require_file, show, warnings_told
from discreet.errors import DataError

if TYPE_CHECKING:
    from discreet.models.base import Model
    from discreet.recommend import Recommendations

FEW = 5  # users shown, and items that explain a recommendation
IDS = "ids with commas between them, or a file of them."


def recommend(
    model: Annotated[Path, typer.Argument(help="The folder of a saved model.")],
    history: Annotated[
        str | None, typer.Option(help="What one person likes: item=rating,… or item,… or a file of item[,rating].")
    ] = None,
    users: Annotated[str | None, typer.Option(help="The ratings of many: a table, as for train.")] = None,
    similar: Annotated[str | None, typer.Option(help="List items that are like this one.")] = None,
    n: Annotated[int, typer.Option("-n", "--n", help="How many.", min=1)] = 10,
    allow: Annotated[str | None, typer.Option(help=f"Recommend only these: {IDS}")] = None,
    deny: Annotated[str | None, typer.Option(help=f"Never recommend these: {IDS}")] = None,
    include_seen: Annotated[bool, typer.Option("--include-seen", help="Also what is in the history.")] = False,
    on_unknown: Annotated[
        Literal["raise", "warn", "ignore"], typer.Option(help="What to do about items that the model does not know.")
    ] = "raise",
    explain: Annotated[bool, typer.Option("--explain", help="Say what carried each recommendation.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="With --users: where to write all, .parquet or .csv.")
    ] = None,
    user: tables.User = None,
    item: tables.Item = None,
    value: tables.Value = None,
    time: tables.Time = None,
    connection: tables.Connection = None,
    device: models.Device = "cpu",
    config_file: config.Config = None,
    as_json: Json = False,
) -> None:
    """Recommend to one person, or to many, or list similar items.

    Example: discreet recommend model --history "1=5,2=4"
    """
    _require_one(history, users, similar, explain, out)
    loaded = models.saved(model, device)
    if similar is not None:
        found = loaded.similar_items(tables.as_ids(loaded, [similar], "similar")[0], n)
        show({"similar_to": similar, **_listed(found)}, as_json, *_table(found))
        return
    options = {
        "n": n,
        "exclude_seen": not include_seen,
        "allow": _ids(loaded, allow, "allow"),
        "deny": _ids(loaded, deny, "deny"),
        "on_unknown": on_unknown,
    }
    with warnings_told():
        if history is not None:
            _to_one(loaded, _history(loaded, history), options, explain, as_json)
        else:
            assert users is not None
            reading = tables.Reading(user, item, value, time, connection)
            _to_many(loaded, tables.for_model(loaded, reading.read(users), "users"), options, out, as_json)


def _require_one(history: str | None, users: str | None, similar: str | None, explain: bool, out: Path | None) -> None:
    if sum(given is not None for given in (history, users, similar)) != 1:
        raise Misuse("give one of --history (one person), --users (many) and --similar (an item)")
    if explain and history is None:
        raise Misuse("--explain is about one person; give --history")
    if out is not None and users is None:
        raise Misuse("--out is for many people; give --users, or print one person's with --json")
    require_file("--out", out, (".parquet", ".csv"))


# -- what is given


def _parts(text: str) -> list[str]:
    """Between commas; quotes protect a comma inside an id."""
    return [part.strip() for part in next(csv.reader([text], skipinitialspace=True), []) if part.strip()]


def _ids(model: "Model", given: str | None, argument: str) -> list[Any] | None:
    if given is None:
        return None
    texts = tables.listed(given, argument)[0] if tables.is_file(given) else _parts(given)
    return tables.as_ids(model, texts, argument)


def _history(model: "Model", given: str) -> dict[Any, float] | list[Any]:
    """Items with ratings, or liked items alone."""
    texts, ratings = tables.listed(given, "history") if tables.is_file(given) else _written(given)
    items = tables.as_ids(model, texts, "history")
    return items if ratings is None else dict(zip(items, map(_rating, ratings), strict=True))


def _written(text: str) -> tuple[list[str], list[str] | None]:
    """Items and ratings of a=5,b=4; of a,b items alone."""
    parts = _parts(text)
    rated = ["=" in part for part in parts]
    if not any(rated):
        return parts, None
    if not all(rated):
        raise DataError(f"history: {parts[rated.index(False)]!r} has no rating; give one to each item, or to none")
    cells = [part.rpartition("=") for part in parts]
    return [cell[0] for cell in cells], [cell[2] for cell in cells]


def _rating(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise DataError(f"history: a rating must be a number, not {text.strip()!r}") from None


# -- what comes out


def _listed(found: "Recommendations") -> dict[str, Any]:
    titles = found.titles or [None] * len(found)
    rows = [
        {"rank": rank, "item": plain(item), "title": plain(title), "score": score}
        for rank, ((item, score), title) in enumerate(zip(found, titles, strict=True), 1)
    ]
    return {"note": found.note, "recommendations": rows}


def _table(found: "Recommendations", reasons: list[str] | None = None) -> list[Any]:
    if not len(found):
        return ["Nothing may be recommended: the filters and the history leave no item."]
    columns = {"rank": range(1, len(found) + 1), "item": found.items, "title": found.titles}
    cells = {**columns, "score": [f"{score:.4g}" for score in found.scores], "because of": reasons}
    shown = {name: column for name, column in cells.items() if column is not None}
    return [grid(list(shown), list(zip(*shown.values(), strict=True))), *([f"({found.note})"] if found.note else [])]


def _to_one(model: "Model", history: Any, options: dict[str, Any], explain: bool, as_json: bool) -> None:
    found = model.recommend(history, **options)
    data, reasons = _listed(found), None
    if explain:
        reasons = []
        for row, item in zip(data["recommendations"], found.items, strict=True):
            why = _why(model.explain(history, item, on_unknown="ignore"))
            row.update(why)
            reasons.append(", ".join(f"{part['title'] or part['item']} {part['adds']:+.2g}" for part in why["because"]))
    show(data, as_json, *_table(found, reasons))


def _why(explanation: Any) -> dict[str, Any]:
    """The items of the history that moved the score most."""
    titles = explanation.titles or [None] * len(explanation.items)
    rows = zip(explanation.items, titles, explanation.ratings, explanation.contributions, strict=True)
    parts = [
        {"item": plain(item), "title": plain(title), "rating": float(rating), "adds": float(adds)}
        for item, title, rating, adds in rows
        if adds
    ]
    return {"baseline": explanation.baseline, "because": parts[:FEW]}


def _to_many(model: "Model", histories: Any, options: dict[str, Any], out: Path | None, as_json: bool) -> None:
    if out is not None:
        if out.suffix.lower() == ".parquet":
            model.recommend_to_parquet(out, histories, **options)
        else:
            _to_csv(out, model.recommend_blocks(histories, **options))
        show({"out": str(out), "users": histories.n_users}, as_json, f"The recommendations are in {out}.")
        return
    import numpy as np

    shown = histories if as_json else histories.of_users(np.arange(min(FEW, histories.n_users)))
    found = list(model.recommend(shown, **options))
    rest = histories.n_users - len(found)
    parts = [part for user, one in found for part in (f"for user {user}", *_table(one), "")]
    data = [{"user": plain(user), **_listed(one)} for user, one in found]
    show({"users": data}, as_json, *parts, f"{rest:,} more users; --out FILE writes all." if rest else "")


def _to_csv(out: Path, blocks: Iterator[Any]) -> None:
    """A file that appears when it is whole."""
    from pyarrow import csv as arrow

    temporary = out.with_name(f".{out.name}.part")
    try:
        first = next(blocks).to_arrow()
        with arrow.CSVWriter(temporary, first.schema) as writer:
            writer.write_table(first)
            for block in blocks:
                writer.write_table(block.to_arrow())
        temporary.replace(out)
    finally:
        temporary.unlink(missing_ok=True)
