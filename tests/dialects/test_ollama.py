"""Ollama: whole bodies and habits beside the corpus."""

import json

import pytest

from tests.dialects.exchanges import JSON, NDJSON, answer

END = {"done": True, "done_reason": "stop", "prompt_eval_count": 5, "eval_count": 2}


def lines(*events: object) -> list[str]:
    return [json.dumps(event) + "\n" for event in events]


@pytest.mark.parametrize("content_type", [NDJSON, JSON, "text/plain"])
def test_lines_are_a_stream_whatever_their_content_type(content_type: str) -> None:
    reads = lines({"message": {"content": "Red"}, "done": False}, {"message": {"content": ""}} | END)
    said = answer("/api/chat", reads, request={}, content_type=content_type)
    assert (said["text"], said["output_chunks"], said["terminator"]) == ("Red", 1, "done_true")
    assert said["milestones_ms"]["first_token"] == 20
    assert said["quirks"] == ([] if content_type == NDJSON else ["content_type_unexpected"])


def test_a_whole_body_that_was_asked_for_is_one() -> None:
    body = json.dumps({"message": {"role": "assistant", "content": "Red"}} | END)
    said = answer("/api/chat", body, request={"stream": False}, content_type=JSON)
    assert (said["outcome"], said["text"], said["terminator"]) == ("complete", "Red", None)


def test_one_object_for_a_stream_is_not_streamed() -> None:
    body = json.dumps({"response": "Red"} | END)
    said = answer("/api/generate", body, request={"stream": True}, content_type=JSON)
    assert (said["outcome"], said["text"], said["quirks"]) == ("not_streamed", "Red", ["stream_not_honored"])


def test_a_cut_off_last_line_is_a_truncated_terminator() -> None:
    reads = lines({"response": "Red", "done": False})
    said = answer("/api/generate", [*reads, '{"response":"","done":true,"done_rea'], content_type=NDJSON)
    assert {"terminator_truncated", "truncated_json_event", "terminator_missing"} <= set(said["quirks"])
    assert said["outcome"] == "truncated"


def test_an_image_and_text_beside_the_end_are_output() -> None:
    reads = lines({"completed": 1, "total": 4, "done": False}, {"image": "AAAA", "response": "x"} | END)
    said = answer("/api/generate", reads, request={}, content_type=NDJSON)
    assert (said["output_chunks"], said["quirks"]) == (1, ["finish_reason_on_content_chunk"])
