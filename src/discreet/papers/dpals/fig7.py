"""Figure 7: synthetic data with 20,000 users, test RMSE against the number of steps; k = 150, sigma 10 and 20.

Noise per step is fixed, so epsilon grows with steps. Algorithm 1 has sigma for both releases of a step and a random
start; clip and penalties are those of Figure 4 at epsilon 10. Frank-Wolfe, with constant steps, spends in each step
what DPALS does, which is how "the same noise level" is understood here; without noise it searches for the length of
each step. It is told the nuclear norm of the matrix. The text says that ALS has after 2 steps a smaller error than
Frank-Wolfe after 40, with noise and without, and that where noise stops DPALS the error is an order of magnitude below
that of Frank-Wolfe.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

import discreet
from discreet.papers.dpals import fig4, protocol
from discreet.papers.reproduction import Options, Plot, Point, Published, Reproduction, ratio_of, value_of

USERS = 20_000
NOISES = (10.0, 20.0)
STEPS = (1, 2, 3, 5, 10, 20, 40)
MOST = 10  # steps of ALS, which is where it was long before
NOISY_ALS, NOISY_FW = "DPALS 2021", "DPFrankWolfe, constant steps"
PLAIN_FW = "FrankWolfe, not private"


def points(options: Options) -> Iterator[Point]:
    """All points."""
    task = fig4.task(500 if options.quick else USERS, options)
    for steps in (1, 2) if options.quick else STEPS:
        yield from _points(task, steps, options.few(NOISES))


def _points(task: protocol.Task, steps: int, noises: Sequence[float]) -> Iterator[Point]:
    """Those of a number of steps; what has no noise has no sigma."""
    radius = ball(task.train.n_users)[0]
    keys = {"steps": steps, "sigma": None}
    if steps <= MOST:
        als = partial(discreet.ALS, 5, regularization=0.1, biases=False, n_steps=steps)
        yield task.point(protocol.ALS, als, runs=1, **keys)
    yield task.point(PLAIN_FW, partial(discreet.FrankWolfe, n_steps=steps, radius=radius, centre=False), runs=1, **keys)
    for sigma in noises:
        if steps <= MOST and task.options.wants(NOISY_ALS):
            yield task.point(NOISY_ALS, partial(of_2021, sigma, steps), steps=steps, sigma=sigma)
        if task.options.wants(NOISY_FW):
            make = partial(frank_wolfe, task.train.n_users, sigma, steps)
            yield task.point(NOISY_FW, make, steps=steps, sigma=sigma)


def of_2021(sigma: float, steps: int) -> Any:
    """Algorithm 1, with given noise."""
    entry_clip, penalty, user_penalty = fig4.SETTINGS[USERS, 10][:3]
    return discreet.DPALS.as_published(
        epsilon=1.0,
        delta=fig4.DELTA,
        rank=5,
        regularization=penalty,
        item_exponent=0.0,
        typical_count=penalty * fig4.K / user_penalty,
        n_steps=steps,
        entry_clip=entry_clip,
        max_items=fig4.K,
        item_fraction=1.0,
        preprocess=False,
        gram_noise=sigma,
        rhs_noise=sigma,
        calibration="given",
    )


def frank_wolfe(n_users: int, sigma: float, steps: int) -> Any:
    """Frank-Wolfe with constant steps that spends as much."""
    epsilon = float(of_2021(sigma, steps).preview(100).cost.epsilon)
    radius, row_norm = ball(n_users)
    return discreet.DPFrankWolfe(
        epsilon=epsilon,
        delta=fig4.DELTA,
        n_steps=steps,
        step="constant",
        radius=radius,
        row_norm=row_norm,
        centre=False,
    )


def ball(n_users: int) -> tuple[float, float]:
    """The nuclear norm of the matrix, and a length that most rows have."""
    return float(np.sqrt(5 * n_users * 1000)), float(np.sqrt(20 * np.log(n_users)))


def _claims() -> Iterator[Published]:
    pairs = [(PLAIN_FW, protocol.ALS, None), *((NOISY_FW, NOISY_ALS, sigma) for sigma in NOISES)]
    for slow, fast, sigma in pairs:
        late, early = (
            value_of("rmse", method=slow, steps=40, sigma=sigma),
            value_of("rmse", method=fast, steps=2, sigma=sigma),
        )
        noise = "" if sigma is None else f", sigma {sigma:g}"
        yield Published(
            f"{slow}, 40 steps / {fast}, 2 steps{noise}", 1.0, ratio_of(late, early), "Appendix D.4", "above"
        )
        if sigma is not None:
            settled = value_of("rmse", method=fast, steps=MOST, sigma=sigma)
            what = f"{slow}, 40 steps / {fast}, {MOST} steps{noise}"
            yield Published(what, 10.0, ratio_of(late, settled), "Appendix D.4: an order of magnitude", "about")


REPRODUCTION = Reproduction(
    name="dpals-fig7",
    paper=protocol.PAPER,
    title="Figure 7: synthetic data, test RMSE against steps at fixed noise",
    protocol=__doc__,
    measure="rmse",
    points=points,
    published=tuple(_claims()),
    runs=1,
    plot=Plot("steps", "steps", panels="sigma", log="xy"),
)
