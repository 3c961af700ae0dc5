"""The Responses API: event families and habits beside those of the corpus."""

from typing import Any

from tests.dialects.exchanges import JSON, answer, sse

PATH = "/v1/responses"
CREATED = {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "usage": None}}
USAGE = {"input_tokens": 8, "output_tokens": 6, "total_tokens": 14}


def completed(output: list[Any] | None = None, **members: Any) -> dict[str, Any]:
    response = {"id": "resp_1", "status": "completed", "output": output or [], "usage": USAGE, "error": None} | members
    return {"type": "response.completed", "response": response}


def test_text_only_in_done_events_is_text_but_no_output() -> None:
    part = {"type": "output_text", "text": "Red kite"}
    item = {"id": "m", "type": "message", "content": [part]}
    said = answer(
        PATH,
        sse(
            CREATED,
            {"type": "response.output_text.done", "output_index": 0, "item_id": "m", "text": "Red kite"},
            {"type": "response.content_part.done", "output_index": 0, "item_id": "m", "part": part},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            completed([item]),
        ),
    )
    assert said["text"] == "Red kite"
    assert said["output_chunks"] == 0
    assert "first_token" not in said["milestones_ms"]
    assert said["outcome"] == "complete"
    assert said["quirks"] == ["text_only_in_done_events"]


def test_text_only_in_the_terminal_event_is_taken_from_there() -> None:
    item = {"id": "m", "type": "message", "content": [{"type": "output_text", "text": "Red"}]}
    call = {"id": "f", "type": "function_call", "call_id": "c", "name": "get_tide", "arguments": '{"port":"Oslo"}'}
    said = answer(PATH, sse(CREATED, completed([item, call])))
    assert (said["text"], said["output_chunks"]) == ("Red", 0)
    assert [(call["name"], call["arguments"]) for call in said["tool_calls"]] == [("get_tide", '{"port":"Oslo"}')]
    assert said["quirks"] == ["text_only_in_done_events"]


def test_calls_are_told_apart_by_item_where_all_have_one_output_index() -> None:
    events: list[Any] = [CREATED]
    for number in (1, 2):
        item = {"id": f"fc_{number}", "type": "function_call", "call_id": f"call_{number}", "name": f"tool_{number}"}
        events.append({"type": "response.output_item.added", "output_index": 0, "item": item | {"arguments": ""}})
    for number in (1, 2):
        delta = {"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": f"fc_{number}"}
        events += [delta | {"delta": '{"n":'}, delta | {"delta": f"{number}}}"}]
    said = answer(PATH, sse(*events, completed()))
    assert [(call["name"], call["arguments"]) for call in said["tool_calls"]] == [
        ("tool_1", '{"n":1}'),
        ("tool_2", '{"n":2}'),
    ]
    assert said["quirks"] == []


def test_a_call_without_item_id_and_index_is_the_last_one_opened() -> None:
    item = {"type": "function_call", "call_id": "c", "name": "get_tide", "arguments": ""}
    delta = {"type": "response.function_call_arguments.delta", "delta": "{}"}
    said = answer(PATH, sse(CREATED, {"type": "response.output_item.added", "item": item}, delta, completed()))
    assert [(call["name"], call["arguments"]) for call in said["tool_calls"]] == [("get_tide", "{}")]


def test_tools_of_the_client_are_calls_and_tools_of_the_provider_are_not() -> None:
    action = {"type": "click", "button": "left", "x": 1, "y": 2}
    computer = {"id": "cu", "type": "computer_call", "call_id": "c1", "status": "in_progress"}
    mcp = {"id": "mcp", "type": "mcp_call", "name": "lookup", "server_label": "s", "arguments": ""}
    search = {"id": "fs", "type": "file_search_call", "status": "in_progress", "queries": ["tides"]}
    code = {"id": "ci", "type": "code_interpreter_call", "status": "in_progress", "code": None}
    shell = {"id": "sh", "type": "shell_call", "call_id": "c2", "environment": {"type": "container_reference"}}
    said = answer(
        PATH,
        sse(
            CREATED,
            *(
                {"type": "response.output_item.added", "output_index": index, "item": item}
                for index, item in enumerate((computer, mcp, search, code, shell))
            ),
            {"type": "response.mcp_call_arguments.delta", "output_index": 1, "item_id": "mcp", "delta": '{"q":1}'},
            {"type": "response.mcp_call_arguments.done", "output_index": 1, "item_id": "mcp", "arguments": '{"q":1}'},
            {"type": "response.mcp_call.completed", "output_index": 1, "item_id": "mcp"},
            {"type": "response.code_interpreter_call_code.delta", "output_index": 3, "item_id": "ci", "delta": "1+1"},
            {"type": "response.output_item.done", "output_index": 0, "item": computer | {"action": action}},
            completed(),
        ),
    )
    assert [call["name"] for call in said["tool_calls"]] == ["computer", "lookup"]
    assert said["tool_calls"][0]["arguments"] == '{"type":"click","button":"left","x":1,"y":2}'
    assert said["tool_calls"][1]["arguments"] == '{"q":1}'
    assert said["output_chunks"] == 4  # two openings, one delta, code
    assert said["quirks"] == []


