"""One-bit completion: the figures of the 2021 paper, published and corrected; and how quick the solver is.

    python benchmarks/one_bit.py --figure 1 --out docs/results/one-bit-fig1.json --plot docs/results/one-bit-fig1.svg
    python benchmarks/one_bit.py --speed --out docs/results/one-bit.json

The protocols are in discreet.papers.one_bit; rows are written as they come. `--speed` compares the solver, on the true
bits of MovieLens 100k with tau = alpha sqrt(d1 d2 r), with the same steps on all entries and LAPACK's full SVD, and
times fits to MovieLens 1M, 6040 x 3706: processor seconds, on one thread.

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
from discreet.papers.one_bit import FIGURES, MEAN_RATING, accuracies, fitted

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
        model = fitted(train, 0, threshold=3.58, n_jobs=1, **params)
        seconds = time.process_time() - start
        right = accuracies(train, test)(model)
        found[name] = {"seconds": round(seconds, 1), **{key: round(share, 4) for key, share in right.items()}}
        print(name, found[name], flush=True)
    return found


def speed() -> Figures:
    """All that is about seconds."""
    return {"MovieLens 100k": against_full_svd(), "MovieLens 1M": larger()}


def main() -> None:
    """Run what was asked for, print it, and keep it if a file is given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figure", type=int, choices=FIGURES)
    parser.add_argument("--runs", type=int, help="draws, or noise seeds; as many as in the paper by default")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--plot", help="a file for the figure, .svg or .png")
    args = parser.parse_args()
    made: Figures = {"version": discreet.__version__, "command": f"python {shlex.join(sys.argv)}"}
    if args.speed:
        made["speed"] = speed()
        print(json.dumps(made, indent=2))
        _keep(made, args.out)
    if args.figure:
        made["rows"] = rows = []
        for row in FIGURES[args.figure](**({} if args.runs is None else {"runs": args.runs})):
            rows.append(row)
            print(json.dumps(row), flush=True)
            _keep(made, args.out)
        if args.plot:
            from discreet.papers.one_bit_plots import draw

            draw(args.figure, rows, args.plot)


def _keep(made: Figures, out: Path | None) -> None:
    if out is not None:
        lines = ",\n".join("  " + json.dumps(row) for row in made.get("rows", []))
        head = json.dumps({key: value for key, value in made.items() if key != "rows"}, indent=1)
        out.write_text((head[:-2] + f',\n "rows": [\n{lines}\n ]\n}}' if lines else head) + "\n")


if __name__ == "__main__":
    main()
