"""How far the sidecar's times are off: against when the upstream wrote and when the client read, in one run, under load.

`python -m bench.accuracy [--seconds S] [--json]`. A real `sidecar run` tells the bench, in the place of an analyzer, what
it saw; the pipeline then makes ladder and gaps of it. All clocks are the machine's monotonic one. Four loads: a few
streams, many, saturation, and a proxy that is stopped now and then for up to 400 ms (SIGSTOP), which is what a late event
loop is. Where it is late, `llm_sidecar_loop_lag_seconds` has to say so: for each of its reports, the largest error of any
chunk meanwhile stands beside it.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import re
import signal
import statistics
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.load import Load, Stream, many_files
from bench.machine import about, cores, pin
from bench.results import milliseconds, save, shown, table, told
from sidecar.analyzer import Analyzer
from sidecar.capture.records import AnyRecord, Chunk, Health, RequestBody
from sidecar.config import Settings
from sidecar.stream.summary import Summary
from sidecar.transport.receiver import Receiver
from tests.live.processes import sidecar_run

LOADS = {
    "20 streams, 200/s": (20, "paced", 200.0, False),
    "200 streams, 1,000/s": (200, "paced", 1000.0, False),
    "50 streams, saturated": (50, "closed", 0.0, False),
    "200 streams, 1,000/s, proxy stopped now and then": (200, "paced", 1000.0, True),
}
LAG_SAMPLE = 0.1
"""Seconds between the proxy's looks at its loop: what stops it for less may fall between two."""
NOISE = 0.02
"""Seconds that the machine may add anywhere without the loop being to blame."""
_STAMP = re.compile(rb"@(\d{16})")
_ID = re.compile(rb"id=(\d+)")


class Told:
    """What the proxy told, as it came."""

    def __init__(self) -> None:
        self.records: list[AnyRecord] = []

    def __call__(self, connection: int, records: Sequence[AnyRecord]) -> None:
        self.records += records


async def measure(name: str, seconds: float) -> dict[str, Any]:
    """One load."""
    number, mode, rate, stopped = LOADS[name]
    load, told_of = Load(logs=True), Told()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        path = Path(folder, "socket")
        receiver = Receiver(path, told_of, lambda connection: None)
        await receiver.start()
        async with (
            load.serving(),
            sidecar_run("--upstream", f"http://127.0.0.1:{load.port}", "--socket", str(path)) as sidecar,
        ):
            pid = sidecar.program.process.pid
            measured, others = cores()
            pin([pid], measured)
            pin([os.getpid()], others)
            streams = await load.open(sidecar.proxy, number, mode, number / rate if rate else 0.0)
            pausing = asyncio.create_task(_stop_now_and_then(pid)) if stopped else None
            window = await load.measure(seconds)
            if pausing is not None:
                pausing.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await pausing
                os.kill(pid, signal.SIGCONT)
            await load.close(streams)
            await asyncio.sleep(1.2)  # one more report of the loop's lag
        await receiver.stop()
    return compare(streams, told_of.records) | {"load_busy": round(window.load_busy, 2)}


async def _stop_now_and_then(pid: int) -> None:
    while True:
        await asyncio.sleep(random.uniform(0.3, 2.0))
        os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(random.uniform(0.02, 0.4))
        os.kill(pid, signal.SIGCONT)


def compare(streams: list[Stream], records: list[AnyRecord]) -> dict[str, Any]:
    """Errors in nanoseconds where nothing else is said."""
    seen, numbers = _seen(records)
    summaries = _summaries(records)
    late: list[tuple[int, int]] = []
    gaps: list[int] = []
    before_client: list[int] = []
    ladder: dict[str, list[int]] = {"first_token": [], "last_token": []}
    outside = 0
    for stream in streams:
        times = seen[numbers[stream.number]]
        known = list(zip(stream.sent, times, stream.arrived, strict=True))
        outside += sum(not sent <= at <= arrived for sent, at, arrived in known)
        late += [(at, at - sent) for sent, at, _ in known]
        before_client += [arrived - at for _, at, arrived in known]
        gaps += [abs((at2 - at) - (sent2 - sent)) for (sent, at, _), (sent2, at2, _) in pairwise(known)]
        summary = summaries[numbers[stream.number]]
        for milestone, truth in (("first_token", stream.sent[0]), ("last_token", stream.sent[-1])):
            found = round(summary.milestones[milestone] * 1e9)
            ladder[milestone].append(abs(found - (truth - stream.requested)))
    lags = [(record.at, record.loop_lag_seconds) for record in records if isinstance(record, Health)]
    return {
        "chunks": len(late),
        "outside": outside,
        "chunk": milliseconds([error for _, error in late]),
        "to_client": milliseconds(before_client),
        "gap": milliseconds(gaps),
        **{name: milliseconds(errors) for name, errors in ladder.items()},
        "lags": _beside(lags, late),
    }


