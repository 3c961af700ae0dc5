"""The real openai SDK through a real sidecar in front of a real llama.cpp server, against the same call without it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import openai
import pytest
import pytest_asyncio
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

from tests.live.processes import Sidecar, sidecar_run
from tests.live.scrape import Samples, counted, scrape

pytestmark = pytest.mark.asyncio(loop_scope="module")

MODEL = "tiny"
MESSAGES: list[ChatCompletionMessageParam] = [{"role": "user", "content": "say something about the water"}]
SAME: Any = {"model": MODEL, "temperature": 0, "seed": 1}
TOOLS: list[ChatCompletionToolParam] = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
]
STREAM_MILESTONES = {"headers": 1, "first_byte": 1, "first_token": 1, "first_visible_token": 1}


class Through:
    """Clients with and without the sidecar in between."""

    def __init__(self, llama: str, sidecar: Sidecar) -> None:
        options: Any = {"api_key": "secret-key", "max_retries": 0, "timeout": 60}
        self.server = urlsplit(llama)
        self.metrics = sidecar.metrics
        self.direct = openai.AsyncOpenAI(base_url=f"{llama}/v1", **options)
        self.client = openai.AsyncOpenAI(base_url=f"{sidecar.url}/v1", **options)
        self.blocking = openai.OpenAI(base_url=f"{sidecar.url}/v1", **options)

    async def said(self, before: Samples, count: int = 1) -> Samples:
        """What the metrics say of the exchanges since then; all of them are of this model at this server."""
        samples = await counted(self.metrics, count, since=before)
        labels = ("gen_ai_request_model", "server_address", "server_port")
        expected = {(MODEL, self.server.hostname, str(self.server.port)): count}
        assert samples.by("llm_streams_total", *labels) == expected
        return samples


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def through(llama: str) -> AsyncIterator[Through]:
    async with sidecar_run("--upstream", llama) as sidecar:
        through = Through(llama, sidecar)
        yield through
        await through.direct.close()
        await through.client.close()
        through.blocking.close()


def streams(samples: Samples) -> dict[Any, float]:
    return samples.by("llm_streams_total", "dialect", "outcome", "streaming")


def tokens(samples: Samples) -> dict[Any, float]:
    found = samples.by("llm_stream_tokens_total", "type", "source")
    return {kind: count for kind, count in found.items() if kind[0] in ("input", "output")}


async def test_chat_streamed_with_usage(through: Through) -> None:
    async def ask(client: openai.AsyncOpenAI) -> tuple[list[str], openai.types.CompletionUsage]:
        stream = await client.chat.completions.create(
            messages=MESSAGES, max_tokens=60, stream=True, stream_options={"include_usage": True}, **SAME
        )
        chunks = [chunk async for chunk in stream]
        assert chunks[-1].usage is not None
        return [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices], chunks[-1].usage

    direct, _ = await ask(through.direct)
    before = await scrape(through.metrics)
    texts, usage = await ask(through.client)
    assert texts == direct
    assert "".join(texts)
    said = await through.said(before)
    assert streams(said) == {("openai.chat", "complete", "true"): 1}
    expected = {("input", "reported"): usage.prompt_tokens, ("output", "reported"): usage.completion_tokens}
    assert tokens(said) == expected
    assert said.by("gen_ai_client_token_usage_sum", "gen_ai_token_type") == {
        "input": usage.prompt_tokens,
        "output": usage.completion_tokens,
    }
    assert said.by("llm_stream_usage_total", "state") == {"reported": 1}
    assert said.by("llm_stream_finish_reasons_total", "reason") == {"length": 1}
    assert said.by("llm_stream_milestone_seconds_count", "milestone") == STREAM_MILESTONES
    assert said.by("gen_ai_client_operation_duration_seconds_count", "error_type") == {"": 1}
    outputs = len([text for text in texts if text])
    assert said.total("gen_ai_client_operation_time_per_output_chunk_seconds_count") == outputs - 1
    assert said.total("llm_stream_tool_calls_total") == 0
    assert said.total("llm_stream_errors_total") == 0


async def test_chat_streamed_by_the_blocking_client(through: Through) -> None:
    def ask() -> tuple[str, str | None]:
        stream = through.blocking.chat.completions.create(messages=MESSAGES, max_tokens=40, stream=True, **SAME)
        choices = [chunk.choices[0] for chunk in stream if chunk.choices]
        return "".join(choice.delta.content or "" for choice in choices), choices[-1].finish_reason

    direct = await through.direct.chat.completions.create(messages=MESSAGES, max_tokens=40, **SAME)
    before = await scrape(through.metrics)
    text, reason = await asyncio.to_thread(ask)
    assert (text, reason) == (direct.choices[0].message.content, "length")
    said = await through.said(before)
    assert streams(said) == {("openai.chat", "complete", "true"): 1}
    assert said.by("llm_stream_milestone_seconds_count", "milestone") == STREAM_MILESTONES
    # The server's own timings stand in for the usage that was not asked for.
    assert tokens(said)["output", "reported"] == 40


async def test_chat_not_streamed(through: Through) -> None:
    direct = await through.direct.chat.completions.create(messages=MESSAGES, max_tokens=30, **SAME)
    before = await scrape(through.metrics)
    answer = await through.client.chat.completions.create(messages=MESSAGES, max_tokens=30, **SAME)
    assert answer.choices[0].message.content == direct.choices[0].message.content
    assert answer.usage is not None
    said = await through.said(before)
    assert streams(said) == {("openai.chat", "complete", "false"): 1}
    expected = {
        ("input", "reported"): answer.usage.prompt_tokens,
        ("output", "reported"): answer.usage.completion_tokens,
    }
    assert tokens(said) == expected
    assert said.by("llm_stream_milestone_seconds_count", "milestone") == {"headers": 1, "first_byte": 1}
    assert said.by("llm_stream_no_first_token_total", "reason") == {"not_streamed": 1}
    assert said.by("llm_stream_finish_reasons_total", "reason") == {"length": 1}
    assert said.total("llm_stream_buffering_total") == 0, "nothing to judge in an answer that was no stream"


@pytest.mark.parametrize("streamed", [True, False])
async def test_tool_call(through: Through, streamed: bool) -> None:
    before = await scrape(through.metrics)
    if streamed:
        async with through.client.chat.completions.stream(messages=MESSAGES, tools=TOOLS, **SAME) as stream:
            answer: Any = await stream.get_final_completion()
    else:
        answer = await through.client.chat.completions.create(messages=MESSAGES, tools=TOOLS, **SAME)
    (call,) = answer.choices[0].message.tool_calls
    assert (call.function.name, call.function.arguments) == ("get_weather", '{"city": "Oslo"}')
    said = await through.said(before)
    assert streams(said) == {("openai.chat", "complete", str(streamed).lower()): 1}
    assert said.by("llm_stream_tool_calls_total", "state") == {"valid": 1}
    assert said.by("llm_stream_finish_reasons_total", "reason") == {"tool_calls": 1}
    milestones = said.by("llm_stream_milestone_seconds_count", "milestone")
    expected = {"headers": 1, "first_byte": 1, **({"first_token": 1} if streamed else {})}
    assert milestones == expected, "a tool call is output, but none that a reader of the answer sees"


@pytest.mark.parametrize("streamed", [True, False])
async def test_completions(through: Through, streamed: bool) -> None:
    async def ask(client: openai.AsyncOpenAI) -> str:
        answer: Any = await client.completions.create(prompt="the water", max_tokens=20, stream=streamed, **SAME)
        parts = [part async for part in answer] if streamed else [answer]
        return "".join(part.choices[0].text for part in parts if part.choices)

    direct = await ask(through.direct)
    before = await scrape(through.metrics)
    assert await ask(through.client) == direct
    said = await through.said(before)
    assert streams(said) == {("openai.completions", "complete", str(streamed).lower()): 1}
    assert said.by("llm_stream_finish_reasons_total", "reason") == {"length": 1}
    assert tokens(said)["output", "reported"] == 20


async def test_responses_streamed(through: Through) -> None:
    async def ask(client: openai.AsyncOpenAI) -> tuple[str, Any]:
        text, usage = "", None
        stream = await client.responses.create(
            model=MODEL, input="the water", temperature=0, max_output_tokens=20, stream=True
        )
        async for event in stream:
            text += event.delta if event.type == "response.output_text.delta" else ""
            usage = event.response.usage if event.type == "response.completed" else usage
        return text, usage

    direct, _ = await ask(through.direct)
    before = await scrape(through.metrics)
    text, usage = await ask(through.client)
    assert text == direct
    said = await through.said(before)
    assert streams(said) == {("openai.responses", "complete", "true"): 1}
    expected = {("input", "reported"): usage.input_tokens, ("output", "reported"): usage.output_tokens}
    assert tokens(said) == expected
    assert said.by("llm_stream_milestone_seconds_count", "milestone") == STREAM_MILESTONES


async def test_refused_request(through: Through) -> None:
    bad: Any = {"role": "user", "content": 17}
    with pytest.raises(openai.APIStatusError) as direct:
        await through.direct.chat.completions.create(messages=[bad], **SAME)
    before = await scrape(through.metrics)
    with pytest.raises(openai.APIStatusError) as error:
        await through.client.chat.completions.create(messages=[bad], **SAME)
    assert (error.value.status_code, error.value.body) == (direct.value.status_code, direct.value.body)
    said = await through.said(before)
    assert streams(said) == {("openai.chat", "http_error", "false"): 1}
    assert isinstance(error.value.body, dict)
    assert said.by("llm_stream_errors_total", "error_type") == {error.value.body["type"]: 1}
    assert said.total("llm_stream_tokens_total") == 0


async def test_client_that_leaves_in_the_middle(through: Through) -> None:
    before = await scrape(through.metrics)
    stream = await through.client.chat.completions.create(messages=MESSAGES, max_tokens=1500, stream=True, **SAME)
    async for chunk in stream:
        if chunk.choices and chunk.choices[0].delta.content:
            break
    await stream.close()
    said = await through.said(before)
    assert streams(said) == {("openai.chat", "client_disconnect", "true"): 1}
    assert said.by("llm_stream_milestone_seconds_count", "milestone") == STREAM_MILESTONES
    assert said.total("llm_stream_finish_reasons_total") == 0
    assert said.total("llm_stream_errors_total") == 0, "that the client left is nobody's error"


async def test_nothing_private_is_published(through: Through) -> None:
    secret = "swordfish"  # in the prompt; the key is in every request
    before = await scrape(through.metrics)
    await through.client.chat.completions.create(messages=[{"role": "user", "content": secret}], max_tokens=4, **SAME)
    await through.said(before)
    base = through.metrics.removesuffix("/metrics")
    for path in ("/metrics", "/api/streams", "/"):
        page = await through.client._client.get(f"{base}{path}")
        assert page.status_code == 200
        assert secret not in page.text
        assert "secret-key" not in page.text
