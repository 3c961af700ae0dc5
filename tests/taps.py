"""Chat streams as taps see them: records with times of their own, for tests of what two exchanges have in common."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sidecar.capture.records import (
    AnyRecord,
    Chunk,
    Ended,
    EndedKind,
    Headers,
    Opened,
    Record,
    RequestBody,
    RequestSent,
    ResponseHead,
)
from sidecar.files.inspect import run
from sidecar.stream.summary import Summary
from sidecar.thresholds import QuirkThresholds

MS = 1_000_000
START = 100_000 * MS
"""Where milliseconds of a tap are counted from, on the nanosecond clock of its records."""


@dataclass
class Tap:
    """One exchange at one place; times in milliseconds. `tokens` are the arrival times of the words of the answer."""

    stream: int = 1
    opened: float = 0.0
    tokens: Sequence[float] = (100.0, 120.0, 140.0)
    end: float = 200.0
    listener: str = "outer"
    worker: int = 1
    client: str = "c1"
    server: tuple[str, int] = ("gateway", 8000)
    response_id: str | None = "r1"
    traceparent: str | None = None
    body: bytes = b'{"model":"m","stream":true}'
    status: int = 200
    kind: EndedKind = "eof"
    finish: str | None = "stop"
    done: bool = True
    usage: bool = True
    word: str = "word"
    extra: bytes = b""
    """Bytes in front of the first event."""

    @property
    def id(self) -> str:
        return f"{self.listener}-{self.stream}"

    def records(self) -> Iterator[AnyRecord]:
        """What the proxy sends of it, in order."""
        headers: Headers = [("traceparent", self.traceparent)] if self.traceparent else []
        yield Opened(
            self.stream,
            _ns(self.opened),
            self.id,
            1_700_000_000_000_000_000 + _ns(self.opened),
            "POST",
            "http",
            *self.server,
            "/v1/chat/completions",
            "HTTP/1.1",
            headers,
            self.worker,
            self.listener,
            self.client,
        )
        yield RequestBody(self.stream, _ns(self.opened), self.body)
        yield RequestSent(self.stream, _ns(self.opened))
        if self.kind != "upstream_failed":
            yield from self._answer()
        yield Ended(self.stream, _ns(self.end), self.kind)

    def _answer(self) -> Iterator[AnyRecord]:
        first = self.tokens[0] if self.tokens else self.end
        kind = "text/event-stream" if self.status == 200 else "application/json"
        yield ResponseHead(self.stream, _ns(first), self.status, "HTTP/1.1", [("content-type", kind)])
        if self.status != 200:
            yield Chunk(self.stream, _ns(first), b'{"error":{"message":"no","type":"overloaded"}}')
            return
        if self.extra:
            yield Chunk(self.stream, _ns(first), self.extra)
        for number, at in enumerate(self.tokens):
            yield Chunk(self.stream, _ns(at), self._event({"content": f"{self.word}{number} "}))
        if self.finish is not None:
            yield Chunk(self.stream, _ns(self.end), self._event({}, self.finish))
        if self.usage:
            counts = {"prompt_tokens": 5, "completion_tokens": len(self.tokens), "total_tokens": 5 + len(self.tokens)}
            yield Chunk(self.stream, _ns(self.end), _data({"id": self.response_id, "choices": [], "usage": counts}))
        if self.done:
            yield Chunk(self.stream, _ns(self.end), b"data: [DONE]\n\n")

    def _event(self, delta: dict[str, str], finish: str | None = None) -> bytes:
        return _data({"id": self.response_id, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def _data(event: dict[str, object]) -> bytes:
    return b"data: " + json.dumps(event).encode() + b"\n\n"


def _ns(milliseconds: float) -> int:
    return START + round(milliseconds * MS)


def inside(outer: Tap, **changes: object) -> Tap:
    """The same stream on the upstream's side of a hop: 2 ms later on its way in, 1 ms earlier on its way out."""
    values: dict[str, object] = {
        "stream": outer.stream,
        "opened": outer.opened + 2,
        "tokens": tuple(at - 1 for at in outer.tokens),
        "end": outer.end - 1,
        "listener": "inner",
        "client": "gw",
        "server": ("upstream", 9000),
        "response_id": outer.response_id,
        "traceparent": outer.traceparent,
        "body": outer.body,
        "word": outer.word,
    }
    return Tap(**(values | changes))  # type: ignore[arg-type]  # the names are those of the fields


def summary_of(tap: Tap) -> Summary:
    """What is said of it when it is over."""
    records: list[Record] = [*tap.records()]
    return run(records, _ns(tap.end), QuirkThresholds())
