"""A throw-away PostgreSQL server for tests: made in a temporary folder, gone at the end.

Each pytest-xdist worker that needs one starts its own, on a Unix socket in its own folder, so that nothing
is shared and no port can be taken twice.
"""

import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

START_SECONDS = 60
SETTINGS = ("-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=200")


class Unavailable(Exception):
    """There is no server to start, and why."""


def find_binary(name: str) -> Path:
    """The path of a PostgreSQL program: on PATH, else the newest one that Debian hides from PATH."""
    if found := shutil.which(name):
        return Path(found)
    hidden = Path("/usr/lib/postgresql").glob(f"*/bin/{name}")
    newest = sorted(hidden, key=lambda path: int(path.parts[-3]) if path.parts[-3].isdigit() else 0)
    if newest:
        return newest[-1]
    raise Unavailable(f"the program {name!r} was not found; try scripts/install-system postgresql")


@contextmanager
def server() -> Iterator[Path]:
    """Start a server and yield the folder of its socket."""
    initdb, postgres = find_binary("initdb"), find_binary("postgres")
    if importlib.util.find_spec("psycopg") is None:
        raise Unavailable("psycopg is not installed; try pip install 'discreet[postgres]'")
    # PostgreSQL refuses to run as root. The folder is short: a socket's path may have about 100 characters.
    owner = "postgres" if os.geteuid() == 0 else None
    home = Path(tempfile.mkdtemp(prefix="discreet-pg-", dir="/tmp"))
    process = None
    try:
        if owner:
            try:
                shutil.chown(home, owner)
            except LookupError:
                raise Unavailable(f"we are root and there is no user {owner!r} to run the server as") from None
        made = subprocess.run(
            [initdb, "-D", home / "data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "-N"],
            user=owner,
            cwd=home,
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode:
            raise Unavailable(f"initdb failed: {made.stderr.strip()}")
        with (home / "log").open("wb") as log:
            process = subprocess.Popen(
                # Durability is the ledger's business, not that of a server that lives for a minute; fsync
                # stays off. Connections are many because tests of concurrency open many.
                [postgres, "-D", home / "data", "-k", home, *SETTINGS],
                user=owner,
                cwd=home,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for pytest, which then stops the server
            )
        wait_for(home, process)
        yield home
    finally:
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGQUIT)  # immediate shutdown: nobody needs its data
            process.wait(timeout=START_SECONDS)
        shutil.rmtree(home, ignore_errors=True)


def wait_for(home: Path, process: subprocess.Popen[bytes]) -> None:
    """Return when a server answers."""
    import psycopg

    give_up = time.monotonic() + START_SECONDS
    while True:
        try:
            psycopg.connect(host=str(home), user="postgres", dbname="postgres", connect_timeout=5).close()
        except psycopg.OperationalError as error:
            if process.poll() is not None or time.monotonic() > give_up:
                text = (home / "log").read_text(errors="replace")
                raise Unavailable(f"the server did not start: {error}\n{text}") from None
            time.sleep(0.05)
        else:
            return


@contextmanager
def database(home: Path) -> Iterator[str]:
    """Make an empty database on a running server and yield its SQLAlchemy URL."""
    import psycopg
    from psycopg import sql

    name = f"t{uuid.uuid4().hex}"

    def admin(statement: str) -> None:
        with psycopg.connect(host=str(home), user="postgres", dbname="postgres", autocommit=True) as connection:
            connection.execute(sql.SQL(statement).format(sql.Identifier(name)))

    admin("CREATE DATABASE {}")
    try:
        yield f"postgresql+psycopg://postgres@/{name}?host={home}"
    finally:
        admin("DROP DATABASE IF EXISTS {} WITH (FORCE)")
