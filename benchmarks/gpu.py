"""A GPU: private alternating least squares, its non-private twin, and recommendations for everybody.

On data of the shape of MovieLens 20M's positives (136,677 users, 20,108 items, 10 million). The private model is DPALS
as published with a Gram matrix for each of all 20,108 items (item_fraction=1) and all interactions of all users on both
sides (sampling="weights"): the heaviest that there is. Prints the seconds of every stage, what fraction of the GPU's
float64 rate the Gram step reaches, and whether the GPU's statistics are the processor's, bit for bit.

    python benchmarks/gpu.py --out docs/results/gpu.json
    python benchmarks/gpu.py --parts large          # a million users, 200,000 items, a billion interactions
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import discreet
from discreet.data.catalogue import Catalogue, Ids
from discreet.engine import LocalBlocks
from discreet.engine.gpu import GpuBlocks, GpuEquations
from discreet.linalg import torch_arrays
from discreet.linalg.determinism import neighbour_dependent
from discreet.models.als import preprocessing, published_training
from discreet.models.als.sampling import Sample
from discreet.privacy import NormalEquations
from discreet.privacy.ledger import Reservation
from discreet.privacy.releaser import Encoded
from discreet.testing import InsecureSeededNoise

try:
    import torch
except ModuleNotFoundError:
    print("skipped: a GPU is driven by torch, which is not installed: pip install 'discreet[gpu]'")
    sys.exit()

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
# What the paper has for MovieLens 20M at epsilon 5, but for the rank, 32 there.
TABLE_4: dict[str, Any] = {"item_fraction": 0.1, "sampling": "adaptive"}
Figures = dict[str, Any]


def synchronise() -> None:
    """Wait for the GPU."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def seconds(work: Callable[[], Any], rounds: int = 3) -> list[float]:
    """How long it takes, some times, after once to warm up."""
    work()
    found = []
    for _ in range(rounds):
        synchronise()
        start = time.perf_counter()
        work()
        synchronise()
        found.append(round(time.perf_counter() - start, 4))
    return found


@contextlib.contextmanager
def timed_stages(found: dict[str, list[float]]) -> Iterator[None]:
    """Note how long each stage of a private fit takes."""
    stages = [
        (preprocessing.Preprocessing, "run", "counting and sampling"),
        (GpuBlocks, "keep", "users (and sampling)"),
        (published_training.Training, "_shared", "global Gram"),
        (GpuEquations, "_by_item", "table by items (part of the next)"),
        (GpuEquations, "total", "item statistics"),
        (Reservation, "release", "noise"),
        (published_training, "a_item", "solving for items"),
    ]
    kept: list[tuple[Any, str, Any]] = []
    for owner, name, stage in stages:
        real = getattr(owner, name)

        @functools.wraps(real)
        def timed(*args: Any, _real: Any = real, _stage: str = stage, **kwargs: Any) -> Any:
            synchronise()
            start = time.perf_counter()
            result = _real(*args, **kwargs)
            synchronise()
            found[_stage].append(round(time.perf_counter() - start, 4))
            return result

        kept.append((owner, name, real))
        setattr(owner, name, timed)
    try:
        yield
    finally:
        for owner, name, real in kept:
            setattr(owner, name, real)


def fit(data: Any, rank: int, device: str, **settings: Any) -> Any:
    """A private model."""
    model = discreet.DPALS.as_published(**{**SETTINGS, **settings}, rank=rank, device=device)
    return model.fit(data, ledger=discreet.Ledger(delta=1e-6, noise_source=InsecureSeededNoise(0)))


def in_stages(data: Any, rank: int, device: str, **settings: Any) -> dict[str, list[float]]:
    """The seconds of each stage of one fit."""
    stages: dict[str, list[float]] = defaultdict(list)
    with timed_stages(stages):
        fit(data, rank, device, **settings)
    for stage, each in stages.items():
        print(f"    {stage:34} {sum(each):7.3f} s: {each}", flush=True)
    return dict(stages)


def private_fit(data: Any, options: argparse.Namespace) -> Figures:
    """Whole fits, and their stages: of the heaviest kind, and with what the paper chose for these data."""
    figures: Figures = {}
    for rank in options.ranks:
        for kind, settings in {"": {}, ", as in Table 4": TABLE_4}.items():
            whole = seconds(functools.partial(fit, data, rank, options.device, **settings))
            name = f"rank {rank}{kind}"
            print(f"{name}: a private fit of {SETTINGS['n_steps']} steps {min(whole):.2f} s of {whole}")
            figures[name] = {"fit": whole, "stages": in_stages(data, rank, options.device, **settings)}
            figures[name]["bits depend on others"] = neighbour_dependent(options.device, rank)
    return figures


