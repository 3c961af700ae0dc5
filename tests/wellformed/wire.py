"""A generated stream on the wire: written in its framing, compressed or not, cut anywhere, at the pace of a model."""

import json
import zlib
from collections.abc import Callable, Sequence
from itertools import pairwise
from struct import pack
from typing import Any, NamedTuple

import brotli
from hypothesis import strategies as st

from sidecar.capture.records import Chunk, Ended, Opened, Record, RequestBody, RequestSent, ResponseHead
from sidecar.files.inspect import report, run
from sidecar.thresholds import QuirkThresholds
from tests.wellformed.answers import dumps
from tests.zstandard import zstd

T0 = 1_000_000_000
_MILLISECOND = 1_000_000
SSE, NDJSON, JSON = "text/event-stream", "application/x-ndjson", "application/json"
AWS = "application/vnd.amazon.eventstream"


class Written(NamedTuple):
    """A stream and what it says."""

    target: str
    request: Any
    content_type: str
    units: list[bytes]
    terminator: str | None
    text: str = ""
    reasoning: str = ""
    calls: Sequence[tuple[str, str]] = ()
    usage: dict[str, int] | None = None
    finish: str | None = None
    request_headers: Sequence[tuple[str, str]] = ()


@st.composite
def sse(draw: st.DrawFn, events: list[Any], *, named: bool = False) -> list[bytes]:
    """Events as SSE blocks, each under its `type` where they are named. Comments may stand between them."""
    ending = draw(st.sampled_from(["\n", "\r\n"]))
    space = draw(st.sampled_from([" ", ""]))
    ascii_only = draw(st.booleans())
    units: list[bytes] = []
    for number, event in enumerate(events):
        data = event if isinstance(event, str) else dumps(event, ascii_only=ascii_only)
        name = f"event:{space}{event['type']}{ending}" if named and isinstance(event, dict) else ""
        units.append(f"{name}data:{space}{data}{ending}{ending}".encode())
        if number < len(events) - 1 and draw(st.integers(0, 9)) == 0:
            units.append(f": keep-alive{ending}{ending}".encode())
    return units


@st.composite
def ndjson(draw: st.DrawFn, lines: list[Any]) -> list[bytes]:
    """Lines of JSON."""
    ending = draw(st.sampled_from(["\n", "\r\n"]))
    ascii_only = draw(st.booleans())
    return [(dumps(line, ascii_only=ascii_only) + ending).encode() for line in lines]


@st.composite
def json_array(draw: st.DrawFn, elements: list[Any]) -> list[bytes]:
    """One array, its elements written as they come."""
    indent = draw(st.sampled_from([None, 1]))
    separator = draw(st.sampled_from([",", "\n,\r\n", ", "]))
    written = [json.dumps(element, indent=indent, ensure_ascii=False) for element in elements]
    begin = ["[" + written[0], *(separator + element for element in written[1:])]
    return [*(element.encode() for element in begin), b"]"]


def aws_frames(events: list[tuple[str, Any]]) -> list[bytes]:
    """Events by their types as frames of an AWS event stream; payloads are JSON, or bytes as they are."""
    frames = []
    for event, payload in events:
        headers = b"".join(
            pack("B", len(name)) + name.encode() + b"\x07" + pack(">H", len(value)) + value.encode()
            for name, value in ((":event-type", event), (":content-type", JSON), (":message-type", "event"))
        )
        data = payload if isinstance(payload, bytes) else dumps(payload, ascii_only=False).encode()
        prelude = pack(">II", 16 + len(headers) + len(data), len(headers))
        message = prelude + pack(">I", zlib.crc32(prelude)) + headers + data
        frames.append(message + pack(">I", zlib.crc32(message)))
    return frames


def _gzip(units: list[bytes]) -> list[bytes]:
    coder = zlib.compressobj(wbits=31)
    return _ended([coder.compress(unit) + coder.flush(zlib.Z_SYNC_FLUSH) for unit in units], coder.flush())


def _brotli(units: list[bytes]) -> list[bytes]:
    coder = brotli.Compressor(quality=4)
    return _ended([coder.process(unit) + coder.flush() for unit in units], coder.finish())


def _zstd(units: list[bytes]) -> list[bytes]:
    coder = zstd.ZstdCompressor()
    return _ended([coder.compress(unit, coder.FLUSH_BLOCK) for unit in units], coder.flush())


def _ended(units: list[bytes], end: bytes) -> list[bytes]:
    return [*units[:-1], units[-1] + end]


CODINGS: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "": list,
    "gzip": _gzip,
    "br": _brotli,
    "zstd": _zstd,
}


@st.composite
def played(draw: st.DrawFn, written: Written) -> list[Record]:
    """The records of the stream: each unit leaves the server at its time, and a read has what came until then."""
    coding = draw(st.sampled_from(sorted(CODINGS)))
    units = CODINGS[coding](written.units)
    gaps = draw(st.lists(st.integers(6, 400), min_size=len(units), max_size=len(units)))
    sent: list[tuple[int, int]] = []  # end of each unit in the body, and when it was written
    at, end = draw(st.integers(1, 900)), 0
    for unit, gap in zip(units, gaps, strict=True):
        at, end = at + gap, end + len(unit)
        sent.append((end, at))
    body = b"".join(units)
    cuts = draw(st.sets(st.integers(1, len(body) - 1), max_size=12))
    if len(sent) > 1:
        cuts.add(sent[-2][0])  # what comes last is not there when the first output is
    if draw(st.booleans()):
        cuts |= {end for end, _ in sent[:-1]}
    edges = [0, *sorted(cuts), len(body)]
    headers = [("content-type", written.content_type), *([("content-encoding", coding)] if coding else [])]
    records: list[Record] = [
        Opened(
            1, T0, "x", 0, "POST", "https", "host.example", 443, written.target, "HTTP/1.1", [*written.request_headers]
        ),
        RequestBody(1, T0, json.dumps(written.request).encode()),
        RequestSent(1, T0),
        ResponseHead(1, T0 + _MILLISECOND, 200, "HTTP/1.1", headers),
    ]
    for begin, end in pairwise(edges):
        came = next(at for unit_end, at in sent if unit_end >= end)
        records.append(Chunk(1, T0 + came * _MILLISECOND, body[begin:end]))
    return [*records, Ended(1, T0 + (at + 1) * _MILLISECOND, "eof")]


def said(records: list[Record]) -> dict[str, Any]:
    """What is reported of an exchange."""
    return report(run(records, records[-1].at, QuirkThresholds()), show_content=True)
