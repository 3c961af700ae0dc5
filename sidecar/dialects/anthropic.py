"""Anthropic's Messages API, streamed and whole, also as Vertex AI, Azure and gateways serve it.

Events: https://docs.claude.com/en/docs/build-with-claude/streaming. Output are the deltas of text, thinking and tool
input, and the start of a tool call (it has the name). No output: text in a block's start, signatures, redacted
thinking, citations, compaction, and the results of tools that the provider ran.
"""

import json
from typing import Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, UnsetType

from sidecar.dialects.base import JsonDialect
from sidecar.dialects.bedrock_frames import METRICS, metrics_of
from sidecar.dialects.errors import is_failure
from sidecar.dialects.openai_usage import count
from sidecar.dialects.plain import Plain
from sidecar.dialects.request import Head, Request
from sidecar.dialects.signals import (
    Annotation,
    Content,
    Finish,
    Identity,
    KeepAlive,
    Role,
    Signal,
    Terminator,
    ToolCall,
    Usage,
)
from sidecar.framing.frame import Frame

BLOCK_EVENTS = frozenset({"content_block_start", "content_block_delta", "content_block_stop"})
STREAM_EVENTS = BLOCK_EVENTS | {"message_start", "message_delta", "message_stop"}
_HEARTBEATS = frozenset({"ping", "keepalive", "keep-alive", "heartbeat"})
_BLOCKS_KEPT = 256
_INPUTS_KEPT = 256 * 1024


class Delta(msgspec.Struct, gc=False):
    """Of a content block, or of the message."""

    type: Any = UNSET
    text: Any = UNSET
    thinking: Any = UNSET
    partial_json: Any = UNSET
    stop_reason: Any = UNSET


class Event(msgspec.Struct, gc=False):
    """An event of a stream, or a whole message."""

    type: Any = UNSET
    index: Any = UNSET
    delta: Delta | UnsetType | None = UNSET
    content_block: Any = UNSET
    message: Any = UNSET
    usage: Any = UNSET
    error: Any = UNSET
    id: Any = UNSET
    model: Any = UNSET
    content: Any = UNSET
    stop_reason: Any = UNSET
    metrics: Any = msgspec.field(default=UNSET, name=METRICS)


_decoder = msgspec.json.Decoder(Event)


class _TextDelta(msgspec.Struct, gc=False):
    type: Literal["text_delta"]
    text: str


class _Text(msgspec.Struct, gc=False):
    type: Literal["content_block_delta"]
    delta: _TextDelta


class _ThinkingDelta(msgspec.Struct, gc=False):
    type: Literal["thinking_delta"]
    thinking: str


class _Thinking(msgspec.Struct, gc=False):
    type: Literal["content_block_delta"]
    delta: _ThinkingDelta


