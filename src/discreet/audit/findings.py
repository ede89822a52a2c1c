"""What a check found: a plain sentence, and whether it is as it must be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

# One false alarm in a million audits. Every statistical test is made at the level EACH, fixed beforehand, and an audit
# makes at most MOST_TESTS of them (`Tests` counts); all other checks compare exactly, and cannot err by chance.
FALSE_ALARM = 1e-6
MOST_TESTS = 10_000
EACH = FALSE_ALARM / MOST_TESTS


@dataclass(frozen=True)
class Finding:
    """One thing that was tried.

    Attributes:
        check: Which check it belongs to.
        ok: Whether the guarantee came through.
        words: What was found, for people.
        figures: The numbers behind it.
        tests: How many statistical tests it took, each at the level `EACH`.
    """

    check: str
    ok: bool
    words: str
    figures: dict[str, Any] = field(default_factory=dict)
    tests: int = 0

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"check": self.check, "ok": self.ok, "words": self.words, **({"figures": self.figures})}


def failed(findings: Iterable[Finding]) -> list[Finding]:
    """Those that are not as they must be."""
    return [finding for finding in findings if not finding.ok]
