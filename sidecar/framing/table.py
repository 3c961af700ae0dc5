"""Which framing a body has: one literal table by content type, and what the first bytes say where that is wrong."""

from collections.abc import Callable
from typing import Literal

import msgspec

from sidecar.framing.eventstream import EventStreamDecoder
from sidecar.framing.frame import Decoder
from sidecar.framing.json_array import JsonArrayDecoder
from sidecar.framing.message import MessageDecoder
from sidecar.framing.ndjson import NdjsonDecoder
from sidecar.framing.sse import SseDecoder
from sidecar.framing.whole import WholeDecoder

Name = Literal["sse", "ndjson", "eventstream", "json_array", "whole", "message"]


class Framing(msgspec.Struct, frozen=True):
    """A row of the table."""

    name: Name
    content_types: tuple[str, ...]
    decoder: Callable[[int], Decoder]
    """Made with the bound of one unit in bytes."""
    streamed: bool


FRAMINGS: tuple[Framing, ...] = (
    Framing("sse", ("text/event-stream",), SseDecoder, streamed=True),
    Framing(
        "ndjson",
        (
            "application/x-ndjson",
            "application/ndjson",
            "application/jsonl",
            "application/x-jsonl",
            "application/jsonlines",
            "application/json-lines",
            "application/x-jsonlines",
            "application/json-seq",
            "application/stream+json",
        ),
        NdjsonDecoder,
        streamed=True,
    ),
    Framing("eventstream", ("application/vnd.amazon.eventstream",), EventStreamDecoder, streamed=True),
    Framing("json_array", (), JsonArrayDecoder, streamed=True),
    Framing("whole", ("application/json",), WholeDecoder, streamed=False),
    Framing("message", (), MessageDecoder, streamed=True),
)
BY_NAME: dict[str, Framing] = {row.name: row for row in FRAMINGS}
_BY_TYPE = {content_type: row for row in FRAMINGS for content_type in row.content_types}
_SSE_STARTS = (b"data:", b"event:", b"id:", b"retry:", b":", b"data\n", b"data\r", b"error:")
_HTML_STARTS = (b"<!doctype html", b"<html")
_OPAQUE_TYPES = ("audio/", "image/", "video/")
_BOM = b"\xef\xbb\xbf"

SNIFF_BYTES = 16
"""Bytes from which the framing is told; fewer suffice where the first of them decide."""


def by_content_type(content_type: str) -> Framing | None:
    """The framing that a Content-Type header names; None where it names none that streams or holds JSON."""
    kind = media_type(content_type)
    return BY_NAME["whole"] if kind.startswith(_OPAQUE_TYPES) else _BY_TYPE.get(kind)


def media_type(content_type: str) -> str:
    """The media type of a Content-Type header: lower case, without parameters."""
    return content_type.partition(";")[0].strip().lower()


def sniff(head: bytes, declared: Framing | None, *, asked_stream: bool, lines: bool = False) -> Framing | None:
    """The framing by the first bytes of a (decoded) body, None while they leave it open.

    A declared binary framing is believed. `asked_stream`: an array is read element by element only then. `lines`: the
    dialect streams JSON by the line, whatever the content type says.
    """
    if declared is not None and declared.name == "eventstream":
        return declared
    if _BOM.startswith(head):
        return None
    start = head.removeprefix(_BOM).lstrip(b" \t\r\n")
    if start.startswith(_SSE_STARTS):
        return BY_NAME["sse"]
    if any(mark.startswith(start) for mark in _SSE_STARTS):  # nothing yet, or the beginning of a field name
        return None
    if start.startswith(b"<"):
        page = start[: len(_HTML_STARTS[0])].lower()
        if page.startswith(_HTML_STARTS):
            return BY_NAME["whole"]
        if any(mark.startswith(page) for mark in _HTML_STARTS):
            return None
    if start.startswith(b"["):
        inner = start[1:].lstrip(b" \t\r\n")
        if not inner:
            return None
        if declared is not None and declared.name == "sse" and inner[:1] != b"{":
            return declared  # `[DONE]` on a line of its own
        return BY_NAME["json_array"] if asked_stream and inner[:1] in (b"{", b"]") else BY_NAME["whole"]
    if start.startswith(b"{"):
        if declared is not None and declared.name == "ndjson":
            return declared
        return _lines_or_whole(start, declared) if lines else BY_NAME["whole"]
    if head[:1] == b"\0" and declared is None:
        if len(head) < 5:
            return None
        if head[4:5] == b"\0":
            return BY_NAME["eventstream"]
    if declared is not None and declared.streamed:
        return declared
    return BY_NAME["whole"]


def _lines_or_whole(start: bytes, declared: Framing | None) -> Framing | None:
    """An object where lines are due: one document only if it is declared to be one and its first line is not whole."""
    if declared is None:
        return BY_NAME["ndjson"]
    line, ended, _ = start.partition(b"\n")
    if not ended:
        return None
    try:
        msgspec.json.decode(line, type=dict)
    except msgspec.MsgspecError:
        return BY_NAME["whole"]
    return BY_NAME["ndjson"]
