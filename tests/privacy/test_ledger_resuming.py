"""Paid for once, drawn until it is saved, seen once: a fit that is stopped anywhere goes on with what it has released.

A child releases under a plan with a checkpoint, and is killed at one step after another (record, draw, write,
acknowledge, return), at moments chosen by a clock, and again and again. Whatever it leaves, the next run finishes it:
the total is the plan's, and nobody ever sees two arrays of one release.
"""

import hashlib
import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet import Gaussian, Ledger, Plan, RandomizedResponse
from discreet.errors import BudgetExceeded, PrivacyError
from discreet.privacy import Cost, Grid, GridArray, Planned, SystemNoise, store
from discreet.privacy.noise import Noise
from discreet.privacy.store import Checkpoint, sync
from discreet.testing import InsecureSeededNoise
from tests import dying
from tests.privacy.ledgers import COUNTS, budget
from tests.privacy.test_ledger_crash import killed_after

STEPS = tuple(os.path.join("privacy", f"{name}.py") for name in ("ledger", "store", "checkpoint"))
PLAN = Plan.gaussian(0.1, {"counts": 0.25, "steps": (0.75, 2)})
LABELS = ["counts", "steps", "steps"]
ID = "0" * 32


class Telltale(SystemNoise):
    """Says in a diary that noise is about to be drawn."""

    def __init__(self, diary: int) -> None:
        self.diary = diary

    def fresh_key(self) -> bytes:
        os.write(self.diary, b"draw\n")
        return super().fresh_key()


@dataclass
class World:
    """A ledger, a checkpoint and a diary in one folder."""

    home: Path

    def __post_init__(self) -> None:
        self.url, self.diary, self.kept = f"sqlite:///{self.home}/ledger.db", self.home / "diary", self.home / "kept"

    def begin(self) -> "World":
        shutil.rmtree(self.home, ignore_errors=True)
        self.kept.mkdir(parents=True)
        self.diary.touch()
        Ledger(self.url, epsilon=1, delta=1e-6)
        return self

    def fit(self) -> None:
        """All releases of the plan; of each value that comes back the SHA-256 is noted in the diary."""
        diary = os.open(self.diary, os.O_WRONLY | os.O_APPEND)
        ledger = Ledger(self.url, noise_source=Telltale(diary))
        with ledger.reserve(PLAN, checkpoint=Checkpoint(self.kept, ID)) as reserved:
            for k, label in enumerate(LABELS):
                array = reserved.release(COUNTS, 1, PLAN.noise(label, sensitivity=1), label)
                os.write(diary, f"seen {k} {hashlib.sha256(array.tobytes()).hexdigest()}\n".encode())
        os.write(diary, b"done\n")

    def state(self) -> dict[str, bytes]:
        """All that is left of a child that dies now."""
        files = (path for path in sorted(self.home.rglob("*")) if path.is_file())
        return {str(path.relative_to(self.home)): path.read_bytes() for path in files}

    def set(self, state: dict[str, bytes]) -> None:
        shutil.rmtree(self.home, ignore_errors=True)
        self.kept.mkdir(parents=True)
        for name, content in state.items():
            (self.home / name).write_bytes(content)

    def check_finished(self) -> None:
        """Each release was recorded once and seen as one array, by however many runs; the plan was paid for once."""
        ledger, said = Ledger(self.url), self.diary.read_text().splitlines()
        ledger.verify()
        assert "done" in said
        assert [event.label for event in ledger.events] == LABELS
        assert ledger.spent.cost == PLAN.cost
        assert ledger.open_reservations() == []
        seen: dict[str, set[str]] = {}
        for line in said:
            if line.startswith("seen"):
                _, k, digest = line.split()
                seen.setdefault(k, set()).add(digest)
        assert {k: len(arrays) for k, arrays in seen.items()} == {"0": 1, "1": 1, "2": 1}
        saved = [entry.body["release"] for entry in ledger.entries if entry.kind == "saved"]
        assert saved == [event.seq for event in ledger.events]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "world").begin()


@pytest.fixture(autouse=True)
def warm() -> None:
    """What is done once in a process."""
    Ledger().release(COUNTS, 1, Gaussian(20.0), "imports, tables of the sampler")


