"""What an event costs the analyzer, against the number of streams, of series, and of events per stream: flat, or not.

`python -m bench.growth [--rounds N] [--json]`. CPU per event, best of several rounds that take turns. For each, a power
law is fitted: the exponent is 0 where the cost is flat, 1 where it grows as the number does.
"""

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from math import log
from typing import Any

from bench.analyzer_load import EVENTS
from bench.machine import about
from bench.results import save, shown, table
from sidecar.analyzer import Analyzer
from sidecar.capture.records import AnyRecord, Chunk, Ended, Opened, RequestBody, RequestSent, ResponseHead
from sidecar.config import Settings

ACROSS = {
    "streams at once": (1, 10, 100, 1_000, 10_000),
    "series": (1, 10, 100, 1_000),
    "events per stream": (100, 1_000, 10_000),
}
EVENTS_TIMED = 10_000
EVENTS_OF_SHORT = 20
BEGUN = 15  # events that a stream has behind it: its first ones cost more
MODELS = 50
TICK = 20_000_000
FLAT = 0.1
"""An exponent below which the cost is called flat: a tenfold number then costs at most a quarter more."""


def head(number: int, target: int = 0) -> list[AnyRecord]:
    """A stream begins; each `target` has a series of its own."""
    host, model = f"host-{target // MODELS}", target % MODELS
    return [
        Opened(number, 1, f"id-{number}", 1, "POST", "https", host, 443, "/v1/chat/completions", "HTTP/1.1", []),
        RequestBody(number, 1, b'{"model":"m%d","stream":true}' % model),
        RequestSent(number, 1),
        ResponseHead(number, 2, 200, "HTTP/1.1", [("content-type", "text/event-stream")]),
    ]


def chunk(stream: int, number: int) -> Chunk:
    """One event of a stream."""
    return Chunk(stream, 3 + number * TICK, EVENTS[number % len(EVENTS)])


def batches(records: Sequence[AnyRecord]) -> list[Sequence[AnyRecord]]:
    """As a proxy sends them."""
    return [records[begin : begin + 50] for begin in range(0, len(records), 50)]


