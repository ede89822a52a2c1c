"""Models in folders: model.json, factors.safetensors, items.parquet. Nothing in them is ever executed or unpickled.

model.json says what the model is: its class (one of `discreet.models.MODELS`, never a name to import), parameters
and learned values, the SHA-256 and size of the other two files, the certificate, and a digest of all that. The arrays
are in factors.safetensors, the catalogue in items.parquet. Nothing else of a model is written: an attribute that its
class does not list, such as anything about a user, cannot be.

What is saved is decoded again and compared before the folder is touched: what `save` has written, `load` reads. How the
folder changes from one model to the next, whatever happens meanwhile, is in `discreet.models.model_folder`.
"""

from __future__ import annotations

import inspect
import json
import os
from pathlib import Path
from reprlib import repr as brief
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from discreet.errors import DiscreetError, ModelError, NotFitted, PrivacyError
from discreet.models import model_folder, registry
from discreet.models.codecs import arrays_from_bytes, arrays_to_bytes, items_from_bytes, items_to_bytes, refuse
from discreet.models.model_folder import FORMAT, HEAD, PARTS, UNFINISHED, digest
from discreet.privacy.statement import Statement, distinct
from discreet.privacy.store import canonical

if TYPE_CHECKING:
    from discreet.models.base import Model

VERSION = 2
FACTORS, ITEMS = PARTS
TEXTS, OBJECTS = ("format", "class", "digest"), ("params", "values", "files", "certificate")
FIELDS = {"version": int} | dict.fromkeys(TEXTS, str) | dict.fromkeys(OBJECTS, dict)  # and origin, which may be null
ENTRY = {"sha256": str, "size": int}  # of a file
MAX_DEPTH = 64  # of model.json
_TUPLE = "tuple"  # JSON has no tuples: {"tuple": [1, 5]} is one


def save(model: Model, folder: str | os.PathLike[str]) -> None:
    """Write a fitted model to a folder, in the place of the model that it may hold.

    Whatever happens, the folder holds the old model or the new one. A folder with anything but a model is refused. The
    checkpoint that the model was fitted with, if there was one, is then removed.

    Args:
        model: A fitted model of this library.
        folder: Where to write; made if there is none.
    """
    from discreet.models import unfinished

    home = Path(folder)
    head, parts = _encoded(model)
    try:
        again = _decoded(home, head, parts)
        if again.catalogue_ == model.catalogue_:  # else it has NaN, or is not the same
            again.catalogue_ = model.catalogue_  # for equal columns may still differ in the names inside nested types
        unchanged = _encoded(again) == (head, parts)
    except DiscreetError as error:
        raise ModelError(f"model: it cannot be saved, because it could not be loaded again: {error}") from error
    if not unchanged:
        raise ModelError("model: it cannot be saved, because it would not come back the same")
    model_folder.replace(home, head, parts)
    if (checkpoint := getattr(model, "_checkpoint", None)) is not None:
        unfinished.remove(checkpoint.folder, checkpoint.reservation)


def load(
    folder: str | os.PathLike[str], *, expect_class: type[Model] | None = None, certificate: Statement | None = None
) -> Model:
    """Read a model that `save` wrote, on whichever machine; refuse it if anything is missing, changed or odd.

    Args:
        folder: Where it is.
        expect_class: Refuse a model that is not of this class.
        certificate: Refuse a model that is not the one this statement certifies. Verify its signature first.

    Returns:
        The model, with the guarantee computed again from the releases in its certificate.

    Raises:
        ModelError: The folder does not hold a whole and unchanged model; the message names the file and the reason.
        PrivacyError: Its certificate was changed, is that of another model, or claims what its releases do not give.
    """
    home = Path(folder)
    if not os.path.isdir(home):
        raise ModelError(f"{str(home)!r}: there is no such folder")
    if not os.path.lexists(home / HEAD) and os.path.isdir(home / UNFINISHED):
        raise ModelError(
            f"{str(home)!r}: it holds no model, only a fit that was not finished. What was paid for is kept: finish it "
            f"with the same `discreet train` and --resume, or the same fit and checkpoint={str(home / UNFINISHED)!r}"
        )
    for head, again in model_folder.tries(home):
        document = _parsed(home / HEAD, head)
        try:
            parts = {name: model_folder.read_part(home, name, **about) for name, about in document["files"].items()}
            break
        except ModelError:
            if not again:
                raise
    model = _decoded(home, head, parts, expect_class)
    if certificate is not None and certificate.digest != model.statement().digest:
        raise PrivacyError(f"{str(home)!r}: it is not the model that was certified; its certificate is another one")
    return model


