"""The tee of a WebSocket: its messages, copied as they pass. As with other exchanges nothing here delays, changes or
raises; unlike them a socket lives for an hour, so that it outlasts a full outbox and the death of an analyzer."""

from time import monotonic_ns

from sidecar.capture.bounds import ERROR, fitted
from sidecar.capture.outbox import Outbox
from sidecar.capture.records import Ended, EndedKind, Lost, Opened, Record, ResponseHead
from sidecar.capture.tap import Tap

MESSAGE_COPY_LIMIT = 4 * 1024 * 1024
"""Bytes of a message that is copied whole."""
BEGINNING = 64 * 1024
"""Bytes that are copied of a longer one: what is read of it, the type and the ids, stands in front."""

_SAMPLE = 64  # one call in so many is timed


class SocketTap(Tap):
    """Copies one socket. Until `upgraded`, and if that never comes, it is an exchange like any other.

    Where messages had to be dropped, that is told before the next one, and copying goes on.
    """

    __slots__ = ("_copies", "_gap", "_head")

    def __init__(self, opened: Opened, outbox: Outbox, *, held: bool) -> None:
        self._copies = not held
        self._gap = False
        self._head: ResponseHead | None = None
        super().__init__(opened, outbox, held=held)

    @property
    def copies(self) -> bool:
        """Whether the messages are copied; of others it is only told that the socket was there."""
        return self._copies

    def upgraded(self, head: ResponseHead) -> None:
        """The server agreed: from now on there are messages."""
        if self.held:
            self.confirm()
        self._head = head
        self.response_head(head)

    def message(self, data: bytes, *, from_client: bool, text: bool) -> None:
        """One message, before it goes on."""
        try:
            if not self._copies:
                return
            at = monotonic_ns()
            size = len(data)
            piece = data if size <= MESSAGE_COPY_LIMIT else data[:BEGINNING]
            if (self._gap and not self._tell_gap(at)) or not self._outbox.put(
                ("m", self.stream, at, piece, from_client, text, size), len(piece)
            ):
                self._drop(size)
                return
            self._calls += 1
            if self._calls % _SAMPLE == 1:
                self._outbox.tee.add(monotonic_ns() - at)
        except BaseException:  # noqa: BLE001  # law 1: whatever goes wrong here, the message goes on
            self._outbox.failures += 1

    def _drop(self, size: int) -> None:
        self.lost = self._gap = True
        self._lost_records += 1
        self._lost_bytes += size
        self._outbox.dropped += 1

    def _tell_gap(self, at: int) -> bool:
        """Whether the loss could be told; only then may a message follow it."""
        self._gap = not self._outbox.put_control(Lost(self.stream, at, self._lost_records, self._lost_bytes))
        return not self._gap

    def closed(self, kind: EndedKind, code: int | None, reason: str) -> None:
        """The socket is closed; called once, instead of `end`."""
        at = monotonic_ns()
        if self._gap:
            self._tell_gap(at)
        self.ended = Ended(self.stream, at, kind, fitted(reason, ERROR), code)
        self.end_told = self._control(self.ended)

    def lose(self) -> None:
        """The analyzer died: the next one is told of the socket, and that it missed something of it."""
        self._gap = False
        super().lose()

    def obituary(self) -> tuple[Record, ...]:
        before = super().obituary()
        return before if self._head is None else (before[0], self._head, *before[1:])