def across_streams(streams: int) -> Callable[[], None]:
    """Events of so many streams in turn; that these begin is not timed."""
    analyzer = Analyzer(Settings(max_streams=streams + 1))
    for number in range(1, streams + 1):
        analyzer.receive(1, [*head(number), *(chunk(number, turn) for turn in range(BEGUN))])
    turns = range(BEGUN, BEGUN + EVENTS_TIMED // streams)
    work = batches([chunk(number, turn) for turn in turns for number in range(1, streams + 1)])
    return partial(_receive, analyzer, work)


def across_series(targets: int) -> Callable[[], None]:
    """Short streams, whole, over so many targets, each of which has its series already."""
    analyzer = Analyzer(Settings(max_models=MODELS + 1))

    def whole(number: int, target: int) -> list[AnyRecord]:
        events = [chunk(number, event) for event in range(EVENTS_OF_SHORT)]
        return [*head(number, target), *events, Ended(number, 3 + EVENTS_OF_SHORT * TICK, "eof")]

    for target in range(targets):
        analyzer.receive(1, whole(1, target))
    streams = EVENTS_TIMED // EVENTS_OF_SHORT
    step = max(targets // streams, 1)
    work = batches([record for n in range(streams) for record in whole(n, n * step % targets)])
    return partial(_receive, analyzer, work)


def across_events(events: int) -> Callable[[], None]:
    """Whole streams of so many events, at least as many events in all as elsewhere."""
    streams = max(EVENTS_TIMED // events, 1)
    records: list[AnyRecord] = []
    for number in range(streams):
        records += [*head(number), *(chunk(number, event) for event in range(events))]
        records.append(Ended(number, 3 + events * TICK, "eof"))
    analyzer = Analyzer(Settings())
    return partial(_receive, analyzer, batches(records))


def _receive(analyzer: Analyzer, work: list[Sequence[AnyRecord]]) -> None:
    for batch in work:
        analyzer.receive(1, batch)


MAKERS = {"streams at once": across_streams, "series": across_series, "events per stream": across_events}


def measure(what: str, rounds: int) -> dict[str, Any]:
    """Microseconds per event at each number, and the exponent."""
    numbers = ACROSS[what]
    timed = [max(number, EVENTS_TIMED) if what == "events per stream" else EVENTS_TIMED for number in numbers]
    took = [min(round_) for round_ in zip(*(one_round(what, numbers) for _ in range(rounds)), strict=True)]
    costs = [round(seconds / events * 1e6, 3) for seconds, events in zip(took, timed, strict=True)]
    return {"numbers": list(numbers), "event_us": costs, "exponent": round(exponent(numbers, costs), 3)}


def one_round(what: str, numbers: Sequence[int]) -> list[float]:
    """Seconds of CPU at each number; what is worked on is made anew and not timed."""
    found = []
    for number in numbers:
        work = MAKERS[what](number)
        gc.collect()
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return found


def exponent(numbers: Sequence[float], costs: Sequence[float]) -> float:
    """Of the power law through the points, in the sense of least squares of logarithms."""
    return statistics.linear_regression([log(number) for number in numbers], [log(cost) for cost in costs]).slope


def tables(results: dict[str, Any]) -> str:
    """A line for each point and one for each fit."""
    rows = []
    for what, found in results.items():
        points = zip(found["numbers"], found["event_us"], strict=True)
        told = ", ".join(f"{number:,}: {shown(cost)}" for number, cost in points)
        rows.append((what, told, found["exponent"], "yes" if found["exponent"] <= FLAT else "**no**"))
    return table(("cost per event against", "µs per event at each number", "exponent", f"flat (at most {FLAT})"), rows)


def picture(results: dict[str, Any]) -> str:
    """The points as an SVG: the number across, logarithmic; microseconds per event upwards from zero."""
    width, height, left, bottom = 640, 320, 50, 40
    top = max(cost for found in results.values() for cost in found["event_us"]) * 1.15
    far = log(max(number for found in results.values() for number in found["numbers"]))

    def place(number: float, cost: float) -> tuple[float, float]:
        across = left + (width - left - 20) * log(number) / far
        return round(across, 1), round(height - bottom - (height - bottom - 20) * cost / top, 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for power in range(5):
        x, y = place(10**power, 0)
        parts.append(f'<text x="{x}" y="{y + 18}" text-anchor="middle" fill="#444">{10**power:,}</text>')
    for tick in range(0, int(top) + 1, max(int(top) // 5, 1)):
        x, y = place(1, tick)
        parts.append(f'<path d="M{left} {y}H{width - 20}" stroke="#ddd"/>')
        parts.append(f'<text x="{x - 8}" y="{y + 4}" text-anchor="end" fill="#444">{tick}</text>')
    for (what, found), colour in zip(results.items(), ("#1f6feb", "#bf8700", "#8250df"), strict=False):
        points = [place(*point) for point in zip(found["numbers"], found["event_us"], strict=True)]
        joined = " ".join(f"{x},{y}" for x, y in points)
        parts.append(f'<polyline points="{joined}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>' for x, y in points]
        row = 30 + 16 * list(results).index(what)
        parts.append(f'<text x="{left + 12}" y="{height - bottom - row + 20}" fill="{colour}">{what}</text>')
    parts.append(f'<text x="{left}" y="14" fill="#444">µs of CPU per event</text></svg>')
    return "\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    results = {what: measure(what, asked.rounds) for what in ACROSS}
    save("growth", results, f"python -m bench.growth --rounds {asked.rounds}")
    print(json.dumps({"about": about(), "results": results}, indent=1) if asked.json else tables(results))


if __name__ == "__main__":
    main()
