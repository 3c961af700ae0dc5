"""The analyzer as a process under load: its capacity, its lag at shares of that, memory per stream in flight, scrapes.

`python -m bench.analyzer_load [--seconds S] [--streams N] [--json]`. A `sidecar analyzer` has a core for itself; the
bench stands for a proxy and sends it batches of chunks of N chat streams over its socket, as often as a proxy does. Lag
is from the sending of a batch to the analyzer's word that it is in the metrics. Memory is what the process's resident
memory grows by, for each of N streams with 40 events behind it.
"""

import argparse
import asyncio
import contextlib
import json
import os
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import monotonic_ns
from typing import Any

import httpx

from bench.analyzer import chat
from bench.machine import about, cores, cpu, pin, resident
from bench.results import milliseconds, save, table, told
from sidecar.capture.outbox import Item
from sidecar.capture.records import VERSION, Ended, Hello, Opened, RequestBody, RequestSent, ResponseHead
from sidecar.transport.sender import BATCH_SECONDS
from sidecar.transport.wire import decode_acknowledged, decode_welcome, encode, read_message
from tests.live.processes import sidecar_analyzer

SHARES = (0.25, 0.5, 0.8)
EVENTS_BEHIND = 40
MODELS = 20
MEMORY_GOAL_KIB = 4.0
_UNANSWERED = 8  # batches on their way while the capacity is measured
_BATCH = 256


def _event(number: int) -> bytes:
    return b"data: " + json.dumps(chat(number)[1], separators=(",", ":")).encode() + b"\n\n"


EVENTS = [_event(number) for number in range(1000)]


