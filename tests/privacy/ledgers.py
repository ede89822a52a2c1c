"""What the tests of the ledger share."""

import numpy as np

from discreet import Ledger, Plan

COUNTS = np.array([5, 3, 0])


def budget(url: str | None = None, **options: object) -> Ledger:
    return Ledger(url, **{"epsilon": 1, "delta": 1e-6, **options})  # type: ignore[arg-type]


def plan_of(mu: float = 0.2) -> Plan:
    return Plan.gaussian(mu, {"counts": 0.25, "steps": (0.75, 3)})
