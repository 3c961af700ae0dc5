"""What an attacker might send, through one analyzer: bounded memory, a clear verdict, and metrics that Prometheus reads.

`SIDECAR_LONG_TESTS=1` feeds as much as anybody might fear; without it the sizes are those that show a leak. Time has no
clock here: a step that takes more of it with every byte would not end within any test run.
"""

import gc
import itertools
import json
import os
import re
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
from sidecar.capture import bounds
from sidecar.capture.bounds import fitted
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
NASTY = (
    'a"b',
    "a\nb",
    "a\\b",
    "a\\",
    "\0\x1b[2J\x7f",
    "<script>alert(1)</script>",
    "\u2028\u202e",
    "{}",
    "# HELP x",
    "é" * 300,
)
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
        place = fitted(self.host, bounds.HOST), 443, fitted(self.path, bounds.TARGET)
        opened = ("POST", "https", *place, "HTTP/1.1", [*self.request_headers])
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
        yield Ended(stream, (at + 1) * STEP, self.end, fitted(self.error, bounds.ERROR))


class Attacked:
    """An analyzer, and what it said last."""

    def __init__(self) -> None:
        self.analyzer = Analyzer(Settings(), lambda: 10**15)
        self.number = 0

    def take(self, sent: Sent) -> Summary:
        """One exchange; what is said of it. Not a stage may fail over it."""
        self.number += 1
        for batch in itertools.batched(sent.records(self.number), 500):
            self.analyzer.receive(1, batch)
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


def long_of[Size](short: Size, long: Size) -> Size:
    return long if LONG else short


