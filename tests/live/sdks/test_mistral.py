"""Mistral's Python SDK: from a llama.cpp server, and from captures in the vendor's own manner."""

import json
from functools import cache
from typing import Any

import pytest

from tests.live.exchanges import CASE
from tests.live.sdks.answers import Answer
from tests.live.sdks.conftest import Route
from tests.parts import require_module

mistral = require_module("mistralai.client", "pip install --group test")
pytestmark = pytest.mark.asyncio(loop_scope="session")


@cache  # making one reads all certificate authorities
def client(url: str) -> Any:
    return mistral.Mistral(api_key="none", server_url=url)


def chat(url: str, model: str, text: str, case: str = "") -> Answer:
    answer = Answer()
    calls: dict[Any, list[str]] = {}
    asked = [{"role": "user", "content": text}]
    headers = {CASE: case} if case else None
    for event in client(url).chat.stream(model=model, messages=asked, http_headers=headers, max_tokens=24):
        if event.data.usage is not None:
            usage = event.data.usage
            answer.usage = {
                "input": usage.prompt_tokens,
                "output": usage.completion_tokens,
                "total": usage.total_tokens,
            }
        for choice in event.data.choices:
            answer.finish = choice.finish_reason or answer.finish
            read_content(choice.delta.content, answer)
            for part in choice.delta.tool_calls or ():
                call = calls.setdefault(part.index, ["", ""])
                call[0] += part.function.name or ""
                call[1] += part.function.arguments
    answer.calls = [(name, json.loads(arguments)) for name, arguments in calls.values()]
    return answer


def read_content(content: Any, answer: Answer) -> None:
    """A string, or a list of chunks of text and of thinking."""
    if isinstance(content, str):
        answer.text += content
        return
    for part in content or ():
        if part.type == "thinking":
            answer.reasoning += "".join(thought.text for thought in part.thinking)
        else:
            answer.text += part.text


async def test_text_of_llamacpp(llamacpp: Route) -> None:
    seen = await llamacpp.ask(lambda url: chat(url, "tiny", "Tell of the sea"))
    seen.agrees("openai.chat", "done_sentinel", model="tiny", hidden_usage=True)
    assert seen.client.text


@pytest.mark.parametrize("case", ["n2-mistral-thinking-chunks", "n2-mistral-tool-call-whole"])
async def test_chat_of_captures(played: Route, case: str) -> None:
    seen = await played.ask(lambda url: chat(url, "magistral-medium", "hi", case))
    seen.agrees("openai.chat", "done_sentinel", model="magistral-medium")
    assert seen.client.reasoning or seen.client.calls
    assert seen.client.usage
