"""OpenAI's Python SDK: chat, completions and responses, from a llama.cpp server and from a mock of the vendor's API."""

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from tests.live.sdks.answers import Answer, joined
from tests.live.sdks.conftest import Route
from tests.parts import require_module

openai = require_module("openai", "pip install --group test")
pytestmark = pytest.mark.asyncio(loop_scope="session")

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION = {"name": "get_weather", "description": "The weather of a city", "parameters": PARAMETERS}


@cache  # making one reads all certificate authorities
def client(url: str) -> Any:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=20)


def usage_of(found: Any, inputs: str, outputs: str) -> dict[str, int]:
    """Usage as the SDK has it; details that it does not have are left out."""
    usage = {"input": getattr(found, inputs), "output": getattr(found, outputs), "total": found.total_tokens}
    details = getattr(found, f"{inputs}_details", None)
    if details is not None and details.cached_tokens is not None:
        usage["cache_read"] = details.cached_tokens
    return usage


def chat(url: str, model: str, text: str, **options: Any) -> Answer:
    stream = client(url).chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": text}],
        stream=True,
        stream_options={"include_usage": True},
        **options,
    )
    answer = Answer()
    calls: dict[int, list[str]] = {}
    for chunk in stream:
        if chunk.usage is not None:
            answer.usage = usage_of(chunk.usage, "prompt_tokens", "completion_tokens")
        for choice in chunk.choices:
            answer.text += choice.delta.content or ""
            answer.reasoning += getattr(choice.delta, "reasoning_content", None) or ""
            answer.finish = choice.finish_reason or answer.finish
            for part in choice.delta.tool_calls or ():
                call = calls.setdefault(part.index, ["", ""])
                call[0] += part.function.name or ""
                call[1] += part.function.arguments or ""
    answer.calls = [(name, json.loads(arguments)) for name, arguments in calls.values()]
    return answer


def completions(url: str, model: str, text: str) -> Answer:
    stream = client(url).completions.create(
        model=model, prompt=text, stream=True, stream_options={"include_usage": True}, max_tokens=24
    )
    answer = Answer()
    for chunk in stream:
        if chunk.usage is not None:
            answer.usage = usage_of(chunk.usage, "prompt_tokens", "completion_tokens")
        for choice in chunk.choices:
            answer.text += choice.text
            answer.finish = choice.finish_reason or answer.finish
    return answer


def responses(url: str, model: str, text: str, **options: Any) -> Answer:
    answer, final = Answer(), None
    for event in client(url).responses.create(model=model, input=text, stream=True, **options):
        if event.type == "response.output_text.delta":
            answer.text += event.delta
        elif event.type in ("response.reasoning_text.delta", "response.reasoning_summary_text.delta"):
            answer.reasoning += event.delta
        elif event.type == "response.completed":
            final = event.response
    return complete(answer, final)


def accumulated_responses(url: str, model: str, text: str, **options: Any) -> Answer:
    """The same by the SDK's own accumulator, which is pickier."""
    with client(url).responses.stream(model=model, input=text, **options) as stream:
        final = stream.get_final_response()
    answer = Answer(text=final.output_text)
    for item in final.output:
        if item.type == "reasoning":
            answer.reasoning += "".join(part.text for part in item.summary)
    return complete(answer, final)


def complete(answer: Answer, final: Any) -> Answer:
    """The answer with what the response at its end says."""
    assert final.output_text == joined(answer.text)
    answer.calls = [(item.name, json.loads(item.arguments)) for item in final.output if item.type == "function_call"]
    answer.finish = final.status
    answer.usage = usage_of(final.usage, "input_tokens", "output_tokens")
    return answer


TOOLS: dict[str, Any] = {"tools": [{"type": "function", "function": FUNCTION}]}
FLAT_TOOLS: dict[str, Any] = {"tools": [{"type": "function", **FUNCTION}]}


async def test_chat_text_of_llamacpp(llamacpp: Route) -> None:
    seen = await llamacpp.ask(lambda url: chat(url, "tiny", "Tell of the sea", max_tokens=24))
    seen.agrees("openai.chat", "done_sentinel", model="tiny")
    assert seen.client.finish == "length"
    assert seen.client.text


async def test_chat_tool_call_of_llamacpp(llamacpp: Route) -> None:
    seen = await llamacpp.ask(lambda url: chat(url, "tiny", "The weather in Oslo?", **TOOLS))
    seen.agrees("openai.chat", "done_sentinel", model="tiny")
    assert seen.client.finish == "tool_calls"
    assert seen.client.calls == [("get_weather", {"city": "Oslo"})]


async def test_completions_of_llamacpp(llamacpp: Route) -> None:
    seen = await llamacpp.ask(lambda url: completions(url, "tiny", "Once upon a time"))
    seen.agrees("openai.completions", "done_sentinel", model="tiny")
    assert seen.client.text


async def test_responses_text_of_llamacpp(llamacpp: Route) -> None:
    seen = await llamacpp.ask(lambda url: responses(url, "tiny", "Tell of the sea", max_output_tokens=24))
    seen.agrees("openai.responses", "response.completed", model="tiny")
    assert seen.client.text


async def test_responses_tool_call_of_llamacpp(llamacpp: Route) -> None:
    seen = await llamacpp.ask(lambda url: responses(url, "tiny", "The weather in Oslo?", **FLAT_TOOLS))
    seen.agrees("openai.responses", "response.completed", model="tiny")
    assert seen.client.calls == [("get_weather", {"city": "Oslo"})]


@pytest.mark.parametrize(("ask", "terminator"), [(chat, "done_sentinel"), (responses, "response.completed")])
async def test_thoughts_of_llamacpp(llamacpp: Route, ask: Callable[..., Answer], terminator: str) -> None:
    seen = await llamacpp.ask(lambda url: ask(url, "tiny", "Please think"))
    seen.agrees(f"openai.{ask.__name__}", terminator, model="tiny")
    assert (seen.client.reasoning, seen.client.text) == (" Weigh winds early", " It blows hard")


@pytest.mark.parametrize("text", ["hello", "think of it", "the weather?"])
async def test_chat_of_aimock(aimocked: Route, text: str) -> None:
    seen = await aimocked.ask(lambda url: chat(url, "gpt-4o", text, **TOOLS))
    seen.agrees("openai.chat", "done_sentinel", model="gpt-4o")
    assert seen.client.finish == ("tool_calls" if "weather" in text else "stop")


@pytest.mark.parametrize("text", ["hello", "think of it", "the weather?"])
@pytest.mark.parametrize("read", [responses, accumulated_responses])
async def test_responses_of_aimock(aimocked: Route, read: Callable[..., Answer], text: str) -> None:
    seen = await aimocked.ask(lambda url: read(url, "gpt-4o", text, **FLAT_TOOLS))
    seen.agrees("openai.responses", "response.completed", model="gpt-4o")
    assert len(seen.client.calls) == (2 if "weather" in text else 0)
    assert bool(seen.client.reasoning) == ("think" in text)
