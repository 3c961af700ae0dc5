"""What an upstream can make the analyzer keep of one exchange: bounded, however long its body goes on."""

import gc
import itertools
import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from sidecar.capture.records import Chunk, Ended, Opened, RequestBody, RequestSent, ResponseHead
from sidecar.exchange import Exchange
from sidecar.summarise import summarise
from sidecar.thresholds import Limits, QuirkThresholds

LIMITS = Limits(event_bytes=64 * 1024, request_bytes=256 * 1024, text_chars=1024)
KIB = 1024
FED, KEPT = 2048 * KIB, 700 * KIB
"""Bytes of a body, and how many may be retained of them."""
FED_SMALL, KEPT_SMALL = 256 * KIB, 160 * KIB
"""The same of bodies of very many small units, which take their time."""

SSE, NDJSON, JSON = "text/event-stream", "application/x-ndjson", "application/json"
AWS = "application/vnd.amazon.eventstream"
LONG = "x" * 20_000
CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
GEMINI, OLLAMA = "/v1beta/models/m:streamGenerateContent", "/api/chat"


def _events(make: Any, named: bool = False) -> Iterator[bytes]:
    for number in itertools.count():
        event = make(number)
        name = f"event: {event['type']}\n" if named else ""
        yield f"{name}data: {json.dumps(event)}\n\n".encode()


def _lines(make: Any) -> Iterator[bytes]:
    for number in itertools.count():
        yield json.dumps(make(number)).encode() + b"\n"


def _chunk(number: int, delta: Any = None, **members: Any) -> Any:
    choice = {"index": 0, "delta": {"content": "a"} if delta is None else delta, "finish_reason": None}
    return {"id": "c1", "object": "chat.completion.chunk", "model": "m", "choices": [{**choice, **members}]}


def _tool(number: int, **members: Any) -> Any:
    function = {"name": f"f{number}{LONG}", "arguments": LONG}
    return _chunk(number, {"tool_calls": [{"index": number, "id": f"{number}{LONG}", "function": function, **members}]})


def _block(number: int) -> Any:
    block = {"type": "tool_use", "id": f"{number}{LONG}", "name": LONG, "input": {"a": LONG}}
    return {"type": "content_block_start", "index": number, "content_block": block}


def _item(number: int) -> Any:
    item = {
        "type": "function_call",
        "id": f"{number}{LONG}",
        "call_id": f"c{number}{LONG}",
        "name": LONG,
        "arguments": "",
    }
    return {"type": "response.output_item.added", "output_index": number, "item": item}


def _part(number: int, part: Any) -> Any:
    return {"candidates": [{"index": number % 500, "content": {"role": "model", "parts": [part]}}]}


def _path(number: int) -> Any:
    partial = [{"jsonPath": f"$.{'a' * 2000}{number}", "stringValue": LONG}]
    return _part(0, {"functionCall": {"name": "f", "partialArgs": partial, "willContinue": True}})


def _error(number: int) -> Any:
    return {"error": {"message": f"{number}{LONG * 3}", "type": LONG}}


def _usage(number: int) -> Any:
    return {**_chunk(number, finish_reason="stop"), "usage": {"prompt_tokens": number, "completion_tokens": number}}


def _run_step(number: int) -> Any:
    call = {"index": number, "id": LONG, "function": {"name": LONG, "arguments": LONG}}
    delta = {"step_details": {"type": "tool_calls", "tool_calls": [call]}}
    return {"id": f"step_{number}{LONG}", "object": "thread.run.step.delta", "type": "x", "delta": delta}


DEEP = b'data: {"choices":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n\n"

