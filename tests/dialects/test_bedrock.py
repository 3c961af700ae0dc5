"""Bedrock's dialects: what the corpus does not show."""

import json
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.dialects import bedrock_converse, bedrock_invoke
from sidecar.dialects.bedrock_converse import BedrockConverse
from sidecar.dialects.bedrock_frames import METRICS
from sidecar.dialects.bedrock_invoke import BedrockInvoke
from sidecar.dialects.request import Head
from sidecar.dialects.signals import Content, Finish, Usage
from sidecar.dialects.table import confirm, pick
from sidecar.dialects.usage_headers import usage_of_headers
from sidecar.framing.frame import Frame
from sidecar.stream.stream import Stream
from tests.dialects.reading import REQUEST, calls_of, stream_of, whole_of


def aws(name: str, payload: Any, kind: str = "event", **headers: str) -> Frame:
    named = {f":{name.replace('_', '-')}": value for name, value in headers.items()}
    return Frame(json.dumps(payload).encode(), 1, event=name, headers={":message-type": kind, **named})


def chunk(body: Any) -> Frame:
    return aws("chunk", {"bytes": b64encode(json.dumps(body).encode()).decode(), "p": "abc"})


def invoked(*bodies: Any) -> Stream:
    return stream_of(BedrockInvoke(REQUEST), *(chunk(body) for body in bodies))


def test_payload_of_an_exception_that_is_no_json() -> None:
    frame = Frame(
        b"slow", 1, event="x", headers={":message-type": "exception", ":exception-type": "throttlingException"}
    )
    stream = stream_of(BedrockConverse(REQUEST), frame)
    assert stream.error is not None
    assert (stream.error.message, stream.error.type) == ("slow", "throttlingException")


def test_converse_in_other_framing_has_names_around_the_members() -> None:
    stream = stream_of(
        BedrockConverse(REQUEST),
        Frame(b'{"contentBlockDelta":{"contentBlockIndex":0,"delta":{"text":"Red"}}}', 1),
        Frame(b'{"throttlingException":{"message":"slow"}}', 2),
    )
    assert stream.text.text() == "Red"
    assert stream.error is not None
    assert stream.error.type == "throttlingException"


