"""Guarantees and what they cost: `Adjacency`, the events of releases, `Cost`, `Guarantee` and `account`.

An event says what happened; an accountant says what it costs. A `Cost` is the sum of the events of any number of
releases. Its Gaussian part is one number, the sum of mu^2 = (sensitivity / std)^2, kept as an integer so that addition
is exact and does not depend on order; everything else goes to dp_accounting's accountants. Each event maps to a
dp_accounting event (`Cost.dp_event`), so that an outsider can check the result with independent tools. Everything errs
on the safe side: a reported epsilon or delta is never below the true one.
"""

import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Literal, get_args

from discreet.errors import PrivacyError
from discreet.validation import Positive, Probability, check_fields, decimal, positive, probability, round_up, whole

UNIT = 1 << 100  # mu^2 is counted in units of 2^-100, rounded up
MAX_EPSILON = 200.0  # the largest budget; more would protect nothing
MAX_MU = 1 << 20  # the largest mu of one release
SPENDABLE = 1 - 2.0**-40  # share of the largest mu^2 that calibration uses, so that its parts fit after rounding up

_SAFETY = 1e-9  # relative safety margin
_SAFETY_EPSILON = 4e-12  # absolute margin: more than any rounding error; tests compare with 60 digits

Unit = Literal["user", "entry"]
Notion = Literal["joint-dp", "dp"]
AdjacencyName = Literal["add-remove", "replace", "flip"]  # what users write


class Adjacency(str, Enum):
    """How neighboring data sets differ. A member equals, prints and is saved as the plain string that users write."""

    ADD_REMOVE = "add-remove"  # one person's data (or one entry) is added or removed
    REPLACE = "replace"  # it is replaced by any other
    FLIP = "flip"  # a secret bit, or any of a user's bits, is flipped

    def __str__(self) -> str:
        return str(self.value)

    def __repr__(self) -> str:
        return repr(self.value)


def require_adjacency(adjacency: str, *supported: Adjacency) -> Adjacency:
    """The adjacency, if it is one with a proved sensitivity; raises for others, which must not get another's bound."""
    if adjacency not in supported:
        known = ", ".join(map(repr, supported))
        raise PrivacyError(f"adjacency: the sensitivity is proved for {known}, not for {adjacency!r}; use one of those")
    return Adjacency(adjacency)


def sensitivity_factor(adjacency: str, *, nonnegative: bool = False) -> float:
    """How far a sum over users moves, in units of the L2 bound of one user's contribution, rounded up.

    Add-remove: 1, since one contribution is added or removed. Replace: 2, since no two contributions are further apart;
    sqrt(2) if the inner product of any two is `nonnegative` (vectors without negative entries, positive semidefinite
    matrices). docs/proofs/grid.md, section 2.
    """
    if require_adjacency(adjacency, Adjacency.ADD_REMOVE, Adjacency.REPLACE) is Adjacency.ADD_REMOVE:
        return 1.0
    return math.nextafter(math.sqrt(2), 2) if nonnegative else 2.0


# -- Gaussian noise, exactly


def gaussian_delta(mu: float, epsilon: float) -> float:
    """The smallest delta of mu-Gaussian DP at epsilon (Balle and Wang 2018), rounded up."""
    from scipy.special import log_ndtr

    if mu == 0:
        return 0.0
    upper, lower = float(log_ndtr(mu / 2 - epsilon / mu)), epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    delta = -math.exp(upper) * math.expm1(min(lower - upper, 0.0))
    # The difference of two nearly equal numbers may be nothing but rounding errors.
    error = (abs(upper) + abs(lower) + epsilon + 1) * 1e-15 * math.exp(upper)
    return min(delta * (1 + _SAFETY) + 16 * error + sys.float_info.min, 1.0)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The smallest epsilon of mu-Gaussian DP at delta, rounded up."""
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    return _first(lambda epsilon: gaussian_delta(mu, epsilon) <= delta)[1] * (1 + _SAFETY) + _SAFETY_EPSILON


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest mu, within 1e-9 or so, whose reported epsilon at delta is at most `epsilon`."""
    # Slightly below, so that the last digits of the root never decide whether a budget is kept.
    aim = max(epsilon * (1 - _SAFETY) - 2 * _SAFETY_EPSILON, 0.0) / (1 + _SAFETY)
    mu, step = _first(lambda mu: gaussian_delta(mu, aim) > delta)[0], 1e-14
    while gaussian_epsilon(mu, delta) > epsilon:
        mu, step = mu * (1 - step), step * 2
    return mu


