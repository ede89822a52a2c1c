"""A TOML file in the place of flags: `--config train.toml`. Its keys are the names of the options; flags win."""

import json
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from discreet.cli.common import Misuse


def _read(path: Path) -> dict[str, Any]:
    module = next((name for name in ("tomllib", "tomli") if find_spec(name)), None)
    if module is None:
        raise Misuse(
            "--config: Python 3.10 cannot read TOML by itself; pip install tomli, or give the options as flags"
        )
    toml = import_module(module)
    try:
        with path.open("rb") as file:
            content: dict[str, Any] = toml.load(file)
    except (toml.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Misuse(f"--config: {str(path)!r} is not TOML: {error}") from None
    return content


def _value(param: Any, value: Any) -> Any:
    """A TOML value as the command line would have given it."""
    if param.nargs == -1 or getattr(param, "multiple", False):
        if isinstance(value, dict):  # [set] rank = 8
            return [f"{name}={part if isinstance(part, str) else json.dumps(part)}" for name, part in value.items()]
        return [str(part) for part in (value if isinstance(value, list) else [value])]
    if isinstance(value, list) and param.nargs == 1:
        return ",".join(map(str, value))
    return value if isinstance(value, bool | int | float | str | list) else str(value)


def _defaults(ctx: typer.Context, path: Path | None) -> Path | None:
    """Make the values in the file the defaults of the options. Runs before any option is looked at."""
    if path is None:
        return None
    known = {
        max(param.opts, key=len).lstrip("-"): param for param in ctx.command.params if "--config" not in param.opts
    }
    found = {key.replace("_", "-"): value for key, value in _read(path).items()}
    for key in found:
        if key not in known:
            raise Misuse(f"--config: {str(path)!r} has {key!r}, which is no option; there are {', '.join(known)}")
    ctx.default_map = {str(known[key].name): _value(known[key], value) for key, value in found.items()}
    return path


Config = Annotated[
    Path | None,
    typer.Option(
        "--config", help="A TOML file whose keys are these options; flags win.", is_eager=True, callback=_defaults
    ),
]


def merged(ctx: typer.Context, name: str, given: Sequence[str] | None) -> list[str]:
    """What the file has of an option that may be repeated, and then the flags, which so come last."""
    return [*(ctx.default_map or {}).get(name, ()), *(given or ())]
