"""Bodies of the corpus, spoiled: bytes, and the JSON in them value by value."""

import base64
import json
from collections.abc import Callable
from random import Random
from typing import Any

from sidecar.framing.eventstream import EventStreamDecoder
from tests.wellformed.wire import aws_frames

_DEPTHS = {f"<nested {depth}>": depth for depth in (300, 900, 3000, 8000, 100_000)}
"""Strings that are written as so many arrays in one another: deeper than this program could build them."""

_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 7, 255, 1.5, -0.0, 1e308, float("inf"), float("nan"), 2**63, 10**400, -(10**30)),
    *(
        "",
        " ",
        "x",
        "null",
        "[DONE]",
        "stop",
        "error",
        "\0\x1b[31m\x7f",
        "\ud800",
        "a\udfff",
        "\ud83d\ude00",
        "\u2028",
        "A" * 5000,
    ),
    *(
        [],
        [[]],
        [None],
        [{}],
        ["x", 1, {}],
        {},
        {"a": {}},
        {"text": []},
        {"type": {}},
        {"message": 5},
        {"error": []},
        *_DEPTHS,
    ),
)
HOSTILE = tuple(json.dumps(value) for value in _VALUES)


def spoil_value(value: Any, random: Random) -> Any:
    """A JSON value with one to three of its members replaced, dropped, doubled or swapped."""
    holder = [json.loads(json.dumps(value))]
    for _ in range(random.choice((1, 1, 2, 3))):
        places = list(_places(holder))
        parent, key = random.choice(places)
        act = random.random()
        if act < 0.75:
            parent[key] = json.loads(random.choice(HOSTILE))
        elif act < 0.85:
            other, place = random.choice(places)
            copied = json.dumps(other[place])
            parent[key] = json.loads(copied) if len(copied) < 20_000 else None
        elif isinstance(parent, dict):
            del parent[key]
        elif len(parent) < 50 and parent is not holder:
            parent.insert(key, parent[key])
    return holder[0]


def _places(holder: Any, depth: int = 0) -> Any:
    if depth > 40:
        return
    keys = list(holder) if isinstance(holder, dict) else range(len(holder))
    for key in keys:
        yield holder, key
        if isinstance(holder[key], (dict, list)):
            yield from _places(holder[key], depth + 1)


def written(value: Any) -> str:
    """JSON of a value, the names of depths written out."""
    text = json.dumps(value)
    for name, depth in _DEPTHS.items():
        text = text.replace(f'"{name}"', "[" * depth + "]" * depth)
    return text


def spoil_bytes(body: bytes, random: Random) -> bytes:
    """Some bytes changed, cut out, doubled or put in."""
    spoiled = bytearray(body)
    for _ in range(random.choice((1, 2, 5))):
        at = random.randrange(len(spoiled) + 1)
        length = random.choice((1, 1, 4, 40))
        act = random.randrange(5)
        if act == 0:
            spoiled[at : at + 1] = bytes([random.randrange(256)])
        elif act == 1:
            del spoiled[at : at + length]
        elif act == 2:
            spoiled[at:at] = spoiled[at : at + length * 10]
        elif act == 3:
            spoiled[at:at] = random.choice(_TOKENS)
        else:
            del spoiled[at:]
    return bytes(spoiled)


_TOKENS = (
    *(
        b"\n",
        b"\r",
        b"\r\n\r\n",
        b"data: ",
        b"data:",
        b"event: ping\n",
        b"event: error\n",
        b": c\n",
        b"id: 1\n",
        b"error: x\n",
    ),
    *(
        b"[DONE]",
        b"{",
        b"}",
        b"[",
        b"]",
        b'"',
        b"\\",
        b"\\u",
        b"\\ud800",
        b"null",
        b"{}",
        b"\0",
        b"\xff",
        b"\xef\xbb\xbf",
        b"1e999",
    ),
)


def spoil_units(body: bytes, content_type: str, random: Random) -> bytes:
    """One or more of the JSON values of a body spoiled, in the framing that it has."""
    if "amazon" in content_type:
        return _spoil_frames(body, random)
    if body.lstrip()[:1] in (b"{", b"[") and not _is_lines(body):
        return _spoil_json(body, random)
    pieces = body.split(b"\n")
    values = [number for number, line in enumerate(pieces) if b"{" in line]
    for number in random.sample(values, min(len(values), random.choice((1, 1, 3)))):
        line = pieces[number]
        begin = line.index(b"{")
        pieces[number] = line[:begin] + _spoil_json(line[begin:].rstrip(b"\r"), random)
    if values and random.random() < 0.3:
        pieces.insert(random.randrange(len(pieces)), pieces[random.choice(values)])
    return b"\n".join(pieces)


def _is_lines(body: bytes) -> bool:
    first = body.split(b"\n", 1)[0]
    try:
        json.loads(first)
    except ValueError:
        return False
    return b"\n{" in body


def _spoil_json(text: bytes, random: Random) -> bytes:
    try:
        value = json.loads(text.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return spoil_bytes(text, random)
    return written(spoil_value(value, random)).encode()


def _spoil_frames(body: bytes, random: Random) -> bytes:
    frames = EventStreamDecoder().feed(body, 1)
    if not frames or random.random() < 0.1:
        return spoil_bytes(body, random)
    events: list[tuple[str, Any]] = []
    for frame in frames:
        try:
            events.append((frame.event, json.loads(frame.data or b"{}")))
        except ValueError:
            events.append((frame.event, {}))
    for number in random.sample(range(len(events)), min(len(events), random.choice((1, 1, 3)))):
        event, payload = events[number]
        if isinstance(payload, dict) and isinstance(payload.get("bytes"), str) and random.random() < 0.8:
            inner = _spoil_json(_unwrapped(payload["bytes"]), random)
            events[number] = event, {**payload, "bytes": base64.b64encode(inner).decode()}
        else:
            kind = random.choice((event, event, event, "throttlingException", "metadata", ""))
            events[number] = kind, spoil_value(payload, random)
    return b"".join(aws_frames([(event, written(payload).encode()) for event, payload in events]))


def _unwrapped(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except ValueError:
        return b"{}"


SPOILERS: tuple[Callable[[bytes, str, Random], bytes], ...] = (
    spoil_units,
    spoil_units,
    lambda body, _, random: spoil_bytes(body, random),
)
