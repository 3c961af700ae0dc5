"""Gaps between output-bearing events: exact while they are few, folded into histogram buckets beyond a bound."""

from array import array
from bisect import bisect_right
from collections.abc import Sequence

BUCKETS = (
    0.0005,
    0.001,
    0.002,
    0.005,
    0.01,
    0.02,
    0.035,
    0.05,
    0.075,
    0.1,
    0.15,
    0.25,
    0.5,
    1,
    2.5,
    5,
    10,
    30,
    60,
    120,
)
"""Upper bounds in seconds; below 1 ms separates bursts, the top separates stalls (FIELD: gap buckets)."""

EXACT_LIMIT = 8192
_MICROSECOND = 1000
_SHORT = 1_000_000
_LARGEST = 2**32 - 1  # in microseconds: 71 minutes


class Gaps:
    """Gaps of one stream. At most `EXACT_LIMIT` are kept one by one, four bytes each, in microseconds."""

    __slots__ = ("_values", "count", "folded", "longest", "short", "total")

    def __init__(self) -> None:
        self._values = array("I")
        self.folded: list[int] | None = None
        self.count = 0
        self.longest = 0  # nanoseconds
        self.total = 0  # nanoseconds
        self.short = 0  # gaps below 1 ms

    def add(self, gap: int) -> None:
        """One gap in nanoseconds; zero is evidence and counts."""
        self.count += 1
        self.total += gap
        if gap > self.longest:
            self.longest = gap
        if gap < _SHORT:
            self.short += 1
        microseconds = gap // _MICROSECOND
        self._values.append(microseconds if microseconds <= _LARGEST else _LARGEST)
        if len(self._values) >= EXACT_LIMIT:
            self._fold()

    def extend(self, gaps: Sequence[int]) -> None:
        """Several gaps, as `add` takes them one by one."""
        if not gaps:
            return
        longest, many = max(gaps), len(gaps)
        if many + len(self._values) >= EXACT_LIMIT or longest >= _LARGEST * _MICROSECOND:
            for gap in gaps:
                self.add(gap)
            return
        self.count += many
        self.total += sum(gaps)
        if longest > self.longest:
            self.longest = longest
        if min(gaps) < _SHORT:
            self.short += sum(gap < _SHORT for gap in gaps)
        self._values.extend([gap // _MICROSECOND for gap in gaps])

    def _fold(self) -> None:
        counts = self.bucket_counts()
        self.folded = counts
        del self._values[:]

    @property
    def exact(self) -> bool:
        """Whether percentiles are exact; otherwise they are upper bounds of buckets."""
        return self.folded is None

    def bucket_counts(self) -> list[int]:
        """Gaps per bucket of `BUCKETS`, not cumulative, the last one beyond the largest bound."""
        values = sorted(self._values)
        counts = list(self.folded) if self.folded is not None else [0] * (len(BUCKETS) + 1)
        before = 0
        for position, bound in enumerate(BUCKETS):
            upto = bisect_right(values, int(bound * 1_000_000), before)
            counts[position] += upto - before
            before = upto
        counts[-1] += len(values) - before
        return counts

    def percentile(self, share: float) -> float | None:
        """Nearest-rank percentile in seconds; None without gaps. `share` between 0 and 1."""
        if not self.count:
            return None
        rank = max(1, -(-int(share * self.count * 1_000_000) // 1_000_000))
        if self.folded is None:
            return sorted(self._values)[min(rank, self.count) - 1] / 1e6
        seen = 0
        for bound, count in zip(BUCKETS, self.bucket_counts(), strict=False):
            seen += count
            if seen >= rank:
                return min(bound, self.longest / 1e9)
        return self.longest / 1e9

    def milliseconds(self) -> list[float]:
        """The gaps kept one by one, in order, in milliseconds."""
        return [value / 1000 for value in self._values]
