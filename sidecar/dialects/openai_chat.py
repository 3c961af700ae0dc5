"""OpenAI's chat completions, streamed and whole, and the many endpoints that call themselves compatible with it."""

import json
from typing import Any, ClassVar

import msgspec
from msgspec import UNSET, UnsetType

from sidecar.dialects import openai_plain
from sidecar.dialects.base import JsonDialect
from sidecar.dialects.envelope import HEARTBEATS
from sidecar.dialects.errors import is_failure
from sidecar.dialects.openai_habits import ChatHabits, details_of
from sidecar.dialects.openai_usage import usage_of
from sidecar.dialects.plain import Plain
from sidecar.dialects.request import Request
from sidecar.dialects.signals import (
    Annotation,
    Content,
    Finish,
    Identity,
    InBandError,
    KeepAlive,
    Role,
    Signal,
    ToolCall,
    WholeText,
)
from sidecar.framing.frame import Frame

# Members whose type varies between endpoints are Any: a number where a string belongs is a habit, not a failure.


class Function(msgspec.Struct, gc=False):
    name: Any = UNSET
    arguments: Any = UNSET


class ToolDelta(msgspec.Struct, gc=False):
    index: Any = UNSET
    id: Any = UNSET
    function: Function | UnsetType | None = UNSET
    custom: Any = UNSET


class Delta(msgspec.Struct, gc=False):
    """A delta, or a message of a whole body."""

    role: Any = UNSET
    content: Any = UNSET
    refusal: Any = UNSET
    reasoning_content: Any = UNSET
    reasoning: Any = UNSET
    reasoning_details: Any = UNSET
    tool_calls: list[ToolDelta] | UnsetType | None = UNSET
    function_call: Function | UnsetType | None = UNSET
    audio: Any = UNSET
    images: Any = UNSET


class Choice(msgspec.Struct, gc=False):
    index: Any = UNSET
    delta: Delta | UnsetType | None = UNSET
    message: Delta | UnsetType | None = UNSET
    finish_reason: Any = UNSET
    usage: Any = UNSET
    error: Any = UNSET
    text: Any = UNSET
    content_filter_offsets: Any = UNSET


class Chunk(msgspec.Struct, gc=False):
    id: Any = UNSET
    object: Any = UNSET
    type: Any = UNSET
    model: Any = UNSET
    choices: list[Choice] | UnsetType | None = UNSET
    usage: Any = UNSET
    error: Any = UNSET
    x_groq: Any = UNSET
    timings: Any = UNSET
    prompt_progress: Any = UNSET
    prompt_filter_results: Any = UNSET
    prompt_annotations: Any = UNSET
    base_resp: Any = UNSET
    success: Any = UNSET
    message: Any = UNSET
    service_tier: Any = UNSET
    system_fingerprint: Any = UNSET


_decoder = msgspec.json.Decoder(Chunk)


