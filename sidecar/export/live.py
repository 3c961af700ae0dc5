"""The live state as JSON: what the page shows, without content."""

from itertools import islice

from sidecar.exchange import Exchange
from sidecar.export.hop import hop_object
from sidecar.export.labels import clean
from sidecar.export.observe import error_type
from sidecar.export.view import View
from sidecar.quirks.quirk import Severity
from sidecar.quirks.registry import BY_ID, worst
from sidecar.stream.hop import Hop
from sidecar.stream.summary import Summary

_SHOWN = 500


def exchanges_in_flight(view: View) -> list[dict[str, object]]:
    """Exchanges in flight, the most silent first."""
    now = view.clock()
    silent = islice(sorted(view.exchanges(), key=lambda each: each.stream.progress.last or 0), _SHOWN)
    return [live_row(view, exchange, now) for exchange in silent]


def live_row(view: View, exchange: Exchange, now: int) -> dict[str, object]:
    """One exchange in flight. `now` in nanoseconds on the clock of the records."""
    stream, progress = exchange.stream, exchange.stream.progress
    phase = progress.phase()
    silence = progress.silence(now)
    row: dict[str, object] = {
        "id": exchange.opened.id,
        "dialect": exchange.row.name,
        "model": clean(exchange.request.model or stream.identity.model or ""),
        "server": f"{clean(exchange.opened.host)}:{exchange.opened.port}",
        "phase": phase,
        "stalled": view.stalls.is_stalled(exchange.request.model, phase, silence),
        "silence_seconds": round(silence / 1e9, 3),
        "age_seconds": round((now - exchange.opened.at) / 1e9, 3),
        "output_chunks": stream.output_chunks,
        "bytes": exchange.body.size if exchange.body is not None else 0,
        "heartbeats": stream.heartbeats,
        "output_tokens": stream.usage.counts.get("output") or None,
    }
    if exchange.t0 is not None and stream.first_output_at is not None:
        row["first_token_seconds"] = round(max(stream.first_output_at - exchange.t0, 0) / 1e9, 6)
    return row


def open_sockets(view: View) -> list[dict[str, object]]:
    """WebSockets that are open, the oldest first. Where one of an unknown dialect leads is not told."""
    now = view.clock()
    return [
        {
            "id": session.opened.id,
            "dialect": session.row.name,
            "model": clean(session.model or ""),
            "server": f"{clean(session.opened.host)}:{session.opened.port}" if session.known else "",
            "age_seconds": round((now - session.head.at) / 1e9, 3),
            "quiet_seconds": round((now - session.last_at) / 1e9, 3),
            "in_flight": len(session.turns),
            "responses": session.counts.responses,
            "messages": session.counts.server_messages + session.counts.client_messages,
        }
        for session in islice(view.sockets(), _SHOWN)
    ]


def recent_exchanges(view: View) -> list[dict[str, object]]:
    """Exchanges that ended, the latest first."""
    return [ended_row(summary, view.hops.get(summary.id)) for summary in reversed(list(view.recent()))]


def ended_row(summary: Summary, hop: Hop | None) -> dict[str, object]:
    """One exchange that is over."""
    failure = error_type(summary)
    row: dict[str, object] = {
        "id": summary.id,
        "dialect": summary.dialect,
        "provider": summary.provider,
        "model": clean(summary.request_model or summary.response_model or ""),
        "server": f"{clean(summary.server_address)}:{summary.server_port}",
        "outcome": summary.outcome,
        "error_type": None if failure is None else clean(failure),
        "terminator": summary.terminator,
        "finish_reason": None if summary.finish_reason is None else clean(summary.finish_reason),
        "milestones_seconds": {name: round(at, 6) for name, at in summary.milestones.items()},
        "output_chunks": summary.output_chunks,
        "usage": summary.usage,
        "tool_calls": [call.verdict for call in summary.tool_calls],
        "buffering": summary.buffering.verdict,
        "quirks": list(summary.quirks),
        "worst_quirk": worst(summary.quirks),
        "notable_quirks": [quirk for quirk in summary.quirks if BY_ID[quirk].severity != Severity.INFO],
        "usage_state": summary.usage_state,
        "ended_wall_seconds": round((summary.wall_ns + summary.ended_at - summary.opened_at) / 1e9, 3),
    }
    if hop is not None:
        row["hop"] = hop_object(hop)
    return row
