"""How the papers turn noise into epsilon: kept to reproduce their numbers, never to state a guarantee.

`noise_multiplier` is the std per unit of sensitivity that a rule asks for; what such noise really gives is
`discreet.account(noise_multiplier=..., delta=...)`.
"""

import math
from collections.abc import Callable
from typing import Literal

from discreet.numbers import positive, probability
from discreet.privacy.accounting import gaussian_mu

Rule = Literal["exact", "zcdp", "dpals-appendix", "dpals-theorem-1"]


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Epsilon of rho-zCDP at delta by the conversion of Canonne, Kamath and Steinke (2020)."""
    from scipy.optimize import minimize_scalar

    def bound(log_order: float) -> float:
        order = 1 + math.exp(log_order)
        return rho * order + (math.log(1 / delta) - math.log(order)) / (order - 1) + math.log1p(-1 / order)

    # At the optimum the order is near 1 + sqrt(log(1 / delta) / rho).
    guess = 0.5 * math.log(math.log(1 / delta) / rho)
    return max(
        float(minimize_scalar(bound, bounds=(guess - 5, guess + 5), method="bounded", options={"xatol": 1e-10}).fun),
        0.0,
    )


def dpals_epsilon(rho_squared: float, delta: float) -> float:
    """The conversion of the DPALS appendix, for Renyi DP of rho^2 alpha: rho^2 + 2 rho sqrt(log(1 / delta))."""
    return rho_squared + 2 * math.sqrt(rho_squared * math.log(1 / delta))


def noise_multiplier(epsilon: float, delta: float, rule: Rule = "exact") -> float:
    """The std per unit of sensitivity at which a rule claims (epsilon, delta)."""
    positive("epsilon", epsilon)
    probability("delta", delta)
    log = math.log(1 / delta)
    rules: dict[str, Callable[[], float]] = {
        "exact": lambda: 1 / gaussian_mu(epsilon, delta),
        "zcdp": lambda: _zcdp_multiplier(epsilon, delta),
        "dpals-appendix": lambda: 1 / (math.sqrt(2) * (math.sqrt(log + epsilon) - math.sqrt(log))),
        "dpals-theorem-1": lambda: math.sqrt(2 * (epsilon + log)) / epsilon,
    }
    return rules[rule]()


def _zcdp_multiplier(epsilon: float, delta: float) -> float:
    from scipy.optimize import brentq

    log_rho = brentq(lambda x: zcdp_epsilon(math.exp(x), delta) - epsilon, math.log(1e-12), math.log(1e3), xtol=1e-14)
    return 1 / math.sqrt(2 * math.exp(log_rho))
