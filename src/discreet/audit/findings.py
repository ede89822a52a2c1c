"""What a check found, and how often all checks of a run together may raise a false alarm."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

# One false alarm in a million runs. Every statistical test has the level EACH, fixed beforehand, and a run makes at
# most MOST_TESTS of them; all other checks compare exactly, and cannot be wrong by chance.
FALSE_ALARM = 1e-6
MOST_TESTS = 10_000
EACH = FALSE_ALARM / MOST_TESTS


class Exhausted(RuntimeError):
    """A run has made all the statistical tests that its rate of false alarms allows."""


@dataclass
class Alarms:
    """The budget of a run for false alarms: every statistical test takes its level from here before it is made.

    Attributes:
        total: The largest probability of any false alarm in the run.
        most: How many tests share it, all at the same level, independent of earlier results.
        made: How many have been made.
    """

    total: float = FALSE_ALARM
    most: int = MOST_TESTS
    made: int = 0

    def take(self, tests: int = 1) -> float:
        """The level of each of the next tests; raises if the budget does not allow so many."""
        if self.made + tests > self.most:
            raise Exhausted(
                f"audit: {self.made:,} statistical tests of {self.most:,} were made, and {tests:,} more would exceed a "
                f"false-alarm rate of {self.total:g} for the run; audit fewer models at once"
            )
        self.made += tests
        return self.total / self.most


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        check: Which check.
        ok: Whether the guarantee holds, as far as this check sees.
        words: What was found, in plain words.
        figures: The numbers behind it.
        tests: How many statistical tests it took.
    """

    check: str
    ok: bool
    words: str
    figures: dict[str, Any] = field(default_factory=dict)
    tests: int = 0

    def to_json(self) -> dict[str, Any]:
        """Plain values; infinity, which JSON does not have, is None."""
        figures = {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in self.figures.items()
        }
        return {"check": self.check, "ok": self.ok, "words": self.words, "figures": figures}


def failed(findings: Iterable[Finding]) -> list[Finding]:
    """Those that are not ok."""
    return [finding for finding in findings if not finding.ok]
