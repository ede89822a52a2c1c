"""What is promised, as a value: epsilon and delta with the unit, adjacency and notion that give them a meaning."""

import json
import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal, get_args

from discreet.errors import PrivacyError
from discreet.privacy.accounting import Cost, largest_gaussian
from discreet.validation import positive, probability, whole

Unit = Literal["user", "entry"]
Adjacency = Literal["add-remove", "replace", "flip"]
Notion = Literal["joint-dp", "dp"]


def require_adjacency(adjacency: str, *supported: Adjacency) -> None:
    """Raise unless a sensitivity was derived for this adjacency: an unknown one must never get another one's bound."""
    if adjacency not in supported:
        known = ", ".join(repr(one) for one in supported)
        raise PrivacyError(f"adjacency: the sensitivity is proved for {known}, not for {adjacency!r}; use one of those")


def sensitivity_factor(adjacency: str, *, nonnegative: bool = False) -> float:
    """How far a sum over users moves, in units of the L2 bound of one user's contribution, rounded up.

    Add-remove: 1, one contribution comes or goes. Replace: 2, no two contributions are further apart; sqrt(2) if the
    inner product of any two is `nonnegative` (vectors without negative entries, positive semidefinite matrices).
    docs/proofs/grid.md, section 2.

    Args:
        adjacency: "add-remove" or "replace".
        nonnegative: whether the inner product of any two contributions is.
    """
    require_adjacency(adjacency, "add-remove", "replace")
    if adjacency == "add-remove":
        return 1.0
    return math.nextafter(math.sqrt(2), 2) if nonnegative else 2.0


