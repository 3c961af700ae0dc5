"""Every attribute and event of our spans, declared once: name, type, meaning, source, and how it is read.

Names of OpenTelemetry's GenAI conventions (https://github.com/open-telemetry/semantic-conventions-genai, status
Development) are used where they exist; ours stand under `llm_stream.`. Times are seconds from t0, the moment at which
the last byte of the request was forwarded. What is absent on the wire is absent here.
"""

from collections.abc import Callable, Iterable
from typing import Any, Literal

import msgspec

from sidecar.exchange import Exchange
from sidecar.export import content
from sidecar.export.labels import clean
from sidecar.export.observe import error_type
from sidecar.quirks.quirk import SEVERITIES
from sidecar.quirks.registry import worst
from sidecar.stream.phases import PHASES
from sidecar.stream.summary import MILESTONES, Summary

Kind = Literal["string", "int", "double", "boolean", "string[]"]
type Value = str | int | float | bool | tuple[str, ...]


class Attribute(msgspec.Struct, frozen=True):
    """One attribute. `read` takes the summary of an exchange, `live` one in flight (pending spans)."""

    name: str
    kind: Kind
    meaning: str
    source: str
    read: Callable[[Summary], Any] | None = None
    live: Callable[[Exchange], Any] | None = None
    content: bool = False
    """Only with content capture."""


class Event(msgspec.Struct, frozen=True):
    """One kind of span event."""

    name: str
    meaning: str
    attributes: tuple[Attribute, ...] = ()


def _tokens(name: str) -> Callable[[Summary], Any]:
    return lambda summary: getattr(summary.tokens, name) if summary.tokens is not None else None


def _asked(name: str) -> Callable[[Summary], Any]:
    return lambda summary: summary.request.get(name)


_OUTPUT_OF = {"text_to_speech": "speech", "image_generation": "image"}
"""Operations whose output has but one type."""


def _output_type(summary: Summary) -> Any:
    return summary.request.get("output_type") or _OUTPUT_OF.get(summary.operation)


def _milestone(name: str) -> Callable[[Summary], Any]:
    return lambda summary: summary.milestones.get(name)


def _silence(phase: str) -> Callable[[Summary], Any]:
    return lambda summary: summary.silences.get(phase)


def _of_gaps(read: Callable[[Summary], Any]) -> Callable[[Summary], Any]:
    return lambda summary: read(summary) if summary.gaps.count else None


def _said(name: str) -> Callable[[Summary], Any]:
    return lambda summary: getattr(summary.request_content, name, None) or None


_REQUEST, _RESPONSE, _OURS = "request", "response", "derived"

ERROR_TYPE = "error.type"
WORST_SEVERITY = "llm_stream.worst_quirk_severity"

_FAILURE = Attribute(
    ERROR_TYPE,
    "string",
    "Of an exchange that failed: the provider's error type, else the HTTP status, else the cause or the outcome",
    _OURS,
    error_type,
)
REQUESTED: tuple[Attribute, ...] = (
    Attribute("gen_ai.operation.name", "string", "What the endpoint does: chat, text_completion, embeddings, …", "dialect", lambda s: s.operation, lambda e: e.row.operation),
    Attribute("gen_ai.provider.name", "string", "The provider, by host; of unknown hosts, what the endpoint speaks", "host, dialect", lambda s: s.provider),
    Attribute("gen_ai.request.model", "string", "Model asked for", _REQUEST, lambda s: s.request_model, lambda e: e.request.model),
    Attribute("gen_ai.request.stream", "boolean", "True where the answer was, or should have been, a stream", _REQUEST, lambda s: s.streaming or None, lambda e: e.asked_stream or None),
    Attribute("gen_ai.request.max_tokens", "int", "Most tokens to generate", _REQUEST, _asked("max_tokens")),
    Attribute("gen_ai.request.temperature", "double", "Temperature", _REQUEST, _asked("temperature")),
    Attribute("gen_ai.request.top_p", "double", "Nucleus sampling", _REQUEST, _asked("top_p")),
    Attribute("gen_ai.request.top_k", "int", "Top-k sampling; left out where it is no whole number", _REQUEST, lambda s: _whole(s.request.get("top_k"))),
    Attribute("gen_ai.request.seed", "int", "Seed", _REQUEST, _asked("seed")),
    Attribute("gen_ai.request.stop_sequences", "string[]", "Sequences that end the generation", _REQUEST, _asked("stop_sequences")),
    Attribute("gen_ai.request.choice.count", "int", "Choices asked for, where it is not 1", _REQUEST, lambda s: None if s.request.get("choice_count") == 1 else s.request.get("choice_count")),
    Attribute("gen_ai.output.type", "string", "What was asked for, where the request or the endpoint says it: text, json, image, speech", _REQUEST, _output_type),
    Attribute("gen_ai.conversation.id", "string", "Conversation or thread that the request names", _REQUEST, _asked("conversation_id")),
    Attribute("server.address", "string", "Host of the upstream", "connection", lambda s: s.server_address, lambda e: e.opened.host),
    Attribute("server.port", "int", "Port of the upstream", "connection", lambda s: s.server_port, lambda e: e.opened.port),
)  # fmt: skip
"""Of OpenTelemetry's conventions: what was asked, and where."""

