"""The product proves its own guarantees: what one person can change is looked for, and must not be found.

`run` audits a model and says in plain words what was tried and found; `replay` compares two fits on neighbouring data;
`zoo` breaks the library in every way that is known to have happened, and shows which check notices; `attacks` shows
what a guarantee is for. docs/guide/audit.md says how to read it all.
"""

from discreet.audit.findings import Finding
from discreet.audit.recording import Recording, record
from discreet.audit.replaying import Replay, replay
from discreet.audit.report import Report
from discreet.audit.subjects import Subject
from discreet.audit.suite import run

__all__ = ["Finding", "Recording", "Replay", "Report", "Subject", "record", "replay", "run"]
