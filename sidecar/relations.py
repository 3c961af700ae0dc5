"""Exchanges that belong together: a retry and what it repeats, the two sides of a hop. Found and counted as they come."""

import secrets
from collections import OrderedDict

from sidecar import metrics as m
from sidecar.attempts import After, Attempts
from sidecar.exchange import Exchange
from sidecar.export.labels import LabelValues
from sidecar.export.observe import observe_hop
from sidecar.export.series import Series
from sidecar.hops import Hops, Unjoined
from sidecar.stream.hop import Hop
from sidecar.stream.summary import Summary


class Relations:
    """Told of each exchange: `opened`, `requested` when its request is complete, then `ended` or `dropped`.

    `hops` holds the latest `recent` comparisons by the id of the exchange on the client's side.
    """

    def __init__(self, retry_window: float, recent: int, series: Series, values: LabelValues) -> None:
        """`retry_window`: seconds after a failure in which the same request again is a retry."""
        self.hops: OrderedDict[str, Hop] = OrderedDict()
        self.salt = secrets.token_bytes(32)
        """Under which request bodies are hashed: nobody can look a body up by its hash, not even by guessing."""
        self._recent = recent
        self._series = series
        self._values = values
        self._attempts = Attempts(retry_window)
        self._joining = Hops(self._count_unjoined)

    def opened(self, exchange: Exchange) -> None:
        """The request head came."""
        opened = exchange.opened
        self._joining.opened(id(exchange), opened.at, (opened.worker, opened.listener))

    def requested(self, exchange: Exchange, at: int) -> After | None:
        """The request is complete: what it retries, if anything."""
        self._joining.requested(id(exchange), exchange.head.headers.get("traceparent"), exchange.body_digest)
        return self._attempts.requested(exchange, at)

    def dropped(self, exchange: Exchange) -> None:
        """It gets no summary."""
        self._joining.dropped(id(exchange))

    def ended(self, exchange: Exchange, summary: Summary) -> None:
        """It is over."""
        self._attempts.ended(exchange, summary.outcome, summary.ended_at)
        for pair in self._joining.ended(id(exchange), summary):
            observe_hop(pair.hop, self._values.of_stream(pair.outer), self._series, self._values)
            self.hops[pair.outer.id] = pair.hop
            if len(self.hops) > self._recent:
                self.hops.popitem(last=False)

    def _count_unjoined(self, why: Unjoined, summary: Summary) -> None:
        self._series.add(m.HOP_UNJOINED, (why,))
