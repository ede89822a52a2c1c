"""`discreet ledger`: begin, read and check a privacy ledger."""

import re
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from discreet.cli.common import Commands, command
from discreet.cli.inputs import ledger_url, opened
from discreet.cli.output import grid, is_json, show, show_json
from discreet.errors import PrivacyError
from discreet.validation import round_up

if TYPE_CHECKING:
    from discreet.privacy import Ledger
    from discreet.privacy.store import Entry

app = typer.Typer(
    cls=Commands, rich_markup_mode=None, help="Begin, read and check a privacy ledger.", no_args_is_help=True
)

NUMBERS = ("epsilon", "total")  # columns of fits that hold numbers

Where = Annotated[str, Argument(help="A file (ledger.db), or sqlite:///… or postgresql://…")]
Name = Annotated[str, Option(help="The name of the ledger in the database.")]


@command(app)
def create(
    where: Where,
    epsilon: Annotated[float, Option(help="The budget for everything that is ever released about these people.")],
    delta: Annotated[float, Option(help="The delta of the budget: well below 1 / the number of people.")],
    name: Name = "default",
    threshold_delta: Annotated[
        float | None,
        Option(
            help="The part of delta to keep for `discreet train --items private`, which takes a fifth of its own delta."
        ),
    ] = None,
) -> None:
    """Begin a ledger with a budget, for `discreet train --ledger` and other commands to spend.

    Example: discreet ledger create ledger.db --epsilon 3 --delta 1e-6

    An existing ledger with this budget stays as it is; one with another budget is not changed.
    """
    from discreet.privacy import Ledger

    try:
        ledger = Ledger(ledger_url(where), name=name, epsilon=epsilon, delta=delta, threshold_delta=threshold_delta)
    except PrivacyError as error:
        raise type(error)(re.sub("^url:", "where:", str(error))) from None
    data = {"epsilon": ledger.epsilon, "delta": ledger.delta, "name": name, "entries": len(ledger.entries)}
    show(data, str(ledger), "", f"Spend from it with --ledger {where}.")


@command(app, "show")
def show_(
    where: Where,
    name: Name = "default",
    releases: Annotated[bool, Option("--releases", help="List every release, not only fits.")] = False,
) -> None:
    """Show what was spent, when and on what, and what is left.

    Example: discreet ledger show ledger.db
    """
    ledger = opened(where, name, "where")
    spent, left = ledger.spent, ledger.remaining
    fits = _fits(ledger)
    data = {
        "epsilon": ledger.epsilon,
        "delta": ledger.delta,
        "fits": fits,
        "spent": spent.to_json(),
        "remaining": None if left is None else left.to_json(),
        "events": [{"seq": event.seq, "kind": event.kind, **event.body} for event in ledger.events],
        "open_reservations": ledger.open_reservations(),
    }
    rows = (
        [
            fit["time"][:16].replace("T", " "),
            fit["released"],
            fit["state"],
            *map(round_up, (fit["epsilon"], fit["total"])),
        ]
        for fit in fits
    )
    table = grid(("begun (UTC)", "released", "state", *NUMBERS), rows)
    total = str(ledger).rpartition("\n\n")[2]
    shown = [str(ledger)] if releases else [*([table, ""] if fits else []), total]
    ways = "finish it with `discreet train --resume`, or return what it did not release with `discreet ledger close`"
    hint = [f"An open fit keeps its whole plan set aside: {ways}."] if data["open_reservations"] else []
    show(data, *shown, *hint, "", str(spent))


def _fits(ledger: "Ledger") -> list[dict[str, Any]]:
    """Charges grouped by fit: when, what it released, its own epsilon, and the total after it."""
    from discreet.privacy import Cost

    groups: dict[str, list[Entry]] = {}
    for entry in ledger.entries:
        if entry.kind in ("reserve", "release", "charge", "close"):
            groups.setdefault(entry.body.get("reservation", f"entry {entry.seq}"), []).append(entry)
    waiting, found, total = ledger.open_reservations(), [], Cost()
    for name, entries in groups.items():
        made = [entry for entry in entries if entry.kind in ("release", "charge")]
        # A reservation costs its whole plan minus what closing it returned; other releases are listed by themselves.
        charged = [entry for entry in entries if entry.kind == "reserve"] or made
        cost = sum((entry.cost for entry in charged), Cost())
        for entry in entries:
            cost = cost + entry.cost * -1 if entry.kind == "close" else cost
        total += cost
        labels = Counter(entry.label for entry in made)
        named = ", ".join(f"{label} x{n}" if n > 1 else label for label, n in labels.items())
        alone, after = ledger.guarantee(cost, ()).epsilon, ledger.guarantee(total, ()).epsilon
        state = "open" if name in waiting else "done"
        about = {"time": entries[0].body["time"], "released": named or "nothing", "state": state}
        found.append({"id": name, **about, "epsilon": alone, "total": after})
    return found


@command(app)
def export(
    where: Where,
    name: Name = "default",
    statement: Annotated[bool, Option("--statement", help="The privacy statement instead of the log.")] = False,
) -> None:
    """Print the whole log as JSON, or the privacy statement (Markdown; with --json the certificate).

    Example: discreet ledger export ledger.db > ledger.json
    """
    ledger = opened(where, name, "where")
    if statement:
        typer.echo(ledger.statement().json() if is_json() else str(ledger.statement()))
    else:
        show_json(ledger.to_json())


@command(app)
def verify(where: Where, name: Name = "default") -> None:
    """Check that no entry was changed or removed, and that the total is the sum of the entries.

    Example: discreet ledger verify ledger.db
    """
    ledger = opened(where, name, "where")
    ledger.verify()
    count = len(ledger.entries)
    entries = f"{count} {'entry' if count == 1 else 'entries'}"
    show({"valid": True, "entries": count}, f"The ledger is intact: {entries}, each chained to the last.")


@command(app)
def close(
    where: Where,
    reservation: Annotated[
        str | None, Argument(help="The reservation to close; without it, list the open ones.")
    ] = None,
    name: Name = "default",
) -> None:
    """Return what a killed process had reserved and not released, or list the open reservations.

    Example: discreet ledger close ledger.db

    A closed fit cannot continue. `discreet train` with --resume finishes an interrupted fit at no further cost.
    """
    ledger = opened(where, name, "where")
    if reservation is None:
        found = ledger.open_reservations()
        rows = [(fit["id"], fit["time"][:16].replace("T", " ")) for fit in _fits(ledger) if fit["state"] == "open"]
        advice = f"To return what one has not released: discreet ledger close {where} RESERVATION"
        shown = [grid(("open reservation", "begun (UTC)"), rows), "", advice] if rows else ["No reservation is open."]
        show({"open_reservations": found}, *shown)
        return
    ledger.close(reservation)
    spent = ledger.spent
    show({"spent": spent.to_json()}, f"Closed. Spent so far: epsilon {spent.epsilon:.6g}.")
