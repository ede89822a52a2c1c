"""What a search chooses from: a finite list of settings, all of which cost the same."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from discreet.errors import DataError, PrivacyError

MOST = 1000  # settings
PAID = ("epsilon", "delta", "adjacency", "unit")  # what a trial costs, and what that cost means

Setting = dict[str, Any]


def settings_of(model: Any, space: Any) -> list[Setting]:
    """All settings of a space, checked against the parameters that a model has.

    Args:
        model: The model, an instance.
        space: Parameter -> values, of which all combinations count; or a list of settings.
    """
    if isinstance(space, Mapping):
        found = [dict(zip(space, values, strict=True)) for values in itertools.product(*map(_values, space.items()))]
        found = found if space else []
    elif isinstance(space, Iterable) and not isinstance(space, str):
        found = [dict(setting) if isinstance(setting, Mapping) else _refuse(setting) for setting in space]
    else:
        _refuse(space)
    if not found:
        raise DataError("space: there is nothing to choose from; give for instance {'n_steps': [2, 4, 8]}")
    if len(found) > MOST:
        raise DataError(
            f"space: {len(found):,} settings are too many (the most is {MOST:,}); a search tries few of them"
        )
    known = model.get_params(deep=False)
    for name in dict.fromkeys(name for setting in found for name in setting):
        if name in PAID:
            raise PrivacyError(f"space: {name} decides what a trial costs, or what that means; leave it out")
        if name not in known:
            free = ", ".join(parameter for parameter in known if parameter not in PAID)
            raise DataError(f"space: {type(model).__name__} has no parameter {name!r}; it has {free}")
    return found


def _values(pair: tuple[str, Any]) -> Sequence[Any]:
    name, values = pair
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise DataError(f"space: a list of values was expected for {name!r}, not {values!r}")
    return list(values)


def _refuse(given: Any) -> Any:
    raise DataError(
        f"space: a mapping from parameters to lists of values was expected, or a list of settings, not {given!r}"
    )
