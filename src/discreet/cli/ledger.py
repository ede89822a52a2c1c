"""`discreet ledger`: begin, read and check a privacy ledger."""

from typing import Annotated

import typer

from discreet.cli import config
from discreet.cli.common import Command, Json, ledger_url, opened, show

app = typer.Typer(help="Begin, read and check a privacy ledger.", no_args_is_help=True)

Where = Annotated[str, typer.Argument(help="A file (ledger.db), or sqlite:///… or postgresql://…")]
Name = Annotated[str, typer.Option(help="Which ledger of the database.")]


@app.command(cls=Command)
def create(
    where: Where,
    epsilon: Annotated[float, typer.Option(help="The budget, for everything that is ever released from these people.")],
    delta: Annotated[float, typer.Option(help="The delta at which it is stated: well below 1 / the number of people.")],
    name: Name = "default",
    config_file: config.Config = None,
    as_json: Json = False,
) -> None:
    """Begin a ledger with a budget, for `discreet train --ledger` and other commands to spend.

    Example: discreet ledger create ledger.db --epsilon 3 --delta 1e-6

    Where there is one with this budget it stays as it is; one with another budget is not changed.
    """
    from discreet.privacy import Ledger

    ledger = Ledger(ledger_url(where), name=name, epsilon=epsilon, delta=delta)
    data = {"epsilon": ledger.epsilon, "delta": ledger.delta, "name": name, "entries": len(ledger.entries)}
    show(data, as_json, str(ledger), "", f"Spend from it with --ledger {where}.")


@app.command("show", cls=Command)
def show_(where: Where, name: Name = "default", config_file: config.Config = None, as_json: Json = False) -> None:
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
    show(data, as_json, str(ledger), "", str(spent))


@app.command(cls=Command)
def export(
    where: Where,
    name: Name = "default",
    statement: Annotated[bool, typer.Option("--statement", help="The privacy statement instead of the log.")] = False,
    config_file: config.Config = None,
    as_json: Json = False,
) -> None:
    """Print the whole log as JSON, or the privacy statement (markdown; with --json the certificate).

    Example: discreet ledger export ledger.db > ledger.json
    """
    ledger = opened(where, name)
    if not statement:
        show(ledger.to_json(), True)
    elif as_json:
        typer.echo(ledger.statement().json())
    else:
        typer.echo(str(ledger.statement()))


@app.command(cls=Command)
def verify(where: Where, name: Name = "default", config_file: config.Config = None, as_json: Json = False) -> None:
    """Check that no entry was changed or removed, and that the total is the sum of the entries.

    Example: discreet ledger verify ledger.db
    """
    ledger = opened(where, name)
    ledger.verify()
    count = len(ledger.entries)
    show(
        {"valid": True, "entries": count},
        as_json,
        f"The ledger is intact: {count} {'entry' if count == 1 else 'entries'}, each chained to the last.",
    )


@app.command(cls=Command)
def close(
    where: Where,
    reservation: Annotated[
        str | None, typer.Argument(help="Which one; without it, those that are open are listed.")
    ] = None,
    name: Name = "default",
    config_file: config.Config = None,
    as_json: Json = False,
) -> None:
    """Return what a reservation had left, after its process was killed; or list the reservations that are open.

    Example: discreet ledger close ledger.db

    What is closed cannot go on: `discreet train` with --resume finishes a fit that was interrupted, at no further cost.
    """
    ledger = opened(where, name)
    if reservation is None:
        found = ledger.open_reservations()
        show({"open_reservations": found}, as_json, *(found or ["No reservation is open."]))
        return
    ledger.close(reservation)
    spent = ledger.spent
    show({"spent": spent.to_json()}, as_json, f"Closed. Spent now: epsilon {spent.epsilon:.6g}.")
