"""Audits of guarantees: they look for anything in a model that one person can change but must not.

`run` audits a model and reports what was tried and found; `replay` compares two fits on neighboring data; `zoo` breaks
the library in every way that is known to have happened, and shows which check notices; `attacks` shows what a guarantee
is for. docs/guide/audit.md explains the report.
"""

from discreet.audit.replaying import Recording, Replay, record, replay
from discreet.audit.report import Finding, Report
from discreet.audit.subjects import Subject
from discreet.audit.suite import run

__all__ = ["Finding", "Recording", "Replay", "Report", "Subject", "record", "replay", "run"]
