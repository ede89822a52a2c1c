"""Processes that know nothing of the tests, or of ours: forked from one that has imported only what others wrote.

An interpreter of its own for each of them would spend seconds on those imports.
"""

import io
import multiprocessing
import sys
from contextlib import redirect_stdout
from multiprocessing.connection import Connection

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(["sklearn.base", "scipy.stats", "pyarrow.parquet", "sqlalchemy", "dp_accounting"])


def printed(code: str, *arguments: str) -> str:
    """What the code prints, with such arguments, in a process of its own."""
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(sender, code, arguments))
    process.start()
    sender.close()
    with receiver:
        text = receiver.recv()  # EOFError if it died
    process.join()
    assert process.exitcode == 0
    return str(text)


def _run(sender: Connection, code: str, arguments: tuple[str, ...]) -> None:
    assert "discreet" not in sys.modules
    sys.argv[1:] = arguments
    with redirect_stdout(io.StringIO()) as output:
        exec(code, {"__name__": "__main__"})
    sender.send(output.getvalue())
