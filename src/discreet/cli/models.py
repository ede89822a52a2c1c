"""Models on the command line: by name, with their parameters as `name=value`, private or not."""

import inspect
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

from discreet.cli.common import Misuse, opened

if TYPE_CHECKING:
    from discreet.data import Interactions
    from discreet.models.base import Model
    from discreet.privacy import Ledger


def names(incomplete: str) -> list[str]:
    """Names of models, for the shell to complete."""
    from discreet.models import MODELS

    return [name for name in map(str.lower, MODELS) if name.startswith(incomplete.lower())]


Name = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        help="Which model: dpals, dpsvd, als, …; by default the private one for the kind of data.",
        autocompletion=names,
    ),
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", help="A parameter of the model, rank=64 for instance; may be repeated.")
]
Epsilon = Annotated[float | None, typer.Option("--epsilon", help="What a private model may spend.")]
Delta = Annotated[
    float | None,
    typer.Option("--delta", help="The delta of its guarantee: a constant well below 1 / the number of users."),
]
LedgerUrl = Annotated[
    str | None, typer.Option("--ledger", help="Whose budget a private model spends: a file, or sqlite:///… or …://…")
]
LedgerName = Annotated[str, typer.Option("--ledger-name", help="Which ledger of that database.")]

Device = Annotated[
    str, typer.Option("--device", help="Where a saved model folds people in and ranks: cpu, or cuda for a GPU.")
]

BEST = "Recommender"  # chooses by itself, so it is taken where none is named
PRIVATE = ("epsilon", "delta")
# The order in which the members of a union are tried: what a text can only be by chance comes last.
ORDER: tuple[Any, ...] = (NoneType, bool, Literal, int, float, list, tuple, str)
WORDS = {int: "a whole number", float: "a number", bool: "true or false", NoneType: "none", str: "a text"}


def saved(folder: Path, device: str) -> "Model":
    """A saved model, for use on a device."""
    from discreet.models.storage import load

    model = load(folder)
    if device != "cpu":
        if "device" not in model.get_params():
            raise Misuse(f"--device: a {type(model).__name__} is used on the processor alone; leave the option out")
        model.set_params(device=device)
    return model


def find(name: str | None) -> type["Model"]:
    """The class of a model, by its name in any spelling: als, ALS, mean-rating."""
    from discreet.models import registry

    asked = re.sub(r"[^a-z0-9]", "", (BEST if name is None else name).lower())
    if asked == BEST.lower():
        from discreet.models.recommender import Recommender

        return Recommender
    known = {name.lower(): name for name in registry.MODELS}
    if asked not in known:
        names = ", ".join(registry.MODELS)
        raise Misuse(f"--model: there is no {name!r}; there are {names}, and {BEST}, which chooses")
    return registry.find(known[asked])


def takes(model: type["Model"], name: str) -> bool:
    """Whether a model has a parameter."""
    return name in inspect.signature(model).parameters


def is_private(model: type["Model"]) -> bool:
    """Whether a model spends a budget."""
    return takes(model, "epsilon")


def make(model: type["Model"], settings: Sequence[str], epsilon: float | None, delta: float | None) -> "Model":
    """A model with these parameters, checked before any data is read."""
    values = {name: parameter(model, name, text) for name, text in map(_divided, settings)}
    for name, number in zip(PRIVATE, (epsilon, delta), strict=True):
        if number is not None:
            _require(model, name)
            values[name] = number
    missing = [
        name
        for name, param in inspect.signature(model).parameters.items()
        if param.default is param.empty and name not in values
    ]
    if missing:
        flags = (f"--{name}" if name in PRIVATE else f"--set {name}=…" for name in missing)
        raise Misuse(f"{model.__name__} has no default for {' and '.join(missing)}; give {' and '.join(flags)}")
    made = model(**values)
    made._check_parameters()
    return made


def _require(model: type["Model"], name: str) -> None:
    if takes(model, name):
        return
    if not is_private(model):
        raise Misuse(f"{model.__name__} is not private: it has no {name}; {_advice(f'--{name}')}")
    raise Misuse(f"{model.__name__} has no {name}; leave out --{name}")