# -- from a model to bytes


def _encoded(model: Model) -> tuple[bytes, dict[str, bytes]]:
    """The content of model.json and of the other files."""
    cls, about = type(model), described(model)
    if any(not hasattr(model, name) for name in ("catalogue_", *cls._ARRAYS, *cls._VALUES)):
        raise NotFitted(f"model: this {cls.__name__} is not fitted yet; call fit before save")
    arrays = {name: getattr(model, name) for name in cls._ARRAYS}
    parts = {FACTORS: arrays_to_bytes(arrays), ITEMS: items_to_bytes(model.catalogue_)}
    document = {
        "format": FORMAT,
        "version": VERSION,
        **about,
        "values": {name: plain(name, getattr(model, name)) for name in cls._VALUES},
        "origin": model.catalogue_.origin,
        "files": {name: {"sha256": digest(content), "size": len(content)} for name, content in parts.items()},
        "certificate": model.statement().certificate,
    }
    return _text({**document, "digest": _digest(document)}), parts


def described(model: Model) -> dict[str, Any]:
    """A model's class and parameters, as JSON has them."""
    cls = type(model)
    if _registered(cls.__name__) is not cls:
        raise ModelError(f"model: {cls.__name__} is not one of the models of this library, and only those can be saved")
    params = {
        name: plain(name, value)
        for name, value in model.get_params(deep=False).items()
        if name != "device"  # where it was trained says nothing of where it will be used
    }
    return {"class": cls.__name__, "params": params}


def unfitted(about: dict[str, Any]) -> Model:
    """A model of the class and with the parameters that `described` gave, not fitted."""
    cls = _registered(about["class"])
    if cls is None:
        raise ModelError(f"model: {brief(about['class'])} is not one of the models of this discreet")
    return cls(**rich(about["params"]))


def _digest(document: dict[str, Any]) -> str:
    return digest(canonical({key: value for key, value in document.items() if key != "digest"}).encode())


def _text(document: dict[str, Any]) -> bytes:
    return (json.dumps(document, indent=2, allow_nan=False) + "\n").encode("ascii")


