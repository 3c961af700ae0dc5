"""Whatever bytes through the whole pipeline, up to every report that is made of an exchange."""

import json
from random import Random
from typing import Any

import msgspec

from sidecar.capture.records import Chunk, Ended, Opened, Record, RequestBody, RequestSent, ResponseHead
from sidecar.files.inspect import report, run
from sidecar.files.text import text_report
from sidecar.quirks.registry import BY_ID
from sidecar.thresholds import QuirkThresholds

T0 = 1_000_000_000
ENDS = ("eof", "upstream_reset", "upstream_failed", "client_disconnect", "open")


class Target(msgspec.Struct, frozen=True):
    """Where a body is said to come from."""

    path: str
    content_type: str = "text/event-stream"
    content_encoding: str = ""
    status: int = 200
    request: bytes = b'{"model":"m","stream":true}'
    request_headers: tuple[tuple[str, str], ...] = (("content-type", "application/json"),)
    method: str = "POST"


def reads(body: bytes, random: Random) -> list[bytes]:
    """A body cut at a few places, or byte by byte where it is short."""
    if len(body) < 200 and random.random() < 0.1:
        return [body[at : at + 1] for at in range(len(body))]
    cuts = sorted(random.randrange(len(body) + 1) for _ in range(random.choice((0, 0, 1, 3, 8))))
    return [body[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(body)], strict=True)]


def survives(target: Target, body: bytes, random: Random) -> dict[str, Any]:
    """Run a body through everything; what is said of it. Any exception fails the test."""
    headers = [("content-type", target.content_type)] if target.content_type else []
    headers += [("content-encoding", target.content_encoding)] if target.content_encoding else []
    records: list[Record] = [
        Opened(
            1,
            T0,
            "x",
            0,
            target.method,
            "https",
            "host.example",
            443,
            target.path,
            "HTTP/1.1",
            list(target.request_headers),
        ),
        RequestBody(1, T0, target.request),
        RequestSent(1, T0),
        ResponseHead(1, T0, target.status, "HTTP/1.1", headers),
    ]
    at = T0
    for data in reads(body, random):
        at += random.choice((0, 1_000_000, 40_000_000_000))
        records.append(Chunk(1, at, data))
    end = random.choice(ENDS)
    if end != "open":
        records.append(Ended(1, at, end, "went away"))  # type: ignore[arg-type]  # one of the literal's values
    summary = run(records, at, QuirkThresholds())
    said: dict[str, Any] = json.loads(msgspec.json.encode(report(summary, show_content=True)))
    assert set(said["quirks"]) <= BY_ID.keys()
    assert said["output_chunks"] >= 0
    assert said["text_chars"] >= 0
    text_report(summary, show_content=True).encode()
    return said
