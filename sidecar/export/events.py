"""Server-sent events for the page: made once a second for all who listen, and not at all while nobody does."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from sidecar.export import snapshot
from sidecar.export.view import View

SUBSCRIBERS = 16
EVERY_SECONDS = 1.0
_RETRY = "retry: 1000\n"
"""How long a browser waits before it connects again, milliseconds."""
PATIENCE = 10
"""Events that a reader may leave unread before it is dropped."""


class Connection(Protocol):
    """Where a subscriber's events go."""

    async def send(self, event: str) -> None:
        """Write; done once the reader took it. Raises where it is gone."""

    def drop(self) -> None:
        """Close it."""


class _Subscriber:
    """One reader. No more than one write is outstanding: who is slow misses events, and is dropped in the end."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._writing: asyncio.Future[None] | None = None
        self._missed = 0
        self.version = -1
        """Of what it was sent last of the exchanges that ended."""

    def ready(self) -> bool:
        """Whether it took all it was sent."""
        if self._writing is None or self._writing.done():
            self._missed = 0
            return True
        self._missed += 1
        if self._missed > PATIENCE:
            self._connection.drop()
        return False

    def send(self, event: str) -> None:
        self._writing = asyncio.ensure_future(self._connection.send(event))
        self._writing.add_done_callback(_looked_at)


def _looked_at(writing: "asyncio.Future[None]") -> None:
    """A reader that left is no error; who asks for the exception keeps asyncio from logging it."""
    if not writing.cancelled():
        writing.exception()


class Events:
    """Sends the state to those who subscribed. Lives in the event loop."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._subscribers: dict[Connection, _Subscriber] = {}
        self._sending: asyncio.Task[None] | None = None

    def subscribe(self, connection: Connection) -> bool:
        """Send to it from now on, the whole state at once. False where there are too many."""
        if len(self._subscribers) >= SUBSCRIBERS:
            return False
        subscriber = self._subscribers[connection] = _Subscriber(connection)
        self._send([subscriber])
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._keep_sending())
        return True

    def leave(self, connection: Connection) -> None:
        """It is gone."""
        self._subscribers.pop(connection, None)

    def close(self) -> None:
        """Drop everyone."""
        for connection in list(self._subscribers):
            connection.drop()
        self._subscribers.clear()
        if self._sending is not None:
            self._sending.cancel()

    async def _keep_sending(self) -> None:
        while self._subscribers:
            await asyncio.sleep(EVERY_SECONDS)
            self._send([each for each in list(self._subscribers.values()) if each.ready()])

    def _send(self, subscribers: list[_Subscriber]) -> None:
        if not subscribers:
            return
        version = self._view.scoreboard.version
        live = _event("live", snapshot.live, self._view)
        ended = ""
        for subscriber in subscribers:
            event = live if subscriber.version >= 0 else _RETRY + live
            if subscriber.version != version:
                ended = ended or _event("ended", snapshot.ended, self._view)
                event = ended + event
                subscriber.version = version
            subscriber.send(event)


def _event(name: str, make: Callable[[View], str], view: View) -> str:
    return f"event: {name}\ndata: {make(view)}\n\n"
