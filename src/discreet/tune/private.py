"""The private search: the best of a random number of trials, charged as one event before the first of them.

A trial is one mechanism: draw a setting, fit, score with noise. What a search releases is that of the best trial, its
model, its setting and its score, and nothing of the others: not how many there were. docs/proofs/tuning.md.
"""

from __future__ import annotations

import html
import inspect
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from discreet.data import Interactions
from discreet.data.progress import quiet
from discreet.errors import DataError, PrivacyError
from discreet.evaluate import private as scoring
from discreet.evaluate.collect import Task
from discreet.evaluate.metrics import parse
from discreet.evaluate.run import threshold_of
from discreet.evaluate.tradeoff_result import LOWER_IS_BETTER
from discreet.hashing import ODD, mixed
from discreet.models.private import PrivateModel, large_delta, require_sound
from discreet.privacy import Guarantee, Ledger
from discreet.privacy.guarantee import Adjacency, require_adjacency
from discreet.privacy.selection import Trials, choose
from discreet.privacy.statement import Statement
from discreet.tune.calibration import Trial, budget_of, calibrated
from discreet.tune.space import Setting, settings_of
from discreet.validation import positive, round_up, whole

if TYPE_CHECKING:
    from discreet.privacy import NoiseSource

LABEL = "private search: the best of a random number of trials"


@dataclass(frozen=True)
class Found:
    """The best trial of a search, and all that anybody may know of it.

    Attributes:
        model: The model, fitted; its guarantee is that of the whole search.
        settings: The parameters that were chosen.
        score: What it scored, with noise. The best of several is a flattering number: measure again to publish one.
        metric: What that is.
    """

    model: Any
    settings: Setting
    score: float
    metric: str

    @property
    def guarantee_(self) -> Guarantee:
        """What the whole search promises."""
        found: Guarantee = self.model.guarantee_
        return found

    def statement(self) -> Statement:
        """The privacy statement of the whole search."""
        found: Statement = self.model.statement()
        return found

    def __str__(self) -> str:
        chosen = ", ".join(f"{name}={value!r}" for name, value in self.settings.items())
        return f"{type(self.model).__name__}({chosen}), {self.metric} about {self.score:.4g} (noisy). {self.guarantee_}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(str(self))}</p>"


def preview(
    model: Any,
    space: Any,
    n_items: int,
    budget: Any,
    *,
    metric: str | None = None,
    trials: float = 5.0,
    law: str | float = "poisson",
    score_share: float = 0.1,
) -> Trial:
    """What a trial of `search` would get, and how many there would be; needs no data and spends nothing. Print it.

    Args:
        model: As for `search`.
        space: As for `search`.
        n_items: The size of the catalogue.
        budget: As for `search`.
        metric: As for `search`; by default rmse.
        trials: As for `search`.
        law: As for `search`.
        score_share: As for `search`.
    """
    epsilon_delta = budget_of(budget)
    base = _base(model, epsilon_delta)
    settings, named = settings_of(base, space), str(parse(metric or "rmse")[0])
    law_of_trials, n_items = Trials.of(trials, law), whole("n_items", n_items, 1)
    return calibrated(base, settings, n_items, epsilon_delta, trials=law_of_trials, metric=named, share=score_share)


