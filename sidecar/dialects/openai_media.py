"""OpenAI's speech, transcription and image endpoints. They stream typed events without finish reasons.

https://platform.openai.com/docs/api-reference/audio/speech-audio-delta-event, …/audio/transcript-text-delta-event,
…/image-streaming
"""

from typing import Any, ClassVar

import msgspec
from msgspec import UNSET

from sidecar.dialects.envelope import Envelope, EnvelopeDialect, text_of, type_begins
from sidecar.dialects.openai_usage import parse_usage
from sidecar.dialects.request import Request
from sidecar.dialects.signals import Content, Signal, Terminator
from sidecar.framing.frame import Frame


class Event(Envelope, gc=False):
    audio: Any = UNSET
    delta: Any = UNSET
    text: Any = UNSET
    b64_json: Any = UNSET
    usage: Any = UNSET


class _Media(EnvelopeDialect[Event]):
    has_finish: ClassVar[bool] = False
    shape = Event
    decode = staticmethod(msgspec.json.Decoder(Event).decode)

    def read_whole(self, event: Event, frame: Frame) -> list[Signal]:
        text = text_of(event.text)
        content: list[Signal] = [Content("text", text, 0, len(text))] if text else []
        return [*self.stated_error(event, frame), *content, *_usage(event)]


class OpenAISpeech(_Media):
    """`POST …/audio/speech`; events with `stream_format: sse`, else the audio itself."""

    name: ClassVar[str] = "openai.speech"
    terminators: ClassVar[frozenset[str]] = frozenset({"speech.audio.done"})
    known: ClassVar[frozenset[str]] = frozenset(
        {"speech.audio.delta", "speech.audio.done", "speech.audio.error", "error"}
    )

    def read_event(self, event: Event, kind: str, frame: Frame) -> list[Signal]:
        if kind == "speech.audio.delta":
            return [Content("audio", "", 0, len(text_of(event.audio) or text_of(event.delta)))]
        return [*_usage(event), Terminator(kind)] if kind in self.terminators else []


class OpenAITranscriptions(_Media):
    """`POST …/audio/transcriptions` and `…/audio/translations`; the request is a form."""

    name: ClassVar[str] = "openai.transcriptions"
    terminators: ClassVar[frozenset[str]] = frozenset({"transcript.text.done"})
    known: ClassVar[frozenset[str]] = frozenset(
        {"transcript.text.delta", "transcript.text.segment", "transcript.text.done", "error"}
    )

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self._deltas = False
        self._segments = False

    def read_event(self, event: Event, kind: str, frame: Frame) -> list[Signal]:
        if kind == "transcript.text.delta":
            delta = text_of(event.delta)
            self._deltas = self._deltas or bool(delta)
            return [Content("text", delta, 0, len(delta))]
        text = text_of(event.text)
        if kind == "transcript.text.segment":
            # A diarized segment sums up its deltas; where none came, it is the first to say its text.
            self._segments = self._segments or bool(text)
            return [] if self._deltas else [Content("text", text, 0, len(text))]
        if kind in self.terminators:
            late = [] if self._deltas or self._segments else [Content("text", text, 0, len(text), late=True)]
            return [*late, *_usage(event), Terminator(kind)]
        return []


class OpenAIImages(_Media):
    """`POST …/images/generations` and `…/images/edits`; `…completed` carries the final image."""

    name: ClassVar[str] = "openai.images"
    terminators: ClassVar[frozenset[str]] = frozenset({"image_generation.completed", "image_edit.completed"})
    known: ClassVar[frozenset[str]] = terminators | {
        "image_generation.partial_image",
        "image_edit.partial_image",
        "error",
    }

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self._completed = 0

    def read_event(self, event: Event, kind: str, frame: Frame) -> list[Signal]:
        if kind == "error" or kind not in self.known:
            return []
        signals: list[Signal] = [Content("image", "", 0, len(text_of(event.b64_json))), *_usage(event)]
        if kind in self.terminators:
            self._completed += 1
            if self._completed >= (self.request.n or 1):  # one event per image that was asked for
                signals.append(Terminator(kind))
        return signals


def _usage(event: Event) -> list[Signal]:
    return [parse_usage(event.usage)] if isinstance(event.usage, dict) else []


is_speech = type_begins("speech.audio.")
is_transcription = type_begins("transcript.text.")
is_image = type_begins("image_generation.", "image_edit.")