class Feeder:
    """Stands for a proxy."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._sent: deque[int] = deque()
        self._answered = 0
        self.lags: list[int] = []
        self._stream = 0
        self._first = 1
        self._number = 0

    @classmethod
    async def connect(cls, path: Path) -> "Feeder":
        reader, writer = await asyncio.open_unix_connection(str(path))
        writer.write(encode(Hello(VERSION, 1)))
        decode_welcome(await read_message(reader))
        return cls(reader, writer)

    async def listen(self) -> None:
        """Note what the analyzer says it has, until cancelled."""
        while True:
            batches = decode_acknowledged(await read_message(self._reader)).batches
            now = monotonic_ns()
            while self._answered < batches:
                self._answered += 1
                self.lags.append(now - self._sent.popleft())

    @property
    def unanswered(self) -> int:
        return len(self._sent)

    async def send(self, batch: Sequence[Item]) -> None:
        """One batch, with a record of no exchange behind it: of pieces alone the analyzer says nothing."""
        now = monotonic_ns()
        self._sent.append(now)
        self._writer.write(encode([*batch, RequestSent(0, now)]))
        await self._writer.drain()

    async def answered(self) -> None:
        """Wait until the analyzer has it all."""
        while self._sent:
            await asyncio.sleep(0.002)

    async def open(self, streams: int) -> None:
        """Begin so many streams more."""
        for number in range(self._number + 1, self._number + streams + 1):
            now = monotonic_ns()
            body = b'{"model":"m%d","stream":true}' % (number % MODELS)
            await self.send(
                [
                    Opened(
                        number,
                        now,
                        f"id-{number}",
                        1,
                        "POST",
                        "https",
                        "h",
                        443,
                        "/v1/chat/completions",
                        "HTTP/1.1",
                        [],
                    ),
                    RequestBody(number, now, body),
                    RequestSent(number, now),
                    ResponseHead(number, now, 200, "HTTP/1.1", [("content-type", "text/event-stream")]),
                ]
            )
        self._first = self._number + 1
        self._number += streams
        self._stream = self._first

    def chunks(self, number: int) -> Iterator[Item]:
        """The next so many chunks, the streams taking turns."""
        for _ in range(number):
            at = monotonic_ns()
            yield ("c", self._stream, at, EVENTS[at % 1000])
            self._stream = self._stream + 1 if self._stream < self._number else self._first

    async def end(self) -> None:
        """The streams end."""
        await self.send([Ended(number, monotonic_ns(), "eof") for number in range(self._first, self._number + 1)])
        await self.answered()


async def measure(streams: int, seconds: float) -> dict[str, Any]:
    """All of it, with one analyzer."""
    measured, others = cores()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        path = Path(folder, "socket")
        async with sidecar_analyzer(path) as (running, metrics):
            pid = running.process.pid
            pin([pid], measured)
            pin([os.getpid()], others)
            feeder = await Feeder.connect(path)
            listening = asyncio.create_task(feeder.listen())
            told("capacity")
            await feeder.open(200)
            found["capacity"] = await capacity(feeder, pid, seconds)
            for share in SHARES:
                told(f"lag at {share:.0%} of it")
                found[f"{share:.0%}"] = await at_rate(feeder, pid, found["capacity"]["per_second"] * share, seconds)
            await feeder.end()
            told(f"memory of {streams} streams")
            before = resident(pid)
            await feeder.open(streams)
            for _ in range(0, streams * EVENTS_BEHIND, _BATCH):
                await feeder.send(list(feeder.chunks(_BATCH)))
                while feeder.unanswered > _UNANSWERED:
                    await asyncio.sleep(0)
            await feeder.answered()
            found["memory"] = {
                "streams": streams,
                "kib_per_stream": round((resident(pid) - before) / streams / 1024, 2),
            }
            found["scrape"] = await scrapes(pid, metrics)
            await feeder.end()
            listening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await listening
    return found


async def capacity(feeder: Feeder, pid: int, seconds: float) -> dict[str, float | None]:
    """As many events as the analyzer takes."""
    feeder.lags.clear()
    before, begun, number = cpu([pid]), time.monotonic(), 0
    while time.monotonic() < begun + seconds:
        await feeder.send(list(feeder.chunks(_BATCH)))
        number += _BATCH
        while feeder.unanswered > _UNANSWERED:
            await asyncio.sleep(0)
    await feeder.answered()
    return _figures(feeder, cpu([pid]) - before, number, time.monotonic() - begun)


async def at_rate(feeder: Feeder, pid: int, rate: float, seconds: float) -> dict[str, float | None]:
    """So many events a second, in a batch each ten milliseconds."""
    feeder.lags.clear()
    before, begun, number = cpu([pid]), time.monotonic(), 0
    while (now := time.monotonic()) < begun + seconds:
        due = int((now - begun) * rate) - number
        if due > 0:
            await feeder.send(list(feeder.chunks(due)))
            number += due
        await asyncio.sleep(BATCH_SECONDS)
    await feeder.answered()
    return _figures(feeder, cpu([pid]) - before, number, time.monotonic() - begun)


def _figures(feeder: Feeder, used: float, number: int, took: float) -> dict[str, float | None]:
    lags = milliseconds(feeder.lags)
    return {
        "per_second": round(number / took),
        "cpu_us": round(used / number * 1e6, 2),
        "busy": round(used / took, 2),
        "lag_p50_ms": lags["p50_ms"],
        "lag_p99_ms": lags["p99_ms"],
    }


async def scrapes(pid: int, metrics: str) -> dict[str, float | None]:
    """What a scrape takes while all those streams are open."""
    times, used, lines = [], [], 0
    async with httpx.AsyncClient(trust_env=False) as client:
        for _ in range(7):
            before, begun = cpu([pid]), monotonic_ns()
            answer = await client.get(metrics, timeout=30)
            times.append(monotonic_ns() - begun)
            used.append(cpu([pid]) - before)
            lines = sum(not line.startswith("#") for line in answer.text.splitlines())
    return {"samples": lines, "took_ms": milliseconds(times)["p50_ms"], "cpu_ms": round(min(used) * 1e3, 2)}


def tables(found: dict[str, Any]) -> str:
    """Lag by load, and the rest."""
    head = ("load", "events/s", "CPU µs per event", "busy", "lag p50 ms", "lag p99 ms")
    names = ("per_second", "cpu_us", "busy", "lag_p50_ms", "lag_p99_ms")
    rows = [
        (name, *(found[name][key] for key in names)) for name in ("capacity", *(f"{share:.0%}" for share in SHARES))
    ]
    memory, scrape = found["memory"], found["scrape"]
    reached = "reached" if memory["kib_per_stream"] <= MEMORY_GOAL_KIB else "**missed**"
    return "\n".join(
        [
            table(head, rows),
            "",
            f"Memory: {memory['kib_per_stream']:.1f} KiB of resident memory for each of {memory['streams']:,} streams in "
            f"flight (goal: at most {MEMORY_GOAL_KIB:g}; {reached}).",
            "",
            f"A scrape meanwhile: {scrape['samples']:,} samples in {scrape['took_ms']:.1f} ms, {scrape['cpu_ms']:.1f} ms "
            "of CPU.",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--streams", type=int, default=5000)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    found = asyncio.run(measure(asked.streams, asked.seconds))
    save("analyzer_load", found, f"python -m bench.analyzer_load --seconds {asked.seconds:g} --streams {asked.streams}")
    print(json.dumps({"about": about(), "results": found}, indent=1) if asked.json else tables(found))


if __name__ == "__main__":
    main()
