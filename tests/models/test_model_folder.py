"""A folder holds the old model or the new one, whatever happens to the process that replaces it, and to the disk.

A child that saves stands still at one line after another of the code that touches the folder, where what it would leave
is looked at, and is killed wherever that has changed; every call to the operating system is made to fail; savers and
readers run at the same time; and the power goes, on a disk that has kept only what it was told to keep.
"""

import os
import pickle
import shutil
import threading
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from discreet.errors import ModelError
from discreet.models import model_folder, storage
from discreet.models.storage import load, save
from discreet.privacy import store as checkpoint
from tests import dying, powerloss
from tests.conftest import missing
from tests.models.models import NAMES, REGISTRY, Fake, fitted, same

STEPS = (os.path.join("models", "model_folder.py"), os.path.join("privacy", "store.py"))
OLD, NEW = fitted(1), fitted(2)
TRIES = range(1, 1000)  # more than there are lines or calls


pytestmark = pytest.mark.usefixtures("fake_registry")


@cache
def encoded(model: Fake) -> tuple[bytes, dict[str, bytes]]:
    return storage._encoded(model)


def tidy(folder: Path) -> bool:
    return sorted(os.listdir(folder)) == NAMES and os.listdir(folder.parent) == [folder.name]


def nothing(folder: Path) -> None:
    """There is no folder yet."""


def empty(folder: Path) -> None:
    folder.mkdir()


def whole(folder: Path) -> None:
    save(OLD, folder)


def committed(folder: Path) -> None:
    """The old model, whose save died when it had replaced model.json and nothing else."""
    save(fitted(3), folder)
    head, parts = encoded(OLD)
    for name, content in parts.items():
        (folder / f"{name}.{model_folder.digest(content)}").write_bytes(content)
    (folder / "model.json").write_bytes(head)


def same_files(folder: Path, model: Fake) -> bool:
    head, parts = encoded(model)
    return all((folder / name).read_bytes() == content for name, content in {**parts, "model.json": head}.items())


STARTS = [nothing, empty, whole, committed]


@pytest.mark.parametrize(
    ("start", "new"),
    [(nothing, NEW), (empty, NEW), (whole, NEW), (committed, NEW), (whole, OLD), (committed, OLD)],
    ids=["nothing", "empty", "whole", "committed", "whole, again", "committed, again"],
)
def test_killed_at_every_line(tmp_path: Path, start: Callable[[Path], None], new: Fake) -> None:
    template, home = tmp_path / "template", tmp_path / "home"
    start(template)
    work = partial(model_folder.replace, home / "model", *encoded(new))
    put(home, contents(template))
    states = dying.at_every_line(STEPS, work, lambda: contents(home / "model"))
    assert len(states) > 50  # lines
    assert same(load(home / "model"), new)
    assert tidy(home / "model")
    found = {"old": 0, "new": 0, "none": 0}
    for state, lines in groupby(states):
        put(home, state)
        found[survivor(home / "model", start, new)] += len(list(lines))
    for line in dying.changes(states):
        put(home, contents(template))
        assert dying.killed(STEPS, work, line) == (line < len(states) - 1)
        survivor(home / "model", start, new)
    before = "none" if start in (nothing, empty) else "old"
    assert found["new"] > 10
    assert new is OLD or found[before] > 10


def contents(folder: Path) -> dict[str, bytes] | None:
    """All that is in a folder; None if there is none."""
    return {name: (folder / name).read_bytes() for name in sorted(os.listdir(folder))} if folder.exists() else None


def put(home: Path, state: dict[str, bytes] | None) -> None:
    """A home with such a folder in it and nothing else."""
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    if state is not None:
        (home / "model").mkdir()
        for name, content in state.items():
            (home / "model" / name).write_bytes(content)


def survivor(folder: Path, start: Callable[[Path], None], new: Fake) -> str:
    """Which model a killed process has left: never a broken one, and always one that can be replaced."""
    if start in (whole, committed) or (folder / "model.json").exists():
        again = load(folder)  # always: it never fails
        found = "new" if same(again, new) else "old"
        assert found == "new" or (same(again, OLD) and start in (whole, committed))
    else:
        found = "none"
    model_folder.replace(folder, *encoded(OLD))
    assert same_files(folder, OLD)
    assert tidy(folder)
    return found


CALLS = ["replace", "fsync", "open", "listdir", "unlink", "mkdir", "stat", "fdopen"]