ANSWERED: tuple[Attribute, ...] = (
    Attribute("http.response.status_code", "int", "HTTP status", _RESPONSE, lambda s: s.status),
    _FAILURE,
    Attribute("gen_ai.response.id", "string", "Id of the answer", _RESPONSE, lambda s: s.response_id),
    Attribute("gen_ai.response.model", "string", "Model that the answer names", _RESPONSE, lambda s: s.response_model),
    Attribute("gen_ai.response.finish_reasons", "string[]", "Raw finish reasons, one a choice", _RESPONSE, lambda s: s.finish_reasons or None),
    Attribute("gen_ai.response.time_to_first_chunk", "double", "Seconds to the first event with a payload", "clock", _milestone("first_event")),
    Attribute("gen_ai.usage.input_tokens", "int", "Input tokens, cached ones included", _RESPONSE, _tokens("input")),
    Attribute("gen_ai.usage.output_tokens", "int", "Output tokens, reasoning included", _RESPONSE, _tokens("output")),
    Attribute("gen_ai.usage.cache_read.input_tokens", "int", "Input tokens read from a cache", _RESPONSE, _tokens("cache_read")),
    Attribute("gen_ai.usage.cache_write.input_tokens", "int", "Input tokens written to a cache", _RESPONSE, _tokens("cache_write")),
    Attribute("gen_ai.usage.reasoning.output_tokens", "int", "Output tokens spent on reasoning", _RESPONSE, _tokens("reasoning")),
    Attribute("openai.response.service_tier", "string", "Service tier that the answer names", _RESPONSE, lambda s: s.service_tier),
    Attribute("openai.response.system_fingerprint", "string", "Fingerprint of the back end", _RESPONSE, lambda s: s.system_fingerprint),
)  # fmt: skip
"""Of OpenTelemetry's conventions: what came of it."""

EXCHANGE: tuple[Attribute, ...] = (
    Attribute("llm_stream.id", "string", "Id of the exchange, as on the live page", "proxy", lambda s: s.id, lambda e: e.opened.id),
    Attribute("llm_stream.dialect", "string", "API that was spoken", "request, response", lambda s: s.dialect, lambda e: e.row.name),
    Attribute("llm_stream.listener", "string", "The proxy's mode that took the request", "proxy", lambda s: s.listener or None, lambda e: e.opened.listener or None),
    Attribute("llm_stream.outcome", "string", "What became of the exchange; exactly one of the outcomes", _OURS, lambda s: s.outcome),
    Attribute("llm_stream.end", "string", "How the transport ended: eof, upstream_reset, upstream_failed, client_disconnect", "proxy", lambda s: s.end),
    Attribute("llm_stream.no_first_token", "string", "Why there is no first token", _OURS, lambda s: s.no_first_token),
    Attribute("llm_stream.lost.records", "int", "Records of this exchange that the sidecar dropped", "sidecar", lambda s: s.lost_records or None),
    Attribute("llm_stream.lost.bytes", "int", "Bytes in them", "sidecar", lambda s: s.lost_bytes or None),
)  # fmt: skip
"""Ours, known of every exchange."""

