"""Envoy with and without the tap, plain mitmdump and `sidecar run`, in one run: CPU and latency they add.

`python -m bench.envoy_tap [--seconds S] [--streams N] [--json]`. For each, N streams at once with a chunk every 20 ms for S
seconds, then short requests one after the other. CPU is that of the proxy's process alone (for `sidecar run` without its
analyzer); what the analyzer needs is told beside it. Latency is from the player's write of a chunk to the client's read.
For the tap, the clock's error is told, too: from the player's write to the analyzer's reading of the clock, and the same
over the gaps between chunks. Each takes about three times S seconds.
"""

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

from sidecar.capture.records import Chunk
from tests.live.envoy import analyzer, configuration, envoy
from tests.live.exchanges import Exchange, chat, chat_events
from tests.live.player import Player
from tests.live.processes import BIN, program, sidecar_run
from tests.live.raw_client import Client, ask_all
from tests.live.test_envoy import Heard

EVERY = 0.02
KINDS = ("envoy", "envoy with tap", "mitmdump", "sidecar run")


def cpu(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cpu_with_children(pid: int) -> float:
    """The same with that of its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return cpu(pid) + sum(cpu(int(child)) for child in children)


@contextlib.asynccontextmanager
async def proxy(kind: str, player: Player, folder: Path) -> AsyncIterator[tuple[tuple[str, int], int, int | None]]:
    """Address, process id, and that of the analyzer where there is one."""
    if kind == "envoy":
        async with envoy(folder, configuration(player.port, [9], tap=False)) as running:
            yield running.proxy, running.program.process.pid, None
    elif kind == "envoy with tap":
        async with analyzer() as told, envoy(folder, configuration(player.port, [told.port])) as running:
            yield running.proxy, running.program.process.pid, told.program.process.pid
    elif kind == "mitmdump":
        stream = ("--set", "stream_large_bodies=1", "--set", "flow_detail=0", "--set", f"confdir={folder}")
        mode = ("--mode", f"reverse:{player.url}@127.0.0.1:0")
        async with program(kind, str(BIN / "mitmdump"), *mode, *stream) as process:
            port = await process.says(r"listening at \S*?127\.0\.0\.1:(\d+)|listening at \*:(\d+)")
            yield ("127.0.0.1", int(port)), process.process.pid, None
    else:
        async with sidecar_run("--upstream", player.url) as sidecar:
            (child,) = sidecar.program.children
            yield sidecar.proxy, sidecar.program.process.pid, child


def streams(number: int, seconds: float) -> list[Exchange]:
    """Streams with a chunk every 20 ms."""
    events = chat_events(*({"content": f"word{word} "} for word in range(int(seconds / EVERY))))
    return [chat(f"bench-{each}", events, every=EVERY, first=each * EVERY / number) for each in range(number)]


async def measure(kind: str, number: int, seconds: float) -> dict[str, float]:
    """One proxy: microseconds of CPU per chunk and per request, milliseconds of latency."""
    cases = streams(number, seconds)
    short = chat("short", chat_events({"content": "a"}), every=0)
    player = Player()
    player.add([*cases, short])
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        async with player.serving(), proxy(kind, player, Path(folder)) as (address, pid, other):
            await ask_all(address, [short])
            before, aside = cpu(pid), cpu_with_children(other) if other else 0.0
            answers = await ask_all(address, cases, at_once=number)
            used, used_aside = cpu(pid) - before, (cpu_with_children(other) - aside) if other else 0.0
            late: list[float] = []
            for case in cases:
                size = 0
                for piece, sent in zip(case.pieces, player.play(case.id).pieces, strict=True):
                    size += len(piece.data)
                    late.append((answers[case.id].arrived(size) - sent.before) / 1e6)
            client, times = await Client.connect(address), []
            before, until = cpu(pid), time.monotonic() + seconds / 2
            while time.monotonic() < until:
                answer = await client.ask(short)
                times.append((answer.ended_at - answer.sent_at) / 1e6)
            per_request = (cpu(pid) - before) / len(times)
            client.close()
    return {
        "cpu_us_per_chunk": round(used / len(late) * 1e6, 1),
        "analyzer_us_per_chunk": round(used_aside / len(late) * 1e6, 1),
        "chunk_p50_ms": round(statistics.median(late), 2),
        "chunk_p99_ms": round(statistics.quantiles(late, n=100)[98], 2),
        "cpu_us_per_request": round(per_request * 1e6, 1),
        "request_p50_ms": round(statistics.median(times), 2),
    }


async def clock_error(number: int, seconds: float) -> dict[str, float]:
    """Milliseconds from the player's write to the tap's clock, and how far gaps are off."""
    cases = streams(number, seconds)
    player, heard = Player(), Heard()
    player.add(cases)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        server = heard.server(f"unix:{folder}/s")
        await server.start()
        async with player.serving(), envoy(Path(folder), configuration(player.port, [Path(folder, "s")])) as running:
            await ask_all(running.proxy, cases, at_once=number)
        await server.stop()
    late: list[float] = []
    gaps: list[float] = []
    for case, records in heard.by_case().items():
        seen = [record.at for record in records if isinstance(record, Chunk)]
        sent = [piece.before for piece in player.play(case).pieces]
        if len(seen) != len(sent):
            continue  # pieces that came together tell nothing of their own times
        errors = [(at - before) / 1e6 for at, before in zip(seen, sent, strict=True)]
        late += errors
        gaps += [abs(after - before) for before, after in pairwise(errors)]
    return {
        "late_p50_ms": round(statistics.median(late), 2),
        "late_p99_ms": round(statistics.quantiles(late, n=100)[98], 2),
        "gap_error_p50_ms": round(statistics.median(gaps), 2),
        "gap_error_p99_ms": round(statistics.quantiles(gaps, n=100)[98], 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--streams", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    found = {kind: asyncio.run(measure(kind, asked.streams, asked.seconds)) for kind in KINDS}
    clock = asyncio.run(clock_error(asked.streams, asked.seconds))
    if asked.json:
        json.dump({**found, "clock": clock}, sys.stdout, indent=1)
        return
    plain = found["envoy"]
    for kind, values in found.items():
        print(f"{kind:15} " + "  ".join(f"{name} {value}" for name, value in values.items()))
        shares = (f"{name} x{values[name] / plain[name]:.2f}" for name in ("cpu_us_per_chunk", "chunk_p99_ms"))
        print(f"{'':15} against plain Envoy: " + "  ".join(shares))
    print("clock           " + "  ".join(f"{name} {value}" for name, value in clock.items()))


if __name__ == "__main__":
    main()
