"""Shared by all commands: options, one-sentence errors, output for people or machines, and checks of output files."""

import inspect
import json
import logging
import re
import shlex
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_args, get_origin, get_type_hints

import typer
from typer import Option
from typer.core import TyperCommand, TyperGroup

from discreet.errors import DataError, DiscreetError

if TYPE_CHECKING:
    pass

TYPED = "discreet.typed"
PLAIN = {  # Pydantic's wording, and ours
    r"Input should be a valid integer, .*": "it must be a whole number",
    r"Input should be a valid number, .*": "it must be a number",
    r"Input should be greater than or equal to": "it must be at least",
    r"Input should be less than or equal to": "it must be at most",
    r"Value error, ": "",
}
running: ContextVar["Command | None"] = ContextVar("running", default=None)
json_wanted: ContextVar[bool] = ContextVar("json", default=False)  # whether the running command was given --json


class Misuse(DiscreetError):
    """Options that are incomplete or do not go together: exit code 2, where other errors have 1."""


# -- commands and their options


WORDS = {str: "TEXT", int: "INTEGER", float: "NUMBER", Path: "PATH"}


def kind(annotation: Any) -> str:
    """How help shows the value of an option, from the type of the function's argument; empty for a flag."""
    inner = [kind(part) for part in get_args(annotation) if part is not NoneType]
    if get_origin(annotation) is Literal:
        return "|".join(map(str, get_args(annotation)))
    if get_origin(annotation) is tuple:
        return " ".join(inner)
    return inner[0] if inner else WORDS.get(annotation, "")


def argument_name(param: Any) -> str:
    """The name of an argument in help."""
    return str(param.metavar or param.name.upper())


def _is_parameter(name: str) -> bool:
    """Whether a model has a parameter of this name."""
    from discreet.models import registry

    return any(name in inspect.signature(registry.find(model)).parameters for model in registry.MODELS)


