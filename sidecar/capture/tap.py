"""The tee: one exchange being copied. Its callables run in the proxy's event loop before the bytes go on, so they
read the clock, append and return; they cannot raise, for mitmproxy silently drops a chunk whose callable does."""

from time import monotonic_ns

from sidecar.capture.bounds import ERROR, fitted
from sidecar.capture.outbox import Item, Outbox, Piece, Whole
from sidecar.capture.records import Ended, EndedKind, Lost, Opened, Record, RequestSent, ResponseHead

REQUEST_COPY_LIMIT = 4 * 1024 * 1024
"""Bytes of a request body that are copied; what the observer reads of it stands in front or is found in these."""

STOPPED = "the proxy was stopped"
"""Error of the end of what was in flight when the proxy stopped: nobody's outcome."""

_SAMPLE = 64  # one call in so many is timed


class Tap:
    """Copies one exchange into the outbox.

    `held`: nothing goes out until `confirm`, because the request alone does not tell whether the exchange matters.
    A tap that found the outbox full is `lost`: it copies nothing more and says so at the end.
    """

    __slots__ = (
        "_body_at",
        "_calls",
        "_eof_at",
        "_held",
        "_lost_bytes",
        "_lost_records",
        "_outbox",
        "_request_room",
        "_sized",
        "announced",
        "end_told",
        "ended",
        "lost",
        "opened",
        "sent",
        "stream",
    )

    def __init__(self, opened: Opened, outbox: Outbox, *, held: bool) -> None:
        self.opened = opened
        self.stream = opened.stream
        self.lost = False
        self.sent = False
        self.ended: Ended | None = None
        self.announced = False
        """Whether the opening found room in the outbox; of another one the analyzer knows nothing."""
        self.end_told = False
        """Whether the end did; else the analyzer waits for it."""
        self._outbox = outbox
        self._held: list[tuple[Item, int]] | None = [] if held else None
        self._request_room = REQUEST_COPY_LIMIT
        self._lost_records = 0
        self._lost_bytes = 0
        self._sized = any(name == "content-length" for name, _ in opened.headers)
        self._body_at = 0
        self._eof_at = 0
        self._calls = 0
        self.announced = self._control(opened)

    @property
    def held(self) -> bool:
        return self._held is not None

    def request_chunk(self, data: bytes) -> bytes:
        """mitmproxy's `request.stream`: b"" says that the body is over and is about to be so for the upstream."""
        try:
            if not data:
                # With a length the last byte of the body was the last of the request; else its end mark is.
                self.request_sent(self._body_at if self._sized else 0)
                return data
            at = self._body_at = monotonic_ns()
            if self._request_room > 0 and not self.lost:
                piece = data if len(data) <= self._request_room else data[: self._request_room]
                self._request_room -= len(piece)
                self._payload(("b", self.stream, at, piece))
        except BaseException:  # noqa: BLE001  # law 1: whatever goes wrong here, the bytes go on
            self._outbox.failures += 1
        return data

    def request_sent(self, at: int = 0) -> None:
        """The last byte of the request is going out (t0), or went out before, `at` some time."""
        if not self.sent:
            self.sent = True
            self._control(RequestSent(self.stream, at or monotonic_ns()))

    def response_head(self, head: ResponseHead) -> None:
        """The response head came."""
        self._control(head)

    def response_chunk(self, data: bytes) -> bytes:
        """mitmproxy's `response.stream`. The hot path: a clock reading and an append."""
        try:
            at = monotonic_ns()
            if not data:
                self._eof_at = at
            elif not self.lost:
                self._payload(("c", self.stream, at, data))
                self._calls += 1
                if self._calls % _SAMPLE == 1:
                    self._outbox.tee.add(monotonic_ns() - at)
        except BaseException:  # noqa: BLE001  # law 1: whatever goes wrong here, the bytes go on
            self._outbox.failures += 1
        return data

    def end(self, kind: EndedKind, error: str = "", at: int = 0) -> None:
        """The exchange is over, or was so before, `at` some time; called once."""
        at = at or (self._eof_at if kind == "eof" and self._eof_at else monotonic_ns())
        self.ended = Ended(self.stream, at, kind, fitted(error, ERROR))
        if self.lost:
            self._control(Lost(self.stream, at, self._lost_records, self._lost_bytes))
        self.end_told = self._control(self.ended)

    def confirm(self) -> None:
        """The exchange matters: what was held goes out, and all that follows."""
        held = self.release()
        self._held = None
        for item, _size in held:
            if isinstance(item, Opened):
                self.announced = self._control(item)
            elif isinstance(item, Record):
                self._control(item)
            else:
                self._payload(item)

    def release(self) -> list[tuple[Item, int]]:
        """Hold nothing any more; what was held."""
        held = self._held or []
        sizes = [size for item, size in held if not isinstance(item, Record)]
        self._outbox.let_go(len(sizes), sum(sizes))
        if self._held is not None:
            self._held = []
        return held

    def lose(self) -> None:
        """Telemetry of this exchange is gone (the analyzer died): announce it anew, without a verdict to come."""
        self.lost = True
        opened, *others = self.obituary()
        self.announced = self._control(opened)
        told = [self._control(record) for record in others]
        self.end_told = self.ended is not None and all(told)

    def tell_end(self) -> None:
        """Once more, where there was no room for it."""
        if self.ended is not None:
            lost = Lost(self.stream, self.ended.at, self._lost_records, self._lost_bytes)
            self.end_told = self._control(lost) and self._control(self.ended)

    def obituary(self) -> tuple[Record, ...]:
        """What a new analyzer has to know of an exchange that an old one knew."""
        lost = Lost(self.stream, monotonic_ns(), self._lost_records, self._lost_bytes)
        return (self.opened, lost) if self.ended is None else (self.opened, lost, self.ended)

    def _control(self, record: Record) -> bool:
        """Whether there was room for it."""
        if self._held is not None:
            self._held.append((record, 0))
        elif not self._outbox.put_control(record):
            self.lost = True
            self._lost_records += 1
            return False
        return True

    def _payload(self, item: Piece | Whole) -> None:
        size = len(item[3])
        if self._held is not None:
            # Held pieces count against the same bound: a proxy full of uploads must not grow either.
            if self._outbox.hold(size):
                self._held.append((item, size))
        elif not self._outbox.put(item, size):
            self.lost = True
            self._lost_records += 1
            self._lost_bytes += size
            self._outbox.dropped += 1
