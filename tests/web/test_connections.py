"""Connections within limits, as hostile clients see them: a running server, and raw bytes."""

import json
import logging
import re
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
import uvicorn

from discreet.models.base import Model
from discreet.web.api import Api, Limits
from discreet.web.connections import FILES, listen, raise_file_limit, settings
from discreet.web.server import application
from discreet.web.site import Site, export

SOON = 0.3  # seconds that a client is given, where a test waits for them to be over
LONG = 60.0  # seconds until a test fails
JSON = b"Host: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def site(films: Model) -> Site:
    return export(films, not_private=True)


@contextmanager
def running(films: Model, site: Site, **limits: Any) -> Iterator[int]:
    """The port of a server."""
    config = settings(application(films, site, limits=Limits(**limits)))
    listening, server = listen("127.0.0.1", 0), uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=(listening,))
    thread.start()
    try:
        yield listening[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def port(films: Model, site: Site) -> Iterator[int]:
    """A server with the limits that it usually has."""
    with running(films, site) as found:
        yield found


@pytest.fixture(scope="module")
def strict(films: Model, site: Site) -> Iterator[int]:
    """A server in a hurry."""
    with running(films, site, patience=SOON) as found:
        yield found


@contextmanager
def connected(port: int, sent: bytes = b"", small: bool = False) -> Iterator[socket.socket]:
    with socket.socket() as client:
        if small:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(LONG)
        client.connect(("127.0.0.1", port))
        with suppress(OSError):  # it may be closed already
            client.sendall(sent)
        yield client


def rest(client: socket.socket) -> bytes:
    """What is received until the connection is closed."""
    found = bytearray()
    with suppress(ConnectionError):
        while part := client.recv(65536):
            found.extend(part)
    return bytes(found)


def one(client: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """An answer: its status, headers and body."""
    found = b""
    while b"\r\n\r\n" not in found:
        part = client.recv(65536)
        assert part, found
        found += part
    head, _, body = found.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    while len(body) < int(headers["content-length"]):
        body += client.recv(65536)
    return int(first.split()[1]), headers, body


def asked(port: int, sent: bytes) -> tuple[int, str]:
    """The status of the answer, and its error."""
    with connected(port, sent) as client:
        status, headers, body = one(client)
    assert headers["x-content-type-options"] == "nosniff"
    return status, json.loads(body).get("error", "") if headers["content-type"] == "application/json" else ""


def posted(body: bytes = b'{"history": {"1": 5}}', more: bytes = b"") -> bytes:
    return b"POST /v1/recommend HTTP/1.1\r\n%b%bContent-Length: %d\r\n\r\n%b" % (JSON, more, len(body), body)


def greedy(histories: int) -> bytes:
    return json.dumps({"histories": [[]] * histories, "n": 80}).encode()


@contextmanager
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[threading.Event, list[Any]]]:
    """Nothing is computed further until the event is set; and what is being computed."""
    may, computed, compute = threading.Event(), [], Api.compute

    def gated(self: Api, jobs: Any) -> Any:
        computed.extend(jobs)
        assert may.wait(LONG)
        return compute(self, jobs)

    monkeypatch.setattr(Api, "compute", gated)
    try:
        yield may, computed
    finally:
        may.set()


# -- time


def test_whoever_says_nothing_is_disconnected(strict: int) -> None:
    with connected(strict) as client:
        assert rest(client) == b""


@pytest.mark.parametrize(
    "sent",
    [
        b"G",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n",
        posted()[:-1],
        b"POST /v1/recommend HTTP/1.1\r\n" + JSON + b"Content-Length: 1000\r\n\r\n",
        b"POST /v1/recommend HTTP/1.1\r\n" + JSON + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: *\r\nContent-Length: 9\r\nExpect: 100-continue\r\n",
    ],
)
def test_a_request_has_its_time(strict: int, sent: bytes) -> None:
    with connected(strict, sent) as client:
        found = rest(client)
    assert found.startswith(b"HTTP/1.1 408 ")
    assert b'{"error": "the request took too long to arrive"}' in found


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nA: ", posted(b" " * 1000)[:-900], b"\r\n"])
def test_a_byte_now_and_then_gives_no_more_of_it(strict: int, sent: bytes) -> None:
    with connected(strict, sent) as client:
        client.settimeout(0.02)
        until = time.monotonic() + LONG
        with suppress(ConnectionError):
            while time.monotonic() < until:
                with suppress(TimeoutError):
                    if not client.recv(1000):
                        break
                client.sendall(b"\n" if sent in (b"", b"\r\n") else b" ")
        assert time.monotonic() < until


def kept_busy(client: socket.socket) -> bool:
    """Whether requests came one after another, for longer than one may take; not if this machine paused between two."""
    for _ in range(20):
        last = time.monotonic()
        time.sleep(SOON / 10)
        try:
            client.sendall(posted())
            assert one(client)[0] == 200
        except (AssertionError, ConnectionError):
            if time.monotonic() - last < SOON:  # the server had no reason
                raise
            return False
    return True


def test_an_idle_connection_is_closed_and_a_busy_one_is_not(strict: int, port: int) -> None:
    busy = False
    while not busy:
        with connected(strict) as client:
            busy = kept_busy(client)
            assert not busy or rest(client) == b""
    with connected(port) as client:
        for _ in range(3):
            client.sendall(posted())
            assert one(client)[0] == 200


def test_a_request_that_waits_for_others_is_not_late(films: Model, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        gate(monkeypatch) as (may, _),
        running(films, site, patience=SOON) as port,
        connected(port, posted()) as client,
    ):
        time.sleep(4 * SOON)
        may.set()
        assert one(client)[0] == 200


def test_whoever_does_not_read_is_disconnected(strict: int) -> None:
    with connected(strict, posted(greedy(100)), small=True) as client:
        client.recv(1, socket.MSG_PEEK)  # it answers now, however long that took
        time.sleep(6 * SOON)
        found = rest(client)
    whole = int(re.search(rb"content-length: (\d+)", found)[1])  # type: ignore[index]
    assert whole > 500_000
    assert len(found) < whole


def test_whoever_reads_slowly_is_not(films: Model, site: Site) -> None:
    with running(films, site, patience=1.0) as port, connected(port, posted(greedy(100)), small=True) as client:
        found = bytearray()
        while b'],"note":' not in found[-200:] or b"]}" not in found[-2:]:
            time.sleep(0.002)
            found.extend(client.recv(16384))
    assert len(json.loads(bytes(found).partition(b"\r\n\r\n")[2])["results"]) == 100


# -- size


@pytest.mark.parametrize(
    ("start", "more"),
    [
        (b"GET /", b"a" * 1000),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nA: ", b"a" * 1000),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n", b"a: b\r\n" * 100),
        (b"a" * 1000, b"a" * 1000),
    ],
)
def test_a_head_has_a_size(port: int, start: bytes, more: bytes) -> None:
    """Sent without end, whatever was refused is told, and the connection is closed."""
    with connected(port, start) as client:
        sent = 0
        with suppress(ConnectionError):
            while sent < 1 << 30:
                client.sendall(more)
                sent += len(more)
        assert sent < 1 << 30
    whole = start + more * 30
    assert asked(port, whole)[0] in (400, 431)
    if start != more:
        assert re.search(r"larger than 16,384 bytes|more than 100 headers", asked(port, whole)[1])


