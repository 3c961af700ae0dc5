"""The live state as JSON: what the page shows, without content."""

from itertools import islice

from sidecar.export.hop import hop_object
from sidecar.export.labels import clean
from sidecar.export.observe import error_type
from sidecar.export.view import View
from sidecar.stream.hop import Hop
from sidecar.stream.summary import Summary

_SHOWN = 500


def exchanges_in_flight(view: View) -> list[dict[str, object]]:
    """Exchanges in flight, the most silent first."""
    now = view.clock()
    rows: list[dict[str, object]] = []
    for exchange in islice(sorted(view.exchanges(), key=lambda each: each.stream.progress.last or 0), _SHOWN):
        progress = exchange.stream.progress
        phase = progress.phase()
        silence = progress.silence(now) / 1e9
        rows.append(
            {
                "id": exchange.opened.id,
                "dialect": exchange.row.name,
                "model": clean(exchange.request.model or exchange.stream.identity.model or ""),
                "server": f"{clean(exchange.opened.host)}:{exchange.opened.port}",
                "phase": phase,
                "stalled": silence >= getattr(view.stalls.of(exchange.request.model), phase),
                "silence_seconds": round(silence, 3),
                "age_seconds": round((now - exchange.opened.at) / 1e9, 3),
                "output_chunks": exchange.stream.output_chunks,
                "bytes": exchange.body.size if exchange.body is not None else 0,
                "heartbeats": exchange.stream.heartbeats,
            }
        )
    return rows


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
    return [_row(summary, view.hops.get(summary.id)) for summary in reversed(list(view.recent()))]


def _row(summary: Summary, hop: Hop | None) -> dict[str, object]:
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
    }
    if hop is not None:
        row["hop"] = hop_object(hop)
    return row
