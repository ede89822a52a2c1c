"""The files of a site: the page, the JavaScript client and the model. Any web server can host them."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from discreet.data.catalogue import Catalogue
from discreet.data.interactions import Interactions
from discreet.errors import DataError, ModelError, PrivacyError
from discreet.models.base import Model
from discreet.models.model_folder import digest, refused
from discreet.models.recommender import Recommender
from discreet.privacy.rendering import release_rows
from discreet.privacy.statement import Statement
from discreet.recommend.results import titles, whole_file
from discreet.typing import Array
from discreet.web.releases import in_words
from discreet.web.scoring import PRECISIONS, Pack, Scoring, loss, made_up

FORMAT, VERSION = "discreet-web", 2
MODEL, ARRAYS, ITEMS, CERTIFICATE = "model/model.json", "model/arrays.bin", "model/items.json", "model/certificate.json"
WORKER = "sw.js"
USUAL = ("genre", "genres", "category", "year", "author", "artist", "director", "brand")  # columns worth showing
VECTORS = 3  # made-up people whose scores a client checks itself against
EXACT = ("gram", "transitions")  # small matrices that should not be rounded
SAFE = 2**53  # JavaScript represents smaller integers exactly
EVALUATION = "evaluation: "  # prefix of the label of a private evaluation, before the metrics
LEAST = 1e-300  # a divisor in place of zero
OWN_WORD = "These are exact numbers, published on the owner's word that they may be public: no guarantee covers them."
CURVE = '{"metric": "rmse", "points": [{"epsilon": 1, "value": 0.92}], "references": {"not private": 0.86}}'


@dataclass(frozen=True)
class Site:
    """A model ready for browsers.

    Attributes:
        files: The content of each file, by its path with forward slashes.
        manifest: What model/model.json says.
    """

    files: dict[str, bytes]
    manifest: dict[str, Any]

    @property
    def loss(self) -> dict[str, float]:
        """The loss from storing numbers with less precision.

        `rms` and `largest`: the changes of scores. `relative`: `rms` over the spread of scores. `top_10_kept`: how
        many of the ten best items stay among the ten best. `predicted`: the root mean square change of predictions.
        """
        found: dict[str, float] = self.manifest["loss"]
        return found

    def write(self, folder: str | PathLike[str]) -> None:
        """Write all files to a folder, replacing a site that is there; the model's description comes last."""
        home = Path(folder)
        if home.exists() and not home.is_dir():
            raise refused(home, "it is not a folder; name another")
        if home.is_dir() and any(home.iterdir()) and not (home / MODEL).is_file():
            raise refused(home, "this folder is not empty and holds no site; name another, or empty it")
        for name in sorted(self.files, key=lambda name: name == MODEL):
            path = home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with whole_file(path) as temporary:
                temporary.write_bytes(self.files[name])


def export(
    model: Model | Recommender,
    *,
    precision: str = "float16",
    title: str = "Recommendations",
    columns: Sequence[str] | None = None,
    tradeoff: Any = None,
    not_private: bool = False,
    exact_metrics_may_be_public: bool = False,
) -> Site:
    """Make a site from a fitted model.

    Example:
        >>> import discreet
        >>> ratings = discreet.datasets.movielens_like(300, 50, 6_000, random_state=0)
        >>> from discreet.web import export
        >>> model = discreet.DPALS(epsilon=5, delta=1e-6).fit(ratings)
        >>> site = export(model, title="Film evening")  # site.write("folder") writes it
        >>> site.loss["top_10_kept"] > 0.8
        True

    Args:
        model: Any model of the library, or the Recommender that chose one.
        precision: Precision of item vectors: "float32", "float16" or "int8". Its cost is measured.
        title: The title of the page.
        columns: Columns of the catalog to show beside titles; by default genres, years and the like, if there are any.
        tradeoff: Accuracy at several epsilons, to draw on the page: {"metric": "rmse", "points": [{"epsilon": 1,
            "value": 0.92}, ...], "references": {"not private": 0.86}}. If these are private evaluations, add the
            statement of the ledger that paid for all of them as "certificate".
        not_private: Confirm that a model without a guarantee may be published.
        exact_metrics_may_be_public: Confirm that the exact numbers of `tradeoff` may be published.

    Returns:
        The files, in memory; `write` puts them into a folder.

    Raises:
        PrivacyError: The model has no guarantee and `not_private` is not set; or the curve has none and
            `exact_metrics_may_be_public` is not set.
        ModelError: It is not a model, or browsers cannot do what its custom class does to fold people in.
        DataError: A column is not in the catalog, or the curve is malformed.
    """
    if precision not in PRECISIONS:
        raise DataError(f"precision: must be one of {', '.join(PRECISIONS)}, not {precision!r}")
    model = model.model_ if isinstance(model, Recommender) else model
    if not isinstance(model, Model):
        kind = type(model).__name__
        raise ModelError(f"model: must be a recommender, not a {kind}; discreet.load(folder) reads a saved one")
    if not (model.guarantee_.holds or not_private):
        raise PrivacyError(f"model: {model.guarantee_} To publish it anyway, pass not_private=True")
    model._require_certified(model.statement())
    curve = None if tradeoff is None else checked_curve(tradeoff, may_be_public=exact_metrics_may_be_public)
    scoring, people = Scoring.of(model), made_up(model)
    pack = Pack()
    tables = scoring.describe()[1]
    stored = scoring.with_tables({name: pack.add_table(name, table, precision) for name, table in tables.items()})
    settings, _, arrays = stored.describe()
    for name, array in arrays.items():
        pack.add(name, array, "float64" if name.rpartition(".")[2] in EXACT else "float32")
    pack.add("popularity", model.popularity_)
    like = model._similar_columns()
    pack.add("map", map_positions(scoring.fold_in.columns[:, like], scoring.fold_in.base))
    parts = {
        ARRAYS: bytes(pack.content),
        ITEMS: as_json(_items(model.catalogue_, columns)),
        CERTIFICATE: model.statement().json().encode(),
    }
    low, high = model.value_range_
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "title": title,
        "model": type(model).__name__,
        "items": len(model.items_),
        "rank": int(scoring.fold_in.columns.shape[1]),
        "value_range": [low, high],
        "implicit": model.implicit_,
        "predicts_ratings": model._predicts_ratings,
        "scoring": settings,
        "similar": [like.start, like.stop],
        "precision": precision,
        "loss": loss(scoring, stored, people),
        "arrays": pack.entries,
        "files": {name: {"sha256": digest(content), "size": len(content)} for name, content in parts.items()},
        "check": _check(stored, people),
        "privacy": _privacy(model),
        "tradeoff": curve,
    }
    files = {**_static(), **parts, MODEL: as_json(manifest)}
    files[WORKER] = _worker(files)
    return Site(files, manifest)


