"""Cohere's Python SDK, version 2 of its API: text, thinking and tool calls."""

import json
from typing import Any

import pytest

from tests.live.sdks.answers import Answer
from tests.live.sdks.conftest import Route
from tests.parts import require_module

cohere = require_module("cohere", "pip install --group test")
pytestmark = pytest.mark.asyncio(loop_scope="session")

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "get_weather", "description": "Weather", "parameters": PARAMETERS}}
]


def chat(url: str, model: str, text: str) -> Answer:
    client = cohere.ClientV2(api_key="none", base_url=url)
    answer = Answer()
    calls: dict[int, list[str]] = {}
    for event in client.chat_stream(model=model, messages=[{"role": "user", "content": text}], tools=TOOLS):
        if event.type == "content-delta":
            content = event.delta.message.content
            answer.text += content.text or ""
            answer.reasoning += content.thinking or ""
        elif event.type in ("tool-call-start", "tool-call-delta"):
            call = calls.setdefault(event.index, ["", ""])
            function = event.delta.message.tool_calls.function
            call[0] += getattr(function, "name", None) or ""
            call[1] += function.arguments or ""
        elif event.type == "message-end":
            answer.finish = event.delta.finish_reason
            tokens = event.delta.usage.tokens
            answer.usage = {"input": int(tokens.input_tokens), "output": int(tokens.output_tokens)}
    answer.calls = [(name, json.loads(arguments)) for name, arguments in calls.values()]
    return answer


@pytest.mark.parametrize("text", ["hello", "think of it", "the weather?"])
async def test_chat_of_aimock(mock: Route, text: str) -> None:
    seen = await mock.ask(lambda url: chat(url, "command-a-03-2025", text))
    seen.agrees("cohere.v2", "message-end", model="command-a-03-2025")
    assert len(seen.client.calls) == (2 if "weather" in text else 0)
    assert bool(seen.client.reasoning) == ("think" in text)
