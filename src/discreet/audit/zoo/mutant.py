"""What a broken mechanism is: the library itself, with one thing about it made wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from unittest.mock import patch

from discreet.audit.findings import Finding, failed
from discreet.audit.replaying import FIT
from discreet.audit.subjects import Subject

Patch = AbstractContextManager[Any]


@dataclass(frozen=True)
class Mutant:
    """A small change of the real code that breaks a guarantee.

    Attributes:
        name: A few words.
        error: What is wrong, and why it matters.
        source: Where it was published, or has happened.
        subject: The name of the shipped subject that it is tried on.
        patch: Makes the change, for as long as a `with` block runs.
        pairs: People to try, in place of the subject's own.
        params: Other parameters of the subject's model.
        world: Other data for them.
    """

    name: str
    error: str
    source: str
    subject: str
    patch: Callable[[], Patch]
    pairs: Sequence[tuple[Any, Any]] | None = None
    params: dict[str, Any] | None = None
    world: Callable[[Any], Any] | None = None

    def on(self, subject: Subject) -> Subject:
        """The subject as this mutant is tried on it."""
        make, pairs, world = partial(subject.make, **self.params or {}), self.pairs or subject.pairs, self.world
        # People who were designed for something else need not reach every bound.
        designed = subject.designed and not (self.pairs or self.params or self.world)
        return replace(subject, name=self.name, make=make, pairs=pairs, world=world or subject.world, designed=designed)


def mutant(
    name: str, source: str, subject: str, by: Callable[..., Patch] | None = None, **given: Any
) -> Callable[[Callable[..., Any]], Mutant]:
    """Make a mutant of a function that patches the library, or that `by` patches into it.

    The function's docstring says what is wrong.
    """

    def made(function: Callable[..., Any]) -> Mutant:
        change = function if by is None else partial(by, function)
        return Mutant(name, " ".join((function.__doc__ or "").split()), source, subject, change, **given)

    return made


def wrapping(owner: Any, name: str) -> Callable[..., Patch]:
    """For `by`: a function of the library is replaced by one that is given it, and then its arguments."""

    def by(function: Callable[..., Any]) -> Patch:
        real = getattr(owner, name)
        return patch.object(owner, name, lambda *args, **given: function(real, *args, **given))

    return by


def together(*patches: Patch) -> ExitStack:
    """Several changes at once."""
    stack = ExitStack()
    for one in patches:
        stack.enter_context(one)
    return stack


@dataclass(frozen=True)
class Caught:
    """The findings of an audit of a mutant."""

    mutant: Mutant
    findings: list[Finding]

    @property
    def by(self) -> list[str]:
        """The checks that caught it; none if it was missed. A fit that fails for everyone shows nothing."""
        return sorted({finding.check for finding in failed(self.findings)} - {FIT})

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        mutant = self.mutant
        why = next((finding.words for finding in failed(self.findings) if finding.check in self.by), "")
        return {
            "name": mutant.name, "error": mutant.error, "source": mutant.source, "model": mutant.subject,
            "caught": bool(self.by), "by": self.by, "why": why,
        }  # fmt: skip
