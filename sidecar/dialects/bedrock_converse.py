"""Bedrock's Converse, streamed in AWS frames and whole; Nova speaks the same events inside InvokeModel.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStreamOutput.html
"""

from typing import Any, ClassVar

import msgspec
from msgspec import UNSET, UnsetType

from sidecar.dialects.bedrock_frames import BedrockDialect
from sidecar.dialects.errors import is_failure
from sidecar.dialects.openai_usage import count
from sidecar.dialects.signals import (
    Annotation,
    Content,
    Finish,
    InBandError,
    Role,
    Signal,
    Terminator,
    ToolCall,
    Usage,
)
from sidecar.framing.frame import Frame

STREAM_EVENTS = frozenset(
    {"messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata"}
)
_PROTOCOL_EVENTS = frozenset({"initial-response"})  # of the AWS event stream itself


class Delta(msgspec.Struct, gc=False, rename="camel"):
    text: Any = UNSET
    tool_use: Any = UNSET
    reasoning_content: Any = UNSET
    image: Any = UNSET


class Payload(msgspec.Struct, gc=False, rename="camel"):
    """The members of an event, or of a whole answer."""

    role: Any = UNSET
    start: Any = UNSET
    delta: Delta | UnsetType | None = UNSET
    content_block_index: Any = UNSET
    stop_reason: Any = UNSET
    usage: Any = UNSET
    output: Any = UNSET


class Event(Payload, gc=False, rename="camel"):
    """An event: its name stands in the framing, or (Nova, gateways) around its members."""

    message_start: Payload | UnsetType = UNSET
    content_block_start: Payload | UnsetType = UNSET
    content_block_delta: Payload | UnsetType = UNSET
    content_block_stop: Payload | UnsetType = UNSET
    message_stop: Payload | UnsetType = UNSET
    metadata: Payload | UnsetType = UNSET

    def inner(self) -> tuple[str, Payload] | None:
        """Name and members of an event that has its name around them."""
        named = (
            ("contentBlockDelta", self.content_block_delta),
            ("contentBlockStart", self.content_block_start),
            ("contentBlockStop", self.content_block_stop),
            ("messageStart", self.message_start),
            ("messageStop", self.message_stop),
            ("metadata", self.metadata),
        )
        return next(((name, payload) for name, payload in named if payload is not UNSET), None)


_decoder = msgspec.json.Decoder(Event)


class BedrockConverse(BedrockDialect[Event]):
    """`POST …/model/{id}/converse-stream` and `…/converse`."""

    name: ClassVar[str] = "bedrock.converse"
    terminators: ClassVar[frozenset[str]] = frozenset({"metadata"})
    shape = Event
    decode = staticmethod(_decoder.decode)

    def read(self, event: Event, frame: Frame) -> list[Signal]:
        if frame.event in STREAM_EVENTS:
            return read_event(frame.event, event)
        inner = event.inner()
        if inner is not None:
            return read_event(*inner)
        found = self._error(frame)
        if not found and frame.event and frame.event not in _PROTOCOL_EVENTS:
            return [Annotation("unknown_event_type")]
        return found

    def read_whole(self, event: Event, frame: Frame) -> list[Signal]:
        signals = read_answer(event)
        return signals or self._error(frame)

    def _error(self, frame: Frame) -> list[Signal]:
        """An error that a gateway put into other framing: by its name in front of, or around its members."""
        loose = self.loose(frame)
        if frame.event.endswith("Exception"):
            found = self.error_signals(loose, named=True)
            return [InBandError(signal.message, frame.event) for signal in found if isinstance(signal, InBandError)]
        for name, value in loose.items() if isinstance(loose, dict) else ():
            if name.endswith("Exception") and isinstance(value, dict):
                message = value.get("message")
                return [InBandError(message if isinstance(message, str) else "", name)]
        return self.error_signals(loose, named=frame.event == "error")


