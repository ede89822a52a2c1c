"""Accuracy against privacy, as the page draws it."""

from __future__ import annotations

import math
from typing import Any

from discreet.errors import DataError

FORM = '{"metric": "rmse", "points": [{"epsilon": 1, "value": 0.92}], "references": {"not private": 0.86}}'


def checked(tradeoff: Any) -> dict[str, Any] | None:
    """A curve in its one form, points by epsilon; None stays None."""
    if tradeoff is None:
        return None
    try:
        points = [(_number(point["epsilon"]), _number(point["value"])) for point in tradeoff["points"]]
        references = {str(name): _number(value) for name, value in dict(tradeoff.get("references") or {}).items()}
        metric, fine = tradeoff["metric"], min(points)[0] > 0
    except (AttributeError, KeyError, TypeError, ValueError):
        fine = False
    if not fine or not isinstance(metric, str):
        raise DataError(f"tradeoff: a curve is needed that looks like {FORM}")
    ordered = [{"epsilon": epsilon, "value": value} for epsilon, value in sorted(points)]
    return {"metric": metric, "points": ordered, "references": references}


def _number(value: Any) -> float:
    number = float(value)
    if isinstance(value, bool) or not math.isfinite(number):
        raise ValueError
    return number