@dataclass(frozen=True)
class Guarantee:
    """A differential-privacy guarantee: frozen, comparable, and one plain sentence as a string.

    Attributes:
        cost: the releases behind it, from which every (epsilon, delta) pair follows.
        delta: the delta at which `epsilon` is stated.
        unit: whose data one step to a neighbouring data set changes: a "user" or one "entry".
        adjacency: how it changes: "add-remove", "replace" or "flip" (of one bit, or any of a user's bits).
        notion: "joint-dp" covers all that everybody else sees; "dp" covers all outputs.
        holds: False if there is no guarantee at all, whatever the numbers say; without any noise, epsilon is infinite.
        why_not: the reason then.
    """

    cost: Cost
    delta: float
    unit: Unit = "user"
    adjacency: Adjacency = "add-remove"
    notion: Notion = "joint-dp"
    holds: bool = True
    why_not: str = ""
    epsilon: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", probability("delta", self.delta, zero=True))
        for name, known in (("unit", Unit), ("adjacency", Adjacency), ("notion", Notion)):
            if getattr(self, name) not in get_args(known):
                raise PrivacyError(f"{name}: must be one of {', '.join(get_args(known))}, not {getattr(self, name)!r}")
        if self.holds is not (not self.why_not):  # a truth value and nothing like one, since it is what people are told
            raise PrivacyError("why_not: give the reason when the guarantee does not hold, and only then")
        object.__setattr__(self, "epsilon", self.cost.epsilon(self.delta) if self.holds or self.cost else math.inf)

    @property
    def mu(self) -> float | None:
        """The Gaussian-DP parameter; None where other noise than Gaussian is involved."""
        return self.cost.mu

    def epsilon_at(self, delta: float) -> float:
        """The epsilon that the same releases give at another delta, rounded up."""
        return self.cost.epsilon(delta)

    def delta_at(self, epsilon: float) -> float:
        """The delta that the same releases give at another epsilon, rounded up."""
        return self.cost.delta(epsilon)

    def void(self, why_not: str) -> "Guarantee":
        """The same numbers with the word that they do not hold, and why."""
        return replace(self, holds=False, why_not=why_not)

    def _must_match(self, other: "Guarantee", what: str) -> None:
        for name in ("unit", "adjacency"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                raise PrivacyError(f"{name}: cannot {what} a guarantee for {mine!r} and one for {theirs!r}")

    def implies(self, other: "Guarantee") -> bool:
        """Whether this guarantee is at least as strong as the (epsilon, delta) that the other one states."""
        self._must_match(other, "compare")
        if not self.holds or (self.notion == "joint-dp" and other.notion == "dp"):
            return not other.holds and self.notion == other.notion
        return not other.holds or self.epsilon_at(other.delta) <= other.epsilon

    def __le__(self, other: object) -> bool:
        return self.implies(other) if isinstance(other, Guarantee) else NotImplemented

    def __lt__(self, other: object) -> bool:
        return self <= other and not other <= self if isinstance(other, Guarantee) else NotImplemented

    def __add__(self, other: "Guarantee") -> "Guarantee":
        """Both together, stated at the larger delta. Units and adjacencies must agree."""
        self._must_match(other, "compose")
        reasons = [g.why_not for g in (self, other) if not g.holds]
        cost, delta = self.cost + other.cost, max(self.delta, other.delta)
        notion: Notion = "dp" if self.notion == other.notion == "dp" else "joint-dp"
        return Guarantee(cost, delta, self.unit, self.adjacency, notion, not reasons, "; ".join(dict.fromkeys(reasons)))

    def __str__(self) -> str:
        from discreet.privacy import render

        return render.sentence(self)

    def to_json(self) -> dict[str, Any]:
        """Plain values, with everything needed to compute the guarantee again."""
        epsilon = self.epsilon if math.isfinite(self.epsilon) else None
        names = ("delta", "mu", "unit", "adjacency", "notion", "holds", "why_not")
        return {"epsilon": epsilon, **{name: getattr(self, name) for name in names}, "cost": self.cost.to_json()}

    @classmethod
    def from_json(cls, data: dict[str, Any] | str) -> "Guarantee":
        """The inverse of `to_json`; refuses an epsilon that the releases do not give."""
        values: dict[str, Any] = json.loads(data) if isinstance(data, str) else data
        names = ("delta", "unit", "adjacency", "notion", "holds", "why_not")
        try:
            guarantee = cls(cost=Cost.from_json(values["cost"]), **{name: values[name] for name in names})
            stated = math.inf if values["epsilon"] is None else float(values["epsilon"])
        except (KeyError, TypeError) as error:
            raise PrivacyError(f"guarantee: incomplete or malformed ({error})") from None
        if stated != guarantee.epsilon and not math.isclose(stated, guarantee.epsilon, rel_tol=1e-9):
            raise PrivacyError(f"guarantee: states epsilon = {stated:g}, but its releases give {guarantee.epsilon:g}")
        return guarantee


SPENDABLE = 1 - 2.0**-40  # share of the largest mu^2 that calibration uses: its parts still fit after rounding up


def account(
    *,
    epsilon: float | None = None,
    delta: float,
    mu: float | None = None,
    rho: float | None = None,
    noise_multiplier: float | None = None,
    releases: int = 1,
    unit: Unit = "user",
    adjacency: Adjacency = "add-remove",
    notion: Notion = "joint-dp",
) -> Guarantee:
    """The guarantee of Gaussian releases together, from any one of its parameters; needs no data.

    Args:
        epsilon: the wanted epsilon: gives the largest mu that meets it at `delta`.
        delta: at which delta epsilon is stated.
        mu: the Gaussian-DP parameter, sensitivity / std, of one release.
        rho: the zCDP parameter, mu^2 / 2, of one release.
        noise_multiplier: std / sensitivity of one release.
        releases: how many such releases; with `epsilon`, it is that of all of them together.
        unit: whose data a neighbouring data set differs in.
        adjacency: how it differs.
        notion: what is covered.

    Example:
        >>> round(account(epsilon=1, delta=1e-5).mu, 6)
        0.268051
    """
    given = {"epsilon": epsilon, "mu": mu, "rho": rho, "noise_multiplier": noise_multiplier}
    names = [name for name, value in given.items() if value is not None]
    if len(names) != 1:
        raise PrivacyError(f"account: give exactly one of {', '.join(given)}, not {' and '.join(names) or 'none'}")
    value = positive(names[0], given[names[0]])
    releases = whole("releases", releases, 1)
    probability("delta", delta, zero=names[0] != "epsilon")
    if names == ["epsilon"]:
        total = Cost(math.floor(largest_gaussian(value, delta) * Fraction(SPENDABLE)), releases)
    else:
        one = {"mu": value, "rho": math.sqrt(2 * value), "noise_multiplier": 1 / value}[names[0]]
        total = Cost.of_mu(one) * releases
    return Guarantee(total, delta, unit, adjacency, notion)
