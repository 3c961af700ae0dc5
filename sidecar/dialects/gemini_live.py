"""Gemini's Live API: the turns of a model in a WebSocket, as AI Studio and Vertex AI serve it.

https://ai.google.dev/api/live, and `types.LiveServerMessage` of https://github.com/googleapis/python-genai. The server's
JSON comes in binary frames as well as in text frames. Nothing has an id: there is one turn at a time, it ends with
`turnComplete`, and what the client says meanwhile is answered by the next one. Under automatic voice detection the
request for a turn is not visible.
"""

from collections import deque
from typing import Any, ClassVar

import msgspec
from msgspec import UNSET, UnsetType

from sidecar.dialects.base import JsonDialect
from sidecar.dialects.envelope import dict_of, list_of, text_of
from sidecar.dialects.errors import is_failure
from sidecar.dialects.gemini import PartReader, Parts, usage_of
from sidecar.dialects.lanes import TURNS_KEPT, Ask, Count, JsonLanes, Move, Over, Part, Resume, Wait, asked_of
from sidecar.dialects.request import Head, Request
from sidecar.dialects.signals import Content, Finish, Signal, Terminator
from sidecar.framing.frame import Frame

_UNSPECIFIED = "TURN_COMPLETE_REASON_UNSPECIFIED"


class ServerContent(msgspec.Struct, gc=False, rename="camel"):
    model_turn: Parts | UnsetType | None = UNSET
    output_transcription: Any = UNSET
    interrupted: Any = UNSET
    generation_complete: Any = UNSET
    turn_complete: Any = UNSET
    turn_complete_reason: Any = UNSET


class Message(msgspec.Struct, gc=False, rename="camel"):
    server_content: ServerContent | UnsetType | None = UNSET
    tool_call: Any = UNSET
    usage_metadata: Any = UNSET
    error: Any = UNSET


_decoder = msgspec.json.Decoder(Message)


class GeminiLive(JsonDialect[Message]):
    """The messages of one turn."""

    name: ClassVar[str] = "gemini.live"
    terminators: ClassVar[frozenset[str]] = frozenset({"turnComplete"})
    shape = Message
    decode = staticmethod(_decoder.decode)

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self._parts = PartReader()
        self._finished = False

    def read(self, event: Message, frame: Frame) -> list[Signal]:
        signals: list[Signal] = []
        if event.error not in (UNSET, None):
            signals += self.error_signals(self.loose(frame))
        content = event.server_content
        if isinstance(content, ServerContent):
            self._output(content, signals)
        for call in list_of(dict_of(event.tool_call).get("functionCalls")):
            signals += self._parts.call(dict_of(call), 0)
        signals += usage_of(event.usage_metadata)
        if isinstance(content, ServerContent):
            self._flags(content, signals)
        return signals

    def _output(self, content: ServerContent, signals: list[Signal]) -> None:
        if isinstance(content.model_turn, Parts):
            for part in content.model_turn.parts or ():
                self._parts.read(part, 0, signals)
        if spoken := text_of(dict_of(content.output_transcription).get("text")):
            signals.append(Content("transcript", spoken, 0, len(spoken)))

    def _flags(self, content: ServerContent, signals: list[Signal]) -> None:
        """The reason for which the turn is complete, else the flag that came before `turnComplete`."""
        for flag, name in ((content.generation_complete, "generationComplete"), (content.interrupted, "interrupted")):
            if flag is True:
                signals.append(self._finish(name))
        if content.turn_complete is True:
            reason = text_of(content.turn_complete_reason)
            if reason and reason != _UNSPECIFIED:
                signals.append(self._finish(reason))
            signals.append(Terminator("turnComplete"))

    def _finish(self, reason: str) -> Finish:
        again, self._finished = self._finished, True
        return Finish(reason, failed=is_failure(reason), revises=again)


class Event(msgspec.Struct, gc=False, rename="camel"):
    """The members of the messages of both sides."""

    setup: Any = UNSET
    client_content: Any = UNSET
    realtime_input: Any = UNSET
    tool_response: Any = UNSET
    setup_complete: Any = UNSET
    server_content: Any = UNSET
    tool_call: Any = UNSET
    tool_call_cancellation: Any = UNSET
    usage_metadata: Any = UNSET
    go_away: Any = UNSET
    session_resumption_update: Any = UNSET
    voice_activity: Any = UNSET
    voice_activity_detection_signal: Any = UNSET
    error: Any = UNSET
    # As Google's Python SDK writes them.
    snake_content: Any = msgspec.field(name="client_content", default=UNSET)
    snake_input: Any = msgspec.field(name="realtime_input", default=UNSET)
    snake_response: Any = msgspec.field(name="tool_response", default=UNSET)


_KNOWN = Event.__struct_fields__
_OF_TURNS = frozenset({"modelTurn", "outputTranscription", "groundingMetadata", "urlContextMetadata"})
_FLAGS = ("interrupted", "generationComplete", "turnComplete")


