"""Cohere's Python SDK, version 2 of its API: from a mock, and from captures with what the mock does not send."""

import json
from functools import cache
from typing import Any

import pytest

from tests.live.exchanges import CASE
from tests.live.sdks.answers import Answer
from tests.live.sdks.conftest import Route
from tests.parts import require_module

cohere = require_module("cohere", "pip install --group test")
pytestmark = pytest.mark.asyncio(loop_scope="session")

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "get_weather", "description": "Weather", "parameters": PARAMETERS}}
]


@cache  # making one reads all certificate authorities
def client(url: str) -> Any:
    return cohere.ClientV2(api_key="none", base_url=url)


def chat(url: str, model: str, text: str, case: str = "") -> Answer:
    answer = Answer()
    calls: dict[int, list[str]] = {}
    asked = [{"role": "user", "content": text}]
    options = {"additional_headers": {CASE: case}} if case else None
    for event in client(url).chat_stream(model=model, messages=asked, tools=TOOLS, request_options=options):
        if event.type == "content-delta":
            content = event.delta.message.content
            answer.text += content.text or ""
            answer.reasoning += content.thinking or ""
        elif event.type == "tool-plan-delta":
            answer.reasoning += event.delta.message.tool_plan
        elif event.type in ("tool-call-start", "tool-call-delta"):
            call = calls.setdefault(event.index, ["", ""])
            function = event.delta.message.tool_calls.function
            call[0] += getattr(function, "name", None) or ""
            call[1] += function.arguments or ""
        elif event.type == "message-end":
            answer.finish = event.delta.finish_reason
            billed = event.delta.usage.billed_units
            answer.usage = {"input": int(billed.input_tokens), "output": int(billed.output_tokens)}
    answer.calls = [(name, json.loads(arguments)) for name, arguments in calls.values()]
    return answer


@pytest.mark.parametrize("text", ["hello", "think of it", "the weather?"])
async def test_chat_of_aimock(aimocked: Route, text: str) -> None:
    seen = await aimocked.ask(lambda url: chat(url, "command-a-03-2025", text))
    seen.agrees("cohere.v2", "message-end", model="command-a-03-2025")
    assert len(seen.client.calls) == (2 if "weather" in text else 0)


@pytest.mark.parametrize(
    "case", ["h01-dual-usage", "n2-co-thinking-content", "n2-co-tool-plan-two-calls", "n2-long-cohere"]
)
async def test_chat_of_captures(played: Route, case: str) -> None:
    seen = await played.ask(lambda url: chat(url, "command-a-03-2025", "hi", case))
    seen.agrees("cohere.v2", "message-end", model="command-a-03-2025")
    assert bool(seen.client.reasoning) == ("thinking" in case or "plan" in case)
