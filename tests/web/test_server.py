"""The server: the API, its limits, its headers, and what it does not log."""

import asyncio
import gzip
import json
import logging
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import CHECKS
from schemathesis.generation import GenerationMode
from starlette.testclient import TestClient
from typer.testing import CliRunner

import discreet
from discreet.cli.commands import app
from discreet.models.base import Model
from discreet.web.api import Api, Limits
from discreet.web.server import LIGHT, LOCAL, TOGETHER, Batcher, Busy, Handlers, application
from discreet.web.site import Site, export
from tests.web.conftest import seeded

RECOMMEND = "/v1/recommend"
HERE = "http://localhost:8000"


@pytest.fixture(scope="module")
def site(films: Model) -> Site:
    return export(films, not_private=True)


@pytest.fixture(scope="module")
def client(films: Model, site: Site) -> Iterator[TestClient]:
    with TestClient(application(films, site, limits=Limits(body=20_000, histories=3, answer=1500)), HERE) as found:
        yield found


def asked(client: TestClient, **body: Any) -> Any:
    answer = client.post(RECOMMEND, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def rows(model: Model, history: Any, n: int = 10, **options: Any) -> list[dict[str, Any]]:
    """What Python recommends and predicts."""
    found = model.recommend(history, n, **options)
    ratings = [None] * len(found) if not model._predicts_ratings else model.predict(history, found.items).tolist()
    names = ("item", "title", "score", "rating")
    cells = zip(found.items, found.titles or [], found.scores.tolist(), ratings, strict=True)
    return [{"rank": rank, **dict(zip(names, row, strict=True))} for rank, row in enumerate(cells, 1)]


def test_recommend_is_what_python_gives(client: TestClient, films: Model) -> None:
    history = {1: 5.0, 7: 2.0}
    found = asked(client, history={"1": 5, "7": 2}, n=5)
    assert found == {"recommendations": rows(films, history, 5), "note": ""}
    assert asked(client, history=[1, "7"])["recommendations"] == rows(films, [1, 7])
    options = {"exclude_seen": False, "allow": [1, 2, 3, 4], "deny": [2]}
    assert asked(client, history={"1": 5, "7": 2}, **options)["recommendations"] == rows(films, history, **options)
    cold = asked(client, history={})
    assert cold["note"].startswith("no history")
    known = asked(client, history={"1": 5, "no such": 2}, on_unknown="ignore", deny=["no such"])
    assert known["recommendations"] == rows(films, {1: 5.0})


def test_many_histories(client: TestClient, films: Model) -> None:
    found = asked(client, histories=[{"1": 5}, [2], {}], n=3)["results"]
    assert [one["recommendations"] for one in found] == [rows(films, one, 3) for one in ({1: 5}, [2], {})]
    assert [bool(one["note"]) for one in found] == [False, False, True]


def test_implicit_feedback(ratings: discreet.Interactions) -> None:
    model = discreet.DPSVD(epsilon=50, delta=1e-6).fit(ratings.to_implicit(), ledger=seeded())
    with TestClient(application(model, export(model, not_private=True)), HERE) as client:
        assert asked(client, history=[1, 2])["recommendations"] == rows(model, [1, 2])


def test_lists_that_are_not_ordered_by_rating(two_heads: Model) -> None:
    with TestClient(application(two_heads, export(two_heads, not_private=True)), HERE) as client:
        found = asked(client, history={"1": 5, "7": 2, "9": 4}, n=20)["recommendations"]
        cold = asked(client, history={}, n=5)
    assert found == rows(two_heads, {1: 5.0, 7: 2.0, 9: 4.0}, 20)
    ratings = [row["rating"] for row in found]
    assert ratings != sorted(ratings, reverse=True)
    assert cold == {"recommendations": rows(two_heads, {}, 5), "note": "no history: ranked by popularity"}


def test_requests_computed_together_are_answered_apart(films: Model) -> None:
    api = Api(films)
    bodies = [
        {"history": {"1": 5}, "n": 3},
        {"history": {"2": 1}, "n": 7, "exclude_seen": False},
        {"history": {}, "n": 1},
        {"histories": [{"3": 4}, {"4": 4}], "n": 5},
        {"history": {"1": 5}, "n": 80, "deny": [2, 3]},
    ]
    requests = [api.parse(json.dumps(body).encode()) for body in bodies]
    together = api.recommend(requests)
    assert [len(answer) for answer in together] == [1, 1, 1, 2, 1]
    for request, answer in zip(requests, together, strict=True):
        alone = api.recommend([request])[0]
        for left, right in zip(answer, alone, strict=True):
            assert left == right


@pytest.mark.parametrize("two", [False, True])
@pytest.mark.parametrize("exclude_seen", [True, False])
def test_an_answer_does_not_depend_on_who_asks_at_the_same_time(
    ratings: discreet.Interactions, two_heads: Model, exclude_seen: bool, two: bool
) -> None:
    """To the last bit, through the queue that requests wait in."""
    model = two_heads if two else discreet.ALS(16, n_steps=2).fit(ratings)
    api, sizes = Api(model), []
    histories = [{str(item): value for item, value in ratings.history(user).items()} for user in ratings.users[:70]]
    bodies = [{"history": one, "n": 1 + at % 40, "exclude_seen": exclude_seen} for at, one in enumerate(histories)]
    requests = [api.parse(json.dumps(body).encode()) for body in [*bodies, {"history": {}}]]
    alone = [api.recommend([request])[0] for request in requests]

    def compute(batch: Any) -> Any:
        sizes.append(len(batch))
        return api.recommend(batch)

    async def use() -> None:
        batcher = Batcher(compute, 4096)
        for several in (2, 5, 64, 70):
            chosen = [*range(70 - several, 70), 70]
            found = await asyncio.gather(*(batcher.submit(requests[at]) for at in chosen))
            assert found == [alone[at] for at in chosen]
        batcher.close()

    asyncio.run(use())
    assert max(sizes) == TOGETHER


def test_a_batch_waits_for_nobody_and_has_limits() -> None:
    sizes: list[int] = []

    def compute(batch: Any) -> Any:
        sizes.append(len(batch))
        if "bad" in batch:
            raise ValueError("bad")
        return [part if isinstance(part, Exception) else part * 2 for part in batch]

    async def run() -> None:
        batcher = Batcher(compute, 1000)
        assert await batcher.submit(1) == 2
        found = await asyncio.gather(*(batcher.submit(number) for number in range(200)))
        assert list(found) == [2 * number for number in range(200)]
        with pytest.raises(KeyError):
            await batcher.submit(KeyError())
        first, bad, last = (asyncio.create_task(batcher.submit(one)) for one in (3, "bad", 4))
        assert (await first, await last) == (6, 8), "one that fails takes no others with it"
        with pytest.raises(ValueError, match="bad"):
            await bad
        results = await asyncio.gather(*(batcher.submit(number) for number in range(1100)), return_exceptions=True)
        assert [isinstance(result, Busy) for result in results] == [False] * 1000 + [True] * 100
        assert await batcher.submit(5, size=10_000) == 10, "whatever is larger than all that may wait is computed alone"
        batcher.close()

    asyncio.run(run())
    assert max(sizes) == TOGETHER


class Held:
    """Computes when it is told to, and remembers what."""

    def __init__(self) -> None:
        self.may = threading.Event()
        self.computed: list[list[Any]] = []

    def __call__(self, batch: Any) -> Any:
        assert self.may.wait(60)
        self.computed.append(list(batch))
        return list(batch)


def test_those_who_ask_for_little_do_not_wait_for_those_who_ask_for_much() -> None:
    compute = Held()

    async def run() -> None:
        batcher = Batcher(compute, 1000)
        tasks = [asyncio.create_task(batcher.submit("first"))]
        await asyncio.sleep(0)
        tasks += [asyncio.create_task(batcher.submit(f"large {number}", size=300)) for number in range(4)]
        tasks += [asyncio.create_task(batcher.submit(f"small {number}")) for number in range(3)]
        await asyncio.sleep(0)
        compute.may.set()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [str(one) for one in results if isinstance(one, str)] == [
            *("first", "large 0", "large 1", "large 2", "small 0", "small 1", "small 2")
        ]
        assert isinstance(results[4], Busy), "the last of what is too much"
        batcher.close()

    asyncio.run(run())
    assert compute.computed == [["first"], ["small 0", "small 1", "small 2", "large 0"], ["large 1"], ["large 2"]]


def test_what_nobody_waits_for_is_not_computed() -> None:
    compute = Held()

    async def run() -> None:
        batcher = Batcher(compute, 1000)
        first = asyncio.create_task(batcher.submit("first"))
        await asyncio.sleep(0)
        left = [asyncio.create_task(batcher.submit("left", size=300)) for _ in range(3)]
        await asyncio.sleep(0)
        for task in left:
            task.cancel()
        await asyncio.wait(left)
        stayed = asyncio.create_task(batcher.submit("stayed", size=900))  # there is room for it again
        await asyncio.sleep(0)
        compute.may.set()
        assert await asyncio.gather(first, stayed) == ["first", "stayed"]
        batcher.close()

    asyncio.run(run())
    assert compute.computed == [["first"], ["stayed"]]


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        (b"", 400, "JSON"),
        (b"{", 400, "JSON"),
        (b"\xff", 400, "JSON"),
        (b"[" * 5000, 400, "JSON"),
        (b'{"history": {"1": NaN}}', 400, "JSON"),
        (b'{"history": {"1": 1, "1": 2}}', 400, "JSON"),
        (b'{"history": {"1": ' + b"9" * 5000 + b"}}", 400, "JSON"),
        (b"[]", 422, "object"),
        (b"{}", 422, "give either"),
        (b'{"history": {}, "histories": [{}]}', 422, "give either"),
        (b'{"history": {}, "top": 3}', 422, "'top' is not a field"),
        (b'{"history": 5}', 422, "history"),
        (b'{"history": {"1": 6}}', 422, "0.5 to 5"),
        (b'{"history": {"1": true}}', 422, "0.5 to 5"),
        (b'{"history": {"1": "5"}}', 422, "0.5 to 5"),
        (b'{"history": [1.5]}', 422, "strings or whole numbers"),
        (b'{"history": [true]}', 422, "strings or whole numbers"),
        (b'{"history": ["no such"]}', 422, "no such"),
        (b'{"history": {}, "n": 0}', 422, "n:"),
        (b'{"history": {}, "n": 1.5}', 422, "n:"),
        (b'{"history": {}, "n": 1001}', 422, "n:"),
        (b'{"history": {}, "exclude_seen": 1}', 422, "exclude_seen"),
        (b'{"history": {}, "allow": {}}', 422, "allow"),
        (b'{"history": {}, "on_unknown": "warn"}', 422, "on_unknown"),
        (b'{"histories": []}', 422, "at least one"),
        (b'{"histories": [{}, {}, {}, {}]}', 422, "at most 3"),
        (
            b'{"histories": [{}, {}], "n": 751}',
            422,
            "at most 1,500 recommendations, and 2 histories with n = 751 ask for",
        ),
        (b'{"history": [' + b"1," * 9999 + b"1]}", 413, "larger than"),
    ],
)
def test_a_wrong_request_gets_a_reason(body: bytes, status: int, reason: str, client: TestClient) -> None:
    answer = client.post(RECOMMEND, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == status
    assert reason in answer.json()["error"]


def test_a_history_has_a_longest(films: Model) -> None:
    with TestClient(application(films, export(films, not_private=True), limits=Limits(body=1 << 20)), HERE) as client:
        answer = client.post(RECOMMEND, json={"history": [1] * 10_001})
    assert answer.status_code == 422
    assert "10,000" in answer.json()["error"]


def test_bodies(client: TestClient) -> None:
    assert client.post(RECOMMEND, content=b"{}").status_code == 415
    assert client.post(RECOMMEND, content=b"{}", headers={"content-type": "text/plain"}).status_code == 415

    def endless() -> Iterator[bytes]:  # no length is declared
        for _ in range(50):
            yield b" " * 1000

    answer = client.post(RECOMMEND, content=endless(), headers={"content-type": "application/json"})
    assert answer.status_code == 413


def test_items(client: TestClient) -> None:
    found = client.get("/v1/items", params={"search": "FILM 7", "limit": 3}).json()
    assert found["total"] == 17  # 7, 17, ... 67, and 70 to 79
    assert client.get("/v1/items", params={"search": "7 film"}).json()["total"] == 17  # words in any order
    assert found["items"][0] == {"item": 7, "title": "Film 7"}
    assert client.get("/v1/items", params={"offset": 78}).json()["items"][-1]["item"] == 80
    for query in ("limit=0", "limit=501", "limit=x", "offset=-1", "limit=1&limit=2", "find=x", "search=" + "x" * 201):
        assert client.get(f"/v1/items?{query}").status_code == 422


def test_statement(client: TestClient, films: Model) -> None:
    assert client.get("/v1/statement").json() == films.statement().certificate


def test_the_page_is_there_and_nothing_else(client: TestClient, site: Site) -> None:
    for name, content in site.files.items():
        answer = client.get(f"/{name}", headers={"accept-encoding": "identity"})
        assert answer.content == content
        assert client.get(f"/{name}", headers={"if-none-match": answer.headers["etag"]}).status_code == 304
    assert client.get("/").headers["content-type"] == "text/html; charset=utf-8"
    assert client.get("/app.js").headers["content-type"].startswith("text/javascript")
    packed = client.get("/model/arrays.bin", headers={"accept-encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(gzip.compress(packed.content)) == site.files["model/arrays.bin"]
    for path in (
        "/..%2f..%2fetc/passwd",
        "/%2e%2e/pyproject.toml",
        "//etc/passwd",
        "/model/",
        "/model/../app.js",
        "/x",
    ):
        assert client.get(path).status_code in (404, 200 if path.endswith("../app.js") else 404)
    answer = client.get(RECOMMEND)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert "only POST is supported" in answer.json()["error"]
    assert client.delete("/").status_code == 405


@pytest.mark.parametrize("path", ["/", "/app.js", "/v1/statement", "/nowhere", "/v1/recommend"])
def test_security_headers_are_on_every_answer(path: str, client: TestClient) -> None:
    headers = client.get(path).headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "server" not in headers


def test_logs_contain_no_ratings(
    films: Model, site: Site, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    with TestClient(application(films, site), HERE) as client:
        client.post(RECOMMEND, json={"history": {"7": 4.25}})
        client.post(RECOMMEND, json={"history": {"secret": 4.25}})
        client.post(RECOMMEND + "?history=secret", content=b"secret")
        client.get("/v1/items?search=secret")
        client.get("/secret")

        def broken(self: Any, requests: Any) -> Any:
            raise ValueError(f"secret {requests}")

        monkeypatch.setattr(Api, "recommend", broken)
    with TestClient(application(films, site), HERE, raise_server_exceptions=False) as client:
        answer = client.post(RECOMMEND, json={"history": {"7": 4.25}})
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "x-content-type-options" in answer.headers
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("discreet")]
    assert any(line.startswith("POST /v1/recommend 200") for line in lines)
    assert any(line.startswith("POST /v1/recommend 422") for line in lines)
    assert any(line.startswith("GET (unknown) 404") for line in lines)
    assert any(line.startswith("ValueError in ") for line in lines)
    assert not [line for line in lines if "secret" in line or "4.25" in line]


@pytest.fixture(scope="module")
def schema(films: Model, site: Site) -> Any:
    return schemathesis.openapi.from_asgi("/openapi.json", application(films, site, allowed_hosts=["testserver"]))


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
@pytest.mark.parametrize(("path", "method"), [(RECOMMEND, "POST"), ("/v1/items", "GET"), ("/v1/statement", "GET")])
def test_a_fuzz_of_its_description(path: str, method: str, mode: GenerationMode, schema: Any) -> None:
    """Right and wrong requests made from the description get answers that it describes, and wrong ones are refused."""
    operation = schema[path][method]
    if mode is GenerationMode.NEGATIVE and path == "/v1/statement":
        return  # there is nothing to be wrong
    unknown_items = CHECKS.get_one("positive_data_acceptance")  # the right type of an id does not make it known
    rejection = CHECKS.get_one("negative_data_rejection")

    @settings(max_examples=60, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def fuzz(case: Any) -> None:
        answer = case.call()
        too_large = [rejection] if answer.status_code == 413 else []  # refused, if not for the reason looked for
        case.validate_response(answer, excluded_checks=[unknown_items, *too_large])

    fuzz()


def started(process: "subprocess.Popen[str]") -> Any:
    """What a server says of itself, when it can be reached."""
    lines = [process.stdout.readline()]  # type: ignore[union-attr]
    while lines[-1] not in ("}\n", ""):
        lines.append(process.stdout.readline())  # type: ignore[union-attr]
    return json.loads("".join(lines))


def test_the_command_serves(films: Model, tmp_path: Path) -> None:
    films.save(tmp_path / "model")
    run = [sys.executable, "-c", "from discreet.cli import main; main()", "serve", str(tmp_path / "model")]
    command = [*run, "--not-private", "--port", "0", "--json", "--verbose"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            url = started(process)["url"]
            body = json.dumps({"history": {"7": 4.25}, "n": 2}).encode()
            request = urllib.request.Request(f"{url}v1/recommend", body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=120) as answer:
                assert len(json.load(answer)["recommendations"]) == 2
        finally:
            process.send_signal(signal.SIGINT)
        out, told = process.communicate(timeout=120)
    assert process.returncode in (0, 130, -signal.SIGINT)
    assert "POST /v1/recommend 200" in told
    assert "4.25" not in out + told
    assert "Traceback" not in told


def test_a_port_that_is_taken(films: Model, tmp_path: Path) -> None:
    films.save(tmp_path / "model")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        found = CliRunner().invoke(app, ["serve", str(tmp_path / "model"), "--not-private", "--port", port])
    assert found.exit_code == 1
    assert "--port 0" in found.output


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("localhost:8000", 200),
        ("LocalHost:1", 200),
        ("localhost.", 200),
        ("localhost.:80", 200),
        ("127.0.0.1:8000", 200),
        ("[::1]", 200),
        ("[::1]:8000", 200),
        ("recommend.example.org", 200),
        ("RECOMMEND.example.org.:443", 200),
        ("[2001:db8::1]:443", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("evil.example:localhost", 421),
        ("evil.example#localhost", 421),
        ("localhost@evil.example", 421),
        ("localhost, evil.example", 421),
        ("localhost:80:80", 421),
        ("localhost..", 421),
        ("::1", 421),
        ("[::2]", 421),
        ("192.168.0.1", 421),
        ("", 421),
        ("xn--" + "é" * 300, 421),
    ],
)
def test_it_answers_to_its_own_names_only(films: Model, site: Site, host: str, status: int) -> None:
    """Whoever makes a name of theirs point to this machine gets nothing (DNS rebinding)."""
    app = application(films, site, allowed_hosts=[*LOCAL, "Recommend.example.org", "2001:db8::1"])
    client = TestClient(app, HERE)
    for path in ("/", "/v1/items", "/nowhere"):
        answer = client.get(path, headers={"host": host.encode("latin-1", "replace")})
        assert answer.status_code == (404 if (path, status) == ("/nowhere", 200) else status)
        assert "x-content-type-options" in answer.headers
    if status == 421:
        assert "--allowed-hosts" in answer.json()["error"]
        assert len(answer.content) < 300
    anybody = TestClient(application(films, site, allowed_hosts=["*"]), HERE)
    assert anybody.get("/", headers={"host": host.encode("latin-1", "replace")}).status_code == 200


@pytest.mark.parametrize(
    ("hosts", "version", "statuses"),
    [
        ([], "1.1", (400, 400)),
        ([], "1.0", (400, 200)),
        ([b"localhost"], "1.0", (200, 200)),
        ([b"localhost", b"localhost"], "1.1", (400, 400)),
        ([b"localhost", b"evil.example"], "1.0", (400, 400)),
    ],
)
def test_one_host_is_needed(
    films: Model, site: Site, hosts: list[bytes], version: str, statuses: tuple[int, int]
) -> None:
    found = []

    async def send(message: Any) -> None:
        found.extend([message["status"]] if "status" in message else [])

    for allowed in (LOCAL, ["*"]):
        scope = {"type": "http", "method": "GET", "path": "/", "http_version": version, "query_string": b""}
        app = application(films, site, allowed_hosts=allowed)
        asyncio.run(app({**scope, "headers": [(b"host", host) for host in hosts]}, None, send))
    assert tuple(found) == statuses


@pytest.mark.parametrize(
    "name", ["http://a.example", "a.example:80", "a.example/x", "*.example", "", "a b", "[::1]:80"]
)
def test_names_that_are_none(films: Model, site: Site, name: str) -> None:
    with pytest.raises(
        discreet.errors.ModelError, match=r"allowed hosts: .* is not a host name; .*without http:// and port"
    ):
        application(films, site, allowed_hosts=[name])


class Told:
    """In the place of a server."""

    def __init__(self, config: Any) -> None:
        self.config = config

    def run(self, sockets: list[socket.socket]) -> None:
        for one in sockets:
            one.close()


@pytest.mark.parametrize(
    ("arguments", "hosts"),
    [
        ([], {*LOCAL}),
        (["--host", "localhost"], {*LOCAL}),
        (["--host", "::1"], {*LOCAL}),
        (["--host", "0.0.0.0"], {*LOCAL, "0.0.0.0"}),
        (["--allowed-hosts", "a.example, B.example."], {*LOCAL, "a.example", "b.example"}),
        (["--host", "0.0.0.0", "--allowed-hosts", "*"], {*LOCAL, "0.0.0.0", "*"}),
    ],
)
def test_the_command_says_which_names(
    films: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], hosts: set[str]
) -> None:
    films.save(tmp_path / "model")
    made: list[Any] = []
    monkeypatch.setattr("uvicorn.Server", lambda config: made.append(config) or Told(config))
    monkeypatch.setattr(sys, "setswitchinterval", lambda _: None)
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)
    told = CliRunner().invoke(app, ["serve", str(tmp_path / "model"), "--not-private", "--port", "0", *arguments])
    assert told.exit_code == 0, told.output
    assert made[0].app.hosts == hosts
    assert made[0].app.limits == Limits()  # the options' defaults are those
    assert ("--allowed-hosts" in told.output) == (arguments == ["--host", "0.0.0.0"])
    if "::1" in arguments:
        assert "http://[::1]:" in told.output


def test_the_command_refuses_a_wrong_name(films: Model, tmp_path: Path) -> None:
    films.save(tmp_path / "model")
    told = CliRunner().invoke(app, ["serve", str(tmp_path / "model"), "--not-private", "--allowed-hosts", "http://a"])
    assert told.exit_code == 1
    assert "'http://a' is not a host name" in told.output


def test_large_and_small_requests_at_once_get_the_same_bits(ratings: discreet.Interactions) -> None:
    """They are computed in two threads."""
    model = discreet.ALS(16, n_steps=2).fit(ratings)
    histories = [{str(item): value for item, value in ratings.history(user).items()} for user in ratings.users[:40]]
    small = [{"history": one, "n": 5} for one in histories]
    large = {"histories": histories, "n": 80}

    async def use() -> None:
        handlers = Handlers(Api(model))
        jobs = [handlers.api.parse(json.dumps(body).encode()) for body in [*small, large]]
        alone = [handlers.api.compute([job])[0] for job in jobs]
        assert any(job.size > LIGHT for job in jobs)
        for _ in range(3):
            assert await asyncio.gather(*(handlers.submit(job, job.size) for job in jobs)) == alone
        handlers.close()

    asyncio.run(use())


def test_the_description_has_the_limits(client: TestClient) -> None:
    described = client.get("/openapi.json").json()
    schemas = described["components"]["schemas"]
    assert "1,500 recommendations" in schemas["Number"]["description"]
    assert schemas["Histories"]["maxItems"] == 3
    assert (schemas["Rating"]["minimum"], schemas["Rating"]["maximum"]) == (0.5, 5)
    responses = described["paths"]["/v1/recommend"]["post"]["responses"]
    assert set(responses) == {"200", "400", "408", "413", "415", "421", "422", "431", "503"}


def test_the_requests_of_the_guide(client: TestClient) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "browser.md").read_text(encoding="utf-8")
    requests = re.findall(r"^\$ curl -s '?localhost:8000(\S+?)'?(?: -H '(.*?)' -d '(.*?)')?$", guide, flags=re.M)
    assert len(requests) == 3
    for path, _, body in requests:
        sent = {"content": body, "headers": {"content-type": "application/json"}}
        answer = client.post(path, **sent) if body else client.get(path)
        assert answer.status_code == 200, path
