"""A database that is locked, full, read-only or gone: our errors, which say what to do and what was spent."""

import logging
import os
import resource
import shutil
import signal
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from discreet import Gaussian, Ledger
from discreet.errors import LedgerUnavailable, PrivacyError
from discreet.privacy import SystemNoise, store
from tests import postgres
from tests.conftest import missing
from tests.privacy.ledgers import COUNTS, budget


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/l.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")


class Silent(SystemNoise):
    """Noise that must not be drawn."""

    def fresh_key(self) -> bytes:
        raise AssertionError("noise was drawn")


def attempt(ledger: Ledger) -> LedgerUnavailable:
    """The error of a release, which must draw no noise."""
    ledger.noise_source = Silent()
    with pytest.raises(LedgerUnavailable) as caught:
        ledger.release(COUNTS, 1, Gaussian(8.0), "x")
    assert "SQL:" not in str(caught.value)
    return caught.value


# -- locks


@contextmanager
def stopped_holder(url: str) -> Iterator[int]:
    """A process that is stopped (SIGSTOP) while it has the lock; it goes on at SIGCONT."""
    holder = os.fork()
    if holder == 0:
        try:
            with Ledger(url)._store.transaction():
                os.kill(os.getpid(), signal.SIGSTOP)
        finally:
            os._exit(0)
    os.waitpid(holder, os.WUNTRACED)
    try:
        yield holder
    finally:
        os.kill(holder, signal.SIGKILL)
        os.waitpid(holder, 0)