class OpenAIChat(JsonDialect[Chunk]):
    """`POST …/chat/completions`."""

    name: ClassVar[str] = "openai.chat"
    terminators: ClassVar[frozenset[str]] = frozenset({"done_sentinel"})
    plains: ClassVar[tuple[Plain, ...]] = openai_plain.CHAT
    shape = Chunk
    decode = staticmethod(_decoder.decode)

    __slots__ = ("_id", "habits", "null_usages")

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self.habits = ChatHabits()
        self._id: Any = None
        self.null_usages = 0

    def conclude(self) -> list[Signal]:
        return self.habits.of_indexes(asked=self.request.n)

    def _only_text(self, event: Chunk) -> Choice | None:
        """The choice of a chunk that brings a piece of text to one choice, in its delta, and shows no habit."""
        choices = event.choices
        if choices.__class__ is list and len(choices) == 1 and event.error is UNSET and self._says_no_usage(event):
            choice = choices[0]
            delta = choice.delta
            if delta.__class__ is Delta and choice.finish_reason is None and self.habits.is_settled(event, choice):
                content = delta.content
                if content.__class__ is str and content and _only_content(delta):
                    return choice
        return None

    def _says_no_usage(self, event: Chunk) -> bool:
        return event.usage is UNSET or (event.usage is None and self.null_usages > 1)  # of which more is no news

    def read(self, event: Chunk, frame: Frame) -> list[Signal]:
        choice = self._only_text(event)
        if choice is not None:
            content = choice.delta.content  # type: ignore[union-attr]  # see there
            return [Content("text", content, choice.index, len(content))]
        return self._read_general(event, frame)

    def _read_general(self, event: Chunk, frame: Frame) -> list[Signal]:
        signals: list[Signal] = []
        if self._states_error(event, frame):
            loose = json.loads(frame.data.decode("utf-8", "replace")) if frame.data else None
            signals += self.error_signals(loose, named=frame.event == "error")
            if event.choices is UNSET:
                return signals
            if any(isinstance(signal, InBandError) for signal in signals) and event.choices is not None:
                signals.append(Annotation("error_with_choices"))
        elif event.choices is UNSET and _is_heartbeat(event, frame):
            return [KeepAlive("json"), Annotation("json_heartbeat_event")]
        self._identify(event, signals)
        self.null_usages += event.usage is None
        signals += self.habits.of_chunk(event)
        if event.error is None:
            signals.append(Annotation("error_null_field"))
        for choice in event.choices or ():
            self._choice(event, choice, frame, signals)
        signals += usage_of(event)
        return signals

    def _states_error(self, event: Chunk, frame: Frame) -> bool:
        return bool(
            (event.error is not UNSET and event.error is not None)
            or event.object == "error"
            or event.type == "error"
            or event.success is False
            or frame.event == "error"
            or (isinstance(event.base_resp, dict) and event.base_resp.get("status_code"))
        )

    def _identify(self, event: Chunk, signals: list[Signal]) -> None:
        if event.id and event.id is not UNSET and event.id != self._id:
            self._id = event.id
            signals.append(
                Identity(
                    _text(event.id), _text(event.model), _text(event.service_tier), _text(event.system_fingerprint)
                )
            )
        elif self._id is None and event.model and event.model is not UNSET:
            self._id = ""
            signals.append(Identity(None, _text(event.model)))

    def _choice(self, event: Chunk, choice: Choice, frame: Frame, signals: list[Signal]) -> None:
        index = choice.index if isinstance(choice.index, int) else 0
        begin = len(signals)
        if isinstance(choice.delta, Delta):
            self._message(choice.delta, index, signals)
        elif isinstance(choice.message, Delta):
            self._repeated(choice.message, index, signals)
        has_output = any(isinstance(signal, (Content, ToolCall)) for signal in signals[begin:])
        signals += self.habits.of_choice(event, choice, index, frame, has_output=has_output)
        self._choice_error(choice, signals)
        self._finish(choice.finish_reason, index, signals)

    def _choice_error(self, choice: Choice, signals: list[Signal]) -> None:
        if choice.error is not UNSET and choice.error is not None:
            found = self.error_signals({"error": choice.error})
            if found:
                signals += [*found, Annotation("error_in_choice")]

    def _finish(self, reason: Any, index: int, signals: list[Signal]) -> None:
        if reason is UNSET or reason is None or reason == "" or reason == "null":
            return
        text = str(reason)
        signals.append(Finish(text, index, failed=is_failure(text)))

    def _repeated(self, message: Delta, index: int, signals: list[Signal]) -> None:
        """A message in a stream, where a delta belongs: the whole answer once more."""
        if isinstance(message.content, str) and message.content:
            signals.append(WholeText(message.content, index))

    def _message(self, delta: Delta, index: int, signals: list[Signal]) -> None:
        if delta.role and delta.role is not UNSET:
            signals.append(Role(str(delta.role), index))
        reasoning = reasoning_of(delta)
        if reasoning:
            signals.append(Content("reasoning", reasoning, index, len(reasoning)))
        self._content(delta.content, index, signals)
        if isinstance(delta.refusal, str) and delta.refusal:
            signals.append(Content("refusal", delta.refusal, index, len(delta.refusal)))
        if isinstance(delta.audio, dict):
            self._audio(delta.audio, index, signals)
        if isinstance(delta.images, list) and delta.images:
            signals.append(Content("image", "", index, sum(len(str(image)) for image in delta.images)))
        if isinstance(delta.function_call, Function):
            call = delta.function_call
            signals.append(ToolCall(0, UNSET, call.name, call.arguments, index))
            signals.append(Annotation("legacy_function_call"))
        for tool in delta.tool_calls or ():
            signals.append(_tool_call(tool, index))

    def _content(self, content: Any, index: int, signals: list[Signal]) -> None:
        if isinstance(content, str):
            if content:
                signals.append(Content("text", content, index, len(content)))
        elif isinstance(content, list):
            for part in content:
                if isinstance(part, dict):
                    _part(part, index, signals)
                elif isinstance(part, str) and part:
                    signals.append(Content("text", part, index, len(part)))
        elif content is not UNSET and content is not None and not isinstance(content, dict):
            signals.append(Content("text", str(content), index, len(str(content))))

    def _audio(self, audio: dict[str, Any], index: int, signals: list[Signal]) -> None:
        data, transcript = audio.get("data"), audio.get("transcript")
        size = sum(len(value) for value in (data, transcript) if isinstance(value, str))
        if size:
            signals += [Content("audio", "", index, size), Annotation("audio_delta")]

    def read_whole(self, event: Chunk, frame: Frame) -> list[Signal]:
        signals: list[Signal] = []
        if self._states_error(event, frame):
            signals += self.error_signals(json.loads((frame.data or b"").decode("utf-8", "replace")))
        self._identify(event, signals)
        for choice in event.choices or ():
            index = choice.index if isinstance(choice.index, int) else 0
            if isinstance(choice.message, Delta):
                self._message(choice.message, index, signals)
            if choice.error not in (UNSET, None):
                signals += self.error_signals({"error": choice.error})
            self._finish(choice.finish_reason, index, signals)
        return signals + usage_of(event)