def read_event(name: str, event: Payload) -> list[Signal]:
    """Signals of one event by its name. `metadata` is the last one and has the usage."""
    if name == "contentBlockDelta":
        return _delta(event.delta, event.content_block_index) if isinstance(event.delta, Delta) else []
    if name == "contentBlockStart":
        call = event.start.get("toolUse") if isinstance(event.start, dict) else None
        return [_call(call, event.content_block_index)] if isinstance(call, dict) else []
    if name == "messageStop":
        return _finish(event.stop_reason)
    if name == "metadata":
        return [*usage_of(event.usage), Terminator("metadata")]
    if name == "messageStart" and isinstance(event.role, str) and event.role:
        return [Role(event.role)]
    return []


def read_answer(event: Payload) -> list[Signal]:
    """Signals of a whole answer."""
    signals: list[Signal] = []
    message = event.output.get("message") if isinstance(event.output, dict) else None
    blocks = message.get("content") if isinstance(message, dict) else None
    for block in blocks if isinstance(blocks, list) else ():
        if isinstance(block, dict):
            signals += _block(block)
    return signals + _finish(event.stop_reason) + usage_of(event.usage)


def usage_of(value: Any) -> list[Signal]:
    """Counts of Converse, and in Nova's own spelling of those for the cache."""
    if not isinstance(value, dict):
        return []
    read, written = value.get("cacheReadInputTokens"), value.get("cacheWriteInputTokens")
    return [
        Usage(
            input=count(value.get("inputTokens")),
            output=count(value.get("outputTokens")),
            total=count(value.get("totalTokens")),
            cache_read=count(value.get("cacheReadInputTokenCount") if read is None else read),
            cache_write=count(value.get("cacheWriteInputTokenCount") if written is None else written),
        )
    ]


def signs(event: dict[str, Any], name: str) -> bool:
    """Whether an event can only be of this dialect."""
    telling = STREAM_EVENTS - {"metadata"}
    return name in telling or not telling.isdisjoint(event) or ("stopReason" in event and "output" in event)


def _delta(delta: Delta, index: Any) -> list[Signal]:
    if isinstance(delta.text, str):
        return [Content("text", delta.text, 0, len(delta.text))] if delta.text else []
    if isinstance(delta.tool_use, dict):
        piece = delta.tool_use.get("input")
        return [ToolCall(_index(index), arguments=piece)] if piece else []
    if isinstance(delta.reasoning_content, dict):
        text = delta.reasoning_content.get("text")  # beside it: redactedContent, signature
        return [Content("reasoning", text, 0, len(text))] if isinstance(text, str) and text else []
    return _image(delta.image)


def _block(block: dict[str, Any]) -> list[Signal]:
    """A content block of a whole answer."""
    if isinstance(text := block.get("text"), str):
        return [Content("text", text, 0, len(text))] if text else []
    if isinstance(call := block.get("toolUse"), dict):
        given = call.get("input", UNSET)
        return [ToolCall(id=call.get("toolUseId", UNSET), name=call.get("name"), arguments=given, whole=True)]
    if isinstance(reasoning := block.get("reasoningContent"), dict):
        inner = reasoning.get("reasoningText")
        text = inner.get("text") if isinstance(inner, dict) else None
        return [Content("reasoning", text, 0, len(text))] if isinstance(text, str) and text else []
    if isinstance(cited := block.get("citationsContent"), dict) and isinstance(parts := cited.get("content"), list):
        return [signal for part in parts if isinstance(part, dict) for signal in _block({"text": part.get("text")})]
    return _image(block.get("image"))


def _image(image: Any) -> list[Signal]:
    source = image.get("source") if isinstance(image, dict) else None
    data = source.get("bytes") if isinstance(source, dict) else None
    return [Content("image", "", 0, len(data))] if isinstance(data, str) and data else []


def _call(call: dict[str, Any], index: Any) -> ToolCall:
    return ToolCall(_index(index), call.get("toolUseId", UNSET), call.get("name", UNSET))


def _finish(reason: Any) -> list[Signal]:
    return [Finish(reason, failed=is_failure(reason))] if isinstance(reason, str) and reason else []


def _index(value: Any) -> int | UnsetType:
    return value if isinstance(value, int) else UNSET
