"""Exchanges to be played: from the capture files under tests/fixtures, and made by hand."""

import base64
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

FIXTURES = Path(__file__).parents[1] / "fixtures"
CASE = "x-case"
"""Header of the request that selects the exchange."""

_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "host", CASE})

End = Literal["eof", "reset", "cut", "hang", "client_leaves", "no_answer"]
"""`cut`: the upstream closes the connection in an orderly way before the end of the body."""
Framing = Literal["chunked", "length", "close"]
type Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Piece:
    """Bytes of the response body that are written at once, `at` seconds after the request."""

    at: float
    data: bytes


@dataclass(frozen=True)
class Exchange:
    """What the client sends and what the upstream answers. `end_at` counts from the request, too."""

    id: str
    method: str = "POST"
    target: str = "/v1/chat/completions"
    request_headers: Headers = (("content-type", "application/json"),)
    request_body: bytes = b""
    status: int = 200
    headers: Headers = (("content-type", "text/event-stream"),)
    pieces: tuple[Piece, ...] = ()
    end: End = "eof"
    end_at: float = 0.0
    framing: Framing = "chunked"
    """How the response body is delimited; `close`: by the end of the connection."""

    @property
    def body(self) -> bytes:
        """The whole response body."""
        return b"".join(piece.data for piece in self.pieces)


def end_to_end(headers: Sequence[tuple[str, str]]) -> Headers:
    """The headers that no hop may change, names in lower case."""
    return tuple((name.lower(), value) for name, value in headers if name.lower() not in _HOP_BY_HOP)


@cache
def corpus() -> tuple[Exchange, ...]:
    """The corpus of captures."""
    lines = (FIXTURES / "corpus" / "streams.jsonl").read_text(encoding="utf-8").split("\n")
    return tuple(_of_capture(json.loads(line)) for line in lines if line)


def _of_capture(capture: dict[str, Any]) -> Exchange:
    request, end = capture["request"], capture["end"]
    response = capture.get("response") or {"status": 0, "headers": []}
    url = urlsplit(request["url"])
    kinds: dict[str, End] = {
        "eof": "eof",
        "open": "hang",
        "upstream_reset": "reset",
        "client_disconnect": "client_leaves",
        "upstream_failed": "no_answer",
    }
    return Exchange(
        id=capture["id"],
        method=request["method"],
        target=(url.path or "/") + (f"?{url.query}" if url.query else ""),
        request_headers=end_to_end(request["headers"]),
        request_body=_bytes(request.get("body") or {"text": ""}),
        status=response["status"],
        headers=end_to_end(response["headers"]),
        pieces=tuple(Piece(chunk["at_ms"] / 1000, _bytes(chunk)) for chunk in capture["chunks"]),
        end=kinds[end["kind"]],
        end_at=end.get("at_ms", 0) / 1000,
        framing=_framing(response["headers"]),
    )


def _framing(headers: Sequence[tuple[str, str]]) -> Framing:
    return "length" if any(name.lower() == "content-length" for name, _ in headers) else "chunked"


def _bytes(part: dict[str, str]) -> bytes:
    return part["text"].encode() if "text" in part else base64.b64decode(part["b64"])


RECORDED_MODEL = "recorded"
_TARGETS = {
    "azure": "/openai/deployments/gpt-4o/chat/completions?api-version=2024-10-21",
    "bedrock_converse": "/model/anthropic.claude-3/converse-stream",
    "bedrock_invoke": "/model/anthropic.claude-3/invoke-with-response-stream",
    "chat": "/v1/chat/completions",
    "completions": "/v1/completions",
    "error": "/v1/chat/completions",
    "gemini": "/v1beta/models/gemini-2.0-flash:streamGenerateContent?alt=sse",
    "messages": "/v1/messages",
    "ollama_chat": "/api/chat",
    "ollama_generate": "/api/generate",
    "responses": "/v1/responses",
}
"""Where the recorded answers of real servers came from, by how the part of the name behind the server begins."""


@cache
def recorded() -> tuple[Exchange, ...]:
    """The raw answers of real servers, each once in one piece and once in many of uneven size."""
    return tuple(exchange for path in sorted((FIXTURES / "captures").glob("*.http")) for exchange in _of_answer(path))


def _of_answer(path: Path) -> Iterator[Exchange]:
    data = path.read_bytes()
    mark = b"\r\n\r\n" if b"\r\n\r\n" in data.partition(b"\n\n")[0] else b"\n\n"
    head, _, body = data.partition(mark)
    status, *lines = head.decode("latin-1").splitlines()
    headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    kind = path.stem.partition("-")[2]
    target = next(target for prefix, target in reversed(_TARGETS.items()) if kind.startswith(prefix))
    asked = {"model": RECORDED_MODEL, "stream": "nostream" not in kind}
    whole = Exchange(
        id=path.stem,
        target=target,
        request_body=json.dumps(asked).encode(),
        status=int(status.split()[1]),
        headers=end_to_end(headers),
        pieces=(Piece(0.0, body),),
        framing=_framing(headers),
    )
    yield whole
    yield replace(whole, id=f"{whole.id}, in pieces", pieces=tuple(_cut(body, random.Random(path.stem))))


def _cut(body: bytes, chance: random.Random) -> Iterator[Piece]:
    """A body in pieces of 1 to 700 bytes, one each 10 ms."""
    at, offset = 0.0, 0
    while offset < len(body):
        size = chance.choice((1, 2, 7, 60, 250, 700))
        yield Piece(at, body[offset : offset + size])
        offset += size
        at += 0.01


def chat_events(*deltas: dict[str, Any], finish: str = "stop", model: str = "m-test") -> list[bytes]:
    """A chat completion as a client likes it: an event per delta, the finish reason, the sentinel."""
    shell = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": model}
    choices: list[dict[str, Any]] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": finish})
    events = [b"data: " + json.dumps({**shell, "choices": [choice]}).encode() + b"\n\n" for choice in choices]
    return [*events, b"data: [DONE]\n\n"]


def chat(
    id: str,
    events: Sequence[bytes],
    *,
    every: float = 0.02,
    model: str = "m-test",
    end: End = "eof",
    first: float = 0.0,
) -> Exchange:
    """A streamed chat completion, an event each `every` seconds; the end follows after as long."""
    pieces = tuple(Piece(first + number * every, event) for number, event in enumerate(events))
    asked = {"model": model, "stream": True, "messages": [{"role": "user", "content": "hi"}]}
    return Exchange(
        id=id,
        request_body=json.dumps(asked).encode(),
        pieces=pieces,
        end=end,
        end_at=first + len(events) * every,
    )


def words(name: str, count: int = 10, every: float = 0.02) -> Exchange:
    """A chat of so many words, of a model of its own."""
    deltas = ({"content": f"{word} "} for word in range(count))
    return chat(name, chat_events(*deltas, model=name), every=every, model=name)
