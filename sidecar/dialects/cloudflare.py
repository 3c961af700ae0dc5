"""Cloudflare Workers AI in its own format (https://developers.cloudflare.com/workers-ai/): `{"response": …}`.

It states no finish reason. Models that answer in OpenAI's format are told by their events.
"""

import json
from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec
from msgspec import UNSET

from sidecar.dialects.envelope import Envelope, EnvelopeDialect, dict_of, list_of
from sidecar.dialects.openai_usage import parse_usage
from sidecar.dialects.signals import Annotation, Content, Signal, ToolCall
from sidecar.framing.frame import Frame

_MEMBERS = frozenset({"response", "p", "tool_calls", "usage"})


class Event(Envelope, gc=False):
    response: Any = UNSET
    tool_calls: Any = UNSET
    usage: Any = UNSET
    result: Any = UNSET


class WorkersAI(EnvelopeDialect[Event]):
    """`POST …/ai/run/@cf/…`, and the same behind AI Gateway."""

    name: ClassVar[str] = "cloudflare.workers_ai"
    terminators: ClassVar[frozenset[str]] = frozenset({"done_sentinel"})
    has_finish: ClassVar[bool] = False
    shape = Event
    decode = staticmethod(msgspec.json.Decoder(Event).decode)

    def read_event(self, event: Event, kind: str, frame: Frame) -> list[Signal]:
        return list(_answer(event.response, event.tool_calls, event.usage))

    def read_whole(self, event: Event, frame: Frame) -> list[Signal]:
        result = dict_of(event.result)  # absent where a binding or a gateway takes the envelope off
        if not result:
            return self.read(event, frame)
        answer = _answer(result.get("response"), result.get("tool_calls"), result.get("usage"))
        return [*self.stated_error(event, frame), *answer]


def _answer(response: Any, calls: Any, usage: Any) -> Iterator[Signal]:
    if response is not UNSET and response is not None and not isinstance(response, bool):
        # A token that is a number was decoded as one on the way; with a JSON schema the answer is an object.
        text = response if isinstance(response, str) else json.dumps(response, ensure_ascii=False)
        if text is not response:
            yield Annotation("content_not_string")
        yield Content("text", text, 0, len(text))
    if calls == []:
        yield Annotation("empty_tool_calls_array")
    for call in map(dict_of, list_of(calls)):
        yield _call(call)
    if isinstance(usage, dict):
        yield parse_usage(usage)


def _call(call: dict[str, Any]) -> ToolCall:
    """A call: whole in Cloudflare's own shape, in pieces where it is OpenAI's delta."""
    function = call.get("function")
    stated = function if isinstance(function, dict) else call
    index = call.get("index", UNSET)
    return ToolCall(
        index=index,
        id=call.get("id", UNSET),
        name=stated.get("name", UNSET),
        arguments=stated.get("arguments", UNSET),
        whole=not isinstance(index, int),
    )


def is_workers_ai(event: dict[str, Any], name: str) -> bool:
    """A response that is no object beside the padding `p`, which only Cloudflare adds, among the few members it has."""
    return isinstance(event.get("response"), (str, int, float)) and "p" in event and event.keys() <= _MEMBERS
