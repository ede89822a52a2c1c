"""One-bit completion: how quick the solver is, and what the figures of the paper leave open.

    python benchmarks/one_bit.py [--only PART ...] [--out docs/results/one-bit.json]

- speed: the solver, on the true bits of MovieLens 100k with tau = alpha sqrt(d1 d2 r), against the same steps on all
  entries and LAPACK's full SVD; and fits to MovieLens 1M, 6040 x 3706: processor seconds, on one thread.
- output: Gaussian noise on a completed matrix against noise with the density of its length, by the size of the matrix.
- tau: Figure 1 without any noise of ours, by tau.
- constants: those that no paper gives, on a fifth of the *training* part of u1, which is left out; no test rating is
  looked at.

The figures of the paper are `discreet reproduce one-bit-fig1` (to 5).
"""

import argparse
import json
import math
import shlex
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import discreet
from discreet.models.eigen import simplex
from discreet.models.one_bit import estimate, model
from discreet.models.one_bit.contributions import TrueBits
from discreet.models.one_bit.estimate import DECREASE, LONGEST, MEMORY, SHORTEST, Problem, default_radius, minimize
from discreet.models.one_bit.likelihood import FlippedBits, Link, Loss, Observed
from discreet.papers.one_bit import MEAN_RATING, accuracies, relative_error, watched
from discreet.parallel import single_threaded_blas

Figures = dict[str, Any]


def plainly(observed: Observed, loss: Loss, radius: float, tolerance: float, max_steps: int) -> tuple[float, int]:
    """The same method, straightforward: all entries of the matrix, a full SVD for each projection."""
    now = np.zeros(observed.shape)
    at = (observed.rows, observed.columns)
    value, slopes = loss(now[at])
    recent, length, steps = [value], 1 / loss.curvature, 0
    while steps < max_steps:
        steps += 1
        while True:
            moved = now.copy()
            moved[at] -= length * slopes
            left, values, right = np.linalg.svd(moved, full_matrices=False)
            trial = (left * simplex(values, radius)[0]) @ right
            trial_value, trial_slopes = loss(trial[at])
            if trial_value <= max(recent) + DECREASE * float(slopes @ (trial - now)[at]) or length <= SHORTEST:
                break
            length /= 2
        step = trial - now
        apart, bent = float((step**2).sum()), float((trial_slopes - slopes) @ step[at])
        length = min(max(apart / bent, SHORTEST), LONGEST) if bent > 0 else LONGEST
        now, value, slopes = trial, trial_value, trial_slopes
        recent = [*recent, value][-MEMORY:]
        if apart <= tolerance**2 * float((now**2).sum()):
            break
    return value, steps


def against_full_svd(turns: int = 1) -> Figures:
    """Processor seconds of both on MovieLens 100k, by turns; the smaller of each."""
    true = TrueBits.of(discreet.datasets.movielens_folds("u1")[0], MEAN_RATING)
    loss = FlippedBits(true.bits, Link())
    problem = Problem(true.observed, loss, default_radius(true.observed.shape, 1.0, 1, clarity=1.0, effects=False))
    ours: list[float] = []
    theirs: list[float] = []
    with single_threaded_blas():
        for _ in range(turns):
            start = time.process_time()
            found = minimize(problem)
            ours.append(time.process_time() - start)
            start = time.process_time()
            value, steps = plainly(true.observed, loss, problem.radius, 1e-3, 200)
            theirs.append(time.process_time() - start)
    return {
        "seconds": round(min(ours), 2),
        "seconds, full SVD": round(min(theirs), 2),
        "full SVD / ours": round(min(theirs) / min(ours), 1),
        "loss": round(found.loss, 1),
        "loss, full SVD": round(value, 1),
        "certified gap": round(found.gap(problem), 1),
        "steps": [found.steps, steps],
    }


def larger() -> Figures:
    """Fits to MovieLens 1M, a tenth of it held out: processor seconds on one thread, and shares of right signs."""
    train, _, test = discreet.splits.holdout(discreet.datasets.movielens("1m"), valid=0.0, test=0.1, random_state=1234)
    cases: dict[str, dict[str, Any]] = {
        "Clear, no effects": {"mechanism": None, "biases": False},
        "input, epsilon 1": {"epsilon": 1.0},
        "input, epsilon 4": {"epsilon": 4.0},
        "input, epsilon 4, factored, rank 16": {"epsilon": 4.0, "solver": "factored", "rank": 16},
    }
    found: Figures = {}
    for name, params in cases.items():
        start = time.process_time()
        found_model = watched(train, 0, threshold=3.58, n_jobs=1, **params)
        seconds = time.process_time() - start
        right = accuracies(train, test)(found_model)
        found[name] = {"seconds": round(seconds, 1), **{key: round(share, 4) for key, share in right.items()}}
        print(name, found[name], flush=True)
    return found