def _first(holds: Callable[[float], bool]) -> tuple[float, float]:
    """Two adjacent floats: the condition fails at the first, unless it is 0, and holds at the second, or it is inf.

    dp_accounting finds the same root, and tests compare the two, but importing it takes longer than serving a person.
    """
    low, high = 0.0, 1.0
    while high < math.inf and not holds(high):
        low, high = high, 2 * high
    while low < (middle := low + (high - low) / 2) < high:
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low, high


# -- events and their cost


@dataclass(frozen=True)
class PureEvent:
    """Any release that is epsilon-DP without a delta: Laplace and geometric noise, randomized response.

    Its privacy loss is dominated by that of one randomized-response bit, which is also that of the discrete Laplace
    mechanism at sensitivity 1, which is the dp_accounting event. A Renyi accountant counts epsilon^2 / 2 zCDP.
    """

    kind: ClassVar[str] = "pure"
    epsilon: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))

    @property
    def mu(self) -> float:
        """The Gaussian-DP parameter that epsilon-DP implies: 2 z at the probability e^epsilon / (1 + e^epsilon)."""
        from scipy.special import expit, ndtri

        return -2 * float(ndtri(expit(-min(self.epsilon, 700.0)))) * (1 + _SAFETY) + 1e-14


@dataclass(frozen=True)
class SampledGaussian:
    """A mu-Gaussian release over a Poisson sample of the users (add-remove adjacency only)."""

    kind: ClassVar[str] = "sampled-gaussian"
    mu: Positive
    probability: Probability

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class ThresholdEvent:
    """A threshold that keeps what one person alone has from being published, except with probability `delta`.

    It is (0, delta)-DP, so its delta adds to that of everything else: docs/proofs/private-catalog.md, section 4.
    """

    kind: ClassVar[str] = "threshold"
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", probability("delta", self.delta))


@dataclass(frozen=True)
class Selection:
    """The best of a random number of runs, each of cost `run` (Papernot and Steinke 2022).

    The number of runs is truncated negative binomial with the given mean: shape 1 is geometric, 0 logarithmic,
    infinity Poisson. Only the Renyi accountant supports this event.
    """

    kind: ClassVar[str] = "selection"
    run: "Cost"
    mean: float
    shape: float

    def __post_init__(self) -> None:
        if positive("mean", self.mean) < 1:
            raise PrivacyError("mean must be at least 1: a search runs at least once")
        if math.isnan(self.shape) or self.shape < 0:
            raise PrivacyError(f"shape must be >= 0 (infinity for Poisson), not {self.shape:g}")
        if self.run.exposure:
            raise PrivacyError("run: a search cannot repeat a release with a threshold; choose the items before it")


Event = PureEvent | SampledGaussian | ThresholdEvent | Selection
_EVENTS: dict[str, Any] = {cls.kind: cls for cls in (PureEvent, SampledGaussian, ThresholdEvent, Selection)}


