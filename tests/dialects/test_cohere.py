"""Cohere: whole bodies and event families beside the corpus."""

import json
from typing import Any

from tests.dialects.exchanges import JSON, answer, sse

PATH = "/v2/chat"
START = {"type": "message-start", "id": "m1", "delta": {"message": {"role": "assistant"}}}
TEXT = {"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": "Red"}}}}


def end(**delta: Any) -> dict[str, Any]:
    return {"type": "message-end", "delta": {"finish_reason": "COMPLETE"} | delta}


def test_citations_are_no_output() -> None:
    citation = {"citations": {"start": 0, "end": 3, "text": "Red", "sources": []}}
    said = answer(
        PATH,
        sse(
            START,
            TEXT,
            {"type": "citation-start", "index": 0, "delta": {"message": citation}},
            {"type": "citation-end"},
            end(),
        ),
    )
    assert (said["output_chunks"], said["text"], said["quirks"]) == (1, "Red", [])


def test_only_one_pair_of_counts_is_no_dual_count() -> None:
    usage = {
        "billed_units": {"search_units": 1},
        "tokens": {"input_tokens": 9.0, "output_tokens": 2.0},
        "cached_tokens": 4,
    }
    said = answer(PATH, sse(START, TEXT, end(usage=usage)))
    assert (said["usage"]["input_tokens"], said["usage"]["cache_read_tokens"]) == (9, 4)
    assert said["quirks"] == []


def test_a_failing_reason_alone_is_an_error() -> None:
    said = answer(PATH, sse(START, TEXT, end(finish_reason="ERROR_TOXIC")))
    assert (said["outcome"], said["error"], said["error_type"]) == ("error_event", "ERROR_TOXIC", None)
    assert said["quirks"] == ["finish_reason_error"]


def test_events_without_names_are_read_by_their_type() -> None:
    said = answer(PATH, sse(START, TEXT, end(), named=False))
    assert (said["text"], said["terminator"], said["quirks"]) == ("Red", "message-end", ["sse_missing_event_name"])


def test_an_unknown_event_is_named_and_a_sentinel_is_foreign() -> None:
    said = answer(PATH, sse(START, {"type": "mood-delta"}, end(), "[DONE]"))
    assert said["quirks"] == ["foreign_terminator", "unknown_event_type"]


def test_a_whole_body_is_read() -> None:
    message = {
        "role": "assistant",
        "tool_plan": "Look it up.",
        "content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Red"}],
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "get_tide", "arguments": "{}"}}],
    }
    usage = {"billed_units": {"input_tokens": 4, "output_tokens": 7}}
    body = json.dumps({"id": "m1", "finish_reason": "TOOL_CALL", "message": message, "usage": usage})
    said = answer(PATH, body, request={"model": "m"}, content_type=JSON)
    assert (said["outcome"], said["text"], said["reasoning_text"]) == ("complete", "Red", "Look it up.Hm.")
    assert (said["finish_reason"], said["usage"]["output_tokens"]) == ("TOOL_CALL", 7)
    assert [call["name"] for call in said["tool_calls"]] == ["get_tide"]
