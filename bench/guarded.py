"""The work whose instructions bench/guard.py counts: `python -m bench.guarded WORK [--slower SHARE]`.

Every work begins the same way, so that the difference to `nothing` is the work alone. `--slower` does that share of it
again, for the test that the guard sees it.
"""

import argparse
import gc
import json

from bench.analyzer import CASES, SSE, chat, records
from sidecar.analyzer import Analyzer
from sidecar.capture.capture import Capture
from sidecar.capture.outbox import Outbox
from sidecar.capture.records import AnyRecord, Chunk, Ended, Opened, RequestBody, RequestSent, ResponseHead
from sidecar.config import Settings
from sidecar.export.prometheus import Exposition
from sidecar.transport.wire import encode

EVENTS = 600
STREAMS = 60
BATCH = 50
WORKS = ("nothing", "decode", "events", "streams", "tee", "scrape")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", choices=WORKS)
    parser.add_argument("--slower", type=float, default=0.0)
    asked = parser.parse_args()
    gc.disable()  # when it would run depends on what was imported
    path, make = CASES["openai.chat"]
    stream, payloads = records(path, make)
    chunks = stream[4 : 4 + EVENTS]
    analyzer = Analyzer(Settings())
    outbox = Outbox()
    tap = Capture(outbox).open(Opened(1, 1, "id", 1, "POST", "https", "host", 443, path, "HTTP/1.1", []), held=False)
    shorts = [short(number, chunks[:2]) for number in range(2, 2 + 2 * STREAMS)]
    analyzer.receive(1, stream[:4])
    more = 1 + asked.slower
    match asked.work:
        case "decode":
            for payload in payloads[:EVENTS]:
                json.loads(payload)
        case "events":
            # What comes again is of another stream: time does not go back within one.
            again = Analyzer(Settings())
            again.receive(1, stream[:4])
            for number in range(0, int(EVENTS * more), BATCH):
                (analyzer if number < EVENTS else again).receive(1, chunks[number % EVENTS :][:BATCH])
        case "streams":
            for batch in shorts[: int(STREAMS * more)]:
                analyzer.receive(1, batch)
        case "tee":
            for number in range(int(EVENTS * more)):
                tap.response_chunk(payloads[number % EVENTS])
                if number % BATCH == 0:
                    encode(outbox.take(1 << 30))
        case "scrape":
            for batch in shorts[:1]:
                analyzer.receive(1, batch)
            exposition = Exposition(analyzer.series, analyzer.refresh)
            for _ in range(int(10 * more)):
                exposition.render("")


def short(number: int, chunks: list[AnyRecord]) -> list[AnyRecord]:
    """A short stream, whole."""
    _, event = chat(1)
    body = b"data: " + json.dumps(event).encode() + b"\n\n"
    return [
        Opened(number, 1, "id", 1, "POST", "https", "host", 443, "/v1/chat/completions", "HTTP/1.1", []),
        RequestBody(number, 1, b'{"model":"m","stream":true}'),
        RequestSent(number, 1),
        ResponseHead(number, 2, 200, "HTTP/1.1", [("content-type", SSE)]),
        *(Chunk(number, chunk.at, body) for chunk in chunks),
        Ended(number, chunks[-1].at + 1, "eof"),
    ]


if __name__ == "__main__":
    main()
