"""Ollama's Python SDK: chat and generate from a mock of its server, and from captures with counts, thinking and tools."""

from typing import Any

import pytest

from tests.live.exchanges import CASE
from tests.live.sdks.answers import Answer
from tests.live.sdks.conftest import Route
from tests.parts import require_module

ollama = require_module("ollama", "pip install --group test")
pytestmark = pytest.mark.asyncio(loop_scope="session")

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "get_weather", "description": "Weather", "parameters": PARAMETERS}}
]


def client(url: str, case: str) -> Any:
    # Nothing to be verified here, and reading all certificate authorities takes long.
    return ollama.Client(host=url, headers={CASE: case} if case else {}, verify=False)


def note_end(answer: Answer, part: Any) -> None:
    """What the line with `done` says."""
    if part.done:
        answer.finish = part.done_reason
        counts = {"input": part.prompt_eval_count, "output": part.eval_count}
        answer.usage |= {name: count for name, count in counts.items() if count is not None}


def chat(url: str, model: str, text: str, case: str = "") -> Answer:
    answer = Answer()
    asked = [{"role": "user", "content": text}]
    for part in client(url, case).chat(model=model, messages=asked, tools=TOOLS, stream=True):
        answer.text += part.message.content or ""
        answer.reasoning += part.message.thinking or ""
        for call in part.message.tool_calls or ():
            answer.calls.append((call.function.name, dict(call.function.arguments)))
        note_end(answer, part)
    return answer


def generate(url: str, model: str, text: str, case: str = "") -> Answer:
    answer = Answer()
    for part in client(url, case).generate(model=model, prompt=text, stream=True):
        answer.text += part.response or ""
        answer.reasoning += part.thinking or ""
        note_end(answer, part)
    return answer


@pytest.mark.parametrize("text", ["hello", "think of it", "the weather?"])
async def test_chat_of_aimock(aimocked: Route, text: str) -> None:
    seen = await aimocked.ask(lambda url: chat(url, "llama3", text))
    seen.agrees("ollama.chat", "done_true", model="llama3")
    assert len(seen.client.calls) == (2 if "weather" in text else 0)


async def test_generate_of_aimock(aimocked: Route) -> None:
    seen = await aimocked.ask(lambda url: generate(url, "llama3", "hello"))
    seen.agrees("ollama.generate", "done_true", model="llama3")


CHATS = [
    "n2-long-ollama",
    "n2-ol-crlf-lines",
    "n2-ol-gzip-flushed",
    "n2-ol-no-final-newline",
    "n2-ol-thinking-then-tools",
    "o01-baseline-two-per-read",
    "o04-prompt-eval-count-missing",
    "o05-tool-call-object-args-index-in-function",
    "o10-text-plain-content-type",
]


@pytest.mark.parametrize("case", CHATS)
async def test_chat_of_captures(played: Route, case: str) -> None:
    seen = await played.ask(lambda url: chat(url, "llama3", "hi", case))
    seen.agrees("ollama.chat", "done_true", model="llama3")
    assert seen.client.usage


@pytest.mark.parametrize("case", ["n2-ol-generate-thinking", "o08-generate-length-and-context"])
async def test_generate_of_captures(played: Route, case: str) -> None:
    seen = await played.ask(lambda url: generate(url, "llama3", "hi", case))
    seen.agrees("ollama.generate", "done_true", model="llama3")
    assert seen.client.usage
