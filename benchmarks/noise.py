"""The speed of exact noise, side by side with NumPy's standard_normal in one run, one thread each.

usage: python benchmarks/noise.py [--draws 20000000]
"""

import argparse
import time
from collections.abc import Callable

import numpy as np

from discreet.privacy import Gaussian, GridArray, Laplace, RandomizedResponse, SystemNoise
from discreet.privacy.noise import Stream, gaussian, two_sided_geometric

BLOCK = 1 << 20


def seconds(work: Callable[[], object], repeats: int) -> float:
    """The median of several runs, after one to warm up."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def main() -> None:
    """Print draws per second and the ratio to NumPy."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=20_000_000)
    repeats = max(parser.parse_args().draws // BLOCK, 3)
    rng, floats, integers = np.random.default_rng(0), np.empty(BLOCK), np.empty(BLOCK, np.int64)
    stream = Stream(SystemNoise().fresh_key())
    zeros = GridArray(np.zeros(BLOCK, np.int64), Gaussian(1.0).grid())
    bits = GridArray.of(np.zeros(BLOCK, np.int64))
    cases: dict[str, Callable[[], object]] = {
        "NumPy standard_normal (floats, not private)": lambda: rng.standard_normal(out=floats),
        "round(sigma Z), sigma 2^20": lambda: gaussian(2.0**20, stream, integers),
        "round(sigma Z), sigma 2^24": lambda: gaussian(2.0**24, stream, integers),
        "two-sided geometric, scale 2^20": lambda: two_sided_geometric(2.0**20, stream, integers),
        "Gaussian, as released": lambda: Gaussian(1.0).add(zeros, SystemNoise()),
        "Laplace, as released": lambda: Laplace(1.0).add(zeros, SystemNoise()),
        "randomised response, as released": lambda: RandomizedResponse(epsilon=1.0).add(bits, SystemNoise()),
    }
    base = None
    print(f"{'':46}{'million a second':>18}{'against NumPy':>15}")
    for name, work in cases.items():
        taken = seconds(work, repeats)
        base = base or taken
        print(f"{name:46}{BLOCK / taken / 1e6:18.1f}{base / taken:15.2f}")


if __name__ == "__main__":
    main()
