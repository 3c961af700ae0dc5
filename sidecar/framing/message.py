"""Messages of a WebSocket: each is a unit already, and is handed in whole."""

from collections.abc import Sequence

from sidecar.framing.frame import Frame, Notes


class MessageDecoder:
    """One message in, one Frame out. Over `limit` bytes the frame is without data and counted as oversized."""

    def __init__(self, limit: int) -> None:
        self.notes = Notes()
        self._limit = limit

    @property
    def pending(self) -> bool:
        return False

    def feed(self, chunk: bytes, at: int) -> Sequence[Frame]:
        """Take one message."""
        over = len(chunk) > self._limit
        self.notes.oversized += over
        return (Frame(None if over else chunk, at, started=at, size=len(chunk)),)

    def close(self) -> Sequence[Frame]:
        """A socket ends between messages."""
        return ()