def endless(begin: bytes, piece: bytes, size: int) -> Iterator[bytes]:
    """A beginning, and then the same piece again and again until so many bytes have been sent."""
    yield begin
    yield from itertools.repeat(piece, size // len(piece))


X = b"x" * MIB
HUNDREDS = long_of(100 * MIB, 1024 * MIB)
TWO_GB = long_of(128 * MIB, 2048 * MIB)
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
    "an event of lines without end": (
        lambda: Sent(pieces=endless(b"", b"data: xxxxxxxx\n" * 5000, TINY * 15)),
        "truncated",
    ),
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
    "an array of one element without end": (
        lambda: Sent(GEMINI, JSON, pieces=endless(b'[{"a":"', X, HUNDREDS)),
        "truncated",
    ),
    "a million tiny events": (lambda: Sent(pieces=(*tiny(event(), TINY), *WHOLE)), "complete"),
    "a million empty events": (lambda: Sent(pieces=(*tiny(b"data:\n\n", TINY), *WHOLE)), "complete"),
    "a million comments": (lambda: Sent(pieces=(*tiny(b":\n\n", TINY), *WHOLE)), "complete"),
    "a million reads of one byte": (
        lambda: Sent(pieces=itertools.chain(itertools.repeat(b":", TINY), (b"\n\n", *WHOLE))),
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
                event(
                    choices=[
                        {
                            "index": 0,
                            "delta": {
                                "tool_calls": [
                                    {"index": 0, "id": "t", "function": {"name": "f", "arguments": DEEP.decode()}}
                                ]
                            },
                        }
                    ]
                ),
                *WHOLE,
            )
        ),
        "complete",
    ),
    "nesting in a document": (
        lambda: Sent(content_type=JSON, request=b"{}", pieces=(b'{"choices":' + DEEP + b"}",)),
        "unparsed",
    ),
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
    "a frame that says 4 GB": (
        lambda: Sent(BEDROCK, AWS, pieces=endless(aws_prelude(2**32 - 1), X, HUNDREDS)),
        "truncated",
    ),
    "a frame that says less than its headers": (
        lambda: Sent(BEDROCK, AWS, pieces=endless(aws_prelude(100, 1000), X, 8 * MIB)),
        "empty",
    ),
    "a frame that says nothing": (
        lambda: Sent(BEDROCK, AWS, pieces=endless(aws_prelude(0), aws_prelude(0) * 1000, 256 * KIB)),
        "empty",
    ),
    "frames with wrong checksums": (
        lambda: Sent(BEDROCK, AWS, pieces=endless(b"", (aws_prelude(20) + bytes(8)) * 1000, 256 * KIB)),
        "empty",
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


def coded(coding: str, plain: bytes, size: int) -> Iterator[bytes]:
    """A stream, and behind it the same bytes again and again, so that very little becomes so many bytes."""
    begin = b"".join(WHOLE[:1])
    blocks = [begin, *itertools.repeat(plain, size // len(plain))]
    if coding == "br":
        compressor = brotli.Compressor(quality=5)
        yield from (compressor.process(block) for block in blocks)
        yield compressor.finish()
    elif coding == "zstd":
        frame = zstd.ZstdCompressor()
        yield from (frame.compress(block) for block in blocks)
        yield frame.flush()
    else:
        packer = zlib.compressobj(9, wbits={"gzip": 31, "deflate": -15}[coding])
        yield from (packer.compress(block) for block in blocks)
        yield packer.flush()


BOMBS = [(coding, "in one read") for coding in ("gzip", "deflate", "br", "zstd")] + [
    (coding, "in many") for coding in long_of(("zstd",), ("gzip", "deflate", "br", "zstd"))
]


@pytest.mark.parametrize(("coding", "read"), BOMBS)
def test_a_decompression_bomb_is_let_go(attacked: Attacked, coding: str, read: str) -> None:
    size = long_of(80 * MIB if read == "in one read" else 300 * MIB, 2048 * MIB)  # over the bound of a read, of a body
    body = b"".join(coded(coding, b":" + b" " * (MIB - 2) + b"\n", size))
    size = len(body) if read == "in one read" else max(len(body) // 400, 1)
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    summary, peak, kept = attacked.measured(Sent(coding=coding, pieces=pieces))
    assert len(body) < MIB, "the test wants a bomb"
    assert peak < 2 * PEAK, f"{peak / MIB:.1f} MiB"
    assert kept < KEPT
    assert "decompression_ratio_high" in summary.quirks
    assert summary.outcome != "complete"


def test_bombs_in_one_another_are_let_go(attacked: Attacked) -> None:
    body = b"".join(coded("gzip", bytes(MIB), 16 * MIB))
    for _ in range(3):
        body = zlib.compress(body, 9, 31)
    summary, peak, _ = attacked.measured(Sent(coding="gzip, gzip, gzip, gzip", pieces=[body]))
    assert peak < 2 * PEAK, f"{peak / MIB:.1f} MiB"
    assert summary.outcome != "complete"
    summary = attacked.take(Sent(coding=", ".join(["gzip"] * 10_000), pieces=[body]))
    assert "content_encoding_mismatch" in summary.quirks


def named(name: str, **members: object) -> Iterator[Sent]:
    """Exchanges in which a string stands wherever one can become a label."""
    text = json.dumps(name)
    finish = {"index": 0, "delta": {}, "finish_reason": name}
    error = {"error": {"message": "no", "type": name, "code": name}}
    request = f'{{"model":{text},"stream":true}}'.encode()
    event = (
        b"data: "
        + json.dumps({"id": name, "model": name, "choices": [finish], "service_tier": name}).encode()
        + b"\n\n"
    )
    in_path = "".join(letter for letter in name if letter not in "/?#")
    yield Sent(request=request, pieces=(*WHOLE[:1], event), host=name, id=name)
    yield Sent(request=b"{}", pieces=(event,))
    yield Sent(f"/v1beta/models/{in_path}:streamGenerateContent", request=b"{}", pieces=(event,))
    yield Sent(f"/openai/deployments/{in_path}/chat/completions?model={in_path}", request=b"{}", pieces=(event,))
    yield Sent(pieces=(b"data: " + json.dumps(error).encode() + b"\n\n",))
    yield Sent(content_type=JSON, pieces=(json.dumps(error).encode(),), status=429)
    yield Sent(
        BEDROCK, AWS, pieces=(aws_frames([(name.encode("utf-8", "replace")[:60].decode("utf-8", "ignore"), b"{}")])[0],)
    )
    yield Sent(content_type=name, coding=name, pieces=WHOLE, headers=[("openai-model", name)])
    yield Sent(end="upstream_reset", error=name, pieces=WHOLE[:1])
    yield Sent(end="upstream_reset", error=f"stream reset by client ({name})", pieces=WHOLE[:1])


def bad_utf8(sent: Sent) -> Sent:
    """The same with bytes that are no UTF-8 in place of the letters that stand for them."""
    return Sent(
        sent.path,
        sent.content_type,
        request=sent.request.replace(b"BAD", b"\xff\xc3\xed\xa0\x80"),
        pieces=[piece.replace(b"BAD", b"\xff\xc3\xed\xa0\x80") for piece in sent.pieces],
        end=sent.end,
        status=sent.status,
    )


def shown(attacked: Attacked) -> dict[str, list[str]]:
    """All label values by label; parsing fails where a value breaks out of its quotes."""
    values: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(attacked.rendered().decode()):
        for sample in family.samples:
            for label, value in sample.labels.items():
                values.setdefault(label, set()).add(value)
    return {label: sorted(found) for label, found in values.items()}


@pytest.mark.parametrize("name", [*NASTY, "x" * MIB, "\ud800", "BAD"], ids=range(len(NASTY) + 3))
def test_a_name_stays_in_its_label(attacked: Attacked, name: str) -> None:
    for sent in named(name):
        attacked.take(bad_utf8(sent) if name == "BAD" else sent)
    for label, values in shown(attacked).items():
        for value in values:
            assert len(value) <= 128, label
            assert not re.search(r"[\x00-\x1f\x7f\ud800-\udfff]", value), label


def test_any_number_of_names_makes_a_bounded_number_of_series() -> None:
    attacked, number = Attacked(), long_of(3_000, 100_000)
    for one in range(number):
        name = f"n{one}"
        answer = json.dumps({"id": name, "model": name, "choices": [{"index": 0, "finish_reason": name}]})
        attacked.take(
            Sent(
                request=f'{{"model":"{name}","stream":true}}'.encode(),
                host=f"{name}.example",
                request_headers=[("traceparent", f"00-{one + 1:032x}-{one + 1:016x}-01")],
                pieces=(f"data: {answer}\n\n".encode(), b'data: {"error":{"type":"%s"}}\n\n' % name.encode()),
                id=name,
            )
        )
    values = shown(attacked)
    assert len(values["gen_ai_request_model"]) <= 101
    assert len(values["server_address"]) <= 101
    assert len(attacked.rendered()) < 32 * MIB
    assert attacked.analyzer.series.value(m.FOLDED, ("gen_ai_request_model",)) > 0


def test_response_ids_that_repeat_are_no_harm() -> None:
    attacked = Attacked()
    for _ in range(500):
        summary = attacked.take(Sent(pieces=WHOLE, id="the same"))
        assert summary.outcome == "complete"
    counted = sum(value for _, value, _ in attacked.analyzer.series.values(m.STREAMS))
    assert counted == 500


def test_what_is_remembered_of_exchanges_with_long_strings_is_bounded() -> None:
    """The latest exchanges are kept for the page: what they hold must not be as long as somebody likes."""
    attacked, name = Attacked(), "n" * (64 * KIB)
    gc.collect()
    tracemalloc.start()
    try:
        for one in range(RECENT + 20):
            for sent in itertools.islice(named(f"{one}{name}"), one % 10, one % 10 + 1):
                attacked.take(sent)
        del sent
        gc.collect()
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert kept < 8 * MIB, f"{kept / MIB:.1f} MiB"


def test_prometheus_reads_the_metrics_of_all_that(attacked: Attacked) -> None:
    for name in NASTY:
        for sent in named(name):
            attacked.take(sent)
    promtool = require_program("promtool", "apt-get install prometheus")
    checked = subprocess.run(
        [promtool, "check", "metrics"], input=attacked.rendered(), capture_output=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
