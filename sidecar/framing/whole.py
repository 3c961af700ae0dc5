"""A body that is one document: kept to its end, within a bound, and yielded as one frame."""

from collections.abc import Sequence

from sidecar.framing.frame import Frame, Notes

DEFAULT_LIMIT = 16 * 1024 * 1024


class WholeDecoder:
    """Bytes in, one Frame at the end. Over `limit` bytes the frame is without data and counted as oversized."""

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self.notes = Notes()
        self._limit = limit
        self._body = bytearray()
        self._size = 0
        self._started = 0
        self._at = 0

    @property
    def pending(self) -> bool:
        return False  # a document that comes in several reads is not an event cut in two

    def feed(self, chunk: bytes, at: int) -> Sequence[Frame]:
        """Take one read."""
        if chunk:
            self._started = self._started or at
            self._at = at
            self._size += len(chunk)
            if self._size <= self._limit:
                self._body += chunk
        return ()

    def close(self) -> Sequence[Frame]:
        """The whole body; `complete`, for only the body's end ends it."""
        if not self._size:
            return ()
        over = self._size > self._limit
        self.notes.oversized += over
        return (Frame(None if over else bytes(self._body), self._at, started=self._started, size=self._size),)
