"""`discreet account`: which noise gives which guarantee. It works without any data."""

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Option

from discreet.cli import inputs
from discreet.cli.common import Misuse
from discreet.cli.output import pairs, show
from discreet.errors import DataError
from discreet.validation import positive, round_up

if TYPE_CHECKING:
    from discreet.privacy import Cost, Guarantee

Adjacency = Literal["add-remove", "replace", "flip"]
# How many steps of one adjacency make up a step of another; other pairs cannot be converted.
STEPS = {("add-remove", "replace"): 2, ("add-remove", "flip"): 2, ("replace", "flip"): 1}


def account(
    delta: Annotated[float, Option(help="The delta at which epsilon is stated.")],
    epsilon: Annotated[float | None, Option(help="The epsilon that you want; the command computes the noise.")] = None,
    mu: Annotated[list[float] | None, Option(help="Gaussian-DP parameter of a release; may be repeated.")] = None,
    rho: Annotated[list[float] | None, Option(help="zCDP parameter of a Gaussian release; may be repeated.")] = None,
    noise_multiplier: Annotated[list[float] | None, Option(help="Noise std / sensitivity; may be repeated.")] = None,
    pure: Annotated[
        list[float] | None, Option(help="Epsilon of a release without a delta, such as Laplace; may be repeated.")
    ] = None,
    certificate: Annotated[
        list[Path] | None, Option(help="The certificate or folder of a model; may be repeated.")
    ] = None,
    releases: Annotated[int, Option(help="How many times all of this is released.", min=1)] = 1,
    unit: Annotated[
        Literal["user", "entry"], Option(help="Whether neighboring data sets differ in one user or in one entry.")
    ] = "user",
    adjacency: Annotated[Adjacency, Option(help="How neighboring data sets differ.")] = "add-remove",
    to: Annotated[Adjacency | None, Option(help="Convert the guarantee to this adjacency, if possible.")] = None,
    group: Annotated[int, Option(help="Also state epsilon for this many users, or entries, at once.", min=1)] = 1,
) -> None:
    """Compute what releases with noise cost together, or how much noise an epsilon needs.

    Example: discreet account --epsilon 1 --delta 1e-5 --releases 4

    Give an epsilon, or releases by any of their parameters: mu, rho, noise multiplier, pure epsilon, certificates.
    """
    from discreet.privacy import Cost, Guarantee, PureEvent
    from discreet.privacy.guarantee import UNIT
    from discreet.privacy.guarantee import account as compute

    costs = [
        *(Cost.of_mu(value) for value in mu or ()),
        *(Cost(math.ceil(2 * Fraction(positive("rho", value)) * UNIT), 1) for value in rho or ()),
        *(Cost.of_gaussian(1.0, positive("noise_multiplier", value)) for value in noise_multiplier or ()),
        *(Cost.of(PureEvent(value)) for value in pure or ()),
    ]
    if bool(costs or certificate) == (epsilon is not None):
        raise Misuse(
            "give exactly one of --epsilon, to learn how much noise it needs, and releases, to learn what they cost: "
            "--mu, --rho, --noise-multiplier, --pure, --certificate"
        )
    if epsilon is None:
        guarantee = Guarantee(sum(costs, Cost()), delta, unit, adjacency)
        for path in certificate or ():  # raises if unit or adjacency differ
            guarantee += replace(_certified(path), delta=delta)
        guarantee = replace(guarantee, cost=guarantee.cost * releases)
    else:
        guarantee = compute(epsilon=epsilon, delta=delta, releases=releases, unit=unit, adjacency=adjacency)
    alike = epsilon is not None or (len(costs) == 1 and not certificate)
    each = guarantee.mu / math.sqrt(releases) if alike and guarantee.mu else None
    guarantee = _converted(guarantee, to or guarantee.adjacency)
    together = replace(guarantee, cost=_at_distance(guarantee.cost, group))
    rows = {"epsilon": round_up(guarantee.epsilon, 7), "delta": round_up(guarantee.delta)}
    if guarantee.mu is not None:
        rows["mu (Gaussian DP)"] = round_up(guarantee.mu, 7)
        rows["rho (zCDP)"] = round_up(guarantee.mu**2 / 2, 7)
    if each:
        rows["noise std / sensitivity"] = round_up(1 / each, 7) + f" in each of {releases} releases" * (releases > 1)
    if group > 1:
        several = {"user": "users", "entry": "entries"}[guarantee.unit]
        rows[f"epsilon for {group} {several} at once"] = round_up(together.epsilon, 7)
    data = {
        **guarantee.to_json(),
        "rho": None if guarantee.mu is None else guarantee.mu**2 / 2,
        "releases": releases,
        "noise_multiplier": 1 / each if each else None,
        "group": {"size": group, "epsilon": together.to_json()["epsilon"], "mu": together.mu},
        "sentence": str(guarantee),
    }
    show(data, pairs(rows), "", str(guarantee))


def _certified(path: Path) -> "Guarantee":
    """The guarantee of a certificate, which is checked, or of a saved model."""
    from discreet.privacy.statement import Statement

    if path.is_dir():
        found: Guarantee = inputs.saved(path, "certificate").guarantee_
        return found
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(f"certificate: {str(path)!r}: {error.strerror}") from None
    return Statement.parse(text).guarantee


def _converted(guarantee: "Guarantee", adjacency: str) -> "Guarantee":
    """The guarantee that follows for another adjacency."""
    steps = 1 if adjacency == guarantee.adjacency else STEPS.get((guarantee.adjacency, adjacency))
    if steps is None:
        raise Misuse(
            f"--to: a guarantee for {guarantee.adjacency!r} says nothing for {adjacency!r}; find the sensitivity of "
            f"each release for {adjacency!r}, and give --adjacency {adjacency}"
        )
    return replace(guarantee, cost=_at_distance(guarantee.cost, steps), adjacency=adjacency)


def _at_distance(cost: "Cost", steps: int) -> "Cost":
    """The cost for data this many steps apart (group privacy): each release's mu, or pure epsilon, times `steps`."""
    from discreet.privacy import Cost, PureEvent

    if steps == 1:
        return cost
    far = Cost(cost.gaussian * steps**2, cost.releases)
    for event, number in cost.events:
        if not isinstance(event, PureEvent):
            raise Misuse("--to, --group: there is no conversion for releases that sample users or select among runs")
        far += Cost.of(PureEvent(Cost.of(event, steps).pure), number)
    return far
