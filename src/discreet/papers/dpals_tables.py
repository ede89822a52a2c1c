"""The hyper-parameters of DPALS (Chien and others 2021), Table 4, and the paper's own count of what they cost.

`DPALS.as_published(**TABLE_4["ml-10m", 1])` is the model of that column. By default its noise is scaled, in the paper's
proportions, to what epsilon really takes; with calibration="given" it is the noise that was printed.
"""

import math
from typing import Any

DELTA = {"ml-10m-top400": 1e-5, "ml-10m": 1e-5, "ml-20m": 1 / 136_677}

_COLUMNS: dict[str, dict[str, tuple[float, ...]]] = {
    "ml-10m-top400": {
        "epsilon": (0.8, 4, 8, 16),
        "rank": (50, 50, 50, 50),
        "regularization": (90, 90, 80, 80),
        "global_penalty": (0, 0, 0, 0),
        "n_steps": (2, 2, 2, 2),
        "max_items": (40, 50, 50, 50),
        "gram_noise": (126.9, 29.0, 11.3, 5.86),
        "rhs_noise": (63.4, 14.5, 11.3, 5.86),
        "item_fraction": (1, 1, 1, 1),
        "preprocessing_noise": (200, 200, 20, 20),
    },
    "ml-10m": {
        "epsilon": (1, 5, 10, 20),
        "rank": (32, 128, 128, 128),
        "regularization": (120, 80, 70, 60),
        "global_penalty": (0, 0, 0, 0),
        "n_steps": (2, 2, 2, 2),
        "max_items": (50, 50, 50, 50),
        "gram_noise": (125.9, 27.8, 15.5, 7.5),
        "rhs_noise": (63.0, 13.9, 7.7, 3.8),
        "item_fraction": (0.05, 0.4, 0.5, 0.6),
        "preprocessing_noise": (100, 20, 10, 10),
    },
    "ml-20m": {
        "epsilon": (1, 5, 10, 20),
        "rank": (32, 32, 32, 128),
        "regularization": (0.5, 0.5, 0.1, 50),
        "global_penalty": (2, 0.6, 0.4, 0.4),
        "n_steps": (1, 3, 3, 1),
        "max_items": (60, 60, 100, 60),
        "gram_noise": (64.0, 20.2, 14.0, 3.5),
        "rhs_noise": (64.0, 20.2, 14.0, 3.5),
        "item_fraction": (0.05, 0.1, 0.05, 0.05),
        "preprocessing_noise": (100, 100, 100, 100),
    },
}
_RATINGS = {"item_exponent": 0.5, "user_exponent": 1.0, "entry_clip": 5.0, "center": True}
_IMPLICIT = {"item_exponent": 0.0, "user_exponent": 0.0, "entry_clip": 1.0, "center": False}


def _table() -> dict[tuple[str, float], dict[str, Any]]:
    table: dict[tuple[str, float], dict[str, Any]] = {}
    for data, rows in _COLUMNS.items():
        rest = {**(_IMPLICIT if data == "ml-20m" else _RATINGS), "user_clip": 1.0, "delta": DELTA[data]}
        for at, epsilon in enumerate(rows["epsilon"]):
            table[data, epsilon] = {**{name: values[at] for name, values in rows.items()}, **rest}
    return table


# (data set, epsilon) -> the arguments of DPALS.as_published.
TABLE_4 = _table()


def dpals_rho_squared(k: int, steps: int, gram_noise: float, rhs_noise: float, preprocessing_noise: float) -> float:
    """The Renyi DP, in units of alpha, that Table 4's columns are consistent with; infinite noise: no such release.

    Appendix C has kT / 2 sigma^2 + (k + 1) / sigma_p^2, with one release for an item step. The printed epsilons come
    out if both are charged, as here.
    """
    return k * steps * (0.5 / gram_noise**2 + 0.5 / rhs_noise**2) + (k + 1) / preprocessing_noise**2


def rho_squared_for(epsilon: float, delta: float) -> float:
    """The Renyi DP at which Appendix A's conversion gives epsilon: the inverse of `rules.dpals_epsilon`."""
    log = math.log(1 / delta)
    return (math.sqrt(log + epsilon) - math.sqrt(log)) ** 2
