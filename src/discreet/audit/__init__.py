"""The product proves its own guarantees: what one person can change is looked for, and must not be found.

`run` audits a model and says in plain words what was tried and found; `replay` compares two fits on neighbouring data;
`zoo` breaks the library in every way that is known to have happened, and shows which check notices.
"""

from discreet.audit.findings import Finding
from discreet.audit.recording import Recording, record
from discreet.audit.replaying import Replay, replay
from discreet.audit.subjects import Subject

__all__ = ["Finding", "Recording", "Replay", "Subject", "record", "replay"]
