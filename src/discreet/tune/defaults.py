"""What `DPALS` does unless told otherwise: the rule itself, for people to look at. It costs nothing.

There is one rule, `discreet.models.als.settings`, from epsilon, delta, the size of the catalogue and a hint of the
number of users. docs/guide/tuning.md says how it was made, and how much better the best settings are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from discreet.models.als.model import DPALS
from discreet.models.als.settings import BIAS_SPREAD, COLUMN_SPREAD, PROBES, USER_BIAS, USER_VECTOR
from discreet.validation import whole

SLOPES = 2  # columns that every model has: how far users follow biases, and popularity


@dataclass(frozen=True)
class Defaults:
    """The settings that follow from public inputs. Print them; `DPALS(**parameters)` is the model that has them.

    Attributes:
        parameters: The arguments of `DPALS`.
        rank: The most columns that items can have. How many there are follows from what is released.
        n_steps: Item steps.
        clips: Release -> bound of a user's contribution to it, in the unit of ratings that spread by 1.
        budget: Release -> share of mu^2, of all releases under that name together.
        regularization: Weights of users' squared offsets and vectors, and how far item biases and columns may spread.
    """

    parameters: dict[str, Any]
    rank: int
    n_steps: int
    clips: dict[str, float]
    budget: dict[str, float]
    regularization: dict[str, float]

    def __str__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        lines = [f"DPALS({given})", f"at most {self.rank} columns, {self.n_steps} item steps", ""]
        lines += [f"{'release':<24}{'share of mu^2':>14}{'bound':>8}"]
        lines += [f"{label:<24}{share:>14.1%}{self.clips[label]:>8.3g}" for label, share in self.budget.items()]
        return "\n".join([*lines, "", *(f"{name}: {value:g}" for name, value in self.regularization.items())])


def public_defaults(n_users_hint: int | None, n_items: int, epsilon: float, delta: float) -> Defaults:
    """The settings of `DPALS` for public inputs, by the rule that `DPALS(epsilon=..., delta=...).fit(x)` follows.

    Args:
        n_users_hint: About how many users there are, if that may be known; else None.
        n_items: The size of the catalogue.
        epsilon: The privacy budget.
        delta: The delta of the budget.

    Example:
        >>> import discreet
        >>> discreet.tune.public_defaults(6000, 3706, epsilon=1.0, delta=1e-6).n_steps
        4
    """
    model = DPALS(epsilon=epsilon, delta=delta, n_users_hint=n_users_hint)
    model.plan(whole("n_items", n_items, 1))  # raises for whatever would be refused
    found = model._settings(n_items)
    columns = SLOPES + PROBES + (found.n_directions if found.looks_for_directions else 0)
    given = {"epsilon": epsilon, "delta": delta, "n_users_hint": n_users_hint}
    return Defaults(
        parameters={**given, "n_steps": found.n_steps},
        rank=columns,
        n_steps=found.n_steps,
        clips=found.bounds,
        budget={label: share if isinstance(share, float) else share[0] for label, share in found.shares.items()},
        regularization={
            "users' offsets": USER_BIAS,
            "users' vectors": USER_VECTOR,
            "spread of item biases": BIAS_SPREAD,
            "spread of item columns": COLUMN_SPREAD,
        },
    )
