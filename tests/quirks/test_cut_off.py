"""A stream that ends at any of its bytes, in any way: what was cut off is named, and nothing else is called so."""

import json
from base64 import b64encode
from typing import Any, NamedTuple

import pytest

from sidecar.files.capture import Capture, ChunkPart, EndPart, Payload, RequestPart, ResponsePart
from tests.corpus import observed
from tests.wellformed.wire import AWS, JSON, NDJSON, SSE, aws_frames

BEGUN = {"truncated_json_event", "truncated_frame"}
UNENDED = {"sse_missing_final_blank_line", "ndjson_missing_final_newline"}


class Unit(NamedTuple):
    """A unit on the wire. `whole`: bytes of it from which its payload is there; `done`: from which it is complete."""

    data: bytes
    whole: int
    done: int


class Wire(NamedTuple):
    target: str
    content_type: str
    units: list[Unit]


def _chat(*pieces: str) -> list[str]:
    choices: list[dict[str, Any]] = [
        {"index": 0, "delta": {"content": piece}, "finish_reason": None} for piece in pieces
    ]
    choices.append({"index": 0, "delta": {}, "finish_reason": "stop"})
    return [*(json.dumps({"id": "c", "choices": [choice]}) for choice in choices), "[DONE]"]


def _sse(data: list[str], ending: str, names: list[str] | None = None) -> list[Unit]:
    units = []
    for number, text in enumerate(data):
        head = f"event: {names[number]}{ending}data: " if names else "data: "
        whole = len(head) + len(text)
        block = f"{head}{text}{ending}{ending}".encode()
        units.append(Unit(block, whole, len(block) - (ending == "\r\n")))
    return units


_MESSAGE: list[dict[str, Any]] = [
    {
        "type": "message_start",
        "message": {"id": "m", "role": "assistant", "usage": {"input_tokens": 3, "output_tokens": 1}},
    },
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Red"}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop"},
]
_LINES: list[dict[str, Any]] = [
    {"model": "m", "message": {"role": "assistant", "content": "Red"}, "done": False},
    {"model": "m", "message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"},
]
_ELEMENTS = [
    {"candidates": [{"index": 0, "content": {"parts": [{"text": text}]}, "finishReason": reason}]}
    for text, reason in (("Red", None), (" ]}", "STOP"))
]
_FRAMES = aws_frames(
    [
        ("messageStart", {"role": "assistant"}),
        ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "Red"}}),
        ("messageStop", {"stopReason": "end_turn"}),
        ("metadata", {"usage": {"inputTokens": 3, "outputTokens": 1, "totalTokens": 4}}),
    ]
)


def _lines(ending: str) -> list[Unit]:
    texts = [json.dumps(line) for line in _LINES]
    return [Unit((text + ending).encode(), len(text), len(text + ending)) for text in texts]


def _array() -> list[Unit]:
    elements = [Unit(text, len(text) + 1, len(text)) for text in (json.dumps(one).encode() for one in _ELEMENTS)]
    between = [Unit(text, 0, 0) for text in (b"[", b"\r\n,", b"]")]
    return [between[0], elements[0], between[1], elements[1], between[2]]


WIRES = {
    "chat": Wire("/v1/chat/completions", SSE, _sse(_chat("Red", " kite"), "\n")),
    "chat, CRLF": Wire("/v1/chat/completions", SSE, _sse(_chat("Red", " kite"), "\r\n")),
    "named events": Wire(
        "/v1/messages", SSE, _sse([json.dumps(one) for one in _MESSAGE], "\n", [str(one["type"]) for one in _MESSAGE])
    ),
    "lines": Wire("/api/chat", NDJSON, _lines("\n")),
    "lines, CRLF": Wire("/api/chat", NDJSON, _lines("\r\n")),
    "array": Wire("/v1beta/models/m:streamGenerateContent", JSON, _array()),
    "frames": Wire("/model/m/converse-stream", AWS, [Unit(frame, len(frame), len(frame)) for frame in _FRAMES]),
}


def _quirks(wire: Wire, body: bytes, end: str) -> set[str]:
    capture = Capture(
        1,
        "cut",
        RequestPart("POST", f"https://host{wire.target}", body=Payload(text='{"model":"m","stream":true}')),
        EndPart(end, 40.0),  # type: ignore[arg-type]  # one of the literal's values
        response=ResponsePart(200, headers=[("content-type", wire.content_type)]),
        chunks=[ChunkPart(at_ms=20.0, b64=b64encode(body).decode())],
    )
    return set(observed(capture)["quirks"])


@pytest.mark.parametrize("name", WIRES)
def test_what_the_end_cuts_off_is_named(name: str) -> None:
    wire = WIRES[name]
    body = b"".join(unit.data for unit in wire.units)
    start = 0
    for number, unit in enumerate(wire.units):
        for size in range(1, len(unit.data) + 1):
            part = body[: start + size]
            inside, whole = size < unit.done, unit.whole <= size
            where = f"{name}, byte {size} of unit {number}: {part[-30:]!r}"
            for end in ("upstream_reset", "client_disconnect"):
                found = _quirks(wire, part, end)
                assert bool(found & BEGUN) == inside, where
                assert not found & UNENDED, where
                assert "terminator_truncated" not in found or number == len(wire.units) - 1, where
            found = _quirks(wire, part, "eof")
            assert bool(found & BEGUN) == (inside and not whole), where
            assert bool(found & UNENDED) == (inside and whole), where
            assert not _quirks(wire, part, "open") & (BEGUN | UNENDED | {"terminator_truncated"}), where
        start += len(unit.data)
