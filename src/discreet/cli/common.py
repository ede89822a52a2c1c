"""What the sub-commands share: errors as one sentence, and output for people or for machines."""

import json
import os
import re
import secrets
import shlex
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from discreet.errors import DiscreetError, PrivacyError
from discreet.validation import round_up

if TYPE_CHECKING:
    from rich.text import Text

    from discreet.privacy import Guarantee, Ledger

TYPED = "discreet.typed"

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


class Misuse(DiscreetError):
    """The options do not go together, or are incomplete: exit code 2, where other errors are 1."""


class Command(TyperCommand):
    """A sub-command. Its help ends with an example, in one line however narrow the terminal is: it can be pasted."""

    def __init__(self, *given: Any, help: str | None = None, **settings: Any) -> None:
        about, _, rest = (help or "").partition("Example: ")
        self.example, _, more = rest.partition("\n")
        super().__init__(*given, help="\n\n".join(filter(None, (about.strip(), more.strip()))), **settings)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Show the help, and the example as it stands."""
        super().format_help(ctx, formatter)
        typer.echo(f" Example: {self.example}")


class Group(TyperGroup):
    """The command itself: an error becomes one line on standard error and exit code 1, or with --debug a traceback."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Remember what was typed, for messages that say what to type next."""
        ctx.meta[TYPED] = list(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run a sub-command."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # `discreet ... | head` has seen enough; click ends quietly
            raise
        except Exception as error:
            if ctx.params.get("debug") or type(error).__module__.partition(".")[0] in ("typer", "click"):
                raise
            if isinstance(error, DiscreetError | OSError):
                typer.echo(f"discreet: {error}{self._flags(ctx, str(error))}", err=True)
            else:
                what = f"{type(error).__name__}: {error}"
                told = f"discreet: this should not have happened ({what}); `discreet --debug ...` shows where it did"
                typer.echo(told, err=True)
            raise typer.Exit(2 if isinstance(error, Misuse) else 1) from None

    def _flags(self, ctx: Any, message: str) -> str:
        """What arguments of the library that a message speaks of are called here."""
        command = self.get_command(ctx, ctx.invoked_subcommand or "")
        options = {param.name: max(param.opts, key=len) for param in getattr(command, "params", ())}
        named = [
            option
            for name, option in options.items()
            if name and option.startswith("--") and re.search(rf"\b{name}{'' if '_' in name else '='}", message)
        ]
        return f" (here: {', '.join(named)})" if named else ""


def typed(ctx: Any, *more: str, less: Sequence[str] = ()) -> str:
    """The command that was typed, with other flags: to be pasted, though a password must be put in again."""
    words = ["discreet", *(word for word in ctx.meta.get(TYPED, ()) if word not in (*more, *less)), *more]
    return shlex.join(re.sub(r"(://[^:/@]*):[^/@]*@", r"\1:PASSWORD@", word) for word in words)


def ledger_url(where: str) -> str:
    """The URL of a ledger, which may be given as a file."""
    return where if "://" in where else f"sqlite:///{where}"


def opened(where: str, name: str) -> "Ledger":
    """A ledger that exists: a wrong path is not a new budget."""
    from discreet.privacy import Ledger

    try:
        return Ledger(ledger_url(where), name=name, create=False)
    except PrivacyError as error:
        what, begin, _ = str(error).partition("; give epsilon and delta to begin")
        hint = f"; to begin one: discreet ledger create {where} --epsilon 3 --delta 1e-6" if begin else ""
        raise PrivacyError(what + hint) from None


def require_file(flag: str, file: Path | None, endings: Sequence[str] = ()) -> None:
    """Raise unless a file of this name can be written: tried, before a budget is spent or hours of work are done.

    Args:
        flag: The option that names it.
        file: Which; None if the option was not given.
        endings: How its name may end, if not every name will do.
    """
    if file is None:
        return
    if endings and file.suffix.lower() not in endings:
        raise Misuse(f"{flag}: a file that ends in {' or '.join(endings)} is needed, not {str(file)!r}")
    try:
        if file.exists():
            file.open("r+b").close()  # which changes nothing
        else:
            _try_to_write(file)
    except OSError as error:
        raise Misuse(f"{flag}: {str(file)!r} is not a file that can be written ({error.strerror})") from None


def require_folder(flag: str, folder: Path) -> None:
    """Raise unless files can be written in a folder, which is made if there is none: tried, and nothing is left."""
    made = [one for one in (folder, *folder.parents) if not one.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _try_to_write(folder / f".{secrets.token_hex(8)}.tmp")
    except OSError as error:
        raise Misuse(f"{flag}: {str(folder)!r} is not a folder that can be written ({error.strerror})") from None
    finally:
        for one in made:
            with suppress(OSError):
                one.rmdir()


def _try_to_write(file: Path) -> None:
    """Write a file that is not there, and remove it."""
    with file.open("xb") as opened_file:
        try:
            opened_file.write(bytes(4096))
            opened_file.flush()
            os.fsync(opened_file.fileno())
        finally:
            file.unlink()


@contextmanager
def spending_told(ledger: Any) -> Iterator[None]:
    """If Ctrl-C stops a command that spends and cannot be resumed, say what the ledger has spent: budget numbers only.

    Args:
        ledger: The ledger that was named; None if there is none, so that nothing is charged that lasts.
    """
    before = None if ledger is None else ledger.spent
    try:
        yield
    except KeyboardInterrupt:
        said = "no ledger was named, so none was charged"
        if ledger is not None and before is not None:
            after, was, at = ledger.spent, round_up(before.epsilon), f"at delta = {round_up(ledger.delta)}"
            said = f"the ledger has spent epsilon = {was} {at}, as before; nothing was charged"
            if after.cost != before.cost:
                said = (
                    f"the ledger has now spent epsilon = {round_up(after.epsilon)} {at}, and {was} before. What was "
                    "charged stays charged, and this command cannot be resumed"
                )
        typer.echo(f"discreet: stopped; {said}", err=True)
        raise typer.Exit(130) from None


@contextmanager
def warnings_told() -> Iterator[None]:
    """Warnings of the library as lines on standard error."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", UserWarning)
        yield
    for line in dict.fromkeys(str(warning.message) for warning in told):
        typer.echo(f"discreet: {line}", err=True)


def show(data: Any, as_json: bool, *tables: Any) -> None:
    """Print the data as JSON, or the rich tables and strings made of it."""
    if as_json:
        typer.echo(json.dumps(data, indent=2, allow_nan=False))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console()
    for table in tables:  # sentences are wrapped by the terminal, so that they can be copied
        words = isinstance(table, str | Text)  # shown as they are: a label may hold brackets
        console.print(table, highlight=False, soft_wrap=words, markup=not words)


def pairs(rows: Mapping[str, object]) -> Any:
    """A table of names and values."""
    from rich.table import Table

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, value in rows.items():
        table.add_row(f"[bold]{name}[/bold]", str(value))
    return table


def grid(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> Any:
    """A table of rows, whose cells are shown as they are: a title may hold brackets."""
    from rich.table import Table
    from rich.text import Text

    table = Table(*headings, box=None, padding=(0, 2, 0, 0))
    for row in rows:
        table.add_row(*(Text("" if cell is None else str(cell)) for cell in row))
    return table


def promise(guarantee: "Guarantee") -> "Text":
    """The guarantee's sentence; that there is none is not to be overlooked."""
    from rich.text import Text

    return Text(str(guarantee), style="bold" if guarantee.holds else "bold red")


def plain(value: Any) -> Any:
    """An id or a parameter as JSON has it."""
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
