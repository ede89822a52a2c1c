"""The zoo: the library itself, broken in every way that is known to have happened, and which check notices.

Each mutant is a small change of the real code. An audit that lets one of them through is blind to that error; one that
calls a correct model broken cries wolf. `catch` tries one, `zoo` all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from discreet.audit.findings import Finding, failed
from discreet.audit.quick import quick
from discreet.audit.replaying import FIT
from discreet.audit.subjects import Subject, shipped
from discreet.audit.zoo import bounds, leaks, noise, papers
from discreet.audit.zoo.mutant import Mutant

MUTANTS = [*noise.MUTANTS, *bounds.MUTANTS, *leaks.MUTANTS, *papers.MUTANTS]


@dataclass(frozen=True)
class Caught:
    """What came of a mutant."""

    mutant: Mutant
    findings: list[Finding]

    @property
    def by(self) -> list[str]:
        """The checks that noticed it; none, if it got away. A fit that fails for everybody shows nothing."""
        return sorted({finding.check for finding in failed(self.findings)} - {FIT})

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        mutant = self.mutant
        why = next((finding.words for finding in failed(self.findings) if finding.check in self.by), "")
        return {
            "name": mutant.name, "error": mutant.error, "source": mutant.source, "model": mutant.subject,
            "caught": bool(self.by), "by": self.by, "why": why,
        }  # fmt: skip


def catch(mutant: Mutant, subjects: dict[str, Subject] | None = None) -> Caught:
    """Audit a mutant as any model is audited."""
    subject = mutant.on((subjects or shipped())[mutant.subject])
    with mutant.patch():
        return Caught(mutant, quick(subject))


def zoo(*, mutants: Sequence[Mutant] = MUTANTS, done: Callable[[str], None] | None = None) -> list[Caught]:
    """Try all mutants.

    Args:
        mutants: Which.
        done: Told the name of each that was tried.
    """
    subjects, found = shipped(), []
    for mutant in mutants:
        found.append(catch(mutant, subjects))
        if done is not None:
            done(mutant.name)
    return found
