"""Ollama's own API: NDJSON, streamed unless the request says otherwise.

https://github.com/ollama/ollama/blob/main/docs/api.md
"""

import re
from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec
from msgspec import UNSET

from sidecar.dialects.envelope import Envelope, EnvelopeDialect, dict_of, list_of, text_of
from sidecar.dialects.openai_usage import count
from sidecar.dialects.signals import Annotation, Content, Finish, Identity, Signal, Terminator, ToolCall, Usage
from sidecar.framing.frame import Frame

_DONE = re.compile(rb'"done"\s*:\s*true')


class Line(Envelope, gc=False):
    model: Any = UNSET
    message: Any = UNSET
    response: Any = UNSET
    thinking: Any = UNSET
    image: Any = UNSET
    done: Any = UNSET
    done_reason: Any = UNSET
    prompt_eval_count: Any = UNSET
    eval_count: Any = UNSET


class _Ollama(EnvelopeDialect[Line]):
    terminators: ClassVar[frozenset[str]] = frozenset({"done_true"})
    shape = Line
    decode = staticmethod(msgspec.json.Decoder(Line).decode)
    _named = False

    def is_terminator(self, frame: Frame) -> bool:
        return _DONE.search(frame.data or b"") is not None

    def read_event(self, event: Line, kind: str, frame: Frame) -> list[Signal]:
        signals: list[Signal] = []
        if not self._named:
            self._named = True
            signals.append(Identity(None, text_of(event.model) or None))
        signals += self._output(event)
        if event.done is True:
            given, produced = count(event.prompt_eval_count), count(event.eval_count)
            if given is not None or produced is not None:
                signals.append(Usage(input=given, output=produced))
            if reason := text_of(event.done_reason):
                signals.append(Finish(reason))
            signals.append(Terminator("done_true"))
        return signals

    def _output(self, event: Line) -> Iterator[Signal]:
        raise NotImplementedError


class OllamaChat(_Ollama):
    """`POST /api/chat`."""

    name: ClassVar[str] = "ollama.chat"

    def _output(self, event: Line) -> Iterator[Signal]:
        message = dict_of(event.message)
        yield from _thinking(message.get("thinking"))
        yield from _text(message.get("content"))
        calls = message.get("tool_calls")
        if calls == []:
            yield Annotation("empty_tool_calls_array")
        for call in map(dict_of, list_of(calls)):
            function = dict_of(call.get("function"))
            # Each call comes whole, its arguments as an object; newer servers put an index beside its name.
            yield ToolCall(
                index=function.get("index", UNSET),
                id=call.get("id", UNSET),
                name=function.get("name", UNSET),
                arguments=function.get("arguments", UNSET),
                whole=True,
            )


class OllamaGenerate(_Ollama):
    """`POST /api/generate`."""

    name: ClassVar[str] = "ollama.generate"

    def _output(self, event: Line) -> Iterator[Signal]:
        yield from _thinking(event.thinking)
        yield from _text(event.response)
        if image := text_of(event.image):
            yield Content("image", "", 0, len(image))


def _thinking(value: Any) -> Iterator[Signal]:
    if text := text_of(value):
        yield Content("reasoning", text, 0, len(text))
        yield Annotation("thinking_field")


def _text(value: Any) -> Iterator[Signal]:
    if text := text_of(value):
        yield Content("text", text, 0, len(text))


def is_chat(event: dict[str, Any], name: str) -> bool:
    """A line with a message and Ollama's `done`."""
    return isinstance(event.get("done"), bool) and isinstance(event.get("message"), dict)


def is_generate(event: dict[str, Any], name: str) -> bool:
    """A line with a response and Ollama's `done`."""
    return isinstance(event.get("done"), bool) and isinstance(event.get("response"), str)
