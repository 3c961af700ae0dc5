"""OpenAI's Responses API, streamed and whole.

Event types: https://platform.openai.com/docs/api-reference/responses-streaming. Every event names itself in `type` and
in the SSE event name; the terminal event repeats the whole response.
"""

from typing import Any, ClassVar

import msgspec
from msgspec import UNSET

from sidecar.dialects.envelope import Envelope, EnvelopeDialect, dict_of, heartbeat, list_of, text_of
from sidecar.dialects.openai_responses_items import Repeats, ToolItems, finish_of, parts_of, texts_of
from sidecar.dialects.openai_usage import parse_usage, timings_of
from sidecar.dialects.plain import Never, Plain, PlainKind
from sidecar.dialects.request import Request
from sidecar.dialects.signals import (
    Annotation,
    Content,
    Finish,
    Identity,
    InBandError,
    Kind,
    Signal,
    Terminator,
    ToolCall,
)
from sidecar.framing.frame import Frame


class Event(Envelope, gc=False):
    """A stream event; a whole response is read as plain values."""

    response: Any = UNSET
    item: Any = UNSET
    part: Any = UNSET
    delta: Any = UNSET
    text: Any = UNSET
    refusal: Any = UNSET
    arguments: Any = UNSET
    input: Any = UNSET
    name: Any = UNSET
    item_id: Any = UNSET
    output_index: Any = UNSET
    partial_image_b64: Any = UNSET
    timings: Any = UNSET


_DELTAS: dict[str, Kind] = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "refusal",
    "response.reasoning_text.delta": "reasoning",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning.delta": "reasoning",
    "response.reasoning_summary.delta": "reasoning",
    "response.audio.delta": "audio",
    "response.audio.transcript.delta": "transcript",
    # Code written for a tool that the provider runs.
    "response.code_interpreter_call_code.delta": "tool_arguments",
    "response.shell_call_command.delta": "tool_arguments",
    "response.apply_patch_call_operation_diff.delta": "tool_arguments",
}
_TEXTS_DONE: dict[str, Kind] = {
    "response.output_text.done": "text",
    "response.refusal.done": "refusal",
    "response.reasoning_text.done": "reasoning",
    "response.reasoning_summary_text.done": "reasoning",
}
_PARTS_DONE = ("response.content_part.done", "response.reasoning_summary_part.done")
_ARGUMENTS = ("response.function_call_arguments.", "response.mcp_call_arguments.", "response.custom_tool_call_input.")
_STATES = ("response.created", "response.queued", "response.in_progress")
_TERMINAL = frozenset({"response.completed", "response.incomplete", "response.failed", "response.done"})
_PROGRESS = frozenset(
    f"response.{tool}.{state}"
    for tool, states in (
        ("web_search_call", ("in_progress", "searching", "completed")),
        ("file_search_call", ("in_progress", "searching", "completed")),
        ("code_interpreter_call", ("in_progress", "interpreting", "completed")),
        ("image_generation_call", ("in_progress", "generating", "partial_image", "completed")),
        ("mcp_call", ("in_progress", "completed", "failed")),
        ("mcp_list_tools", ("in_progress", "completed", "failed")),
        ("compaction", ("compacting",)),
        ("shell_call_output_content", ("delta", "done")),
        ("steer", ("accepted", "pending", "failed")),
    )
    for state in states
)
_KNOWN = (
    frozenset(_DELTAS)
    | frozenset(delta.removesuffix("delta") + "done" for delta in _DELTAS)
    | frozenset(_STATES)
    | frozenset(_PARTS_DONE)
    | frozenset(part.removesuffix("done") + "added" for part in _PARTS_DONE)
    | frozenset(prefix + suffix for prefix in _ARGUMENTS for suffix in ("delta", "done"))
    | _TERMINAL
    | _PROGRESS
    | {
        "response.output_item.added",
        "response.output_item.done",
        "response.output_text.annotation.added",
        "response.output_text_annotation.added",
        "response.shell_call_command.added",
        "error",
    }
)
_decoder = msgspec.json.Decoder(Event)


class _Delta(msgspec.Struct, gc=False):
    type: str
    delta: str
    error: Never = UNSET
    object: Never = UNSET
    success: Never = UNSET


def _plain(kind: PlainKind, name: str) -> Plain:
    def text_of(dialect: "OpenAIResponses", event: _Delta) -> str | None:
        return event.delta if event.type == name and kind in dialect.repeats.kinds else None

    return Plain(kind, _Delta, text_of, name=name)