def search(
    model: Any,
    space: Any,
    data: Interactions | tuple[Interactions, Interactions],
    budget: Any,
    ledger: Ledger | None = None,
    *,
    metric: str | None = None,
    trials: float = 5.0,
    law: str | float = "poisson",
    score_share: float = 0.1,
    valid: float = 0.1,
    random_state: int = 0,
    max_error: float | None = None,
    relevant: float | None = None,
    threshold: float | None = None,
) -> Found:
    """Choose hyper-parameters privately: the best of a random number of trials, all of it paid for.

    Each trial draws a setting, fits the model to a part of every user's interactions, and scores it on the rest, with
    noise. The whole is charged to the ledger as one event, by Papernot and Steinke (2022), before the first trial; a
    search that fails, or is stopped, has cost as much. `preview` says what a trial gets: it is a good deal less than a
    fit without a search would, and `discreet.tune.public_defaults` costs nothing. Try that first.

    How long a search takes tells roughly how many trials there were, and no guarantee covers time.

    Args:
        model: A private model, instance or class; its epsilon and delta are replaced by those of a trial.
        space: Parameter -> values, of which all combinations count; or a list of settings. All must cost the same.
        data: Interactions, of which each user keeps a part for the score, chosen from their own row alone; or a pair
            (train, valid) that was divided user by user (`splits.leave_k_out(by="time")`; not `splits.holdout`, by
            which one person's coming changes what part of other people's rows is held out).
        budget: What the whole search may cost: (epsilon, delta), or a Guarantee.
        ledger: Who pays; by default a ledger of the search's own. One with filter="gaussian" takes a search only as
            its first and only charge, one with filter="renyi" beside others.
        metric: What trials are compared by; by default rmse, or recall@20 without values.
        trials: How many on average.
        law: Of their number: "poisson" (never 0), "geometric", "logarithmic", or a negative binomial's shape. From
            about 10 trials on, the last two leave each trial more, but often make few of them.
        score_share: The share of a trial's budget (in mu^2) that its score gets.
        valid: The share of a user's interactions that is kept for the score.
        random_state: The seed by which they are chosen, public.
        max_error: As for `discreet.evaluate` with private=True.
        relevant: As for `discreet.evaluate`.
        threshold: As for `discreet.evaluate`.
    """
    epsilon_delta = budget_of(budget)
    base = _base(model, epsilon_delta)
    settings = settings_of(base, space)
    train, held_out = _divided(data, valid, random_state)
    asked = parse(metric or ("recall@20" if train.implicit else "rmse"))[0]
    law_of_trials = Trials.of(trials, law)
    trial = calibrated(
        base, settings, train.n_items, epsilon_delta, trials=law_of_trials, metric=str(asked), share=score_share
    )
    models = [clone(base).set_params(**setting, epsilon=trial.fit, delta=trial.delta) for setting in settings]
    require_sound(train)
    for one in models:
        one._check_parameters()
        one._check_data(train)
    task = Task(base, held_out, train, (asked,), relevant=relevant, private=True)
    task = replace(task, max_error=scoring.error_bound(task, max_error))
    if asked.name == "accuracy":
        task = replace(task, threshold=threshold_of(held_out, threshold, private=True))
    paying = ledger
    if paying is None:
        paying = Ledger(epsilon=epsilon_delta[0], delta=trial.delta, unit=base.unit, adjacency=base.adjacency)
    statement = _charged(paying, base, trial, train, settings, own=ledger is None)
    which, fitted, score = _best(models, task, trial, paying.noise_source)
    fitted._certify(statement)
    return Found(fitted, settings[which], score, str(asked))


def _charged(
    ledger: Ledger, base: PrivateModel, trial: Trial, train: Interactions, settings: list[Setting], *, own: bool
) -> Statement:
    """Charge the whole search, durably, and write its statement: before the first trial, so that it knows of none."""
    ledger.expect(unit=base.unit, adjacency=base.adjacency)
    event = ledger.charge(trial.cost, LABEL, source=ledger.noise_source)
    guarantee = ledger.guarantee(trial.cost, [event], delta=trial.delta)
    note = (
        f"The charge is for a private search: {trial.trials}, each of one of {len(settings)} settings drawn at random, "
        f"fitted with epsilon = {round_up(trial.fit)} and scored by {trial.metric} with epsilon = "
        f"{round_up(trial.score)}. The best is what this statement is about; of the others, and of how many there "
        f"were, nothing is released. Noise from {ledger.noise_source.name}."
    )
    names = dict.fromkeys(name for setting in settings for name in setting)
    public = {**train.public_inputs, **base._public_inputs(), "search": f"the values tried of {', '.join(names)}"}
    title = f"{type(base).__name__}: a private recommender, chosen by a private search"
    totals = None if own else ledger.totals()
    notes = [note, *large_delta(trial.delta, getattr(base, "n_users_hint", None) or 0)]
    return Statement.of(title, guarantee, [event], public_inputs=public, ledger=totals, notes=notes)


