"""`discreet account`: what noise gives which guarantee; works without any data."""

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from discreet.cli import config
from discreet.cli.common import Json, Misuse, pairs, show
from discreet.validation import positive, round_up

if TYPE_CHECKING:
    from discreet.privacy import Cost, Guarantee

Adjacency = Literal["add-remove", "replace", "flip"]
# How many steps of one adjacency a change of another one takes; what is missing does not follow.
STEPS = {("add-remove", "replace"): 2, ("add-remove", "flip"): 2, ("replace", "flip"): 1}
_PLURAL = {"user": "users", "entry": "entries"}


def account(
    delta: Annotated[float, typer.Option(help="The delta at which epsilon is stated.")],
    epsilon: Annotated[float | None, typer.Option(help="The epsilon wanted: gives the noise.")] = None,
    mu: Annotated[list[float] | None, typer.Option(help="Gaussian-DP parameter of a release; may be repeated.")] = None,
    rho: Annotated[
        list[float] | None, typer.Option(help="zCDP parameter of a Gaussian release; may be repeated.")
    ] = None,
    noise_multiplier: Annotated[
        list[float] | None, typer.Option(help="Noise std / sensitivity of a Gaussian release; may be repeated.")
    ] = None,
    pure: Annotated[
        list[float] | None, typer.Option(help="Epsilon of a release without a delta, such as Laplace; may be repeated.")
    ] = None,
    certificate: Annotated[
        list[Path] | None, typer.Option(help="The certificate, or the folder, of a fitted model; may be repeated.")
    ] = None,
    releases: Annotated[int, typer.Option(help="How often all of that is released.", min=1)] = 1,
    unit: Annotated[Literal["user", "entry"], typer.Option(help="Whose data neighbours differ in.")] = "user",
    adjacency: Annotated[Adjacency, typer.Option(help="How neighbouring data differ.")] = "add-remove",
    to: Annotated[Adjacency | None, typer.Option(help="State it for this adjacency, where that follows.")] = None,
    group: Annotated[int, typer.Option(help="Also for so many users, or entries, at once.", min=1)] = 1,
    config_file: config.Config = None,
    as_json: Json = False,
) -> None:
    """Say what noise costs, alone or with other releases; or which noise an epsilon asks for.

    Example: discreet account --epsilon 1 --delta 1e-5 --releases 4

    Give an epsilon, or releases by any of their parameters: mu, rho, noise multiplier, pure epsilon, certificates.
    """
    releasing = _releases(mu or (), rho or (), noise_multiplier or (), pure or ())
    if bool(releasing or certificate) == (epsilon is not None):
        raise Misuse(
            "give exactly one of --epsilon, for the noise that it asks for, and releases, for what they cost: --mu, "
            "--rho, --noise-multiplier, --pure, --certificate"
        )
    if epsilon is None:
        guarantee = _composed(releasing, certificate or (), releases, delta, unit, adjacency)
    else:
        from discreet.privacy.guarantee import account as compute

        guarantee = compute(epsilon=epsilon, delta=delta, releases=releases, unit=unit, adjacency=adjacency)
    alike = epsilon is not None or (len(releasing) == 1 and not certificate)
    each = guarantee.mu / math.sqrt(releases) if alike and guarantee.mu else None
    guarantee = _converted(guarantee, to or guarantee.adjacency)
    together = replace(guarantee, cost=_steps(guarantee.cost, group))
    rows = _rows(guarantee, releases, each)
    if group > 1:
        rows[f"epsilon for {group} {_PLURAL[guarantee.unit]} at once"] = round_up(together.epsilon, 7)
    data = {
        **guarantee.to_json(),
        "rho": None if guarantee.mu is None else guarantee.mu**2 / 2,
        "releases": releases,
        "noise_multiplier": 1 / each if each else None,
        "group": {"size": group, "epsilon": together.to_json()["epsilon"], "mu": together.mu},
        "sentence": str(guarantee),
    }
    show(data, as_json, pairs(rows), "", str(guarantee))


def _releases(
    mu: Sequence[float], rho: Sequence[float], noise_multiplier: Sequence[float], pure: Sequence[float]
) -> list["Cost"]:
    """The cost of each release, rounded up."""
    from discreet.privacy import Cost, PureEvent
    from discreet.privacy.guarantee import UNIT

    return [
        *(Cost.of_mu(value) for value in mu),
        *(Cost(math.ceil(2 * Fraction(positive("rho", value)) * UNIT), 1) for value in rho),
        *(Cost.of_gaussian(1.0, positive("noise_multiplier", value)) for value in noise_multiplier),
        *(Cost.of(PureEvent(value)) for value in pure),
    ]


def _composed(
    costs: Sequence["Cost"],
    certificates: Sequence[Path],
    releases: int,
    delta: float,
    unit: Literal["user", "entry"],
    adjacency: Adjacency,
) -> "Guarantee":
    """The guarantee of releases together, each of them so many times."""
    from discreet.privacy import Cost, Guarantee

    total = Guarantee(sum(costs, Cost()), delta, unit, adjacency)
    for path in certificates:  # each says what unit and adjacency it is for, which must agree
        total += replace(_certified(path), delta=delta)
    return replace(total, cost=total.cost * releases)


def _certified(path: Path) -> "Guarantee":
    """The guarantee in a certificate, which is checked, or in a saved model."""
    import discreet
    from discreet.privacy.statement import Statement

    if path.is_dir():
        found: Guarantee = discreet.load(path).guarantee_
        return found
    return Statement.parse(path.read_text(encoding="utf-8")).guarantee


def _converted(guarantee: "Guarantee", adjacency: str) -> "Guarantee":
    """What a guarantee says of another adjacency."""
    steps = 1 if adjacency == guarantee.adjacency else STEPS.get((guarantee.adjacency, adjacency))
    if steps is None:
        raise Misuse(
            f"--to: a guarantee for {guarantee.adjacency!r} says nothing for {adjacency!r}; find the sensitivity of "
            f"each release for {adjacency!r}, and give --adjacency {adjacency}"
        )
    return replace(guarantee, cost=_steps(guarantee.cost, steps), adjacency=adjacency)


def _steps(cost: "Cost", count: int) -> "Cost":
    """What data so many steps apart cost (group privacy): each release's mu, or pure epsilon, times that number."""
    from discreet.privacy import Cost, PureEvent

    if count == 1:
        return cost
    far = Cost(cost.gaussian * count**2, cost.releases)
    for event, number in cost.events:
        if not isinstance(event, PureEvent):
            raise Misuse("--to, --group: there is no conversion for releases that sample users or select among runs")
        far += Cost.of(PureEvent(Cost.of(event, count).pure), number)
    return far


def _rows(guarantee: "Guarantee", releases: int, each: float | None) -> dict[str, str]:
    """The same number by all its names, for people."""
    rows = {"epsilon": round_up(guarantee.epsilon, 7), "delta": round_up(guarantee.delta)}
    if guarantee.mu is not None:
        rows["mu (Gaussian DP)"] = round_up(guarantee.mu, 7)
        rows["rho (zCDP)"] = round_up(guarantee.mu**2 / 2, 7)
    if each:
        rows["noise std / sensitivity"] = round_up(1 / each, 7) + f" in each of {releases} releases" * (releases > 1)
    return rows