def test_who_waits_is_told_for_whom_and_not_without_end(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(store, "PATIENCE", 0.1)
    ledger = budget(url, lock_timeout=0.5)
    with stopped_holder(url) as holder:
        message = str(attempt(ledger))
        with pytest.raises(LedgerUnavailable, match=f"process {holder}"):
            Ledger(url, lock_timeout=0.01)
    said = [record.getMessage() for record in caplog.records if record.name == "discreet.ledger"]
    assert said  # after 0.1 and 0.3 seconds, on a machine that is not busy
    for text in (*said, message):
        assert "is locked by" in text
        assert f"process {holder}" in text
    assert "Nothing was spent" in message
    assert "waited for" in message
    assert "lock_timeout" in message
    assert Ledger(url).events == []
    budget(url).release(COUNTS, 1, Gaussian(8.0), "the lock went with its process")


def test_a_wait_that_ends_well(url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(store, "PATIENCE", 0.05)
    ledger = budget(url)
    with stopped_holder(url) as holder:

        def let_go() -> None:
            while not caplog.records:
                time.sleep(0.01)
            os.kill(holder, signal.SIGCONT)

        helper = threading.Thread(target=let_go, daemon=True)
        helper.start()
        ledger.release(COUNTS, 1, Gaussian(8.0), "x")
        helper.join()
    assert caplog.records[0].levelno == logging.WARNING
    assert len(Ledger(url).events) == 1


def test_threads_of_one_process_and_locks_that_nobody_can_explain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/l.db"
    ledger = budget(url)
    with ledger._store.transaction(), pytest.raises(LedgerUnavailable, match="another thread of this process"):
        Ledger(url, lock_timeout=0.01)
    monkeypatch.setattr(Path, "read_text", lambda _: "1: something else")
    with ledger._store.transaction(), pytest.raises(LedgerUnavailable, match="another process"):
        Ledger(url, lock_timeout=0.01)


def test_a_lock_that_was_let_go_meanwhile(postgres_url: str) -> None:
    with sa.create_engine(postgres_url, poolclass=sa.NullPool).connect() as connection:
        assert store._holder(connection) == "another process"


@pytest.mark.parametrize("wrong", [0, -1, float("inf"), "long"])
def test_a_wait_has_an_end(wrong: object) -> None:
    with pytest.raises(PrivacyError, match="lock_timeout"):
        Ledger(lock_timeout=wrong)  # type: ignore[arg-type]


# -- addresses and settings


@pytest.mark.parametrize(
    "end",
    [
        "l.db?nolock=1",
        "l.db?nolock=1&uri=true",
        "l.db?immutable=1&uri=true",
        "l.db?vfs=unix-none&uri=true",
        "l.db?vfs=unix-dotfile",
        "l.db?mode=ro&uri=true",
        "l.db?mode=memory&cache=shared&uri=true",
        "l.db?psow=1",
        "l.db?timeout=1",
        "l.db?isolation_level=DEFERRED",
        "l.db?cached_statements=1",
    ],
)
def test_options_that_turn_off_locks_are_refused(end: str, tmp_path: Path) -> None:
    budget(f"sqlite:///{tmp_path}/l.db")
    for start in (f"sqlite:///{tmp_path}/", f"sqlite:///file:{tmp_path}/"):
        with pytest.raises(PrivacyError, match="nolock"):
            Ledger(start + end)
    assert [path.name for path in tmp_path.iterdir()] == ["l.db"]


def test_other_addresses_are_refused(tmp_path: Path) -> None:
    for url in (f"sqlite:///file:{tmp_path}/l.db", f"sqlite://host/{tmp_path}/l.db", f"sqlite://u:p@/{tmp_path}/l.db"):
        with pytest.raises(PrivacyError, match="sqlite:///FILE") as caught:
            budget(url)
        assert "u:p" not in str(caught.value)
    for driver in ("aiosqlite", "pysqlcipher"):
        with pytest.raises(PrivacyError, match=driver):
            budget(f"sqlite+{driver}:///{tmp_path}/l.db")
    assert list(tmp_path.iterdir()) == []
    budget(f"sqlite+pysqlite:///{tmp_path}/:memory:.db")  # a file, whatever its name
    assert [path.name for path in tmp_path.iterdir()] == [":memory:.db"]


def test_another_journal_is_refused(tmp_path: Path) -> None:
    budget(f"sqlite:///{tmp_path}/l.db")
    connection = sqlite3.connect(tmp_path / "l.db")
    connection.execute("pragma journal_mode = wal")
    connection.close()
    with pytest.raises(PrivacyError, match="journal_mode wal"):
        Ledger(f"sqlite:///{tmp_path}/l.db")


def test_passwords_stay_out_of_errors() -> None:
    for url in ("postgresql://me:secret@localhost:1/x", "postgresql://localhost:1/x?user=me&password=secret"):
        with pytest.raises(LedgerUnavailable, match=r"localhost:1/x.*check whether the server runs") as caught:
            Ledger(f"{url}{'&' if '?' in url else '?'}connect_timeout=5")
        assert "secret" not in str(caught.value)
    with pytest.raises(PrivacyError, match="not a database URL") as broken:
        Ledger("postgresql:secret")
    assert "secret" not in str(broken.value)


# -- disks and servers that fail


def test_no_room_for_the_record(tmp_path: Path, in_fork: Callable[[Callable[[], str]], str]) -> None:
    url = f"sqlite:///{tmp_path}/l.db"
    ledger = budget(url)
    size = (tmp_path / "l.db").stat().st_size

    def child() -> str:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size // 4, 2 * size))
        message = str(attempt(ledger))
        resource.setrlimit(resource.RLIMIT_FSIZE, (2 * size, 2 * size))  # there is room again
        ledger.noise_source = SystemNoise()
        while True:  # until the file would have to grow
            try:
                ledger.release(COUNTS, 1, Gaussian(100.0), "x")
            except LedgerUnavailable as error:
                return f"{message}\n{error}\n{len(ledger.events)}"

    first, second, count = in_fork(child).splitlines()
    assert "has room" in first
    assert "Nothing was spent" in first  # it was the journal that had no room
    assert "has room" in second
    assert "may have been charged" in second  # it came with the commit
    assert len(Ledger(url).events) == int(count) > 0


def test_a_file_or_folder_that_cannot_be_written(in_fork: Callable[[Callable[[], str]], str]) -> None:
    folder = Path(tempfile.mkdtemp(dir="/tmp"))  # not in one that only we can enter
    url = f"sqlite:///{folder}/l.db"
    ledger = budget(url)

    def child() -> str:
        if os.geteuid() == 0:  # may write anywhere
            os.setresuid(65534, 65534, 65534)
        return str(attempt(ledger))

    try:
        for file, mode in ((0o444, 0o555), (0o444, 0o777), (0o666, 0o555)):
            (folder / "l.db").chmod(file)
            folder.chmod(mode)
            message = in_fork(child)
            assert "writable" in message or "can be written to" in message
            assert "Nothing was spent" in message
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)
    assert ledger.epsilon == 1


def test_a_file_that_is_no_database_and_a_journal_that_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no database " * 100)
    with pytest.raises(LedgerUnavailable, match="damaged or no database"):
        Ledger(f"sqlite:///{tmp_path}/notes.txt")
    ledger = budget(f"sqlite:///{tmp_path}/l.db")
    (tmp_path / "l.db-journal" / "x").mkdir(parents=True)
    assert "cannot be used" in str(attempt(ledger))


def test_a_server_with_less_patience(postgres_url: str) -> None:
    hurried = Ledger(f"{postgres_url}&options=-cstatement_timeout%3D50", epsilon=1, delta=1e-6)
    with Ledger(postgres_url)._store.transaction():
        assert "statement timeout" in str(attempt(hurried))


def test_a_server_that_only_reads(postgres_url: str) -> None:
    ledger = budget(postgres_url)
    engine = sa.create_engine(postgres_url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        name = sa.make_url(postgres_url).database
        connection.exec_driver_sql(f"alter database {name} set default_transaction_read_only = on")
    message = str(attempt(ledger))
    assert "read-only" in message
    assert "Nothing was spent" in message
    assert ledger.events == []


def test_a_server_that_is_stopped_between_two_releases() -> None:
    try:
        with postgres.server() as home:
            url = f"postgresql://postgres@/postgres?host={home}"
            ledger = budget(url)
            ledger.release(COUNTS, 1, Gaussian(8.0), "one")
    except postgres.Unavailable as reason:
        missing("PostgreSQL", str(reason))
    message = str(attempt(ledger))
    assert "check whether the server runs" in message
    assert "Nothing was spent" in message
    with pytest.raises(LedgerUnavailable, match="the server runs"):
        Ledger(url)


def test_a_connection_that_is_lost_before_the_commit(postgres_url: str) -> None:
    ledger = budget(postgres_url)
    lost = pytest.raises(LedgerUnavailable, match=r"the server runs.*Nothing was spent")
    with lost, ledger._store.transaction() as transaction:
        pid = transaction._connection.exec_driver_sql("select pg_backend_pid()").scalar_one()
        with sa.create_engine(postgres_url, poolclass=sa.NullPool).connect() as other:
            other.exec_driver_sql(f"select pg_terminate_backend({pid}, 5000)")
        transaction.append("charge", {"label": "x"})
    assert len(ledger.entries) == 1


def test_a_commit_that_fails_may_have_been_recorded(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the answer of a server is lost: the record is there, and nobody was told."""
    ledger, commit = budget(url), sa.Connection.commit

    def lost(connection: sa.Connection) -> None:
        commit(connection)
        raise sa.exc.OperationalError("commit", {}, OSError("server closed the connection unexpectedly"))

    monkeypatch.setattr(sa.Connection, "commit", lost)
    message = str(attempt(ledger))
    monkeypatch.undo()
    assert "may have been charged" in message
    assert "no noise was drawn" in message
    assert "Nothing was spent" not in message
    assert len(ledger.events) == 1  # and is counted from then on
    ledger.verify()
