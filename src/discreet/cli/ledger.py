"""`discreet ledger`: begin, read and check a privacy ledger."""

from typing import Annotated

import typer
from typer import Argument, Option

from discreet.cli.common import command, is_json, show, show_json
from discreet.cli.inputs import ledger_url, opened

app = typer.Typer(help="Begin, read and check a privacy ledger.", no_args_is_help=True)

Where = Annotated[str, Argument(help="A file (ledger.db), or sqlite:///… or postgresql://…")]
Name = Annotated[str, Option(help="Which ledger of the database.")]


@command(app)
def create(
    where: Where,
    epsilon: Annotated[float, Option(help="The budget for everything that is ever released about these people.")],
    delta: Annotated[float, Option(help="The delta of the budget: well below 1 / the number of people.")],
    name: Name = "default",
    threshold_delta: Annotated[
        float | None,
        Option(help="The part of delta to keep for `discreet train --items private`, a fifth of its delta."),
    ] = None,
) -> None:
    """Begin a ledger with a budget, for `discreet train --ledger` and other commands to spend.

    Example: discreet ledger create ledger.db --epsilon 3 --delta 1e-6

    An existing ledger with this budget stays as it is; one with another budget is not changed.
    """
    from discreet.privacy import Ledger

    ledger = Ledger(ledger_url(where), name=name, epsilon=epsilon, delta=delta, threshold_delta=threshold_delta)
    data = {"epsilon": ledger.epsilon, "delta": ledger.delta, "name": name, "entries": len(ledger.entries)}
    show(data, str(ledger), "", f"Spend from it with --ledger {where}.")


@command(app, "show")
def show_(where: Where, name: Name = "default") -> None:
    """Show what was spent, on what, and what is left.

    Example: discreet ledger show ledger.db
    """
    ledger = opened(where, name)
    spent, left = ledger.spent, ledger.remaining
    data = {
        "epsilon": ledger.epsilon,
        "delta": ledger.delta,
        "spent": spent.to_json(),
        "remaining": None if left is None else left.to_json(),
        "events": [{"seq": event.seq, "kind": event.kind, **event.body} for event in ledger.events],
        "open_reservations": ledger.open_reservations(),
    }
    show(data, str(ledger), "", str(spent))


@command(app)
def export(
    where: Where,
    name: Name = "default",
    statement: Annotated[bool, Option("--statement", help="The privacy statement instead of the log.")] = False,
) -> None:
    """Print the whole log as JSON, or the privacy statement (Markdown; with --json the certificate).

    Example: discreet ledger export ledger.db > ledger.json
    """
    ledger = opened(where, name)
    if statement:
        typer.echo(ledger.statement().json() if is_json() else str(ledger.statement()))
    else:
        show_json(ledger.to_json())


@command(app)
def verify(where: Where, name: Name = "default") -> None:
    """Check that no entry was changed or removed, and that the total is the sum of the entries.

    Example: discreet ledger verify ledger.db
    """
    ledger = opened(where, name)
    ledger.verify()
    count = len(ledger.entries)
    entries = f"{count} {'entry' if count == 1 else 'entries'}"
    show({"valid": True, "entries": count}, f"The ledger is intact: {entries}, each chained to the last.")


@command(app)
def close(
    where: Where,
    reservation: Annotated[str | None, Argument(help="Which one; without it, open reservations are listed.")] = None,
    name: Name = "default",
) -> None:
    """Return the rest of a reservation whose process was killed; or list the open reservations.

    Example: discreet ledger close ledger.db

    A closed fit cannot continue. `discreet train` with --resume finishes an interrupted fit at no further cost.
    """
    ledger = opened(where, name)
    if reservation is None:
        found = ledger.open_reservations()
        show({"open_reservations": found}, *(found or ["No reservation is open."]))
        return
    ledger.close(reservation)
    spent = ledger.spent
    show({"spent": spent.to_json()}, f"Closed. Spent so far: epsilon {spent.epsilon:.6g}.")