@dataclass(frozen=True)
class Cost:
    """The privacy cost of a set of releases. Costs add up: `a + b`, `cost * count`."""

    gaussian: int = 0  # the sum of mu^2 over the Gaussian releases, in units of 2^-100, each rounded up
    releases: int = 0  # how many Gaussian releases there were
    events: tuple[tuple[Event, int], ...] = ()  # all others, with how often each occurred

    @classmethod
    def of_gaussian(cls, sensitivity: float, std: float) -> "Cost":
        """Gaussian noise of the given standard deviation on a statistic of the given L2 sensitivity."""
        ratio = Fraction(sensitivity) / Fraction(std)
        if ratio > MAX_MU:
            raise PrivacyError(f"noise: a std of {std:g} at a sensitivity of {sensitivity:g} is as good as none")
        return cls(math.ceil(ratio**2 * UNIT), 1)

    @classmethod
    def of_mu(cls, mu: float) -> "Cost":
        """One release that is mu-Gaussian DP."""
        return cls.of_gaussian(positive("mu", mu), 1.0)

    @classmethod
    def of(cls, event: Event, count: int = 1) -> "Cost":
        """A release that is not Gaussian, `count` times."""
        return cls(events=((event, count),))

    def __post_init__(self) -> None:
        counts: Counter[Event] = Counter()
        for event, count in self.events:
            if not isinstance(event, Event):
                raise PrivacyError(f"cost: the cost of an event of unknown kind, {event!r}, cannot be known")
            counts[event] += count
        if not all(type(n) is int for n in (self.gaussian, self.releases, *counts.values())):
            raise PrivacyError("cost: amounts and counts must be whole numbers")
        events = sorted(((event, count) for event, count in counts.items() if count), key=repr)
        object.__setattr__(self, "events", tuple(events))

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.gaussian + other.gaussian, self.releases + other.releases, self.events + other.events)

    def __mul__(self, count: int) -> "Cost":
        return Cost(self.gaussian * count, self.releases * count, tuple((e, n * count) for e, n in self.events))

    def __bool__(self) -> bool:
        return bool(self.gaussian or self.events)

    def within(self, other: "Cost") -> bool:
        """Whether the other cost covers this one, part by part."""
        rest = other + self * -1
        return rest.gaussian >= 0 and all(count > 0 for _, count in rest.events)

    def pays_for(self, release: "Cost") -> bool:
        """Whether it covers a release of this cost, or one over a sample of users if it is planned for those."""
        sampled = [event.mu for event, _ in self.events if isinstance(event, SampledGaussian)]
        if not sampled:
            return release.within(self)
        return not release.events and release.gaussian <= min(Cost.of_mu(mu).gaussian for mu in sampled)

    @property
    def mu(self) -> float | None:
        """The Gaussian-DP parameter of the whole, rounded up; None if some releases are not Gaussian."""
        return None if self.events else self._gaussian_mu

    @property
    def _gaussian_mu(self) -> float:
        mu = math.sqrt(self.gaussian / UNIT)
        while Fraction(mu) ** 2 * UNIT < self.gaussian:
            mu = math.nextafter(mu, math.inf)
        return mu

    @property
    def _pld_error(self) -> float:
        """A margin for delta: several times the error observed in the Fourier transforms of the PLD accountant."""
        return 1e-12 + 2.0**-52 * sum(count for _, count in self.events)

    @property
    def exposure(self) -> float:
        """The probability that some threshold fails, rounded up: the sum of their deltas, which adds to any delta."""
        thresholds = ((event.delta, n) for event, n in self.events if isinstance(event, ThresholdEvent))
        total = sum((Fraction(delta) * n for delta, n in thresholds), Fraction())
        return float(total) if Fraction(float(total)) >= total else math.nextafter(float(total), math.inf)

    @property
    def noise(self) -> "Cost":
        """The same cost without thresholds."""
        others = tuple((e, count) for e, count in self.events if not isinstance(e, ThresholdEvent))
        return Cost(self.gaussian, self.releases, others)

    @property
    def _pure_events(self) -> list[tuple[PureEvent, int]]:
        return [(event, count) for event, count in self.events if isinstance(event, PureEvent)]

    @property
    def pure(self) -> float:
        """Epsilon at delta 0: the sum over pure events; infinite with any other."""
        pure = self._pure_events
        if self.gaussian or len(pure) < len(self.events):
            return math.inf
        total = sum(decimal(event.epsilon) * count for event, count in pure)
        return float(total) if decimal(float(total)) >= total else math.nextafter(float(total), math.inf)

    @property
    def filter(self) -> int | None:
        """The Gaussian-DP cost of the whole, in the unit of `gaussian`; None if some events have none.

        Unlike an (epsilon, delta) total, it may be compared with a budget even if the noise of later releases was
        chosen after seeing earlier results: docs/proofs/composition.md.
        """
        pure = self._pure_events
        if len(pure) < len(self.events):
            return None
        return self.gaussian + sum(Cost.of_mu(event.mu).gaussian * count for event, count in pure)

    def renyi(self, order: float) -> float:
        """The Renyi divergence at an order; at an order fixed in advance it can be used like `filter`."""
        if self.exposure:
            return math.inf
        total, rest = 0.0, Cost(self.gaussian, events=tuple(e for e in self.events if not isinstance(e[0], PureEvent)))
        if rest:
            accountant = _accountant(rest, renyi=True)
            total = float(accountant.rdp[list(accountant.orders).index(order)])
        for event, count in self._pure_events:  # one randomized-response bit dominates every such release
            epsilon = event.epsilon
            log_sum = epsilon * order + math.log1p(math.exp(epsilon * (1 - 2 * order)))
            exact = (log_sum - epsilon - math.log1p(math.exp(-epsilon))) / (order - 1)
            total += count * (exact if epsilon * order > 0.01 else order * epsilon**2 / 2)  # avoids cancellation
        return total * (1 + _SAFETY)

    def parts(self) -> Iterator["Cost"]:
        """This cost, and the costs of the runs that its selections choose from."""
        yield self
        for event, _ in self.events:
            if isinstance(event, Selection):
                yield from event.run.parts()

    @property
    def samples(self) -> bool:
        """Whether it relies on Poisson sampling of users, which is accounted for add-remove adjacency only."""
        return any(isinstance(event, SampledGaussian) for part in self.parts() for event, _ in part.events)

    @property
    def sound(self) -> bool:
        """Whether no part of it is negative."""
        return all(min(p.gaussian, p.releases, *(n for _, n in p.events), 0) == 0 for p in self.parts())

    def epsilon(self, delta: float) -> float:
        """The epsilon that holds at `delta`, rounded up; infinite if there is none."""
        probability("delta", delta, zero=True)
        if not self or delta == 0:
            return self.pure
        if exposure := self.exposure:
            rest = math.nextafter(delta - exposure, 0)
            return self.noise.epsilon(rest) if delta > exposure else math.inf
        if not self.events:
            return gaussian_epsilon(self._gaussian_mu, delta)
        exact = delta > 2 * self._pld_error  # otherwise use the Renyi accountant, which is looser but has no such error
        accountant = _accountant(self, renyi=not exact)
        epsilon = float(accountant.get_epsilon(delta - self._pld_error if exact else delta)) * (1 + _SAFETY)
        return min(epsilon, self.pure)

    def dp_event(self, renyi: bool = False) -> Any:
        """The same releases as one dp_accounting event. It has none for a threshold: add `exposure` to any delta."""
        from dp_accounting import dp_event as dp

        def one(event: Event) -> Any:  # of the four kinds in a cost
            if isinstance(event, ThresholdEvent):
                return dp.UnsupportedDpEvent()
            if isinstance(event, PureEvent):
                return dp.ZCDpEvent(event.epsilon**2 / 2) if renyi else dp.DiscreteLaplaceDpEvent(event.epsilon, 1)
            if isinstance(event, SampledGaussian):
                return dp.PoissonSampledDpEvent(event.probability, dp.GaussianDpEvent(1 / event.mu))
            return dp.RepeatAndSelectDpEvent(event.run.dp_event(renyi=True), event.mean, event.shape)

        parts = [dp.GaussianDpEvent(1 / self._gaussian_mu)] if self.gaussian else []
        return dp.ComposedDpEvent(parts + [dp.SelfComposedDpEvent(one(event), count) for event, count in self.events])

    def to_json(self) -> dict[str, Any]:
        """Values for JSON; mu^2 as a string, since JSON numbers are not exact."""
        events = []
        for event, count in self.events:
            run = {"run": event.run.to_json(), "shape": str(event.shape)} if isinstance(event, Selection) else {}
            events.append({"kind": event.kind, **asdict(event), **run, "count": count})
        return {"gaussian": str(self.gaussian), "releases": self.releases, "events": events}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Cost":
        """The inverse of `to_json`."""
        total = cls(int(data["gaussian"]), int(data["releases"]))
        for event in data["events"]:
            fields = {key: value for key, value in event.items() if key not in ("kind", "count")}
            if event["kind"] not in _EVENTS:
                raise PrivacyError(f"event of unknown kind {event['kind']!r}: its cost cannot be known")
            if "run" in fields:
                fields.update(run=cls.from_json(fields["run"]), shape=float(fields["shape"]))
            total += cls.of(_EVENTS[event["kind"]](**fields), int(event["count"]))
        return total


