"""Anthropic's messages: what the corpus does not show."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.dialects.anthropic import AnthropicMessages, is_messages_path, signs
from sidecar.dialects.request import Head
from sidecar.framing.frame import Frame
from sidecar.stream.stream import Stream
from tests.dialects.reading import REQUEST, calls_of, stream_of, whole_of

START = {
    "type": "message_start",
    "message": {"id": "m", "model": "c", "role": "assistant", "usage": {"input_tokens": 9}},
}
STOP = {"type": "message_stop"}


def read(*events: dict[str, Any]) -> Stream:
    frames = [Frame(json.dumps(event).encode(), at, event=event["type"]) for at, event in enumerate(events, 1)]
    return stream_of(AnthropicMessages(REQUEST), *frames)


def block(index: int, **members: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": members}


def delta(index: int, kind: str, **members: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **members}}


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def test_text_in_a_block_start_is_named_and_is_no_output() -> None:
    stream = read(START, block(0, type="text", text="Red"), delta(0, "text_delta", text=" kite"), stop(0), STOP)
    assert "block_start_has_text" in stream.notes
    assert (stream.text.text(), stream.output_chunks) == (" kite", 1)


def test_input_in_a_block_start_counts_unless_deltas_bring_it() -> None:
    eager = block(0, type="tool_use", id="t", name="f", input={"a": 1})
    piece = delta(0, "input_json_delta", partial_json='{"a":2}')
    assert calls_of(read(START, eager, stop(0), STOP)) == [("f", '{"a":1}')]
    assert calls_of(read(START, eager, piece, stop(0), STOP)) == [("f", '{"a":2}')]


def test_calls_of_one_index_are_told_apart() -> None:
    stream = read(
        START,
        block(0, type="tool_use", id="t1", name="f", input={}),
        delta(0, "input_json_delta", partial_json="{}"),
        block(0, type="tool_use", id="t2", name="g", input={}),
        delta(0, "input_json_delta", partial_json="[]"),
        STOP,
    )
    assert calls_of(stream) == [("f", "{}"), ("g", "[]")]


@pytest.mark.parametrize(
    "kind",
    [
        "web_fetch_tool_result",
        "bash_code_execution_tool_result",
        "advisor_tool_result",
        "container_upload",
        "mcp_tool_listing",
        "fallback",
        "redacted_thinking",
    ],
)
def test_blocks_that_are_no_output(kind: str) -> None:
    stream = read(START, block(0, type=kind, content=[{"type": "text", "text": "x"}], data="x"), stop(0), STOP)
    assert stream.output_chunks == 0
    assert stream.notes == set()


def test_event_of_another_house_is_unknown_and_its_usage_is_not_taken() -> None:
    stream = read({"type": "vertex_event", "usage": {"input_tokens": 1, "output_tokens": 1}}, START, STOP)
    assert "unknown_event_type" in stream.notes
    assert stream.usage.merged() == {"input": 9}


def test_ping_without_its_name_is_a_heartbeat() -> None:
    stream = stream_of(AnthropicMessages(REQUEST), Frame(b'{"type":"ping"}', 1, event="message"))
    assert stream.heartbeats == 1
    assert "json_heartbeat_event" in stream.notes


def test_error_event_that_is_no_json() -> None:
    stream = stream_of(AnthropicMessages(REQUEST), Frame(b"Overloaded", 1, event="error"))
    assert stream.error is not None
    assert stream.error.message == "Overloaded"


def test_errors_of_concatenated_events_are_found() -> None:
    data = b'{"type":"message_start"}{"type":"error","error":{"type":"api_error","message":"Down"}}'
    stream = stream_of(AnthropicMessages(REQUEST), Frame(data, 1))
    assert stream.error is not None
    assert stream.error.type == "api_error"


def test_whole_message() -> None:
    stream = whole_of(
        AnthropicMessages(REQUEST),
        {
            "type": "message",
            "content": [
                {"type": "thinking", "thinking": "Hm", "signature": "s"},
                {"type": "text", "text": "Red"},
                {"type": "tool_use", "id": "t", "name": "f", "input": {"é": 1}},
            ],
            "stop_reason": "tool_use",
            "usage": {"input_tokens": 1, "output_tokens": 5, "output_tokens_details": {"thinking_tokens": 2}},
        },
    )
    assert (stream.text.text(), stream.reasoning.text()) == ("Red", "Hm")
    assert calls_of(stream) == [("f", '{"é":1}')]
    assert stream.usage.merged() == {"input": 1, "output": 5, "reasoning": 2}
    assert stream.finish_reason() == "tool_use"


@pytest.mark.parametrize(
    ("path", "headers", "is_one"),
    [
        ("/v1/messages", {}, True),
        ("/anthropic/v1/messages/", {}, True),
        ("/gw/messages", {"anthropic-version": "2023-06-01"}, True),
        ("/v1/projects/p/locations/l/publishers/anthropic/models/claude-x@1:streamRawPredict", {}, True),
        ("/v1/projects/p/locations/l/publishers/mistralai/models/m:rawPredict", {}, False),
        ("/v1/threads/t/messages", {}, False),
        ("/chat/messages", {}, False),
    ],
)
def test_paths(path: str, headers: dict[str, str], is_one: bool) -> None:
    assert is_messages_path(Head("POST", "h", 443, path, {}, headers)) is is_one


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 300) | st.sampled_from(["", "x", "text_delta", "tool_use", "error"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["type", "text", "index", "input", "usage", "id", "name", "partial_json", "stop_reason"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)
_MEMBERS = ("type", "index", "delta", "content_block", "message", "usage", "error", "content", "stop_reason", "model")
_TYPES = st.sampled_from(
    [*(["message_start", "message_delta", "message_stop", "ping", "error", "message"]), "content_block_start"]
)


@given(
    events=st.lists(st.dictionaries(st.sampled_from(_MEMBERS), _VALUES | _TYPES), max_size=4),
    name=st.sampled_from(["", "error", "content_block_delta", "content_block_stop", "message_start"]),
)
def test_surprising_types_do_not_raise(events: list[dict[str, Any]], name: str) -> None:
    frames = [Frame(json.dumps(event).encode(), at, event=name) for at, event in enumerate(events, 1)]
    assert stream_of(AnthropicMessages(REQUEST), *frames).output_chunks <= len(frames)
    for event in events:
        assert whole_of(AnthropicMessages(REQUEST), event).output_chunks == 0
        assert isinstance(signs(event, name), bool)
