"""OpenAI's Assistants: runs of a thread, streamed (https://platform.openai.com/docs/api-reference/assistants-streaming).

Events are told by their `object` and, for a run, its `status`: the SSE event name says the same once more.
"""

from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec
from msgspec import UNSET

from sidecar.dialects.envelope import Envelope, EnvelopeDialect, dict_of, list_of, text_of
from sidecar.dialects.openai_usage import parse_usage
from sidecar.dialects.signals import Content, Finish, Identity, InBandError, Signal, ToolCall
from sidecar.framing.frame import Frame

_STATES = ("created", "queued", "in_progress", "requires_action", "cancelling")
_ENDS = ("completed", "incomplete", "failed", "cancelled", "expired")
_KNOWN = frozenset(
    {
        "thread.created",
        *(f"thread.run.{state}" for state in (*_STATES, *_ENDS)),
        *(f"thread.run.step.{state}" for state in ("created", "in_progress", "delta", *_ENDS)),
        *(f"thread.message.{state}" for state in ("created", "in_progress", "delta", "completed", "incomplete")),
        "done",
        "error",
    }
)


class Event(Envelope, gc=False):
    id: Any = UNSET
    delta: Any = UNSET
    status: Any = UNSET
    last_error: Any = UNSET
    incomplete_details: Any = UNSET
    usage: Any = UNSET
    model: Any = UNSET


class OpenAIAssistants(EnvelopeDialect[Event]):
    """`POST …/threads/{id}/runs`, `…/threads/runs` and `…/submit_tool_outputs`."""

    name: ClassVar[str] = "openai.assistants"
    terminators: ClassVar[frozenset[str]] = frozenset({"done_sentinel"})
    known: ClassVar[frozenset[str]] = _KNOWN
    shape = Event
    decode = staticmethod(msgspec.json.Decoder(Event).decode)

    def _is_known(self, kind: str, name: str) -> bool:
        return not name or name in _KNOWN  # `type` is that of a run step here

    def is_terminator(self, frame: Frame) -> bool:
        return frame.event == "done"

    def read_event(self, event: Event, kind: str, frame: Frame) -> list[Signal]:
        if event.object == "thread.message.delta":
            return list(_message(dict_of(event.delta)))
        if event.object == "thread.run.step.delta":
            return list(_step(dict_of(event.delta), text_of(event.id)))
        if event.object == "thread.run.step":
            return self._failure(event, frame)
        return self._run(event, frame) if event.object == "thread.run" else []

    def _run(self, event: Event, frame: Frame) -> list[Signal]:
        signals: list[Signal] = [Identity(text_of(event.id) or None, text_of(event.model) or None)]
        signals += self._failure(event, frame)
        if isinstance(event.usage, dict):
            signals.append(parse_usage(event.usage))
        status = text_of(event.status)
        if status == "requires_action" or status in _ENDS:
            reason = dict_of(event.incomplete_details).get("reason")
            signals.append(Finish(text_of(reason) or status))
        return signals

    def _failure(self, event: Event, frame: Frame) -> list[Signal]:
        """What made a run or a step fail."""
        if event.last_error is not UNSET and event.last_error:
            return self.error_signals({"error": event.last_error})
        return [InBandError(f"{event.object}.failed")] if event.status == "failed" else []


def _message(delta: dict[str, Any]) -> Iterator[Signal]:
    for part in map(dict_of, list_of(delta.get("content"))):
        text = part.get("text")
        if value := text_of(text.get("value") if isinstance(text, dict) else text):
            yield Content("text", value, 0, len(value))
        if refusal := text_of(part.get("refusal")):
            yield Content("refusal", refusal, 0, len(refusal))


def _step(delta: dict[str, Any], step: str) -> Iterator[Signal]:
    """Calls of the client's functions, and code for the provider's interpreter; what tools answer is no output."""
    for call in map(dict_of, list_of(dict_of(delta.get("step_details")).get("tool_calls"))):
        function = call.get("function")
        if isinstance(function, dict):
            # Each step numbers its calls from zero.
            yield ToolCall(
                id=call.get("id", UNSET),
                name=function.get("name", UNSET),
                arguments=function.get("arguments", UNSET),
                key=f"{step}/{call.get('index')}",
            )
        elif code := text_of(dict_of(call.get("code_interpreter")).get("input")):
            yield Content("tool_arguments", code, 0, len(code))


def is_assistants(event: dict[str, Any], name: str) -> bool:
    """An object of a thread, or an event named after one."""
    return name.startswith("thread.") or text_of(event.get("object")).startswith(("thread.run", "thread.message"))
