"""A table or figure that is quick to measure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from discreet.papers.reproduction import Options, Point, Reproduction, printed


def made_up(counts: list[str] | None = None, **other: Any) -> Reproduction:
    """Two private methods at two epsilons and one that is not private; an error is 1 / epsilon + seed."""

    def points(options: Options) -> list[Point]:
        def run(name: str, epsilon: float | None) -> Any:
            def once(seed: int) -> dict[str, float | None]:
                if counts is not None:
                    counts.append(name)
                return {"rmse": 1 / (epsilon or 10) + seed, "true_epsilon": epsilon}

            return once

        found = [
            Point({"data": "made", "method": name, "epsilon": epsilon}, run(name, epsilon))
            for name in ("one, as published", "one")
            for epsilon in (1.0, 4.0)
            if options.wants(name)
        ]
        return [*found, Point({"data": "made", "method": "plain", "epsilon": None}, run("plain", None), 1)]

    given: dict[str, Any] = {"published": printed({4.0: 0.5}, "rmse", ["one", "absent"], "Table 1"), "runs": 3, **other}
    return Reproduction("an-entry", "a paper", "a title", "so", "rmse", points, **given)


@pytest.fixture
def entry() -> Callable[..., Reproduction]:
    return made_up
