"""Write the page of all commands and options from their help: `python scripts/reference.py docs/guide/reference.md`."""

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from discreet.cli.commands import app
from discreet.cli.common import argument_name, kind

HEAD = """# The command, option by option

<!-- Written by `python scripts/reference.py docs/guide/reference.md`; do not edit. -->

`discreet COMMAND --help` shows the same in a terminal. [The command](command.md) shows how to use them together.
Every command takes `--json` and `--config FILE`. `discreet --debug COMMAND` shows the traceback of an error, and
`discreet --install-completion` lets the shell complete names ([how](command.md#completion)). Progress is shown on a
terminal only. You can paste the examples, beginning in an empty folder: `discreet datasets sample` makes up
ratings.parquet and movies.csv, `discreet train` makes the model, and `discreet ledger create` makes the ledger.

| exit code | meaning |
|---|---|
| 0 | it worked |
| 1 | it failed, for the reason on standard error; for `discreet audit`: more was found than the guarantee allows |
| 2 | an option is wrong, or the options do not go together |
"""
SHARED = ("--json", "--config", "--help")


def reference() -> str:
    """The manual, as markdown."""
    sections = [_section(name, command) for name, command in _commands("discreet", get_command(app))]
    return "\n".join([HEAD, *sections])


def _commands(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Every command that does something, with its whole name."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield name, command
    else:
        for part, found in inner.items():
            yield from _commands(f"{name} {part}", found)


def _section(name: str, command: Any) -> str:
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    options = [param for param in command.params if param.param_type_name == "option" and not _shared(param)]
    places = "".join(
        f" {argument_name(param)}" if param.required else f" [{argument_name(param)}]" for param in arguments
    )
    kinds = {name: kind(given.annotation) for name, given in inspect.signature(command.callback).parameters.items()}
    required = "".join(f" {_flags(param)[0]} {kinds[param.name]}" for param in options if param.required)
    lines = [f"## {name}", "", " ".join(command.help.split()), "", "```console", f"$ {command.example}", "```", ""]
    lines += [f"`{name}{places}{required}{' [OPTIONS]' * bool(options)}`", ""]
    lines += [f"- `{argument_name(param)}`: {_said(param)}" for param in arguments]
    lines += [f"- `{', '.join(_flags(param))}`{_values(param, kinds[param.name])}: {_said(param)}" for param in options]
    return "\n".join(lines).rstrip() + "\n"


def _shared(param: Any) -> bool:
    return any(flag in SHARED for flag in param.opts)


def _flags(param: Any) -> list[str]:
    return sorted(param.opts, key=len, reverse=True)


def _values(param: Any, kind: str) -> str:
    default = param.default
    shown = "" if callable(default) or default in (None, False, ()) else f", by default `{default}`"
    return (f" `{kind}`" if kind else "") + shown


def _said(param: Any) -> str:
    return " ".join((param.help or "").split())


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(reference(), encoding="utf-8")
