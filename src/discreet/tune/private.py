"""The private search: the best of a random number of trials, charged as one event before the first of them.

A trial is one mechanism: draw a setting, fit, score with noise. A search releases the model, the setting and the score
of its best trial. It releases nothing about the others, not even how many there were. docs/proofs/tuning.md.
"""

from __future__ import annotations

import html
import inspect
import itertools
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from sklearn.base import clone

from discreet.data import Interactions
from discreet.errors import DataError, PrivacyError
from discreet.evaluate import private as scoring
from discreet.evaluate.metrics import Metric, Task
from discreet.evaluate.run import pair, threshold_of
from discreet.hashing import ODD, mixed
from discreet.models.private import PrivateModel, large_delta, require_sound
from discreet.parallel import quiet
from discreet.privacy import Cost, Guarantee, Ledger, NoiseSource, Selection
from discreet.privacy.guarantee import Adjacency, account, require_adjacency
from discreet.privacy.selection import Trials, choose
from discreet.privacy.statement import Statement
from discreet.validation import positive, probability, round_up, whole

LABEL = "private search: the best of a random number of trials"
MOST = 1000  # settings
PAID = ("epsilon", "delta", "adjacency", "unit")  # what a trial costs, and what that cost means
SAME = 1e-9  # the largest relative difference between equal costs: plans round in the last bits
SHRINK = 0.98  # factor for mu, if a model costs more than Gaussian releases of its epsilon

Setting: TypeAlias = dict[str, Any]
Space: TypeAlias = Mapping[str, Iterable[Any]] | Iterable[Mapping[str, Any]]


@dataclass(frozen=True)
class Trial:
    """What each trial may spend, whichever setting it tries. Print it."""

    fit: float  # the epsilon of its fit
    score: float  # the epsilon of its private score
    delta: float  # of both, and of the whole search
    run: Cost  # of a trial: fit and score
    trials: Trials  # the distribution of the number of trials
    settings: int  # how many there are to choose from
    metric: str  # for comparing trials
    budget: float  # the largest epsilon that the whole search may cost

    @property
    def cost(self) -> Cost:
        """The cost of the whole search: one event, by Papernot and Steinke."""
        return Cost.of(Selection(self.run, self.trials.mean, self.trials.shape))

    @property
    def epsilon(self) -> float:
        """The epsilon of the whole search."""
        return self.cost.epsilon(self.delta)

    def __str__(self) -> str:
        return (
            f"{self.trials}, each with one of {self.settings:,} settings, drawn at random.\n"
            f"A trial fits with epsilon = {round_up(self.fit)} and is scored, by {self.metric}, with epsilon = "
            f"{round_up(self.score)}.\n"
            f"The search as a whole costs epsilon = {round_up(self.epsilon)}; all at delta = {round_up(self.delta)}."
        )


@dataclass(frozen=True)
class Found:
    """The best trial of a search, and everything that may be known about the search.

    Attributes:
        model: The fitted model. Its guarantee covers the whole search.
        settings: The chosen parameters.
        score: Its score, with noise. The best of several scores is too optimistic: measure again before you publish it.
        metric: The metric of the score.
    """

    model: Any
    settings: Setting
    score: float
    metric: str

    @property
    def guarantee_(self) -> Guarantee:
        """The guarantee of the whole search."""
        return cast(Guarantee, self.model.guarantee_)

    def statement(self) -> Statement:
        """The privacy statement of the whole search."""
        return cast(Statement, self.model.statement())

    def __str__(self) -> str:
        chosen = ", ".join(f"{name}={value!r}" for name, value in self.settings.items())
        return f"{type(self.model).__name__}({chosen}), {self.metric} about {self.score:.4g} (noisy). {self.guarantee_}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(str(self))}</p>"


def preview(
    model: PrivateModel | type[PrivateModel],
    space: Space,
    n_items: int,
    budget: Guarantee | tuple[float, float],
    *,
    metric: str | None = None,
    trials: float = 5.0,
    law: str | float = "poisson",
    score_share: float = 0.1,
) -> Trial:
    """What a trial of `search` could spend, and how many trials there would be. Needs no data and spends nothing.

    The arguments are the same as for `search`, except `n_items`, the size of the catalog. The default metric is rmse.
    """
    base, settings, epsilon_delta = _base(model, space, budget)
    asked, n_items = str(_compared_by(metric or "rmse")), whole("n_items", n_items, 1)
    several = Trials.of(trials, law)
    return calibrated(base, settings, n_items, epsilon_delta, trials=several, metric=asked, share=score_share)


