"""Google's google-genai: text, thoughts and function calls."""

from functools import cache
from typing import Any

import pytest

from tests.live.sdks.answers import Answer
from tests.live.sdks.conftest import Route
from tests.parts import require_module

genai = require_module("google.genai", "pip install --group test")
pytestmark = pytest.mark.asyncio(loop_scope="session")

TOOLS: list[dict[str, Any]] = [
    {
        "function_declarations": [
            {
                "name": "get_weather",
                "description": "The weather of a city",
                "parameters": {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}},
            }
        ]
    }
]


@cache  # making one reads all certificate authorities
def client(url: str) -> Any:
    return genai.Client(api_key="none", http_options={"base_url": url, "api_version": "v1beta"})


def generate(url: str, model: str, text: str) -> Answer:
    config = {"tools": TOOLS, "automatic_function_calling": {"disable": True}}
    answer = Answer()
    for chunk in client(url).models.generate_content_stream(model=model, contents=text, config=config):
        usage = chunk.usage_metadata
        if usage is not None:
            answer.usage = {
                "input": usage.prompt_token_count,
                "output": usage.candidates_token_count,
                "total": usage.total_token_count,
            }
        for candidate in chunk.candidates or ():
            if candidate.finish_reason is not None:
                answer.finish = candidate.finish_reason.value
            for part in (candidate.content and candidate.content.parts) or ():
                if part.function_call is not None:
                    answer.calls.append((part.function_call.name, part.function_call.args))
                elif part.thought:
                    answer.reasoning += part.text
                else:
                    answer.text += part.text or ""
    return answer


@pytest.mark.parametrize("text", ["hello", "think of it", "the weather?"])
async def test_generate_content_of_aimock(aimocked: Route, text: str) -> None:
    seen = await aimocked.ask(lambda url: generate(url, "gemini-2.5-flash", text))
    seen.agrees("gemini.generate", None, model="gemini-2.5-flash")
    assert len(seen.client.calls) == (2 if "weather" in text else 0)
    assert bool(seen.client.reasoning) == ("think" in text)
