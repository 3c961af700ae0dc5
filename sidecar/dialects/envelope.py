"""What the events of many dialects share: the members by which one states an error, its type, or that it is none."""

from collections.abc import Callable
from typing import Any, ClassVar

import msgspec
from msgspec import UNSET

from sidecar.dialects.base import JsonDialect
from sidecar.dialects.signals import Annotation, KeepAlive, Signal
from sidecar.framing.frame import Frame

HEARTBEATS = frozenset({"ping", "keepalive", "keep-alive", "keep_alive", "heartbeat"})


class Envelope(msgspec.Struct, gc=False):
    """Members that tell an error from other events (`dialects.errors` reads it) and name the event's type."""

    type: Any = UNSET
    object: Any = UNSET
    error: Any = UNSET
    success: Any = UNSET


class EnvelopeDialect[Event: Envelope](JsonDialect[Event]):
    """A dialect whose errors, heartbeats and event types are told the same way; subclasses give `read_event`."""

    __slots__ = ()

    known: ClassVar[frozenset[str]] = frozenset()
    """Event types of the dialect; empty where it does not name them."""

    def read(self, event: Event, frame: Frame) -> list[Signal]:
        kind = event.type if isinstance(event.type, str) else frame.event
        if kind in HEARTBEATS and event.error is UNSET:
            return heartbeat()
        signals = self.stated_error(event, frame)
        if not signals and self.known and not self._is_known(kind, frame.event):
            signals.append(Annotation("unknown_event_type"))
        return signals + self.read_event(event, kind, frame)

    def read_event(self, event: Event, kind: str, frame: Frame) -> list[Signal]:
        """Signals of an event but for its error; `kind` is its type, "" where it names none."""
        raise NotImplementedError

    def _is_known(self, kind: str, name: str) -> bool:
        return all(not given or given in self.known for given in (kind, name))

    def stated_error(self, event: Event, frame: Frame) -> list[Signal]:
        """The error that an event states at its top level; empty where it states none."""
        named = frame.event == "error"
        if not (named or states_error(event)):
            return []
        return self.error_signals(self.loose(frame), named=named)


def states_error(event: Envelope) -> bool:
    """Whether an event looks like one that states an error; `dialects.errors` has the last word."""
    return bool(
        (event.error is not UNSET and event.error is not None)
        or event.type == "error"
        or event.object == "error"
        or event.success is False
    )


def type_begins(*prefixes: str) -> Callable[[dict[str, Any], str], bool]:
    """A sign for the table: the event's `type`, or its SSE name, begins with one of these."""

    def signs(event: dict[str, Any], name: str) -> bool:
        return text_of(event.get("type")).startswith(prefixes) or name.startswith(prefixes)

    return signs


def heartbeat() -> list[Signal]:
    """A JSON event that only keeps the connection open."""
    return [KeepAlive("json"), Annotation("json_heartbeat_event")]


def text_of(value: Any) -> str:
    """A text, or the empty string for whatever is none."""
    return value if isinstance(value, str) else ""


def dict_of(value: Any) -> dict[str, Any]:
    """An object, or an empty one for whatever is none."""
    return value if isinstance(value, dict) else {}


def list_of(value: Any) -> list[Any]:
    """A list, or an empty one for whatever is none."""
    return value if isinstance(value, list) else []
