"""Cohere's chat, version 2 (https://docs.cohere.com/v2/docs/streaming): named events, one block after another."""

from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec
from msgspec import UNSET

from sidecar.dialects.envelope import Envelope, EnvelopeDialect, dict_of, list_of, text_of
from sidecar.dialects.openai_usage import count
from sidecar.dialects.signals import Annotation, Content, Finish, Identity, Signal, Terminator, ToolCall, Usage
from sidecar.framing.frame import Frame

_FAILURES = frozenset({"ERROR", "ERROR_TOXIC", "ERROR_LIMIT"})
_KNOWN = frozenset(
    {
        "message-start",
        "content-start",
        "content-delta",
        "content-end",
        "tool-plan-delta",
        "tool-call-start",
        "tool-call-delta",
        "tool-call-end",
        "citation-start",
        "citation-end",
        "message-end",
        "debug",
        "error",
    }
)


class Event(Envelope, gc=False):
    """A stream event, or (from `message` on) a whole body."""

    id: Any = UNSET
    index: Any = UNSET
    delta: Any = UNSET
    message: Any = UNSET
    finish_reason: Any = UNSET
    usage: Any = UNSET


class CohereChat(EnvelopeDialect[Event]):
    """`POST …/v2/chat`."""

    name: ClassVar[str] = "cohere.v2"
    terminators: ClassVar[frozenset[str]] = frozenset({"message-end"})
    named_events: ClassVar[bool] = True
    known: ClassVar[frozenset[str]] = _KNOWN
    shape = Event
    decode = staticmethod(msgspec.json.Decoder(Event).decode)

    def read_event(self, event: Event, kind: str, frame: Frame) -> list[Signal]:
        delta = dict_of(event.delta)
        if kind == "message-end":
            error = self.error_signals({"error": delta["error"]}) if delta.get("error") else []
            return [*error, *_usage(delta.get("usage")), *_finish(delta.get("finish_reason")), Terminator(kind)]
        message = dict_of(delta.get("message"))
        signals: list[Signal] = []
        if message.get("tool_calls") == []:
            signals.append(Annotation("empty_tool_calls_array"))
        if kind == "message-start":
            signals.append(Identity(text_of(event.id) or None))
        elif kind in ("content-delta", "tool-plan-delta"):
            signals += _output(message)
        elif kind in ("tool-call-start", "tool-call-delta"):
            calls = message.get("tool_calls")
            for call in map(dict_of, [calls] if isinstance(calls, dict) else list_of(calls)):
                signals.append(_call(call, f"{event.index}"))
        return signals

    def read_whole(self, event: Event, frame: Frame) -> list[Signal]:
        message = dict_of(event.message)
        signals = [*self.stated_error(event, frame), Identity(text_of(event.id) or None), *_output(message)]
        signals += [_call(dict_of(call), None) for call in list_of(message.get("tool_calls"))]
        return [*signals, *_usage(event.usage), *_finish(event.finish_reason)]


def _output(message: dict[str, Any]) -> Iterator[Signal]:
    """Plan, thinking and text of a message or of its delta. The plan of a tool call is reasoning."""
    content = message.get("content")
    blocks = [content] if isinstance(content, (dict, str)) else list_of(content)
    if plan := text_of(message.get("tool_plan")):
        yield Content("reasoning", plan, 0, len(plan))
    for block in blocks:
        inner = dict_of(block)
        if thinking := text_of(inner.get("thinking")):
            yield Content("reasoning", thinking, 0, len(thinking))
        if text := text_of(inner.get("text") if inner else block):
            yield Content("text", text, 0, len(text))


def _call(call: dict[str, Any], key: str | None) -> ToolCall:
    function = dict_of(call.get("function"))
    return ToolCall(
        id=call.get("id", UNSET),
        name=function.get("name", UNSET),
        arguments=function.get("arguments", UNSET),
        key=key,
        whole=key is None,
    )


def _finish(reason: Any) -> list[Signal]:
    return [Finish(reason, failed=reason in _FAILURES)] if isinstance(reason, str) and reason else []


def _usage(usage: Any) -> list[Signal]:
    """Billed units win over the tokens counted, as OpenTelemetry's conventions have it."""
    stated = dict_of(usage)
    pairs = [
        pair
        for units in (dict_of(stated.get("billed_units")), dict_of(stated.get("tokens")))
        if (pair := (count(units.get("input_tokens")), count(units.get("output_tokens")))) != (None, None)
    ]
    if not pairs:
        return []
    given, produced = pairs[0]
    signals: list[Signal] = [Usage(input=given, output=produced, cache_read=count(stated.get("cached_tokens")))]
    return [*signals, Annotation("usage_dual_counts")] if len(pairs) > 1 else signals


def is_cohere(event: dict[str, Any], name: str) -> bool:
    """An event type that only Cohere spells this way."""
    return text_of(event.get("type")) in _KNOWN - {"error", "debug"}
