"""What the endpoints may see of the analyzer; `export` depends on this, not on the analyzer."""

from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec

from sidecar.exchange import Exchange
from sidecar.export.scoreboard import Scoreboard
from sidecar.session import Session
from sidecar.stream.hop import Hop
from sidecar.stream.phases import StallPolicy
from sidecar.stream.summary import Summary


class View(msgspec.Struct, frozen=True):
    """Read-only access to the live state."""

    exchanges: Callable[[], Collection[Exchange]]
    recent: Callable[[], Collection[Summary]]
    lag: Callable[[], float]
    clock: Callable[[], int]
    """Nanoseconds on the clock of the records."""
    stalls: StallPolicy
    ready_lag: float
    hops: Mapping[str, Hop] = {}
    """What hops did to recent streams, by the id of the exchange on the client's side."""
    sockets: Callable[[], Iterable[Session]] = tuple
    """WebSockets that are open."""
    proxies: Callable[[], int] = lambda: 0
    """How many proxies are connected."""
    scoreboard: Scoreboard = msgspec.field(default_factory=Scoreboard)
    """The latest exchanges by upstream."""
    told: Callable[[Summary], tuple[str, str]] = lambda summary: (summary.outcome, "")
    """How an exchange ended in words, and what to do about it."""
