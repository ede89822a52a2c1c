"""What the rule behind DPALS's defaults leaves on the table: its test RMSE against that of the best settings found.

    python benchmarks/regret.py [--epsilons 1 5] [--data ML-1M ...] [--out docs/results/regret.json]
    python benchmarks/regret.py --constants [--epsilons 1 20] [--data ML-1M ...] [--out docs/results/constants.json]

For each data set and epsilon (delta 1e-6; 80/10/10, seed 1234; users folded in from the 80%) settings are changed one
at a time: steps, columns, clips, the division of the budget, regularisation, weights. Those that help by validation
RMSE, over the same draws of the noise, are taken together, too. The best of all that, by validation, is "tuned"; it
and the default are then measured on the test ratings with other draws. Regret is default / tuned - 1. Choosing like
this looks at private data and is not charged: it is what no private choice can beat by much.

With `--constants`, each fitted constant is halved and doubled instead, and nothing is chosen: the change of validation
RMSE, over the same draws of the noise.

Results are written after each cell, and cells that are there already are not computed again.
"""

import argparse
import contextlib
import json
import math
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import discreet
import sparse
from discreet.models.als import contributions, estimate, model, moments, training
from discreet.testing import InsecureSeededNoise

DELTA = 1e-6
SOURCES: dict[str, Callable[[], discreet.Interactions]] = {
    "ML-100K": lambda: discreet.datasets.movielens("100k"),
    "low rank": lambda: discreet.datasets.synthetic_low_rank(5000),
    "MovieLens-like": lambda: discreet.datasets.movielens_like(10_000, 1_000, 400_000, random_state=0),
    "MovieLens-like, wide": lambda: discreet.datasets.movielens_like(3_000, 5_000, 300_000, random_state=1),
    "Jester-1": lambda: discreet.datasets.jester(parts=(1,)).rescale(0, 5),
    "ML-1M": lambda: discreet.datasets.movielens("1m"),
    **{name: partial(sparse.ratings_of, name, sparse.FOLDER) for name in ("anime", "movietweetings", "jester-2")},
}
CONSTANTS = (
    *("BIAS_SPREAD", "FEATURE_BIAS", "COLUMN_SPREAD", "SLOPE_BIAS", "SLOPE_POPULARITY", "COLUMN"),
    *(
        "USER_PRIOR",
        "USER_CHOICES",
        "USER_VECTOR",
        "USER_SQUARE",
        "OVERLAP",
        "GAIN_ERROR",
        "NOISE_ERROR",
        "SCALE_ERROR",
    ),
    *("PROBE_SIZE", "PROBE_SPREAD", "CHANGE", "AS_EXPECTED", "KERNEL_LENGTH", "GRAM_CLIP", "GRAM_SHARE"),
    "GRAM_LEAST",
)
Change = dict[str, Any]
# Name of a group -> alternatives to the default. Fields of Settings; shares, as factors; constants, in capitals.
GROUPS: dict[str, list[Change]] = {
    "steps": [{"steps": 0.5}, {"steps": 2.0}],
    "random probe columns": [{"PROBES": 0}, {"PROBES": 16}],
    "directions": [{"n_directions": 5}, {"n_directions": 20}],
    "clip of biases": [{"bias_clip": 0.4}, {"bias_clip": 0.75}],
    "share of biases": [{contributions.BIAS: 0.5}, {contributions.BIAS: 1.6}],
    "second moment": [{contributions.SECOND_MOMENT: 0.0}, {contributions.SECOND_MOMENT: 0.25}],
    "users' vectors": [{"USER_VECTOR": 0.7}, {"USER_VECTOR": 2.2}],
    "item biases": [{"BIAS_SPREAD": 0.22}, {"BIAS_SPREAD": 0.55}],
    "item columns": [{"COLUMN_SPREAD": 0.07}, {"COLUMN_SPREAD": 0.18}],
    "weights": [{"exponent": 0.2}, {"exponent": 0.45}],
}


FILES = (moments, estimate, training, contributions)
RULE = model.settings  # the one that is compared with, whatever stands in its place


def changed(change: Change) -> Callable[..., contributions.Settings]:
    """The rule, with something changed."""

    def rule(*given: Any, **more: Any) -> contributions.Settings:
        found = RULE(*given, **more)
        steps = max(1, round(found.n_steps * change.get("steps", 1.0)))
        shares = {label: share for label, share in found.shares.items() if isinstance(share, float)}
        if contributions.BIAS in change:
            shares[contributions.BIAS] *= change[contributions.BIAS]
        if contributions.SECOND_MOMENT in change:
            shares[contributions.SECOND_MOMENT] = change[contributions.SECOND_MOMENT]
            shares.setdefault(contributions.EXTENSION, contributions.DIRECTIONS_SHARE)
            if not change[contributions.SECOND_MOMENT]:
                shares.pop(contributions.EXTENSION, None)
        shares = {label: share for label, share in shares.items() if share}
        fields = {name: value for name, value in change.items() if hasattr(found, name) and name != "shares"}
        return replace(found, shares=contributions._with_steps({**shares}, steps), n_steps=steps, **fields)

    return rule


