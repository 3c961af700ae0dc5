"""Hugging Face's text-generation-inference in its own API: one token an event.

https://huggingface.co/docs/text-generation-inference. The last event repeats the whole text; its details (and the
finish reason in them) are there only where the request asked for details. There is no terminator.
"""

from typing import Any, ClassVar

import msgspec
from msgspec import UNSET

from sidecar.dialects.envelope import Envelope, EnvelopeDialect, dict_of, text_of
from sidecar.dialects.openai_usage import count
from sidecar.dialects.request import Request
from sidecar.dialects.signals import Content, Finish, Signal, Usage
from sidecar.framing.frame import Frame


class Event(Envelope, gc=False):
    token: Any = UNSET
    generated_text: Any = UNSET
    details: Any = UNSET


class TextGenerationInference(EnvelopeDialect[Event]):
    """`POST /generate_stream` and `POST /generate`."""

    name: ClassVar[str] = "tgi.generate"
    shape = Event
    decode = staticmethod(msgspec.json.Decoder(Event).decode)

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self._text = False

    def read_event(self, event: Event, kind: str, frame: Frame) -> list[Signal]:
        signals: list[Signal] = []
        token = dict_of(event.token)
        text = text_of(token.get("text"))
        if text and token.get("special") is not True:
            self._text = True
            signals.append(Content("text", text, 0, len(text)))
        if isinstance(event.generated_text, str):
            if not self._text:
                signals.append(Content("text", event.generated_text, 0, len(event.generated_text), late=True))
            signals += self._end(dict_of(event.details))
        return signals

    def _end(self, details: dict[str, Any]) -> list[Signal]:
        signals: list[Signal] = []
        given, produced = count(details.get("input_length")), count(details.get("generated_tokens"))
        if given is not None or produced is not None:
            signals.append(Usage(input=given, output=produced))
        reason = text_of(details.get("finish_reason"))
        if reason:
            signals.append(Finish(reason))
        else:
            # Generation ended, and this stream has no place for the reason: none can be missing.
            self.has_finish = False  # type: ignore[misc]  # the class's answer, corrected for this one stream
        return signals


def is_tgi(event: dict[str, Any], name: str) -> bool:
    """The whole text's place, which every event has."""
    return "generated_text" in event
