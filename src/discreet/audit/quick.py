"""The quick part of an audit: some seconds for a model. What it finds it finds exactly, or at a fixed level."""

from __future__ import annotations

from discreet.audit.findings import Alarms, Finding
from discreet.audit.samplers import mechanisms, streams
from discreet.audit.searching import Tried, designed
from discreet.audit.subjects import Subject
from discreet.audit.tainting import taint
from discreet.privacy.keystream import InsecureSeededNoise

DRAWS = 100_000
SEED = 11


def quick(
    subject: Subject, *, alarms: Alarms | None = None, tried: Tried | None = None, draws: int = DRAWS, seed: int = SEED
) -> list[Finding]:
    """Replay the people that a subject was designed with, draw its noise, and taint its data.

    Args:
        subject: What to audit.
        alarms: What this run may spend on false alarms; by default this is a run of its own.
        tried: What the designed people did, if that is known.
        draws: Of each kind of noise.
        seed: Of these draws.
    """
    alarms, tried = alarms or Alarms(), tried or designed(subject)
    findings = list(tried.findings)
    first = next((one.first for one in tried.replays if one.first.model is not None), None)
    if first is not None:
        findings += mechanisms(first, draws=draws, source=InsecureSeededNoise(seed), alarms=alarms)
    findings.append(streams())
    return [*findings, *taint(subject, subject.world(subject.pairs[0][0]))]
