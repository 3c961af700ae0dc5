"""From the state of an exchange to its immutable summary; pure."""

from sidecar.dialects.providers import provider_name
from sidecar.dialects.table import UNKNOWN
from sidecar.exchange import Exchange
from sidecar.quirks.quirk import Evidence
from sidecar.quirks.registry import detect
from sidecar.stream.buffering import Circumstances, judge
from sidecar.stream.causes import cause
from sidecar.stream.outcome import Ending, Outcome, decide
from sidecar.stream.summary import Summary, ToolCallSummary
from sidecar.stream.text import joined_pairs
from sidecar.stream.usage import Tokens, normalised
from sidecar.thresholds import QuirkThresholds

_CACHED_APART = frozenset({"anthropic.messages", "bedrock.converse", "bedrock.invoke"})
_ENDED_WELL: tuple[Outcome, ...] = ("complete", "no_terminator", "not_streamed")


def summarise(exchange: Exchange, thresholds: QuirkThresholds, providers: dict[str, str] | None = None) -> Summary:
    """The summary of an exchange that is over (or of a capture that stops while it is open)."""
    stream = exchange.stream
    ending = _ending(exchange)
    outcome = decide(ending)
    stream.tools.note_end(ended_well=ending.finish or ending.terminator or ending.whole)
    usage = stream.usage.merged()
    ended_at = exchange.ended_at if exchange.ended_at is not None else stream.progress.last or exchange.opened.at
    evidence = Evidence(
        notes=frozenset(
            stream.notes | stream.tools.notes | stream.usage.notes | (exchange.body.notes if exchange.body else set())
        ),
        dialect=exchange.row,
        request=exchange.request,
        stream=stream,
        body=exchange.body,
        response_headers=exchange.response_headers,
        status=exchange.status,
        ending=ending,
        outcome=outcome,
        t0=exchange.t0,
        ended_at=ended_at,
        usage=usage,
        thresholds=thresholds,
        timed=exchange.timed,
        document=exchange.document,
    )
    lost = outcome == "lost"
    request = exchange.request
    tokens = None if usage is None or lost else _tokens(exchange, usage)
    opened = exchange.opened
    milestones = {} if lost else _milestones(exchange, ended_at)
    error, error_type = _error(exchange, ending)
    return Summary(
        id=opened.id,
        wall_ns=opened.wall_ns,
        opened_at=opened.at,
        t0=exchange.t0,
        t0_source=exchange.t0_source,
        socket=exchange.socket,
        ended_at=ended_at,
        traceparent=exchange.head.headers.get("traceparent"),
        tracestate=exchange.head.headers.get("tracestate"),
        method=opened.method,
        path=exchange.head.path,
        dialect=exchange.row.name,
        operation=exchange.row.operation,
        provider=provider_name(opened.host, exchange.row.name, providers),
        request_model=request.model,
        response_model=stream.identity.model,
        response_id=stream.identity.id,
        server_address=opened.host,
        server_port=opened.port,
        listener=opened.listener,
        worker=opened.worker,
        client=opened.client,
        body_digest=exchange.body_digest,
        streaming=exchange.asked_stream or (evidence.streamed and exchange.row.stream_verdict),
        status=exchange.status,
        end=exchange.end,
        end_error=exchange.end_error,
        end_phase=exchange.end_phase,
        end_cause=cause(exchange.end_error) if exchange.end in ("upstream_reset", "upstream_failed") else None,
        byte_silence=exchange.byte_silence / 1e9,
        heartbeat_gaps=stream.heartbeat_gaps,
        outcome=outcome,
        terminator=None if exchange.is_error_status or ending.whole else stream.terminator,
        finish_reason=stream.finish_reason(),
        finish_reasons=tuple(stream.finish.values()),
        error=error,
        error_type=error_type,
        error_at=stream.error_at,
        quirks=detect(evidence),
        usage=None if lost else usage,
        usage_audio=None if lost or usage is None else dict(stream.usage.audio) or None,
        usage_source=None if usage is None or lost else "reported" if outcome in _ENDED_WELL else "partial",
        usage_state=_usage_state(exchange, usage, outcome),
        tokens=tokens,
        tool_calls=() if lost else _tool_calls(exchange, ending),
        heartbeats=stream.heartbeats,
        keepalives=dict(stream.keepalives),
        milestones=milestones,
        no_first_token=None if "first_token" in milestones else _why_no_token(exchange, ending, outcome),
        gaps=stream.gaps,
        arrivals=exchange.body.arrivals if exchange.body else None,
        time_per_output_token=None if lost else _time_per_output_token(exchange, tokens),
        silences={phase: silence / 1e9 for phase, silence in stream.progress.silences.items()},
        stalls={str(phase): count for phase, count in stream.progress.stalls.items()},
        stall_times=tuple(stream.progress.remembered),
        buffering=judge(exchange.body.arrivals if exchange.body else None, _circumstances(exchange, evidence, tokens)),
        output_chunks=stream.output_chunks,
        text_chars=stream.text.chars(),
        text=stream.text.text(None if "choice_index_unstable" in stream.notes else 0),
        reasoning_text=stream.reasoning.text(),
        transcript=stream.transcript.text(),
        request=_parameters(exchange),
        request_content=exchange.request_content,
        service_tier=stream.identity.service_tier,
        system_fingerprint=stream.identity.system_fingerprint,
        response_bytes=exchange.body.size if exchange.body else 0,
        reads=exchange.body.arrivals.reads if exchange.body else 0,
        lost_records=exchange.lost.records if exchange.lost else 0,
        lost_bytes=exchange.lost.bytes if exchange.lost else 0,
    )


