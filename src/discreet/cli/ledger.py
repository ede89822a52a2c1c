"""`discreet ledger`: read and check a privacy ledger."""

from typing import Annotated, Any

import typer

from discreet.cli import config
from discreet.cli.common import Json, show

app = typer.Typer(help="Read and check a privacy ledger.", no_args_is_help=True)

Where = Annotated[str, typer.Argument(help="A file (ledger.db), or sqlite:///… or postgresql://…")]
Name = Annotated[str, typer.Option(help="Which ledger of the database.")]


def _open(where: str, name: str) -> Any:
    """A ledger that exists; looking at one must not create it."""
    from discreet.privacy import Ledger

    return Ledger(where if "://" in where else f"sqlite:///{where}", name=name, create=False)


@app.command("show")
def show_(where: Where, name: Name = "default", config_file: config.Config = None, as_json: Json = False) -> None:
    """Show what was spent, on what, and what is left.

    Example: discreet ledger show ledger.db
    """
    ledger = _open(where, name)
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


@app.command()
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
    ledger = _open(where, name)
    if not statement:
        show(ledger.to_json(), True)
    elif as_json:
        typer.echo(ledger.statement().json())
    else:
        typer.echo(str(ledger.statement()))


@app.command()
def verify(where: Where, name: Name = "default", config_file: config.Config = None, as_json: Json = False) -> None:
    """Check that no entry was changed or removed, and that the total is the sum of the entries.

    Example: discreet ledger verify ledger.db
    """
    ledger = _open(where, name)
    ledger.verify()
    count = len(ledger.entries)
    show(
        {"valid": True, "entries": count}, as_json, f"The ledger is intact: {count} entries, each chained to the last."
    )


@app.command()
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
    """
    ledger = _open(where, name)
    if reservation is None:
        found = ledger.open_reservations()
        show({"open_reservations": found}, as_json, *(found or ["No reservation is open."]))
        return
    ledger.close(reservation)
    spent = ledger.spent
    show({"spent": spent.to_json()}, as_json, f"Closed. Spent now: epsilon {spent.epsilon:.6g}.")