def test_a_bare_in_progress_is_a_heartbeat_and_one_with_a_response_is_not() -> None:
    said = answer(
        PATH,
        sse(
            CREATED,
            {"type": "response.in_progress", "response": {"id": "resp_1", "status": "in_progress"}},
            {"type": "response.in_progress", "sequence_number": 2},
            {"type": "response.output_text.delta", "delta": "Red"},
            completed(),
        ),
    )
    assert said["heartbeats"] == 1
    assert said["quirks"] == ["json_heartbeat_event"]


def test_an_unknown_type_is_named_and_the_known_ones_are_not() -> None:
    known = [
        {"type": "response.mcp_list_tools.in_progress", "item_id": "x"},
        {"type": "response.reasoning_summary_part.added", "part": {"type": "summary_text", "text": ""}},
        {"type": "response.output_text.annotation.added", "annotation": {"type": "url_citation"}},
        {"type": "response.audio.delta", "delta": "AAAA"},
        {"type": "response.shell_call_output_content.delta", "delta": {"stdout": "x"}},
    ]
    said = answer(PATH, sse(CREATED, *known, completed()))
    assert (said["quirks"], said["output_chunks"]) == ([], 1)
    said = answer(PATH, sse(CREATED, {"type": "response.telepathy.delta", "delta": "x"}, completed()))
    assert said["quirks"] == ["unknown_event_type"]


def test_a_second_terminal_event_is_a_duplicate_and_nothing_else() -> None:
    said = answer(
        PATH,
        sse(CREATED, {"type": "response.output_text.delta", "delta": "Red"}, completed(usage=None), completed()),
    )
    assert said["quirks"] == ["duplicate_terminator", "usage_absent_in_terminal"]
    assert said["usage"]["input_tokens"] == 8
    assert said["finish_reason"] == "completed"


def test_a_terminal_event_cut_off_without_its_name_is_a_truncated_terminator() -> None:
    reads = sse(CREATED, {"type": "response.output_text.delta", "delta": "Red"})
    said = answer(PATH, [*reads, 'event: response.completed\ndata: {"type":"response.comp'])
    assert {"terminator_truncated", "truncated_json_event"} <= set(said["quirks"])
    said = answer(PATH, [*reads, 'data: {"type":"response.completed","response":{"id":'])
    assert {"terminator_truncated", "truncated_json_event"} <= set(said["quirks"])


def test_a_failed_response_without_an_error_is_an_error() -> None:
    failed = {"type": "response.failed", "response": {"id": "r", "status": "failed", "error": None}}
    said = answer(PATH, sse(CREATED, failed))
    assert (said["outcome"], said["terminator"]) == ("error_event", "response.failed")
    assert said["error"] == "response.failed"


def test_a_whole_response_is_read() -> None:
    body = (
        '{"id":"resp_1","object":"response","status":"incomplete","model":"m","error":null,'
        '"incomplete_details":{"reason":"max_output_tokens"},"output":['
        '{"type":"reasoning","id":"rs","summary":[{"type":"summary_text","text":"Plan."}],"encrypted_content":"b3Bh"},'
        '{"type":"message","id":"m","role":"assistant","content":[{"type":"output_text","text":"Red kite"}]},'
        '{"type":"function_call","id":"fc","call_id":"c","name":"get_tide","arguments":"{}"}],'
        '"usage":{"input_tokens":8,"output_tokens":6,"output_tokens_details":{"reasoning_tokens":3}}}'
    )
    said = answer(PATH, body, request={"model": "m"}, content_type=JSON)
    assert (said["outcome"], said["text"], said["reasoning_text"]) == ("complete", "Red kite", "Plan.")
    assert said["finish_reason"] == "max_output_tokens"
    assert [call["name"] for call in said["tool_calls"]] == ["get_tide"]
    assert said["usage"]["reasoning_tokens"] == 3
    assert (said["output_chunks"], said["terminator"], said["quirks"]) == (0, None, [])


def test_a_queued_response_is_not_finished() -> None:
    body = '{"id":"resp_1","object":"response","status":"queued","output":[],"usage":null}'
    said = answer(PATH, body, request={"background": True}, content_type=JSON)
    assert (said["outcome"], said["finish_reason"]) == ("complete", None)


def test_the_dialect_is_told_by_its_events_at_an_unknown_path() -> None:
    said = answer("/v1/codex", sse(CREATED, {"type": "response.output_text.delta", "delta": "Red"}, completed()))
    assert (said["dialect"], said["text"]) == ("openai.responses", "Red")