def test_converse_images_are_output_and_results_are_not() -> None:
    stream = stream_of(
        BedrockConverse(REQUEST),
        aws("contentBlockStart", {"contentBlockIndex": 0, "start": {"toolResult": {"toolUseId": "t"}}}),
        aws("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"toolResult": [{"text": "x"}]}}),
        aws("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"image": {"source": {"bytes": "aaaa"}}}}),
        aws("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"reasoningContent": {"redactedContent": "x"}}}),
        aws("somethingNew", {}),
    )
    assert (stream.output_chunks, stream.text.text()) == (1, "")
    assert stream.notes == {"unknown_event_type"}


def test_whole_converse_answer() -> None:
    content = [
        {"reasoningContent": {"reasoningText": {"text": "Hm", "signature": "s"}}},
        {"text": "Red"},
        {"citationsContent": {"content": [{"text": " kite"}], "citations": [{"title": "t"}]}},
        {"toolUse": {"toolUseId": "t", "name": "f", "input": {"a": 1}}},
    ]
    stream = whole_of(
        BedrockConverse(REQUEST),
        {
            "output": {"message": {"role": "assistant", "content": content}},
            "stopReason": "tool_use",
            "usage": {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3},
        },
    )
    assert (stream.text.text(), stream.reasoning.text(), calls_of(stream)) == ("Red kite", "Hm", [("f", '{"a":1}')])
    assert stream.usage.merged() == {"input": 1, "output": 2, "total": 3}


LAST: dict[str, Any] = {METRICS: {"inputTokenCount": 4, "outputTokenCount": 2}}


@pytest.mark.parametrize(
    "bodies",
    [
        [
            {"outputText": "Red", "completionReason": None},
            {"outputText": " kite", "completionReason": "FINISH", **LAST},
        ],
        [
            {"text": "Red", "is_finished": False},
            {"text": " kite", "is_finished": True, "finish_reason": "FINISH", **LAST},
        ],
        [{"completion": "Red", "stop_reason": None}, {"completion": " kite", "stop_reason": "FINISH", **LAST}],
        [
            {"choices": [{"text": "Red", "stop_reason": None}]},
            {"choices": [{"text": " kite", "stop_reason": "FINISH"}], **LAST},
        ],
        [
            {"choices": [{"index": 0, "delta": {"content": "Red"}, "finish_reason": None}]},
            {"choices": [{"index": 0, "delta": {"content": " kite"}, "finish_reason": "FINISH"}], **LAST},
        ],
    ],
    ids=["titan", "command", "claude-text", "deepseek", "chat"],
)
def test_bodies_by_family(bodies: list[dict[str, Any]]) -> None:
    stream = invoked(*bodies)
    assert (stream.text.text(), stream.output_chunks, stream.finish_reason()) == ("Red kite", 2, "FINISH")
    assert stream.usage.merged() == {"input": 4, "output": 2}
    assert "usage_in_vendor_field" in stream.notes
    assert BedrockInvoke(REQUEST).terminators == frozenset()


def test_claude_body_brings_its_terminator() -> None:
    dialect = BedrockInvoke(REQUEST)
    stream_of(dialect, chunk({"type": "message_start", "message": {}}))
    assert dialect.terminators == {"message_stop"}


@pytest.mark.parametrize(
    "body",
    [
        {"generation": "Red", "stop_reason": "stop"},
        {"results": [{"outputText": "Red", "completionReason": "stop", "tokenCount": 1}], "inputTextTokenCount": 2},
        {"outputs": [{"text": "Red", "stop_reason": "stop"}]},
        {"choices": [{"index": 0, "message": {"content": "Red"}, "stop_reason": "stop"}]},
        {"type": "message", "content": [{"type": "text", "text": "Red"}], "stop_reason": "stop"},
        {"output": {"message": {"content": [{"text": "Red"}]}}, "stopReason": "stop"},
        {"generations": [{"text": "Red", "finish_reason": "stop"}], "id": "x"},
        {"generation_id": "g", "text": "Red", "finish_reason": "stop"},
        {"completions": [{"data": {"text": "Red"}, "finishReason": {"reason": "stop"}}]},
    ],
)
def test_whole_bodies_by_family(body: dict[str, Any]) -> None:
    stream = whole_of(BedrockInvoke(REQUEST), body)
    assert (stream.text.text(), stream.finish_reason(), stream.terminator) == ("Red", "stop", None)


def test_calls_of_cohere_come_once() -> None:
    piece = {"event_type": "tool-calls-chunk", "tool_call_delta": {"index": 0, "name": "f", "parameters": "{}"}}
    again = {"event_type": "tool-calls-generation", "tool_calls": [{"name": "f", "parameters": {}}]}
    assert calls_of(invoked(piece, again)) == calls_of(invoked(again)) == [("f", "{}")]


def test_totals_repeated_by_the_metrics_of_one_event_are_one_statement() -> None:
    stream = invoked(
        {"messageStop": {"stopReason": "end_turn"}},
        {"metadata": {"usage": {"inputTokens": 4, "outputTokens": 2}}, **LAST},
    )
    assert "usage_repeated" not in stream.usage.notes
    assert stream.terminator is None


def test_payload_that_cannot_be_undone_is_malformed() -> None:
    stream = stream_of(BedrockInvoke(REQUEST), aws("chunk", {"bytes": "%"}), aws("chunk", {"bytes": "AAAA"}))
    assert stream.notes == {"malformed_json_event"}


def test_path_settles_the_dialect_of_invoke() -> None:
    row = pick(Head("POST", "h", 443, "/model/arn%3Aaws%3Abedrock%2Fanthropic.claude-x/invoke"))
    assert confirm(row, {"type": "message", "role": "assistant", "content": []}, "") == (row, True)
    assert row.name == "bedrock.invoke"


_NAMES = ["text", "input", "bytes", "toolUse", "output", "content", "message", "source", "type", "choices", "delta"]
_VALUES = st.recursive(
    st.none() | st.integers(-1, 9) | st.sampled_from(["", "x", "message_start", "text-generation"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(_NAMES), inner, max_size=3),
    max_leaves=8,
)
_MEMBERS = [
    *_NAMES,
    *("start", "usage", "stopReason", "reasoningContent", "generation", "outputs", "results", "completions", "text"),
    *("event_type", "response", "tool_calls", "tool_call_delta", "metadata", "contentBlockDelta", "messageStop"),
    METRICS,
]


@given(
    body=st.dictionaries(st.sampled_from(_MEMBERS), _VALUES, max_size=6), name=st.sampled_from(["chunk", "metadata"])
)
def test_surprising_types_do_not_raise(body: dict[str, Any], name: str) -> None:
    assert stream_of(BedrockConverse(REQUEST), aws(name, body), aws("contentBlockDelta", body)).output_chunks <= 2
    assert invoked(body).output_chunks <= 1
    assert whole_of(BedrockInvoke(REQUEST), body).output_chunks == 0
    assert whole_of(BedrockConverse(REQUEST), body).output_chunks == 0
    assert isinstance(bedrock_converse.signs(body, name), bool)
    assert isinstance(bedrock_invoke.signs(body, name), bool)


def test_counts_of_the_response_head() -> None:
    headers = {"x-amzn-bedrock-input-token-count": "7", "x-amzn-bedrock-output-token-count": "x"}
    usage = usage_of_headers(headers)
    assert usage == Usage(input=7, place="headers")
    assert usage_of_headers({"content-type": "application/json"}) is None
    assert usage is not None
    stream = Stream()
    stream.usage_before(usage)
    stream.take([Content("text", "Red"), Finish("stop")], 1)
    assert "usage_in_headers" in stream.notes
    assert "usage_mid_stream" not in stream.usage.notes