def speed() -> Figures:
    """All that is about seconds."""
    return {"MovieLens 100k": against_full_svd(), "MovieLens 1M": larger()}


def output_noise(draws: int = 20) -> Figures:
    """Percent of the truth's signs that output perturbation gets right, on square matrices of 90% observed bits."""
    found: Figures = {}
    kinds: dict[str, dict[str, Any]] = {"density": {}, "Gaussian": {"noise": "gaussian", "delta": 1e-6}}
    for size in (3, 10, 20, 40):
        for epsilon in (4.0, 10.0, 30.0):
            shares: dict[str, list[float]] = {kind: [] for kind in kinds}
            for seed in range(draws):
                bits, truth = discreet.datasets.one_bit(
                    size, size, alpha=3.0, observed=0.9, random_state=seed, return_truth=True
                )
                for kind, noise in kinds.items():
                    params = {"mechanism": "output", "epsilon": epsilon, "ridge": 2.0, **noise}
                    matrix = watched(bits, seed, threshold=0.0, **params).completed.matrix.dense()
                    shares[kind].append(float(np.mean((matrix >= 0) == (truth.matrix() >= 0))))
            means = {kind: round(100 * float(np.mean(one)), 1) for kind, one in shares.items()}
            found[f"{size} x {size}, epsilon {epsilon:g}"] = means
    return found


def clear_by_tau(draws: int = 8) -> Figures:
    """Relative errors of Figure 1 (100 x 100, 15% observed) without privacy: 1 is what predicting 0 gives."""
    found: Figures = {}
    for link in ("logistic", "probit"):
        for tau in (1.0, 3.0, 10.0, 33.0, 100.0):
            errors = []
            for seed in range(draws):
                bits, truth = discreet.datasets.one_bit(
                    100, 100, link=link, observed=0.15, random_state=seed, return_truth=True
                )
                params = {"mechanism": None, "link": link, "tau": tau, "biases": False, "box": True}
                errors.append(relative_error(truth.matrix())(watched(bits, seed, threshold=0.0, **params))["error"])
            found[f"{link}, tau {tau:g}"] = round(float(np.mean(errors)), 3)
    return found


def _tau(share: float, power: int) -> Any:
    """Another default of tau: `share` of it beside effects, times a power of clarity."""
    return lambda shape, alpha, rank, *, clarity, effects: (
        alpha * math.sqrt(shape[0] * shape[1] * rank) * clarity**power * (share if effects else 1.0)
    )


def constants(draws: int = 3) -> Figures:
    """Percent of right signs of bits that were left out of the training part, with one constant changed at a time."""
    everyone = discreet.datasets.movielens("100k").users
    base = discreet.datasets.movielens_folds("u1")[0].for_users(everyone)
    train, _, valid = discreet.splits.holdout(base, valid=0.0, test=0.2, random_state=5)
    measure = accuracies(train, valid)
    changes: dict[str, list[Any]] = {"as it is": []}
    changes |= {f"{share:g} of tau": [patch.object(model, "default_radius", _tau(share, 2))] for share in (0.25, 1.0)}
    changes |= {f"clarity^{power}": [patch.object(model, "default_radius", _tau(0.5, power))] for power in (1, 3)}
    for value in (0.5, 1.0, 4.0):
        changes[f"penalty of effects {value:g}"] = [
            patch.object(module, "EFFECT_PENALTY", value) for module in (estimate, model)
        ]
    cases = [("input", name, patches, {}) for name, patches in changes.items()]
    cases += [("gradient", f"{steps} steps", [], {"n_steps": steps}) for steps in (1, 2, 4)]
    found: Figures = {}
    for epsilon in (1.0, 4.0):
        for mechanism, name, patches, params in cases:
            with ExitStack() as stack:
                for one in patches:
                    stack.enter_context(one)
                given = {"mechanism": mechanism, "epsilon": epsilon, "threshold": MEAN_RATING, **params}
                shares = [measure(watched(train, seed, **given))["accuracy"] for seed in range(draws)]
            found[f"{mechanism}, epsilon {epsilon:g}, {name}"] = round(100 * float(np.mean(shares)), 2)
            print(list(found.items())[-1], flush=True)
    return found


PARTS = {"speed": speed, "output": output_noise, "tau": clear_by_tau, "constants": constants}


def main() -> None:
    """Print the figures, and keep them if a file is given; parts that are not measured stay as they are there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", choices=PARTS, nargs="+", default=list(PARTS))
    args = parser.parse_args()
    before = json.loads(args.out.read_text(encoding="utf-8")) if args.out is not None and args.out.exists() else {}
    head = {"version": discreet.__version__, "command": f"python {shlex.join(sys.argv)}"}
    text = json.dumps({**before, **head, **{part: PARTS[part]() for part in args.only}}, indent=1)
    print(text)
    if args.out is not None:
        args.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
