"""Validation of public numbers, with errors that name the argument, and rounding of numbers that are shown."""

import math
import operator
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import cache, partial
from inspect import signature
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

from discreet.errors import DataError, DiscreetError, PrivacyError


def positive(name: str, value: Any, *, zero: bool = False, error: type[PrivacyError] = PrivacyError) -> float:
    """A finite positive number, or an error that names the argument."""
    if type(value).__name__ in ("bool", "bool_") or not hasattr(value, "__float__"):
        raise error(f"{name} must be a number, not {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or number < 0 or (number == 0 and not zero):
        raise error(f"{name} must be a finite number {'>= 0' if zero else '> 0'}, not {number:g}")
    return number


def probability(name: str, value: Any, *, zero: bool = False) -> float:
    """A number in (0, 1), or a PrivacyError that names the argument."""
    number = positive(name, value, zero=zero)
    if number >= 1:
        raise PrivacyError(f"{name} must be below 1, not {number:g}")
    return number


def whole(
    name: str, value: Any, least: int, most: int | None = None, *, error: type[DiscreetError] = PrivacyError
) -> int:
    """A whole number (NumPy's too) from `least` to `most`, or an error that names the argument."""
    try:
        number = operator.index(value)
        if type(value).__name__ not in ("bool", "bool_") and least <= number <= (number if most is None else most):
            return number
    except TypeError:
        pass
    raise error(
        f"{name} must be a whole number {f'>= {least}' if most is None else f'from {least} to {most}'}, not {value!r}"
    )


# Types of parameters, which say what values are allowed: see `check_fields`.
Positive: TypeAlias = Annotated[float, positive]
NotNegative: TypeAlias = Annotated[float, partial(positive, zero=True)]
Probability: TypeAlias = Annotated[float, probability]
Count: TypeAlias = Annotated[int, partial(whole, least=1)]
Seed: TypeAlias = Annotated[int, partial(whole, least=0)]


def check_fields(owner: Any) -> None:
    """Raise unless an object's parameters have the values that their types allow.

    Types are `Positive`, `Count`, and so on, or a `Literal`, and None if that is allowed.
    """
    for name, (kinds, checks) in _declared(owner.__class__).items():
        value = getattr(owner, name)
        if value is None and type(None) in kinds:
            continue
        for check in checks:
            check(name, value)
        known = [one for kind in kinds if get_origin(kind) is Literal for one in get_args(kind)]
        known += [True, False] if bool in kinds else []
        if known and value not in known:
            words = ", ".join(map(repr, [*known, *([None] if type(None) in kinds else [])]))
            raise DataError(f"{name}: one of {words} is needed, not {value!r}")


@cache
def _declared(cls: type) -> dict[str, tuple[tuple[Any, ...], list[Callable[[str, Any], Any]]]]:
    """The types that each parameter may have, and their checks."""
    hints, found = get_type_hints(cls, include_extras=True), {}
    for name in signature(cls).parameters.keys() & hints.keys():
        hint = hints[name]
        kinds = get_args(hint) if type(None) in get_args(hint) else (hint,)
        found[name] = kinds, [check for kind in kinds for check in getattr(kind, "__metadata__", ())]
    return found


def decimal(value: float) -> Fraction:
    """The decimal number that a float prints as: 0.1 becomes exactly 1/10, so that ten of them sum to 1."""
    return Fraction(repr(float(value)))


def round_up(value: float, digits: int = 4, rounding: str = ROUND_CEILING) -> str:
    """A number as text, rounded up to this many significant digits."""
    if not math.isfinite(value):
        return "infinity"
    rounded = Context(prec=digits, rounding=rounding).create_decimal(Decimal(repr(float(value))))
    return f"{float(rounded):.{digits}g}"


def round_down(value: float, digits: int = 4) -> str:
    """A number as text, rounded down to this many significant digits."""
    return round_up(value, digits, ROUND_FLOOR)