def default_fit(data: Any, options: argparse.Namespace) -> Figures:
    """DPALS with its defaults, on ratings: the GPU against the processor."""
    figures: Figures = {"processor's cores": os.cpu_count()}
    ratings = discreet.datasets.movielens_like(data.n_users, data.n_items, len(data))
    for epsilon in (1, 5):
        models, times = {}, {}
        for device in (options.device, "cpu"):

            def fit_it(epsilon: float = epsilon, device: str = device) -> Any:
                ledger = discreet.Ledger(delta=1e-6, noise_source=InsecureSeededNoise(0))
                return discreet.DPALS(epsilon=epsilon, delta=1e-6, device=device).fit(ratings, ledger=ledger)

            models[device] = fit_it()
            times[device] = seconds(fit_it, 2)
        factors = [model.item_factors_ for model in models.values()]
        figures[f"epsilon {epsilon}"] = {
            "steps": models["cpu"].plan(data.n_items)["item step"].count,
            "columns": factors[0].shape[1],
            "fit, seconds": times,
            "largest difference of factors, of the largest": float(
                np.abs(factors[0] - factors[1]).max() / np.abs(factors[1]).max()
            ),
        }
        print(f"epsilon {epsilon}: {figures[f'epsilon {epsilon}']}", flush=True)
    return figures


def gram_rate(data: Any, options: argparse.Namespace) -> Figures:
    """The rate of the Gram step by itself, on the GPU alone, against its best."""
    arrays = torch_arrays.gpu(options.device)
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "processor"
    peak = next((rate for word, rate in PEAK.items() if word in name), None)
    figures: Figures = {"gpu": name, "float64 rate of the data sheet": peak}
    for rank in options.ranks:
        X = torch.randn(4096, 256, rank, dtype=torch.float64, device=arrays.device)
        best = min(seconds(lambda X=X: X.swapaxes(1, 2) @ X, 10))  # type: ignore[misc]
        encoder, sample = _item_step(data, rank)
        adding = GpuEquations(encoder, arrays, -1)
        adding.add(adding.encode(sample, published_training.own_equations(sample)))
        table, weights = adding._by_item()
        total = arrays.host(encoder.shape, np.int64)
        whole = min(seconds(lambda: adding._add(total, 0, table, weights), 5))  # noqa: B023
        work = 2 * len(data) * rank**2
        figures[f"rank {rank}"] = {
            "seconds": whole,
            "TFLOP/s": round(work / whole / 1e12, 2),
            "TFLOP/s of the products alone": round(2 * X.numel() * rank / best / 1e12, 1),
            "fraction of the data sheet, products alone": peak and round(2 * X.numel() * rank / best / peak, 3),
            "fraction of the data sheet": peak and round(work / whole / peak, 4),
        }
        print(f"rank {rank}: Gram step {figures[f'rank {rank}']}", flush=True)
    return figures


def _item_step(data: Any, rank: int) -> tuple[Any, Sample]:
    users = np.random.default_rng(0).standard_normal((data.n_users, rank))
    statistic = NormalEquations(data.n_items, rank, 10**6, 1.0, 1.0, 1.0)
    return statistic.encoder(1.0), Sample(data.indptr, data.indices, data.values, vectors=users)


def parity(data: Any, options: argparse.Namespace) -> Figures:
    """The GPU's integers against the processor's, for the same users' vectors; and factors of whole fits."""
    arrays, rank = torch_arrays.gpu(options.device), 16
    encoder, sample = _item_step(data, rank)
    work, here = Encoded((encoder,), published_training.own_equations), LocalBlocks[Sample](lambda: [sample])
    totals = [users.add_up(work, -1) for users in (here, GpuBlocks(here, arrays, -1))]
    same = np.array_equal(*(encoder.finish(total) for total in totals))
    factors = [fit(data, rank, device).item_factors_ for device in ("cpu", options.device)]
    far = float(np.abs(factors[0] - factors[1]).max() / np.abs(factors[0]).max())
    figures = {"statistics are the same bits": bool(same), "largest difference of factors, of the largest": far}
    for dtype in ("float64", "float32"):
        made = [discreet.ALS(rank, n_steps=3, dtype=dtype, device=d).fit(data) for d in ("cpu", options.device)]
        difference = np.abs(made[0].item_factors_ - made[1].item_factors_).max()
        figures[f"ALS, {dtype}"] = float(difference / np.abs(made[0].item_factors_).max())
    print(figures, flush=True)
    return figures


