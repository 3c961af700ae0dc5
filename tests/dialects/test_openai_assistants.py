"""Assistants: event families beside those of the corpus."""

from typing import Any

from tests.dialects.exchanges import answer, sse

PATH = "/v1/threads/thread_1/runs"


def run(status: str, **members: Any) -> tuple[str, dict[str, Any]]:
    return f"thread.run.{status}", {"id": "run_1", "object": "thread.run", "status": status, "usage": None} | members


def step(index: int, tool: dict[str, Any], *, of: str = "step_1") -> tuple[str, dict[str, Any]]:
    delta = {"step_details": {"type": "tool_calls", "tool_calls": [{"index": index} | tool]}}
    return "thread.run.step.delta", {"id": of, "object": "thread.run.step.delta", "delta": delta}


def test_code_is_output_without_a_call_and_its_results_are_not() -> None:
    said = answer(
        PATH,
        sse(
            run("in_progress"),
            step(0, {"type": "code_interpreter", "id": "c", "code_interpreter": {"input": "1+1"}}),
            step(0, {"type": "code_interpreter", "code_interpreter": {"outputs": [{"type": "logs", "logs": "2"}]}}),
            step(1, {"type": "file_search", "id": "f", "file_search": {}}),
            run("completed", usage={"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}),
            ("done", "[DONE]"),
        ),
    )
    assert (said["output_chunks"], said["tool_calls"], said["text"]) == (1, [], "")
    assert said["usage"]["input_tokens"] == 3
    assert said["quirks"] == []


def test_calls_of_different_steps_are_different_calls() -> None:
    said = answer(
        PATH,
        sse(
            step(0, {"id": "a", "function": {"name": "one", "arguments": ""}}),
            step(0, {"function": {"arguments": "{}"}}),
            step(0, {"id": "b", "function": {"name": "two", "arguments": "[]"}}, of="step_2"),
            run("requires_action"),
            ("done", "[DONE]"),
        ),
    )
    assert [(call["name"], call["arguments"]) for call in said["tool_calls"]] == [("one", "{}"), ("two", "[]")]


def test_usage_of_a_step_is_not_that_of_the_run() -> None:
    done = {"id": "step_1", "object": "thread.run.step", "status": "completed", "usage": {"prompt_tokens": 99}}
    said = answer(PATH, sse(("thread.run.step.completed", done), run("completed"), ("done", "[DONE]")))
    assert said["usage"] is None


def test_an_incomplete_run_gives_its_reason_and_a_refusal_is_output() -> None:
    content = [{"index": 0, "type": "refusal", "refusal": "No."}]
    delta = {"id": "m", "object": "thread.message.delta", "delta": {"content": content}}
    said = answer(
        PATH,
        sse(
            ("thread.message.delta", delta),
            run("incomplete", incomplete_details={"reason": "max_prompt_tokens"}),
            ("done", "[DONE]"),
        ),
    )
    assert (said["finish_reason"], said["outcome"], said["text"]) == ("max_prompt_tokens", "complete", "")
    assert said["quirks"] == ["refusal_delta"]


def test_an_error_event_ends_the_run() -> None:
    error = {"code": "server_error", "message": "Gone.", "type": "server_error", "param": None}
    said = answer(PATH, sse(run("queued"), ("error", error)))
    assert (said["outcome"], said["error"], said["error_type"]) == ("error_event", "Gone.", "server_error")


def test_unknown_names_are_named() -> None:
    said = answer(PATH, sse(("thread.run.dreaming", {"object": "thread.dream"}), run("completed"), ("done", "[DONE]")))
    assert said["quirks"] == ["unknown_event_type"]