JUDGED: tuple[Attribute, ...] = (
    Attribute("llm_stream.end_phase", "string", "Phase in which it ended", _OURS, lambda s: s.end_phase),
    Attribute("llm_stream.terminator", "string", "The terminator that came", _RESPONSE, lambda s: s.terminator),
    Attribute("llm_stream.quirks", "string[]", "Ids of the quirks shown (docs/quirks.md)", _OURS, lambda s: s.quirks or None),
    Attribute(WORST_SEVERITY, "string", f"Worst severity among them: {', '.join(SEVERITIES)}", _OURS, lambda s: worst(s.quirks)),
    Attribute("llm_stream.buffering.verdict", "string", "Whether a hop held the stream back: none, coalesced, buffered, inconclusive", _OURS, lambda s: s.buffering.verdict if s.streaming else None),
    Attribute("llm_stream.buffering.why", "string", "What the verdict rests on, in a phrase", _OURS, lambda s: s.buffering.evidence.get("why") or None if s.streaming else None),
    *(
        Attribute(f"llm_stream.milestone.{name}", "double", f"Seconds to the milestone {name}; absent where it was not reached", "clock", _milestone(name))
        for name in MILESTONES
    ),
    Attribute("llm_stream.gap.count", "int", "Gaps between output-bearing events", "clock", _of_gaps(lambda s: s.gaps.count)),
    Attribute("llm_stream.gap.p50", "double", "Median gap in seconds", "clock", _of_gaps(lambda s: s.gaps.percentile(0.5))),
    Attribute("llm_stream.gap.p99", "double", "99th percentile of the gaps in seconds", "clock", _of_gaps(lambda s: s.gaps.percentile(0.99))),
    Attribute("llm_stream.gap.max", "double", "Longest gap in seconds", "clock", _of_gaps(lambda s: s.gaps.longest / 1e9)),
    Attribute("llm_stream.gap.exact", "boolean", "False where percentiles are upper bounds of buckets (very long streams)", "clock", _of_gaps(lambda s: s.gaps.exact)),
    Attribute("llm_stream.time_per_output_token", "double", "(last token - first token) / (output tokens - 1), seconds", _OURS, lambda s: s.time_per_output_token),
    *(
        Attribute(f"llm_stream.longest_silence.{phase}", "double", f"Longest time without progress in the phase {phase}, seconds", "clock", _silence(phase))
        for phase in PHASES
    ),
    Attribute("llm_stream.longest_byte_silence", "double", "Longest time without any byte of the response, seconds", "clock", lambda s: s.byte_silence or None),
    Attribute("llm_stream.stalls", "int", "Stalls: silences beyond the threshold of their phase", _OURS, lambda s: sum(s.stalls.values()) or None),
    Attribute("llm_stream.output_chunks", "int", "Events that brought output", _RESPONSE, lambda s: s.output_chunks, lambda e: e.stream.output_chunks),
    Attribute("llm_stream.text_chars", "int", "Characters of visible text of choice 0", _RESPONSE, lambda s: s.text_chars),
    Attribute("llm_stream.heartbeats", "int", "Comments, pings and JSON heartbeats", _RESPONSE, lambda s: s.heartbeats, lambda e: e.stream.heartbeats),
    Attribute("llm_stream.response_bytes", "int", "Bytes of the response body as they came over the wire", _RESPONSE, lambda s: s.response_bytes),
    Attribute("llm_stream.reads", "int", "Reads in which they came", "clock", lambda s: s.reads),
    Attribute("llm_stream.usage.state", "string", "reported, partial, missing (asked for, dropped), not_requested", _OURS, lambda s: s.usage_state),
    Attribute("llm_stream.usage.source", "string", "Where the token counts come from: reported, or partial where the stream broke off", _OURS, lambda s: s.usage_source),
    Attribute("llm_stream.tool_call.verdicts", "string[]", "Of each tool call: valid, invalid_arguments, incomplete", _OURS, lambda s: tuple(call.verdict for call in s.tool_calls) or None),
)  # fmt: skip
"""What the stream did, and what we make of it."""