@lru_cache(maxsize=64)
def largest_gaussian(epsilon: float, delta: float) -> int:
    """The largest `Cost.gaussian` whose reported epsilon at delta is at most `epsilon`."""
    if epsilon > MAX_EPSILON:
        raise PrivacyError(f"epsilon: a budget of {epsilon:g} protects nothing; the most is {MAX_EPSILON:g}")
    largest = math.floor(Fraction(gaussian_mu(epsilon, delta)) ** 2 * UNIT)
    step = 1 + (largest >> 52)
    while largest and Cost(largest).epsilon(delta) > epsilon:
        largest, step = max(largest - step, 0), step * 2
    return largest


@lru_cache(maxsize=64)
def renyi_budget(epsilon: float, delta: float) -> tuple[float, float]:
    """The order at which a Renyi filter admits the most Gaussian releases, and the divergence that it admits there."""
    from dp_accounting.rdp.rdp_privacy_accountant import DEFAULT_RDP_ORDERS

    def bound(order: float) -> float:  # Canonne, Kamath and Steinke (2020), Proposition 12
        return epsilon - math.log1p(-1 / order) + math.log(delta * order) / (order - 1)

    order = max(DEFAULT_RDP_ORDERS, key=lambda order: bound(order) / order)
    if bound(order) <= 0:
        raise PrivacyError(f"filter: 'renyi' admits nothing at epsilon = {epsilon:g} and delta = {delta:g}")
    return order, bound(order)


