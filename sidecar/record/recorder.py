"""What of the traffic is recorded: follows each exchange beside the analyzer, and hands on those that are wanted."""

from collections.abc import Callable
from time import monotonic_ns

from sidecar import metrics as m
from sidecar.capture.records import AnyRecord, Ended, Health, Opened
from sidecar.dialects import socket_table
from sidecar.dialects.request import Head
from sidecar.export.series import Series
from sidecar.headers import lower
from sidecar.record.draft import Draft
from sidecar.record.writer import Writer
from sidecar.stream.summary import Summary

type Wanted = Callable[[Summary | Draft], bool]
"""Whether an exchange is to be recorded: by its summary, or, of a WebSocket without any response, by what came of it."""


class Recorder:
    """Keeps the records of exchanges in flight, at most `exchange_bytes` of each and `memory_bytes` in all.

    An exchange is written when it is over, if `wanted` says so of it, or of one of the responses in a WebSocket. One of
    which telemetry was dropped cannot be told whole and is not written. Methods are called from the event loop.
    """

    def __init__(
        self,
        writer: Writer,
        wanted: Wanted,
        *,
        exchange_bytes: int,
        memory_bytes: int,
        clock: Callable[[], int] = monotonic_ns,
    ) -> None:
        self._writer = writer
        self._wanted = wanted
        self._exchange_bytes = exchange_bytes
        self._memory_bytes = memory_bytes
        self._clock = clock
        self._drafts: dict[tuple[int, int], Draft] = {}
        self._by_id: dict[str, Draft] = {}
        self._bytes = 0

    @property
    def held_bytes(self) -> int:
        """Bytes of memory in use, those that wait to be written included."""
        return self._bytes + self._writer.waiting_bytes

    def opened(self, connection: int, record: Opened) -> None:
        """An exchange that is followed."""
        self._settle(connection, record.stream)  # a number that is used again: whatever it was before is over
        draft = Draft(record)
        self._drafts[connection, record.stream] = draft
        self._by_id[record.id] = draft
        self._bytes += draft.size
        self._bound(draft)

    def take(self, connection: int, record: AnyRecord) -> None:
        """A further record, before the analyzer has read it."""
        draft = self._drafts.get((connection, record.stream))
        if draft is not None and not isinstance(record, (Opened, Health)):
            self._bytes += draft.add(record)
            self._bound(draft)

    def _bound(self, draft: Draft) -> None:
        if draft.dropped:
            return
        if draft.size > self._exchange_bytes:
            self._bytes -= draft.drop("too_large")
        elif self.held_bytes > self._memory_bytes:
            self._bytes -= draft.drop("memory")

    def judged(self, summary: Summary) -> None:
        """The verdict on an exchange, or on a response in a WebSocket."""
        draft = self._by_id.get(summary.socket or summary.id)
        if draft is not None and not draft.wanted:
            draft.wanted = self._wanted(summary)

    def read(self, connection: int, record: AnyRecord) -> None:
        """The analyzer has read a record and told its verdicts."""
        if isinstance(record, Ended):
            self._settle(connection, record.stream)

    def closed(self, connection: int | None = None) -> None:
        """A proxy went away, or all of them: what was in flight is recorded as far as it came."""
        now = self._clock()
        for key in [key for key in self._drafts if connection in (None, key[0])]:
            self._drafts[key].last_at = now
            self._settle(*key)

    def _settle(self, connection: int, stream: int) -> None:
        draft = self._drafts.pop((connection, stream), None)
        if draft is None:
            return
        self._bytes -= draft.size
        if self._by_id.get(draft.opened.id) is draft:
            del self._by_id[draft.opened.id]
        if draft.is_socket and not draft.wanted:
            # One that nobody follows is nobody's business; it was not copied either.
            draft.wanted = (bool(draft.messages) or _is_known(draft)) and self._wanted(draft)
        if not draft.wanted:
            return
        if draft.lost:
            self._writer.count("lost")
        elif draft.dropped:
            self._writer.count(draft.dropped)
        else:
            self._writer.offer(draft)

    def publish(self, series: Series) -> None:
        """Bring the metrics up to date; called at a scrape."""
        series.set(m.RECORDINGS, (), self._writer.written)
        for reason, count in self._writer.dropped().items():
            series.set(m.RECORDINGS_DROPPED, (reason,), count)
        series.set(m.RECORDING_HELD_BYTES, (), self.held_bytes)
        series.set(m.RECORDING_DISK_BYTES, (), self._writer.folder_bytes)

    def close(self, seconds: float) -> None:
        """Write what waits, for so long at most."""
        self.closed()
        self._writer.close(seconds)


def _is_known(draft: Draft) -> bool:
    """Whether the dialect of a WebSocket is known."""
    opened = draft.opened
    head = Head.of(opened.method, opened.host, opened.port, opened.target, lower(opened.headers))
    return socket_table.pick(head) is not None