def as_json(content: Any) -> bytes:
    """Compact JSON without NaN."""
    return json.dumps(content, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()


# -- the public model


def ids_and_titles(catalogue: Catalogue) -> tuple[list[Any], list[str | None] | None]:
    """Item ids for JavaScript, as safe integers or texts, and their titles, if there are any."""
    ids = [
        item if isinstance(item, int) and not isinstance(item, bool) and abs(item) < SAFE else str(item)
        for item in catalogue.ids
    ]
    named = titles(catalogue, np.arange(len(ids)))
    return ids, None if named is None else [None if name is None else str(name) for name in named]


def _items(catalogue: Catalogue, wanted: Sequence[str] | None) -> dict[str, Any]:
    """Ids, titles and the columns to show."""
    ids, named = ids_and_titles(catalogue)
    if len(set(map(str, ids))) < len(ids):
        raise ModelError("model: two item ids are the same when written as text, and browsers compare ids as text")
    if wanted is None:
        wanted = [name for name in catalogue.names if name.lower() in USUAL]
    if missing := [name for name in wanted if name not in catalogue.names]:
        raise DataError(f"columns: the catalog has no {missing[0]!r}; it has {', '.join(catalogue.names) or 'none'}")
    columns = {name: [_cell(cell) for cell in catalogue.column(name)] for name in wanted}
    return {"ids": ids, "titles": named, "columns": columns}


def _cell(cell: Any) -> Any:
    if isinstance(cell, float) and math.isfinite(cell):
        return f"{cell:g}"
    return cell if cell is None or isinstance(cell, str | bool | int) else str(cell)


def _privacy(model: Model) -> dict[str, Any]:
    """What the page says about the guarantee. The certificate is a separate file, which can be checked."""
    guarantee, certificate = model.guarantee_, model.statement().certificate
    return {
        "holds": guarantee.holds,
        "sentence": str(guarantee),
        "epsilon": guarantee.epsilon if math.isfinite(guarantee.epsilon) else None,
        "delta": guarantee.delta,
        "unit": guarantee.unit,
        "adjacency": guarantee.adjacency,
        "releases": [
            {"tells": in_words(row["tells"]), "part": row["part"], "epsilon": row["epsilon"]}
            for row in release_rows(certificate["releases"], guarantee.delta)
        ],
        **{name: certificate[name] for name in ("public_inputs", "covered", "not_covered", "notes", "digest")},
    }


def _check(scoring: Scoring, people: Interactions) -> list[dict[str, Any]]:
    """Made-up histories, and the scores and predictions that clients must get, computed from the stored numbers."""
    few = people.of_users(np.arange(VECTORS))
    scores, predictions = scoring.scores(few), scoring.predictions(few)
    asked = np.linspace(0, scores.shape[1] - 1, min(8, scores.shape[1])).astype(int)
    histories = np.split(np.column_stack([few.indices, few.values]).astype(float), few.indptr[1:-1])
    return [
        {
            "history": [[int(item), value] for item, value in history.tolist()],
            "items": asked.tolist(),
            "scores": own[asked].tolist(),
            "predictions": predicted[asked].tolist(),
        }
        for history, own, predicted in zip(histories, scores, predictions, strict=True)
    ]


def map_positions(vectors: Array, second: Array) -> Array:
    """Positions (items, 2) in [-1, 1]: the first two principal components; `second` replaces a missing second one.

    Distances from the center are logarithmic, so that a few distant items do not compress all others into one spot.
    Items without a vector are in the center.
    """
    vectors, second = np.asarray(vectors, np.float64), np.asarray(second, np.float64)
    known = np.asarray(vectors.any(axis=1))
    centered = np.where(known[:, None], vectors - vectors[known].mean(axis=0) if known.any() else vectors, 0.0)
    size, directions = np.linalg.eigh(centered.T @ centered)
    nonzero = size > 1e-12 * max(float(size.max(initial=0.0)), LEAST)
    axes: Array = (centered @ directions[:, nonzero])[:, ::-1][:, :2]
    if axes.shape[1] < 2:
        axes = np.column_stack([axes, second - second.mean(), np.zeros(len(axes))])[:, :2]
    # The sign of an eigenvector is arbitrary: put the larger side to the right, or above.
    axes = axes * np.where(np.abs(axes.min(axis=0)) > axes.max(axis=0), -1.0, 1.0)
    sizes = np.abs(axes[axes.any(axis=1)])
    typical = np.maximum(np.median(sizes, axis=0), 1e-6 * sizes.max(axis=0)) if len(sizes) else np.ones(2)
    scaled = axes / np.maximum(typical, LEAST)
    distances = np.maximum(np.hypot(*scaled.T), LEAST)
    shortened = scaled * (np.log1p(distances) / distances)[:, None]
    places: Array = shortened / np.maximum(np.abs(shortened).max(axis=0), LEAST)
    return places


# -- accuracy against privacy


def checked_curve(tradeoff: Any, *, may_be_public: bool) -> dict[str, Any]:
    """A curve with points ordered by epsilon, and a statement of what covers it.

    It has a "certificate" if its numbers are private evaluations. With `may_be_public`, the owner declares that exact
    numbers may be published.
    """
    try:
        points = [(_number(point["epsilon"]), _number(point["value"])) for point in tradeoff["points"]]
        references = {str(name): _number(value) for name, value in dict(tradeoff.get("references") or {}).items()}
        metric, fine = tradeoff["metric"], min(points)[0] > 0
    except (AttributeError, KeyError, TypeError, ValueError):
        fine = False
    if not fine or not isinstance(metric, str):
        raise DataError(f"tradeoff: must look like {CURVE}")
    if (certificate := tradeoff.get("certificate")) is not None:
        covered = _covered(certificate, metric, len(points) + len(references))
    elif may_be_public is True:
        covered = OWN_WORD
    else:
        raise PrivacyError(
            "tradeoff: metrics on private data are about people, and no guarantee covers them on a public page. "
            'Release them with discreet.evaluate(private=True), and give the ledger\'s statement as "certificate". Or, '
            "if the data are public or made up, say so: exact_metrics_may_be_public=True"
        )
    ordered = [{"epsilon": epsilon, "value": value} for epsilon, value in sorted(points)]
    return {"metric": metric, "points": ordered, "references": references, "covered": covered}


def _covered(certificate: Any, metric: str, count: int) -> str:
    """What a certificate says about a curve; raises unless it lists `count` private evaluations of this metric."""
    statement = Statement.parse(certificate if isinstance(certificate, str) else json.dumps(certificate))
    labels = [release["label"] for release in statement.certificate["releases"]]
    evaluated = [label.removeprefix(EVALUATION).split(", ") for label in labels if label.startswith(EVALUATION)]
    measured = [metrics for metrics in evaluated if metric in metrics]
    if not statement.guarantee.holds or len(measured) < count:
        raise PrivacyError(
            f"tradeoff: its certificate must hold, and list a private evaluation by {metric} for each of the curve's "
            f"{count} numbers; it lists {len(measured)}, and says: {statement.guarantee}"
        )
    return f"These numbers have noise of their own. {statement.guarantee}"


def _number(value: Any) -> float:
    number = float(value)
    if isinstance(value, bool) or not math.isfinite(number):
        raise ValueError
    return number


# -- the page


def _static() -> dict[str, bytes]:
    """The files of the page, as they are in the package."""
    home = Path(__file__).with_name("static")
    return {path.relative_to(home).as_posix(): path.read_bytes() for path in home.rglob("*") if path.is_file()}


def _worker(files: dict[str, bytes]) -> bytes:
    """The service worker with the list of files; it changes whenever one of them does."""
    names = sorted(set(files) - {WORKER})
    version = digest(b"".join(name.encode() + files[name] for name in [*names, WORKER]))[:16]
    text = files[WORKER].decode().replace('"VERSION"', json.dumps(version)).replace('["FILES"]', json.dumps(names))
    return text.encode()
