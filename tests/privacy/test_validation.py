"""Parameters are what their types say."""

from dataclasses import dataclass
from typing import Any, Literal

import pytest

from discreet.errors import DataError, PrivacyError
from discreet.validation import Count, Positive, check_fields


@dataclass
class Told:
    size: Count | None = None
    norm: Positive = 1.0
    kind: Literal["a", "b"] | None = "a"
    sure: bool = True
    note: str = ""


@pytest.mark.parametrize("given", [{}, {"size": 3, "kind": "b"}, {"size": None, "kind": None, "sure": False}])
def test_what_types_allow(given: dict[str, Any]) -> None:
    check_fields(Told(**given))


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"size": 0}, PrivacyError, "size must be a whole number >= 1"),
        ({"norm": float("nan")}, PrivacyError, "norm must be a finite number > 0"),
        ({"norm": None}, PrivacyError, "norm must be a number"),
        ({"kind": "c"}, DataError, "kind: one of 'a', 'b', None is needed, not 'c'"),
        ({"sure": "yes"}, DataError, "sure: one of True, False is needed"),
    ],
)
def test_what_they_do_not(given: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        check_fields(Told(**given))
