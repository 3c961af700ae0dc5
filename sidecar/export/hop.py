"""What a hop did to a stream as JSON: the `hop` object of `inspect --json` and of the live API. Without content."""

from sidecar.export.labels import clean
from sidecar.stream.hop import Hop, Side


def hop_object(hop: Hop) -> dict[str, object]:
    """Milliseconds; `outer` is the client's side, `inner` the upstream's. Gaps are absent where there were none."""
    return {
        "joined_by": hop.evidence,
        "added_first_token_ms": _ms(hop.added_first_token),
        "request_delay_ms": _ms(hop.request_delay),
        "added_end_ms": _ms(hop.added_end),
        "gap_ratio": None if hop.gap_ratio is None else round(hop.gap_ratio, 4),
        "after_disconnect_ms": _ms(hop.after_disconnect),
        "changes": list(hop.changes),
        "quirks_added": list(hop.quirks_added),
        "quirks_removed": list(hop.quirks_removed),
        "outer": _side(hop.outer),
        "inner": _side(hop.inner),
    }


def _side(side: Side) -> dict[str, object]:
    found: dict[str, object] = {
        "id": side.id,
        "server": f"{clean(side.server_address)}:{side.server_port}",
        "dialect": side.dialect,
        "status": side.status,
        "outcome": side.outcome,
        "finish_reason": None if side.finish_reason is None else clean(side.finish_reason),
        "terminator": side.terminator,
        "buffering": side.buffering,
        "output_chunks": side.output_chunks,
        "text_chars": side.text_chars,
        "response_bytes": side.response_bytes,
        "reads": side.reads,
    }
    if side.gap_p50 is not None and side.gap_mean is not None and side.gaps_below_1ms is not None:
        found["gaps_ms"] = {"p50": _ms(side.gap_p50), "mean": _ms(side.gap_mean)}
        found["gaps_below_1ms"] = round(side.gaps_below_1ms, 3)
    return found


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)
