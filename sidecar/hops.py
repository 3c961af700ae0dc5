"""Which two exchanges are one stream, seen before and after a hop. Bounded in number and time, without a clock.

A pair is recognised by its response id, else by its trace, else by an equal request body. A false pair is worse than a
missed one, so each kind of evidence needs more: the two were seen in different places and went to different servers;
the inner one was opened while the outer one was in flight; nothing came out of the hop before it went in; and, the less
the evidence says, the more the answers have to agree. What could be paired in two ways is not paired, but counted.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Literal

import msgspec

from sidecar.stream.enclosing import Place, elsewhere, encloses, place, server
from sidecar.stream.hop import Evidence, Hop, compare
from sidecar.stream.summary import Summary

IN_FLIGHT_KEPT = 100_000
"""Exchanges in flight, at most."""
EXCHANGES_KEPT = 2048
"""Exchanges that are over and wait for their other side."""
KEPT_SECONDS = 600.0
"""How long they wait: a gateway may go on reading for minutes after its client has left."""

_STRENGTH: tuple[Evidence, ...] = ("response_id", "trace", "request")
_CROWD = 32  # exchanges under one key from which on it tells nothing apart
_IDS_KEPT = 4096
_KEPT_CHARS = 4096  # of each text of an exchange that is over
_LATE = 2_000_000_000  # nanoseconds by which the records of one proxy may lag behind those of another
_TEXTS = tuple(field.name for field in msgspec.structs.fields(Summary) if field.type in (str, str | None))

Unjoined = Literal["ambiguous", "evicted"]
type Shared = tuple[Evidence, str]


class _Entry(msgspec.Struct, eq=False):
    key: int
    opened_at: int
    place: Place
    shared: tuple[Shared, ...] = ()
    summary: Summary | None = None  # once it is over
    has_inner: bool = False
    has_outer: bool = False
    ambiguous: bool = False
    crowded: bool = False  # too many share its evidence to look through


class Pair(msgspec.Struct, frozen=True):
    """Two exchanges that are one stream."""

    key: int
    """Of the outer side."""
    outer: Summary
    """Without request content, long texts cut."""
    hop: Hop


class Hops:
    """Follows exchanges, each by a number of the caller's: `opened`, `requested`, and `ended` or `dropped`, once each.

    `unjoined` is told each exchange that found no partner although it may have one: several fit, or it had to make
    room. Times are nanoseconds of the records' clock.
    """

    def __init__(
        self,
        unjoined: Callable[[Unjoined, Summary], None],
        *,
        limit: int = EXCHANGES_KEPT,
        kept_seconds: float = KEPT_SECONDS,
        tolerance: int = 0,
    ) -> None:
        """`tolerance`: nanoseconds by which times may be off, where they were rounded."""
        self._unjoined = unjoined
        self._limit = limit
        self._kept = round(kept_seconds * 1e9)
        self._tolerance = tolerance
        self._live: OrderedDict[int, _Entry] = OrderedDict()
        self._over: deque[_Entry] = deque()
        self._groups: dict[Shared, dict[_Entry, None]] = {}
        self._ids: OrderedDict[tuple[object, ...], None] = OrderedDict()
        self._reused: OrderedDict[str, None] = OrderedDict()
        self._place: Place | None = None
        self._several = False

    def __len__(self) -> int:
        return len(self._live) + len(self._over)

    def opened(self, key: int, at: int, place: Place) -> None:
        """An exchange was opened."""
        self._place = self._place or place
        self._several = self._several or place != self._place or not place[1]
        self.dropped(key)
        self._live[key] = _Entry(key, at, place)
        if len(self._live) > IN_FLIGHT_KEPT:  # only a writer that opens the same exchange again and again gets here
            self.dropped(next(iter(self._live)))

    def requested(self, key: int, traceparent: str | None, body_digest: str) -> None:
        """Its request is complete."""
        entry = self._live.get(key)
        if entry is not None and not entry.shared:
            self._enter(entry, _shared_by_request(traceparent, body_digest))

    def dropped(self, key: int) -> None:
        """It is over and gets no verdict."""
        entry = self._live.pop(key, None)
        if entry is not None:
            self._leave(entry)

    def ended(self, key: int, summary: Summary) -> list[Pair]:
        """It is over: the pairs that can be told now."""
        entry = self._live.pop(key, None)
        if entry is None:
            return []
        if not self._several or summary.outcome == "lost":
            self._leave(entry)
            return []
        entry.summary = slim(summary)
        self._over.append(entry)
        if summary.response_id and len(summary.response_id) <= _KEPT_CHARS:
            self._note_id(summary.response_id, summary)
            self._enter(entry, (("response_id", summary.response_id),))
        pairs = [pair for outer in self._waiting(entry) if (pair := self._resolve(outer)) is not None]
        self._prune(summary.ended_at)
        return pairs

    def _enter(self, entry: _Entry, shared: Sequence[Shared]) -> None:
        entry.shared += tuple(shared)
        for each in shared:
            self._groups.setdefault(each, {})[entry] = None

    def _leave(self, entry: _Entry) -> None:
        for each in entry.shared:
            group = self._groups[each]
            del group[entry]
            if not group:
                del self._groups[each]

    def _note_id(self, id: str, summary: Summary) -> None:
        """An id that one place gets twice from one server names no stream: a cached answer, a fixed or a forged id."""
        seen = (*place(summary), *server(summary), id)
        if seen in self._ids:
            _remember(self._reused, id)
        _remember(self._ids, seen)

    def _prune(self, now: int) -> None:
        """Let go of those that no exchange in flight, or still on its way here, can belong to, and of the oldest."""
        oldest = next(iter(self._live.values())).opened_at if self._live else now
        horizon = max(min(oldest, now - _LATE), now - self._kept)
        while self._over:
            entry = self._over[0]
            assert entry.summary is not None
            waits = entry.summary.ended_at >= horizon
            if waits and len(self._over) <= self._limit:
                return
            self._over.popleft()
            self._leave(entry)
            if not (entry.has_inner or entry.has_outer) and (waits or entry.crowded):
                self._unjoined("evicted" if waits else "ambiguous", entry.summary)

    def _waiting(self, entry: _Entry) -> Iterator[_Entry]:
        """The exchange itself and those for which its end may decide something, as outer sides."""
        assert entry.summary is not None
        waiting = {entry: None}
        for each in entry.shared:
            group = self._groups[each]
            if len(group) <= _CROWD:
                waiting |= dict.fromkeys(other for other in group if _may_be_inside(entry.summary, other))
        return (outer for outer in waiting if not (outer.has_inner or outer.ambiguous))

    def _resolve(self, outer: _Entry) -> Pair | None:
        """Its inner side, if it is known which; nothing while one that is in flight may yet turn out to be it."""
        assert outer.summary is not None
        fitting: list[_Entry] = []
        for shared in self._by_strength(outer):
            evidence, group = shared[0], self._groups[shared]
            if len(group) > _CROWD:
                # Where the first of them are all at one place, no hop is there to be missed: somebody asks the same often.
                outer.crowded |= any(elsewhere(outer.place, entry.place) for entry in islice(group, _CROWD))
                continue
            found = self._inside(outer.summary, evidence, group)
            if fitting:
                found = [entry for entry in fitting if entry in found] or fitting
            if not found:
                continue
            if evidence != "response_id" and any(_pending(outer, entry) for entry in group):
                return None
            if len(found) == 1 and found[0].summary is not None:
                outer.has_inner = found[0].has_outer = True
                return Pair(outer.key, outer.summary, compare(outer.summary, found[0].summary, evidence))
            fitting = found
        if fitting:
            outer.ambiguous = True
            self._unjoined("ambiguous", outer.summary)
        return None

    def _by_strength(self, entry: _Entry) -> list[Shared]:
        telling = [each for each in entry.shared if each[0] != "response_id" or each[1] not in self._reused]
        return sorted(telling, key=lambda each: _STRENGTH.index(each[0]))

    def _inside(self, outer: Summary, evidence: Evidence, group: dict[_Entry, None]) -> list[_Entry]:
        """Those of a group that fit inside, without those that are inside another of them (a chain of hops)."""
        fits = {
            entry: entry.summary
            for entry in group
            if entry.summary is not None
            and not entry.has_outer
            and encloses(outer, entry.summary, evidence, self._tolerance)
        }
        return [
            entry
            for entry, inner in fits.items()
            if not any(encloses(between, inner, evidence, self._tolerance) for between in fits.values())
        ]


def _shared_by_request(traceparent: str | None, body_digest: str) -> list[Shared]:
    parts = (traceparent or "").split("-")
    found: list[Shared] = []
    if len(parts) >= 4 and len(parts[1]) == 32 and parts[1].strip("0"):
        found.append(("trace", parts[1].lower()))
    if body_digest:
        found.append(("request", body_digest))
    return found


def slim(summary: Summary) -> Summary:
    """What is kept for the comparison: no request content, long texts by their beginning."""
    cut: dict[str, object] = {
        name: value[:_KEPT_CHARS]
        for name in _TEXTS
        if (value := getattr(summary, name)) is not None and len(value) > _KEPT_CHARS
    }
    calls = tuple(msgspec.structs.replace(call, arguments=call.arguments[:_KEPT_CHARS]) for call in summary.tool_calls)
    return msgspec.structs.replace(summary, request={}, request_content=None, tool_calls=calls, **cut)


def _may_be_inside(inner: Summary, outer: _Entry) -> bool:
    return outer.summary is not None and outer.opened_at < inner.opened_at <= outer.summary.ended_at


def _pending(outer: _Entry, entry: _Entry) -> bool:
    """Whether an exchange in flight may turn out to be the inner side."""
    assert outer.summary is not None
    inside = outer.opened_at < entry.opened_at <= outer.summary.ended_at
    return entry.summary is None and inside and elsewhere(outer.place, entry.place)


def _remember[T](kept: OrderedDict[T, None], value: T) -> None:
    kept[value] = None
    kept.move_to_end(value)
    if len(kept) > _IDS_KEPT:
        kept.popitem(last=False)
