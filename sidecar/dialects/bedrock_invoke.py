"""Bedrock's InvokeModel: the model's own body, in the stream as base64 in JSON in AWS frames.

https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters.html has the bodies by model family; what a
body looks like tells its family. Common to all is only the metrics object that Bedrock adds to the last event.
"""

from typing import Any, ClassVar

import msgspec
from msgspec import UNSET, UnsetType

from sidecar.dialects import anthropic, bedrock_converse
from sidecar.dialects.anthropic import AnthropicMessages
from sidecar.dialects.bedrock_bodies import PlainBodies
from sidecar.dialects.bedrock_frames import METRICS, BedrockDialect, metrics_of
from sidecar.dialects.openai_chat import Chunk, OpenAIChat
from sidecar.dialects.request import Request
from sidecar.dialects.signals import Annotation, Malformed, Signal, Terminator
from sidecar.framing.frame import Frame


class Part(msgspec.Struct, gc=False):
    """The payload of a `chunk` frame; msgspec undoes the base64."""

    body: bytes | UnsetType = msgspec.field(default=UNSET, name="bytes")


_decoder = msgspec.json.Decoder(Part)
_decode_body = msgspec.json.Decoder().decode
_CLAUDE_EVENTS = anthropic.STREAM_EVENTS | {"ping", "error", "message"}


class BedrockInvoke(BedrockDialect[Part]):
    """`POST …/model/{id}/invoke-with-response-stream` and `…/invoke`."""

    name: ClassVar[str] = "bedrock.invoke"
    shape = Part
    decode = staticmethod(_decoder.decode)

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self._claude = AnthropicMessages(request)
        self._chat = OpenAIChat(request)
        self._plain = PlainBodies()

    def read(self, event: Part, frame: Frame) -> list[Signal]:
        if frame.event not in ("chunk", "") and event.body is UNSET:
            return [Annotation("unknown_event_type")]
        # Gateways leave the wrapping out.
        return self._body(frame.data or b"" if event.body is UNSET else event.body, frame, whole=False)

    def unexpected(self, event: Any, frame: Frame) -> list[Signal]:
        return super().unexpected(event, frame) or [Malformed("malformed_json_event")]

    def interpret_whole(self, frame: Frame) -> list[Signal]:
        return self._body(frame.data or b"", frame, whole=True)

    def _body(self, data: bytes, frame: Frame, *, whole: bool) -> list[Signal]:
        """One event's body, or the whole answer."""
        try:
            body = _decode_body(data)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            body = self.loose(Frame(data, frame.at))
        if not isinstance(body, dict):
            return [Malformed("malformed_json_event")] if body is None else []
        try:
            return self._read_body(body, Frame(data, frame.at), whole=whole)
        except (msgspec.ValidationError, UnicodeError):
            return self.error_signals(body)

    def _read_body(self, body: dict[str, Any], frame: Frame, *, whole: bool) -> list[Signal]:
        kind = body.get("type")
        if isinstance(kind, str) and kind in _CLAUDE_EVENTS:
            if kind in anthropic.STREAM_EVENTS:
                self.terminators = AnthropicMessages.terminators  # type: ignore[misc]  # known only by the body
            event = msgspec.convert(body, anthropic.Event)
            return self._claude.read_whole(event, frame) if whole else self._claude.read(event, frame)
        if "output" in body or not bedrock_converse.STREAM_EVENTS.isdisjoint(body):
            signals = self._nova(body)
        elif isinstance(body.get("choices"), list):
            signals = self._choices(body, frame, whole=whole)
        else:
            signals = self._plain.read(body)
        if not signals:
            signals = self.error_signals(body)
        return signals + metrics_of(body.get(METRICS))

    def _nova(self, body: dict[str, Any]) -> list[Signal]:
        event = msgspec.convert(body, bedrock_converse.Event)
        inner = event.inner()
        if inner is None:
            return bedrock_converse.read_answer(event)
        return [signal for signal in bedrock_converse.read_event(*inner) if not isinstance(signal, Terminator)]

    def _choices(self, body: dict[str, Any], frame: Frame, *, whole: bool) -> list[Signal]:
        """Chat's envelope (gpt-oss, Qwen, Jamba) and what comes close to it: Mistral has pieces of a `message` and a
        `stop_reason` in its choices, DeepSeek a `text`."""
        choices = [choice for choice in body["choices"] if isinstance(choice, dict)]
        if any("text" in choice for choice in choices):
            return self._plain.texts_of(choices)
        for choice in choices:
            if not whole and "message" in choice and "delta" not in choice:
                choice["delta"] = choice.pop("message")
            choice.setdefault("finish_reason", choice.get("stop_reason"))
        chunk = msgspec.convert(body, Chunk)
        return self._chat.read_whole(chunk, frame) if whole else self._chat.read(chunk, frame)


def signs(event: dict[str, Any], name: str) -> bool:
    """Whether an event can only be of this dialect."""
    return name == "chunk" and ("bytes" in event or anthropic.signs(event, ""))
