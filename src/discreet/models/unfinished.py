"""A fit that can be finished after a crash.

The folder of a checkpoint holds fit.json (class, parameters, plan, catalog, ledger and reservation of the fit; all of
it public), a file for each release, and the fit's own ledger, unless another one pays. Only the ledger decides what has
been paid for and what has been seen: docs/proofs/resuming.md.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.data.catalogue import catalogue_sha256
from discreet.engine.batches import Ratings
from discreet.errors import ModelError, PrivacyError
from discreet.models.base import learned_by
from discreet.models.model_folder import held, refused
from discreet.privacy import Cost, Guarantee, Ledger, Plan
from discreet.privacy.store import SUFFIX, Checkpoint, Entry, canonical, put, sync

if TYPE_CHECKING:
    from discreet.models.private import PrivateModel

FORMAT = "discreet-unfinished-1"
HEAD, LEDGER = "fit.json", "ledger-of-this-fit.db"  # a name that no other ledger has: leftovers are removed
_OURS = re.compile(rf"{HEAD}|{LEDGER}(-\w+)?|[0-9a-f]+(\.tmp|{SUFFIX})")


def read(folder: Path) -> dict[str, Any] | None:
    """The content of fit.json; None if no fit has begun in this folder."""
    try:
        about = json.loads((folder / HEAD).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise refused(folder / HEAD, f"it cannot be read ({error})") from None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise refused(folder / HEAD, "it is not of a fit that this version of discreet can finish")
    return about


def described(model: PrivateModel, ratings: Ratings, plan: Plan) -> dict[str, Any]:
    """A description of everything but the data that must be the same to resume a fit."""
    chosen = ratings.catalogue.selection
    about = {
        "class": type(model).__name__,
        "params": learned_by(model),
        "plan": plan.to_json(),
        "catalogue": catalogue_sha256(ratings.catalogue),
        "value_range": ratings.value_range,
        "implicit": ratings.implicit,
        "choice": None if chosen is None else chosen.certificate["releases"],  # the guarantee includes one, not two
    }
    same: dict[str, Any] = json.loads(canonical(about))
    return same


@contextmanager
def resumable(
    folder: Path, about: dict[str, Any], ledger: Ledger | None, own: Callable[[str], Ledger]
) -> Iterator[tuple[Ledger, Checkpoint]]:
    """Begin the fit that is `described` in a folder, or resume it, while no other process does.

    Yields the ledger that pays (by default the fit's `own`, at a URL), and the checkpoint to reserve the plan with. If
    nothing is reserved, nothing is left behind.
    """
    with _held(folder):
        found = read(folder)
        if found is None:
            try:
                paying, found = _begun(folder, about, ledger, own)
            except BaseException:
                remove(folder)
                raise
        else:
            _require_same(folder, found, about)
            paying = _paying(folder, found, ledger)
        try:
            yield paying, Checkpoint(folder, found["reservation"])
        except BaseException:
            with suppress(Exception):  # if the ledger cannot be asked, the folder stays
                if not _entries(paying, found):
                    remove(folder)
            raise


def remove(folder: Path, reservation: str | None = None) -> None:
    """Remove a checkpoint; with a reservation, only if it still belongs to that one."""
    found = read(folder)
    if reservation is not None and (found is None or found["reservation"] != reservation):
        return
    (folder / HEAD).unlink(missing_ok=True)  # without it, the rest counts as nothing
    sync(folder)
    for name in os.listdir(folder):
        if _OURS.fullmatch(name):
            (folder / name).unlink()
    with suppress(OSError):  # it holds other files
        folder.rmdir()


def give_up(folder: Path, ledger: Ledger | None) -> Guarantee:
    """Remove an unfinished fit, and return what it has not released to the ledger that pays for it.

    Returns what stays spent. Releases made in parts, and plans charged as a whole, stay spent in full.
    """
    with _held(folder):
        found = read(folder)
        if found is None:
            raise refused(folder, "there is no unfinished fit")
        paying = _paying(folder, found, ledger)
        if found["reservation"] in paying.open_reservations():
            paying.close(found["reservation"])
        entries = _entries(paying, found)
        remove(folder)
    charged = (entry.cost * {"reserve": 1, "close": -1}.get(entry.kind, 0) for entry in entries)
    return paying.guarantee(sum(charged, Cost()), [entry for entry in entries if entry.kind == "release"])


# -- what is in the folder


def _begun(
    folder: Path, about: dict[str, Any], ledger: Ledger | None, own: Callable[[str], Ledger]
) -> tuple[Ledger, dict[str, Any]]:
    """Write fit.json before anything is reserved, so that a paid fit can always be finished."""
    paying = own(_url(folder)) if ledger is None else ledger
    origin = paying.origin
    if origin["url"] is None:
        raise PrivacyError(
            "checkpoint: a ledger in memory is lost with its process, and with it the record of what was paid for; "
            "give the ledger a URL, e.g. Ledger('sqlite:///ledger.db', ...)"
        )
    begun = {"format": FORMAT, **about, "ledger": origin, "own_ledger": ledger is None, "reservation": uuid.uuid4().hex}
    put(folder / HEAD, [json.dumps(begun, indent=2).encode()])
    return paying, begun


def _url(folder: Path) -> str:
    path = str(folder.absolute() / LEDGER)
    if "?" in path:
        raise ModelError(f"{path!r}: a ledger cannot be in a path with a '?'; choose another folder")
    return f"sqlite:///{path}"


def _paying(folder: Path, found: dict[str, Any], ledger: Ledger | None) -> Ledger:
    """The ledger that has paid for a fit; raises if another one is given, or if it does not know the fit."""
    where = f"the ledger {found['ledger']['name']!r} at {found['ledger']['url']}"
    if found["own_ledger"] and ledger is not None:
        raise PrivacyError(f"ledger: the fit in {str(folder)!r} began with a ledger of its own; go on without one")
    if not found["own_ledger"] and ledger is None:
        raise PrivacyError(f"ledger: the fit in {str(folder)!r} is paid for by {where}; give that")
    paying = Ledger(_url(folder), create=False) if ledger is None else ledger
    forgotten = not _entries(paying, found) and any(name.endswith(SUFFIX) for name in os.listdir(folder))
    if paying.origin["digest"] != found["ledger"]["digest"] or forgotten:
        raise PrivacyError(
            f"ledger: the fit in {str(folder)!r} is paid for by {where}, and this one knows nothing of it"
        )
    return paying


def _entries(ledger: Ledger, found: dict[str, Any]) -> list[Entry]:
    return [entry for entry in ledger.entries if entry.body.get("reservation") == found["reservation"]]


def _require_same(folder: Path, found: dict[str, Any], about: dict[str, Any]) -> None:
    params, before = about["params"], found.get("params", {})
    changed = [name for name in {**before, **params} if before.get(name) != params.get(name)]
    explained = {"params", "plan"} if changed else {"params"}  # another epsilon makes another plan
    others = [name for name in about if name not in explained and found.get(name) != about[name]] + changed
    if others:
        raise ModelError(
            f"checkpoint: the fit in {str(folder)!r} was begun with another {', '.join(others)}; give what it began "
            "with, or another folder"
        )


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Be the only one to use a folder, which is made if there is none; refuse a folder with other content."""
    # On file systems without locks, the ledger lets only one of several processes save a release.
    with held(folder, busy="another process is at work on this fit; let it finish, or stop it"):
        if read(folder) is None:  # leftovers of a fit that was removed, or had not begun
            names = os.listdir(folder)
            if not all(map(_OURS.fullmatch, names)):
                raise refused(folder, "this folder is not empty and holds no unfinished fit; give another")
            for name in names:
                (folder / name).unlink()
        yield
