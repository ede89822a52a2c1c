"""The findings of an audit, and how likely a false alarm is: as text, as JSON, and as an HTML page."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from discreet.privacy.rendering import document
from discreet.recommend.results import html_table

if TYPE_CHECKING:
    from discreet.audit.attacks import Success
    from discreet.audit.zoo import Caught

# One false alarm in a million runs. Every statistical test has the level EACH, fixed in advance, and a run makes at
# most MOST_TESTS of them; all other checks compare exactly, and cannot be wrong by chance.
FALSE_ALARM = 1e-6
MOST_TESTS = 10_000
EACH = FALSE_ALARM / MOST_TESTS

BROKEN, MISSED = "BROKEN", "NOT CAUGHT"
# What each check does, for readers of the report
CHECKS = {
    "fit": "The model can be fitted at all.",
    "events": "Fitted with and without one person, and with the same noise, the model makes the same releases in the "
    "same order, with the same shapes and noise; nothing it logs, warns about or raises differs.",
    "sensitivity": "Adding or removing one person moves no release by more than was declared.",
    "worst case": "A designed person moves each release by 95% or more of what was declared: the bounds are tight, and "
    "the audit can see it.",
    "whole claim": "Two designed people are at least 90% of the claim apart, over all releases: the claim is tight, "
    "and the audit can see all of it.",
    "account": "Every draw of noise belongs to a release in the ledger; no noise is used twice; the guarantee covers "
    "all releases together.",
    "post-processing": "Given the same released values, the two models are the same to the last bit.",
    "joint view": "All other users are shown the same, to the last bit.",
    "search": "No extreme person, and nobody found by a search from them, moves a release by more than was declared.",
    "noise": "The noise has the distribution and the scale that were charged for.",
    "black box": "Two numbers at the distance of the sensitivity, released many times, prove no more than is claimed.",
    "streams": "Threads and forked processes never draw the same noise.",
    "taint": "No line of code outside the private side reads a private number.",
    "canary": "Whole fits with and without a designed person cannot be distinguished better than is claimed.",
    "one run": "In one fit with many canaries, nobody can guess who is in it better than is claimed.",
}


class Exhausted(RuntimeError):
    """A run has made all the statistical tests that its false-alarm rate allows."""


@dataclass
class Alarms:
    """The false-alarm budget of a run: every statistical test takes its level from here before it is made."""

    total: float = FALSE_ALARM  # the largest probability of any false alarm in the run
    most: int = MOST_TESTS  # how many tests share it, all at the same level, whatever the earlier results
    made: int = 0

    def take(self, tests: int = 1) -> float:
        """The level of each of the next tests; raises if the budget does not allow them."""
        if self.made + tests > self.most:
            raise Exhausted(
                f"audit: {self.made:,} statistical tests of {self.most:,} were made, and {tests:,} more would exceed a "
                f"false-alarm rate of {self.total:g} for the run; audit fewer models at once"
            )
        self.made += tests
        return self.total / self.most


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    check: str  # its name
    ok: bool  # whether the guarantee holds, as far as this check can see
    words: str  # what was found
    figures: dict[str, Any] = field(default_factory=dict)  # the numbers behind it
    tests: int = 0  # how many statistical tests were made

    def to_json(self) -> dict[str, Any]:
        """Plain values; infinity, which JSON does not have, is None."""
        figures = {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in self.figures.items()
        }
        return {"check": self.check, "ok": self.ok, "words": self.words, "figures": figures}


def failed(findings: Iterable[Finding]) -> list[Finding]:
    """The findings that are not ok."""
    return [finding for finding in findings if not finding.ok]


@dataclass(frozen=True)
class Report:
    """The result of `discreet.audit.run`: print it, or use its `.to_json()` or `.html()`.

    Attributes:
        findings: The findings for each audited model.
        zoo: Which checks caught each broken mechanism, if they were tried.
        attacks: How well attacks on private and nonprivate models did, if they were run.
    """

    findings: dict[str, list[Finding]] = field(default_factory=dict)
    zoo: Sequence[Caught] = ()
    attacks: Sequence[Success] = ()

    @property
    def ok(self) -> bool:
        """Whether no guarantee was broken, and every broken mechanism was caught."""
        return not any(failed(found) for found in self.findings.values()) and all(caught.by for caught in self.zoo)

    @property
    def tests(self) -> int:
        """How many statistical tests were made."""
        return sum(finding.tests for found in self.findings.values() for finding in found)

    @property
    def lost(self) -> list[str]:
        """Where in the code private numbers lose their mark, so that taint cannot follow them."""
        every = (one.figures.get("lost", ()) for found in self.findings.values() for one in found)
        return sorted({place for places in every for place in places})

    def verdict(self) -> str:
        """One sentence."""
        broken = [name for name, found in self.findings.items() if failed(found)]
        away = [caught.mutant.name for caught in self.zoo if not caught.by]
        parts = []
        if self.findings:
            parts.append(f"BROKEN: {', '.join(broken)}" if broken else "No check found more than the guarantee allows")
        if self.zoo:
            caught = f"{len(self.zoo) - len(away)} of {len(self.zoo)} broken mechanisms were caught"
            parts.append(caught + (f"; NOT {', '.join(away)}" if away else ""))
        return ". ".join(parts) + "."

    def chances(self) -> str:
        """How likely a false alarm is."""
        if not self.tests:
            return ""
        return (
            f"{self.tests:,} statistical tests, each at the level {EACH:.0e}, fixed in advance: if nothing is broken, "
            f"any of them fails in fewer than {FALSE_ALARM:.0e} of such audits. An audit can prove a guarantee wrong, "
            "never right."
        )

    def tables(self) -> list[tuple[str, Sequence[str], list[tuple[str, ...]]]]:
        """All findings, as tables: the title, the headings and the rows of each."""
        models = [
            (name, ("", "check", "found"), [("ok" if one.ok else BROKEN, one.check, one.words) for one in found])
            for name, found in self.findings.items()
        ]
        zoo = [(one.mutant.name, one.mutant.error, one.mutant.source, ", ".join(one.by) or MISSED) for one in self.zoo]
        attacks = [(one.attack, one.model, f"{one.rate:.1%}", f"{one.chance:.1%}") for one in self.attacks]
        tables: list[tuple[str, Sequence[str], list[Any]]] = [
            *models,
            ("The zoo", ("broken mechanism", "what is wrong", "published or seen", "caught by"), zoo),
            ("What attackers achieve", ("attack", "model", "success", "by chance"), attacks),
            ("Where private numbers lose their mark", ("in",), [(place,) for place in self.lost]),
        ]
        return [table for table in tables if table[2]]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        data: dict[str, Any] = {"ok": self.ok, "verdict": self.verdict(), "tests": self.tests}
        data["models"] = {name: [one.to_json() for one in found] for name, found in self.findings.items()}
        if self.zoo:
            data |= {"caught": sum(bool(one.by) for one in self.zoo), "total": len(self.zoo)}
            data["zoo"] = [one.to_json() for one in self.zoo]
        if self.lost:
            data["lost"] = self.lost
        if self.attacks:
            data["attacks"] = [asdict(one) for one in self.attacks]
        return data

    def __str__(self) -> str:
        lines = [self.verdict(), ""]
        for title, _, rows in self.tables():
            lines += [f"{title}:", *(f"  {'  '.join(row)}" for row in rows), ""]
        return "\n".join([*lines, self.chances()]).strip()

    def html(self) -> str:
        """A self-contained HTML page."""
        used = {one.check for found in self.findings.values() for one in found}
        checks = "".join(f"<dt>{name}<dd>{html.escape(what)}" for name, what in CHECKS.items() if name in used)
        parts = [
            f'<p class="{"holds" if self.ok else "void"}">{html.escape(self.verdict())}</p>',
            f"<p>{html.escape(self.chances())}</p>",
            *(f"<h2>{html.escape(title)}</h2>{html_table([head, *rows])}" for title, head, rows in self.tables()),
            f"<h2>What the checks do</h2><dl>{checks}</dl>" if checks else "",
        ]
        text = "".join(parts)
        for word in (BROKEN, MISSED):
            text = text.replace(f"<td>{word}</td>", f"<td><strong>{word}</strong></td>")
        return document("Privacy audit", text, "td{vertical-align:top}strong{color:#b3261e}")