def search(
    model: PrivateModel | type[PrivateModel],
    space: Space,
    data: Interactions | tuple[Interactions, Interactions],
    budget: Guarantee | tuple[float, float],
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
    """Choose hyper-parameters privately: the best of a random number of trials, all of them paid for.

    Each trial draws a setting, fits the model to part of every user's interactions, and scores it on the rest, with
    noise. The whole search is charged to the ledger as one event, by Papernot and Steinke (2022), before the first
    trial; a search that fails or is stopped costs the same. `preview` shows what a trial may spend: much less than a
    fit without a search. `discreet.tune.public_defaults` costs nothing. Try it first.

    The duration of a search reveals roughly how many trials there were, and no guarantee covers time.

    Args:
        model: A private model, instance or class. Its epsilon and delta are replaced by those of a trial.
        space: Parameter -> values, for all combinations; or a list of settings. All must cost the same.
        data: Interactions, part of which is held out for the score, chosen for each user from their own row alone; or a
            pair (train, valid) that was split user by user (`splits.leave_k_out(by="time")`; not `splits.holdout`,
            where one person can change which part of other people's rows is held out).
        budget: What the whole search may cost: (epsilon, delta), or a Guarantee.
        ledger: The ledger that pays; by default the search's own. A ledger with filter="gaussian" takes a search only
            as its first and only charge, one with filter="renyi" also next to others.
        metric: For comparing trials; by default rmse, or recall@20 without values.
        trials: The average number of trials.
        law: The distribution of that number: "poisson" (never 0), "geometric", "logarithmic", or the shape of a
            negative binomial. From about 10 trials on, the last two leave each trial more, but often make few trials.
        score_share: The share of a trial's budget (in mu^2) for its score.
        valid: The share of a user's interactions that is held out for the score.
        random_state: The seed of that choice, which is public.
        max_error: As for `discreet.evaluate` with private=True.
        relevant: As for `discreet.evaluate`.
        threshold: As for `discreet.evaluate`.
    """
    base, settings, epsilon_delta = _base(model, space, budget)
    train, held_out = pair(data, "valid", partial(_divided, share=valid, seed=random_state))
    asked = _compared_by(metric or ("recall@20" if train.implicit else "rmse"))
    asking: dict[str, Any] = {"trials": Trials.of(trials, law), "metric": str(asked), "share": score_share}
    trial = calibrated(base, settings, train.n_items, epsilon_delta, **asking)
    models = [clone(base).set_params(**setting, epsilon=trial.fit, delta=trial.delta) for setting in settings]
    require_sound(train)
    for one in models:
        one._check_parameters()
        one._check_chosen(train)
        one._check_data(train)
    scoring.require_known("valid", held_out, train.items)  # or a trial would fail as soon as there is a target
    task = Task(base, held_out, train, (asked,), relevant=relevant, private=True)
    task = replace(task, max_error=scoring.error_bound(task, max_error))
    if asked.name == "accuracy":
        task = replace(task, threshold=threshold_of(held_out, threshold, private=True))
    epsilon, delta = epsilon_delta
    paying = ledger or Ledger(epsilon=epsilon, delta=delta, unit=base.unit, adjacency=base.adjacency)
    statement = _charged(paying, base, trial, train, settings, own=ledger is None)
    which, fitted, score = _best(models, task, trial, paying.noise_source)
    fitted._certify(statement)
    return Found(fitted, settings[which], score, str(asked))


def _compared_by(name: str) -> Metric:
    """The metric that trials are compared by."""
    metric = Metric.parse(name, "metric")
    scoring.require_private(metric, "metric")
    return metric


def _charged(
    ledger: Ledger, base: PrivateModel, trial: Trial, train: Interactions, settings: list[Setting], *, own: bool
) -> Statement:
    """Charge the whole search and write its statement, before the first trial, so that it reveals no trial."""
    ledger.expect(unit=base.unit, adjacency=base.adjacency)
    event = ledger.charge(trial.cost, LABEL, source=ledger.noise_source)
    guarantee, chosen = ledger.guarantee(trial.cost, [event], delta=trial.delta), train.catalogue.selection
    if chosen is not None:
        guarantee = chosen.guarantee + guarantee
    note = (
        f"The charge is for a private search: {trial.trials}, each with one of {len(settings)} settings, drawn at "
        f"random, fitted with epsilon = {round_up(trial.fit)} and scored by {trial.metric} with epsilon = "
        f"{round_up(trial.score)}. This statement is about the best of them; nothing is released about the others, or "
        f"about how many there were. Noise from {ledger.noise_source.name}."
    )
    names = dict.fromkeys(name for setting in settings for name in setting)
    public = {**train.public_inputs, **base._public_inputs(), "search": f"the values tried of {', '.join(names)}"}
    title = f"{type(base).__name__}: a private recommender, chosen by a private search"
    totals = None if own else ledger.totals()
    notes = [note, *large_delta(trial.delta, getattr(base, "n_users_hint", None) or 0)]
    return Statement.of(title, guarantee, [event], public_inputs=public, ledger=totals, notes=notes, after=chosen)


def _best(models: list[PrivateModel], task: Task, trial: Trial, source: NoiseSource) -> tuple[int, PrivateModel, float]:
    """Run a secret number of trials, and forget all but the best (the first, if there are ties)."""
    best: tuple[int, PrivateModel, float] | None = None
    try:
        with quiet(), warnings.catch_warnings():  # progress and warnings would reveal something about trials
            warnings.simplefilter("ignore")
            for _ in range(trial.trials.draw(source)):
                which = choose(len(models), source)
                fitted, score = _tried(models[which], task, trial, source)
                if best is None or _worth(trial, score) > _worth(trial, best[2]):
                    best = which, fitted, score
    except Exception:  # the reason may be about the data, or about a trial that must stay secret
        raise PrivacyError(
            "search: a trial failed, and with it the search. What was charged for it stays charged. To see why, fit "
            "the model with the same settings to public data"
        ) from None
    assert best is not None
    return best


def _tried(model: PrivateModel, task: Task, trial: Trial, source: NoiseSource) -> tuple[PrivateModel, float]:
    """One trial: a fit and its score. Its own ledger only adds the noise: the search is already charged."""
    own = Ledger(delta=trial.delta, unit=model.unit, adjacency=model.adjacency, noise_source=source)
    fitted: PrivateModel = clone(model).fit(task.history, ledger=own)
    asked = replace(task, model=fitted)
    scores = scoring.release(asked, ledger=own, epsilon=trial.score, delta=trial.delta, confidence=None)
    return fitted, scores[trial.metric]


def _worth(trial: Trial, score: float) -> float:
    """More is better; a score that is NaN because of the noise is the worst."""
    if math.isnan(score):
        return -math.inf
    return -score if Metric.parse(trial.metric).lower_is_better else score


# -- what a trial may spend


def calibrated(
    model: PrivateModel,
    settings: Sequence[Setting],
    n_items: int,
    budget: tuple[float, float],
    *,
    trials: Trials,
    metric: str,
    share: float,
) -> Trial:
    """The most that a trial may spend so that the whole search stays within its budget, for any of these settings."""
    if not positive("score_share", share) < 1:
        raise PrivacyError(f"score_share: must be between 0 and 1, not {share:g}")
    epsilon, delta = budget
    mu = _largest_mu(epsilon, delta, trials)
    while mu:
        fit = account(mu=mu * math.sqrt(1 - share), delta=delta).epsilon
        score = account(mu=mu * math.sqrt(share), delta=delta).epsilon
        planned = scoring.plan([metric], epsilon=score, delta=delta)
        run = _fit_cost(model, settings, n_items, (fit, delta)) + planned.cost
        trial = Trial(fit, score, delta, run, trials, len(settings), metric, epsilon)
        if trial.epsilon <= epsilon:
            return trial
        # At first it is too much by rounding alone; models that are not Gaussian cost more in Renyi DP.
        mu *= 1 - SAME if trial.epsilon <= epsilon * (1 + 100 * SAME) else SHRINK
        mu = mu if mu > 1e-6 else 0.0
    raise PrivacyError(
        f"budget: epsilon = {epsilon:g} at delta = {delta:g} is too little for {trials}; give more, or make fewer"
    )


def _largest_mu(epsilon: float, delta: float, trials: Trials) -> float:
    """The largest mu of a Gaussian trial for which a search stays within the budget; 0 if there is none."""

    def excess(log_mu: float) -> float:
        cost = Cost.of(Selection(Cost.of_mu(math.exp(log_mu)), trials.mean, trials.shape))
        return math.log(max(cost.epsilon(delta), 1e-12) / epsilon)

    high = math.log(account(epsilon=epsilon, delta=delta).mu or 1e-300)
    low = high - 9.0
    if high < -600 or excess(low) > 0:
        return 0.0
    return math.exp(brentq(excess, low, high, xtol=1e-10) - 1e-10) if excess(high) > 0 else math.exp(high)


def _fit_cost(model: PrivateModel, settings: Sequence[Setting], n_items: int, budget: tuple[float, float]) -> Cost:
    """The cost of a fit, which must be the same for all settings."""
    models = [clone(model).set_params(**setting, epsilon=budget[0], delta=budget[1]) for setting in settings]
    costs = [tried.plan(n_items).cost for tried in models]
    most = max(cost.gaussian for cost in costs)
    for setting, cost in zip(settings, costs, strict=True):
        if cost.events != costs[0].events or cost.gaussian < most * (1 - SAME):
            raise PrivacyError(
                f"space: {setting} does not cost the same as the others; leave out what changes the cost"
            )
    return Cost(most, max(cost.releases for cost in costs), costs[0].events)


# -- checks of the arguments


def settings_of(model: PrivateModel, space: Any) -> list[Setting]:
    """All settings of a space, checked against the parameters of a model."""
    several = [*space] if isinstance(space, Iterable) and not isinstance(space, Mapping | str) else [space]
    if odd := [one for one in several if not isinstance(one, Mapping)]:
        raise DataError(
            f"space: a mapping from parameters to lists was expected, or a list of settings, not {odd[0]!r}"
        )
    if isinstance(space, Mapping):
        for name, values in space.items():
            if isinstance(values, str) or not isinstance(values, Iterable):
                raise DataError(f"space: a list of values was expected for {name!r}, not {values!r}")
        product = itertools.product(*space.values())
        several = [dict(zip(space, values, strict=True)) for values in product] if space else []
    found = [dict(setting) for setting in several]
    if not found:
        raise DataError("space: there is nothing to choose from; give for instance {'n_steps': [2, 4, 8]}")
    if len(found) > MOST:
        raise DataError(f"space: {len(found):,} settings are too many (at most {MOST:,}); a search tries only a few")
    known = model.get_params(deep=False)
    for name in dict.fromkeys(name for setting in found for name in setting):
        if name in PAID:
            raise PrivacyError(f"space: {name} decides what a trial costs, or what that means; leave it out")
        if name not in known:
            free = ", ".join(parameter for parameter in known if parameter not in PAID)
            raise DataError(f"space: {type(model).__name__} has no parameter {name!r}; it has {free}")
    return found


def _base(model: Any, space: Any, given: Any) -> tuple[PrivateModel, list[Setting], tuple[float, float]]:
    """An instance of the model, all settings of the space, and epsilon and delta of the budget."""
    budget = (given.epsilon, given.delta) if isinstance(given, Guarantee) else given
    if not isinstance(budget, tuple | list) or len(budget) != 2:
        raise PrivacyError(f"budget: a pair (epsilon, delta) was expected, not {budget!r}")
    budget = positive("budget: epsilon", budget[0]), probability("budget: delta", budget[1])
    if inspect.isclass(model) and issubclass(model, PrivateModel):
        model = model(epsilon=budget[0], delta=budget[1])  # every private model takes them
    if not isinstance(model, PrivateModel):
        name = model.__name__ if inspect.isclass(model) else type(model).__name__
        raise PrivacyError(f"model: a private model is needed, discreet.DPALS for instance, not {name}")
    if model.unit != "user":
        raise PrivacyError(f"model: a private score is proved for users, but the unit of this model is {model.unit!r}")
    require_adjacency(model.adjacency, *Adjacency)
    return model, settings_of(model, space), budget


def _divided(data: Interactions, share: float, seed: int) -> tuple[Interactions, Interactions]:
    if not 0 < positive("valid", share) < 1:
        raise DataError(f"valid: must be between 0 and 1, not {share:g}")
    held_out = own_share(data, share, whole("random_state", seed, 0))
    return data.where(~held_out), data.where(held_out)


def own_share(data: Interactions, share: float, seed: int) -> NDArray[np.bool_]:
    """Which interactions to hold out: about this share of each user's, pseudo-randomly, by their own row alone.

    The choice depends on the seed, the item and all items of the user. Nobody can change what is held out of another
    person's row, as they could in a random split of the whole table.
    """
    items = mixed(data.indices.astype(np.uint64) + np.uint64(seed % 2**32) * ODD)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(items, dtype=np.uint64)])
    rows = sums[data.indptr[1:]] - sums[data.indptr[:-1]]  # modulo 2^64, on purpose
    return mixed(items ^ rows[data.user_numbers()]) < np.uint64(min(int(share * 2**64), 2**64 - 1))