@lru_cache(maxsize=64)
def _accountant(cost: Cost, renyi: bool) -> Any:
    """An accountant that has composed the cost: PLD, or Renyi if asked for or where there is a private selection.

    The relation is add-remove in name only: sensitivities are declared for the adjacency in force, so that each event
    is a plain shift by one sensitivity.
    """
    import dp_accounting as dp

    if renyi or any(isinstance(event, Selection) for event, _ in cost.events):
        return dp.rdp.RdpAccountant().compose(cost.dp_event(renyi=True))
    # The grid of privacy losses must be fine relative to the total: small budgets need a finer one.
    size = cost._gaussian_mu + sum(getattr(event, "epsilon", 1.0) * count for event, count in cost.events)
    interval = 1e-4 * min(max(size, 1e-3), 1.0)
    return dp.pld.PLDAccountant(dp.NeighboringRelation.ADD_OR_REMOVE_ONE, interval).compose(cost.dp_event())


# -- guarantees

_UNITS = {"user": "one person's entire history", "entry": "a single entry of one person's history"}
_CHANGES = {
    Adjacency.ADD_REMOVE: "adding or removing {}",
    Adjacency.REPLACE: "replacing {} by any other",
    Adjacency.FLIP: "reversing {}",
}
_NOTIONS = {
    "joint-dp": ("joint differential privacy", "in what is published, or shown to anyone else,"),
    "dp": ("differential privacy", "in what is published"),
}


