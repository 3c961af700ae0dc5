"""Gemini's generateContent, streamed (SSE, or a JSON array without `alt=sse`) and whole, as AI Studio, Vertex AI and
Code Assist serve it.

https://ai.google.dev/api/generate-content#v1beta.GenerateContentResponse. Every element of a stream is a whole
response object with a piece of the answer. Nothing ends a stream over SSE; the array is ended by its bracket.
"""

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, UnsetType

from sidecar.dialects.base import JsonDialect
from sidecar.dialects.errors import is_failure
from sidecar.dialects.gemini_arguments import FunctionCalls
from sidecar.dialects.openai_usage import count
from sidecar.dialects.plain import Empty, Never, Plain, PlainKind
from sidecar.dialects.request import Request
from sidecar.dialects.signals import Annotation, Content, Finish, Identity, Role, Signal, Usage
from sidecar.framing.frame import Frame

_UNSPECIFIED = frozenset({"FINISH_REASON_UNSPECIFIED", "BLOCK_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED"})
_CANDIDATES_KEPT = 128
_MODALITIES = {
    "promptTokensDetails": "input",
    "candidatesTokensDetails": "output",
    "responseTokensDetails": "output",
    "cacheTokensDetails": "cache_read",
}


class Part(msgspec.Struct, gc=False, rename="camel"):
    """No output: thoughtSignature, codeExecutionResult, functionResponse, fileData."""

    text: Any = UNSET
    thought: Any = UNSET
    function_call: Any = UNSET
    executable_code: Any = UNSET
    inline_data: Any = UNSET


class Parts(msgspec.Struct, gc=False, rename="camel"):
    role: Any = UNSET
    parts: list[Part] | UnsetType | None = UNSET


class Candidate(msgspec.Struct, gc=False, rename="camel"):
    index: Any = UNSET
    content: Parts | UnsetType | None = UNSET
    finish_reason: Any = UNSET


class Response(msgspec.Struct, gc=False, rename="camel"):
    candidates: list[Candidate] | UnsetType | None = UNSET
    prompt_feedback: Any = UNSET
    usage_metadata: Any = UNSET
    model_version: Any = UNSET
    response_id: Any = UNSET
    error: Any = UNSET


class Event(Response, gc=False, rename="camel"):
    """A response, or one in the envelope of Code Assist."""

    response: Response | UnsetType | None = UNSET


_decoder = msgspec.json.Decoder(Event)


class PartReader:
    """The parts of candidates, or of the turns of a live session, in their order."""

    def __init__(self) -> None:
        self._calls: dict[int, FunctionCalls] = {}

    def read(self, part: Part, index: int, signals: list[Signal]) -> None:
        """Signals of one part of a candidate."""
        text = part.text
        if isinstance(text, str):
            if text:
                signals.append(Content("reasoning" if part.thought is True else "text", text, index, len(text)))
            return
        if isinstance(part.function_call, dict):
            signals += self.call(part.function_call, index)
        elif isinstance(part.executable_code, dict):
            code = part.executable_code.get("code")
            if isinstance(code, str) and code:
                signals.append(Content("tool_arguments", code, index, len(code)))
        elif isinstance(part.inline_data, dict):
            data, kind = part.inline_data.get("data"), part.inline_data.get("mimeType")
            if isinstance(data, str) and data:
                spoken = not isinstance(kind, str) or kind.startswith("audio/")
                signals.append(Content("audio" if spoken else "image", "", index, len(data)))

    def call(self, call: dict[str, Any], index: int) -> list[Signal]:
        """Signals of one function call."""
        calls = self._calls.get(index)
        if calls is None:
            calls = FunctionCalls(index)
            if len(self._calls) < _CANDIDATES_KEPT:
                self._calls[index] = calls
        return calls.take(call)


type _Count = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]


class _Details(msgspec.Struct, gc=False):
    modality: Literal["TEXT", "IMAGE", "VIDEO", "DOCUMENT"]


class _Counts(msgspec.Struct, gc=False, rename="camel"):
    prompt_token_count: _Count
    total_token_count: _Count
    candidates_token_count: _Count | None = None
    cached_content_token_count: _Count | None = None
    thoughts_token_count: _Count | None = None
    response_token_count: Never = UNSET
    prompt_tokens_details: list[_Details] | UnsetType = UNSET
    candidates_tokens_details: list[_Details] | UnsetType = UNSET
    cache_tokens_details: list[_Details] | UnsetType = UNSET
    response_tokens_details: Never = UNSET


class _Text(msgspec.Struct, gc=False):
    text: str
    thought: Literal["\0"] | bool | UnsetType = UNSET


class _Parts(msgspec.Struct, gc=False):
    parts: tuple[_Text]


class _Piece(msgspec.Struct, gc=False, rename="camel"):
    content: _Parts
    index: Literal[0] | UnsetType = UNSET
    finish_reason: Empty = UNSET


class _Plain(msgspec.Struct, gc=False, rename="camel"):
    candidates: tuple[_Piece]
    usage_metadata: _Counts | UnsetType = UNSET
    model_version: Any = UNSET
    response_id: Any = UNSET
    prompt_feedback: Never = UNSET
    error: Empty = UNSET
    response: Never = UNSET


