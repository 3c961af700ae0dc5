"""Retries: the same request of the same client, soon after it failed. Bounded, in memory only, without a clock."""

from collections import OrderedDict, deque
from typing import Literal

from sidecar.exchange import Exchange
from sidecar.stream.outcome import Outcome

After = Literal["before_first_token", "after_first_token"]
"""When the first attempt failed: only a failure before the first token can be retried without the user seeing it."""

FAILURES: frozenset[Outcome] = frozenset(
    ("error_event", "http_error", "upstream_reset", "upstream_failed", "truncated")
)

REQUESTS_KEPT = 4096
FAILURES_KEPT = 32
"""Of one request: clients that send the same thing many times at once fail many times at once."""

type Sent = tuple[str, str, str, int, str, str, str]
"""What makes two requests the same: client, listener, host, port, method, target, hash of the body."""


class Attempts:
    """Failures that a retry may follow. Each is answered by one retry at most, the oldest first.

    Times are nanoseconds of the records' clock.
    """

    def __init__(self, window: float, limit: int = REQUESTS_KEPT) -> None:
        """`window`: seconds after the failure in which the request must be repeated."""
        self._window = round(window * 1e9)
        self._limit = limit
        self._failed: OrderedDict[Sent, deque[tuple[int, After]]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._failed)

    def requested(self, exchange: Exchange, at: int) -> After | None:
        """A request is complete: what it retries, if anything."""
        sent = _sent(exchange)
        failures = None if sent is None else self._failed.get(sent)
        if sent is None or failures is None:
            return None
        while failures and at - failures[0][0] > self._window:
            failures.popleft()
        after = failures.popleft()[1] if failures else None
        if not failures:
            del self._failed[sent]
        return after

    def ended(self, exchange: Exchange, outcome: Outcome, at: int) -> None:
        """An exchange is over: if it failed, the same request from now on is a retry."""
        sent = _sent(exchange)
        if sent is None or outcome not in FAILURES:
            return
        after: After = "after_first_token" if exchange.stream.first_output_at is not None else "before_first_token"
        self._failed.setdefault(sent, deque(maxlen=FAILURES_KEPT)).append((at, after))
        self._failed.move_to_end(sent)
        if len(self._failed) > self._limit:
            self._failed.popitem(last=False)


def _sent(exchange: Exchange) -> Sent | None:
    """None where it cannot be told whether two requests are the same."""
    opened = exchange.opened
    if not opened.client or not exchange.body_digest:
        return None
    return (
        opened.client,
        opened.listener,
        opened.host,
        opened.port,
        opened.method,
        opened.target,
        exchange.body_digest,
    )