def failing(monkeypatch: pytest.MonkeyPatch, at: int, error: BaseException) -> Callable[[], int]:
    """Make the call with the given number fail; returns how many there were."""
    calls = 0

    def wrap(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == at:
                raise error
            return call(*args, **options)

        return wrapped

    for name in CALLS:
        monkeypatch.setattr(model_folder.os, name, wrap(getattr(os, name)))
    for module in (model_folder, checkpoint):
        monkeypatch.setattr(module, "open", wrap(open), raising=False)
    return lambda: calls


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["disk", "ctrl-c"])
def test_a_save_that_fails_leaves_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: Callable[[Path], None], error: BaseException
) -> None:
    template, folder = tmp_path / "template", tmp_path / "home" / "model"
    start(template)
    content, failures = encoded(NEW), 0
    for at in TRIES:
        shutil.rmtree(folder.parent, ignore_errors=True)
        folder.parent.mkdir()
        if template.exists():
            shutil.copytree(template, folder)
        with monkeypatch.context() as patch:
            made = failing(patch, at, error)
            try:
                model_folder.replace(folder, *content)
            except (type(error), ModelError):
                failures += 1
            total = made()
        names = sorted(os.listdir(folder)) if folder.exists() else None
        if names and "model.json" in names:
            again = load(folder)
            assert same(again, NEW) or (same(again, OLD) and start in (whole, committed))
            if same(again, OLD):
                assert names in (NAMES, sorted(os.listdir(template)))
        else:
            assert start in (nothing, empty)
            assert names == (None if start is nothing else [])
        if total < at:
            break
    assert failures > 15
    assert same(load(folder), NEW)
    assert tidy(folder)


SAVES = """
import os, pickle, sys
from pathlib import Path
from discreet.models import model_folder
from discreet.privacy import store as checkpoint
from tests.powerloss import ON_DISK, mark

old, new, committed = pickle.loads(Path(sys.argv[2]).read_bytes())
sync, fsync = model_folder.sync, os.fsync

def world(name):
    mark(f"world {name}")
    (Path(sys.argv[1]) / name).mkdir()
    return Path(sys.argv[1]) / name / "a" / "b" / "model"

def saved(folder):
    mark(ON_DISK)
    mark("saving")
    model_folder.replace(folder, *new)
    mark("saved")

saved(world("nothing"))
folder = world("whole")
model_folder.replace(folder, *old)
saved(folder)
folder = world("committed")
folder.mkdir(parents=True)
for name, content in committed.items():
    (folder / name).write_bytes(content)
saved(folder)
folder = world("without names")
model_folder.replace(folder, *old)
model_folder.sync = checkpoint.sync = lambda folder: None
saved(folder)
model_folder.sync = checkpoint.sync = sync
folder = world("without contents")
model_folder.replace(folder, *old)
os.fsync = lambda handle: fsync(handle) if os.path.isdir(f"/proc/self/fd/{handle}") else None
saved(folder)
"""


@pytest.fixture(scope="module")
def saves(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[powerloss.Event]]]:
    home = tmp_path_factory.mktemp("power")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("discreet.models.registry.MODELS", REGISTRY)
        committed(home / "committed")
        files = {path.name: path.read_bytes() for path in (home / "committed").iterdir()}
        (home / "models").write_bytes(pickle.dumps((encoded(OLD), encoded(NEW), files)))
    try:
        return home / "world", powerloss.worlds(powerloss.traced(home / "world", SAVES, str(home / "models"))[0])
    except powerloss.Unavailable as reason:
        missing("a loss of power", str(reason))


def after_a_loss(
    saves: tuple[Path, dict[str, list[powerloss.Event]]], start: str, many: int
) -> Iterator[tuple[str, bool, Path]]:
    """For every loss of power: which model there is, whether the save had returned by then, and the folder."""
    root = saves[0] / start
    with powerloss.ram() as ram:
        for state, marks in powerloss.crashes(saves[1][start], many):
            if "saving" not in marks:
                continue
            powerloss.restore(state, root, ram / "after")
            folder = ram / "after" / "a" / "b" / "model"
            try:
                model = load(folder)
            except ModelError:
                name = "none"
            else:
                name = "new" if same(model, NEW) else "old" if same(model, OLD) else "another"
            yield name, "saved" in marks, folder


@pytest.mark.parametrize("many", [8, pytest.param(1024, marks=pytest.mark.slow)])
@pytest.mark.parametrize("start", ["nothing", "whole", "committed"])
def test_the_power_goes(saves: tuple[Path, dict[str, list[powerloss.Event]]], start: str, many: int) -> None:
    found = set()
    for name, saved, folder in after_a_loss(saves, start, many):
        found.add((name, saved))
        model_folder.replace(folder, *encoded(NEW))  # what is left is in nobody's way
        assert tidy(folder)
    assert found == {("none" if start == "nothing" else "old", False), ("new", False), ("new", True)}


