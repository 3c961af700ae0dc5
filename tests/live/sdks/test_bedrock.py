"""boto3's bedrock-runtime on captures of its event streams: their frames are those of the vendor, which mocks get wrong."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.live.exchanges import CASE
from tests.live.sdks.answers import Answer
from tests.live.sdks.conftest import Route
from tests.parts import require_module

boto3 = require_module("boto3", "pip install --group test")
config = require_module("botocore.config", "pip install --group test")
exceptions = require_module("botocore.exceptions", "pip install --group test")
pytestmark = pytest.mark.asyncio(loop_scope="session")

COUNTS = {
    "input": "inputTokens",
    "output": "outputTokens",
    "total": "totalTokens",
    "cache_read": "cacheReadInputTokens",
    "cache_write": "cacheWriteInputTokens",
}


def client(url: str, case: str) -> Any:
    """Sends the header that selects the capture."""
    runtime = boto3.client(
        "bedrock-runtime",
        endpoint_url=url,
        region_name="eu-north-1",
        aws_access_key_id="none",
        aws_secret_access_key="none",
        config=config.Config(retries={"total_max_attempts": 1}, read_timeout=20),
    )
    runtime.meta.events.register("before-send", lambda request, **_: request.headers.update({CASE: case}))
    return runtime


def converse(url: str, model: str, case: str) -> Answer:
    asked = [{"role": "user", "content": [{"text": "hi"}]}]
    return read_converse(client(url, case).converse_stream(modelId=model, messages=asked)["stream"])


def read_converse(events: Iterator[dict[str, Any]]) -> Answer:
    answer = Answer()
    calls: dict[int, list[str]] = {}
    for event in events:
        ((kind, body),) = event.items()
        if kind == "contentBlockStart" and "toolUse" in body["start"]:
            calls[body["contentBlockIndex"]] = [body["start"]["toolUse"]["name"], ""]
        elif kind == "contentBlockDelta":
            delta = body["delta"]
            answer.text += delta.get("text", "")
            answer.reasoning += delta.get("reasoningContent", {}).get("text", "")
            if "toolUse" in delta:
                calls[body["contentBlockIndex"]][1] += delta["toolUse"]["input"]
        elif kind == "messageStop":
            answer.finish = body["stopReason"]
        elif kind == "metadata":
            usage = body.get("usage", {})
            answer.usage |= {name: usage[key] for name, key in COUNTS.items() if key in usage}
    answer.calls = [(name, json.loads(arguments)) for name, arguments in calls.values()]
    return answer


def invoke(url: str, model: str, case: str) -> Answer:
    """The chunks are the SDK's, what is in them the model's affair."""
    response = client(url, case).invoke_model_with_response_stream(modelId=model, body=json.dumps({"prompt": "hi"}))
    chunks = [json.loads(event["chunk"]["bytes"]) for event in response["body"]]
    if "messageStart" in chunks[0]:
        return read_converse(iter(native_nova(chunks)))
    answer = Answer()
    for chunk in chunks:
        output = (chunk.get("outputs") or [{}])[0]
        delta = chunk.get("delta") or {}
        answer.text += delta.get("text", "") or chunk.get("generation") or output.get("text", "")
        answer.finish = (
            delta.get("stop_reason") or chunk.get("stop_reason") or output.get("stop_reason") or answer.finish
        )
        metrics = chunk.get("amazon-bedrock-invocationMetrics")
        if metrics is not None:
            answer.usage = {"input": metrics["inputTokenCount"], "output": metrics["outputTokenCount"]}
    return answer


def native_nova(chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Nova's own events, which are nearly those of Converse."""
    return [{kind: body} for chunk in chunks for kind, body in chunk.items() if not kind.startswith("amazon-")]


CONVERSED = [
    "b02-converse-frames-split-and-merged",
    "b07-converse-tool-use",
    "n2-bc-all-frames-in-one-read",
    "n2-bc-citation-deltas",
    "n2-bc-frames-cut-at-random",
    "n2-bc-frames-cut-every-7-bytes",
    "n2-bc-guardrail-intervened",
    "n2-bc-reasoning-then-text",
    "n2-bc-second-metadata-metrics-only",
    "n2-bc-two-tools-after-text",
    "n2-long-bedrock-converse-tcp-segments",
]
INVOKED = {
    "b10-invoke-claude-metrics": "anthropic.demo-v1",
    "b11-invoke-llama-shape": "meta.llama-demo",
    "n2-bi-llama-length": "meta.llama-demo",
    "n2-bi-mistral-outputs": "mistral.mistral-7b-demo",
    "n2-bi-nova-text": "amazon.nova-demo",
    "n2-bi-nova-tool": "amazon.nova-demo",
}


@pytest.mark.parametrize("case", CONVERSED)
async def test_converse_stream(played: Route, case: str) -> None:
    seen = await played.ask(lambda url: converse(url, "anthropic.demo-v1", case))
    seen.agrees("bedrock.converse", "metadata", model="anthropic.demo-v1")
    assert seen.client.usage


@pytest.mark.parametrize("case", INVOKED)
async def test_invoke_model_with_response_stream(played: Route, case: str) -> None:
    model = INVOKED[case]
    seen = await played.ask(lambda url: invoke(url, model, case))
    seen.agrees("bedrock.invoke", "message_stop" if "claude" in case else None, model=model)
    assert seen.client.usage


FAILING = [
    "b03-converse-exception-frame",
    "b04-unmodeled-error-frame",
    "n2-bc-exception-after-message-stop",
    "n2-bc-model-stream-error-exception",
    "n2-bc-validation-exception-first",
]


@pytest.mark.parametrize("case", FAILING)
async def test_errors_in_the_stream(played: Route, case: str) -> None:
    """What the SDK raises is what the sidecar counts."""

    def fail(url: str) -> Answer:
        with pytest.raises(exceptions.EventStreamError) as raised:
            converse(url, "anthropic.demo-v1", case)
        return Answer(finish=raised.value.response["Error"]["Code"])

    seen = await played.ask(fail)
    assert (seen.summary.dialect, seen.summary.outcome) == ("bedrock.converse", "error_event")
    assert seen.client.finish is not None
    assert (seen.summary.error_type or "").lower() == seen.client.finish.lower()
