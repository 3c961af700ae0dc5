"""All exchanges that are being copied, from their opening until their end has been handed to the sender."""

from collections import deque
from collections.abc import Iterator

from sidecar.capture.outbox import Item, Outbox
from sidecar.capture.records import Ended, Opened
from sidecar.capture.sockets import SocketTap
from sidecar.capture.tap import Tap


class Capture:
    """Opens taps and remembers them for as long as the loss of the analyzer would lose them."""

    def __init__(self, outbox: Outbox) -> None:
        self.outbox = outbox
        self.streams_lost = 0
        self._taps: dict[int, Tap] = {}
        self._next = 0
        self._sent: deque[list[int]] = deque()  # of each batch on its way, the exchanges that end in it
        self._acknowledged = 0

    def next_stream(self) -> int:
        """A number for a new exchange."""
        self._next += 1
        return self._next

    def open(self, opened: Opened, *, held: bool) -> Tap:
        """Start copying an exchange."""
        tap = Tap(opened, self.outbox, held=held)
        self._taps[tap.stream] = tap
        return tap

    def open_socket(self, opened: Opened, *, held: bool) -> SocketTap:
        """The same for one that asks for a WebSocket; while it is `held`, only that it was there is told."""
        tap = SocketTap(opened, self.outbox, held=held)
        self._taps[tap.stream] = tap
        return tap

    def forget(self, tap: Tap) -> None:
        """An exchange turned out not to matter."""
        self._taps.pop(tap.stream, None)
        tap.release()

    def handed_over(self, items: list[Item]) -> None:
        """A batch of records was written. Exchanges that end in it are kept until the analyzer says that it has it."""
        self._sent.append([item.stream for item in items if isinstance(item, Ended)])

    @property
    def unacknowledged(self) -> int:
        """Batches that were written and may still be lost."""
        return len(self._sent)

    def acknowledged(self, batches: int) -> None:
        """The analyzer has so many batches, counted from its connection: the exchanges that end in them are done with."""
        while self._sent and self._acknowledged < batches:
            self._acknowledged += 1
            for stream in self._sent.popleft():
                tap = self._taps.pop(stream, None)
                if tap is not None and tap.lost:
                    self.streams_lost += 1

    def analyzer_gone(self) -> None:
        """The analyzer went away with what it knew: every exchange it may have heard of is lost.

        Exchanges whose opening still waits in the outbox are whole and stay. Of those whose end was on its way, some may
        have been counted already; what is counted twice is at most what came within one batch's time.
        """
        self._sent.clear()
        self._acknowledged = 0
        waiting = {item.stream for item in self.outbox.records if isinstance(item, Opened)}
        lost = [tap for tap in self._taps.values() if tap.stream not in waiting and not tap.held]
        gone = {tap.stream for tap in lost}
        self.outbox.keep(lambda item: _stream_of(item) not in gone)
        for tap in lost:
            tap.lose()

    def tell_ends(self) -> None:
        """Ends for which the outbox had no room are told once it has some, else the analyzer would wait for them for ever.

        Exchanges of which not even the opening found room are forgotten: nobody knows of them but the counter of drops.
        """
        for tap in [tap for tap in self._taps.values() if tap.ended is not None and not tap.end_told]:
            if not tap.announced:
                del self._taps[tap.stream]
                self.streams_lost += 1
            elif self.outbox.has_room_for_an_end:
                tap.tell_end()

    def live(self) -> Iterator[Tap]:
        """Exchanges that are not over."""
        return (tap for tap in self._taps.values() if tap.ended is None)


def _stream_of(item: Item) -> int:
    return item[1] if isinstance(item, tuple) else item.stream
