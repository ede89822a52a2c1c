"""`discreet account`: what noise gives which guarantee; works without any data."""

import math
from typing import Annotated, Any, Literal

import typer

from discreet.cli import config
from discreet.cli.common import Json, pairs, show


def account(
    delta: Annotated[float, typer.Option(help="The delta at which epsilon is stated.")],
    epsilon: Annotated[float | None, typer.Option(help="The epsilon wanted: gives the noise.")] = None,
    mu: Annotated[float | None, typer.Option(help="Gaussian-DP parameter of one release.")] = None,
    rho: Annotated[float | None, typer.Option(help="zCDP parameter of one release.")] = None,
    noise_multiplier: Annotated[float | None, typer.Option(help="Noise std / sensitivity of one release.")] = None,
    releases: Annotated[int, typer.Option(help="How many such releases.")] = 1,
    unit: Annotated[Literal["user", "entry"], typer.Option(help="Whose data neighbours differ in.")] = "user",
    adjacency: Annotated[
        Literal["add-remove", "replace", "flip"], typer.Option(help="How neighbouring data differ.")
    ] = "add-remove",
    config_file: config.Config = None,
    as_json: Json = False,
) -> None:
    """Say what Gaussian noise costs, or which noise an epsilon asks for.

    Example: discreet account --epsilon 1 --delta 1e-5 --releases 4
    """
    from discreet.numbers import round_up
    from discreet.privacy import account as compute

    guarantee = compute(
        epsilon=epsilon,
        delta=delta,
        mu=mu,
        rho=rho,
        noise_multiplier=noise_multiplier,
        releases=releases,
        unit=unit,
        adjacency=adjacency,
    )
    total = guarantee.mu or 0.0
    each = total / math.sqrt(releases)
    data: dict[str, Any] = {
        **guarantee.to_json(),
        "rho": total**2 / 2,
        "releases": releases,
        "noise_multiplier": 1 / each,
        "sentence": str(guarantee),
    }
    rows = {
        "epsilon": round_up(guarantee.epsilon, 7),
        "delta": round_up(delta),
        "mu (Gaussian DP)": round_up(total, 7),
        "rho (zCDP)": round_up(total**2 / 2, 7),
        "noise std / sensitivity": f"{round_up(1 / each, 7)}" + (f" in each of {releases} releases" * (releases > 1)),
    }
    show(data, as_json, pairs(rows), "", str(guarantee))