def _advice(flag: str) -> str:
    from discreet.models import MODELS

    private = [name for name in MODELS if is_private(find(name))]
    return f"leave out {flag}" + (f", or train a private model: {', '.join(private)}" if private else "")


def ledger(model: type["Model"], url: str | None, name: str) -> "Ledger | None":
    """The ledger that a private model spends from; it must exist, so that a wrong path is not a new budget."""
    if url is None:
        return None
    if not is_private(model):
        raise Misuse(
            f"{model.__name__} is not private: it spends nothing, so it takes no ledger; {_advice('--ledger')}"
        )
    return opened(url, name)


def chosen(model: "Model", ratings: "Interactions") -> "Model":
    """The model itself, or the one that it chooses for these data."""
    from discreet.models.recommender import Recommender

    return model.choose(ratings) if isinstance(model, Recommender) else model


def preview(model: "Model", ratings: "Interactions", ledger: "Ledger | None") -> str:
    """What training would spend and on what, where the model can say (`plan(n_items)`); spends nothing."""
    plan = getattr(model, "plan", None)
    if not callable(plan) or getattr(model, "epsilon", None) is None:
        return ""
    from discreet.models.private import PrivateModel
    from discreet.privacy import Ledger

    made = plan(ratings.n_items)
    if ledger is None:
        budget = {name: value for name in PRIVATE if (value := getattr(model, name, None)) is not None}
        ledger = model._own_ledger() if isinstance(model, PrivateModel) else Ledger(**budget)
    return str(ledger.preview(made))


def described(model: "Model") -> str:
    """The parameters, for people."""
    values: Mapping[str, Any] = model.get_params(deep=False)
    return ", ".join(f"{name}={value}" for name, value in values.items())


# -- from text to a parameter


def _divided(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        raise Misuse(f"--set: name=value is needed, rank=64 for instance, not {text!r}")
    return name.strip(), value.strip()


def parameter(model: type["Model"], name: str, text: str) -> Any:
    """A parameter of a model, from text, in the type that its constructor asks for."""
    parameters = inspect.signature(model).parameters
    if name not in parameters:
        if name in PRIVATE:
            _require(model, name)
        raise Misuse(f"--set: {model.__name__} has no parameter {name!r}; it has {', '.join(parameters)}")
    default = parameters[name].default
    try:
        hint = get_type_hints(model.__init__).get(name, Any)
    except NameError:  # a type that is imported for type checkers only
        hint = Any if default in (None, inspect.Parameter.empty) else type(default)
    kinds = sorted(_members(hint), key=lambda kind: ORDER.index(get_origin(kind) or kind))
    for kind in kinds:
        with suppress(ValueError):
            return _converted(kind, text)
    if not kinds:  # nothing is known about it
        with suppress(ValueError):
            return json.loads(text)
        return text
    raise Misuse(f"--set: {name} needs {' or '.join(map(_said, kinds))}, not {text!r}")


def _members(hint: Any) -> list[Any]:
    """The types that a parameter may have, of those that can be written on a command line."""
    known = (get_origin(hint) or hint) in ORDER
    return [hint] if known else [kind for part in get_args(hint) for kind in _members(part)]


def _converted(kind: Any, text: str) -> Any:
    """The text as a value of one type; ValueError if it is none."""
    origin, parts = get_origin(kind) or kind, get_args(kind)
    if origin is Literal:
        return {str(choice): choice for choice in parts}[text] if text in map(str, parts) else _no(text)
    if origin in (list, tuple):
        inner = parts[0] if parts else str
        return origin(_converted(inner, part.strip()) for part in text.strip("[]()").split(",") if part.strip())
    if origin is bool:
        return {"true": True, "false": False}[text.lower()] if text.lower() in ("true", "false") else _no(text)
    if origin is NoneType:
        return None if text.lower() in ("none", "null") else _no(text)
    return origin(text)


def _no(text: str) -> Any:
    raise ValueError(text)


def _said(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(map(str, get_args(kind)))
    return WORDS.get(kind, "a list a,b,…")
