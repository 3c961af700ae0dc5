"""The work whose instructions bench/guard.py counts: `python -m bench.guarded WORK…`, each a name, or `NAME:SHARE` where that
share of it is done again, for the test that the guard sees it.

Each is done by a process forked off at the same point, so that they differ by their work alone, and says its process id.
"""

import gc
import json
import os
import sys

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
SCRAPES = 10
WORKS = ("nothing", "decode", "events", "streams", "tee", "scrape")


def main() -> None:
    gc.disable()  # when it would run depends on what was imported
    path, make = CASES["openai.chat"]
    stage = Stage(path, *records(path, make))
    for asked in sys.argv[1:]:
        work, _, share = asked.partition(":")
        pid = os.fork()
        if pid == 0:
            stage.do(work, float(share or 0))
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        assert status == 0, f"{asked} failed"
        print(pid, asked, flush=True)


class Stage:
    """All that the works need, made before the first of them."""

    def __init__(self, path: str, stream: list[AnyRecord], payloads: list[bytes]) -> None:
        self.payloads = payloads[:EVENTS]
        self.head, self.chunks = stream[:4], stream[4 : 4 + EVENTS + 1]
        self.analyzer, self.second = Analyzer(Settings()), Analyzer(Settings())  # time does not go back within a stream
        for analyzer in (self.analyzer, self.second):
            analyzer.receive(1, [*self.head, self.chunks[0]])
        self.outbox = Outbox()
        opened = Opened(1, 1, "id", 1, "POST", "https", "host", 443, path, "HTTP/1.1", [])
        self.tap = Capture(self.outbox).open(opened, held=False)
        self.shorts = [short(number, self.chunks[:2]) for number in range(2, 2 + 2 * STREAMS)]

    def do(self, work: str, again: float) -> None:
        """One of them, and a share of it again."""
        more = 1 + again
        match work:
            case "decode":
                for payload in self.payloads:
                    json.loads(payload)
            case "events":
                self._events(self.analyzer, 1.0)
                self._events(self.second, again)
            case "streams":
                for batch in self.shorts[: int(STREAMS * more)]:
                    self.analyzer.receive(1, batch)
            case "tee":
                for number in range(int(EVENTS * more)):
                    self.tap.response_chunk(self.payloads[number % EVENTS])
                    if number % BATCH == 0:
                        encode(self.outbox.take(1 << 30))
            case "scrape":
                self.analyzer.receive(1, self.shorts[0])
                exposition = Exposition(self.analyzer.series, self.analyzer.refresh)
                for _ in range(int(SCRAPES * more)):
                    exposition.render("")
            case _:
                assert work == "nothing", work

    def _events(self, analyzer: Analyzer, share: float) -> None:
        for begin in range(0, int(EVENTS * share), BATCH):
            analyzer.receive(1, self.chunks[1 + begin : 1 + begin + BATCH])


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