HOSTILE: dict[str, tuple[str, str, Iterator[bytes]]] = {
    "a line without end": (CHAT, SSE, itertools.repeat(b"data: " + b"x" * 4096)),
    "a comment without end": (CHAT, SSE, itertools.chain([b": "], itertools.repeat(b"x" * 4096))),
    "an event of empty lines of data": (CHAT, SSE, itertools.repeat(b"data:\n" * 500)),
    "a name without end": (CHAT, SSE, itertools.chain([b"event: "], itertools.repeat(b"x" * 4096))),
    "an id without end": (CHAT, SSE, itertools.chain([b"id: "], itertools.repeat(b"x" * 4096))),
    "fields that nobody knows": (CHAT, SSE, itertools.repeat(b"field: " + b"x" * 4096 + b"\n")),
    "comments": (CHAT, SSE, itertools.repeat(b": ping\n\n" * 100)),
    "deep nesting": (CHAT, SSE, itertools.repeat(DEEP)),
    "blank bytes": (CHAT, "", itertools.repeat(b" \n" * 1000)),
    "a whole body without end": (CHAT, JSON, itertools.chain([b'{"a":"'], itertools.repeat(b"x" * 4096))),
    "new chunk ids": (CHAT, SSE, _events(lambda number: {**_chunk(number), "id": f"{number}{LONG}"})),
    "new models": (
        CHAT,
        SSE,
        _events(lambda number: {**_chunk(number), "id": f"{number}", "model": f"{number}{LONG}"}),
    ),
    "new choices": (CHAT, SSE, _events(lambda number: _chunk(number, {"role": "a", "content": "b"}, index=number))),
    "new finish reasons": (
        CHAT,
        SSE,
        _events(lambda number: _chunk(number, finish_reason=LONG + str(number), index=number)),
    ),
    "new tool calls": (CHAT, SSE, _events(_tool)),
    "tool calls without an index": (CHAT, SSE, _events(lambda number: _tool(number, index=None))),
    "a name in pieces": (CHAT, SSE, _events(lambda number: _tool(number, index=0, id="t"))),
    "errors": (CHAT, SSE, _events(_error)),
    "usage that changes": (CHAT, SSE, _events(_usage)),
    "text": (CHAT, SSE, _events(lambda number: _chunk(number, {"content": LONG, "reasoning": LONG}))),
    "growing text": (CHAT, SSE, _events(lambda number: _chunk(number, {"content": "x" * min(number, 40_000)}))),
    "blocks": (MESSAGES, SSE, _events(_block, named=True)),
    "items": (RESPONSES, SSE, _events(_item, named=True)),
    "candidates": (GEMINI + "?alt=sse", SSE, _events(lambda number: _part(number, {"text": LONG}))),
    "calls by path": (GEMINI + "?alt=sse", SSE, _events(_path)),
    "an element without end": (GEMINI, JSON, itertools.chain([b'[{"a":"'], itertools.repeat(b"x" * 4096))),
    "brackets without end": (GEMINI, JSON, itertools.chain([b"[{"], itertools.repeat(b'"a":[' * 800))),
    "a line of JSON without end": (OLLAMA, NDJSON, itertools.chain([b'{"a":"'], itertools.repeat(b"x" * 4096))),
    "lines": (OLLAMA, NDJSON, _lines(lambda number: {"model": LONG, "message": {"content": LONG}, "done": False})),
    "steps": ("/v1/threads/t/runs", SSE, _events(_run_step)),
    "a frame as large as can be": (
        "/model/m/converse-stream",
        AWS,
        itertools.chain([b"\0\xff\xff\xff\0\0\0\0\xa6\x1f\x8f\x4b"], itertools.repeat(b"x" * 4096)),
    ),
    "no frame": ("/model/m/converse-stream", AWS, itertools.repeat(b"\0\0\0\x10" * 1000)),
}
SMALL = {
    "an event of empty lines of data",
    "comments",
    "new choices",
    "usage that changes",
    "brackets without end",
    "no frame",
}


def _exchange(path: str, content_type: str) -> Exchange:
    exchange = Exchange(Opened(1, 1, "x", 0, "POST", "https", "host", 443, path, "HTTP/1.1", []), LIMITS)
    exchange.request_body(RequestBody(1, 1, b'{"model":"m","stream":true}'))
    exchange.request_sent(RequestSent(1, 1))
    headers = [("content-type", content_type)] if content_type else []
    exchange.response_head(ResponseHead(1, 2, 200, "HTTP/1.1", headers))
    return exchange


def _retained(exchange: Exchange, pieces: Iterator[bytes], limit: int) -> int:
    gc.collect()
    tracemalloc.start()
    try:
        fed, at = 0, 10
        for piece in pieces:
            exchange.chunk(Chunk(1, at, piece))
            fed, at = fed + len(piece), at + 1_000_000
            if fed >= limit:
                break
        del piece
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_kept_of_a_hostile_body_is_bounded(name: str) -> None:
    path, content_type, pieces = HOSTILE[name]
    exchange = _exchange(path, content_type)
    fed, kept = (FED_SMALL, KEPT_SMALL) if name in SMALL else (FED, KEPT)
    retained = _retained(exchange, pieces, fed)
    assert retained < kept, f"{retained} bytes"
    exchange.ended(Ended(1, 10**12, "upstream_reset", ""))
    summary = summarise(exchange, QuirkThresholds())
    assert summary.outcome in ("upstream_reset", "error_event")
    assert len(summary.text) <= LIMITS.text_chars


def test_what_is_kept_of_a_hostile_request_is_bounded() -> None:
    exchange = Exchange(Opened(1, 1, "x", 0, "POST", "https", "host", 443, CHAT, "HTTP/1.1", []), LIMITS)
    gc.collect()
    tracemalloc.start()
    try:
        exchange.request_body(
            RequestBody(1, 1, json.dumps({"model": "m\x1b" + "x" * 1024 * 1024, "stream": True}).encode())
        )
        exchange.request_sent(RequestSent(1, 1))
        gc.collect()
        retained = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert retained < KEPT
