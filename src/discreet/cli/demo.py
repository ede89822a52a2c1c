"""`discreet demo`: train a private recommender on made-up data, compare it with others, and report what it reveals."""

from __future__ import annotations

import html
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from discreet.cli.common import grid, promise, require_file, show

if TYPE_CHECKING:
    from discreet.models.als import DPALS
    from discreet.models.base import Model
    from discreet.recommend import Recommendations

ITEMS, RATINGS_EACH = 500, 60
HISTORY = {3: 5.0, 14: 4.5, 15: 1.0, 92: 2.0}
LISTED = 10  # items that little is known about


def _bars(errors: dict[str, float]) -> str:
    """The errors as bars that begin at 0.5, to show the differences."""
    scale = 310 / (max(errors.values()) - 0.5)
    rows = "".join(
        f'<text x="280" y="{26 * i + 17}" text-anchor="end">{html.escape(name)}</text>'
        f'<rect x="290" y="{26 * i + 4}" width="{max(value - 0.5, 0) * scale:.1f}" height="18" rx="2"/>'
        f'<text x="{296 + max(value - 0.5, 0) * scale:.1f}" y="{26 * i + 17}">{value:.4f}</text>'
        for i, (name, value) in enumerate(errors.items())
    )
    style = 'font-size="12" fill="currentColor" role="img" aria-label="test error of each model"'
    return f'<svg viewBox="0 0 660 {26 * len(errors) + 4}" {style}>{rows}</svg>'


def _little_known(model: DPALS) -> str:
    """The items that the model knows too little about: public, because it is computed from releases."""
    import pyarrow.compute as pc

    knowledge = model.item_knowledge("pyarrow")
    doubtful = knowledge.filter(pc.invert(knowledge["known"])).to_pylist()
    if not doubtful:
        return "<p>The model knows enough about every item.</p>"
    rows = "".join(
        f"<tr><td>item {row['item']}<td>{row['popularity']:.0f}"
        f"<td>{row['average']:.2f} &plusmn; {row['uncertainty']:.2f}</tr>"
        for row in doubtful[:LISTED]
    )
    return (
        f"<p>The model knows too little about {len(doubtful):,} of {len(knowledge):,} items to tell them from average. "
        f"It knows least about these.</p>"
        f"<table><tr><th>item<th>popularity, noisy<th>average rating</tr>{rows}</table>"
    )


def _body(errors: dict[str, float], liked: str, found: Recommendations, model: DPALS) -> str:
    """The report's own part: errors, recommendations for somebody, and items that the model knows little about."""
    best = "".join(f"<tr><td>{rank}<td>item {item}<td>{score:.2f}</tr>" for rank, (item, score) in enumerate(found, 1))
    return (
        f"<h2>How good it is</h2><p>Root mean squared error on held-out ratings; lower is better; bars begin at 0.5. "
        f"These are exact numbers about (made-up) people, for their owner's eyes.</p>"
        f"{_bars(errors)}<h2>Recommendations for someone who rated {html.escape(liked)}</h2>"
        f"<table><tr><th>rank<th>item<th>expected rating</tr>{best}</table>"
        f"<h2>What the model knows too little about</h2>{_little_known(model)}"
    )


def demo(
    epsilon: Annotated[float, Option(help="The privacy budget.")] = 1.0,
    delta: Annotated[float, Option(help="The delta of the budget.")] = 1e-6,
    users: Annotated[int, Option(help="How many users to make up.", min=50)] = 20_000,
    report: Annotated[Path, Option(help="Where to write the report.")] = Path("report.html"),
) -> None:
    """Generate data, train a private recommender, compare it with others, and report what it reveals.

    Example: discreet demo --epsilon 0.5
    """
    require_file("--report", report)
    import discreet
    from discreet.privacy import statement

    data = discreet.datasets.movielens_like(users, ITEMS, RATINGS_EACH * users, random_state=0)
    train, _, test = discreet.splits.holdout(data, test=0.1, random_state=0)
    private = discreet.DPALS(epsilon=epsilon, delta=delta, n_users_hint=users).fit(train)
    models: dict[str, Model] = {
        f"DPALS, private, epsilon {epsilon:g}": private,
        "ALS, its twin, not private": discreet.ALS().fit(train),
        "users' and items' means, not private": discreet.MeanRating("both").fit(train),
        "each user's own mean": discreet.MeanRating("user").fit(train),
    }
    errors = {
        name: discreet.evaluate(model, test, history=train, metrics="rmse", confidence=None)["rmse"]
        for name, model in models.items()
    }
    found = private.recommend(HISTORY, n=5)
    liked = ", ".join(f"item {item}: {rating:g}" for item, rating in HISTORY.items())
    body = _body(errors, liked, found, private)
    report.write_text(statement.page(private.statement().certificate, body=body), encoding="utf-8")
    result: dict[str, Any] = {
        "users": data.n_users,
        "items": data.n_items,
        "interactions": len(data),
        "guarantee": private.guarantee_.to_json(),
        "sentence": str(private.guarantee_),
        "rmse": errors,
        "recommendations": [{"item": item, "score": score} for item, score in found],
        "report": str(report),
    }
    show(
        result,
        f"{data.n_users:,} made-up people, {data.n_items:,} items, {len(data):,} ratings",
        "",
        grid(("model", "RMSE on held-out ratings"), ((name, f"{error:.4f}") for name, error in errors.items())),
        "",
        f"Five recommendations for somebody who rated {liked}:",
        repr(found),
        "",
        promise(private.guarantee_),
        "",
        f"The whole statement (every release, its noise, what is assumed and what is not covered) is in {report}.",
        "Next: discreet datasets sample makes up tables to try the other commands on; discreet train --help.",
    )
