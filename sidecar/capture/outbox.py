"""Records on their way out of the proxy process: a bounded list that the tee appends to and the sender empties."""

from collections import deque
from collections.abc import Callable

from sidecar.capture.records import Opened, Record, ResponseHead

DEFAULT_LIMIT = 16 * 1024 * 1024
_CONTROL_RESERVE = 1024 * 1024
_CONTROL_SIZE = 1024
RECORD_OVERHEAD = 96
"""Bytes that a record is taken to occupy beside its payload."""

type Piece = tuple[str, int, int, bytes]
"""What a `Chunk` or `RequestBody` encodes to (cheaper to make on the hot path)."""
type Whole = tuple[str, int, int, bytes, bool, bool, int]
"""What a `Message` encodes to."""
type Item = Record | Piece | Whole


class Outbox:
    """At most `limit` bytes of records; control records (heads, ends, losses) may use a small reserve beyond it.

    `wake` is called when the first record comes into an empty outbox, for the sender to schedule its next batch.
    Used from one thread, the proxy's event loop.
    """

    __slots__ = ("_waiting", "dropped", "failures", "held", "limit", "records", "size", "tee", "wake")

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self.limit = limit
        self.size = 0
        self.records: deque[Item] = deque()
        self.held = 0
        """Bytes that taps hold back until it is known whether their exchange matters; what they hold in addition has to
        fit beside these and what waits here."""
        self.dropped = 0
        """Records dropped since the start."""
        self.failures = 0
        """Exceptions swallowed inside the tee since the start."""
        self.tee = TeeTimes()
        self.wake: Callable[[], None] | None = None
        self._waiting = False

    def put(self, item: Item, size: int) -> bool:
        """Append a payload record; False where there is no room, for the caller to mark its stream lost."""
        size += RECORD_OVERHEAD
        if self.size + size > self.limit:
            return False
        self.records.append(item)
        self.size += size
        if not self._waiting:
            self._notify()
        return True

    def hold(self, size: int) -> bool:
        """Take room for a payload that is held back; False where there is none."""
        if self.size + self.held + size + RECORD_OVERHEAD > self.limit:
            return False
        self.held += size + RECORD_OVERHEAD
        return True

    def let_go(self, pieces: int, size: int) -> None:
        """Give back the room of so many held payloads of so many bytes together."""
        self.held -= size + pieces * RECORD_OVERHEAD

    def put_control(self, record: Record) -> bool:
        """Append a head, an end or a loss; False (and counted) only where even the reserve is used up."""
        size = _occupied(record)
        if self.size + size > self.limit + _CONTROL_RESERVE:
            self.dropped += 1
            return False
        self.records.append(record)
        self.size += size
        if not self._waiting:
            self._notify()
        return True

    @property
    def has_room_for_an_end(self) -> bool:
        """Whether a loss and an end would be taken."""
        return self.size + 2 * _CONTROL_SIZE <= self.limit + _CONTROL_RESERVE

    def _notify(self) -> None:
        self._waiting = True
        if self.wake is not None:
            self.wake()

    def take(self, bytes_at_most: int) -> list[Item]:
        """The oldest records, up to so many bytes of them (but one at least, if there is any)."""
        records = self.records
        if self.size <= bytes_at_most:
            batch, self.size = list(records), 0
            records.clear()
            self._waiting = False
            return batch
        batch = []
        taken = 0
        while records and (not batch or taken < bytes_at_most):
            item = records.popleft()
            batch.append(item)
            taken += _occupied(item)
        self.size -= taken
        if not records:
            self._waiting = False
        return batch

    def keep(self, wanted: Callable[[Item], bool]) -> None:
        """Throw away the records that are not wanted (any more)."""
        self.records = deque(item for item in self.records if wanted(item))
        self.size = sum(_occupied(item) for item in self.records)
        if not self.records:
            self._waiting = False


def _occupied(item: Item) -> int:
    if isinstance(item, tuple):
        return RECORD_OVERHEAD + len(item[3])
    if not isinstance(item, (Opened, ResponseHead)):
        return _CONTROL_SIZE
    size = RECORD_OVERHEAD + sum(len(name) + len(value) for name, value in item.headers)
    return max(size + (len(item.target) if isinstance(item, Opened) else 0), _CONTROL_SIZE)


class TeeTimes:
    """How long sampled calls of the tee took, as histogram counts."""

    BOUNDS = (0.000001, 0.000002, 0.000004, 0.000008, 0.000016, 0.000064, 0.001, 0.01)
    """Upper bounds in seconds."""

    __slots__ = ("buckets", "count", "seconds")

    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0
        self.buckets = [0] * (len(self.BOUNDS) + 1)

    def add(self, nanoseconds: int) -> None:
        """One timed call."""
        seconds = nanoseconds / 1e9
        self.count += 1
        self.seconds += seconds
        position = 0
        for bound in self.BOUNDS:
            if seconds <= bound:
                break
            position += 1
        self.buckets[position] += 1