def test_a_fit_that_nothing_stops(world: World) -> None:
    world.fit()
    world.check_finished()
    kinds = [entry.kind for entry in Ledger(world.url).entries]
    assert kinds == ["open", "reserve", *["release", "saved"] * 3, "close"]
    assert world.diary.read_text().count("draw") == 3
    world.fit()  # once more: nothing is drawn, nothing is paid for, the same is seen
    world.check_finished()
    assert [entry.kind for entry in Ledger(world.url).entries] == kinds
    assert world.diary.read_text().count("draw") == 3


def test_killed_at_every_line(world: World, tmp_path: Path) -> None:
    """Where a child stands still before each line; what it would leave there is finished by another run."""
    states = dying.at_every_line(STEPS, world.fit, world.state)
    world.check_finished()
    start, changes = World(tmp_path / "start").begin().state(), dying.changes(states)
    redrawn = 0
    for line in changes:
        world.set(states[line])
        world.fit()
        world.check_finished()
        redrawn += world.diary.read_text().count("draw") > 3
    assert redrawn > 3  # where noise was drawn, and not yet saved
    for line in changes[1:-1:6]:  # and some that are truly killed there
        world.set(start)
        assert dying.killed(STEPS, world.fit, line)
        world.fit()
        world.check_finished()


def test_killed_again_and_again_at_random_moments(world: World) -> None:
    start = time.perf_counter()
    world.fit()
    usual, clock = time.perf_counter() - start, random.Random(1)
    for _ in range(4):
        world.begin()
        assert killed_after(world.fit, 0)
        for _ in range(50):  # and then, if the machine is too busy, in peace
            if not killed_after(world.fit, clock.uniform(0, 1.2 * usual)):
                break
        world.fit()
        world.check_finished()


def resumed(world: World, ledger: Ledger, plan: Plan = PLAN) -> Any:
    return ledger.reserve(plan, checkpoint=Checkpoint(world.kept, ID))


def reserved_releases(reserved: Any, count: int = 3) -> Iterator[Any]:
    for label in LABELS[:count]:
        yield reserved.release(COUNTS, 1, PLAN.noise(label, sensitivity=1), label)


def until(world: World, count: int) -> None:
    """Run until so many releases have been seen."""
    with (
        pytest.raises(KeyboardInterrupt),
        Ledger(world.url).reserve(PLAN, checkpoint=Checkpoint(world.kept, ID)) as reserved,
    ):
        list(reserved_releases(reserved, count))
        raise KeyboardInterrupt


def files(world: World) -> dict[str, bytes]:
    return {name: content for name, content in world.state().items() if name.startswith("kept")}


def assert_only_released(ledger: Ledger) -> None:
    """Nothing is charged but what was released (and planned for a little more)."""
    released = sum((event.cost for event in ledger.events), Cost())
    assert ledger.spent.cost.gaussian == pytest.approx(released.gaussian, rel=1e-9)


@pytest.mark.parametrize("finished", [True, False])
def test_an_old_copy_of_the_folder_gets_no_second_draw(world: World, finished: bool) -> None:
    until(world, 1)
    old = files(world)
    if finished:
        world.fit()
    else:
        until(world, 2)
    shutil.rmtree(world.kept)
    world.kept.mkdir()
    for name, content in old.items():
        (world.home / name).write_bytes(content)
    before = len(Ledger(world.url).entries)
    with pytest.raises(PrivacyError, match="is missing; the ledger says that this array was released") as caught:
        world.fit()
    assert ID in str(caught.value)
    assert len(Ledger(world.url).entries) == before
    ledger = Ledger(world.url)
    ledger.close(ID)  # what was not released can be had back
    assert_only_released(ledger)


@pytest.mark.parametrize("damage", [lambda c: c[:-1], lambda c: c + b"x", lambda c: bytes([c[0] ^ 1]) + c[1:]])
def test_a_damaged_array_is_refused(world: World, damage: Callable[[bytes], bytes]) -> None:
    until(world, 2)
    file = next(world.kept.glob("*.release"))
    file.write_bytes(damage(file.read_bytes()))
    before = len(Ledger(world.url).entries)
    with pytest.raises(PrivacyError, match="is not what was saved"):
        world.fit()
    assert len(Ledger(world.url).entries) == before


def test_of_two_processes_one_array_is_seen(world: World) -> None:
    """Where folders cannot be locked: both draw, the ledger takes one, and whoever was slower sees nothing."""

    class Overtaken(SystemNoise):
        def fresh_key(self) -> bytes:
            world.fit()
            return super().fresh_key()

    slow, seen = Ledger(world.url, noise_source=Overtaken()), []
    said = "another process has released 'counts'"
    with pytest.raises(PrivacyError, match=said), resumed(world, slow) as reserved:
        seen.append(reserved.release(COUNTS, 1, PLAN.noise("counts", sensitivity=1), "counts"))
    assert not seen
    world.check_finished()
    world.fit()
    world.check_finished()


