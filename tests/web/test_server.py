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
from discreet.cli import app
from discreet.models.base import Model
from discreet.web import server
from discreet.web.api import Api
from discreet.web.batching import MOST, WAITING, Batcher, Busy
from discreet.web.server import application
from discreet.web.site import Site, export
from tests.web.conftest import seeded

RECOMMEND = "/v1/recommend"


@pytest.fixture(scope="module")
def site(films: Model) -> Site:
    return export(films, not_private=True)


@pytest.fixture(scope="module")
def client(films: Model, site: Site) -> Iterator[TestClient]:
    with TestClient(application(films, site, max_body=20_000, max_batch=3)) as found:
        yield found


def asked(client: TestClient, **body: Any) -> Any:
    answer = client.post(RECOMMEND, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def rows(wanted: Any) -> list[dict[str, Any]]:
    return [
        {"rank": rank, "item": item, "title": title, "score": score}
        for rank, ((item, score), title) in enumerate(zip(wanted, wanted.titles, strict=True), 1)
    ]


def test_recommend_is_what_python_gives(client: TestClient, films: Model) -> None:
    history = {1: 5.0, 7: 2.0}
    found = asked(client, history={"1": 5, "7": 2}, n=5)
    assert found == {"recommendations": rows(films.recommend(history, n=5)), "note": ""}
    assert asked(client, history=[1, "7"])["recommendations"] == rows(films.recommend([1, 7]))
    options = {"exclude_seen": False, "allow": [1, 2, 3, 4], "deny": [2]}
    assert asked(client, history={"1": 5, "7": 2}, **options)["recommendations"] == rows(
        films.recommend(history, **options)
    )
    cold = asked(client, history={})
    assert cold["note"].startswith("no history")
    known = asked(client, history={"1": 5, "no such": 2}, on_unknown="ignore", deny=["no such"])
    assert known["recommendations"] == rows(films.recommend({1: 5.0}))


def test_many_histories(client: TestClient, films: Model) -> None:
    found = asked(client, histories=[{"1": 5}, [2], {}], n=3)["results"]
    assert [one["recommendations"] for one in found] == [rows(films.recommend(one, n=3)) for one in ({1: 5}, [2], {})]
    assert [bool(one["note"]) for one in found] == [False, False, True]


def test_implicit_feedback(ratings: discreet.Interactions) -> None:
    model = discreet.DPSVD(epsilon=50, delta=1e-6).fit(ratings.to_implicit(), ledger=seeded())
    with TestClient(application(model, export(model, not_private=True))) as client:
        assert asked(client, history=[1, 2])["recommendations"] == rows(model.recommend([1, 2]))


def test_requests_computed_together_are_answered_apart(films: Model) -> None:
    api = Api(films)
    bodies = [
        {"history": {"1": 5}, "n": 3},
        {"history": {"2": 1}, "n": 7, "exclude_seen": False},
        {"history": {}, "n": 1},
        {"histories": [{"3": 4}, {"4": 4}], "n": 5},
        {"history": {"1": 5}, "n": 80, "deny": [2, 3]},
    ]
    requests = [api.parse(json.dumps(body).encode())[0] for body in bodies]
    together = api.recommend(requests)
    assert [len(answer) for answer in together] == [1, 1, 1, 2, 1]
    for request, answer in zip(requests, together, strict=True):
        alone = api.recommend([request])[0]
        for left, right in zip(answer, alone, strict=True):
            assert left == right


@pytest.mark.parametrize("exclude_seen", [True, False])
def test_an_answer_does_not_depend_on_who_asks_at_the_same_time(
    ratings: discreet.Interactions, exclude_seen: bool
) -> None:
    """To the last bit, through the queue that requests wait in."""
    model = discreet.ALS(16, n_steps=2).fit(ratings)
    api, sizes = Api(model), []
    histories = [{str(item): value for item, value in ratings.history(user).items()} for user in ratings.users[:70]]
    bodies = [{"history": one, "n": 1 + at % 40, "exclude_seen": exclude_seen} for at, one in enumerate(histories)]
    requests = [api.parse(json.dumps(body).encode())[0] for body in [*bodies, {"history": {}}]]
    alone = [api.recommend([request])[0] for request in requests]

    def compute(batch: Any) -> Any:
        sizes.append(len(batch))
        return api.recommend(batch)

    async def use() -> None:
        batcher: Batcher[Any, Any] = Batcher(compute)
        for several in (2, 5, 64, 70):
            chosen = [*range(70 - several, 70), 70]
            found = await asyncio.gather(*(batcher.submit(requests[at]) for at in chosen))
            assert found == [alone[at] for at in chosen]
        batcher.close()

    asyncio.run(use())
    assert max(sizes) == MOST


def test_a_batch_waits_for_nobody_and_has_limits() -> None:
    sizes: list[int] = []

    def compute(batch: Any) -> Any:
        sizes.append(len(batch))
        if "bad" in batch:
            raise ValueError("bad")
        return [part * 2 for part in batch]

    async def run() -> None:
        batcher: Batcher[Any, Any] = Batcher(compute)
        assert await batcher.submit(1) == 2
        found = await asyncio.gather(*(batcher.submit(number) for number in range(200)))
        assert list(found) == [2 * number for number in range(200)]
        with pytest.raises(ValueError, match="bad"):
            await batcher.submit("bad")
        assert await batcher.submit(3) == 6
        waiting = [asyncio.create_task(batcher.submit(number)) for number in range(WAITING + MOST + 50)]
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert any(isinstance(result, Busy) for result in results)
        batcher.close()

    asyncio.run(run())
    assert max(sizes) == MOST


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
        (b"{}", 422, "give one of"),
        (b'{"history": {}, "histories": [{}]}', 422, "give one of"),
        (b'{"history": {}, "top": 3}', 422, "'top' is no field"),
        (b'{"history": 5}', 422, "history"),
        (b'{"history": {"1": 6}}', 422, "0.5 to 5"),
        (b'{"history": {"1": true}}', 422, "0.5 to 5"),
        (b'{"history": {"1": "5"}}', 422, "0.5 to 5"),
        (b'{"history": [1.5]}', 422, "texts or whole numbers"),
        (b'{"history": [true]}', 422, "texts or whole numbers"),
        (b'{"history": ["no such"]}', 422, "no such"),
        (b'{"history": {}, "n": 0}', 422, "n:"),
        (b'{"history": {}, "n": 1.5}', 422, "n:"),
        (b'{"history": {}, "n": 1001}', 422, "n:"),
        (b'{"history": {}, "exclude_seen": 1}', 422, "exclude_seen"),
        (b'{"history": {}, "allow": {}}', 422, "allow"),
        (b'{"history": {}, "on_unknown": "warn"}', 422, "on_unknown"),
        (b'{"histories": []}', 422, "at least one"),
        (b'{"histories": [{}, {}, {}, {}]}', 422, "at most 3"),
        (b'{"history": [' + b"1," * 9999 + b"1]}", 413, "larger than"),
    ],
)
def test_a_wrong_request_gets_a_reason(body: bytes, status: int, reason: str, client: TestClient) -> None:
    answer = client.post(RECOMMEND, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == status
    assert reason in answer.json()["error"]


def test_a_history_has_a_longest(films: Model) -> None:
    with TestClient(application(films, export(films, not_private=True), max_body=1 << 20)) as client:
        answer = client.post(RECOMMEND, json={"history": [1] * 10_001})
    assert answer.status_code == 422
    assert "10,000" in answer.json()["error"]


def test_bodies(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    assert client.post(RECOMMEND, content=b"{}").status_code == 415
    assert client.post(RECOMMEND, content=b"{}", headers={"content-type": "text/plain"}).status_code == 415

    def endless() -> Iterator[bytes]:  # no length is declared
        for _ in range(50):
            yield b" " * 1000

    answer = client.post(RECOMMEND, content=endless(), headers={"content-type": "application/json"})
    assert answer.status_code == 413

    class Slow:
        headers = {"content-type": "application/json"}  # noqa: RUF012

        async def stream(self) -> Any:
            await asyncio.sleep(5)
            yield b""

    monkeypatch.setattr(server, "PATIENCE", 0.01)
    with pytest.raises(server.Refused) as refused:
        asyncio.run(server._body(Slow(), 10))  # type: ignore[arg-type]
    assert refused.value.status == 408


def test_items(client: TestClient) -> None:
    found = client.get("/v1/items", params={"search": "FILM 7", "limit": 3}).json()
    assert found["total"] == 11
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
    assert "POST that is answered" in answer.json()["error"]
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
    with TestClient(application(films, site)) as client:
        client.post(RECOMMEND, json={"history": {"7": 4.25}})
        client.post(RECOMMEND, json={"history": {"secret": 4.25}})
        client.post(RECOMMEND + "?history=secret", content=b"secret")
        client.get("/v1/items?search=secret")
        client.get("/secret")

        def broken(self: Any, requests: Any) -> Any:
            raise ValueError(f"secret {requests}")

        monkeypatch.setattr(Api, "recommend", broken)
    with TestClient(application(films, site), raise_server_exceptions=False) as client:
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
    return schemathesis.openapi.from_asgi("/openapi.json", application(films, site))


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


def test_the_command_serves(films: Model, tmp_path: Path) -> None:
    films.save(tmp_path / "model")
    run = [sys.executable, "-c", "from discreet.cli import main; main()", "serve", str(tmp_path / "model")]
    command = [*run, "--not-private", "--port", "0", "--json", "--verbose"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            lines = [process.stdout.readline() for _ in range(4)]  # type: ignore[union-attr]
            url = json.loads("".join(lines))["url"]
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


def test_the_requests_of_the_guide(client: TestClient) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "browser.md").read_text(encoding="utf-8")
    requests = re.findall(r"^\$ curl -s '?localhost:8000(\S+?)'?(?: -H '(.*?)' -d '(.*?)')?$", guide, flags=re.M)
    assert len(requests) == 3
    for path, _, body in requests:
        sent = {"content": body, "headers": {"content-type": "application/json"}}
        answer = client.post(path, **sent) if body else client.get(path)
        assert answer.status_code == 200, path