class Command(TyperCommand):
    """A command. Its help ends with an example on one line, to be pasted, however narrow the terminal."""

    def __init__(self, *given: Any, help: str | None = None, **settings: Any) -> None:
        about, _, rest = (help or "").partition("Example: ")
        self.example, _, more = rest.partition("\n")
        super().__init__(*given, help="\n\n".join(filter(None, (about.strip(), more.strip()))), **settings)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse options. For a parameter of a model, the error says how to pass it. All missing options are named."""
        running.set(self)
        required = [param for param in self.params if param.required]
        try:
            rest = self._parsed(ctx, list(args))  # the parser takes words off its list
        except Exception as error:
            if type(error).__name__ != "MissingParameter":
                raise
            for param in required:
                param.required = False  # the parser stopped at the first
            try:
                rest = self._parsed(ctx, args)
            finally:
                for param in required:
                    param.required = True
        if not ctx.resilient_parsing:
            absent = [self._wanted(param) for param in required if ctx.params.get(param.name) in (None, (), [])]
            missing = [*absent, *(one for needs in getattr(self.callback, "needs", ()) for one in needs(ctx, absent))]
            if missing:
                raise Misuse(f"missing: {'; '.join(missing)}. Example: {self.example}")
        return rest

    def _wanted(self, param: Any) -> str:
        """A required option with the kind of its value, or an argument."""
        if param.param_type_name == "argument":
            return argument_name(param)
        types = inspect.signature(self.callback).parameters if self.callback else {}
        return f"{max(param.opts, key=len)} {kind(types[param.name].annotation) if param.name in types else ''}".strip()

    def _parsed(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except Exception as error:  # typer does not export the class of this error
            param = getattr(error, "param", None)
            if getattr(param, "param_type_name", "") == "argument":
                vars(error).update(param_hint=f"'{argument_name(param)}'")
            name = getattr(error, "option_name", "").lstrip("-").replace("-", "_")
            if name and any("--set" in param.opts for param in self.params) and _is_parameter(name):
                vars(error).update(
                    message=f"{error}. It is a parameter of models: --set {name}=...", possibilities=None
                )
            elif hasattr(error, "message"):
                for said, plain in PLAIN.items():
                    vars(error).update(message=re.sub(said, plain, str(error.message)))
                wanted = getattr(param, "nargs", 1)
                if wanted > 1 and "number" in str(error.message):
                    vars(error).update(message=f"it takes {wanted} numbers, separated by a space")
            raise

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The arguments in capitals."""
        given = (param for param in self.get_params(ctx) if param.param_type_name == "argument")
        names = ((argument_name(param), param.required) for param in given)
        return ["[OPTIONS]", *(name if required else f"[{name}]" for name, required in names)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments, then options under the headings of their groups. No name is cut, however narrow the terminal."""
        types = inspect.signature(self.callback).parameters if self.callback else {}
        found: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                heading, name = getattr(param, "rich_help_panel", None) or "Options", argument_name(param)
                if param.param_type_name == "argument":
                    heading = "Arguments"
                else:
                    value = kind(types[param.name].annotation) if param.name in types else ""
                    short = sorted(param.opts, key=len)
                    name = "/".join(filter(None, (", ".join(short), ", ".join(param.secondary_opts))))
                    name += f" {value}" if value else ""
                found.setdefault(heading, []).append((name, record[1]))
        for heading, rows in found.items():
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """The example, unchanged."""
        formatter.write(f"\nExample: {self.example}\n")


class Commands(TyperGroup):
    """A group of commands. Its help shows the whole first sentence of each."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """List them."""
        found = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        rows = [(name, " ".join((one.help or "").split("\n\n")[0].split())) for name, one in found if one is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def stopped(said: str = "") -> typer.Exit:
    """Say that Ctrl-C has stopped the command."""
    typer.echo(f"discreet: stopped{said and '; '}{said}", err=True)
    return typer.Exit(130)


class Said(logging.Handler):
    """Shows warnings that the library logs as lines on standard error."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Leave out those of the server, which has a log of its own."""
        return record.name != "discreet.serve"

    def emit(self, record: logging.LogRecord) -> None:
        """Show a record."""
        typer.echo(f"discreet: {in_options(record.getMessage(), running.get())}", err=True)


class Group(Commands):
    """All commands. An error becomes one line on standard error and an exit code, or with --debug a traceback."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Remember what was typed, for messages that say what to type next."""
        ctx.meta[TYPED] = list(args)
        return super().parse_args(ctx, args)

    def make_context(self, *given: Any, **named: Any) -> Any:
        """Parse what was typed; Ctrl-C says the same here as while a command runs."""
        try:
            return super().make_context(*given, **named)
        except KeyboardInterrupt:
            raise stopped() from None

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        log, said = logging.getLogger("discreet"), Said(logging.WARNING)
        log.addHandler(said)
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # `discreet ... | head` closes the pipe early; click exits quietly
            raise
        except KeyboardInterrupt:
            raise stopped() from None
        except Exception as error:
            if isinstance(error, OSError) and error.filename is not None:
                error = DataError(f"{str(error.filename)!r}: {error.strerror}")
            if ctx.params.get("debug") or type(error).__module__.partition(".")[0] in ("typer", "click"):
                raise
            if isinstance(error, DiscreetError | OSError):
                line = in_options(str(error), running.get())
            else:
                line = f"unexpected error ({type(error).__name__}: {error}); `discreet --debug ...` shows where"
            typer.echo(f"discreet: {line}", err=True)
            raise typer.Exit(2 if isinstance(error, Misuse) else 1) from None
        finally:
            log.removeHandler(said)


def in_options(message: str, command: Command | None) -> str:
    """A message of the library with names as on the command line: --on-invalid drop, not on_invalid='drop'."""
    for param in sorted(command.params if command else (), key=lambda param: -len(param.name or "")):
        name = param.name
        option = argument_name(param) if param.param_type_name == "argument" else max(param.opts, key=len)
        own = rf"(?<!--set )(?<![\w.-]){name}"
        for given in re.findall(rf"{own}=\(([^()]*)\)", message):
            numbers = re.sub(r"\.0\b", "", given.replace(",", ""))
            message = message.replace(f"{name}=({given})", f"{option} {numbers}")
        for given in re.findall(rf"{own}='([^']*)'", message):
            message = message.replace(f"{name}='{given}'", f"{option} {shlex.quote(given)}")
        message = re.sub(rf"{own}=True\b", option, message)
        message = re.sub(rf"{own}=(?=[\w.-])", f"{option} ", message)
        message = re.sub(rf"{own}=", option, message)
        message = re.sub(rf"^{name}(?=:| must)", option, message)
        if name and "_" in name:
            message = re.sub(rf"{own}\b", option, message)
    sets = any("--set" in param.opts for param in (command.params if command else ()))
    if sets and message.startswith("features:"):  # not for train, which has an option of that name
        message = f"--set {message}"
    message = re.sub(r"\bpass (?=--)", "give ", message).replace(" None", " none")
    message = re.sub("^ratings: ", "SOURCE: ", message)
    return re.sub(r"^\S+: (?=(line|row) \d)", "", message)  # the row is more helpful than the column


def command(app: typer.Typer, name: str | None = None) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function as a command, with --config and --json.

    If the type of a parameter is a dataclass, each of its fields is an option.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        groups: dict[str, Any] = {}
        options: list[tuple[str, Any, Any]] = []
        for given, group in get_type_hints(function, include_extras=True).items():
            if is_dataclass(group):
                groups[given] = group
                inner = get_type_hints(group, include_extras=True)
                for field in fields(group):
                    for option in inner[field.name].__metadata__:
                        option.rich_help_panel = cast("Any", group).HEADING
                    options.append((field.name, field.default, inner[field.name]))
            elif given != "return":
                options.append((given, inspect.signature(function).parameters[given].default, group))
        options += [("config_file", None, Config), ("as_json", False, Json)]

        def called(**values: Any) -> None:
            del values["config_file"]
            json_wanted.set(values.pop("as_json"))
            for given, group in groups.items():
                values[given] = group(**{field.name: values.pop(field.name) for field in fields(group)})
            function(**values)

        called.__name__, called.__doc__ = function.__name__, function.__doc__
        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters = [inspect.Parameter(key, keyword, default=value, annotation=hint) for key, value, hint in options]
        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        called.__annotations__ = {}
        called.needs = [group.needs for group in groups.values() if hasattr(group, "needs")]  # type: ignore[attr-defined]
        app.command(name, cls=Command)(called)
        return function

    return register


def completing(module: str, names: str) -> Callable[[str], list[str]]:
    """Shell completion from the names in a module, which is imported only when the shell asks."""

    def complete(incomplete: str) -> list[str]:
        found = (name.lower() for name in getattr(import_module(module), names))
        return [name for name in found if name.startswith(incomplete.lower())]

    return complete


def by_commas(text: str | None) -> list[str] | None:
    """The parts between commas."""
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def typed(ctx: typer.Context, *more: str, less: Sequence[str] = ()) -> str:
    """The command that was typed, with other flags, ready to paste. Passwords are left out."""
    words = ["discreet", *(word for word in ctx.meta.get(TYPED, ()) if word not in (*more, *less)), *more]
    return shlex.join(re.sub(r"(://[^:/@]*):[^/@]*@", r"\1:PASSWORD@", word) for word in words)


# -- --config: a TOML file whose keys are the names of options


def _toml(path: Path) -> dict[str, Any]:
    module = next((name for name in ("tomllib", "tomli") if find_spec(name)), None)
    if module is None:
        raise Misuse("--config: Python 3.10 cannot read TOML by itself; pip install tomli, or give options as flags")
    toml = import_module(module)
    try:
        with path.open("rb") as file:
            content: dict[str, Any] = toml.load(file)
    except OSError as error:
        raise Misuse(f"--config: {str(path)!r} cannot be read ({error.strerror})") from None
    except (toml.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Misuse(f"--config: {str(path)!r} is not TOML: {error}") from None
    return content


def _value(param: Any, value: Any) -> Any:
    """A TOML value as the command line would pass it."""
    if param.nargs == -1 or getattr(param, "multiple", False):
        if isinstance(value, dict):  # [set] rank = 8
            return [f"{name}={part if isinstance(part, str) else json.dumps(part)}" for name, part in value.items()]
        return [str(part) for part in (value if isinstance(value, list) else [value])]
    if isinstance(value, list) and param.nargs == 1:
        return ",".join(map(str, value))
    return value if isinstance(value, bool | int | float | str | list) else str(value)


def _defaults(ctx: typer.Context, path: Path | None) -> Path | None:
    """Make the values in the file the defaults of the options. Runs before any other option is parsed."""
    if path is None:
        return None
    known = {
        max(param.opts, key=len).lstrip("-"): param for param in ctx.command.params if "--config" not in param.opts
    }
    found = {key.replace("_", "-"): value for key, value in _toml(path).items()}
    for key in found:
        if key not in known:
            raise Misuse(
                f"--config: {str(path)!r} has {key!r}, which is not an option; the options are {', '.join(known)}"
            )
    ctx.default_map = {str(known[key].name): _value(known[key], value) for key, value in found.items()}
    return path


Config = Annotated[
    Path | None,
    Option("--config", help="A TOML file of options by name. Flags override it.", is_eager=True, callback=_defaults),
]
Json = Annotated[bool, Option("--json", help="Print JSON.")]


def merged(ctx: typer.Context, name: str, given: Sequence[str] | None) -> list[str]:
    """The values of a repeatable option: first from the file, then from flags, which override them."""
    return list(dict.fromkeys([*(ctx.default_map or {}).get(name, ()), *(given or ())]))