def plain(name: str, value: Any) -> Any:
    """A parameter or learned value as JSON has it, so that `_restored` gives back the same."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        raise ModelError(f"{name}: {value} cannot be saved; only finite numbers can")
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple):
        return {_TUPLE: [plain(name, part) for part in value]}
    if isinstance(value, list):
        return [plain(name, part) for part in value]
    if isinstance(value, dict) and all(type(key) is str and key != _TUPLE for key in value):
        return {key: plain(name, part) for key, part in value.items()}
    raise ModelError(f"{name}: a {type(value).__name__} cannot be saved; only numbers, text and lists of them can")


def rich(value: Any) -> Any:
    """The inverse of `plain`."""
    if isinstance(value, dict):
        parts = {key: rich(part) for key, part in value.items()}
        return tuple(parts[_TUPLE]) if list(parts) == [_TUPLE] and isinstance(parts[_TUPLE], list) else parts
    return [rich(part) for part in value] if isinstance(value, list) else value


# -- from bytes to a model


def _parsed(path: Path, head: bytes) -> dict[str, Any]:
    """What model.json says, if it has the form that this version reads."""
    try:
        document = json.loads(head.decode("utf-8"), object_pairs_hook=distinct, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        refuse(path, f"it is not proper JSON, so it was cut off or changed ({error})")
    if _too_deep(document) or not isinstance(document, dict) or document.get("format") != FORMAT:
        refuse(path, "it does not describe a model of discreet")
    version = document.get("version")
    if type(version) is not int or version != VERSION:
        refuse(
            path,
            f"its format version is {brief(version)}, and this discreet reads version {VERSION}; save it again with "
            "this version, or load it with the one that saved it",
        )
    if {key: type(value) for key, value in document.items() if key != "origin"} != FIELDS:
        refuse(path, "it does not have the fields of a model, so it was changed")
    files = document["files"]
    if set(files) != set(PARTS) or not all(_is_entry(about) for about in files.values()):
        refuse(path, f"its list of files is not that of a model, {' and '.join(PARTS)} with sizes and digests")
    if not isinstance(document.get("origin", 0), str | None):
        refuse(path, "its origin is neither a text nor null")
    return document


def _no_number(token: str) -> NoReturn:
    raise ValueError(f"{token} is not a number")


def _too_deep(document: Any) -> bool:
    """Whether it nests deeper than the recursion of any reader can be relied on to follow."""
    level = [document]
    for _ in range(MAX_DEPTH):
        parents = [part.values() if isinstance(part, dict) else part for part in level if isinstance(part, dict | list)]
        level = [part for parent in parents for part in parent]
    return bool(level)


def _is_entry(about: Any) -> bool:
    return isinstance(about, dict) and {key: type(value) for key, value in about.items()} == ENTRY


def _decoded(home: Path, head: bytes, parts: dict[str, bytes], expect: type[Model] | None = None) -> Model:
    """The model, once all that can be checked has been."""
    from discreet.models.base import NotPrivateModel

    path = home / HEAD
    document = _parsed(path, head)
    statement = _statement(path, document["certificate"])  # before the digest, since its reasons are the better ones
    _require_unchanged(path, document, head)
    cls = _registered(document["class"])
    if cls is None:
        refuse(path, f"its class {brief(document['class'])} is not one of the models of this discreet")
    if expect is not None and not issubclass(cls, expect):
        refuse(path, f"it is a model of the class {cls.__name__}, not {expect.__name__}")
    if set(document["values"]) != set(cls._VALUES):
        refuse(path, f"its values are not the {', '.join(cls._VALUES)} of {cls.__name__}")
    unknown = set(document["params"]) - set(inspect.signature(cls).parameters)
    if unknown:
        refuse(path, f"{cls.__name__} has no parameter {brief(min(unknown))}")
    arrays = arrays_from_bytes(home / FACTORS, parts[FACTORS], cls._ARRAYS)
    catalogue = items_from_bytes(home / ITEMS, parts[ITEMS], document["origin"])
    if statement.guarantee.holds and issubclass(
        cls, NotPrivateModel
    ):  # a certificate can be whole and of another model
        raise PrivacyError(f"{str(path)!r}: its certificate promises privacy, which a {cls.__name__} never has")
    try:
        return cls._restored(rich(document["params"]), arrays, rich(document["values"]), catalogue, statement)
    except Exception as error:  # whatever a model says to values that nobody has checked before
        kind = PrivacyError if isinstance(error, PrivacyError) else ModelError
        raise kind(f"{str(home)!r}: its files do not make a {cls.__name__} ({error})") from error


def _require_unchanged(path: Path, document: dict[str, Any], head: bytes) -> None:
    try:
        unchanged = document["digest"] == _digest(document) and _text(document) == head
    except ValueError:  # a number that is too large to be one
        unchanged = False
    if not unchanged:
        refuse(path, "its digest does not match, so it was changed after it was saved")


def _registered(name: str) -> type[Model] | None:
    """The class of this name among the models of the library. Nothing else is ever imported."""
    return registry.find(name) if name in registry.MODELS else None


def _statement(path: Path, certificate: dict[str, Any]) -> Statement:
    """The certificate, if it agrees with itself and its epsilon is what its releases give."""
    try:
        return Statement.parse(json.dumps(certificate, allow_nan=False))
    except Exception as error:  # numbers that nobody has checked before go through two accountants
        raise PrivacyError(f"{str(path)!r}: {error}") from error
