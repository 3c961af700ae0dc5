"""When the events of a stream arrived, grouped: what buffering is judged by. Bounded."""

from array import array
from collections.abc import Sequence

GROUP_NS = 1_000_000
"""Events that arrive in one read, or within this many nanoseconds of the first of their group, form one group."""
GROUPS_KEPT = 2048
"""Groups kept one by one, eight bytes each: the start of a stream that has more. Its last group is always known."""

STRIP_CELLS = 48
CELL_NS = 250_000_000
"""How `strip` shows the last twelve seconds."""

_SIZES_KEPT = 64
_LARGEST = 2**32 - 1


class Arrivals:
    """Groups of events that arrived together. `at` are nanoseconds; decoded events count, not bytes."""

    __slots__ = (
        "_cell",
        "_cells",
        "_count",
        "_counts",
        "_start",
        "_starts",
        "_until",
        "events",
        "first",
        "groups",
        "last",
        "read_sizes",
        "reads",
    )

    def __init__(self) -> None:
        self.events = 0
        self.groups = 0
        self.first = 0
        self.last = 0
        self.reads = 0
        self.read_sizes: dict[int, int] = {}
        """Reads by their size in bytes as they came over the wire; the first sizes seen, at most 64."""
        self._starts = array("I")  # of each closed group, microseconds since the first event
        self._counts: array[int] | None = None  # None while each has one event
        self._start = 0  # of the group that is still open
        self._until = -1  # the last moment at which an event still belongs to it
        self._count = 0
        self._cells = array("I")  # events of the latest groups beyond those kept, a ring by `CELL_NS`
        self._cell = 0  # the cell that was last written

    def read(self, *many: int) -> None:
        """Reads of so many bytes each, as they came over the wire."""
        self.reads += len(many)
        sizes = self.read_sizes
        for size in many:
            if size in sizes:
                sizes[size] += 1
            elif len(sizes) < _SIZES_KEPT:
                sizes[size] = 1

    def add(self, count: int, *many: int) -> None:
        """`count` events completed by each of the reads at these times."""
        last, start, until, held, groups = self.last, self._start, self._until, self._count, self.groups
        for at in many:
            if at < last:
                at = last  # only in a capture edited by hand
            last = at
            if at <= until:
                held += count
                continue
            if groups == 0:
                self.first = at
            elif groups <= GROUPS_KEPT:
                since = (start - self.first) // 1000
                self._starts.append(since if since <= _LARGEST else _LARGEST)
                if self._counts is not None:
                    self._counts.append(held)
                elif held != 1:
                    self._counts = array("I", [1] * (len(self._starts) - 1) + [held])
            else:
                self._beyond(start, held)
            groups += 1
            start = at
            until = at + GROUP_NS
            held = count
        self.last, self._start, self._until, self._count, self.groups = last, start, until, held, groups
        self.events += count * len(many)

    def _beyond(self, start: int, count: int) -> None:
        """A group closes, and is not kept one by one."""
        cell = start // CELL_NS
        if not self._cells:
            self._cells = array("I", [0] * STRIP_CELLS)
            self._cell = cell
        if cell != self._cell:
            for passed in range(max(self._cell + 1, cell - STRIP_CELLS + 1), cell + 1):
                self._cells[passed % STRIP_CELLS] = 0
            self._cell = cell
        events = self._cells[cell % STRIP_CELLS] + count
        self._cells[cell % STRIP_CELLS] = events if events <= _LARGEST else _LARGEST

    def strip(self, now: int) -> list[int]:
        """Events that arrived in each of the last `STRIP_CELLS` stretches of `CELL_NS`, the latest last. `now` is in
        nanoseconds and lies in the last of them."""
        newest = now // CELL_NS
        oldest = newest - STRIP_CELLS + 1
        found = [0] * STRIP_CELLS
        for start, count in zip(reversed(self._starts), reversed(self._events_of_each()), strict=True):
            cell = (self.first + start * 1000) // CELL_NS
            if cell < oldest:
                break
            found[min(cell - oldest, STRIP_CELLS - 1)] += count
        if self._cells:
            for cell in range(max(oldest, self._cell - STRIP_CELLS + 1), min(newest, self._cell) + 1):
                found[cell - oldest] += self._cells[cell % STRIP_CELLS]
        if self.groups and self._start // CELL_NS >= oldest:
            found[min(self._start // CELL_NS - oldest, STRIP_CELLS - 1)] += self._count
        return found

    def _events_of_each(self) -> Sequence[int]:
        return self._counts if self._counts is not None else (1,) * len(self._starts)

    @property
    def span(self) -> int:
        """Nanoseconds from the first event to the last."""
        return self.last - self.first

    @property
    def complete(self) -> bool:
        """Whether `listed` has all groups."""
        return self.groups <= GROUPS_KEPT + 1

    @property
    def last_group(self) -> tuple[int, int]:
        """Start of the last group in nanoseconds of the clock, and its events."""
        return self._start, self._count

    def listed(self) -> list[tuple[float, int]]:
        """The groups kept, in order: milliseconds since the first event, and events."""
        groups = [(start / 1000, count) for start, count in zip(self._starts, self._events_of_each(), strict=True)]
        if self.groups and self.complete:
            groups.append(((self._start - self.first) / 1e6, self._count))
        return groups

    def modal_size(self) -> tuple[int, int]:
        """The commonest size of a read and how often it came; the largest of several equally common."""
        return max(
            ((size, count) for size, count in self.read_sizes.items()), key=lambda row: (row[1], row[0]), default=(0, 0)
        )