_PHASE = Attribute(
    "llm_stream.phase", "string", "Phase the stream was in", _OURS, live=lambda e: e.stream.progress.phase()
)
PENDING: tuple[Attribute, ...] = (
    Attribute("llm_stream.pending", "boolean", "True: a marker of an exchange that is still in flight", "sidecar", live=lambda e: True),
    _PHASE,
)  # fmt: skip
"""Of pending spans only; besides, they have those of the attributes above that are known by then."""

CONTENT: tuple[Attribute, ...] = (
    Attribute("gen_ai.input.messages", "string", "Messages of the request, JSON", _REQUEST, _said("messages"), content=True),
    Attribute("gen_ai.system_instructions", "string", "Instructions beside the messages, JSON", _REQUEST, _said("system"), content=True),
    Attribute("gen_ai.tool.definitions", "string", "Tools offered to the model, JSON", _REQUEST, _said("tools"), content=True),
    Attribute("gen_ai.output.messages", "string", "The answer: reasoning, text, tool calls, JSON", _RESPONSE, content.output_messages, content=True),
    Attribute("llm_stream.content_truncated", "boolean", "True where captured content was cut to its bounds", "sidecar", content.truncated, content=True),
)  # fmt: skip
"""Only with content capture. Texts are bounded by `limits.text_chars`."""

STALL_DURATION = Attribute("llm_stream.stall.duration", "double", "How long it lasted, seconds", "clock")
ERROR_MESSAGE = Attribute("error.message", "string", "Message of the error", _RESPONSE, content=True)
FIRST_TOKEN = Event("first_token", "The first non-empty output of any kind")
FIRST_VISIBLE_TOKEN = Event("first_visible_token", "The same without reasoning")
STALL = Event("stall", "A silence beyond the threshold of its phase began", (_PHASE, STALL_DURATION))
ERROR = Event("error", "An error inside the stream", (_FAILURE, ERROR_MESSAGE))
EVENTS: tuple[Event, ...] = (FIRST_TOKEN, FIRST_VISIBLE_TOKEN, STALL, ERROR)

ALWAYS: tuple[Attribute, ...] = (*REQUESTED, *EXCHANGE)
"""All that is said of an exchange of which telemetry was lost."""
SPAN: tuple[Attribute, ...] = (*ALWAYS, *ANSWERED, *JUDGED)
KINDS: dict[str, Kind] = {
    row.name: row.kind for row in (*SPAN, *PENDING, *CONTENT, *(row for event in EVENTS for row in event.attributes))
}
"""Type of every attribute that there is, by name."""


def of_summary(rows: Iterable[Attribute], summary: Summary) -> dict[str, Value]:
    """The attributes that an exchange has."""
    found = ((row, row.read(summary)) for row in rows if row.read is not None)
    return {row.name: value for row, raw in found if (value := valid(row, raw)) is not None}


def of_exchange(rows: Iterable[Attribute], exchange: Exchange) -> dict[str, Value]:
    """The attributes that are known of an exchange in flight."""
    found = ((row, row.live(exchange)) for row in rows if row.live is not None)
    return {row.name: value for row, raw in found if (value := valid(row, raw)) is not None}


def valid(row: Attribute, raw: Any) -> Value | None:
    """A value in the form that OTLP can carry, whatever the wire said: one bad value would cost the whole batch."""
    if raw is None:
        return None
    if row.kind == "string":
        return str(raw).encode("utf-8", "replace").decode() if row.content else clean(str(raw))
    if row.kind == "string[]":
        return tuple(clean(str(one)) for one in raw)
    if row.kind == "int":
        return int(raw) if -(2**63) <= raw < 2**63 else None
    return float(raw) if row.kind == "double" else bool(raw)


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, float) and value.is_integer() else None
