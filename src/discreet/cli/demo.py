"""`discreet demo`: the main job in one command, on data that it makes itself.

For now: a private item-popularity table. A user's contribution is the unit vector with 1 / sqrt(n) on each of her n
items, so that one person, however active, moves the sum by at most 1 in the L2 norm; one Gaussian release makes it
public. docs/proofs/grid.md has the proof that the numbers below are the bound.
"""

import html
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli.common import Json, show

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from discreet.data import Interactions
    from discreet.privacy import Ledger

    Floats = npt.NDArray[np.float64]

TOP = 20


def _shares(data: "Interactions") -> "Floats":
    """What each interaction counts: a user's add up to a vector of length 1."""
    import numpy as np

    counts = np.diff(data.indptr)
    return np.repeat(1 / np.sqrt(np.maximum(counts, 1)), counts)


def popularity(data: "Interactions", ledger: "Ledger", noise_multiplier: float) -> "Floats":
    """Release each item's popularity: the sum over users of 1 / sqrt(their number of items); L2 sensitivity 1."""
    from discreet.privacy import Gaussian, GridArray, exact_scatter, truncate

    noise, bound = Gaussian(noise_multiplier), 1.0
    cells = truncate(_shares(data), bound=bound, grid=noise.grid(), indptr=data.indptr)
    sums = exact_scatter(data.indices, cells, size=data.n_items)
    return ledger.release(GridArray(sums, noise.grid()), bound, noise, "item popularity")


def _quality(score: "Floats", exact: "Floats") -> tuple[float, float]:
    """Share of the true top items that a ranking finds, and of all interactions that its top items hold."""
    import numpy as np

    best, found = (set(np.argsort(-values, kind="stable")[:TOP].tolist()) for values in (exact, score))
    return len(best & found) / TOP, float(exact[list(found)].sum() / exact.sum())


def _bars(labels: list[str], private: "Floats", exact: "Floats") -> str:
    """A bar for what was released and a tick for the truth, which only generated data allow to show."""
    scale = 420 / max(private.max(), exact.max())
    rows = "".join(
        f'<text x="150" y="{22 * i + 15}" text-anchor="end">{html.escape(label)}</text>'
        f'<rect x="160" y="{22 * i + 4}" width="{max(value, 0) * scale:.1f}" height="14" rx="2"/>'
        f'<path d="M{160 + true * scale:.1f} {22 * i + 1}v20" stroke="#b3261e" stroke-width="2"/>'
        for i, (label, value, true) in enumerate(zip(labels, private, exact, strict=True))
    )
    style = 'font-size="12" fill="currentColor" role="img" aria-label="released popularity of the top items"'
    return f'<svg viewBox="0 0 600 {22 * len(labels) + 4}" {style}>{rows}</svg>'


def demo(
    epsilon: Annotated[float, typer.Option(help="The privacy budget.")] = 1.0,
    delta: Annotated[float, typer.Option(help="The delta of the budget.")] = 1e-6,
    users: Annotated[int, typer.Option(help="How many users to make up.", min=50)] = 20_000,
    report: Annotated[Path, typer.Option(help="Where to write the report.")] = Path("report.html"),
    as_json: Json = False,
) -> None:
    """Make data, release a private item-popularity table from them, and say what it reveals.

    Example: discreet demo --epsilon 0.5
    """
    if not report.parent.is_dir() or report.is_dir():
        raise typer.BadParameter(f"{report} is not a file that can be written", param_hint="--report")
    import numpy as np
    from rich.markdown import Markdown
    from rich.table import Table

    import discreet
    from discreet import render

    data = discreet.datasets.movielens_like(users, 2_000, 100 * users, random_state=0)
    guarantee = discreet.account(epsilon=epsilon, delta=delta)
    ledger = discreet.Ledger(epsilon=epsilon, delta=delta)
    released = popularity(data, ledger, 1 / (guarantee.mu or 1))
    inputs = {**data.public_inputs, "data": "generated for this demonstration"}
    statement = ledger.statement(title="A private popularity table", public_inputs=inputs)

    exact = np.bincount(data.indices, minlength=data.n_items).astype(np.float64)
    weighted = np.bincount(data.indices, _shares(data), minlength=data.n_items).astype(np.float64)
    chance = TOP / data.n_items
    qualities = {
        "exact counts (not private)": _quality(exact, exact),
        "the same weights, no noise (not private)": _quality(weighted, exact),
        f"private, epsilon {epsilon:g}": _quality(released, exact),
        "a random list": (chance, chance),
    }
    table = Table("popularity table", f"true top {TOP} found", "interactions in its top list", box=None)
    for name, (found, held) in qualities.items():
        table.add_row(name, f"{found:.0%}", f"{held:.1%}")
    top = np.argsort(-released, kind="stable")[:TOP]
    labels = [f"item {item}" for item in data.items.take(top)]
    rows = "".join(f"<tr><td>{html.escape(n)}<td>{a:.0%}<td>{b:.1%}</tr>" for n, (a, b) in qualities.items())
    body = (
        f"<h2>How good it is</h2><table><tr><th>popularity table<th>true top {TOP} found<th>interactions in its top "
        f"list</tr>{rows}</table><h2>The top {TOP} (bar: released; tick: the truth, which generated data allow to show)"
        f"</h2>{_bars(labels, released[top], weighted[top])}"
    )
    report.write_text(render.page(statement.certificate, body=body), encoding="utf-8")
    people = f"{data.n_users:,} made-up people, {data.n_items:,} items, {len(data):,} ratings"
    result: dict[str, Any] = {
        "users": data.n_users,
        "items": data.n_items,
        "interactions": len(data),
        "guarantee": ledger.spent.to_json(),
        "sentence": str(ledger.spent),
        "quality": {name: {"top_found": a, "interactions_held": b} for name, (a, b) in qualities.items()},
        "report": str(report),
    }
    show(result, as_json, people, "", table, "", Markdown(str(statement)), "", f"The same with a plot is in {report}.")
