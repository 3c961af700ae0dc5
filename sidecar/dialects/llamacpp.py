"""llama.cpp's server in its own API (https://github.com/ggml-org/llama.cpp/tree/master/tools/server)."""

import re
from typing import Any, ClassVar

import msgspec
from msgspec import UNSET

from sidecar.dialects.envelope import Envelope, EnvelopeDialect, text_of
from sidecar.dialects.openai_usage import count, timings_of
from sidecar.dialects.signals import Annotation, Content, Finish, Identity, Signal, Terminator, Usage
from sidecar.framing.frame import Frame

_STOP = re.compile(rb'"stop"\s*:\s*true')


class Event(Envelope, gc=False):
    index: Any = UNSET
    content: Any = UNSET
    stop: Any = UNSET
    stop_type: Any = UNSET
    stopped_eos: Any = UNSET
    stopped_limit: Any = UNSET
    stopped_word: Any = UNSET
    model: Any = UNSET
    tokens_predicted: Any = UNSET
    tokens_evaluated: Any = UNSET
    prompt_progress: Any = UNSET
    timings: Any = UNSET


class LlamaCpp(EnvelopeDialect[Event]):
    """`POST /completion` and `POST /infill`."""

    name: ClassVar[str] = "llamacpp.completion"
    terminators: ClassVar[frozenset[str]] = frozenset({"stop_true"})
    shape = Event
    decode = staticmethod(msgspec.json.Decoder(Event).decode)

    def is_terminator(self, frame: Frame) -> bool:
        return _STOP.search(frame.data or b"") is not None

    def read_event(self, event: Event, kind: str, frame: Frame) -> list[Signal]:
        signals: list[Signal] = []
        choice = event.index if isinstance(event.index, int) else 0
        if isinstance(event.prompt_progress, dict):
            signals.append(Annotation("progress_chunk"))
        if text := text_of(event.content):
            signals.append(Content("text", text, choice, len(text)))
        given, produced = count(event.tokens_evaluated), count(event.tokens_predicted)
        if given is not None or produced is not None:
            signals.append(Usage(input=given, output=produced))
        if isinstance(event.timings, dict):
            signals += timings_of(event.timings)
        if event.stop is True:
            signals.append(Identity(None, text_of(event.model) or None))
            if reason := _reason(event):
                signals.append(Finish(reason, choice))
            signals.append(Terminator("stop_true"))
        return signals


def _reason(event: Event) -> str:
    """Why it stopped; builds before late 2024 say it in three flags."""
    flags = (("eos", event.stopped_eos), ("limit", event.stopped_limit), ("word", event.stopped_word))
    return text_of(event.stop_type) or next((name for name, flag in flags if flag is True), "")


def is_llamacpp(event: dict[str, Any], name: str) -> bool:
    """Content beside a flag that says whether it was the last."""
    return isinstance(event.get("content"), str) and isinstance(event.get("stop"), bool)
