"""What parameters of Gaussian noise guarantee, and which noise a guarantee takes.

Not part of the trust base: whatever is calibrated by it, the ledger counts again.
"""

import math
from fractions import Fraction

from discreet.errors import PrivacyError
from discreet.privacy.accounting import Cost, largest_gaussian
from discreet.privacy.guarantee import Adjacency, Guarantee, Notion, Unit
from discreet.validation import positive, probability, whole

SPENDABLE = 1 - 2.0**-40  # share of the largest mu^2 that calibration uses: its parts still fit after rounding up


def account(
    *,
    epsilon: float | None = None,
    delta: float,
    mu: float | None = None,
    rho: float | None = None,
    noise_multiplier: float | None = None,
    releases: int = 1,
    unit: Unit = "user",
    adjacency: Adjacency = "add-remove",
    notion: Notion = "joint-dp",
) -> Guarantee:
    """The guarantee of Gaussian releases together, from any one of its parameters; needs no data.

    Args:
        epsilon: the wanted epsilon: gives the largest mu that meets it at `delta`.
        delta: at which delta epsilon is stated.
        mu: the Gaussian-DP parameter, sensitivity / std, of one release.
        rho: the zCDP parameter, mu^2 / 2, of one release.
        noise_multiplier: std / sensitivity of one release.
        releases: how many such releases; with `epsilon`, it is that of all of them together.
        unit: whose data a neighbouring data set differs in.
        adjacency: how it differs.
        notion: what is covered.

    Example:
        >>> round(account(epsilon=1, delta=1e-5).mu, 6)
        0.268051
    """
    given = {"epsilon": epsilon, "mu": mu, "rho": rho, "noise_multiplier": noise_multiplier}
    names = [name for name, value in given.items() if value is not None]
    if len(names) != 1:
        raise PrivacyError(f"account: give exactly one of {', '.join(given)}, not {' and '.join(names) or 'none'}")
    value = positive(names[0], given[names[0]])
    releases = whole("releases", releases, 1)
    probability("delta", delta, zero=names[0] != "epsilon")
    if names == ["epsilon"]:
        total = Cost(math.floor(largest_gaussian(value, delta) * Fraction(SPENDABLE)), releases)
    else:
        one = {"mu": value, "rho": math.sqrt(2 * value), "noise_multiplier": 1 / value}[names[0]]
        total = Cost.of_mu(one) * releases
    return Guarantee(total, delta, unit, adjacency, notion)
