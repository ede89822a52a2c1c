"""Requests a second of `discreet serve`: one-user recommendations of 20,000 items at rank 64, the p99, the memory.

    python benchmarks/serve.py [seconds]

The server runs as a user runs it, in a process of its own; the client beside it, with some keep-alive connections.
"""

import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import discreet

RUN = "from discreet.cli import main; main()"
ITEMS, RANK, CONNECTIONS, WARM_UP = 20_000, 64, 32, 2.0


def main(seconds: float = 10.0) -> None:
    """Start a server, load it, print."""
    with tempfile.TemporaryDirectory() as folder:
        ratings = discreet.datasets.movielens_like(5_000, ITEMS, 200_000, random_state=0)
        discreet.ALS(rank=RANK, n_steps=1).fit(ratings).save(folder)
        command = [sys.executable, "-c", RUN, "serve", folder, "--not-private", "--port", "0", "--json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                port = int(json.loads(said(server))["url"].rstrip("/").rpartition(":")[2])
                measure(server.pid, port, list(ratings.items), seconds)
            finally:
                server.terminate()


def said(server: "subprocess.Popen[str]") -> str:
    """What the server prints before it serves."""
    lines = []
    while not lines or lines[-1] != "}\n":
        lines.append(server.stdout.readline())  # type: ignore[union-attr]
    return "".join(lines)


def measure(pid: int, port: int, items: list[int], seconds: float) -> None:
    """Print what a server that is there can do."""
    asyncio.run(load(port, items, WARM_UP))
    before, used = memory(pid), processor(pid)
    times, errors, took = asyncio.run(load(port, items, seconds))
    used = processor(pid) - used
    middle = memory(pid)
    asyncio.run(load(port, items, seconds))
    after = memory(pid)
    times.sort()
    print(f"{len(times) / took:,.0f} requests a second on {CONNECTIONS} connections, {errors} errors")
    print(f"p50 {1000 * times[len(times) // 2]:.1f} ms, p99 {1000 * times[int(0.99 * len(times))]:.1f} ms")
    print(f"the server used {1000 * used / len(times):.2f} ms of one core for each")
    print(f"memory {before:.1f} MB, after one run {middle:.1f} MB, after another {after:.1f} MB")


def memory(pid: int) -> float:
    """Resident, in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def processor(pid: int) -> float:
    """Seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def load(port: int, items: list[int], seconds: float) -> tuple[list[float], int, float]:
    """Latencies, the number of answers that were not 200, and how long it took."""
    times: list[float] = []
    errors = 0
    began = time.perf_counter()

    async def client(seed: int) -> None:
        nonlocal errors
        rng = random.Random(seed)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() - began < seconds:
            history = {str(item): rng.randint(1, 5) for item in rng.sample(items, 20)}
            body = json.dumps({"history": history}).encode()
            start = time.perf_counter()
            writer.write(HEAD % len(body) + body)
            head = await reader.readuntil(b"\r\n\r\n")
            size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            await reader.readexactly(size)
            times.append(time.perf_counter() - start)
            errors += not head.startswith(b"HTTP/1.1 200")
        writer.close()
        await writer.wait_closed()

    await asyncio.gather(*(client(seed) for seed in range(CONNECTIONS)))
    return times, errors, time.perf_counter() - began


HEAD = b"POST /v1/recommend HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"

if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