def _best(models: list[Any], task: Task, trial: Trial, source: NoiseSource) -> tuple[int, Any, float]:
    """Run a secret number of trials, and forget all but the best; the first of equals."""
    best: tuple[int, Any, float] | None = None
    try:
        with _silence():
            for _ in range(trial.trials.draw(source)):
                which = choose(len(models), source)
                fitted, score = _tried(models[which], task, trial, source)
                if best is None or _worth(trial, score) > _worth(trial, best[2]):
                    best = which, fitted, score
    except Exception:  # whatever it was may be about the data, or about a trial that nobody may know of
        raise PrivacyError(
            "search: a trial failed, and with it the search. What was charged for it stays charged. To see why, fit "
            "the model with the same settings to data that are public"
        ) from None
    assert best is not None
    return best


def _tried(model: Any, task: Task, trial: Trial, source: NoiseSource) -> tuple[Any, float]:
    """One trial: a fit and its score, through a ledger of their own that only puts noise on them."""
    door = Ledger(delta=trial.delta, unit=model.unit, adjacency=model.adjacency, noise_source=source)
    fitted = clone(model).fit(task.history, ledger=door)
    measured = scoring.release(
        replace(task, model=fitted), ledger=door, epsilon=trial.score, delta=trial.delta, confidence=None
    )
    return fitted, measured[trial.metric]


def _worth(trial: Trial, score: float) -> float:
    """More is better; a score that the noise has drowned is the worst."""
    if math.isnan(score):
        return -math.inf
    return -score if trial.metric in LOWER_IS_BETTER else score


@contextmanager
def _silence() -> Iterator[None]:
    """No progress and no warnings: both would tell of trials."""
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


# -- what was given


def _base(model: Any, budget: tuple[float, float]) -> PrivateModel:
    """An instance, with the budget in the place of its own."""
    if inspect.isclass(model) and issubclass(model, PrivateModel):
        model = model(epsilon=budget[0], delta=budget[1])
    if not isinstance(model, PrivateModel):
        name = model.__name__ if inspect.isclass(model) else type(model).__name__
        raise PrivacyError(f"model: a private model is needed, discreet.DPALS for instance, not {name}")
    if model.unit != "user":
        raise PrivacyError(f"model: a private score is proved for users, but the unit of this model is {model.unit!r}")
    require_adjacency(model.adjacency, *Adjacency)
    return model


def _divided(data: Any, share: float, seed: int) -> tuple[Interactions, Interactions]:
    if isinstance(data, Interactions):
        if not 0 < positive("valid", share) < 1:
            raise DataError(f"valid: a share between 0 and 1 is needed, not {share:g}")
        held_out = own_share(data, share, whole("random_state", seed, 0))
        return data.where(~held_out), data.where(held_out)
    if isinstance(data, tuple | list) and len(data) == 2 and all(isinstance(part, Interactions) for part in data):
        return data[0], data[1]
    raise DataError("data: Interactions (see discreet.read) or a pair (train, valid) of them was expected")


def own_share(data: Interactions, share: float, seed: int) -> NDArray[np.bool_]:
    """Which interactions are held out: about this share of each user's, as if at random, by their own row alone.

    A pseudo-random function of the seed, the item and all items of the user. Nobody's coming or going changes what is
    held out of anybody else's row, as a random division of the whole table would.
    """
    items = mixed(data.indices.astype(np.uint64) + np.uint64(seed % 2**32) * ODD)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(items, dtype=np.uint64)])
    rows = sums[data.indptr[1:]] - sums[data.indptr[:-1]]  # modulo 2^64, as is meant
    return mixed(items ^ rows[data.user_numbers()]) < np.uint64(min(int(share * 2**64), 2**64 - 1))
