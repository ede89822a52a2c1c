"""The owner's own search, by exact numbers, with Optuna. It is not private, and the model that it chooses says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sklearn.base import clone

from discreet.data import Interactions, splits
from discreet.data.progress import Bar, quiet
from discreet.errors import DataError, MissingExtra
from discreet.evaluate.metrics import parse
from discreet.evaluate.run import evaluate
from discreet.evaluate.tradeoff_result import LOWER_IS_BETTER
from discreet.tune.private import Found
from discreet.tune.space import PAID
from discreet.validation import whole

STAMP = "hyper-parameters chosen on private data, not covered"


def owner_search(
    model: Any,
    space: Mapping[str, Any] | Callable[[Any], Mapping[str, Any]],
    data: Interactions,
    *,
    metric: str | None = None,
    n_trials: int = 30,
    valid: float = 0.1,
    random_state: int = 0,
    sampler: Any = None,
    ledger: Any = None,
) -> Found:
    """Choose hyper-parameters by exact errors on validation data, and fit the best to all data: for the owner.

    No guarantee covers a choice that was made by looking at private data. The model that comes back is stamped
    "hyper-parameters chosen on private data, not covered", in its guarantee and its statement, for good. Use it to
    learn what could be had; to publish a model, use `public_defaults` or `search`.

    Args:
        model: A model, private or not, with the epsilon and delta that it is to have.
        space: Parameter -> values; or a function of an Optuna trial that suggests a setting.
        data: Interactions.
        metric: By default rmse, or recall@20 without values.
        n_trials: How many settings to try.
        valid: The share of the interactions to validate on.
        random_state: The seed of that division, and of Optuna's own sampler.
        sampler: Another sampler of Optuna's.
        ledger: Who pays for the last fit, the one that comes back.
    """
    try:
        import optuna
    except ImportError:
        raise MissingExtra("owner_search", "tune") from None
    if not isinstance(data, Interactions):
        raise DataError(f"data: Interactions were expected, not {type(data).__name__}; see discreet.read")
    suggest = _suggestions(model, space)
    asked = parse(metric or ("recall@20" if data.implicit else "rmse"))[0]
    train, held_out, _ = splits.holdout(
        data, valid=valid, test=0.0, random_state=whole("random_state", random_state, 0)
    )
    lower = asked.name in LOWER_IS_BETTER
    optuna.logging.disable_propagation()
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        study = optuna.create_study(
            direction="minimize" if lower else "maximize",
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


def _suggestions(model: Any, space: Any) -> Callable[[Any], Mapping[str, Any]]:
    """A function of an Optuna trial; of a mapping, one that takes a value of each list."""
    if callable(space):
        return space  # type: ignore[no-any-return]
    if (
        not isinstance(space, Mapping)
        or not space
        or not all(isinstance(v, list | tuple) and v for v in space.values())
    ):
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