def test_a_head_that_is_large_enough(port: int) -> None:
    headers = b"".join(b"a%d: %b\r\n" % (number, b"b" * 150) for number in range(90))
    assert asked(port, posted(more=headers)) == (200, "")


@pytest.mark.parametrize(
    "chunks",
    [
        b"1;" + b"a" * 100_000 + b"\r\n{\r\n",
        b"1\r\n{\r\n" * 100_000,
        b"0\r\n" + b"a: b\r\n" * 100_000,
        b"0\r\na: " + b"b" * 100_000,
    ],
)
def test_what_is_around_a_body_has_a_size(port: int, chunks: bytes) -> None:
    head = b"POST /v1/recommend HTTP/1.1\r\n" + JSON + b"Transfer-Encoding: chunked\r\n\r\n"
    with connected(port, head + chunks) as client:
        found = rest(client)
    assert re.match(rb"(HTTP/1.1 4(00|31) |$)", found), found[:200]


def test_trailers_are_no_headers(port: int) -> None:
    body = b"15\r\n" + b'{"history": {"1": 5}}' + b"\r\n0\r\nHost: evil.example\r\nContent-Type: text/plain\r\n\r\n"
    head = b"POST /v1/recommend HTTP/1.1\r\n" + JSON + b"Transfer-Encoding: chunked\r\n\r\n"
    assert asked(port, head + body) == (200, "")


