"""`discreet recommend`: recommendations for one person or for many, from a saved model."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from discreet.cli import inputs
from discreet.cli.common import Misuse
from discreet.cli.output import grid, is_json, require_file, show, warnings_shown
from discreet.errors import DataError, UnknownItem

if TYPE_CHECKING:
    from discreet.data import Catalogue, Interactions
    from discreet.models.base import Model
    from discreet.recommend import Recommendations

FEW = 5  # the number of users shown, and of items that explain a recommendation
IDS = "ids separated by commas, or a file of them."


def recommend(
    model: inputs.SavedModel,
    *,
    history: Annotated[str | None, Option(help="What one person likes: item=rating,… or item,… or a file.")] = None,
    users: Annotated[str | None, Option(help="The ratings of many people: a table, as for train.")] = None,
    similar: Annotated[str | None, Option(help="List items similar to this one.")] = None,
    n: Annotated[int, Option("-n", "--n", help="How many items to list.", min=1)] = 10,
    allow: Annotated[str | None, Option(help=f"Recommend only these: {IDS}")] = None,
    deny: Annotated[str | None, Option(help=f"Never recommend these: {IDS}")] = None,
    include_seen: Annotated[bool, Option("--include-seen", help="Also recommend items in the history.")] = False,
    on_unknown: Annotated[Literal["raise", "warn", "ignore"], Option(help="What to do with unknown items.")] = "raise",
    explain: Annotated[bool, Option("--explain", help="Show which items in the history matter most.")] = False,
    out: Annotated[
        Path | None, Option("--out", "-o", help="With --users: write all lists to this .parquet or .csv file.")
    ] = None,
    title_column: inputs.TitleColumn = None,
    columns: inputs.Columns,
) -> None:
    """Recommend items to one person or to many, or list similar items.

    Example: discreet recommend model --history "1=5,2=4"
    """
    _require_one(history, users, similar, explain, out)
    loaded = _loaded(model, title_column)
    if similar is not None:
        (item,) = inputs.as_ids(loaded, [similar], "similar")
        if item not in loaded.items_:
            raise UnknownItem(f"similar: the model does not know {similar!r}; `discreet items {model}` finds items")
        found = loaded.similar_items(item, n)
        show({"similar_to": similar, **_listed(found)}, *_table(found))
        return
    allowed, denied = (
        None if given is None else inputs.as_ids(loaded, inputs.listed(given, name)[0], name)
        for name, given in (("allow", allow), ("deny", deny))
    )
    options = {"exclude_seen": not include_seen, "allow": allowed, "deny": denied, "on_unknown": on_unknown, "n": n}
    with warnings_shown():
        if history is not None:
            _to_one(loaded, _history(loaded, history), options, explain)
        else:
            assert users is not None
            table = inputs.Table(**vars(columns)).read(users, argument="users")
            try:
                _to_many(loaded, inputs.for_model(loaded, table, "users"), options, out)
            except (DataError, UnknownItem) as error:
                raise type(error)(re.sub("^history:", "users:", str(error))) from None


def items(
    model: inputs.SavedModel,
    search: Annotated[str | None, Argument(help="Words that a title must have. Without it, all items.")] = None,
    n: Annotated[int, Option("-n", "--n", help="How many to show.", min=1)] = 20,
    title_column: inputs.TitleColumn = None,
) -> None:
    """Find items by title. Their ids are what --history, --allow and --similar take.

    Example: discreet items model "film 12"
    """
    catalogue = _loaded(model, title_column).catalogue_
    numbers = catalogue.search(search or "")
    found = catalogue.take(numbers[:n])
    rows = [{"item": item, **about} for item, about in zip(found.ids, _about(found), strict=True)]
    table: list[Any] = [grid(list(rows[0]), ([_cell(cell) for cell in row.values()] for row in rows))] if rows else []
    more = f"{len(numbers) - len(rows):,} more; -n shows them." if len(numbers) > len(rows) else ""
    none = "No title has all these words."
    if catalogue.title_column is None:
        none = "No id has all these words. The model has no titles; train it with --items FILE that has them."
    show({"total": len(numbers), "items": rows}, *table, *([more] if more or rows else [none]))


def _about(catalogue: "Catalogue") -> list[dict[str, Any]]:
    """The columns of each item, the title first."""
    title = catalogue.title_column
    about = catalogue.columns.select([*([title] if title else []), *(n for n in catalogue.names if n != title)])
    rows: list[dict[str, Any]] = about.to_pylist() if about.num_columns else [{} for _ in range(len(catalogue))]
    return rows


def _cell(value: Any) -> str:
    from discreet.recommend.results import brief

    return brief(", ".join(map(str, value)) if isinstance(value, list) else value, 40)


def _loaded(folder: Path, title_column: str | None) -> "Model":
    model: Model = inputs.saved(folder)
    if title_column is not None:
        model.catalogue_ = inputs.titled(model.catalogue_, title_column)
    return model


def _require_one(history: str | None, users: str | None, similar: str | None, explain: bool, out: Path | None) -> None:
    if sum(given is not None for given in (history, users, similar)) != 1:
        raise Misuse("give one of --history (one person), --users (many) and --similar (an item)")
    if explain and history is None:
        raise Misuse("--explain is about one person; give --history")
    if out is not None and users is None:
        raise Misuse("--out is for many people; give --users, or print the list of one person with --json")
    require_file("--out", out, (".parquet", ".csv"))


def _history(model: "Model", given: str) -> dict[Any, float] | list[Any]:
    """Items with ratings, or liked items alone."""
    texts, ratings = inputs.listed(given, "history")
    items = inputs.as_ids(model, texts, "history")
    return items if ratings is None else dict(zip(items, map(_rating, ratings), strict=True))


def _rating(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise DataError(f"history: a rating must be a number, not {text.strip()!r}") from None


# -- output


def _listed(found: "Recommendations") -> dict[str, Any]:
    titles = found.titles or [None] * len(found)
    rows = [
        {"rank": rank, "item": item, "title": title, "score": score}
        for rank, ((item, score), title) in enumerate(zip(found, titles, strict=True), 1)
    ]
    return {"note": found.note, "recommendations": rows}


def _table(found: "Recommendations", reasons: list[str] | None = None, ratings: list[float] | None = None) -> list[Any]:
    from discreet.recommend.results import brief

    if not len(found):
        return ["No item is left to show."]
    names = None if found.titles is None else list(map(brief, found.titles))
    columns = {"rank": range(1, len(found) + 1), "item": found.items, "title": names}
    scores, expected = (None if given is None else [f"{one:.4g}" for one in given] for given in (found.scores, ratings))
    cells = {**columns, "score": scores, "rating": expected, "because of": reasons}
    shown = {name: column for name, column in cells.items() if column is not None}
    return [grid(list(shown), zip(*shown.values(), strict=True)), *([f"({found.note})"] if found.note else [])]


def _to_one(model: "Model", history: dict[Any, float] | list[Any], options: dict[str, Any], explain: bool) -> None:
    from discreet.recommend.results import brief

    found = model.recommend(history, **options)
    data, reasons, ratings = _listed(found), None, None
    if model._predicts_ratings and model._ranking is not model._fold_in:  # the score is not the rating
        ratings = model.predict(history, found.items, on_unknown="ignore").tolist()
        for row, rating in zip(data["recommendations"], ratings, strict=True):
            row["rating"] = rating
    if explain:
        reasons = []
        for row, item in zip(data["recommendations"], found.items, strict=True):
            why = model.explain(history, item, on_unknown="ignore")
            titles = why.titles or [None] * len(why.items)
            parts = [
                {"item": item, "title": title, "rating": float(rating), "adds": float(adds)}
                for item, title, rating, adds in zip(why.items, titles, why.ratings, why.contributions, strict=True)
                if adds
            ]
            row.update({"baseline": why.baseline, "because": parts[:FEW]})
            named = (f"{brief(part['title'] or part['item'], 30)} {part['adds']:+.2g}" for part in parts[:FEW])
            reasons.append(", ".join(named))
    none = reasons is not None and not any(reasons) and bool(found.items) and not found.note
    idle = ["No item in the history matters: the model has found no tastes that tell people apart."] if none else []
    show(data, *_table(found, None if none else reasons, ratings), *idle)


def _to_many(model: "Model", histories: "Interactions", options: dict[str, Any], out: Path | None) -> None:
    if out is not None:
        from discreet.recommend.serving import to_file

        to_file(out, model.recommend_blocks(histories, **options), csv=out.suffix.lower() == ".csv")
        show({"out": str(out), "users": histories.n_users}, f"The recommendations are in {out}.")
        return
    import numpy as np

    shown = histories if is_json() else histories.of_users(np.arange(min(FEW, histories.n_users)))
    found = list(model.recommend(shown, **options))
    rest = histories.n_users - len(found)
    parts = [part for user, one in found for part in (f"for user {user}", *_table(one), "")]
    data = [{"user": user, **_listed(one)} for user, one in found]
    show({"users": data}, *parts, f"{rest:,} more users; --out FILE writes all." if rest else "")