def _seen(records: list[AnyRecord]) -> tuple[dict[int, list[int]], dict[int, int]]:
    """By the sidecar's number of a stream when it saw each event; and by the load's number what the sidecar's is."""
    seen: dict[int, list[int]] = {}
    numbers: dict[int, int] = {}
    tails: dict[int, bytes] = {}
    for record in records:
        if isinstance(record, RequestBody) and (found := _ID.search(record.data)):
            numbers[int(found[1])] = record.stream
        elif isinstance(record, Chunk):
            text, end = tails.get(record.stream, b"") + record.data, 0
            for stamp in _STAMP.finditer(text):
                seen.setdefault(record.stream, []).append(record.at)
                end = stamp.end()
            tails[record.stream] = text[end:][-17:]
    return seen, numbers


def _summaries(records: list[AnyRecord]) -> dict[int, Summary]:
    """What the pipeline makes of it, by the sidecar's number of the stream."""
    analyzer = Analyzer(Settings(), lambda: records[-1].at)
    found: dict[int, Summary] = {}
    for record in records:
        over: list[Summary] = []
        analyzer.listeners[:] = [over.append]
        analyzer.receive(1, [record])
        if over:
            found[record.stream] = over[0]
    return found


def _beside(lags: list[tuple[int, float]], late: list[tuple[int, int]]) -> list[tuple[float, float]]:
    """For each report of the loop's lag: it (or that of the next report, where the stop was between the two looks), and the
    largest error of a chunk meanwhile; in milliseconds."""
    found = []
    reports = [*lags, (lags[-1][0] + 1, 0.0)] if lags else []
    for (begin, _), (end, lag), (_, after) in zip(reports, reports[1:], reports[2:], strict=False):
        errors = [error for at, error in late if begin < at <= end]
        if errors:
            near = after if lag < LAG_SAMPLE <= max(errors) / 1e9 else lag
            found.append((round(max(lag, near) * 1e3, 2), round(max(errors) / 1e6, 2)))
    return found


def explained(results: dict[str, Any]) -> dict[str, float | None]:
    """How the loop's lag and the largest errors go together, over all loads."""
    pairs = [pair for row in results.values() for pair in row["lags"]]
    lags, errors = zip(*pairs, strict=True)
    allowed = (LAG_SAMPLE + NOISE) * 1e3
    return {
        "reports": len(pairs),
        "correlation": round(statistics.correlation(lags, errors), 3) if len(set(lags)) > 1 else None,
        "within": round(sum(error <= lag + allowed for lag, error in pairs) / len(pairs), 3),
    }


def tables(results: dict[str, Any]) -> str:
    """Errors by load, and what explains them."""
    head: tuple[str, ...] = (
        "load",
        "chunk p50 ms",
        "p99",
        "gap p50",
        "p99",
        "first token p50",
        "p99",
        "last token p50",
        "p99",
    )
    head += ("client later p50", "p99", "chunks", "outside", "largest loop lag ms", "load busy")
    rows = []
    for name, row in results.items():
        cells = [row[what][key] for what in ("chunk", "gap", "first_token", "last_token", "to_client") for key in _KEYS]
        lag = max((lag for lag, _ in row["lags"]), default=None)
        rows.append((name, *cells, row["chunks"], row["outside"], lag, row["load_busy"]))
    found = explained(results)
    worst = sorted((pair for row in results.values() for pair in row["lags"]), reverse=True)[:8]
    return "\n".join(
        [
            table(head, rows),
            "",
            f"Of {found['reports']} reports of the loop's lag, the largest error of a chunk meanwhile was within it (and the "
            f"{LAG_SAMPLE * 1e3:.0f} ms between two looks at the loop, and {NOISE * 1e3:.0f} ms of noise) in "
            f"{found['within']:.0%}; the two correlate with {shown(found['correlation'])}. The reports with the most lag:",
            "",
            table(
                ("loop lag ms", *map(str, range(1, len(worst) + 1))),
                [("reported", *(lag for lag, _ in worst)), ("largest error", *(e for _, e in worst))],
            ),
        ]
    )


_KEYS = ("p50_ms", "p99_ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    many_files()
    results = {}
    for name in LOADS:
        told(name)
        results[name] = asyncio.run(measure(name, asked.seconds))
    save("accuracy", results, f"python -m bench.accuracy --seconds {asked.seconds:g}")
    print(json.dumps({"about": about(), "results": results}, indent=1) if asked.json else tables(results))


if __name__ == "__main__":
    main()
