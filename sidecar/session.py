"""One WebSocket from its upgrade to its close, and the exchanges in it: each response is one, with messages for reads."""

import msgspec

from sidecar.body import Body
from sidecar.capture.records import Chunk, Ended, Lost, Message, Opened, ResponseHead
from sidecar.dialects import socket_table
from sidecar.dialects.lanes import TURNS_KEPT, Ask, Beat, Count, Missed, Move, Over, Part, Resume, Wait
from sidecar.dialects.mend import mend
from sidecar.dialects.signals import InBandError
from sidecar.dialects.table import UNKNOWN, Row
from sidecar.exchange import Exchange
from sidecar.stream.session import Counts, SessionSummary
from sidecar.thresholds import Limits

CLEAN_CODES = (None, 1000, 1001, 1005)
"""Close codes by which a server says nothing of an error: normal, going away, none given."""

LINGERS = 2_000_000_000
"""Nanoseconds in which a turn that is over may still be spoken of."""


class Turn(Exchange):
    """One response of a socket. Its t0 is the message that asked for it, its body the messages that belong to it."""

    def __init__(self, socket: Opened, head: ResponseHead, ask: Ask, row: Row, limits: Limits) -> None:
        opened = msgspec.structs.replace(
            socket, id=f"{socket.id}.{ask.turn}", at=ask.at, wall_ns=socket.wall_ns + ask.at - socket.at
        )
        super().__init__(opened, limits)
        self.row = row
        self.socket = socket.id
        self.request = ask.request
        self.t0_source = ask.source
        self.t0 = None if ask.source is None else ask.at
        self.status = head.status
        self.body = Body(
            content_type="",
            content_encoding="",
            asked_stream=True,
            whole=False,
            messages=True,
            limit=limits.event_bytes,
        )
        self.stream.progress.head(ask.at)

    def broken_off(self, record: Ended) -> None:
        """The socket is closed before the turn was over; a close code that means an error is the turn's error."""
        stream = self.stream
        if record.kind == "eof" and record.code not in CLEAN_CODES and stream.error is None:
            stream.error = InBandError(record.error or f"closed with code {record.code}", str(record.code))
            stream.error_at = record.at
        self.ended(record)