def test_a_body_that_is_too_large_is_not_read_forever(port: int) -> None:
    head = b"POST /v1/recommend HTTP/1.1\r\n" + JSON + b"Content-Length: 99999999999\r\n\r\n"
    assert asked(port, head) == (413, "the body is larger than 262,144 bytes")
    with connected(port, head) as client:
        sent = 0
        with suppress(ConnectionError):
            while sent < 1 << 28:
                client.sendall(b" " * 65536)
                sent += 65536
        assert sent < 1 << 28


def test_bodies_and_answers_have_a_size_together(films: Model, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    body = b'{"history": {"1": 5}}' + b" " * 20_000
    with gate(monkeypatch) as (may, _), running(films, site, memory=50_000) as port:
        with connected(port, posted(body)) as first, connected(port, posted(body)) as second:
            with connected(port) as third:
                for _ in range(1000):  # until the others have been read
                    third.sendall(posted(b" " * 20_000))
                    status, headers, content = one(third)
                    if status == 503:
                        break
                assert headers["retry-after"] == "1"
                assert "too many requests" in json.loads(content)["error"]
            may.set()
            assert one(first)[0] == one(second)[0] == 200
        assert asked(port, posted(b" " * 20_000))[0] == 400  # there is room again
        assert asked(port, posted(greedy(100)))[0] == 503  # an answer alone may be too large
        assert asked(port, posted()) == (200, "")


# -- number


def test_those_who_say_nothing_are_in_nobodys_way(films: Model, site: Site) -> None:
    with running(films, site, connections=8) as port, connected(port, posted()) as kept:
        assert one(kept)[0] == 200
        silent = [socket.create_connection(("127.0.0.1", port), LONG) for _ in range(30)]
        for _ in range(30):
            assert asked(port, posted()) == (200, "")
        assert rest(silent[0]) == b""
        for client in silent:
            client.close()


def test_whoever_waits_for_an_answer_is_not_disconnected(
    films: Model, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        gate(monkeypatch) as (may, computed),
        running(films, site, connections=2) as port,
        connected(port, posted()) as first,
        connected(port, posted(greedy(99))) as second,
    ):
        until = time.monotonic() + LONG
        while len(computed) < 2:  # one in each queue
            assert time.monotonic() < until
            time.sleep(0.01)
        with connected(port) as third:
            assert rest(third).startswith(b"HTTP/1.1 503 ")
        may.set()
        assert one(first)[0] == one(second)[0] == 200


def test_a_connection_answers_one_request_at_a_time(port: int) -> None:
    """What is sent ahead is not read: the first request is answered as ever, and then the connection is closed."""
    request = b"GET /v1/items?limit=%d HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for ahead in (request % 2, request % 2 * 100_000, b"nonsense", posted()[:-1]):
        with connected(port, request % 3 + ahead) as client:
            assert one(client)[0] == 200
            assert b"HTTP/1.1" not in rest(client)
    with connected(port) as client:
        for number in range(1, 5):
            client.sendall(request % number)
            assert one(client)[2].count(b'"title"') == number


@pytest.mark.parametrize(
    "bodies", [[b'{"history": {"2": 5}}'], [greedy(100)], [b'{"history": {"3": 5}}' + b" " * 9999]]
)
def test_what_clients_who_left_asked_for_is_not_computed(
    films: Model, site: Site, monkeypatch: pytest.MonkeyPatch, bodies: list[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "discreet.serve")
    with gate(monkeypatch) as (may, computed), running(films, site) as port:
        first = [b'{"history": {"1": 5}}', greedy(99)]  # one in each queue, so that the others wait
        with connected(port, posted(first[0])) as light, connected(port, posted(first[1])) as heavy:
            until = time.monotonic() + LONG
            while len(computed) < 2:
                assert time.monotonic() < until
                time.sleep(0.01)
            for body in bodies:
                with connected(port, posted(body)):
                    pass
            while not any(record.getMessage().startswith("POST /v1/recommend 499") for record in caplog.records):
                assert time.monotonic() < until
                time.sleep(0.01)
            may.set()
            assert one(light)[0] == one(heavy)[0] == 200
    assert len(computed) == 2


def test_the_process_may_have_as_many_files_as_connections() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 500), hard))
        raise_file_limit(Limits())
        found = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        assert found >= min(Limits().connections + FILES, hard)
        raise_file_limit(Limits(connections=1))
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == found
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# -- HTTP


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nA\x00: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nA: b\x00\r\n\r\n",
        b"GET \xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        posted(more=b"Content-Length: 3\r\n"),
        posted(more=b"Content-Length: 21, 21\r\n"),
        posted(more=b"Transfer-Encoding: chunked\r\n"),
        b"POST /v1/recommend HTTP/1.1\r\n" + JSON + b"Content-Length: -1\r\n\r\n",
        b"POST /v1/recommend HTTP/1.1\r\n" + JSON + b"Content-Length: 99999999999999999999999\r\n\r\n",
        b"POST /v1/recommend HTTP/1.1\r\n" + JSON + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        b"POST /v1/recommend HTTP/1.1\r\n" + JSON + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"POST /v1/recommend HTTP/1.1\r\n" + JSON + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"POST /v1/recommend HTTP/1.1\r\n" + JSON + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
    ],
)
def test_what_two_readers_could_read_differently_is_refused(port: int, sent: bytes) -> None:
    with connected(port, sent) as client:
        found = rest(client)
    assert found.startswith(b"HTTP/1.1 400 ")
    assert b"\r\nconnection: close\r\n" in found
    assert found.count(b"HTTP/1.1") == 1


