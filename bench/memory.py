"""What a stream in flight holds in memory, by dialect, at several lengths.

`python -m bench.memory [STREAMS] [--top]`. So many streams (2,000) are fed up to their middle, their records decoded as
they are from the socket, with the headers of an ordinary SDK and of an ordinary endpoint. What tracemalloc sees more than
before is shared among them. `--top` shows the lines that hold most.
"""

import argparse
import gc
import tracemalloc
from pathlib import Path

import msgspec

from bench.analyzer import CASES, records
from sidecar.analyzer import Analyzer
from sidecar.capture.records import AnyRecord, Opened, ResponseHead
from sidecar.config import Settings
from sidecar.transport.wire import LENGTH, decode_batch, encode

LENGTHS = (1, 40, 400)
"""Events that came."""
TOP = 25
_REQUEST = {
    "host": "api.example.com",
    "accept": "application/json",
    "accept-encoding": "gzip, deflate",
    "connection": "keep-alive",
    "content-length": "4096",
    "content-type": "application/json",
    "user-agent": "OpenAI/Python 1.99.9",
    "x-stainless-arch": "x64",
    "x-stainless-lang": "python",
    "x-stainless-os": "Linux",
    "x-stainless-runtime": "CPython",
    "x-stainless-runtime-version": "3.12.1",
}
_RESPONSE = {
    "date": "Thu, 01 Jan 2026 00:00:00 GMT",
    "content-type": "text/event-stream; charset=utf-8",
    "transfer-encoding": "chunked",
    "connection": "keep-alive",
    "openai-processing-ms": "321",
    "x-request-id": "req_0123456789abcdef0123456789abcdef",
    "x-ratelimit-limit-requests": "10000",
    "x-ratelimit-remaining-requests": "9999",
    "cf-cache-status": "DYNAMIC",
    "server": "cloudflare",
}


def streams(dialect: str, events: int) -> list[AnyRecord]:
    """The records of one stream up to its middle."""
    found, _ = records(*CASES[dialect])
    cut = found[: 4 + events]
    headers = {Opened: list(_REQUEST.items()), ResponseHead: list(_RESPONSE.items())}
    return [
        msgspec.structs.replace(record, headers=headers[type(record)]) if type(record) in headers else record
        for record in cut
    ]


def fed(analyzer: Analyzer, cut: list[AnyRecord], number: int) -> None:
    """One more stream."""
    mine = [msgspec.structs.replace(record, stream=number) for record in cut]
    for begin in range(0, len(mine), 10):
        analyzer.receive(1, decode_batch(encode(mine[begin : begin + 10])[LENGTH.size :]))


def held(dialect: str, events: int, count: int, *, top: bool) -> float:
    """Bytes per stream."""
    cut = streams(dialect, events)
    analyzer = Analyzer(Settings(max_streams=count + 100))
    for number in range(100):  # what is made once
        fed(analyzer, cut, number)
    gc.collect()
    tracemalloc.start()
    for number in range(100, count + 100):
        fed(analyzer, cut, number)
    gc.collect()
    analyzer._lags.clear()  # of the whole analyzer, and of ten seconds
    found = tracemalloc.get_traced_memory()[0] / count
    if top:
        for line in tracemalloc.take_snapshot().statistics("lineno")[:TOP]:
            frame = line.traceback[0]
            print(f"  {line.size / count:8.0f} B {Path(frame.filename).name}:{frame.lineno}")
    tracemalloc.stop()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("streams", nargs="?", type=int, default=2000)
    parser.add_argument("--top", action="store_true")
    asked = parser.parse_args()
    print(f"{'KiB per stream in flight':28}" + "".join(f"{length:>5} events" for length in LENGTHS))
    for dialect in CASES:
        sizes = [held(dialect, length, asked.streams, top=asked.top) / 1024 for length in LENGTHS]
        print(f"{dialect:28}" + "".join(f"{size:12.1f}" for size in sizes))


if __name__ == "__main__":
    main()
