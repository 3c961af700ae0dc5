"""One response of OpenAI's Realtime API (GA and beta names), as Azure, xAI, DashScope and others serve it, too.

Events: `types/realtime` and `types/beta/realtime` of https://github.com/openai/openai-python. Those that the Responses
API has under the same name are read as there; which response an event belongs to is told by `openai_realtime_lanes`.
"""

from typing import Any, ClassVar

import msgspec
from msgspec import UNSET

from sidecar.dialects.envelope import dict_of, list_of, text_of
from sidecar.dialects.openai_responses import Event, OpenAIResponses, identity, usage_in
from sidecar.dialects.openai_responses_items import texts_of
from sidecar.dialects.signals import Annotation, Finish, InBandError, Kind, Signal, Terminator
from sidecar.framing.frame import Frame

DONE = "response.done"

_DELTAS: dict[str, Kind] = {
    "response.output_text.delta": "text",
    "response.text.delta": "text",
    "response.output_audio.delta": "audio",
    "response.audio.delta": "audio",
    "response.output_audio_transcript.delta": "transcript",
    "response.audio_transcript.delta": "transcript",
}
_TEXTS_DONE: dict[str, Kind] = {
    "response.output_text.done": "text",
    "response.text.done": "text",
    "response.output_audio_transcript.done": "transcript",
    "response.audio_transcript.done": "transcript",
}
_ARGUMENTS = ("response.function_call_arguments.", "response.mcp_call_arguments.")
OF_RESPONSES = (
    frozenset(_DELTAS)
    | frozenset(_TEXTS_DONE)
    | frozenset(prefix + suffix for prefix in _ARGUMENTS for suffix in ("delta", "done"))
    | {
        "response.created",
        "response.output_item.added",
        "response.output_item.done",
        "response.content_part.added",
        "response.content_part.done",
        "response.output_audio.done",
        "response.audio.done",
        "response.mcp_call.in_progress",
        "response.mcp_call.completed",
        "response.mcp_call.failed",
        DONE,
    }
)
"""Types of the events that belong to a response."""

OF_SESSIONS = frozenset(
    {
        "error",
        "session.created",
        "session.updated",
        "transcription_session.created",
        "transcription_session.updated",
        "conversation.created",
        "conversation.item.created",
        "conversation.item.added",
        "conversation.item.done",
        "conversation.item.retrieved",
        "conversation.item.truncated",
        "conversation.item.deleted",
        "conversation.item.input_audio_transcription.delta",
        "conversation.item.input_audio_transcription.segment",
        "conversation.item.input_audio_transcription.completed",
        "conversation.item.input_audio_transcription.failed",
        "conversation.item.input_audio_transcription.updated",  # xAI
        "conversation.item.input_audio_transcription.text",  # DashScope
        "input_audio_buffer.committed",
        "input_audio_buffer.cleared",
        "input_audio_buffer.speech_started",
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.timeout_triggered",
        "input_audio_buffer.dtmf_event_received",
        "output_audio_buffer.started",
        "output_audio_buffer.stopped",
        "output_audio_buffer.cleared",
        "mcp_list_tools.in_progress",
        "mcp_list_tools.completed",
        "mcp_list_tools.failed",
        "rate_limits.updated",
        "transcription.delta",  # vLLM
        "transcription.done",
    }
)
"""Types of the events that concern the session: they are no progress of any response."""


class RealtimeEvent(Event, gc=False):
    """With the member that only this API has."""

    transcript: Any = UNSET


_decoder = msgspec.json.Decoder(RealtimeEvent)


class OpenAIRealtime(OpenAIResponses):
    """The events of one response."""

    name: ClassVar[str] = "openai.realtime"
    terminators: ClassVar[frozenset[str]] = frozenset({DONE})
    named_events: ClassVar[bool] = False
    known: ClassVar[frozenset[str]] = OF_RESPONSES | OF_SESSIONS
    shape = RealtimeEvent
    decode = staticmethod(_decoder.decode)

    def read_event(self, event: Event, kind: str, frame: Frame) -> list[Signal]:
        if kind in _DELTAS:
            return self._delta(_DELTAS[kind], event)
        if kind in _TEXTS_DONE:
            assert isinstance(event, RealtimeEvent)
            of = _TEXTS_DONE[kind]
            return self._late([(of, text_of(event.text if of == "text" else event.transcript))], kind)
        if kind == "response.content_part.done":
            return self._late(_parts_of([event.part]), kind)
        if kind == DONE:
            return self._realtime_done(dict_of(event.response))
        if kind in OF_RESPONSES:
            return super().read_event(event, kind, frame)
        return []

    def _realtime_done(self, response: dict[str, Any]) -> list[Signal]:
        """The end, which repeats everything: status, items, usage."""
        signals = identity(response)
        items = [dict_of(item) for item in list_of(response.get("output"))]
        for item in items:
            texts = _parts_of(list_of(item.get("content"))) if item.get("type") == "message" else texts_of(item)
            signals += self._late(texts, DONE)
        signals += self._tools.in_terminal(items)
        status = text_of(response.get("status"))
        details = dict_of(response.get("status_details"))
        if status == "failed":
            signals += self.error_signals({"error": details.get("error")}) or [InBandError("the response failed")]
        absent = [Annotation("usage_absent_in_terminal")] if status in ("completed", "incomplete") else []
        signals += usage_in(response) or absent
        if reason := text_of(details.get("reason")) or status:
            signals.append(Finish(reason))
        return [*signals, Terminator(DONE)]


_PARTS: dict[str, tuple[Kind, str]] = {
    "text": ("text", "text"),
    "output_text": ("text", "text"),
    "audio": ("transcript", "transcript"),
    "output_audio": ("transcript", "transcript"),
}


def _parts_of(parts: list[Any]) -> list[tuple[Kind, str]]:
    """Texts of content parts with their kinds."""
    found: list[tuple[Kind, str]] = []
    for part in map(dict_of, parts):
        kind, member = _PARTS.get(text_of(part.get("type")), ("text", ""))
        if text := text_of(part.get(member)):
            found.append((kind, text))
    return found