class OpenAIResponses(EnvelopeDialect[Event]):
    """`POST …/responses`, and `GET …/responses/{id}?stream=true`, which begins in the middle."""

    name: ClassVar[str] = "openai.responses"
    terminators: ClassVar[frozenset[str]] = _TERMINAL
    named_events: ClassVar[bool] = True
    plains: ClassVar[tuple[Plain, ...]] = (
        _plain("text", "response.output_text.delta"),
        _plain("reasoning", "response.reasoning_summary_text.delta"),
        _plain("reasoning", "response.reasoning_text.delta"),
    )
    known: ClassVar[frozenset[str]] = _KNOWN
    shape = Event
    decode = staticmethod(_decoder.decode)

    __slots__ = ("_tools", "repeats")

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self._tools = ToolItems()
        self.repeats = Repeats()

    def conclude(self) -> list[Signal]:
        return [Annotation("text_only_in_done_events")] if self.repeats.only_late("text") else []

    def read(self, event: Event, frame: Frame) -> list[Signal]:
        if event.type == "response.output_text.delta" and event.error is UNSET and frame.event in ("", event.type):
            return self._delta("text", event)  # nearly every event of a stream
        return super().read(event, frame)

    def read_event(self, event: Event, kind: str, frame: Frame) -> list[Signal]:
        if kind in _DELTAS:
            return self._delta(_DELTAS[kind], event)
        if kind.startswith(_ARGUMENTS):
            return self._arguments(event, kind)
        if kind == "response.output_item.added":
            return list(self._tools.added(dict_of(event.item), event.output_index))
        if kind == "response.image_generation_call.partial_image":
            return [Content("image", "", 0, len(text_of(event.partial_image_b64)))]
        if kind in _STATES:
            return self._state(event, kind)
        if kind in _TERMINAL:
            return self._terminal(event, kind)
        return self._done(event, kind)

    def _delta(self, kind: Kind, event: Event) -> list[Signal]:
        delta = event.delta
        text = text_of(delta.get("text") if isinstance(delta, dict) else delta)
        if not text:
            return []
        self.repeats.streamed(kind)
        return [Content(kind, "" if kind == "audio" else text, 0, len(text))]

    def _arguments(self, event: Event, kind: str) -> list[Signal]:
        key = self._tools.key(event.item_id, event.output_index)
        free_text = kind.startswith("response.custom")
        if kind.endswith(".delta"):
            return [ToolCall(arguments=event.delta, key=key, free_text=free_text)]
        whole = event.input if free_text else event.arguments
        return [ToolCall(name=event.name, arguments=whole, key=key, free_text=free_text, final=True)]

    def _done(self, event: Event, kind: str) -> list[Signal]:
        """The *.done events: they repeat what deltas brought, and count only where no delta did."""
        if kind in _TEXTS_DONE:
            of = _TEXTS_DONE[kind]
            return self._late([(of, text_of(event.refusal if of == "refusal" else event.text))], kind)
        if kind in _PARTS_DONE:
            return self._late(parts_of([event.part]), kind)
        if kind == "response.output_item.done":
            item = dict_of(event.item)
            return [*self._late(texts_of(item), kind), *self._tools.done(item, event.output_index)]
        return []

    def _late(self, texts: list[tuple[Kind, str]], source: str) -> list[Signal]:
        return [
            Content(kind, text, 0, len(text), late=True)
            for kind, text in texts
            if text and self.repeats.is_news(kind, source)
        ]

    def _state(self, event: Event, kind: str) -> list[Signal]:
        if not isinstance(event.response, dict):
            return heartbeat() if kind == "response.in_progress" else []
        return [*identity(event.response), *usage_in(event.response)]

    def _terminal(self, event: Event, kind: str) -> list[Signal]:
        response = dict_of(event.response)
        signals = identity(response)
        items = [dict_of(item) for item in list_of(response.get("output"))]
        for item in items:
            signals += self._late(texts_of(item), kind)
        signals += self._tools.in_terminal(items)
        if response.get("error"):
            signals += self.error_signals({"error": response["error"]})
        elif kind == "response.failed":
            signals.append(InBandError(kind))
        usage = usage_in(response)
        if not usage and kind != "response.failed" and response.get("status") != "failed":
            usage = [Annotation("usage_absent_in_terminal")]
        signals += usage
        if isinstance(event.timings, dict):
            signals += timings_of(event.timings)
        signals.append(Finish(finish_of(response) or kind.removeprefix("response.").replace("done", "completed")))
        if kind == "response.done":
            signals.append(Annotation("terminator_alias"))
        return [*signals, Terminator(kind)]

    def read_whole(self, event: Event, frame: Frame) -> list[Signal]:
        response = dict_of(self.loose(frame))
        items = [dict_of(item) for item in list_of(response.get("output"))]
        signals = [*self.stated_error(event, frame), *identity(response)]
        for item in items:
            signals += [Content(kind, text, 0, len(text)) for kind, text in texts_of(item)]
        signals += self._tools.in_whole(items)
        signals += usage_in(response)
        reason = finish_of(response)
        return [*signals, Finish(reason)] if reason else signals


def identity(response: dict[str, Any]) -> list[Signal]:
    """The names that a response gives itself."""
    return [
        Identity(
            text_of(response.get("id")) or None,
            text_of(response.get("model")) or None,
            text_of(response.get("service_tier")) or None,
        )
    ]


def usage_in(response: dict[str, Any]) -> list[Signal]:
    """The usage of a response; one without any count states nothing."""
    usage = response.get("usage")
    if not isinstance(usage, dict):
        return []
    parsed = parse_usage(usage)
    stated = (parsed.input, parsed.output, parsed.total, parsed.cache_read, parsed.cache_write, parsed.reasoning)
    return [] if stated == (None,) * 6 else [parsed]


def is_responses(event: dict[str, Any], name: str) -> bool:
    """An event type of the Responses API, or the response object itself."""
    return text_of(event.get("type") or name).startswith("response.") or event.get("object") == "response"
