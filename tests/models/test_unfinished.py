"""A fit that is stopped is finished by the same call: at no further cost, with the model it would have given."""

import hashlib
import itertools
import json
import os
import pickle
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import discreet
from discreet import Ledger
from discreet.data import Interactions
from discreet.errors import BudgetExceeded, DataError, DiscreetError, ModelError, PrivacyError
from discreet.models import model_folder, unfinished
from discreet.models.base import Model
from discreet.privacy import Cost, Reservation
from discreet.testing import InsecureSeededNoise

DELTA = 1e-6
RATINGS = discreet.datasets.movielens_like(120, 20, 1500, random_state=0)
LIKED = RATINGS.to_implicit(4)


def dpals(**params: Any) -> Model:
    return discreet.DPALS(**{"epsilon": 1.0, "delta": DELTA, "n_steps": 2, **params})


MODELS: dict[str, tuple[Callable[[], Any], Interactions]] = {
    "DPALS": (dpals, RATINGS),
    "DPSVD": (lambda: discreet.DPSVD(epsilon=1.0, delta=DELTA), LIKED),
    "DPFrankWolfe": (lambda: discreet.DPFrankWolfe(epsilon=50.0, delta=DELTA, n_steps=3), RATINGS),
    "DPGradientDescent": (lambda: discreet.DPGradientDescent(epsilon=1.0, delta=DELTA, n_steps=2), RATINGS),
    "DPCleansedSVD": (lambda: discreet.DPCleansedSVD(epsilon=1.0, delta=DELTA), RATINGS),
    "DPSGD": (lambda: discreet.DPSGD(epsilon=1.0, delta=DELTA, n_steps=3, sample_rate=1.0), RATINGS),
    "OneBit": (lambda: discreet.OneBit(threshold=4, epsilon=2.0), RATINGS),
    "Recommender": (lambda: discreet.Recommender(epsilon=1.0, delta=DELTA), RATINGS),
}


def fit(folder: Path, model: Any = None, ratings: Interactions = RATINGS, **given: Any) -> Any:
    return (model or dpals()).fit(ratings, checkpoint=folder, **given)


def learned(model: Any) -> bytes:
    model = getattr(model, "model_", model)
    sha256 = hashlib.sha256()
    for name in model._ARRAYS:
        sha256.update(getattr(model, name).tobytes())
    sha256.update(repr([getattr(model, name) for name in model._VALUES]).encode())
    return sha256.digest()


@contextmanager
def stopped_after(count: int) -> Iterator[None]:
    """A run that stops before its next release, once so many have been made."""
    real, made = Reservation.entry, itertools.count()

    def entry(self: Reservation, *given: Any) -> Any:
        if next(made) == count:
            raise KeyboardInterrupt
        return real(self, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Reservation, "entry", entry)
        yield


def stop(folder: Path, count: int = 2, **given: Any) -> None:
    with stopped_after(count), pytest.raises(KeyboardInterrupt):
        fit(folder, **given)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def seeded(url: str, model: Any, drawn: int) -> Ledger:
    """Noise that can be repeated, from where it was left."""
    source = InsecureSeededNoise(7)
    source._count = itertools.count(drawn)
    unit, adjacency = getattr(model, "unit", "user"), getattr(model, "adjacency", "add-remove")
    return Ledger(url, delta=DELTA, unit=unit, adjacency=adjacency, noise_source=source, create=True)


@pytest.mark.parametrize("name", MODELS)
def test_the_model_is_the_one_of_a_fit_that_nothing_stopped(tmp_path: Path, name: str) -> None:
    """Bit for bit, wherever it was stopped; and what was paid for is the plan, once."""
    make, ratings = MODELS[name]
    whole = seeded(f"sqlite:///{tmp_path}/whole.db", make(), 0)
    wanted, events = learned(make().fit(ratings, ledger=whole)), whole.events
    for count in sorted({0, 1, len(events) - 1} - {len(events)}):
        url, folder = f"sqlite:///{tmp_path}/{count}.db", tmp_path / str(count)
        stop(folder, count, model=make(), ratings=ratings, ledger=seeded(url, make(), 0))
        model = fit(folder, make(), ratings, ledger=seeded(url, make(), count))
        ledger = Ledger(url)
        ledger.verify()
        assert learned(model) == wanted
        assert ledger.spent.cost == whole.spent.cost
        assert [event.label for event in ledger.events] == [event.label for event in events]
        model.save(tmp_path / f"model-{count}")
        assert not folder.exists()


