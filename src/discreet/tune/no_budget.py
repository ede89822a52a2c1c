"""Hyper-parameters that spend no privacy budget: by a public rule, or by the owner's own search.

The rule is the default of `DPALS`, a function of epsilon, delta, the size of the catalog and a hint of the number of
users. docs/guide/tuning.md explains how it was found, and how much better the best settings are. The owner's search
looks at exact numbers: it is not private, and the model that it chooses says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import isclass
from typing import Any

from sklearn.base import clone

from discreet.data import Interactions, splits
from discreet.errors import DataError, MissingExtra
from discreet.evaluate.metrics import parse
from discreet.evaluate.run import evaluate
from discreet.models.als.contributions import USER_VECTOR
from discreet.models.als.estimate import BIAS_SPREAD, COLUMN_SPREAD, PROBES
from discreet.models.als.model import DPALS
from discreet.models.als.moments import KERNEL_COLUMNS
from discreet.models.base import Model
from discreet.parallel import Bar, quiet
from discreet.privacy import Ledger
from discreet.tune.private import PAID, Found
from discreet.validation import whole

SLOPES = 2  # columns of every model: how much users follow biases, and popularity
STAMP = "hyper-parameters chosen on private data, not covered"


@dataclass(frozen=True)
class Defaults:
    """The settings for public inputs. Print them; `DPALS(**parameters)` is the model with these settings.

    Attributes:
        parameters: The arguments of `DPALS`.
        rank: The largest possible number of columns. Their actual number follows from what is released.
        n_steps: Item steps.
        clips: Release -> bound of a user's contribution to it, for ratings with a standard deviation of 1.
        budget: Release -> share of mu^2, of all releases under that name together.
        regularization: Weight of users' squared vectors, and the spread of item biases and columns.
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
        n_users_hint: The approximate number of users, if it may be public; otherwise None.
        n_items: The size of the catalog.
        epsilon: The privacy budget.
        delta: The delta of the budget.

    Example:
        >>> import discreet
        >>> discreet.tune.public_defaults(6000, 3706, epsilon=1.0, delta=1e-6).n_steps
        5
    """
    model = DPALS(epsilon=epsilon, delta=delta, n_users_hint=n_users_hint)
    model.plan(whole("n_items", n_items, 1))  # raises for parameters that `fit` would refuse
    found = model._settings(n_items)
    return Defaults(
        parameters={"epsilon": epsilon, "delta": delta, "n_users_hint": n_users_hint, "n_steps": found.n_steps},
        rank=SLOPES + PROBES + KERNEL_COLUMNS + (found.n_directions if found.looks_for_directions else 0),
        n_steps=found.n_steps,
        clips=found.bounds,
        budget={label: share if isinstance(share, float) else share[0] for label, share in found.shares.items()},
        regularization={
            "users' vectors": USER_VECTOR,
            "spread of item biases": BIAS_SPREAD,
            "spread of item columns": COLUMN_SPREAD,
        },
    )


def owner_search(
    model: Model,
    space: Mapping[str, Sequence[Any]] | Callable[[Any], Mapping[str, Any]],
    data: Interactions,
    *,
    metric: str | None = None,
    n_trials: int = 30,
    valid: float = 0.1,
    random_state: int = 0,
    sampler: Any = None,
    ledger: Ledger | None = None,
) -> Found:
    """Choose hyper-parameters by exact errors on validation data, and fit the best to all data: for the owner.

    No guarantee covers a choice made by looking at private data. The model's guarantee and statement always say so:
    "hyper-parameters chosen on private data, not covered". Use it to learn what is possible; to publish a model, use
    `public_defaults` or `search`.

    Args:
        model: A model, private or not, with its final epsilon and delta.
        space: Parameter -> values; or a function of an Optuna trial that suggests a setting.
        data: Interactions.
        metric: By default rmse, or recall@20 without values.
        n_trials: How many settings to try.
        valid: The share of the interactions to validate on.
        random_state: The seed of that split, and of Optuna's default sampler.
        sampler: Another Optuna sampler.
        ledger: The ledger that pays for the final fit, which is returned.
    """
    try:
        import optuna
    except ImportError:
        raise MissingExtra("owner_search", "tune") from None
    if not isinstance(data, Interactions):
        raise DataError(f"data: Interactions were expected, not {type(data).__name__}; see discreet.read")
    if isclass(model) or not hasattr(model, "get_params"):
        raise DataError("model: an unfitted model is needed, such as discreet.DPALS(epsilon=1, delta=1e-6)")
    suggest = _suggestions(model, space)
    asked = parse(metric or ("recall@20" if data.implicit else "rmse"))[0]
    seed = whole("random_state", random_state, 0)
    train, held_out, _ = splits.holdout(data, valid=valid, test=0.0, random_state=seed)
    optuna.logging.disable_propagation()
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        study = optuna.create_study(
            direction="minimize" if asked.lower_is_better else "maximize",
            sampler=sampler or optuna.samplers.TPESampler(seed=random_state),
        )
        with Bar("search", whole("n_trials", n_trials, 1), f"of {n_trials} trials") as bar:

            def objective(trial: Any) -> float:
                setting = dict(suggest(trial))
                with quiet():
                    tried = clone(model).set_params(**setting).fit(train)
                    score = evaluate(tried, held_out, history=train, metrics=str(asked), confidence=None)[str(asked)]
                trial.set_user_attr("setting", setting)
                bar.advance(1)
                return score

            study.optimize(objective, n_trials=n_trials)
    finally:
        optuna.logging.set_verbosity(before)
    chosen: dict[str, Any] = study.best_trial.user_attrs["setting"]
    best = clone(model).set_params(**chosen).fit(data, ledger=ledger)
    best._certify(best.statement().void(STAMP))
    return Found(best, chosen, float(study.best_value), str(asked))


def _suggestions(model: Model, space: Any) -> Callable[[Any], Mapping[str, Any]]:
    """A function of an Optuna trial; for a mapping, one that takes a value from each list."""
    if callable(space):
        return space  # type: ignore[no-any-return]
    lists = space.values() if isinstance(space, Mapping) else ()
    if not lists or not all(isinstance(values, list | tuple) and values for values in lists):
        raise DataError("space: a mapping from parameters to lists of values was expected, or a function of a trial")
    known = model.get_params(deep=False)
    for name in space:
        if name not in known or name in PAID:
            free = ", ".join(parameter for parameter in known if parameter not in PAID)
            raise DataError(f"space: {name!r} is not a parameter of {type(model).__name__} to choose; it has {free}")

    def suggest(trial: Any) -> Mapping[str, Any]:
        at = {name: trial.suggest_categorical(name, list(range(len(values)))) for name, values in space.items()}
        return {name: space[name][number] for name, number in at.items()}

    return suggest
