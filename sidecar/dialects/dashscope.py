"""Alibaba's DashScope in its own API (https://help.aliyun.com/zh/model-studio/qwen-api-via-dashscope).

Streamed where the request has the header `X-DashScope-SSE: enable`. Each event holds the text so far, or with
`incremental_output` what is new; it also holds the usage so far. Nothing ends the stream but its finish reason.
"""

from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec
from msgspec import UNSET

from sidecar.dialects.envelope import Envelope, EnvelopeDialect, dict_of, list_of, text_of
from sidecar.dialects.openai_usage import parse_usage
from sidecar.dialects.request import Request
from sidecar.dialects.signals import Annotation, Content, Finish, Identity, Signal, ToolCall
from sidecar.framing.frame import Frame


class Event(Envelope, gc=False):
    output: Any = UNSET
    usage: Any = UNSET
    request_id: Any = UNSET
    code: Any = UNSET


class DashScope(EnvelopeDialect[Event]):
    """`POST …/services/aigc/{text,multimodal}-generation/generation` and `…/apps/{id}/completion`."""

    name: ClassVar[str] = "dashscope.native"
    known: ClassVar[frozenset[str]] = frozenset({"result", "error"})
    shape = Event
    decode = staticmethod(msgspec.json.Decoder(Event).decode)

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self._parts_expected = "multimodal" in request.head.path

    def stated_error(self, event: Event, frame: Frame) -> list[Signal]:
        failed = bool(text_of(event.code)) and not event.output  # a success may have an empty code
        if failed:
            return self.error_signals(self.loose(frame), named=True)
        return super().stated_error(event, frame)

    def read_event(self, event: Event, kind: str, frame: Frame) -> list[Signal]:
        output = dict_of(event.output)
        signals: list[Signal] = [Identity(text_of(event.request_id) or None)]
        choices = output.get("choices")
        if isinstance(choices, list):
            for choice in map(dict_of, choices):
                index = choice.get("index")
                number = index if isinstance(index, int) else 0
                signals += self._message(dict_of(choice.get("message")), number)
                signals += _finish(choice.get("finish_reason"), number)
        elif output:
            signals += self._content(output.get("text"), 0)
            signals += _finish(output.get("finish_reason"), 0)
        if isinstance(event.usage, dict):
            signals.append(parse_usage(event.usage))
        return signals

    def _message(self, message: dict[str, Any], choice: int) -> Iterator[Signal]:
        if reasoning := text_of(message.get("reasoning_content")):
            yield Content("reasoning", reasoning, choice, len(reasoning))
        yield from self._content(message.get("content"), choice)
        calls = message.get("tool_calls")
        if calls == []:
            yield Annotation("empty_tool_calls_array")
        for call in map(dict_of, list_of(calls)):
            function = dict_of(call.get("function"))
            yield ToolCall(
                index=call.get("index", UNSET),
                id=call.get("id", UNSET),
                name=function.get("name", UNSET),
                arguments=function.get("arguments", UNSET),
                choice=choice,
            )

    def _content(self, content: Any, choice: int) -> Iterator[Signal]:
        if isinstance(content, list):
            if not self._parts_expected:
                yield Annotation("content_not_string")
            content = "".join(text_of(dict_of(part).get("text")) for part in content)
        if text := text_of(content):
            yield Content("text", text, choice, len(text))


def _finish(reason: Any, choice: int) -> list[Signal]:
    if reason == "null":
        return [Annotation("finish_reason_string_null")]
    return [Finish(reason, choice)] if isinstance(reason, str) and reason else []


def is_dashscope(event: dict[str, Any], name: str) -> bool:
    """DashScope's envelope: an output beside the id of the request."""
    return isinstance(event.get("output"), dict) and isinstance(event.get("request_id"), str)
