"""Which response of a WebSocket a message belongs to: messages in, moves out. Pure, one instance per socket.

A response of a socket is called a turn here, whoever speaks of a response, a turn or a stream on the wire. Turns are
numbered in the order in which they become known.
"""

import json
from typing import Any, Literal, Protocol

import msgspec
from msgspec import UNSET

from sidecar.dialects.envelope import HEARTBEATS, dict_of, list_of
from sidecar.dialects.request import Head, Request

TURNS_KEPT = 64
"""Turns of one socket that are followed at once; more are not asked for by any client that works."""
_OVER_KEPT = 256

Counted = Literal["heartbeats", "unknown_events", "go_away", "unattributed_errors"]


class Ask(msgspec.Struct, frozen=True):
    """A turn was asked for, or began.

    `source` is the message that t0 stands for, and `at` its time. Where no request was visible it is None, and `at`
    is when the turn showed first.
    """

    turn: int
    at: int
    source: str | None
    request: Request


class Part(msgspec.Struct, frozen=True):
    """The message belongs to this turn."""

    turn: int


class Over(msgspec.Struct, frozen=True):
    """The turn ended with this message."""

    turn: int
    lingers: bool = False
    """Whether something may still be said of it soon, such as its usage."""


class Missed(msgspec.Struct, frozen=True):
    """A turn ended whose beginning nobody saw, for messages had been lost: it was there, and has no verdict."""

    ask: Ask


class Beat(msgspec.Struct, frozen=True):
    """While the turn was in flight, something came that only keeps the connection open."""

    turn: int


class Wait(msgspec.Struct, frozen=True):
    """From here on nothing is due from the server until the client does its part, or an answer has been played."""

    turn: int


class Resume(msgspec.Struct, frozen=True):
    """The client did its part."""

    turn: int


class Count(msgspec.Struct, frozen=True):
    """The message concerns the socket."""

    what: Counted


type Move = Ask | Part | Over | Missed | Beat | Wait | Resume | Count


class Lanes(Protocol):
    """Tells turns apart. Exceptions are bugs: whatever the wire says has moves."""

    def client(self, data: bytes, at: int) -> list[Move]:
        """A message of the client."""

    def server(self, data: bytes, at: int) -> list[Move] | None:
        """A message of the server; None where it is no JSON."""

    def lose(self) -> None:
        """Messages were lost: no turn is known any more, and requests may have been missed."""


class JsonLanes[Event: msgspec.Struct]:
    """What sockets of JSON share. Subclasses give a decoder of the few members read, and the moves of an event."""

    shape: type[Event]
    decoder: msgspec.json.Decoder[Event]

    def __init__(self, head: Head) -> None:
        self.head = head
        self.lost = False
        """Whether messages were lost. From then on no request can be told from one that was missed: turns are known
        from their beginning on, and none has a t0."""
        self._turns = 0
        self._told = 0

    def lose(self) -> None:
        """Forget all turns: those known get no verdict, which is told of them by whoever follows them."""
        self._told = self.in_flight()
        self.lost = True
        self.forget()

    def in_flight(self) -> int:
        """How many turns are not over."""
        raise NotImplementedError

    def missed(self, at: int, request: Request) -> list[Move]:
        """What becomes of a turn that ends and was not followed, after messages were lost."""
        if self._told:
            self._told -= 1
            return []
        return [Missed(Ask(self._next(), at, None, request))]

    def forget(self) -> None:
        """Forget all turns that are not over."""
        raise NotImplementedError

    def client(self, data: bytes, at: int) -> list[Move]:
        event = self._decode(data)
        return [] if event is None or isinstance(event, str) else self.asked(event, data, at)

    def server(self, data: bytes, at: int) -> list[Move] | None:
        event = self._decode(data)
        if isinstance(event, str):
            return [Count("unknown_events")]
        return None if event is None else self.said(event, at)

    def asked(self, event: Event, data: bytes, at: int) -> list[Move]:
        """Moves of an event of the client's."""
        raise NotImplementedError

    def said(self, event: Event, at: int) -> list[Move]:
        """Moves of an event of the server's."""
        raise NotImplementedError

    def _decode(self, data: bytes) -> Event | Literal["no object"] | None:
        """The event; None where it is no JSON at all."""
        try:
            return self.decoder.decode(data)
        except msgspec.ValidationError:
            return "no object"
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            pass
        try:
            # Halves of surrogate pairs, which msgspec refuses, are let through.
            value = json.loads(data.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return None
        return msgspec.convert(value, self.shape) if isinstance(value, dict) else "no object"

    def _next(self) -> int:
        self._turns += 1
        return self._turns


class Finished:
    """Ids of responses that are over, the latest ones: what still comes of them opens no turn."""

    def __init__(self) -> None:
        self._ids: dict[str, None] = {}

    def add(self, response_id: str) -> None:
        """One is over."""
        self._ids[response_id] = None
        if len(self._ids) > _OVER_KEPT:
            del self._ids[next(iter(self._ids))]

    def __contains__(self, response_id: object) -> bool:
        return response_id in self._ids


def is_heartbeat(kind: Any, error: Any) -> bool:
    """Whether an event only keeps the connection open."""
    return isinstance(kind, str) and kind in HEARTBEATS and error in (UNSET, None)


def asked_of(head: Head, model: str | None, values: dict[str, Any]) -> Request:
    """The request for a turn, as far as its message and the session say; `values` in the names of OpenAI's APIs."""
    most = next((values[name] for name in _LIMITS if name in values), None)
    temperature = values.get("temperature")
    return Request(
        head,
        model=model,
        asked_stream=True,
        tools=len(list_of(values.get("tools"))),
        max_tokens=most if isinstance(most, int) and not isinstance(most, bool) else None,
        temperature=float(temperature) if isinstance(temperature, (int, float)) else None,
        body_parsed=True,
    )


_LIMITS = ("max_output_tokens", "max_response_output_tokens", "maxOutputTokens")


def metadata_of(value: Any) -> dict[str, Any]:
    """Metadata of a request or a response; empty where there is none."""
    return dict_of(dict_of(value).get("metadata"))
