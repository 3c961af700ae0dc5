"""Workers AI, text-generation-inference and llama.cpp in their own APIs; embeddings and rerank."""

import json

import pytest

from tests.dialects.exchanges import JSON, answer, sse

WORKERS = "/client/v4/accounts/a/ai/run/@cf/meta/llama"
GATEWAY = "/v1/a/gw/workers-ai/@cf/meta/llama"


@pytest.mark.parametrize("path", [WORKERS, GATEWAY])
def test_workers_ai_calls_come_whole(path: str) -> None:
    call = {"name": "get_tide", "arguments": {"port": "Oslo"}}
    said = answer(path, sse({"response": None, "p": "ab"}, {"tool_calls": [call, call]}, "[DONE]", named=False))
    assert [(call["name"], call["arguments"]) for call in said["tool_calls"]] == [("get_tide", '{"port":"Oslo"}')] * 2
    assert (said["outcome"], said["finish_reason"], said["quirks"]) == ("complete", None, [])


def test_workers_ai_wraps_a_whole_answer() -> None:
    body = {
        "result": {"response": "Red", "usage": {"prompt_tokens": 4, "completion_tokens": 2}},
        "success": True,
        "errors": [],
    }
    said = answer(WORKERS, json.dumps(body), request={}, content_type=JSON)
    assert (said["outcome"], said["text"], said["usage"]["output_tokens"]) == ("complete", "Red", 2)
    failed = {"result": {}, "success": False, "errors": [{"code": 3040, "message": "Capacity exceeded."}]}
    said = answer(WORKERS, json.dumps(failed), request={"stream": True}, content_type=JSON)
    assert (said["outcome"], said["error"]) == ("error_event", "Capacity exceeded.")


def test_workers_ai_models_in_openai_format_are_told_by_their_events() -> None:
    chunk = {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "Red"}}]}
    said = answer(WORKERS, sse(chunk, "[DONE]", named=False))
    assert (said["dialect"], said["text"]) == ("openai.chat", "Red")


def test_tgi_without_details_has_no_reason_to_miss() -> None:
    token = {"index": 1, "token": {"text": "Red", "special": False}, "generated_text": None, "details": None}
    last = {"index": 2, "token": {"text": " kite", "special": False}, "generated_text": "Red kite", "details": None}
    said = answer("/generate_stream", sse(token, last, named=False), request={})
    assert (said["text"], said["outcome"], said["quirks"]) == ("Red kite", "complete", [])
    said = answer("/generate_stream", sse(token, named=False), request={})
    assert (said["outcome"], said["quirks"]) == ("truncated", ["finish_reason_missing"])


def test_tgi_whole_bodies_are_told_by_their_shape() -> None:
    body = {"generated_text": "Red", "details": {"finish_reason": "length", "generated_tokens": 1, "prefill": []}}
    said = answer("/generate", json.dumps(body), request={"inputs": "hi"}, content_type=JSON)
    assert (said["dialect"], said["text"], said["finish_reason"]) == ("tgi.generate", "Red", "length")


def test_triton_has_another_endpoint_of_the_same_name() -> None:
    said = answer("/v2/models/m/generate_stream", sse({"model_name": "m", "text_output": "Red"}, named=False))
    assert said["outcome"] == "unparsed"


def test_llamacpp_older_builds_say_why_in_flags() -> None:
    end = {
        "content": "",
        "stop": True,
        "stopped_eos": False,
        "stopped_limit": True,
        "tokens_predicted": 1,
        "tokens_evaluated": 4,
    }
    said = answer("/completion", sse({"content": "Red", "stop": False}, end, named=False))
    assert (said["finish_reason"], said["terminator"], said["quirks"]) == ("limit", "stop_true", [])
    assert said["usage"]["input_tokens"] == 4


def test_llamacpp_newer_builds_count_as_they_go() -> None:
    chunk = {"content": "Red", "stop": False, "tokens_predicted": 1, "tokens_evaluated": 4}
    said = answer("/completion", sse(chunk, named=False), end="client_disconnect")
    assert (said["usage"]["output_tokens"], said["outcome"]) == (1, "client_disconnect")


def test_llamacpp_whole_bodies_are_read() -> None:
    body = {
        "content": "Red",
        "stop": True,
        "stop_type": "eos",
        "timings": {"prompt_n": 3, "predicted_n": 1, "cache_n": 2},
    }
    said = answer("/infill", json.dumps(body), request={}, content_type=JSON)
    assert (said["text"], said["finish_reason"], said["terminator"]) == ("Red", "eos", None)
    assert (said["usage"]["cache_read_tokens"], said["quirks"]) == (2, ["usage_in_vendor_field"])


@pytest.mark.parametrize(
    ("path", "body", "given"),
    [
        ("/openai/deployments/d/embeddings", {"object": "list", "data": [], "usage": {"prompt_tokens": 2}}, 2),
        ("/v1/rerank", {"results": [], "meta": {"billed_units": {"input_tokens": 7, "output_tokens": 0}}}, 7),
        ("/v1/rerank", {"results": [], "usage": {"total_tokens": 9, "prompt_tokens": 9}}, 9),
    ],
)
def test_vectors_and_scores_are_timed_and_counted(path: str, body: object, given: int) -> None:
    said = answer(path, json.dumps(body), request={"input": "hi"}, content_type=JSON)
    assert (said["outcome"], said["usage"]["input_tokens"], said["quirks"]) == ("complete", given, [])
