"""One exchange while it is being recorded: its records as they came, in memory, within a bound."""

from copy import copy

from sidecar.capture.records import Chunk, Ended, Lost, Message, Opened, Record, RequestBody, RequestSent, ResponseHead
from sidecar.capture.tap import STOPPED
from sidecar.record.audio import without_audio

OVERHEAD = 200
"""Bytes that a record is taken to occupy beside its payload."""


class Said:
    """A message of a WebSocket as it is kept: without its audio."""

    __slots__ = ("at", "audio", "data", "from_client", "size", "text")

    def __init__(self, record: Message) -> None:
        self.at = record.at
        self.from_client = record.from_client
        self.text = record.text
        self.size = record.size
        self.data, self.audio = without_audio(record.data)

    def with_data(self, data: bytes) -> "Said":
        """The same with other bytes of the same length."""
        other = copy(self)
        other.data = data
        return other


class Draft:
    """Records in, in their order. `size` are the bytes it occupies, about."""

    __slots__ = (
        "_losses",
        "_records_lost",
        "body",
        "chunks",
        "dropped",
        "ended",
        "head",
        "last_at",
        "messages",
        "opened",
        "sent_at",
        "size",
        "wanted",
    )

    def __init__(self, opened: Opened) -> None:
        self.opened = opened
        self.body: list[bytes] = []
        self.sent_at: int | None = None
        self.head: ResponseHead | None = None
        self.chunks: list[tuple[int, bytes]] = []
        self.messages: list[Said] = []
        self.ended: Ended | None = None
        self.last_at = opened.at
        """When the latest record of it came, or the recording stopped."""
        self.wanted = False
        """Whether it is to be written."""
        self.dropped = ""
        """Why nothing more is kept of it."""
        self.size = 4 * OVERHEAD
        self._losses = 0
        self._records_lost = False

    @property
    def is_socket(self) -> bool:
        return self.head is not None and self.head.status == 101

    def add(self, record: Record) -> int:
        """Take one record; the bytes by which it grew."""
        self.last_at = record.at
        if isinstance(record, Lost):
            self._losses += 1
            self._records_lost = self._records_lost or record.records > 0
        elif isinstance(record, Ended):
            # The proxy ends what is in flight when it stops; where nothing was lost before, it was still going on.
            if self._losses and record.error == STOPPED:
                self._losses -= 1
            else:
                self.ended = record
        elif not self.dropped:
            grown = self._keep(record)
            self.size += grown
            return grown
        return 0

    @property
    def lost(self) -> bool:
        """Whether telemetry of it was dropped, so that it cannot be told whole."""
        return self._losses > 0 or self._records_lost

    def _keep(self, record: Record) -> int:
        if isinstance(record, Chunk):
            self.chunks.append((record.at, record.data))
            return len(record.data) + OVERHEAD
        if isinstance(record, Message):
            said = Said(record)
            self.messages.append(said)
            return len(said.data) + OVERHEAD
        if isinstance(record, RequestBody):
            self.body.append(record.data)
            return len(record.data) + OVERHEAD
        if isinstance(record, RequestSent):
            self.sent_at = record.at
        elif isinstance(record, ResponseHead):
            self.head = record
        return 0

    def drop(self, reason: str) -> int:
        """Let go of what was kept; the bytes that it had occupied."""
        freed, self.size = self.size, 0
        self.dropped = reason
        self.body, self.chunks, self.messages = [], [], []
        return freed