LOUDER = Gaussian(2 * PLAN.noise("counts", sensitivity=1).std)


@pytest.mark.parametrize(
    ("statistic", "sensitivity", "noise", "label", "named"),
    [
        (COUNTS, 1, PLAN.noise("steps", sensitivity=1), "steps", "label, noise, cost"),
        (COUNTS, 1, LOUDER, "counts", "noise, cost"),
        (COUNTS, 2, LOUDER, "counts", "sensitivity, noise"),
        (COUNTS[:2], 1, None, "counts", "shape"),
        (GridArray(COUNTS.astype(np.int64), Grid(-1)), 1, None, "counts", "grid"),
    ],
)
def test_other_releases_than_the_first_time_are_refused(
    world: World, statistic: Any, sensitivity: float, noise: Noise | None, label: str, named: str
) -> None:
    until(world, 2)
    ledger = Ledger(world.url)
    before = ledger.entries
    said = f"release 1 of this fit was 'counts', .* with another {named}: go on"
    with pytest.raises(PrivacyError, match=said), resumed(world, ledger) as reserved:
        reserved.release(statistic, sensitivity, noise or PLAN.noise(label, sensitivity=1), label)
    assert ledger.entries == before


def test_noise_from_another_source_is_refused(world: World) -> None:
    until(world, 1)
    ledger = Ledger(world.url, noise_source=InsecureSeededNoise(0))
    with pytest.raises(PrivacyError, match="another source, secure"), resumed(world, ledger) as reserved:
        reserved.release(COUNTS, 1, PLAN.noise("counts", sensitivity=1), "counts")


def test_another_plan_is_refused(world: World) -> None:
    until(world, 1)
    ledger = Ledger(world.url)
    before = ledger.entries
    other = Plan.gaussian(0.1, {"counts": 0.5, "steps": (0.5, 2)})
    with pytest.raises(PrivacyError, match="was made for another one"), resumed(world, ledger, other):
        pytest.fail("it was reserved")
    assert ledger.entries == before


def test_a_reservation_that_was_closed_gives_what_was_saved_and_no_more(world: World) -> None:
    until(world, 2)
    ledger = Ledger(world.url)
    ledger.close(ID)
    seen = 0
    with pytest.raises(PrivacyError, match="it is closed"), resumed(world, ledger) as reserved:
        for _ in reserved_releases(reserved):
            seen += 1
    assert seen == 2
    assert_only_released(ledger)


def test_what_was_seen_without_a_checkpoint_is_not_drawn_again_with_one(world: World) -> None:
    """Nothing says of such releases that they were seen: each of them would be drawn once more, at no cost."""
    ledger = Ledger(world.url)
    with ledger.reserve(PLAN) as reserved:
        seen = [array.tolist() for array in reserved_releases(reserved, 2)]
        running = pytest.raises(PrivacyError, match=f"^checkpoint: the reservation {reserved.id} was made without one")
        with running, ledger.reserve(PLAN, checkpoint=Checkpoint(world.kept, reserved.id)) as again:
            seen += [array.tolist() for array in reserved_releases(again, 2)]
    for other in (ledger, Ledger(world.url)):  # after it was closed, too
        closed = pytest.raises(PrivacyError, match="was made without one")
        with closed, other.reserve(PLAN, checkpoint=Checkpoint(world.kept, reserved.id)) as again:
            seen += [array.tolist() for array in reserved_releases(again, 2)]
    assert len(seen) == 2
    assert_only_released(ledger)