def plain(data: Any, options: argparse.Namespace) -> Figures:
    """ALS without privacy, and the 20 best items of everybody: the GPU against the processor."""
    figures: Figures = {"processor's cores": os.cpu_count()}
    for rank in options.ranks:
        times = {}
        for device in (options.device, "cpu"):
            for solver in ("exact", "cg"):

                def sweeps(n: int, device: str = device, solver: Any = solver, rank: int = rank) -> Any:
                    return discreet.ALS(rank, n_steps=n, solver=solver, device=device).fit(data)

                one, three = (min(seconds(functools.partial(sweeps, n), 1)) for n in (1, 3))
                times[f"{solver}, {device}: seconds a sweep"] = round((three - one) / 2, 4)
        model = discreet.ALS(rank, n_steps=1, device=options.device).fit(data)
        for device in (options.device, "cpu"):
            model.set_params(device=device)
            times[f"the 20 best for all, {device}"] = min(seconds(lambda: model.recommend(data, n=20), 1))  # noqa: B023
        figures[f"rank {rank}"] = times
        print(f"rank {rank}: {times}", flush=True)
    return figures


def billion(shape: tuple[int, int, int], device: str) -> Any:
    """Users with about as many items each, of which a few are far more popular; made on the GPU."""
    n_users, n_items, n = shape
    drawn, some = int(1.01 * n / n_users), 20_000
    made, counts = [], []
    torch.manual_seed(0)
    for first in range(0, n_users, some):
        users = min(some, n_users - first)
        items = (n_items * torch.rand(users, drawn, device=device) ** 2).long().clamp(max=n_items - 1).sort().values
        kept = torch.cat([torch.ones_like(items[:, :1], dtype=torch.bool), items[:, 1:] > items[:, :-1]], 1)
        made.append(items[kept].int().cpu().numpy())
        counts.append(kept.sum(1).cpu().numpy())
    indices = np.concatenate(made)
    indptr = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
    small = discreet.datasets.movielens_like(20, 30, 200).to_implicit()
    return replace(
        small,
        users=Ids(np.arange(n_users)),
        catalogue=Catalogue(np.arange(n_items)),
        indptr=indptr,
        indices=indices,
        values=np.ones(len(indices), np.float32),
        times=None,
    )


def large(options: argparse.Namespace) -> Figures:
    """One fit of a step, on data as large as a company's."""
    shape = (int(1_000_000 * options.scale), int(200_000 * options.scale), int(1e9 * options.scale))
    start = time.perf_counter()
    data = billion(shape, options.device)
    made = time.perf_counter() - start
    print(
        f"{data.n_users:,} users, {data.n_items:,} items, {len(data):,} interactions, made in {made:.0f} s", flush=True
    )
    settings = {"preprocess": False, "sampling": None, "max_items": 60, "n_steps": options.steps, "user_items": "all"}
    start = time.perf_counter()
    stages = in_stages(data, 64, options.device, **settings)
    figures: Figures = {
        "users": data.n_users,
        "items": data.n_items,
        "interactions": len(data),
        "rank": 64,
        "steps": options.steps,
        "seconds": round(time.perf_counter() - start, 1),
        "stages": stages,
        "peak memory of the processor, GB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 1),
    }
    if torch.cuda.is_available():
        figures["peak memory of the GPU, GB"] = round(torch.cuda.max_memory_allocated() / 2**30, 1)
    print(figures, flush=True)
    return figures


PARTS = {"private": private_fit, "default": default_fit, "rate": gram_rate, "parity": parity, "plain": plain}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=[*PARTS, "large"], default=list(PARTS))
    parser.add_argument("--ranks", type=int, nargs="+", default=[64, 128])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--scale", type=float, default=1.0, help="of the data, for a trial")
    parser.add_argument("--steps", type=int, default=1, help="of the large fit")
    parser.add_argument("--out", type=Path, help="a JSON file; what it has of other parts stays")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("skipped: torch sees no GPU on this machine")
        return
    results = json.loads(options.out.read_text()) if options.out and options.out.exists() else {}
    results |= {"version": discreet.__version__, "torch": torch.__version__, "settings": SETTINGS}
    if set(options.parts) - {"large"}:
        shape = [int(n * options.scale) for n in SHAPE]
        data = discreet.datasets.movielens_like(*shape).to_implicit()
        results["shape"] = shape
    for part in options.parts:
        results[part] = large(options) if part == "large" else PARTS[part](data, options)
        if options.out:
            options.out.parent.mkdir(parents=True, exist_ok=True)
            options.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
