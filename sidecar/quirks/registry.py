"""The quirk registry: every row there is, in the order of the documents, and what an exchange shows of them."""

from collections.abc import Iterable

from sidecar.quirks.errors import ERRORS
from sidecar.quirks.framing import FRAMING
from sidecar.quirks.payload import PAYLOAD
from sidecar.quirks.quirk import SEVERITIES, Evidence, Quirk, Severity
from sidecar.quirks.terminator import TERMINATOR
from sidecar.quirks.timing import TIMING
from sidecar.quirks.tool_calls import TOOL_CALLS
from sidecar.quirks.transport import TRANSPORT
from sidecar.quirks.usage import USAGE

GROUPS: dict[str, tuple[Quirk, ...]] = {
    "Framing (bytes to events)": FRAMING,
    "Payload": PAYLOAD,
    "Tool calls": TOOL_CALLS,
    "Usage": USAGE,
    "Terminator": TERMINATOR,
    "Errors": ERRORS,
    "Transport": TRANSPORT,
    "Timing": TIMING,
}
QUIRKS: tuple[Quirk, ...] = tuple(quirk for rows in GROUPS.values() for quirk in rows)
BY_ID: dict[str, Quirk] = {quirk.id: quirk for quirk in QUIRKS}

# What still holds of a body of status 400 or above, which is read whole.
_OF_HTTP_ERRORS = frozenset({"http_error_status", "error_html_body", *(quirk.id for quirk in TRANSPORT)})
# What still holds of a whole body that answers a request for one: nothing that is about deltas or chunks.
_OF_WHOLE_BODIES = frozenset(
    {
        *(quirk.id for rows in (USAGE, ERRORS, TRANSPORT) for quirk in rows),
        "empty_tool_calls_array",
        "finish_reason_error",
        "legacy_function_call",
        "malformed_json_event",
        "tool_arguments_empty",
        "tool_arguments_invalid_json",
        "tool_arguments_null",
        "tool_arguments_object",
        "tool_call_as_text",
        "tool_call_fragment_nameless",
    }
)

# What a message of a WebSocket cannot show: it has no status and no headers of its own.
_OF_STATUS_AND_HEADERS = frozenset({"content_type_missing", "error_event_in_200_stream"})

# What a body without its head cannot show.
_OF_HEADS = _OF_STATUS_AND_HEADERS | {
    "compressed_stream",
    "content_encoding_mismatch",
    "content_length_on_stream",
    "content_type_unexpected",
    "sse_without_stream_request",
    "stream_not_honored",
}

# What only reads and times of the wire can show.
_OF_READS = frozenset(
    {
        "burst_delivery",
        "buffered_delivery",
        "decompression_ratio_high",
        "eof_delayed_after_terminator",
        "event_split_across_reads",
        "line_ending_split_across_reads",
        "multiple_events_per_read",
        "utf8_split_across_reads",
        *(quirk.id for quirk in TIMING),
    }
)


def detect(evidence: Evidence) -> tuple[str, ...]:
    """Ids of the quirks that an exchange shows, sorted."""
    if evidence.outcome == "lost":
        return ()
    found = {quirk.id for quirk in QUIRKS if quirk.shows(evidence)}
    if not evidence.timed:
        found -= _OF_READS
    if evidence.ending.in_socket:
        found -= _OF_STATUS_AND_HEADERS
    if evidence.status is not None and evidence.status >= 400:
        found &= _OF_HTTP_ERRORS
    elif evidence.ending.whole:
        found &= _OF_WHOLE_BODIES
    return tuple(sorted(found))


def worst_first(quirks: Iterable[str]) -> list[Quirk]:
    """The rows of these quirks by severity, then by id; an id without a row has none."""
    rows = (BY_ID[quirk] for quirk in quirks if quirk in BY_ID)
    return sorted(rows, key=lambda row: (-SEVERITIES.index(row.severity), row.id))


def worst(quirks: Iterable[str]) -> Severity | None:
    """The highest severity among these; None without any."""
    rows = worst_first(quirks)
    return rows[0].severity if rows else None


def without_head(quirks: Iterable[str]) -> tuple[str, ...]:
    """What is left of the quirks of a body whose head was not kept, and was made up to read it."""
    return tuple(quirk for quirk in quirks if quirk not in _OF_HEADS)
