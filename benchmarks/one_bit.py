"""One-bit completion: how quick the solver is.

    python benchmarks/one_bit.py [--out docs/results/one-bit.json]

The solver, on the true bits of MovieLens 100k with tau = alpha sqrt(d1 d2 r), against the same steps on all entries and
LAPACK's full SVD; and fits to MovieLens 1M, 6040 x 3706: processor seconds, on one thread. The figures of the paper are
`discreet reproduce one-bit-fig1` (to 5).

What was not given by the paper (how far tau is reduced by noise, half of it beside effects, one gradient step) was
settled on a division of the training part of u1, never on its test ratings.
"""

import argparse
import json
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import discreet
from discreet.completion.one_bit.fitting import default_radius
from discreet.completion.one_bit.likelihood import Cells, FlippedBits, Loss
from discreet.completion.one_bit.links import Link
from discreet.completion.one_bit.mechanisms import TrueBits
from discreet.completion.one_bit.projections import simplex
from discreet.completion.one_bit.solver import DECREASE, LONGEST, MEMORY, SHORTEST, Problem, minimise
from discreet.linalg.threads import single_threaded_blas
from discreet.papers.one_bit.fig2 import MEAN_RATING
from discreet.papers.one_bit.protocol import accuracies, watched

Array = NDArray[Any]
Figures = dict[str, Any]


def plainly(cells: Cells, loss: Loss, radius: float, tolerance: float, max_steps: int) -> tuple[float, int]:
    """The same method, straightforward: all entries of the matrix, a full SVD for each projection."""
    now = np.zeros(cells.shape)
    at = (cells.rows, cells.columns)
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
    problem = Problem(true.cells, loss, default_radius(true.cells.shape, 1.0, 1, clarity=1.0, effects=False))
    ours: list[float] = []
    theirs: list[float] = []
    with single_threaded_blas():
        for _ in range(turns):
            start = time.process_time()
            found = minimise(problem)
            ours.append(time.process_time() - start)
            start = time.process_time()
            value, steps = plainly(true.cells, loss, problem.radius, 1e-3, 200)
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
        model = watched(train, 0, threshold=3.58, n_jobs=1, **params)
        seconds = time.process_time() - start
        right = accuracies(train, test)(model)
        found[name] = {"seconds": round(seconds, 1), **{key: round(share, 4) for key, share in right.items()}}
        print(name, found[name], flush=True)
    return found


def speed() -> Figures:
    """All that is about seconds."""
    return {"MovieLens 100k": against_full_svd(), "MovieLens 1M": larger()}


def main() -> None:
    """Print the figures, and keep them if a file is given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    text = json.dumps(
        {"version": discreet.__version__, "command": f"python {shlex.join(sys.argv)}", "speed": speed()}, indent=1
    )
    print(text)
    if args.out is not None:
        args.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