def _circumstances(exchange: Exchange, evidence: Evidence, tokens: Tokens | None) -> Circumstances:
    stream = exchange.stream
    return Circumstances(
        t0=exchange.t0,
        streamed=evidence.streamed,
        timed=exchange.timed,
        lost=evidence.outcome == "lost",
        headers=exchange.response_headers,
        outputs=stream.output_chunks,
        first_output_at=stream.first_output_at,
        last_output_at=stream.last_output_at,
        gaps=stream.gaps,
        output_tokens=tokens.output if tokens else None,
        choices=min(exchange.request.n or 1, max(len(stream.finish), len(stream.text_choices))),
    )


def _ending(exchange: Exchange) -> Ending:
    stream = exchange.stream
    row = exchange.row
    dialect = exchange.dialect or row.dialect(exchange.request)
    return Ending(
        end=exchange.end,
        status=exchange.status,
        lost=exchange.lost is not None,
        error=stream.error is not None or stream.failed_finish is not None,
        terminator=stream.terminator is not None,
        finish=bool(stream.finish),
        output=stream.output_chunks > 0 or stream.output_size > 0,
        cut_off=stream.cut_off,
        whole=stream.whole,
        asked_stream=exchange.asked_stream,
        parsed=exchange.parsed and (row is not UNKNOWN or (stream.first_event_at is None and not stream.whole)),
        blocked="prompt_blocked" in stream.notes,
        has_terminators=bool(dialect.terminators) or (exchange.body is not None and exchange.body.is_array),
        has_finish=dialect.has_finish,
        in_socket=exchange.socket is not None,
    )


def _error(exchange: Exchange, ending: Ending) -> tuple[str | None, str | None]:
    """Message and type of the error that the body states; the failing finish reason where it states no other."""
    error = exchange.stream.error
    if error is not None:
        return error.message or error.type or "error", error.type
    return exchange.stream.failed_finish, None


def _milestones(exchange: Exchange, ended_at: int) -> dict[str, float]:
    """Seconds from t0 of the milestones that were reached; none without t0."""
    t0 = exchange.t0
    if t0 is None:
        return {}
    moments = reached(exchange) | ({"end": ended_at} if exchange.end != "open" else {})
    return {name: max(at - t0, 0) / 1e9 for name, at in moments.items()}


def reached(exchange: Exchange) -> dict[str, int]:
    """When the milestones before the end were reached, those that were; nanoseconds on the clock of the records."""
    stream = exchange.stream
    moments = {
        "headers": exchange.headers_at,
        "first_byte": exchange.first_byte_at,
        "first_event": stream.first_event_at,
        "first_token": stream.first_output_at,
        "first_visible_token": stream.first_visible_at,
        "first_audio": stream.first_audio_at,
        "last_token": stream.last_output_at,
        "terminator": stream.terminator_at,
    }
    return {name: at for name, at in moments.items() if at is not None}


def _why_no_token(exchange: Exchange, ending: Ending, outcome: Outcome) -> str:
    if outcome in ("complete", "no_terminator"):
        if ending.whole or not exchange.row.stream_verdict:
            return "not_streamed"
        return "no_t0" if exchange.stream.first_output_at is not None else "no_output"
    return outcome


def _tool_calls(exchange: Exchange, ending: Ending) -> tuple[ToolCallSummary, ...]:
    well = ending.finish or ending.terminator or ending.whole
    return tuple(
        ToolCallSummary(
            call.name,
            call.verdict(ended_well=well),
            call.arguments_valid(),
            call.chars,
            joined_pairs(call.arguments),
            call.id,
        )
        for call in exchange.stream.tools.calls
    )


def _tokens(exchange: Exchange, usage: dict[str, int]) -> Tokens:
    ledger = exchange.stream.usage
    return normalised(
        usage,
        cached_apart=exchange.row.name in _CACHED_APART or ledger.only_fallback,
        reasoning_apart=ledger.excludes_reasoning(),
    )


def _time_per_output_token(exchange: Exchange, tokens: Tokens | None) -> float | None:
    """(last token − first token) / (output tokens − 1), only with a reported count above one.

    Without the time in which the stream waited for its client.
    """
    first, last = exchange.stream.first_output_at, exchange.stream.last_output_at
    if tokens is None or tokens.output is None or tokens.output < 2 or first is None or last is None or last <= first:
        return None
    return (last - first - exchange.stream.waited) / 1e9 / (tokens.output - 1)


def _usage_state(exchange: Exchange, usage: dict[str, int] | None, outcome: Outcome) -> str:
    """`reported`, `partial` (the stream did not end well), `missing` (asked for, not delivered) or `not_requested`."""
    if usage is not None:
        return "reported" if outcome in _ENDED_WELL else "partial"
    return "missing" if exchange.request.include_usage and outcome in _ENDED_WELL else "not_requested"


def _parameters(exchange: Exchange) -> dict[str, object]:
    request = exchange.request
    named = {
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "top_k": request.top_k,
        "seed": request.seed,
        "output_type": request.output_type,
        "conversation_id": request.conversation_id,
        "stop_sequences": request.stop_sequences or None,
        "choice_count": request.n,
    }
    return {name: value for name, value in named.items() if value is not None}
