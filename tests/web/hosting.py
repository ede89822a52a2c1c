"""A site on a local port, and a Chromium to look at it."""

import os
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
# Without a sandbox of its own, which root and containers cannot give it; it sees nothing but our own pages.
ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage"]
# Where no message bus answers, Chromium now and then waits 25 seconds for one.
NO_BUS = {"DBUS_SESSION_BUS_ADDRESS": "disabled:", "DBUS_SYSTEM_BUS_ADDRESS": "disabled:"}
NAMES = ("chromium", "chromium-browser", "google-chrome")


class Unavailable(Exception):
    """There is no browser, and why."""


@contextmanager
def hosted(files: Mapping[str, bytes]) -> Iterator[str]:
    """The address of a plain web server with these files."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.split("?")[0].lstrip("/") or "index.html"
            found = files.get(name)
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Type", TYPES.get(name.rpartition(".")[2], "application/octet-stream"))
            self.end_headers()
            self.wfile.write(found or b"")

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def chromium() -> Iterator[Any]:
    """A running Chromium of the system's, driven by Playwright."""
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        raise Unavailable("there is no chromium; try scripts/install-system chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise Unavailable("playwright is not installed; try pip install 'discreet[dev]'") from None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS, env={**os.environ, **NO_BUS})
        try:
            yield browser
        finally:
            browser.close()
