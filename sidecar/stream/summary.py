"""What is known of one exchange when it is over: immutable, and all that any exporter reads."""

import msgspec

from sidecar.dialects.request_content import RequestContent
from sidecar.stream.arrivals import Arrivals
from sidecar.stream.buffering import Buffering
from sidecar.stream.gaps import Gaps
from sidecar.stream.outcome import EndKind, Outcome
from sidecar.stream.phases import Stall
from sidecar.stream.tools import Verdict
from sidecar.stream.usage import Tokens

MILESTONES = (
    "headers",
    "first_byte",
    "first_event",
    "first_token",
    "first_visible_token",
    "first_audio",
    "last_token",
    "terminator",
    "end",
)


class ToolCallSummary(msgspec.Struct, frozen=True):
    """One tool call. `arguments` is content."""

    name: str
    verdict: Verdict
    arguments_valid: bool
    arguments_chars: int
    arguments: str
    id: str = ""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """One exchange. Times are seconds from t0 (the last request byte forwarded) unless the name says otherwise.

    `error`, `text`, `reasoning_text`, `transcript`, `request_content` and the tool calls' arguments are content:
    exporters leave them out unless the operator asked for them.
    """

    id: str
    wall_ns: int
    """Unix nanoseconds at which the exchange was opened."""
    opened_at: int
    """The same on the proxy's monotonic clock, nanoseconds."""
    t0: int | None
    t0_source: str | None = None
    """The message of a WebSocket that t0 stands for; None outside of one, and where no request was visible."""
    socket: str | None = None
    """Id of the WebSocket in which it was one response."""
    ended_at: int
    traceparent: str | None
    tracestate: str | None
    method: str
    path: str
    dialect: str
    operation: str
    provider: str
    request_model: str | None
    response_model: str | None
    response_id: str | None
    server_address: str
    server_port: int
    listener: str
    worker: int = 0
    client: str = ""
    """Salted hash of the client's address, comparable within one worker; not for export."""
    body_digest: str = ""
    """Salted hash of the request body, empty where it is unknown; not for export."""
    streaming: bool
    """Whether the answer was, or should have been, a stream."""
    status: int | None
    end: EndKind
    end_error: str
    end_phase: str | None
    """The phase in which it ended."""
    end_cause: str | None
    """Error type of an end that the upstream or the network made; None for others."""
    byte_silence: float
    """Longest time without any byte of the response."""
    heartbeat_gaps: Gaps
    """Time between keep-alives."""
    outcome: Outcome
    terminator: str | None
    finish_reason: str | None
    finish_reasons: tuple[str, ...]
    error: str | None
    error_type: str | None
    error_at: int | None
    """When an error inside the stream came, on the proxy's monotonic clock, nanoseconds."""
    quirks: tuple[str, ...]
    usage: dict[str, int] | None
    usage_audio: dict[str, int] | None = None
    """How many of the tokens are audio: `input`, `output`, `cache_read`, as far as it was reported."""
    usage_source: str | None
    usage_state: str
    tokens: Tokens | None
    tool_calls: tuple[ToolCallSummary, ...]
    heartbeats: int
    keepalives: dict[str, int]
    milestones: dict[str, float]
    no_first_token: str | None
    """Why there is no first token: the outcome, or what kind of answer it was; None where there is one."""
    gaps: Gaps
    arrivals: Arrivals | None = None
    """When its events arrived; None where no body came."""
    time_per_output_token: float | None
    silences: dict[str, float]
    stalls: dict[str, int]
    stall_times: tuple[Stall, ...]
    """The first of them."""
    buffering: Buffering
    output_chunks: int
    text_chars: int
    text: str
    reasoning_text: str
    transcript: str = ""
    """Text of what was spoken; content, too."""
    request: dict[str, object]
    """Request parameters that the conventions name, absent ones left out."""
    request_content: RequestContent | None
    """Messages and tools of the request; None unless content is captured."""
    service_tier: str | None
    system_fingerprint: str | None
    response_bytes: int
    reads: int
    lost_records: int
    lost_bytes: int
