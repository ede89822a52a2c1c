"""Parameters that make no sense, or no guarantee: errors that say what to do, before any data is touched."""

from __future__ import annotations

import math
from numbers import Real
from typing import TYPE_CHECKING, Any

from discreet.errors import DataError, PrivacyError
from discreet.models.one_bit.budget import bit_epsilon, require_flips
from discreet.validation import positive, probability, whole

if TYPE_CHECKING:
    from discreet.models.one_bit.model import OneBit

CHOICES: dict[str, tuple[Any, ...]] = {
    "mechanism": ("input", "objective", "gradient", "output", None),
    "noise": ("laplace", "gaussian"),
    "unit": ("entry", "user"),
    "calibration": ("exact", "published"),
    "solver": ("spg", "factored"),
    "biases": (True, False, None),
    "box": (True, False, None),
    "perturbed": (True, False),  # what is merely true-ish, "no" for instance, must not do without noise
}


def check(model: OneBit) -> None:
    """Raise if a parameter is wrong."""
    for name, choices in CHOICES.items():
        if getattr(model, name) not in choices:
            words = ", ".join(map(repr, choices))
            raise DataError(f"{name}: one of {words} is needed, not {getattr(model, name)!r}")
    model._link()
    for name in ("alpha", "clamp", "tau", "ridge"):
        if name in ("alpha", "clamp") or getattr(model, name) is not None:  # the others have a default for None
            positive(name, getattr(model, name))
    for name in ("rank", "n_steps"):
        whole(name, getattr(model, name), 1)
    whole("random_state", model.random_state, 0)
    if model.threshold is not None and not (isinstance(model.threshold, Real) and math.isfinite(model.threshold)):
        raise DataError(f"threshold: a finite number is needed, not {model.threshold!r}")
    if model.solver == "factored" and model.box:
        raise DataError("box: solver='factored' bounds the max-norm and keeps no box; leave it out")
    if model.mechanism is None:
        if model.epsilon is not None or model.calibration == "published":
            raise PrivacyError("mechanism: without one there is no privacy; leave out epsilon and calibration")
        return
    if model.epsilon is None:
        raise PrivacyError("epsilon: a privacy budget is needed; for a model without privacy pass mechanism=None")
    positive("epsilon", model.epsilon)
    probability("delta", model.delta, zero=True)
    _check_mechanism(model)
    _check_flips(model)


def _check_mechanism(model: OneBit) -> None:
    if not model._on_bits:
        if model.biases:
            raise PrivacyError(f"biases: the {model.mechanism} mechanism has none here; leave it out")
        if model.solver == "factored":
            raise PrivacyError("solver: 'factored' is for noise on bits; what it finds is not near any optimum")
    if model.mechanism in ("objective", "output") and not model._on_bits and model.box is False:
        raise PrivacyError(
            f"box: the guarantee of the {model.mechanism} mechanism is for entries up to alpha; leave it out"
        )
    if model.mechanism == "objective" and model.link == "probit" and model.noise != "laplace":
        raise PrivacyError("noise: with the probit link the objective mechanism is proved for noise='laplace'")
    if model.mechanism != "input" and model.noise == "gaussian" and not model.delta:
        raise PrivacyError("delta: Gaussian noise needs one, a constant well below 1 / the number of entries")
    if (model.unit == "user") != (model.max_entries is not None):
        raise PrivacyError("max_entries: unit='user' needs it, how many entries of a user count; and only that does")
    if model.max_entries is not None:
        whole("max_entries", model.max_entries, 1)
    if model.perturbed and model.mechanism != "input":
        raise PrivacyError("perturbed: bits are flipped beforehand for mechanism='input' only")
    if model.calibration == "published" and (model.unit, model.noise) != ("entry", "laplace"):
        raise PrivacyError("calibration: what was published is for unit='entry' and noise='laplace'")


def _check_flips(model: OneBit) -> None:
    given = [flip for flip in (model.flip_one, model.flip_zero) if flip is not None]
    if given and (len(given) < 2 or model.mechanism != "input"):
        raise PrivacyError("flip_one, flip_zero: give both, for mechanism='input', or neither")
    if given:
        per_bit = bit_epsilon(model.epsilon, model.delta, model.max_entries or 1)
        require_flips(given[0], given[1], per_bit, published=model.calibration == "published")
