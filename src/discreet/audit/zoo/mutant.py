"""What a broken mechanism is: the library itself, with one thing about it made wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from discreet.audit.subjects import Subject

Patch = AbstractContextManager[Any]


@dataclass(frozen=True)
class Mutant:
    """A small change of the real code, by which a guarantee is lost.

    Attributes:
        name: A few words.
        error: What is wrong, and why it matters.
        source: Where it was published, or has happened.
        subject: The name of the shipped subject that it is tried on.
        patch: Makes the change, for as long as a `with` block runs.
        pairs: People to try, in place of the subject's own.
        params: Other parameters of the subject's model.
        world: Another world for them.
    """

    name: str
    error: str
    source: str
    subject: str
    patch: Callable[[], Patch]
    pairs: Sequence[tuple[Any, Any]] | None = None
    params: tuple[tuple[str, Any], ...] = ()
    world: Callable[[Any], Any] | None = None

    def on(self, subject: Subject) -> Subject:
        """The subject as this mutant is tried on it."""
        make = partial(subject.make, **dict(self.params)) if self.params else subject.make
        pairs, world = self.pairs or subject.pairs, self.world or subject.world
        # People who were designed for something else need not reach every bound, and are not caught for that.
        designed = subject.designed and not (self.pairs or self.params or self.world)
        return replace(subject, name=self.name, make=make, pairs=pairs, world=world, designed=designed)
