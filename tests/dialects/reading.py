"""Payloads through a dialect into a stream: what the tests of a dialect look at."""

import json
from typing import Any

from sidecar.dialects.base import Dialect
from sidecar.dialects.request import Head, Request
from sidecar.framing.frame import Frame
from sidecar.stream.stream import Stream

REQUEST = Request(Head("POST", "host", 443, "/"))


def stream_of(dialect: Dialect, *frames: Frame) -> Stream:
    """The state of a stream of these frames, one read each."""
    stream = Stream(text_limit=100_000)
    for frame in frames:
        stream.take(dialect.interpret(frame), frame.at)
    stream.tools.note_end(ended_well=True)
    return stream


def whole_of(dialect: Dialect, body: Any) -> Stream:
    """The state of a whole body."""
    stream = Stream(text_limit=100_000)
    stream.whole = True
    stream.take(dialect.interpret_whole(Frame(json.dumps(body).encode(), 1)), 1)
    stream.tools.note_end(ended_well=True)
    return stream


def calls_of(stream: Stream) -> list[tuple[str, str]]:
    """Names and arguments of the tool calls."""
    return [(call.name, call.arguments) for call in stream.tools.calls]
