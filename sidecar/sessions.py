"""The WebSockets that the analyzer follows: their records, their gauges, and the counting of those that are closed."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain

from sidecar import metrics as m
from sidecar.capture.records import Ended, Lost, Message, ResponseHead
from sidecar.dialects.providers import provider_name
from sidecar.exchange import Exchange
from sidecar.export.labels import NONE, LabelValues
from sidecar.export.series import Series
from sidecar.session import Session, Turn

type Key = tuple[int, int]
"""Connection and stream number."""


class Sessions:
    """Follows sockets. Methods that take records give the responses that are over by then.

    `begun` is told each response in a socket that begins. A socket of an unknown dialect is counted without its
    address: whoever browses through the proxy is nobody's business.
    """

    def __init__(
        self, series: Series, values: LabelValues, providers: Mapping[str, str], begun: Callable[[Exchange], None]
    ) -> None:
        self._series = series
        self._values = values
        self._providers = providers
        self._begun = begun
        self._sessions: dict[Key, Session] = {}
        self._gauged: set[tuple[str, ...]] = set()

    def __len__(self) -> int:
        return sum(1 + len(session.turns) for session in self._sessions.values())

    def all(self) -> Iterable[Session]:
        """The sockets that are open."""
        return self._sessions.values()

    def turns(self) -> Iterator[Turn]:
        """The responses in flight in all sockets."""
        return chain.from_iterable(session.turns.values() for session in self._sessions.values())

    def opened(self, key: Key, upgrade: Exchange, head: ResponseHead) -> None:
        """A request became a WebSocket."""
        self._sessions[key] = Session(upgrade, head)

    def take(self, key: Key, record: Message | Lost | Ended) -> list[Turn]:
        """A record of a socket; of one that is not followed it is of no interest."""
        session = self._sessions.get(key)
        if session is None:
            return []
        if isinstance(record, Message):
            over = session.message(record)
            self._tell(session)
            return over
        if isinstance(record, Lost):
            return session.lose(record)
        del self._sessions[key]
        self._count(session, None if record.code is None else record)  # mitmproxy has a code for every close
        return session.ended(record)

    def _tell(self, session: Session) -> None:
        for turn in session.take_begun():
            self._begun(turn)
        if session.refused:
            self._series.add(m.STREAMS_LOST, ("analyzer_full",), session.refused)
            session.refused = 0

    def failed(self, key: Key, at: int) -> list[Turn]:
        """A stage raised."""
        session = self._sessions.get(key)
        return [] if session is None else session.failed(Lost(key[1], at, 1, 0))

    def settled(self, now: int) -> list[Turn]:
        """Responses of which no more is expected to be said."""
        return [turn for session in self._sessions.values() for turn in session.settle(now)]

    def abandon(self, now: int, connection: int | None = None) -> list[Turn]:
        """A proxy went away, or all of them: what was open there ends here, without a verdict."""
        over: list[Turn] = []
        for key in [key for key in self._sessions if connection in (None, key[0])]:
            session = self._sessions.pop(key)
            self._count(session, None)
            over += session.give_up(Lost(key[1], now, 0, 0))
        return over

    def _count(self, session: Session, end: Ended | None) -> None:
        """One that is closed; without `end` nothing is known of how."""
        summary = session.summary(provider_name(session.opened.host, session.row.name, self._providers), end)
        labels = self._labels(session)
        code = NONE if summary.close_code is None else self._values.close_code(summary.close_code)
        self._series.add(m.SESSIONS, (*labels, code, summary.closed_by or "unknown"))
        if summary.seconds is not None:
            self._series.observe(m.SESSION_SECONDS, labels, summary.seconds)

    def _labels(self, session: Session) -> tuple[str, ...]:
        opened, row = session.opened, session.row
        if not session.known:
            return (row.operation, row.name, NONE, NONE, NONE, row.name)
        provider = provider_name(opened.host, row.name, self._providers)
        return self._values.base(row.operation, provider, session.model, opened.host, opened.port, row.name)

    def refresh(self) -> None:
        """Bring the gauge up to date; called at a scrape."""
        open_now: dict[tuple[str, ...], int] = {}
        for session in self._sessions.values():
            labels = self._labels(session)
            open_now[labels] = open_now.get(labels, 0) + 1
        self._gauged.update(open_now)
        for labels in self._gauged:
            self._series.set(m.SESSIONS_IN_FLIGHT, labels, open_now.get(labels, 0))
