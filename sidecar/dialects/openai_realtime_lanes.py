"""Which response of a Realtime socket an event belongs to, and when it was asked for.

Events of a response carry its id, but nothing ties `response.created` to the `response.create` before it: echoed
metadata does where the client gave any, else the order. Under a voice detector nobody asks: the server's commit of the
audio buffer, which ends the user's turn, is the nearest moment on the wire.
"""

from typing import Any

import msgspec
from msgspec import UNSET

from sidecar.dialects.envelope import dict_of, text_of
from sidecar.dialects.lanes import (
    TURNS_KEPT,
    Ask,
    Beat,
    Count,
    Finished,
    JsonLanes,
    Move,
    Over,
    Part,
    asked_of,
    is_heartbeat,
    metadata_of,
)
from sidecar.dialects.openai_realtime import DONE, OF_RESPONSES, OF_SESSIONS
from sidecar.dialects.request import Head, model_in_query

_OF_OTHERS = ("input_audio_buffer", "conversation_item", "item_", "session_", "response_cancel", "audio_", "truncate")
"""How the codes of errors begin that no `response.create` can cause."""


class Event(msgspec.Struct, gc=False):
    """The members that tell whose an event is; of both sides."""

    type: Any = UNSET
    event_id: Any = UNSET
    response_id: Any = UNSET
    response: Any = UNSET
    session: Any = UNSET
    error: Any = UNSET


class _Pending(msgspec.Struct, gc=False):
    """A request that no response has been tied to yet."""

    turn: int
    event_id: Any
    metadata: dict[str, Any]
    apart: bool
    """Whether its response is to stay out of the conversation."""


class RealtimeLanes(JsonLanes[Event]):
    """One socket."""

    shape = Event
    decoder = msgspec.json.Decoder(Event)

    def __init__(self, head: Head) -> None:
        super().__init__(head)
        self._session: dict[str, Any] = {}
        self._finished = Finished()
        self.forget()

    def forget(self) -> None:
        self._pending: list[_Pending] = []
        self._running: dict[str, int] = {}
        self._committed: int | None = None

    def in_flight(self) -> int:
        return len(self._running) + len(self._pending)

    def asked(self, event: Event, data: bytes, at: int) -> list[Move]:
        if event.type != "response.create" or self.lost or len(self._pending) >= TURNS_KEPT:
            return []
        values = dict_of(event.response)
        apart = values.get("conversation") == "none"
        if not apart:
            self._committed = None  # the client decides when to answer what was committed
        turn = self._next()
        self._pending.append(_Pending(turn, event.event_id, metadata_of(event.response), apart))
        return [self._ask(turn, at, "response.create", values)]

    def _ask(self, turn: int, at: int, source: str | None, values: dict[str, Any]) -> Ask:
        model = text_of(self._session.get("model")) or model_in_query(self.head)
        return Ask(turn, at, source, asked_of(self.head, model, {**self._session, **values}))

    def said(self, event: Event, at: int) -> list[Move]:
        kind = text_of(event.type)
        if is_heartbeat(kind, event.error):
            return [Count("heartbeats"), *(Beat(turn) for turn in self._in_flight())]
        if kind == "error":
            return self._error(dict_of(event.error))
        if kind in OF_SESSIONS:
            self._note(kind, event, at)
            return []
        moves: list[Move] = [] if kind in OF_RESPONSES else [Count("unknown_events")]
        response_id = text_of(event.response_id) or text_of(dict_of(event.response).get("id"))
        if not response_id or response_id in self._finished:
            return moves
        turn = self._running.get(response_id)
        if turn is None:
            if kind not in OF_RESPONSES or len(self._running) >= TURNS_KEPT:
                return moves
            if self.lost and kind != "response.created":  # began before
                if kind == DONE:
                    self._finished.add(response_id)
                    moves += self.missed(at, self._ask(0, at, None, {}).request)
                return moves
            ask, turn = self._begin(dict_of(event.response), kind, at)
            moves += ask
            self._running[response_id] = turn
        moves.append(Part(turn))
        if kind == DONE:
            del self._running[response_id]
            self._finished.add(response_id)
            moves.append(Over(turn))
        return moves

    def _in_flight(self) -> list[int]:
        return [*self._running.values(), *(pending.turn for pending in self._pending)]

    def _note(self, kind: str, event: Event, at: int) -> None:
        """What an event of the session tells about responses to come."""
        if kind == "input_audio_buffer.committed":
            self._committed = at
        elif kind in ("session.created", "session.updated") and isinstance(event.session, dict):
            read = ("model", "tools", "temperature", "max_output_tokens", "max_response_output_tokens")
            self._session |= {name: event.session[name] for name in read if name in event.session}

    def _begin(self, response: dict[str, Any], kind: str, at: int) -> tuple[list[Move], int]:
        """A response shows for the first time: the request it answers, or what stands for one."""
        pending = self._match(response)
        if pending is not None:
            self._pending.remove(pending)
            return [], pending.turn
        turn = self._next()
        if self._committed is not None and not self.lost:
            ask = self._ask(turn, self._committed, "input_audio_buffer.committed", {})
            self._committed = None
        else:
            unprompted = kind == "response.created" and not self.lost
            ask = self._ask(turn, at, "response.created" if unprompted else None, {})
        return [ask], turn

    def _match(self, response: dict[str, Any]) -> _Pending | None:
        """The request of a response: by equal metadata, else the oldest one that could be it."""
        metadata = metadata_of({"metadata": response.get("metadata")})
        if metadata:
            for pending in self._pending:
                if pending.metadata == metadata:
                    return pending
        plain = [pending for pending in self._pending if not pending.metadata]
        conversation = response.get("conversation_id", UNSET)
        if conversation is not UNSET:
            apart = conversation is None
            fitting = [pending for pending in plain if pending.apart == apart]
            plain = fitting or ([] if self._committed is not None and not apart else plain)
        if plain:
            return plain[0]
        return None if self._committed is not None else next(iter(self._pending), None)

    def _error(self, error: dict[str, Any]) -> list[Move]:
        """An error ends the request that it names, or the newest one that is unanswered where it names none.

        All others the session survives; a response that runs ends with its `response.done`.
        """
        named = error.get("event_id")
        if named:
            rejected = next((pending for pending in self._pending if pending.event_id == named), None)
        elif text_of(error.get("code")).startswith(_OF_OTHERS):
            rejected = None
        else:
            rejected = next(reversed(self._pending), None)
        if rejected is None:
            return [Count("unattributed_errors")]
        self._pending.remove(rejected)
        return [Part(rejected.turn), Over(rejected.turn)]
