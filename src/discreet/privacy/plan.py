"""A fit's releases, declared before any data is touched: what will be released, how often, and at what cost."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from discreet.errors import PrivacyError
from discreet.privacy.accounting import Cost
from discreet.privacy.noise import Gaussian
from discreet.validation import positive, whole


@dataclass(frozen=True)
class Planned:
    """One line of a plan: `count` releases under one label, each of at most this cost."""

    label: str
    cost: Cost
    count: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", whole("count", self.count, 1))
        if not isinstance(self.cost, Cost) or not self.cost.sound or not self.cost:
            raise PrivacyError(f"cost: {self.label!r} needs a positive one, e.g. Cost.of_mu(0.1)")

    @property
    def total(self) -> Cost:
        """The cost of all of them."""
        return self.cost * self.count


@dataclass(frozen=True)
class Plan:
    """The releases of a fit. `Ledger.preview` says what they would cost, `Ledger.reserve` sets it aside."""

    lines: tuple[Planned, ...]

    def __post_init__(self) -> None:
        labels = [line.label for line in self.lines]
        if not labels or len(set(labels)) < len(labels):
            raise PrivacyError("plan: needs at least one line, and a label of its own for each")

    @classmethod
    def gaussian(cls, mu: float, shares: Mapping[str, float | tuple[float, int]]) -> "Plan":
        """Split a Gaussian budget: mu^2 adds up, so shares of mu^2 sum to 1.

        Args:
            mu: the parameter of the whole, e.g. `discreet.account(epsilon=1, delta=1e-6).mu`.
            shares: label -> share of mu^2, or (share, count) for a share that `count` equal releases divide.
        """
        pairs = {label: share if isinstance(share, tuple) else (share, 1) for label, share in shares.items()}
        pairs = {label: (share, whole("count", count, 1)) for label, (share, count) in pairs.items()}
        total = math.fsum(positive(f"shares[{label!r}]", share) for label, (share, _) in pairs.items())
        if not math.isclose(total, 1, rel_tol=1e-12):
            raise PrivacyError(f"shares: must sum to 1, not {total:.12g}")
        budget = Fraction(Cost.of_mu(mu).gaussian) / sum(Fraction(share) for share, _ in pairs.values())
        cells = [math.floor(budget * Fraction(share) / count) for share, count in pairs.values()]
        return cls(tuple(Planned(a, Cost(b, 1), n) for (a, (_, n)), b in zip(pairs.items(), cells, strict=True)))

    @property
    def cost(self) -> Cost:
        """The cost of the whole plan."""
        return sum((line.total for line in self.lines), Cost())

    def to_json(self) -> list[dict[str, Any]]:
        """Plain values."""
        return [{"label": line.label, "cost": line.cost.to_json(), "count": line.count} for line in self.lines]

    def __getitem__(self, label: str) -> Planned:
        if found := [line for line in self.lines if line.label == label]:
            return found[0]
        raise PrivacyError(f"label: {label!r} is not in the plan, which has {', '.join(x.label for x in self.lines)}")

    def noise(self, label: str, *, sensitivity: float, symmetric: bool = False) -> Gaussian:
        """The least Gaussian noise that this line of the plan pays for."""
        return Gaussian.for_cost(self[label].cost, sensitivity=sensitivity, symmetric=symmetric)
