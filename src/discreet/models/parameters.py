"""Checks of parameters that several models share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from inspect import signature
from typing import Any

from discreet.errors import DataError
from discreet.validation import positive, whole


def check_parameters(
    model: Any,
    *,
    positives: Iterable[str] = (),
    wholes: Iterable[str] = (),
    choices: Mapping[str, tuple[Any, ...]] | None = None,
) -> None:
    """Raise unless parameters are what they must be. None is allowed where it is the default.

    Args:
        model: The estimator, whose constructor says what the defaults are.
        positives: Names of positive numbers.
        wholes: Names of whole numbers of at least 1.
        choices: What each of some parameters may be.
    """
    optional = {name for name, one in signature(type(model)).parameters.items() if one.default is None}
    for name in positives:
        if getattr(model, name) is not None or name not in optional:
            positive(name, getattr(model, name))
    for name in wholes:
        if getattr(model, name) is not None or name not in optional:
            whole(name, getattr(model, name), 1)
    for name, known in (choices or {}).items():
        if getattr(model, name) not in known:
            words = ", ".join(map(repr, known))
            raise DataError(f"{name}: one of {words} is needed, not {getattr(model, name)!r}")
