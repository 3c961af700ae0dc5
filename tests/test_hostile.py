"""What an attacker might send, through one analyzer: bounded memory, a clear verdict, and metrics that Prometheus reads.

`SIDECAR_LONG_TESTS=1` feeds as much as anybody might fear; without it the sizes are those that show a leak. Time has no
clock here: a step that takes more of it with every byte would not end within any test run.
"""

import gc
import itertools
import json
import os
import subprocess
import tracemalloc
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import brotli
import pytest
from prometheus_client.parser import text_string_to_metric_families

from sidecar import metrics as m
from sidecar.analyzer import RECENT, Analyzer
from sidecar.capture.records import (
    AnyRecord,
    Chunk,
    Ended,
    EndedKind,
    Headers,
    Opened,
    RequestBody,
    RequestSent,
    ResponseHead,
)
from sidecar.config import Settings
from sidecar.export.prometheus import Exposition
from sidecar.stream.summary import Summary
from tests.parts import require_program
from tests.wellformed.wire import aws_frames
from tests.zstandard import zstd

LONG = bool(os.environ.get("SIDECAR_LONG_TESTS"))
KIB, MIB = 1024, 1024 * 1024
PEAK = 160 * MIB
"""What one exchange may take at any time: a few times the largest event or the output of one read (64 MiB)."""
KEPT = MIB
"""What may be left of an exchange that is over."""
SSE, NDJSON, JSON = "text/event-stream", "application/x-ndjson", "application/json"
AWS = "application/vnd.amazon.eventstream"
CHAT, GEMINI, OLLAMA = "/v1/chat/completions", "/v1beta/models/m:streamGenerateContent", "/api/chat"
BEDROCK = "/model/m/converse-stream"
STEP = 1_000_000
NASTY = ('a"b', "a\nb", "a\\b", "a\\", "\0\x1b[2J\x7f", "<script>alert(1)</script>", "\u2028\u202e", "{}", "# HELP x", "é" * 300)
"""Names that break out of where they are shown."""


@dataclass
class Sent:
    """One hostile exchange."""

    path: str = CHAT
    content_type: str = SSE
    coding: str = ""
    pieces: Iterable[bytes] = ()
    request: bytes = b'{"model":"m","stream":true}'
    host: str = "host.example"
    end: EndedKind = "eof"
    request_headers: Headers = ()  # type: ignore[assignment]  # never written to
    headers: Headers = ()  # type: ignore[assignment]  # as above
    error: str = ""
    id: str = "x"
    status: int = 200

    def records(self, stream: int) -> Iterator[AnyRecord]:
        """As the proxy would send it."""
        opened = ("POST", "https", self.host, 443, self.path, "HTTP/1.1", [*self.request_headers])
        yield Opened(stream, 1, self.id, 1, *opened, 1, "reverse", "client")
        for at in range(0, len(self.request), MIB):
            yield RequestBody(stream, 1, self.request[at : at + MIB])
        yield RequestSent(stream, 2)
        coding = [("content-encoding", self.coding)] if self.coding else []
        yield ResponseHead(
            stream, 3, self.status, "HTTP/1.1", [("content-type", self.content_type), *coding, *self.headers]
        )
        at = 3
        for at, piece in enumerate(self.pieces, 4):
            yield Chunk(stream, at * STEP, piece)
        yield Ended(stream, (at + 1) * STEP, self.end, self.error)


class Attacked:
    """An analyzer, and what it said last."""

    def __init__(self) -> None:
        self.analyzer = Analyzer(Settings(), lambda: 10**15)
        self.number = 0

    def take(self, sent: Sent) -> Summary:
        """One exchange; what is said of it. Not a stage may fail over it."""
        self.number += 1
        for record in sent.records(self.number):
            self.analyzer.receive(1, (record,))
        assert not self.analyzer.exchanges
        assert not list(self.analyzer.series.values(m.STAGE_FAILURES))
        return self.analyzer.recent[-1]

    def measured(self, sent: Sent) -> tuple[Summary, int, int]:
        """The same, with the bytes that it took at its peak and those that it left behind."""
        gc.collect()
        tracemalloc.start()
        try:
            summary = self.take(sent)
            _, peak = tracemalloc.get_traced_memory()
            gc.collect()
            return summary, peak, tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()

    def rendered(self) -> bytes:
        """What a scraper gets."""
        return Exposition(self.analyzer.series, self.analyzer.refresh).render("")[0]


@pytest.fixture(scope="module")
def attacked() -> Attacked:
    """Takes all that this module sends."""
    return Attacked()


def event(content: str = "a", **members: object) -> bytes:
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": None}
    return b"data: " + json.dumps({"id": "c1", "model": "m", "choices": [choice], **members}).encode() + b"\n\n"


