"""What a clock tick and a scrape cost with many silent streams, and that finished ones cost nothing.

`python bench/ticks.py [STREAMS]`. CPU time, best of several rounds; the memory is what tracemalloc sees per stream.
"""

import sys
import time
import tracemalloc
from collections.abc import Callable

from sidecar.analyzer import Analyzer
from sidecar.capture.records import AnyRecord, Chunk, Ended, Opened, RequestBody, RequestSent, ResponseHead
from sidecar.config import Settings
from sidecar.export.prometheus import Exposition

ROUNDS = 15
EVENT = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"word"},"finish_reason":null}]}\n\n'


def stream(number: int, *, ended: bool) -> list[AnyRecord]:
    """One stream with a few events, left silent or ended."""
    body = b'{"model":"m%d","stream":true}' % (number % 20)
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
    found = []
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found) * 1000


def main(streams: int) -> None:
    analyzer = Analyzer(Settings(max_streams=streams + 1))
    exposition = Exposition(analyzer.series, analyzer.refresh)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(streams):
        analyzer.receive(1, stream(number, ended=False))
    memory = (tracemalloc.get_traced_memory()[0] - before) / streams
    tracemalloc.stop()
    print(f"{streams} silent streams: tick {best(analyzer.tick):.2f} ms, {memory / 1024:.1f} KiB a stream")
    print(f"  scrape {best(lambda: exposition.render('')):.1f} ms")
    for number in range(streams, 2 * streams):
        analyzer.receive(1, stream(number, ended=True))
    print(f"after {streams} more that ended: tick {best(analyzer.tick):.2f} ms")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
