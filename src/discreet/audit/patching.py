"""Changes to running code that are undone again: how an audit watches a fit, and how a mutant is made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_ABSENT = object()


@contextmanager
def patched(owner: Any, **changes: Any) -> Iterator[None]:
    """Replace attributes of a class or module for as long as the block runs."""
    before = {name: vars(owner).get(name, _ABSENT) for name in changes}
    try:
        for name, value in changes.items():
            setattr(owner, name, value)
        yield
    finally:
        for name, value in before.items():
            if value is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