class Session:
    """State of one socket. Methods take its records in their order and give the turns that are over by then.

    `turns` are those in flight. One that is over may linger for a moment, for what is still said of it.
    """

    def __init__(self, upgrade: Exchange, head: ResponseHead) -> None:
        self.opened = upgrade.opened
        self.head = head
        self.row = upgrade.row
        self.limits = upgrade.limits
        found = socket_table.pick(upgrade.head)
        self._lanes = None if found is None else found.lanes(upgrade.head)
        self.turns: dict[int, Turn] = {}
        self._lingering: dict[int, Turn] = {}
        self.model = upgrade.request.model
        self.counts = Counts()
        self.last_at = head.at
        """When the last message came."""
        self.refused = 0
        """Turns that were not followed, for there were too many at once."""
        self._begun: list[Turn] = []
        self._reading: int | None = None  # the turn whose message is being read
        if upgrade.lost is not None:
            self.lose(upgrade.lost)

    @property
    def known(self) -> bool:
        """Whether its dialect is known."""
        return self.row is not UNKNOWN

    def take_begun(self) -> list[Turn]:
        """The turns that have begun since the last call."""
        begun, self._begun = self._begun, []
        return begun

    def message(self, record: Message) -> list[Turn]:
        """One message."""
        counts = self.counts
        self.last_at = record.at
        if record.from_client:
            counts.client_messages += 1
        else:
            counts.server_messages += 1
            counts.binary_messages += not record.text
        counts.bytes += record.size
        lanes = self._lanes
        if lanes is None:
            return []
        over = self.settle(record.at)
        whole = record.size == len(record.data)
        data = record.data if whole else mend(record.data)
        moves = lanes.client(data, record.at) if record.from_client else lanes.server(data, record.at)
        if moves is None:
            counts.malformed_messages += record.text and whole
            return over
        for move in moves:
            self._make(move, data, record.at, over)
        return over

    def _make(self, move: Move, data: bytes, at: int, over: list[Turn]) -> None:
        if isinstance(move, Ask):
            self._open(move, over)
            return
        if isinstance(move, Count):
            setattr(self.counts, move.what, getattr(self.counts, move.what) + 1)
            return
        if isinstance(move, Missed):
            over.append(self._missed(move.ask))
            return
        turn = self.turns.get(move.turn) or self._lingering.get(move.turn)
        if turn is None:
            return
        if isinstance(move, Part):
            self._reading = move.turn
            turn.chunk(Chunk(turn.opened.stream, at, data))
            self._reading = None
        elif isinstance(move, Over):
            if self.turns.pop(move.turn, None) is not None:
                turn.ended(Ended(turn.opened.stream, at, "eof"))
                if move.lingers:
                    self._lingering[move.turn] = turn
                else:
                    over.append(turn)
        elif isinstance(move, Beat):
            turn.stream.keep_alive("json", at)
        elif isinstance(move, Wait):
            turn.stream.progress.wait()
        else:
            assert isinstance(move, Resume)
            turn.stream.resume(at)

    def _open(self, ask: Ask, over: list[Turn]) -> None:
        over += self._settled(list(self._lingering))  # from now on nothing is said of an earlier turn
        if len(self.turns) >= TURNS_KEPT:
            self.refused += 1
            return
        turn = self.turns[ask.turn] = Turn(self.opened, self.head, ask, self.row, self.limits)
        self._begun.append(turn)
        self.counts.responses += 1
        self.model = ask.request.model or self.model

    def _missed(self, ask: Ask) -> Turn:
        """A turn that was in flight when messages were lost, and that was not known then."""
        turn = Turn(self.opened, self.head, ask, self.row, self.limits)
        self._begun.append(turn)
        self.counts.responses += 1
        turn.mark_lost(Lost(turn.opened.stream, ask.at, 0, 0))
        turn.close(ask.at)
        return turn

    def settle(self, now: int) -> list[Turn]:
        """Turns that have lingered for long enough."""
        if not self._lingering:
            return []
        late = now - LINGERS
        return self._settled([number for number, turn in self._lingering.items() if (turn.ended_at or 0) <= late])

    def _settled(self, numbers: list[int]) -> list[Turn]:
        return [self._lingering.pop(number) for number in numbers]

    def failed(self, record: Lost) -> list[Turn]:
        """An exception came out of `message`. It costs the turn that was being read its verdict; where it was none, the
        socket is given up."""
        number, self._reading = self._reading, None
        turn = None if number is None else self.turns.pop(number, None) or self._lingering.pop(number, None)
        if turn is None:
            return self.give_up(record)
        turn.mark_lost(record)
        turn.give_up()
        turn.close(record.at)
        return [turn]

    def give_up(self, record: Lost) -> list[Turn]:
        """Nothing more is to be read of the socket: the turns in flight get no verdict."""
        self._lanes = None
        return self.lose(record)

    def lose(self, record: Lost) -> list[Turn]:
        """Messages were dropped on the way here: the turns in flight get no verdict, later ones no t0."""
        over = self._settled(list(self._lingering))
        for turn in self.turns.values():
            turn.mark_lost(record)
            turn.close(record.at)
            over.append(turn)
        self.turns.clear()
        if self._lanes is not None:
            self._lanes.lose()
        return over

    def ended(self, record: Ended) -> list[Turn]:
        """The socket is closed."""
        over = self._settled(list(self._lingering))
        for turn in self.turns.values():
            turn.broken_off(record)
            over.append(turn)
        self.turns.clear()
        return over

    def close(self, at: int) -> list[Turn]:
        """No more records come, although the socket is open."""
        over = self._settled(list(self._lingering))
        for turn in self.turns.values():
            turn.close(at)
            over.append(turn)
        self.turns.clear()
        return over

    def summary(self, provider: str, end: Ended | None) -> SessionSummary:
        """What is known of the socket; `end` is None while it is open, and where its end was not seen."""
        opened = self.opened
        return SessionSummary(
            id=opened.id,
            dialect=self.row.name,
            operation=self.row.operation,
            provider=provider,
            model=self.model,
            server_address=opened.host,
            server_port=opened.port,
            seconds=None if end is None else max(end.at - self.head.at, 0) / 1e9,
            close_code=None if end is None else end.code,
            close_reason="" if end is None else end.error,
            closed_by=None if end is None else _CLOSED_BY[end.kind],
            counts=self.counts,
        )


_CLOSED_BY = {"client_disconnect": "client", "eof": "server", "upstream_reset": "network", "upstream_failed": "network"}