WHOLE = (event(), b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')


def long_of(short: int, long: int) -> int:
    return long if LONG else short


def endless(begin: bytes, piece: bytes, size: int) -> Iterator[bytes]:
    """A beginning, and then the same piece again and again until so many bytes have been sent."""
    yield begin
    yield from itertools.repeat(piece, size // len(piece))


X = b"x" * MIB
HUNDREDS = long_of(192 * MIB, 1024 * MIB)
TWO_GB = long_of(384 * MIB, 2048 * MIB)
TINY = long_of(10_000, 1_000_000)
DEEP = b"[" * 100_000 + b"]" * 100_000


def aws_prelude(total: int, headers: int = 0) -> bytes:
    lengths = total.to_bytes(4) + headers.to_bytes(4)
    return lengths + zlib.crc32(lengths).to_bytes(4)


def tiny(unit: bytes, number: int) -> Iterator[bytes]:
    return itertools.repeat(unit * 1000, number // 1000)


ENDLESS: dict[str, tuple[Callable[[], Sent], str]] = {
    "a line without end": (lambda: Sent(pieces=endless(b"data: ", X, HUNDREDS)), "truncated"),
    "a comment without end": (lambda: Sent(pieces=endless(b": ", X, HUNDREDS)), "empty"),
    "an event of lines without end": (lambda: Sent(pieces=endless(b"", b"data: xxxxxxxx\n" * 5000, TINY * 15)), "truncated"),
    "text in one event without end": (
        lambda: Sent(pieces=endless(b'data: {"choices":[{"delta":{"content":"', X, HUNDREDS)),
        "truncated",
    ),
    "one event of 2 GB": (
        lambda: Sent(pieces=(*endless(b'data: {"choices":[{"delta":{"content":"', X, TWO_GB), b'"}}]}\n\n', *WHOLE)),
        "complete",
    ),
    "one line of JSON of 2 GB": (
        lambda: Sent(
            OLLAMA,
            NDJSON,
            pieces=(*endless(b'{"message":{"content":"', X, TWO_GB), b'"}}\n', b'{"done":true,"done_reason":"stop"}\n'),
        ),
        "complete",
    ),
    "a document of 2 GB": (
        lambda: Sent(content_type=JSON, request=b'{"model":"m"}', pieces=endless(b'{"a":"', X, TWO_GB)),
        "unparsed",
    ),
    "an array of one element without end": (lambda: Sent(GEMINI, JSON, pieces=endless(b'[{"a":"', X, HUNDREDS)), "truncated"),
    "a million tiny events": (lambda: Sent(pieces=(*tiny(event(), TINY), *WHOLE)), "complete"),
    "a million empty events": (lambda: Sent(pieces=(*tiny(b"data:\n\n", TINY), *WHOLE)), "complete"),
    "a million comments": (lambda: Sent(pieces=(*tiny(b":\n\n", 10 * TINY), *WHOLE)), "complete"),
    "a million reads of one byte": (
        lambda: Sent(pieces=(*itertools.repeat(b":", TINY), b"\n\n", *WHOLE)),
        "complete",
    ),
    "a million lines": (lambda: Sent(OLLAMA, NDJSON, pieces=tiny(b'{"message":{"content":"a"}}\n', TINY)), "truncated"),
    "a million frames": (
        lambda: Sent(BEDROCK, AWS, pieces=tiny(aws_frames([("contentBlockDelta", b"{}")])[0], TINY)),
        "empty",
    ),
    "nesting 100,000 deep": (lambda: Sent(pieces=(b'data: {"choices":' + DEEP + b"}\n\n", *WHOLE)), "complete"),
    "nesting in tool arguments": (
        lambda: Sent(
            pieces=(
                event(choices=[{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "t", "function": {"name": "f", "arguments": DEEP.decode()}}]}}]),
                *WHOLE,
            )
        ),
        "complete",
    ),
    "nesting in a document": (lambda: Sent(content_type=JSON, request=b"{}", pieces=(b'{"choices":' + DEEP + b"}",)), "unparsed"),
    "nesting in a request": (
        lambda: Sent(request=b'{"model":"m","stream":true,"messages":' + DEEP + b"}", pieces=WHOLE),
        "complete",
    ),
    "nesting in an array": (lambda: Sent(GEMINI, JSON, pieces=(b"[{" + b'"a":[' * 100_000,)), "truncated"),
    "a request of 10,000 tools": (
        lambda: Sent(
            request=json.dumps(
                {
                    "model": "m",
                    "stream": True,
                    "tools": [
                        {"type": "function", "function": {"name": f"f{number}", "parameters": {"type": "object"}}}
                        for number in range(10_000)
                    ],
                }
            ).encode(),
            pieces=WHOLE,
        ),
        "complete",
    ),
    "headers without end": (
        lambda: Sent(
            request_headers=[("accept", "a")] * 100_000 + [(f"x-{number}", "[redacted]") for number in range(100_000)],
            headers=[("vary", "b" * 100)] * 100_000 + [("server", "s" * MIB)],
            pieces=WHOLE,
        ),
        "complete",
    ),
    "a frame that says 4 GB": (lambda: Sent(BEDROCK, AWS, pieces=endless(aws_prelude(2**32 - 1), X, HUNDREDS)), "truncated"),
    "a frame that says less than its headers": (
        lambda: Sent(BEDROCK, AWS, pieces=endless(aws_prelude(100, 1000), X, 8 * MIB)),
        "unparsed",
    ),
    "a frame that says nothing": (lambda: Sent(BEDROCK, AWS, pieces=endless(aws_prelude(0), aws_prelude(0) * 1000, 8 * MIB)), "unparsed"),
    "frames with wrong checksums": (
        lambda: Sent(BEDROCK, AWS, pieces=endless(b"", (aws_prelude(20) + bytes(8)) * 5000, 8 * MIB)),
        "unparsed",
    ),
}
"""What is sent, and what has to be said of it."""


@pytest.mark.parametrize("name", ENDLESS)
def test_what_has_no_bounds_is_bounded(attacked: Attacked, name: str) -> None:
    sent, outcome = ENDLESS[name]
    summary, peak, kept = attacked.measured(sent())
    assert peak < PEAK, f"{peak / MIB:.1f} MiB"
    assert kept < KEPT, f"{kept / MIB:.1f} MiB"
    assert summary.outcome == outcome
