"""What a clock tick and a scrape cost with many silent streams, and that finished ones cost nothing.

`python -m bench.ticks [--streams N] [--json]`. CPU time, best of several rounds; the memory is what tracemalloc sees per
stream. Scrapes are told for about 1,000 and 10,000 series, as Prometheus counts them (each bucket is one).
"""

import argparse
import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec

from bench.machine import about
from bench.machine import best as best_of
from bench.results import save, table
from sidecar.analyzer import Analyzer
from sidecar.capture.records import AnyRecord, Chunk, Ended, Opened, RequestBody, RequestSent, ResponseHead
from sidecar.config import Settings
from sidecar.export.prometheus import Exposition

ROUNDS = 7
MODELS = 20
EVENT = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"word"},"finish_reason":null}]}\n\n'


def stream(number: int, *, ended: bool) -> list[AnyRecord]:
    """One stream with a few events, left silent or ended."""
    body = b'{"model":"m%d","stream":true}' % (number % MODELS)
    found: list[AnyRecord] = [
        Opened(number, 1, f"id-{number}", 1, "POST", "https", "host", 443, "/v1/chat/completions", "HTTP/1.1", []),
        RequestBody(number, 1, body),
        RequestSent(number, 1),
        ResponseHead(number, 2, 200, "HTTP/1.1", [("content-type", "text/event-stream")]),
        *(Chunk(number, 3 + read, EVENT) for read in range(5)),
    ]
    return [*found, Ended(number, 9, "eof")] if ended else found


def best(work: Callable[[], object]) -> float:
    """Milliseconds of CPU of the best round."""
    return round(best_of(ROUNDS, work)[0] * 1000, 3)


def standing(streams: int) -> dict[str, float]:
    """Many silent streams, and then as many more that ended."""
    analyzer = Analyzer(Settings(max_streams=streams + 1))
    exposition = Exposition(analyzer.series, analyzer.refresh)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(streams):
        analyzer.receive(1, stream(number, ended=False))
    memory = (tracemalloc.get_traced_memory()[0] - before) / streams
    tracemalloc.stop()
    found = {
        "streams": streams,
        "kib_per_stream": round(memory / 1024, 2),
        "tick_ms": best(analyzer.tick),
        "scrape_ms": best(lambda: exposition.render("")),
    }
    for number in range(streams, 2 * streams):
        analyzer.receive(1, stream(number, ended=True))
    return found | {"tick_after_as_many_ended_ms": best(analyzer.tick)}


def scrape(series: int) -> dict[str, float]:
    """About so many series, of streams to many hosts and models that ended."""
    analyzer = Analyzer(Settings())
    exposition = Exposition(analyzer.series, lambda: None)
    first = lines(exposition)
    targets, lines_of_one = 0, 0.0
    while targets < 2 or first + (lines_of_one * targets) < series:
        targets += 1
        for record in stream(targets, ended=True):
            if isinstance(record, Opened):
                record = msgspec.structs.replace(record, host=f"host-{targets // MODELS}")
            analyzer.receive(1, [record])
        if targets <= 2:
            lines_of_one = (lines(exposition) - first) / targets
    return {"series": lines(exposition), "scrape_ms": best(lambda: exposition.render(""))}


def lines(exposition: Exposition) -> int:
    """How many series Prometheus would store."""
    return sum(not line.startswith("#") for line in exposition.render("")[0].decode().splitlines())


def tables(found: dict[str, Any]) -> str:
    """One line for each question."""
    standing, scrapes = found["standing"], found["scrapes"]
    return table(
        ("what", "found", "unit"),
        [
            (f"memory of a silent stream, of {standing['streams']:,}", standing["kib_per_stream"], "KiB"),
            (f"a tick with {standing['streams']:,} streams", standing["tick_ms"], "ms"),
            ("a tick after as many more have ended", standing["tick_after_as_many_ended_ms"], "ms"),
            ("a scrape meanwhile", standing["scrape_ms"], "ms"),
            *((f"a scrape of {row['series']:,} series", row["scrape_ms"], "ms") for row in scrapes),
        ],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=10_000)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    found = {"standing": standing(asked.streams), "scrapes": [scrape(1000), scrape(10_000)]}
    save("ticks", found, f"python -m bench.ticks --streams {asked.streams}")
    print(json.dumps({"about": about(), "results": found}, indent=1) if asked.json else tables(found))


if __name__ == "__main__":
    main()