@pytest.mark.parametrize("of", ["names", "contents"])
def test_what_is_not_synced_goes_with_it(saves: tuple[Path, dict[str, list[powerloss.Event]]], of: str) -> None:
    """Else the test above would not be able to fail."""
    assert any(saved and name != "new" for name, saved, _ in after_a_loss(saves, f"without {of}", 8))


@pytest.mark.parametrize("inside", ["notes.txt", "factors.safetensors", ".hidden", "model.json.bak"])
def test_folders_of_others_are_left_alone(tmp_path: Path, inside: str) -> None:
    (tmp_path / inside).write_text("mine")
    with pytest.raises(ModelError, match="not empty and holds no model"):
        save(NEW, tmp_path)
    assert os.listdir(tmp_path) == [inside]
    assert (tmp_path / inside).read_text() == "mine"


@pytest.mark.parametrize("content", ["", "{}", '{"format": "onnx"}', "discreet"])
def test_a_model_json_of_others_is_left_alone(tmp_path: Path, content: str) -> None:
    (tmp_path / "model.json").write_text(content)
    with pytest.raises(ModelError, match="not empty and holds no model"):
        save(NEW, tmp_path)
    assert (tmp_path / "model.json").read_text() == content


def test_places_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ModelError, match="is not a folder"):
        save(NEW, tmp_path / "file")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ModelError, match="is not a folder"):
        save(NEW, tmp_path / "gone")
    save(OLD, tmp_path / "model")
    (tmp_path / "model" / "items.parquet").unlink()
    (tmp_path / "model" / "items.parquet").mkdir()
    with pytest.raises(ModelError, match="it is a folder, where a file"):
        save(NEW, tmp_path / "model")


def test_a_broken_model_can_be_replaced_and_other_files_stay(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    save(OLD, folder)
    (folder / "README.md").write_text("mine")
    (folder / "factors.safetensors").unlink()
    (folder / "model.json").write_text((folder / "model.json").read_text()[:300])
    save(NEW, folder)
    assert same(load(folder), NEW)
    assert sorted(os.listdir(folder)) == sorted([*NAMES, "README.md"])


def test_a_model_json_that_cannot_be_looked_at(tmp_path: Path) -> None:
    save(OLD, tmp_path / "model")
    (tmp_path / "model" / "model.json").rename(tmp_path / "elsewhere")
    (tmp_path / "model" / "model.json").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ModelError, match="symbolic link"):
        save(NEW, tmp_path / "model")


def test_links_in_the_folder_are_replaced_and_not_written_through(tmp_path: Path) -> None:
    folder, outside = tmp_path / "model", tmp_path / "outside"
    save(OLD, folder)
    outside.write_text("mine")
    (folder / "items.parquet").unlink()
    (folder / "items.parquet").symlink_to(outside)
    save(NEW, folder)
    assert outside.read_text() == "mine"
    assert same(load(folder), NEW)


def test_a_folder_that_cannot_be_written_still_loads(tmp_path: Path) -> None:
    """Also one whose last save died half-way: loading changes nothing."""
    folder = tmp_path / "model"
    committed(folder)
    before = sorted(os.listdir(folder))
    assert before != NAMES
    assert same(load(folder), OLD)
    assert sorted(os.listdir(folder)) == before


def saver(folder: Path, model: Fake, times: int) -> Iterator[int]:
    """A child that saves a model again and again."""
    content = encoded(model)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            for _ in range(times):
                model_folder.replace(folder, *content)
            code = 0
        finally:
            os._exit(code)
    yield child
    assert os.waitpid(child, 0)[1] == 0
    yield child


@pytest.mark.parametrize("start", [nothing, whole])
def test_savers_and_readers_at_the_same_time(tmp_path: Path, start: Callable[[Path], None]) -> None:
    folder = tmp_path / "model"
    start(folder)
    models = [OLD, NEW, fitted(3)]
    savers = [saver(folder, model, 60) for model in models]
    for process in savers:
        next(process)
    for _ in range(150):
        if start is whole or (folder / "model.json").exists():
            again = load(folder)
            assert any(same(again, model) for model in models)
    for process in savers:
        next(process)
    assert any(same(load(folder), model) for model in models)
    assert tidy(folder)


def test_threads_that_save_at_the_same_time(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    threads = [threading.Thread(target=save, args=(model, folder)) for model in (OLD, NEW) * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert any(same(load(folder), model) for model in (OLD, NEW))
    assert tidy(folder)
