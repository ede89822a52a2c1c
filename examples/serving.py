"""A model behind an HTTP API, asked by a client. `discreet serve model` is the same from a shell.

Whoever asks sends a history to the server, which keeps nothing. Where people should not have to send it, ship the model
to their browsers instead: docs/how-to/ship-to-browsers.md.
"""

import json
import threading
import time
import urllib.request

import uvicorn

import discreet
from discreet.web import export
from discreet.web.connections import listen, settings
from discreet.web.server import application


def ask(address: str, path: str, body: object = None) -> object:
    """A request and its answer, both JSON."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address + path, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def main() -> None:
    """Serve, ask, stop."""
    ratings = discreet.datasets.movielens_like(2_000, 150, 60_000, random_state=0)
    model = discreet.DPALS(epsilon=1, delta=1e-6).fit(ratings)
    app = application(model, export(model, title="Film evening"))
    listening, server = listen("127.0.0.1", 0), uvicorn.Server(settings(app))
    thread = threading.Thread(target=server.run, args=(listening,))
    thread.start()
    try:
        while not server.started:
            time.sleep(0.05)
        address = f"http://127.0.0.1:{listening[0].getsockname()[1]}"
        print(ask(address, "/v1/recommend", {"history": {"3": 5, "17": 1.5}, "n": 3}))
        print(ask(address, "/v1/items?search=film&limit=2"))
        print(str(ask(address, "/v1/statement"))[:200], "...")
    finally:
        server.should_exit = True
        thread.join()


if __name__ == "__main__":
    main()
