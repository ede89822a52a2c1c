"""`discreet demo`: train a private recommender on generated data, compare it with others, and say what it reveals."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from discreet.cli.output import grid, promise, require_file, show

if TYPE_CHECKING:
    from discreet.models.base import Model

ITEMS, RATINGS_EACH = 500, 60
HISTORY = {3: 5.0, 14: 4.5, 15: 1.0, 92: 2.0}


def demo(
    epsilon: Annotated[float, Option(help="The privacy budget.")] = 1.0,
    delta: Annotated[float, Option(help="The delta of the budget.")] = 1e-6,
    users: Annotated[int, Option(help="How many users to generate.", min=50)] = 20_000,
    report: Annotated[Path, Option(help="Where to write the privacy statement.")] = Path("report.html"),
) -> None:
    """Generate data, train a private recommender, compare it with others, and state what it reveals.

    Example: discreet demo --epsilon 0.5
    """
    require_file("--report", report)
    import discreet

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
    report.write_text(private.statement().html(), encoding="utf-8")
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
        f"The privacy statement (every release, its noise, what is assumed and what is not covered) is in {report}.",
        "Next: discreet datasets sample generates tables to try the other commands; discreet train --help.",
    )