@contextlib.contextmanager
def using(change: Change) -> Iterator[None]:
    """Other constants, and another rule, for a while."""
    modules = (*FILES, model)
    places = [(m, name) for name in change if name.isupper() for m in modules if hasattr(m, name)]
    before = [getattr(module, name) for module, name in places]
    usual = model.settings
    for module, name in places:
        setattr(module, name, change[name])
    model.settings = changed(change)  # type: ignore[assignment]
    try:
        yield
    finally:
        model.settings = usual  # type: ignore[assignment]
        for (module, name), value in zip(places, before, strict=True):
            setattr(module, name, value)


def errors(change: Change, epsilon: float, parts: Any, seeds: range) -> tuple[float, float]:
    """Validation and test RMSE, the means over these draws of the noise."""
    train, valid, test = parts
    found = []
    for seed in seeds:
        with using(change):
            ledger = discreet.Ledger(delta=DELTA, noise_source=InsecureSeededNoise(seed))
            model = discreet.DPALS(epsilon=epsilon, delta=DELTA, n_jobs=1).fit(train, ledger=ledger)
            found.append([math.sqrt(np.mean((model.predict(train, x) - x.values) ** 2)) for x in (valid, test)])
    mean = np.mean(found, axis=0)
    return float(mean[0]), float(mean[1])


def cell(epsilon: float, parts: Any, draws: int) -> dict[str, Any]:
    """Everything about one data set and epsilon."""
    seeds, others = range(draws), range(100, 100 + 2 * draws)
    default = errors({}, epsilon, parts, seeds)[0]
    tried: list[tuple[float, Change]] = [(default, {})]
    together: Change = {}
    for group, alternatives in GROUPS.items():
        scored = [(errors(change, epsilon, parts, seeds)[0], change) for change in alternatives]
        tried += scored
        best = min(scored, key=lambda pair: pair[0])
        if best[0] < default * (1 - 5e-4):  # else it is noise
            together |= best[1]
        print(f"  {group:16}" + "".join(f"{score / default - 1:>+9.2%}" for score, _ in scored), flush=True)
    if together:
        tried.append((errors(together, epsilon, parts, seeds)[0], together))
    chosen = min(tried, key=lambda pair: pair[0])[1]
    usual, tuned = (errors(change, epsilon, parts, others)[1] for change in ({}, chosen))
    print(f"  default {usual:.4f}, tuned {tuned:.4f}: regret {usual / tuned - 1:+.2%} ({chosen})", flush=True)
    return {
        "default": round(usual, 5),
        "tuned": round(tuned, 5),
        "regret": round(usual / tuned - 1, 5),
        "chosen": chosen,
        "settings tried": len(tried),
    }


def sensitivity(epsilon: float, parts: Any, draws: int) -> dict[str, Any]:
    """The relative change of the validation RMSE with half of each constant, and with twice."""
    default, found = errors({}, epsilon, parts, range(draws))[0], {}
    for name in CONSTANTS:
        value = next(getattr(module, name) for module in FILES if hasattr(module, name))
        changes = [{name: value * factor} for factor in (0.5, 2.0)]
        found[name] = [round(errors(change, epsilon, parts, range(draws))[0] / default - 1, 5) for change in changes]
        print(f"  {name:18}" + "".join(f"{change:>+9.2%}" for change in found[name]), flush=True)
    return {"default": round(default, 5), "half and double": found}


def main() -> None:
    """Measure, print, and write as it goes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 5.0])
    parser.add_argument("--data", nargs="+", default=list(SOURCES), choices=list(SOURCES))
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--constants", action="store_true", help="halve and double each constant")
    parser.add_argument("--out", type=Path, help="where to write; cells that are there stay")
    options = parser.parse_args()
    document: dict[str, Any] = {
        "version": discreet.__version__,
        "command": shlex.join(["python", *sys.argv]),
        "delta": DELTA,
        "draws": options.draws,
        "cells": [],
    }
    if options.out and options.out.exists():
        document = json.loads(options.out.read_text(encoding="utf-8"))
    done = {(found["data"], found["epsilon"]) for found in document["cells"]}
    for epsilon in options.epsilons:
        for name in options.data:
            if (name, epsilon) in done:
                continue
            print(f"{name}, epsilon {epsilon:g}", flush=True)
            parts = discreet.splits.holdout(SOURCES[name](), valid=0.1, test=0.1, random_state=1234)
            measure = sensitivity if options.constants else cell
            document["cells"].append({"data": name, "epsilon": epsilon, **measure(epsilon, parts, options.draws)})
            if options.out:
                options.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