def test_what_was_paid_for_can_be_drawn_after_its_reservation_was_closed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release that was recorded and not saved stays paid for: nobody has seen it, and one array of it may be."""
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "write", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt), resumed(world, Ledger(world.url)) as reserved:
            list(reserved_releases(reserved, 1))
    ledger = Ledger(world.url)
    ledger.close(ID)
    seen = []
    for other in (ledger, ledger, Ledger(world.url)):
        with pytest.raises(PrivacyError, match="it is closed"), resumed(world, other) as reserved:
            seen += map(np.ndarray.tolist, reserved_releases(reserved))
    assert seen == [seen[0]] * 3
    assert_only_released(ledger)
    ledger.verify()


def test_a_plan_that_does_not_fit_is_not_begun(world: World) -> None:
    ledger = Ledger(world.url)
    with (
        pytest.raises(BudgetExceeded),
        ledger.reserve(Plan.gaussian(9.0, {"a": 1.0}), checkpoint=Checkpoint(world.kept, ID)),
    ):
        pytest.fail("it was reserved")
    assert [entry.kind for entry in ledger.entries] == ["open"]


def test_a_disk_that_is_full_and_then_is_not(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, blocks: Any) -> str:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        patch.setattr(store, "put", full)
        world.fit()
    assert "seen" not in world.diary.read_text()
    world.fit()
    world.check_finished()


def test_other_kinds_of_ledgers(url: str | None, tmp_path: Path) -> None:
    ledger, kept, plan = budget(url), Checkpoint(tmp_path, ID), Plan((Planned("bits", Cost.of_mu(0.1)),))
    noise = plan.noise("bits", sensitivity=1)
    with pytest.raises(KeyboardInterrupt), ledger.reserve(plan, checkpoint=kept) as reserved:
        first = reserved.release(COUNTS, 1, noise, "bits")
        raise KeyboardInterrupt
    with ledger.reserve(plan, checkpoint=kept) as reserved:
        assert np.array_equal(reserved.release(COUNTS, 1, noise, "bits"), first)
    ledger.verify()
    assert len(ledger.events) == 1


def test_which_ledger_it_is(url: str | None) -> None:
    ledger = budget(url, name="one")
    origin = ledger.origin
    assert (origin["name"], origin["digest"]) == ("one", ledger.entries[0].digest)
    if url is None:
        assert origin["url"] is None
    else:
        assert origin["url"].partition("://")[0].partition("+")[0] == url.partition("://")[0].partition("+")[0]
    assert budget(url, name="other").origin["digest"] != origin["digest"]


def test_a_password_is_not_told(postgres_url: str) -> None:
    import sqlalchemy as sa

    url = sa.make_url(postgres_url).set(password="secret").render_as_string(hide_password=False)
    try:
        ledger = budget(url)
    except PrivacyError:
        pytest.skip("this server takes no password")
    assert "secret" not in str(ledger.origin["url"])


# -- arrays on the disk

ARRAYS = [
    np.arange(7.0),
    np.arange(12.0).reshape(3, 4).T,
    np.array(3.5),
    np.arange(13, dtype=np.int8),
    np.random.default_rng(0).standard_normal(200_001),  # more than one block
    np.arange(5.0).astype(">f8"),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: f"{a.dtype}{a.shape}")
def test_an_array_comes_back_and_nobody_else_can_read_it(tmp_path: Path, array: np.ndarray[Any, Any]) -> None:
    kept = Checkpoint(tmp_path, ID)
    saved, other = kept.write(array), kept.write(array)
    again = kept.read(saved, array.shape)
    assert again.dtype == array.dtype.newbyteorder("<")
    assert np.array_equal(again, array)
    assert again.flags.writeable
    content = (tmp_path / saved["file"]).read_bytes()
    assert len(content) == array.nbytes
    assert hashlib.sha256(content).hexdigest() == saved["sha256"]
    plain = np.frombuffer(np.ascontiguousarray(array, again.dtype).tobytes(), np.uint8)
    told = np.mean(np.frombuffer(content, np.uint8) == plain)
    assert told < 0.1 + 3 / len(content) ** 0.5  # as often as by chance
    assert content != (tmp_path / other["file"]).read_bytes()
    assert sorted(os.listdir(tmp_path)) == sorted([saved["file"], other["file"]])
    assert not np.array_equal(kept.read({**saved, "key": other["key"]}, array.shape), array)


def test_bits_are_kept_too(tmp_path: Path) -> None:
    noise = RandomizedResponse(1.0)
    plan = Plan((Planned("bits", noise.cost(1)),))
    ledger, seen = Ledger(epsilon=1, delta=0, adjacency="flip"), []
    for _ in range(2):
        with ledger.reserve(plan, checkpoint=Checkpoint(tmp_path, ID)) as reserved:
            seen.append(reserved.release(np.ones(1001, int), 1, noise, "bits"))
    assert np.array_equal(*seen)
    assert seen[1].dtype == np.int8


def test_folders_are_not_synced_where_they_cannot_be_opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(store.sys, "platform", "win32")
    sync(tmp_path / "nowhere")
