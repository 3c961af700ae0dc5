"""When the events of a stream arrived, grouped: what buffering is judged by. Bounded."""

from array import array

GROUP_NS = 1_000_000
"""Events within one read, or within this many nanoseconds of the one before, form one group."""
_GROUPS_KEPT = 4096


class Arrivals:
    """Groups of events that arrived together. `at` are nanoseconds; decoded events count, not bytes."""

    __slots__ = ("_last", "counts", "events", "first", "last", "overflow", "read_sizes", "reads", "starts")

    def __init__(self) -> None:
        self.events = 0
        self.first = 0
        self.last = 0
        self.starts = array("Q")  # of each group, nanoseconds since the first event
        self.counts = array("I")
        self.overflow = 0  # events in groups beyond those kept
        self.reads = 0
        self.read_sizes: dict[int, int] = {}
        self._last = -GROUP_NS

    def read(self, size: int) -> None:
        """One read of `size` bytes as they came over the wire."""
        self.reads += 1
        if size in self.read_sizes or len(self.read_sizes) < 64:
            self.read_sizes[size] = self.read_sizes.get(size, 0) + 1

    def add(self, count: int, at: int) -> None:
        """`count` events completed by the read at `at`."""
        if not self.events:
            self.first = at
            self._last = at - GROUP_NS - 1
        self.events += count
        self.last = at
        if at - self._last <= GROUP_NS and len(self.counts):
            self.counts[-1] += count
        elif len(self.counts) < _GROUPS_KEPT:
            self.starts.append(at - self.first)
            self.counts.append(count)
        else:
            self.overflow += count
        self._last = at

    @property
    def span(self) -> int:
        """Nanoseconds from the first event to the last."""
        return self.last - self.first
