"""The bodies of InvokeModel that are no dialect of their own: flat pieces of text, by model family.

https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters.html
"""

from typing import Any

from msgspec import UNSET

from sidecar.dialects.errors import is_failure
from sidecar.dialects.openai_usage import count
from sidecar.dialects.signals import Content, Finish, Signal, ToolCall, Usage, WholeText

_TEXTS = ("generation", "outputText", "completion")
_LISTS = ("outputs", "results", "generations", "completions")
_REASONS = ("stop_reason", "finish_reason", "completionReason")


class PlainBodies:
    """One stream of such bodies, or one whole answer."""

    def __init__(self) -> None:
        self._calls_seen = False

    def read(self, body: dict[str, Any]) -> list[Signal]:
        """Signals of one body: Llama's `generation`, Titan's `outputText`, the `completion` of Claude's text API,
        Mistral's `outputs`, and both of Cohere's APIs."""
        if isinstance(body.get("event_type"), str):
            return self._cohere(body["event_type"], body)
        signals: list[Signal] = []
        for name in _TEXTS:
            signals += _text(body.get(name))
        if "is_finished" in body or "generation_id" in body:  # Cohere, Command and Command R
            signals += _text(body.get("text"))
            signals += _cohere_calls(body.get("tool_calls"))
        for name in _LISTS:
            signals += self.texts_of(body.get(name))
        return signals + _finish(body) + _usage(body)

    def texts_of(self, items: Any) -> list[Signal]:
        """Texts and reasons of a list of alternatives, in the spelling of any family."""
        signals: list[Signal] = []
        for number, item in enumerate(items if isinstance(items, list) else ()):
            if not isinstance(item, dict):
                continue
            index = item["index"] if isinstance(item.get("index"), int) else number
            text = item.get("text", item.get("outputText"))
            if isinstance(data := item.get("data"), dict):  # AI21's Jurassic
                text = data.get("text")
                reason = item.get("finishReason")
                item = {"finish_reason": reason.get("reason") if isinstance(reason, dict) else reason}
            if text is not None:
                signals += _text(text, index) + _finish(item, index)
        return signals

    def _cohere(self, kind: str, body: dict[str, Any]) -> list[Signal]:
        """An event of Cohere's chat API, version 1."""
        if kind == "text-generation":
            return _text(body.get("text"))
        if kind == "tool-calls-chunk":
            self._calls_seen = True
            delta = body.get("tool_call_delta")
            return [_cohere_call(delta, delta.get("index"))] if isinstance(delta, dict) else _text(body.get("text"))
        if kind == "tool-calls-generation":
            return [] if self._calls_seen else _cohere_calls(body.get("tool_calls"))
        if kind != "stream-end":
            return []
        signals: list[Signal] = []
        response = body.get("response")
        if isinstance(response, dict) and isinstance(response.get("text"), str):
            signals.append(WholeText(response["text"]))
        return signals + _finish(body)


def _cohere_calls(calls: Any) -> list[Signal]:
    items = calls if isinstance(calls, list) else ()
    return [_cohere_call(call, number) for number, call in enumerate(items) if isinstance(call, dict)]


def _cohere_call(call: dict[str, Any], index: Any) -> Signal:
    return ToolCall(name=call.get("name", UNSET), arguments=call.get("parameters", UNSET), key=str(index))


def _text(value: Any, index: int = 0) -> list[Signal]:
    return [Content("text", value, index, len(value))] if isinstance(value, str) and value else []


def _finish(body: dict[str, Any], index: int = 0) -> list[Signal]:
    for name in _REASONS:
        reason = body.get(name)
        if isinstance(reason, str) and reason:
            return [Finish(reason, index, failed=is_failure(reason))]
    return []


def _usage(body: dict[str, Any]) -> list[Signal]:
    """Llama's counts and Titan's, which stand beside the text."""
    usage = Usage(
        input=_first(body, "prompt_token_count", "inputTextTokenCount"),
        output=_first(body, "generation_token_count", "totalOutputTextTokenCount"),
    )
    results = body.get("results")
    if usage.output is None and isinstance(results, list) and results and isinstance(results[0], dict):
        usage.output = count(results[0].get("tokenCount"))
    return [usage] if usage.input is not None or usage.output is not None else []


def _first(body: dict[str, Any], *names: str) -> int | None:
    return next((found for name in names if (found := count(body.get(name))) is not None), None)
