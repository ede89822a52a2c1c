"""Accuracy against privacy, as the page draws it."""

from __future__ import annotations

import json
import math
from typing import Any

from discreet.errors import DataError, PrivacyError
from discreet.privacy.statement import Statement

EXACT = "These are exact numbers, published on the owner's word that they may be public: no guarantee covers them."
FORM = '{"metric": "rmse", "points": [{"epsilon": 1, "value": 0.92}], "references": {"not private": 0.86}}'


def checked(tradeoff: Any, *, may_be_public: bool) -> dict[str, Any] | None:
    """A curve in its one form, points by epsilon, with the word that it may be public; None stays None.

    Args:
        tradeoff: The curve; with a "certificate" if its numbers are private evaluations.
        may_be_public: The owner's word that exact numbers may be published.
    """
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
    certificate = tradeoff.get("certificate")
    if certificate is not None:
        covered = _covered(certificate, metric, len(points) + len(references))
    elif may_be_public is True:
        covered = EXACT
    else:
        raise PrivacyError(
            "tradeoff: metrics on private data are about people, and no guarantee covers them on a public page. "
            'Release them with discreet.evaluate(private=True), and give the ledger\'s statement as "certificate". Or, '
            "if the data are public or made up, say so: exact_metrics_may_be_public=True, or "
            "--exact-metrics-may-be-public"
        )
    return {"metric": metric, "points": ordered, "references": references, "covered": covered}


def _covered(certificate: Any, metric: str, count: int) -> str:
    """What a certificate promises of a curve; raises unless it lists so many private evaluations by this metric."""
    statement = Statement.parse(certificate if isinstance(certificate, str) else json.dumps(certificate))
    labels = [release["label"].partition("evaluation: ") for release in statement.certificate["releases"]]
    measured = [names for before, found, names in labels if found and not before and metric in names.split(", ")]
    if not statement.guarantee.holds or len(measured) < count:
        raise PrivacyError(
            f"tradeoff: its certificate must hold, and list a private evaluation by {metric} for each of the curve's "
            f"{count} numbers; it lists {len(measured)}, and says: {statement.guarantee}"
        )
    return f"These numbers have noise of their own. {statement.guarantee}"


def _number(value: Any) -> float:
    number = float(value)
    if isinstance(value, bool) or not math.isfinite(number):
        raise ValueError
    return number