def test_methods_and_versions(port: int) -> None:
    with connected(port, b"HEAD /v1/items HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n") as client:
        head = rest(client)
    assert head.startswith(b"HTTP/1.1 200 ")
    assert head.endswith(b"\r\n\r\n")
    assert asked(port, b"OPTIONS / HTTP/1.1\r\nHost: localhost\r\n\r\n")[0] == 405
    assert asked(port, b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n")[0] == 404
    with connected(port, b"GET /v1/items HTTP/1.0\r\nHost: localhost\r\n\r\n") as client:
        assert rest(client).startswith(b"HTTP/1.1 200 ")  # and closed


@pytest.mark.parametrize("protocol", [b"websocket", b"h2c"])
def test_there_is_no_other_protocol(port: int, protocol: bytes) -> None:
    """An Upgrade is ignored, and nothing that follows is read: not even a body, which may be in another protocol."""
    upgrade = b"Connection: Upgrade\r\nUpgrade: %b\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" % protocol
    with connected(port, b"GET /v1/items HTTP/1.1\r\nHost: localhost\r\n" + upgrade + b"\r\n" + posted() * 3) as client:
        found = rest(client)
    assert found.startswith(b"HTTP/1.1 200 ")
    assert found.count(b"HTTP/1.1") == 1
    with connected(port, posted(more=upgrade) + posted() * 3) as client:
        assert rest(client).count(b"HTTP/1.1") == 1


def test_what_is_refused_leaves_nothing_in_the_log(port: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for sent in (
        b"secret\r\n\r\n",
        b"GET /secret HTTP/1.1\r\nsecret: " + b"secret" * 9999,
        posted(b"secret", b"Host: x\r\n"),
    ):
        assert asked(port, sent)[0] in (400, 431)
    lines = [record.getMessage() for record in caplog.records]
    assert any(line.startswith("(unknown) (unknown) 431") for line in lines)
    assert not [line for line in lines if "secret" in line]
