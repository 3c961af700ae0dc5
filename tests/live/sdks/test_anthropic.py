"""Anthropic's Python SDK: messages with text, thinking and tools, accumulated by the SDK itself."""

from functools import cache
from typing import Any

import pytest

from tests.live.sdks.answers import Answer
from tests.live.sdks.conftest import Route
from tests.parts import require_module

anthropic = require_module("anthropic", "pip install --group test")
pytestmark = pytest.mark.asyncio(loop_scope="session")

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS: dict[str, Any] = {
    "tools": [{"name": "get_weather", "description": "The weather of a city", "input_schema": SCHEMA}]
}


@cache  # making one reads all certificate authorities
def client(url: str) -> Any:
    return anthropic.Anthropic(base_url=url, api_key="none", max_retries=0, timeout=20)


def messages(url: str, model: str, text: str, **options: Any) -> Answer:
    asked = [{"role": "user", "content": text}]
    with client(url).messages.stream(model=model, max_tokens=64, messages=asked, **options) as stream:
        final = stream.get_final_message()
    answer = Answer(finish=final.stop_reason)
    for block in final.content:
        if block.type == "text":
            answer.text += block.text
        elif block.type == "thinking":
            answer.reasoning += block.thinking
        elif block.type == "tool_use":
            answer.calls.append((block.name, block.input))
    answer.usage = {"input": final.usage.input_tokens, "output": final.usage.output_tokens}
    if final.usage.cache_read_input_tokens is not None:
        answer.usage["cache_read"] = final.usage.cache_read_input_tokens
    return answer


async def test_text_of_llamacpp(llamacpp: Route) -> None:
    seen = await llamacpp.ask(lambda url: messages(url, "tiny", "Tell of the sea"))
    seen.agrees("anthropic.messages", "message_stop", model="tiny")
    assert seen.client.finish == "max_tokens"
    assert seen.client.text


async def test_tool_call_of_llamacpp(llamacpp: Route) -> None:
    seen = await llamacpp.ask(lambda url: messages(url, "tiny", "The weather in Oslo?", **TOOLS))
    seen.agrees("anthropic.messages", "message_stop", model="tiny")
    assert seen.client.finish == "tool_use"
    assert seen.client.calls == [("get_weather", {"city": "Oslo"})]


async def test_thoughts_of_llamacpp(llamacpp: Route) -> None:
    seen = await llamacpp.ask(lambda url: messages(url, "tiny", "Please think"))
    seen.agrees("anthropic.messages", "message_stop", model="tiny")
    assert (seen.client.reasoning, seen.client.text) == (" Weigh winds early", " It blows hard")


@pytest.mark.parametrize("text", ["hello", "think of it", "the weather?"])
async def test_messages_of_aimock(aimocked: Route, text: str) -> None:
    seen = await aimocked.ask(lambda url: messages(url, "claude-mocked", text, **TOOLS))
    seen.agrees("anthropic.messages", "message_stop", model="claude-mocked")
    assert len(seen.client.calls) == (2 if "weather" in text else 0)
    assert bool(seen.client.reasoning) == ("think" in text)