def _is_heartbeat(event: Chunk, frame: Frame) -> bool:
    kind = event.type if isinstance(event.type, str) else frame.event
    return kind in HEARTBEATS


def _only_content(delta: Delta) -> bool:
    return (
        (delta.role is UNSET or delta.role is None)
        and (delta.tool_calls is UNSET or delta.tool_calls is None)
        and (delta.reasoning_content is UNSET or delta.reasoning_content is None)
        and (delta.reasoning is UNSET or delta.reasoning is None)
        and (delta.refusal is UNSET or delta.refusal is None)
        and (delta.function_call is UNSET or delta.function_call is None)
        and (delta.audio is UNSET or delta.audio is None)
        and (delta.images is UNSET or delta.images is None)
        and (delta.reasoning_details is UNSET or delta.reasoning_details is None)
    )


def reasoning_of(delta: Delta) -> str:
    """Reasoning text of a delta: the same text may stand in up to three places and counts once."""
    for value in (delta.reasoning_content, delta.reasoning):
        if isinstance(value, str) and value:
            return value
    return details_of(delta)


def _part(part: dict[str, Any], index: int, signals: list[Signal]) -> None:
    """One part of a content that is a list: Mistral's thinking, text, and what others put there."""
    thinking = part.get("thinking")
    if part.get("type") == "thinking" or thinking:
        inner = thinking if isinstance(thinking, list) else [thinking]
        text = "".join(
            piece
            for item in inner
            for piece in (item.get("text") if isinstance(item, dict) else item,)
            if isinstance(piece, str)
        )
        if text:
            signals.append(Content("reasoning", text, index, len(text)))
        return
    visible = part.get("text")
    if isinstance(visible, str) and visible:
        signals.append(Content("text", visible, index, len(visible)))


def _tool_call(tool: ToolDelta, index: int) -> ToolCall:
    position = tool.index if isinstance(tool.index, int) else None if tool.index is None else UNSET
    if isinstance(tool.function, Function):
        return ToolCall(position, tool.id, tool.function.name, tool.function.arguments, index)
    if isinstance(tool.custom, dict):
        custom = tool.custom
        return ToolCall(position, tool.id, custom.get("name"), custom.get("input", ""), index, free_text=True)
    return ToolCall(position, tool.id, UNSET, UNSET, index)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