def test_without_a_ledger_it_has_one_of_its_own(tmp_path: Path) -> None:
    stop(tmp_path / "fit")
    ledger = Ledger(unfinished._url(tmp_path / "fit"), create=False)
    assert len(ledger.events) == 2
    assert len(ledger.open_reservations()) == 1
    model = fit(tmp_path / "fit")
    assert learned(fit(tmp_path / "fit")) == learned(model)  # the same again, until it is saved
    ledger.verify()
    assert model.guarantee_.holds
    assert ledger.spent.cost == model.guarantee_.cost == model.plan(20).cost
    model.save(tmp_path / "model")
    assert os.listdir(tmp_path) == ["model"]
    assert learned(discreet.load(tmp_path / "model")) == learned(model)


def test_killed_again_and_again(tmp_path: Path) -> None:
    """SIGKILL at moments chosen by a clock, anywhere in a fit, until one run is done: then nothing was paid twice."""
    url, folder, clock, killed = f"sqlite:///{tmp_path}/ledger.db", tmp_path / "fit", random.Random(1), 0
    ledger = Ledger(url, epsilon=3, delta=DELTA)
    began = time.perf_counter()
    fit(tmp_path / "warm")
    usual = time.perf_counter() - began
    for wait in itertools.count(0):
        child = os.fork()
        if child == 0:
            try:
                model = fit(folder, ledger=Ledger(url))
                (tmp_path / "learned").write_bytes(learned(model))
            finally:
                os._exit(0)
        if wait < 12:
            time.sleep(clock.uniform(0, 0.7 * usual) if wait else 0)
            os.kill(child, signal.SIGKILL)
        killed += os.WIFSIGNALED(os.waitpid(child, 0)[1])
        ledger.verify()
        if (tmp_path / "learned").exists():
            break
    model = fit(folder, ledger=ledger)  # an uninterrupted run, given the same arrays
    assert learned(model) == (tmp_path / "learned").read_bytes()
    plan = model.plan(20)
    assert killed > 0
    assert ledger.spent.cost == plan.cost
    assert sum((event.cost for event in ledger.events), Cost()).within(plan.cost)
    assert ledger.open_reservations() == []


def test_killed_before_anything_was_reserved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    Ledger(url, epsilon=1, delta=DELTA)
    child = os.fork()
    if child == 0:
        monkeypatch.setattr(Ledger, "reserve", lambda *given, **named: os._exit(0))
        try:
            fit(tmp_path / "fit", ledger=Ledger(url))
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert os.listdir(tmp_path / "fit") == ["fit.json"]
    model = fit(tmp_path / "fit", ledger=Ledger(url))
    assert Ledger(url).spent.cost == model.guarantee_.cost


def test_nothing_is_left_where_nothing_was_reserved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = Ledger(f"sqlite:///{tmp_path}/ledger.db", epsilon=0.5, delta=DELTA)
    with pytest.raises(BudgetExceeded):
        fit(tmp_path / "a" / "fit", ledger=small)
    with pytest.raises(PrivacyError, match=r"checkpoint: a ledger in memory .* give the ledger a URL"):
        fit(tmp_path / "a" / "fit", ledger=Ledger(epsilon=1, delta=DELTA))
    with pytest.raises(DataError, match="n_jobs"):
        fit(tmp_path / "a" / "fit", dpals(n_jobs=0))
    with pytest.raises(ModelError, match=r"in a path with a '\?'"):
        fit(tmp_path / "a?" / "fit")

    def full(*given: Any) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(unfinished, "put", full)
    with pytest.raises(OSError, match="No space left"):
        fit(tmp_path / "a" / "fit")
    assert os.listdir(tmp_path) == ["ledger.db"]
    assert not small.events


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (discreet.ALS(), "spends nothing"),
        (discreet.OneBit(None, threshold=3), "nothing is spent"),
        (discreet.OneBit(threshold=3, epsilon=1, perturbed=True), "flipped elsewhere"),
        (discreet.OneBit("objective", "probit", threshold=3, epsilon=1), "must stay secret"),
    ],
)
def test_models_that_cannot_go_on_say_so_first(tmp_path: Path, model: Any, why: str) -> None:
    ledger = None if isinstance(model, discreet.ALS) else Ledger(f"sqlite:///{tmp_path}/l.db", create=True)
    with pytest.raises(DataError, match=f"checkpoint: {type(model).__name__} takes none: .*{why}"):
        model.fit(RATINGS, ledger=ledger, checkpoint=tmp_path / "fit")
    assert ledger is None or len(ledger.entries) == 1
    assert not (tmp_path / "fit").exists()


