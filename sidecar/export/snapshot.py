"""What the page is sent, of bounded size however much is in flight: the state now, and what has ended."""

import json
from collections import Counter
from heapq import nsmallest
from itertools import islice

from sidecar.exchange import Exchange
from sidecar.export.live import live_row, open_sockets, recent_exchanges
from sidecar.export.view import View

ROWS = 100
"""Exchanges in flight that are sent one by one, and recent ones; of more, only the number is."""
SOCKETS = 50


def live(view: View) -> str:
    """The state now. The stalled exchanges and the most silent of the others are sent, each with a strip of arrivals;
    in an order that does not change with every event: the stalled first, the oldest of each before the others."""
    now = view.clock()
    phases: Counter[str] = Counter()
    stalled = 0
    rated: list[tuple[bool, int, int, Exchange]] = []
    for number, exchange in enumerate(view.exchanges()):
        progress = exchange.stream.progress
        phase, silence = progress.phase(), progress.silence(now)
        hangs = view.stalls.is_stalled(exchange.request.model, phase, silence)
        phases[phase] += 1
        stalled += hangs
        rated.append((not hangs, -silence, number, exchange))
    shown = sorted(nsmallest(ROWS, rated), key=lambda each: (each[0], each[3].opened.at, each[2]))
    lag = view.lag()
    sockets = open_sockets(view)
    return json.dumps(
        {
            "lag_seconds": round(lag, 3),
            "behind": lag > view.ready_lag,
            "proxies": view.proxies(),
            "total": len(rated),
            "stalled": stalled,
            "phases": phases,
            "in_flight": [_row(view, exchange, now) for _, _, _, exchange in shown],
            "sockets": len(sockets),
            "websockets": sockets[:SOCKETS],
        }
    )


def _row(view: View, exchange: Exchange, now: int) -> dict[str, object]:
    return live_row(view, exchange, now) | {"strip": strip(exchange, now)}


def strip(exchange: Exchange, now: int) -> str:
    """Arrivals of the last seconds, one digit for each stretch of time, the latest last; 9 stands for more, too."""
    if exchange.body is None:
        return ""
    return "".join(str(min(count, 9)) for count in exchange.body.arrivals.strip(now))


def ended(view: View) -> str:
    """What has ended: the latest exchanges, and the scoreboard of upstreams."""
    return json.dumps({"recent": list(islice(recent_exchanges(view), ROWS)), "upstreams": view.scoreboard.rows()})