def _plain(kind: PlainKind) -> Plain:
    thought = kind == "reasoning"

    def text_of(dialect: "GeminiGenerate", event: _Plain) -> str | None:
        part = event.candidates[0].content.parts[0]
        if (part.thought is True) is not thought or (event.response_id, event.model_version) != dialect.named:
            return None
        return part.text if part.text and dialect.counts_on(event.usage_metadata) else None

    return Plain(kind, _Plain, text_of, usage=lambda dialect: dialect.stated)


class GeminiGenerate(JsonDialect[Event]):
    """`POST …:streamGenerateContent` and `…:generateContent`."""

    name: ClassVar[str] = "gemini.generate"
    plains: ClassVar[tuple[Plain, ...]] = (_plain("text"), _plain("reasoning"))
    shape = Event
    decode = staticmethod(_decoder.decode)

    __slots__ = ("_finished", "_parts", "named", "stated")

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self.stated: Usage | None = None
        """The counts as they were stated last."""
        self._parts = PartReader()
        self._finished: set[int] = set()
        self.named: tuple[Any, Any] = (UNSET, UNSET)
        """Id and model of the response, as they were stated last."""

    def counts_on(self, counts: _Counts | UnsetType) -> bool:
        """Whether counts are those stated last, or have grown from there: then they are the last ones now."""
        stated = self.stated
        if counts is UNSET or stated is None:
            return counts is UNSET and stated is None
        output, total, reasoning = counts.candidates_token_count, counts.total_token_count, counts.thoughts_token_count
        if (
            counts.prompt_token_count != stated.input
            or counts.cached_content_token_count != stated.cache_read
            or stated.audio is not None
            or not (output == stated.output or _has_grown(stated.output, output))
            or not (total == stated.total or _has_grown(stated.total, total))
            or not (reasoning == stated.reasoning or _has_grown(stated.reasoning, reasoning))
        ):
            return False
        stated.output, stated.total, stated.reasoning = output, total, reasoning
        return True

    def read(self, event: Event, frame: Frame) -> list[Signal]:
        response = event.response if isinstance(event.response, Response) else event
        signals: list[Signal] = []
        if event.error not in (UNSET, None) or frame.event == "error":
            signals += self.error_signals(self.loose(frame), named=frame.event == "error")
        elif response.error not in (UNSET, None):
            signals += self.error_signals({"error": response.error})
        self._identify(response, signals)
        feedback = response.prompt_feedback
        reason = feedback.get("blockReason") if isinstance(feedback, dict) else None
        if isinstance(reason, str) and reason and reason not in _UNSPECIFIED:
            signals.append(Annotation("prompt_blocked"))
        for candidate in response.candidates or ():
            self._candidate(candidate, signals)
        usage = usage_of(response.usage_metadata)
        if usage:
            self.stated = usage[0]
        return [*signals, *usage]

    def _identify(self, response: Response, signals: list[Signal]) -> None:
        named = (response.response_id, response.model_version)
        if named != self.named:
            self.named = named
            signals.append(Identity(*(name if isinstance(name, str) and name else None for name in named)))

    def _candidate(self, candidate: Candidate, signals: list[Signal]) -> None:
        index = candidate.index if isinstance(candidate.index, int) else 0
        content = candidate.content
        if index in self._finished:
            signals.append(Annotation("chunk_after_finish"))
        if isinstance(content, Parts):
            if isinstance(content.role, str) and content.role:
                signals.append(Role(content.role, index))
            for part in content.parts or ():
                self._parts.read(part, index, signals)
        reason = candidate.finish_reason
        if isinstance(reason, str) and reason and reason not in _UNSPECIFIED:
            if len(self._finished) < _CANDIDATES_KEPT:
                self._finished.add(index)
            signals.append(Finish(reason, index, failed=is_failure(reason)))


def _has_grown(before: int | None, now: int | None) -> bool:
    return before is not None and now is not None and now > before


def signs(event: dict[str, Any], name: str) -> bool:
    """Whether an event can only be of this dialect."""
    inner = event.get("response")
    if isinstance(inner, dict) and "candidates" in inner:
        return True
    return isinstance(event.get("candidates"), list) or "promptFeedback" in event or "usageMetadata" in event


def usage_of(value: Any) -> list[Usage]:
    """Counts of a `usageMetadata`; `thoughtsTokenCount` is beside `candidatesTokenCount`, not in it.

    The Live API says `responseTokenCount`.
    """
    if not isinstance(value, dict):
        return []
    return [
        Usage(
            input=count(value.get("promptTokenCount")),
            output=count(value.get("candidatesTokenCount", value.get("responseTokenCount"))),
            total=count(value.get("totalTokenCount")),
            cache_read=count(value.get("cachedContentTokenCount")),
            reasoning=count(value.get("thoughtsTokenCount")),
            audio=_audio(value),
        )
    ]


def _audio(value: dict[str, Any]) -> dict[str, int] | None:
    """The counts of the modality AUDIO; None where no details name it."""
    found: dict[str, int] = {}
    for member, name in _MODALITIES.items():
        details = value.get(member)
        for detail in details if isinstance(details, list) else ():
            tokens = count(detail.get("tokenCount")) if isinstance(detail, dict) else None
            if tokens is not None and detail.get("modality") == "AUDIO":
                found[name] = tokens
    return found or None