@dataclass(frozen=True)
class Guarantee:
    """A differential-privacy guarantee; as a string, one plain sentence.

    Attributes:
        cost: the cost of the releases, from which every (epsilon, delta) pair follows.
        delta: the delta at which `epsilon` is stated.
        unit: what neighboring data sets differ in: the data of one "user", or one "entry".
        adjacency: how they differ: "add-remove", "replace" or "flip" (of one bit, or any of a user's bits).
        notion: "joint-dp" covers everything that everyone else sees; "dp" covers all outputs.
        holds: False if there is no guarantee, whatever the numbers say; without any noise, epsilon is infinite.
        why_not: the reason if it does not hold.
    """

    cost: Cost
    delta: float
    unit: Unit = "user"
    adjacency: str = Adjacency.ADD_REMOVE
    notion: Notion = "joint-dp"
    holds: bool = True
    why_not: str = ""
    epsilon: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", probability("delta", self.delta, zero=True))
        for name, known in (("unit", get_args(Unit)), ("adjacency", [*Adjacency]), ("notion", get_args(Notion))):
            if getattr(self, name) not in known:
                raise PrivacyError(f"{name}: must be one of {', '.join(known)}, not {getattr(self, name)!r}")
        object.__setattr__(self, "adjacency", Adjacency(self.adjacency))
        if self.holds is not (not self.why_not):  # exactly True or False, since it is what people are told
            raise PrivacyError("why_not: give the reason when the guarantee does not hold, and only then")
        object.__setattr__(self, "epsilon", self.cost.epsilon(self.delta) if self.holds or self.cost else math.inf)

    @property
    def mu(self) -> float | None:
        """The Gaussian-DP parameter; None where other noise than Gaussian is involved."""
        return self.cost.mu

    def epsilon_at(self, delta: float) -> float:
        """The epsilon that the same releases give at another delta, rounded up."""
        return self.cost.epsilon(delta)

    def void(self, why_not: str) -> "Guarantee":
        """The same numbers, marked as not holding, with the reason."""
        return replace(self, holds=False, why_not=why_not)

    def __add__(self, other: "Guarantee") -> "Guarantee":
        """Both together, stated at the larger delta. Units and adjacencies must agree."""
        for name in ("unit", "adjacency"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                raise PrivacyError(f"{name}: cannot compose a guarantee for {mine!r} and one for {theirs!r}")
        reasons = [g.why_not for g in (self, other) if not g.holds]
        cost, delta = self.cost + other.cost, max(self.delta, other.delta)
        notion: Notion = "dp" if self.notion == other.notion == "dp" else "joint-dp"
        return Guarantee(cost, delta, self.unit, self.adjacency, notion, not reasons, "; ".join(dict.fromkeys(reasons)))

    def __str__(self) -> str:
        """One sentence for readers without a technical background."""
        numbers = f"epsilon = {round_up(self.epsilon)} and delta = {round_up(self.delta)}"
        if not self.holds and math.isinf(self.epsilon):
            return f"NOT PRIVATE: {self.why_not}."
        if not self.holds:
            return f"NOT PRIVATE: {self.why_not} (the noise, were it sound, would give {numbers})."
        if math.isinf(self.epsilon):
            return f"NOT PRIVATE: no finite epsilon holds at delta = {round_up(self.delta)} (state it at a larger one)."
        (name, seen), change = _NOTIONS[self.notion], _CHANGES[Adjacency(self.adjacency)].format(_UNITS[self.unit])
        if (self.unit, self.adjacency) == ("user", Adjacency.FLIP):
            change = "reversing any of the bits in one person's history (which items they are about is public)"
        ratio = f"e^{round_up(self.epsilon)}"
        if self.epsilon < 700:
            rounded = round_up(math.exp(self.epsilon), 3)
            ratio = f"{float(rounded):,.0f}" if 1e3 <= float(rounded) < 1e15 else rounded
        added = f", plus {round_up(self.delta)}" if self.delta else ""
        return (
            f"{self.unit.capitalize()}-level {name} with {numbers} ({self.adjacency}): {change} changes the "
            f"probability of any outcome {seen} by at most a factor of {ratio}{added}."
        )

    def to_json(self) -> dict[str, Any]:
        """Values for JSON, with everything needed to compute the guarantee again."""
        epsilon = self.epsilon if math.isfinite(self.epsilon) else None
        names = ("delta", "mu", "unit", "adjacency", "notion", "holds", "why_not")
        values = {name: getattr(self, name) for name in names} | {"adjacency": str(self.adjacency)}
        return {"epsilon": epsilon, **values, "cost": self.cost.to_json()}

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


def account(
    *,
    epsilon: float | None = None,
    delta: float,
    mu: float | None = None,
    rho: float | None = None,
    noise_multiplier: float | None = None,
    releases: int = 1,
    unit: Unit = "user",
    adjacency: AdjacencyName = "add-remove",
    notion: Notion = "joint-dp",
) -> Guarantee:
    """The guarantee of Gaussian releases together, from any one of its parameters; needs no data.

    Args:
        epsilon: the desired epsilon of all releases together: gives the largest mu that meets it at `delta`.
        delta: the delta at which epsilon is stated.
        mu: the Gaussian-DP parameter, sensitivity / std, of one release.
        rho: the zCDP parameter, mu^2 / 2, of one release.
        noise_multiplier: std / sensitivity of one release.
        releases: the number of such releases.
        unit: what neighboring data sets differ in: the data of one "user", or one "entry".
        adjacency: how they differ.
        notion: what the guarantee covers ("joint-dp" or "dp").

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
