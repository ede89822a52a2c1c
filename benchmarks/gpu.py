"""Private ALS on a GPU: seconds for each stage of a step, and for a whole fit, noise included.

On data of the shape of MovieLens 20M's positives (136,677 users, 20,108 items, 10 million), for DPALS as published,
which is the heaviest model there is: a Gram matrix for each item, all 20,108 of them (item_fraction=1), and all
interactions of all users on both sides (sampling="weights"). Prints what fraction of the card's float64 rate the Gram
step reaches, and checks the statistics bit for bit, and the factors, against the processor's.

    python benchmarks/gpu.py [--ranks 64 128] [--out docs/results/gpu.json]
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import platform
import statistics
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import discreet
from discreet.completion.als import card_moments, published_training
from discreet.linalg import torch_arrays
from discreet.testing import InsecureSeededNoise

SHAPE = (136_677, 20_108, 10_000_000)
PEAK = {"H200": 67e12, "H100": 67e12, "A100": 19.5e12}  # float64 on tensor cores, by the makers' data sheets
SETTINGS: dict[str, Any] = {
    "epsilon": 5,
    "delta": 1e-6,
    "n_steps": 3,
    "item_fraction": 1.0,
    "max_items": 60,
    "sampling": "weights",
    "center": False,
    "regularization": 0.5,
    "global_penalty": 0.6,
    "item_exponent": 0.0,
    "user_exponent": 0.0,
    "entry_clip": 1.0,
    "gram_noise": 20.2,
    "rhs_noise": 20.2,
    "preprocessing_noise": 100.0,
}


@contextlib.contextmanager
def timed_stages(seconds: dict[str, list[float]]) -> Iterator[None]:
    """Note how long each stage of a fit takes."""
    Training, Sums = published_training.Training, card_moments.CardMoments
    stages = [
        (published_training.Preprocessing if hasattr(published_training, "Preprocessing") else None, "run", "counting"),
        (Training, "_users", "users"),
        (Training, "_shared", "global Gram"),
        (Sums, "_tabulate", "table by items"),
        (Sums, "__call__", "item statistics"),
        (discreet.completion.private.Door, "release", "noise"),
        (published_training, "a_item", "solving for items"),
    ]
    kept = []
    for owner, name, stage in stages:
        if owner is None:
            continue
        real = getattr(owner, name)

        @functools.wraps(real)
        def timed(*args: Any, _real: Any = real, _stage: str = stage, **kwargs: Any) -> Any:
            synchronise()
            start = time.perf_counter()
            result = _real(*args, **kwargs)
            synchronise()
            seconds[_stage].append(time.perf_counter() - start)
            return result

        kept.append((owner, name, real))
        setattr(owner, name, timed)
    try:
        yield
    finally:
        for owner, name, real in kept:
            setattr(owner, name, real)


def synchronise() -> None:
    """Wait for the card."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def fit(data: Any, rank: int, device: str) -> tuple[Any, float]:
    """A fitted model, and the seconds that it took."""
    model = discreet.DPALS.as_published(**SETTINGS, rank=rank, device=device)
    ledger = discreet.Ledger(delta=1e-6, noise_source=InsecureSeededNoise(0))
    synchronise()
    start = time.perf_counter()
    model.fit(data, ledger=ledger)
    return model, time.perf_counter() - start


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[64, 128])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--scale", type=float, default=1.0, help="of the data, for a trial")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    shape = [int(n * options.scale) for n in SHAPE]
    start = time.perf_counter()
    data = discreet.datasets.movielens_like(*shape).to_implicit()
    print(f"data: {shape}, {time.perf_counter() - start:.1f} s", flush=True)
    results: dict[str, Any] = {"shape": shape, "settings": SETTINGS, "torch": torch.__version__}
    for rank in options.ranks:
        fit(data, rank, options.device)  # kernels are loaded, pages are touched
        whole = [fit(data, rank, options.device)[1] for _ in range(options.rounds)]
        stages: dict[str, list[float]] = defaultdict(list)
        with timed_stages(stages):
            fit(data, rank, options.device)
        print(f"rank {rank}: a fit of {SETTINGS['n_steps']} steps {min(whole):.3f} s of {[round(w, 3) for w in whole]}")
        for stage, each in stages.items():
            print(f"    {stage:20} {sum(each):.3f} s in all: {[round(e, 4) for e in each]}", flush=True)
        results[f"rank {rank}"] = {"fit": whole, "stages": stages}
    if options.out:
        options.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