OTHERS: dict[str, tuple[Callable[[], Any], Interactions, str]] = {
    "epsilon": (lambda: dpals(epsilon=2.0), RATINGS, "another epsilon;"),
    "n_steps": (lambda: dpals(n_steps=3), RATINGS, "another n_steps;"),
    "adjacency": (lambda: dpals(adjacency="replace"), RATINGS, "another adjacency;"),
    "class": (lambda: discreet.DPSVD(epsilon=1.0, delta=DELTA), RATINGS, "another class, "),
    "catalogue": (dpals, RATINGS.for_items(RATINGS.items.to_list()[1:]), "another .*catalogue;"),
    "value_range": (dpals, RATINGS.rescale(1, 5), "another value_range;"),
}


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("own", [True, False])
def test_another_fit_is_refused_and_nothing_changes(tmp_path: Path, own: bool, other: str) -> None:
    make, ratings, said = OTHERS[other]
    ledger = None if own else Ledger(f"sqlite:///{tmp_path}/ledger.db", epsilon=9, delta=DELTA)
    stop(tmp_path / "fit", ledger=ledger)
    before, entries = contents(tmp_path / "fit"), ledger and ledger.entries
    with pytest.raises(DiscreetError, match=said) as caught:
        fit(tmp_path / "fit", make(), ratings, ledger=ledger)
    assert str(tmp_path / "fit") in str(caught.value)
    assert contents(tmp_path / "fit") == before
    assert ledger is None or ledger.entries == entries
    fit(tmp_path / "fit", dpals(n_jobs=2), ledger=ledger)  # how fast it goes may change


def test_another_ledger_is_refused(tmp_path: Path) -> None:
    ledger, other = (Ledger(f"sqlite:///{tmp_path}/{name}.db", epsilon=2, delta=DELTA) for name in "ab")
    same_file = Ledger(f"sqlite:///{tmp_path}/a.db", epsilon=2, delta=DELTA, name="other")
    stop(tmp_path / "fit", ledger=ledger)
    stop(tmp_path / "own")
    before = contents(tmp_path / "fit"), contents(tmp_path / "own"), ledger.entries
    for wrong in (other, same_file):
        with pytest.raises(PrivacyError, match=r"paid for by the ledger 'default' at sqlite:.*/a\.db, and this one"):
            fit(tmp_path / "fit", ledger=wrong)
        assert len(wrong.entries) == 1
    with pytest.raises(PrivacyError, match="give that"):
        fit(tmp_path / "fit")
    with pytest.raises(PrivacyError, match="began with a ledger of its own"):
        fit(tmp_path / "own", ledger=ledger)
    assert (contents(tmp_path / "fit"), contents(tmp_path / "own"), ledger.entries) == before


def test_a_ledger_that_has_forgotten_the_fit_pays_for_no_second_draw(tmp_path: Path) -> None:
    Ledger(f"sqlite:///{tmp_path}/ledger.db", epsilon=2, delta=DELTA)
    shutil.copy(tmp_path / "ledger.db", tmp_path / "old.db")
    stop(tmp_path / "fit", ledger=Ledger(f"sqlite:///{tmp_path}/ledger.db"))
    old = Ledger(f"sqlite:///{tmp_path}/old.db")
    with pytest.raises(PrivacyError, match="knows nothing of it"):
        fit(tmp_path / "fit", ledger=old)
    assert len(old.entries) == 1


