"""OpenAI's Responses API inside a WebSocket: the events of the API, one per message, in lanes.

https://developers.openai.com/api/docs/guides/websocket-mode, and `responses_client_event.py`, `responses_server_event.py`
of https://github.com/openai/openai-python. Only some events name their response. A lane (`stream_id` of the request,
echoed in every event; none is a lane of its own) answers its requests one after the other, in their order.
"""

from typing import Any, ClassVar

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
    is_heartbeat,
)
from sidecar.dialects.openai_responses import OpenAIResponses
from sidecar.dialects.request import Head, Request, read_request


class OpenAIResponsesSocket(OpenAIResponses):
    """The events of one response."""

    name: ClassVar[str] = "openai.responses.ws"
    named_events: ClassVar[bool] = False


class Event(msgspec.Struct, gc=False):
    """The members that tell whose an event is; of both sides."""

    type: Any = UNSET
    stream_id: Any = UNSET
    response: Any = UNSET
    error: Any = UNSET
    status: Any = UNSET


class _Turn(msgspec.Struct, gc=False):
    number: int
    response_id: str = ""
    begun: bool = False
    """Whether the server has said anything of it."""


_BEGINNINGS = ("response.created", "response.queued", "response.in_progress")


class ResponsesLanes(JsonLanes[Event]):
    """One socket."""

    shape = Event
    decoder = msgspec.json.Decoder(Event)

    def __init__(self, head: Head) -> None:
        super().__init__(head)
        self._finished = Finished()
        self._lanes_echoed = False
        self.forget()

    def forget(self) -> None:
        self._lanes: dict[str, list[_Turn]] = {}
        self._failed = ("", 0)  # the latest response that an error ended; its own end may follow

    def in_flight(self) -> int:
        return len(self._in_flight())

    def asked(self, event: Event, data: bytes, at: int) -> list[Move]:
        if event.type != "response.create" or self.lost or len(self._in_flight()) >= TURNS_KEPT:
            return []
        turn = _Turn(self._next())
        self._lanes.setdefault(text_of(event.stream_id), []).append(turn)
        return [Ask(turn.number, at, "response.create", self._request(data))]

    def _request(self, data: bytes) -> Request:
        return msgspec.structs.replace(read_request(self.head, data), asked_stream=True)

    def said(self, event: Event, at: int) -> list[Move]:
        kind = text_of(event.type)
        lane = text_of(event.stream_id)
        self._lanes_echoed = self._lanes_echoed or bool(lane)
        if is_heartbeat(kind, event.error):
            turns = self._lanes.get(lane, []) if lane else self._in_flight()
            return [Count("heartbeats"), *(Beat(turn.number) for turn in turns)]
        if kind == "error":
            return self._error(event, lane)
        known = kind in OpenAIResponsesSocket.known
        moves: list[Move] = [] if known else [Count("unknown_events")]
        if not known and not kind.startswith("response."):
            return moves
        response_id = text_of(dict_of(event.response).get("id"))
        if response_id in self._finished:
            late = response_id == self._failed[0] and kind in OpenAIResponsesSocket.terminators
            return [*moves, Part(self._failed[1])] if late else moves
        turn = self._owner(lane, response_id)
        if turn is None:
            if self.lost and kind in OpenAIResponsesSocket.terminators:
                self._finished.add(response_id)
                return moves + self.missed(at, Request(self.head, asked_stream=True))
            if kind not in _BEGINNINGS or len(self._in_flight()) >= TURNS_KEPT:
                return moves
            if self.lost and kind != "response.created":  # began before
                return moves
            turn = self._unasked(lane, kind, at, moves)
        turn.begun = True
        turn.response_id = turn.response_id or response_id
        moves.append(Part(turn.number))
        if kind in OpenAIResponsesSocket.terminators:
            moves.append(self._over(turn))
        return moves

    def _unasked(self, lane: str, kind: str, at: int, moves: list[Move]) -> _Turn:
        """A response begins that nobody asked for on this socket, as far as is known."""
        turn = _Turn(self._next())
        self._lanes.setdefault(lane, []).append(turn)
        source = kind if kind == "response.created" and not self.lost else None
        moves.append(Ask(turn.number, at, source, Request(self.head, asked_stream=True)))
        return turn

    def _owner(self, lane: str, response_id: str) -> _Turn | None:
        """The turn of an event: by its response's id, else the running one of its lane, else the next in line."""
        turns = self._lanes.get(lane, [])
        if not turns and not self._lanes_echoed:
            turns = self._in_flight()  # the server may know no lanes
        if response_id:
            named = [turn for turn in turns if turn.response_id == response_id]
            return next(iter(named or [turn for turn in turns if not turn.response_id]), None)
        running = [turn for turn in turns if turn.begun]
        return running[-1] if running else next(iter(turns), None)

    def _in_flight(self) -> list[_Turn]:
        """All turns in the order in which they were asked for."""
        turns = [turn for queue in self._lanes.values() for turn in queue]
        return sorted(turns, key=lambda turn: turn.number)

    def _over(self, turn: _Turn, *, lingers: bool = False) -> Over:
        for lane, queue in list(self._lanes.items()):
            if turn in queue:
                queue.remove(turn)
                if not queue:
                    del self._lanes[lane]
        if turn.response_id:
            self._finished.add(turn.response_id)
        return Over(turn.number, lingers)

    def _error(self, event: Event, lane: str) -> list[Move]:
        """An error ends a request or a response of its lane. One without a lane answers the newest request of which
        nothing has come yet, else the response that runs without a lane, and never one in another lane."""
        queue = self._lanes.get(lane, [])
        running = [turn for turn in queue if turn.begun]
        waiting = [turn for turn in (queue if lane else self._in_flight()) if not turn.begun]
        rejected = bool(waiting) and (not lane or not running or isinstance(event.status, int))
        turn = waiting[-1] if rejected else running[-1] if running else None
        if turn is None:
            return [Count("unattributed_errors")]
        if turn.begun and turn.response_id:
            self._failed = (turn.response_id, turn.number)
        return [Part(turn.number), self._over(turn, lingers=turn.begun)]