class AnthropicMessages(JsonDialect[Event]):
    """`POST …/messages`, Vertex AI's `:rawPredict` and `:streamRawPredict`."""

    name: ClassVar[str] = "anthropic.messages"
    terminators: ClassVar[frozenset[str]] = frozenset({"message_stop"})
    named_events: ClassVar[bool] = True
    plains: ClassVar[tuple[Plain, ...]] = (
        Plain("text", _Text, lambda _, event: event.delta.text, name="content_block_delta"),
        Plain("reasoning", _Thinking, lambda _, event: event.delta.thinking, name="content_block_delta"),
    )
    shape = Event
    decode = staticmethod(_decoder.decode)

    __slots__ = ("_inputs", "_open", "_room")

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self._open: set[int] = set()
        self._inputs: dict[int, str] = {}  # that stood in a block's start, until a delta says otherwise
        self._room = _INPUTS_KEPT

    def read(self, event: Event, frame: Frame) -> list[Signal]:
        kind = event.type if isinstance(event.type, str) and event.type else frame.event
        if kind == "content_block_delta":
            return self._block_delta(event)
        if kind in _HEARTBEATS:
            return [KeepAlive("json"), Annotation("json_heartbeat_event")]
        if kind == "error" or frame.event == "error" or event.error not in (UNSET, None):
            return self.error_signals(self.loose(frame), named=frame.event == "error")
        if kind == "message":
            return self._message(event)
        if kind in STREAM_EVENTS:
            return self._lifecycle(kind, event)
        return [Annotation("unknown_event_type")] if kind else []

    def read_whole(self, event: Event, frame: Frame) -> list[Signal]:
        if event.type == "error" or event.error not in (UNSET, None):
            return self.error_signals(self.loose(frame))
        return self._message(event)

    def _block_delta(self, event: Event) -> list[Signal]:
        delta = event.delta
        if not isinstance(delta, Delta):
            return []
        kind = delta.type
        if kind == "text_delta" or (kind is UNSET and isinstance(delta.text, str)):
            return _content("text", delta.text)
        if kind == "thinking_delta":
            return _content("reasoning", delta.thinking)
        if kind == "input_json_delta" and isinstance(delta.partial_json, str) and delta.partial_json:
            index = _index(event.index)
            if isinstance(index, int):
                self._inputs.pop(index, None)
            return [ToolCall(index, arguments=delta.partial_json)]
        return []

    def _lifecycle(self, kind: str, event: Event) -> list[Signal]:
        """The events that frame a message and its blocks."""
        if kind == "content_block_start":
            return self._block_start(event)
        if kind == "content_block_stop":
            return self._block_stop(event)
        signals: list[Signal] = []
        if kind == "message_start":
            message = event.message if isinstance(event.message, dict) else {}
            signals.append(Identity(_text(message.get("id")), _text(message.get("model"))))
            if isinstance(role := message.get("role"), str) and role:
                signals.append(Role(role))
            signals += _usage(message.get("usage"), opening=True)
        elif isinstance(event.delta, Delta):
            signals += _finish(event.delta.stop_reason)
        signals += _usage(event.usage)
        if kind == "message_stop":
            if self._open:
                signals.append(Annotation("block_not_closed"))
            signals.append(Terminator("message_stop"))
        return signals + metrics_of(event.metrics)

    def _block_start(self, event: Event) -> list[Signal]:
        index = _index(event.index)
        block = event.content_block if isinstance(event.content_block, dict) else {}
        if isinstance(index, int) and len(self._open) < _BLOCKS_KEPT:
            self._open.add(index)
        kind = block.get("type")
        if _is_call(kind):
            given = block.get("input")
            if given and isinstance(index, int) and self._room:
                kept = (given if isinstance(given, str) else _compact(given))[: self._room]
                self._room -= len(kept)
                self._inputs[index] = kept
            return [ToolCall(index, block.get("id", UNSET), block.get("name", UNSET))]
        if kind == "text" and _text(block.get("text")):
            return [Annotation("block_start_has_text")]
        return []

    def _block_stop(self, event: Event) -> list[Signal]:
        index = _index(event.index)
        if not isinstance(index, int):
            return []
        self._open.discard(index)
        given = self._inputs.pop(index, None)
        return [] if given is None else [ToolCall(index, arguments=given, final=True)]

    def _message(self, event: Event) -> list[Signal]:
        """A message in one piece."""
        signals: list[Signal] = []
        if event.id is not UNSET or event.model is not UNSET:
            signals.append(Identity(_text(event.id), _text(event.model)))
        for block in event.content if isinstance(event.content, list) else ():
            if not isinstance(block, dict):
                continue
            kind = block.get("type")
            if kind == "text":
                signals += _content("text", block.get("text"))
            elif kind == "thinking":
                signals += _content("reasoning", block.get("thinking"))
            elif _is_call(kind):
                given = block.get("input", UNSET)
                signals.append(ToolCall(id=block.get("id", UNSET), name=block.get("name"), arguments=given, whole=True))
        signals += _finish(event.stop_reason)
        return signals + _usage(event.usage) + metrics_of(event.metrics)


def is_messages_path(head: Head) -> bool:
    """Whether a path that ends like one of this API is one: other APIs have messages and raw predictions, too."""
    path = head.path
    if path.endswith("Predict"):
        return "/anthropic/" in path or "claude" in path
    return "/threads/" not in path and (
        path.rstrip("/").endswith("/v1/messages") or "anthropic" in path or "anthropic-version" in head.headers
    )


def signs(event: dict[str, Any], name: str) -> bool:
    """Whether an event can only be of this dialect."""
    kind = event.get("type")
    if kind == "message":
        return event.get("role") == "assistant" and isinstance(event.get("content"), list)
    return kind in STREAM_EVENTS if isinstance(kind, str) else name in STREAM_EVENTS


def _usage(value: Any, *, opening: bool = False) -> list[Signal]:
    """Cumulative counts; cached tokens stand beside the input tokens, not in them. `iterations` are parts of them."""
    if not isinstance(value, dict):
        return []
    details = value.get("output_tokens_details")
    return [
        Usage(
            input=count(value.get("input_tokens")),
            output=count(value.get("output_tokens")),
            cache_read=count(value.get("cache_read_input_tokens")),
            cache_write=count(value.get("cache_creation_input_tokens")),
            reasoning=count(details.get("thinking_tokens")) if isinstance(details, dict) else None,
            opening=opening,
        )
    ]


def _finish(reason: Any) -> list[Signal]:
    return [Finish(reason, failed=is_failure(reason))] if isinstance(reason, str) and reason else []


def _content(kind: Any, text: Any) -> list[Signal]:
    return [Content(kind, text, 0, len(text))] if isinstance(text, str) and text else []


def _is_call(kind: Any) -> bool:
    """tool_use, and what the provider runs itself: server_tool_use, mcp_tool_use."""
    return isinstance(kind, str) and kind.endswith("tool_use")


def _index(value: Any) -> int | UnsetType:
    return value if isinstance(value, int) else UNSET


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