def test_an_old_copy_of_the_folder_is_refused(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/ledger.db", epsilon=2, delta=DELTA)
    stop(tmp_path / "fit", 1, ledger=ledger)
    shutil.copytree(tmp_path / "fit", tmp_path / "backup")
    fit(tmp_path / "fit", ledger=ledger).save(tmp_path / "model")
    spent, entries = ledger.spent.cost, ledger.entries
    with pytest.raises(PrivacyError, match="is missing; the ledger says"):
        fit(tmp_path / "backup", ledger=ledger)
    assert ledger.spent.cost == spent
    assert ledger.entries == entries


def test_a_fit_without_its_own_ledger_is_refused(tmp_path: Path) -> None:
    stop(tmp_path / "fit")
    (tmp_path / "fit" / unfinished.LEDGER).unlink()
    with pytest.raises(PrivacyError, match="there is no file"):
        fit(tmp_path / "fit")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": "x"}', b"\xff"])
def test_a_fit_json_that_is_not_one(tmp_path: Path, content: bytes) -> None:
    stop(tmp_path / "fit")
    (tmp_path / "fit" / "fit.json").write_bytes(content)
    before = contents(tmp_path / "fit")
    with pytest.raises(ModelError, match=r"fit\.json"):
        fit(tmp_path / "fit")
    assert contents(tmp_path / "fit") == before


def test_folders_of_others_are_left_alone(tmp_path: Path) -> None:
    for name in ("notes.txt", "ledger.db"):
        folder = tmp_path / name.partition(".")[0]
        folder.mkdir()
        (folder / name).write_text("mine")
        with pytest.raises(ModelError, match="not empty and holds no unfinished fit"):
            fit(folder)
        assert contents(folder) == {name: b"mine"}


def test_what_is_left_of_a_removal_is_cleared(tmp_path: Path) -> None:
    """A removal that dies has removed fit.json first: what is left counts as nothing."""
    stop(tmp_path / "fit")
    (tmp_path / "fit" / "fit.json").unlink()
    model = fit(tmp_path / "fit")
    assert Ledger(unfinished._url(tmp_path / "fit"), create=False).spent.cost == model.guarantee_.cost


def test_two_at_once(tmp_path: Path) -> None:
    stop(tmp_path / "fit")
    with unfinished._held(tmp_path / "fit"), pytest.raises(ModelError, match="another process is at work"):
        fit(tmp_path / "fit")
    fit(tmp_path / "fit")


def test_where_folders_cannot_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(handle: int, how: int) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(model_folder.fcntl, "flock", flock)
    stop(tmp_path / "fit")
    fit(tmp_path / "fit")


def test_fit_json_says_nothing_about_people(tmp_path: Path) -> None:
    stop(tmp_path / "fit")
    about = json.loads((tmp_path / "fit" / "fit.json").read_text())
    fields = {"format", "class", "params", "plan", "catalogue", "value_range", "implicit", "choice"}
    assert set(about) == fields | {"ledger", "own_ledger", "reservation"}
    assert str(RATINGS.n_users) not in json.dumps(about["params"])
    assert about["catalogue"] == hashlib.sha256().hexdigest() or len(about["catalogue"]) == 64


def test_an_earlier_model_stays_until_the_new_one_is_there(tmp_path: Path) -> None:
    home = tmp_path / "model"
    first = discreet.DPSVD(epsilon=1, delta=DELTA).fit(LIKED)
    first.save(home)
    stop(home / "unfinished")
    assert learned(discreet.load(home)) == learned(first)
    first.save(home)  # another model may be saved beside it
    second = fit(home / "unfinished")
    second.save(home)
    assert learned(discreet.load(home)) == learned(second)
    assert sorted(os.listdir(home)) == ["factors.safetensors", "items.parquet", "model.json"]


def test_loading_a_folder_with_nothing_but_an_unfinished_fit(tmp_path: Path) -> None:
    stop(tmp_path / "model" / "unfinished")
    with pytest.raises(ModelError, match=r"only a fit that was not finished\. .* --resume, or the same fit"):
        discreet.load(tmp_path / "model")


def test_only_its_own_checkpoint_is_removed_by_a_save(tmp_path: Path) -> None:
    model = fit(tmp_path / "fit")
    assert not hasattr(pickle.loads(pickle.dumps(model)), "_checkpoint")
    unfinished.remove(tmp_path / "fit")
    stop(tmp_path / "fit")  # another one began there
    model.save(tmp_path / "model")
    assert (tmp_path / "fit" / "fit.json").exists()
    model.fit(RATINGS).save(tmp_path / "model")
    fit(tmp_path / "fit")


def test_giving_up_returns_what_was_not_released(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/ledger.db", epsilon=2, delta=DELTA)
    stop(tmp_path / "fit", 3, ledger=ledger)
    whole = ledger.spent.epsilon
    with pytest.raises(PrivacyError, match="give that"):
        unfinished.give_up(tmp_path / "fit", None)
    spent = unfinished.give_up(tmp_path / "fit", ledger)
    assert 0 < spent.epsilon < whole
    assert ledger.spent.epsilon == pytest.approx(spent.epsilon)
    assert not (tmp_path / "fit").exists()
    with pytest.raises(ModelError, match="there is no unfinished fit"):
        unfinished.give_up(tmp_path / "fit", ledger)
    assert not (tmp_path / "fit").exists()
    model = fit(tmp_path / "fit", dpals(epsilon=0.5), ledger=ledger)  # which is then a new one
    unfinished.give_up(tmp_path / "fit", ledger)
    assert np.isfinite(model.item_factors_).all()


def test_giving_up_tells_all_that_stays_spent(tmp_path: Path) -> None:
    """Not what was released: nothing of a plan that fits only because it was fixed in advance, or of a begun step."""
    tastes = discreet.datasets.synthetic_low_rank(3000, 150, 3, random_state=0)
    sampled = discreet.DPSGD(epsilon=1.0, delta=DELTA, n_steps=3)
    in_parts = discreet.DPALS(epsilon=20.0, delta=DELTA)
    for name, model, ratings, count in (("firm", sampled, RATINGS, 2), ("parts", in_parts, tastes, 9)):
        folder = tmp_path / name
        ledger = Ledger(f"sqlite:///{folder}.db", epsilon=model.epsilon, delta=DELTA)
        stop(folder, count, model=model, ratings=ratings, ledger=ledger)
        spent = unfinished.give_up(folder, ledger)
        assert spent.cost == ledger.spent.cost
        released = sum((event.cost for event in ledger.events), Cost())
        assert released.epsilon(DELTA) < spent.epsilon
