"""Requests a second of `discreet serve`: one-user recommendations of 20,000 items at rank 64, the p99, the memory.

    python benchmarks/serve.py [--seconds 5] [--connections 8 32 64] [--rounds 3]
    python benchmarks/serve.py --beside ../other/src    beside the server of another version, by turns
    python benchmarks/serve.py --attack                 what an honest client gets while others attack, and the memory

The server runs as a user runs it, in a process of its own; clients beside it, with keep-alive connections; attackers in
another process, from this machine only, so many and for so long as `ATTACKS` says.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

RUN = "from discreet.cli import main; main()"
ITEMS, RANK, WARM_UP = 20_000, 64, 2.0
HEAD = b"POST /v1/recommend HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


def main() -> None:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--connections", type=int, nargs="+", default=[8, 32, 64])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--beside", type=Path, help="the src folder of another version")
    parser.add_argument("--attack", action="store_true")
    asked = parser.parse_args()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        items = trained(folder)
        servers = {"this version": stack.enter_context(served(folder))}
        if asked.beside:
            other = stack.enter_context(tempfile.TemporaryDirectory())
            trained(other, source=asked.beside)  # by itself: versions may save in other formats
            servers["the other"] = stack.enter_context(served(other, asked.beside))
        if asked.attack:
            for name, server in servers.items():
                print(f"{name}, before: memory {server.memory():.0f} MB")
                for attack in ATTACKS:
                    print(f"{name}, {attack}: {attacked(server, items, [attack], asked.seconds)}", flush=True)
                print(f"{name}, together: {attacked(server, items, TOGETHER, 3 * asked.seconds)}", flush=True)
        else:
            throughput(servers, items, asked.connections, asked.rounds, asked.seconds)


# -- the server


TRAIN = """
import json, sys, discreet
ratings = discreet.datasets.movielens_like(5_000, int(sys.argv[2]), 200_000, random_state=0)
discreet.ALS(rank=int(sys.argv[3]), n_steps=1).fit(ratings).save(sys.argv[1])
print(json.dumps(list(ratings.items)))
"""


def trained(folder: str, items: int = ITEMS, source: Path | None = None) -> list[int]:
    """A model in a folder, saved by the version that will serve it, and its items."""
    command = [sys.executable, "-c", TRAIN, folder, str(items), str(RANK)]
    made = subprocess.run(command, env=environment(source), capture_output=True, text=True, check=True)
    found: list[int] = json.loads(made.stdout)
    return found


def environment(source: Path | None) -> dict[str, str]:
    """Of a process that runs this version, or that of another folder."""
    return {**os.environ, **({"PYTHONPATH": str(source.resolve())} if source else {})}


@dataclass(frozen=True)
class Server:
    """A server that runs."""

    pid: int
    port: int

    def memory(self, peak: bool = False) -> float:
        """Resident, in MB; now, or at most since `forget_peak`."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM" if peak else "VmRSS")).split()[1]) / 1024

    def forget_peak(self) -> None:
        """Start to look for the most memory anew."""
        with suppress(OSError):  # where it cannot be forgotten, the peak is that of all attacks so far
            Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def processor(self) -> float:
        """Seconds of processor time that it has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def served(folder: str, source: Path | None = None) -> Iterator[Server]:
    """`discreet serve`, in a process of its own."""
    command = [sys.executable, "-c", RUN, "serve", folder, "--not-private", "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment(source)) as process:
        try:
            lines = [process.stdout.readline()]  # type: ignore[union-attr]
            while lines[-1] not in ("}\n", ""):
                lines.append(process.stdout.readline())  # type: ignore[union-attr]
            yield Server(process.pid, int(json.loads("".join(lines))["url"].rstrip("/").rpartition(":")[2]))
        finally:
            process.terminate()


# -- throughput


def throughput(
    servers: dict[str, Server], items: list[int], connections: list[int], rounds: int, seconds: float
) -> None:
    """Print what servers can do, by turns."""
    for server in servers.values():
        asyncio.run(load(server.port, items, WARM_UP, 32))
    for several in connections:
        rates: dict[str, list[float]] = {name: [] for name in servers}
        for _ in range(rounds):
            for name, server in servers.items():
                used = server.processor()
                times, errors, took = asyncio.run(load(server.port, items, seconds, several))
                used = server.processor() - used
                rates[name].append(len(times) / took)
                print(
                    f"{name}, {several} connections: {len(times) / took:,.0f} requests a second, {errors} errors, "
                    f"{percentiles(times)}; {1000 * used / len(times):.2f} ms of one core for each; "
                    f"memory {server.memory():.0f} MB",
                    flush=True,
                )
        medians = [statistics.median(found) for found in rates.values()]
        print(f"{several} connections, medians: {', '.join(f'{median:,.0f}' for median in medians)}", end="")
        print(f"; ratio {medians[0] / medians[1]:.3f}" if len(medians) > 1 else "", flush=True)


def percentiles(times: list[float]) -> str:
    """The median and the p99."""
    found = sorted(times)
    return f"p50 {1000 * found[len(found) // 2]:.1f} ms, p99 {1000 * found[int(0.99 * len(found))]:.1f} ms"


def usual(items: list[int], rng: random.Random) -> bytes:
    """A request that people make."""
    body = json.dumps({"history": {str(item): rng.randint(1, 5) for item in rng.sample(items, 20)}}).encode()
    return HEAD % len(body) + body


async def answer(reader: asyncio.StreamReader) -> bool:
    """Whether an answer is good, once it has been read."""
    head = await reader.readuntil(b"\r\n\r\n")
    await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
    return head.startswith(b"HTTP/1.1 200")


async def load(port: int, items: list[int], seconds: float, connections: int) -> tuple[list[float], int, float]:
    """Latencies, the number of answers that were not 200, and how long it took."""
    times: list[float] = []
    errors = 0
    began = time.perf_counter()

    async def client(seed: int) -> None:
        nonlocal errors
        rng = random.Random(seed)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() - began < seconds:
            request = usual(items, rng)
            start = time.perf_counter()
            writer.write(request)
            good = await answer(reader)
            times.append(time.perf_counter() - start)
            errors += not good
        writer.close()
        await writer.wait_closed()

    await asyncio.gather(*(client(seed) for seed in range(connections)))
    return times, errors, time.perf_counter() - began


# -- attacks: what one attacker does with one connection, until the time is up

LIMIT = 10.0  # seconds after which an honest client gives up
PAUSE, AGAIN = 0.05, 1.0  # seconds until the next request of an honest client, the next connection of an attacker
Reader, Writer = asyncio.StreamReader, asyncio.StreamWriter
GREEDY = b'{"histories":[' + b",".join([b"[]"] * 100) + b'],"n":%d}'
LARGE = b'{"history":{},"deny":[' + b",".join([b"1"] * 9_999) + b'],"allow":[1]' + b" " * 200_000 + b"}"
READ = b'{"histories":[' + b",".join([b"[" + b",".join([b"1"] * 1_200) + b"]"] * 100) + b'],"n":1}'


def posted(body: bytes) -> bytes:
    """A request."""
    return HEAD % len(body) + body


async def silent(reader: Reader, writer: Writer) -> None:
    """Says nothing."""
    await reader.read(1)


async def slow_head(_: Reader, writer: Writer) -> None:
    """Sends a head, a byte a second."""
    for byte in b"GET / HTTP/1.1\r\nHost: localhost\r\n" + 1000 * b"a: b\r\n":
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(1)


async def endless_head(_: Reader, writer: Writer) -> None:
    """Sends a header without end."""
    writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nA: ")
    while True:
        writer.write(b"a" * 65536)
        await writer.drain()


async def slow_body(reader: Reader, writer: Writer) -> None:
    """Sends most of a large body, and no more."""
    writer.write(posted(LARGE)[:-10])
    await writer.drain()
    await reader.read(1)


async def unread(_: Reader, writer: Writer) -> None:
    """Asks for as much as is given, and does not read it."""
    for _ in range(100):
        writer.write(posted(GREEDY % 100))
        await writer.drain()
    await asyncio.sleep(60)


async def greedy(reader: Reader, writer: Writer) -> None:
    """Asks for as much as can be, and as is given."""
    for n in (1000, 100) * 1000:
        writer.write(posted(GREEDY % n))
        await answer(reader)


async def large(reader: Reader, writer: Writer) -> None:
    """Sends much that is to be read."""
    while True:
        writer.write(posted(READ))
        await answer(reader)


async def pipelined(_: Reader, writer: Writer) -> None:
    """Sends requests, and reads no answers."""
    while True:
        writer.write(b"GET /v1/items HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2000)
        await writer.drain()


async def leaving(_: Reader, writer: Writer) -> None:
    """Asks for much, and leaves."""
    writer.write(posted(GREEDY % 100))
    await writer.drain()


ATTACKS: dict[str, tuple[int, Callable[[Reader, Writer], Awaitable[None]]]] = {
    "600 silent connections": (600, silent),
    "5,000 silent connections": (5000, silent),
    "200 slow heads": (200, slow_head),
    "4 endless heads": (4, endless_head),
    "400 slow bodies": (400, slow_body),
    "200 who do not read": (200, unread),
    "64 greedy requests": (64, greedy),
    "64 large bodies": (64, large),
    "16 pipelines": (16, pipelined),
    "64 who leave": (64, leaving),
}
TOGETHER = [attack for attack in ATTACKS if not attack.startswith("5,000")]  # what one machine can do at once


def attack(port: int, kinds: list[str], seconds: float) -> None:
    """Attack in so many ways at once."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)

    async def attacker(act: Callable[[Reader, Writer], Awaitable[None]]) -> None:
        while True:
            writer = None
            with suppress(OSError, asyncio.IncompleteReadError, IndexError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                await act(reader, writer)
            if writer is not None:
                writer.close()
            await asyncio.sleep(AGAIN * (0.5 + random.random()))

    async def all_of_them() -> None:
        tasks = [asyncio.create_task(attacker(ATTACKS[kind][1])) for kind in kinds for _ in range(ATTACKS[kind][0])]
        await asyncio.wait(tasks, timeout=seconds)
        os._exit(0)  # whatever is still open: nobody waits for an attacker

    asyncio.run(all_of_them())


@dataclass(frozen=True)
class Endured:
    """What an honest client got during an attack, in seconds, and the most memory that the server had, in MB."""

    times: list[float]
    errors: int
    memory: float

    @property
    def p99(self) -> float:
        """Of the seconds until a good answer."""
        return sorted(self.times)[int(0.99 * len(self.times))]

    def __str__(self) -> str:
        """One line."""
        found = f"{len(self.times)} requests, {self.errors} errors, {percentiles(self.times)}"
        return f"{found}, at most {1000 * max(self.times):.0f} ms; memory at most {self.memory:.0f} MB"


def attacked(server: Server, items: list[int], kinds: list[str], seconds: float) -> Endured:
    """What honest clients get meanwhile: one that keeps its connection, and one that makes a new one each time."""
    server.forget_peak()
    attackers = multiprocessing.get_context("spawn").Process(target=attack, args=(server.port, kinds, seconds + 15))
    attackers.start()
    time.sleep(4)  # until they are there
    try:
        times, errors = asyncio.run(honest(server.port, items, seconds))
    finally:
        attackers.kill()
        attackers.join()
    return Endured(times, errors, server.memory(peak=True))


async def honest(port: int, items: list[int], seconds: float) -> tuple[list[float], int]:
    """Seconds until the answer to each request, and how many were not answered or not well."""
    times: list[float] = []
    errors = 0
    began = time.perf_counter()

    async def ask(request: bytes, connection: list[tuple[Reader, Writer]]) -> bool:
        """One request; once more if the connection was closed meanwhile, as browsers do."""
        for attempt in (True, False):
            if not connection:
                connection.append(await asyncio.open_connection("127.0.0.1", port))
            reader, writer = connection[0]
            try:
                writer.write(request)
                return await answer(reader)
            except (OSError, asyncio.IncompleteReadError):
                connection.pop()[1].close()
                if not attempt:
                    raise
        raise AssertionError

    async def client(keep: bool) -> None:
        nonlocal errors
        rng = random.Random(keep)
        connection: list[tuple[Reader, Writer]] = []
        while time.perf_counter() - began < seconds:
            start = time.perf_counter()
            try:
                errors += not await asyncio.wait_for(ask(usual(items, rng), connection), LIMIT)
            except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError):
                errors += 1
                if connection:  # on which an answer may come yet
                    connection.pop()[1].close()
            times.append(time.perf_counter() - start)
            if connection and not keep:
                connection.pop()[1].close()
            await asyncio.sleep(PAUSE)
        for _, writer in connection:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    await asyncio.gather(client(True), client(False))
    return times, errors


if __name__ == "__main__":
    main()