class LiveLanes(JsonLanes[Event]):
    """One socket."""

    shape = Event
    decoder = msgspec.json.Decoder(Event)

    def __init__(self, head: Head) -> None:
        super().__init__(head)
        self._model: str | None = None
        self._settings: dict[str, Any] = {}
        self.forget()

    def forget(self) -> None:
        self._pending: deque[int] = deque()
        self._running: int | None = None
        self._last: int | None = None  # is over, and nothing was asked for since
        self._waits = False
        self._skip = self.lost
        """Whether the turn that runs began before messages were lost."""

    def in_flight(self) -> int:
        return len(self._pending) + (self._running is not None)

    def asked(self, event: Event, data: bytes, at: int) -> list[Move]:
        if isinstance(event.setup, dict):
            self._set_up(event.setup)
            return []
        if isinstance(event.tool_response, dict) or isinstance(event.snake_response, dict):
            self._waits = False
            return [] if self._running is None else [Resume(self._running)]
        content = dict_of(event.client_content) or dict_of(event.snake_content)
        source = _source(content, dict_of(event.realtime_input) or dict_of(event.snake_input))
        if source is None or self.lost or len(self._pending) >= TURNS_KEPT:
            return []
        turn = self._next()
        self._pending.append(turn)
        self._last = None
        return [self._ask(turn, at, source)]

    def _set_up(self, setup: dict[str, Any]) -> None:
        model = text_of(setup.get("model"))
        if model:
            self._model = model[model.rfind("models/") :] if model.startswith("projects/") else model
        config = setup.get("generationConfig", setup.get("generation_config"))
        self._settings = {**dict_of(config), "tools": setup.get("tools")}

    def _ask(self, turn: int, at: int, source: str | None) -> Ask:
        return Ask(turn, at, source, asked_of(self.head, self._model, self._settings))

    def said(self, event: Event, at: int) -> list[Move]:
        moves: list[Move] = []
        if all(getattr(event, member) is UNSET for member in _KNOWN):
            moves.append(Count("unknown_events"))
        if isinstance(event.go_away, dict):
            moves.append(Count("go_away"))
        content = dict_of(event.server_content)
        flags = [flag for flag in _FLAGS if content.get(flag) is True]
        output = _has_output(content) or isinstance(event.tool_call, dict)
        of_turn = bool(output or flags or _OF_TURNS & content.keys())
        failed = event.error not in (UNSET, None)
        if self._skip:
            self._skip = "turnComplete" not in flags
            return moves if self._skip else moves + self.missed(at, self._ask(0, at, None).request)
        turn = self._owner(at, moves, output=output) if of_turn or failed else None
        if turn is None:
            turn = self._owner_of_usage() if isinstance(event.usage_metadata, dict) else None
            if failed:
                moves.append(Count("unattributed_errors"))
            return moves if turn is None else [*moves, Part(turn), *self._wait(turn)]
        moves.append(Part(turn))
        if "turnComplete" in flags or failed:
            self._running, self._last, self._waits = None, turn, False
            return [*moves, Over(turn, lingers=True)]
        # The client has to run a tool, or the answer is generated and its playback is waited for.
        asks = isinstance(event.tool_call, dict) or "generationComplete" in flags
        self._waits = asks or (self._waits and not output)
        return [*moves, *self._wait(turn)]

    def _wait(self, turn: int) -> list[Move]:
        return [Wait(turn)] if self._waits and turn == self._running else []

    def _owner(self, at: int, moves: list[Move], *, output: bool) -> int | None:
        """The turn that runs, else the next one that was asked for, else one that nobody is seen to have asked for."""
        if self._running is None:
            if self._pending:
                self._running = self._pending.popleft()
            elif output:
                self._running = self._next()
                moves.append(self._ask(self._running, at, None))
        return self._running

    def _owner_of_usage(self) -> int | None:
        """Counts that stand alone are those of the turn that runs, of the one just over, or of the one to come."""
        if self._running is not None:
            return self._running
        return self._last if self._last is not None else next(iter(self._pending), None)


def _source(content: dict[str, Any], given: dict[str, Any]) -> str | None:
    """By what a message of the client's asks for a turn; None where it does not."""
    if content.get("turnComplete", content.get("turn_complete")) is True:
        return "clientContent"
    if given.get("activityEnd", given.get("activity_end")) is not None:
        return "activityEnd"
    return "realtimeInput.text" if text_of(given.get("text")) else None


def _has_output(content: dict[str, Any]) -> bool:
    if text_of(dict_of(content.get("outputTranscription")).get("text")):
        return True
    parts = list_of(dict_of(content.get("modelTurn")).get("parts"))
    return any(
        value
        for part in map(dict_of, parts)
        for name, value in part.items()
        if name not in ("thought", "thoughtSignature")
    )
