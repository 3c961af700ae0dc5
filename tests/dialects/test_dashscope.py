"""DashScope: the older text format, several modes, whole bodies."""

import json
from typing import Any

from tests.dialects.exchanges import JSON, answer, sse

PATH = "/api/v1/services/aigc/text-generation/generation"
ENABLED = [("X-DashScope-SSE", "enable")]


def event(output: dict[str, Any], **members: Any) -> tuple[str, dict[str, Any]]:
    return "result", {"output": output, "request_id": "r1"} | members


def message(content: Any, finish: str, **members: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", "content": content} | members, "finish_reason": finish}]}


def test_text_so_far_may_begin_with_one_character_and_grow_long() -> None:
    texts = ["红"] + ["红" * number for number in range(2, 200)]
    events = [event(message(text, "null")) for text in texts] + [event(message(texts[-1], "stop"))]
    said = answer(PATH, sse(*events), request={}, headers=ENABLED)
    assert (said["text"], said["text_chars"]) == (texts[-1], len(texts[-1]))
    assert "cumulative_content" in said["quirks"]


def test_the_older_format_has_its_text_in_the_output() -> None:
    said = answer(
        PATH,
        sse(event({"text": "Red", "finish_reason": "null"}), event({"text": "Red kite", "finish_reason": "stop"})),
        request={},
        headers=[("Accept", "text/event-stream")],
    )
    assert (said["text"], said["finish_reason"], said["outcome"]) == ("Red kite", "stop", "complete")
    assert "sse_without_stream_request" not in said["quirks"]


def test_calls_come_in_pieces_or_as_far_as_they_go() -> None:
    for pieces in (['{"a":', "1}"], ['{"a":', '{"a":1}']):
        events = [
            event(
                message(
                    "",
                    "null",
                    tool_calls=[{"index": 0, "id": "c", "function": {"name": "get_tide", "arguments": piece}}],
                )
            )
            for piece in pieces
        ]
        said = answer(PATH, sse(*events, event(message("", "tool_calls"))), request={}, headers=ENABLED)
        assert [(call["name"], call["arguments"]) for call in said["tool_calls"]] == [("get_tide", '{"a":1}')]


def test_parts_are_due_in_a_multimodal_answer_only() -> None:
    events = sse(event(message([{"text": "Red"}], "stop")))
    multimodal = PATH.replace("text-", "multimodal-")
    for path, odd in ((PATH, True), (multimodal, False)):
        said = answer(path, events, request={}, headers=ENABLED)
        assert said["text"] == "Red"
        assert ("content_not_string" in said["quirks"]) is odd


def test_a_code_without_output_is_an_error_and_an_empty_code_is_none() -> None:
    body = json.dumps({"code": "Throttling", "message": "Slow down.", "request_id": "r1"})
    said = answer(PATH, body, request={}, content_type=JSON)
    assert (said["outcome"], said["error"], said["error_type"]) == ("error_event", "Slow down.", "Throttling")
    body = json.dumps(
        {"code": "", "message": "", "output": message("Red", "stop"), "usage": {"input_tokens": 1, "output_tokens": 2}}
    )
    said = answer(PATH, body, request={}, content_type=JSON)
    assert (said["outcome"], said["text"], said["usage"]["output_tokens"]) == ("complete", "Red", 2)
