"""OpenAI's JavaScript SDK under Node.js, by the script tests/live/js/ask.mjs."""

import json
import subprocess

import pytest

from tests.live.nodejs import JS, node, node_package
from tests.live.sdks.answers import Answer
from tests.live.sdks.conftest import Route

pytestmark = pytest.mark.asyncio(loop_scope="session")

TERMINATORS = {"chat": "done_sentinel", "responses": "response.completed"}


def ask(url: str, api: str, model: str, text: str, *, tools: bool = False) -> Answer:
    node_package("openai")
    command = [node(), str(JS / "ask.mjs"), url, api, model, text, *(["--tools"] if tools else [])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return Answer(**found | {"calls": [(name, arguments) for name, arguments in found["calls"]]})


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_tool_call_of_llamacpp(llamacpp: Route, api: str) -> None:
    seen = await llamacpp.ask(lambda url: ask(url, api, "tiny", "The weather in Oslo?", tools=True))
    seen.agrees(f"openai.{api}", TERMINATORS[api], model="tiny")
    assert seen.client.calls == [("get_weather", {"city": "Oslo"})]


@pytest.mark.parametrize("text", ["hello", "think of it", "the weather?"])
@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_answers_of_aimock(aimocked: Route, api: str, text: str) -> None:
    seen = await aimocked.ask(lambda url: ask(url, api, "gpt-4o", text, tools=True))
    seen.agrees(f"openai.{api}", TERMINATORS[api], model="gpt-4o")
    assert len(seen.client.calls) == (2 if "weather" in text else 0)
    assert bool(seen.client.reasoning) == ("think" in text)
