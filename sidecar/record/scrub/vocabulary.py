"""Which strings of an event are the protocol's own. What is not known to be is content."""

import re

from sidecar.record.scrub.lexer import NUMBER, Container, Token

PROTOCOL = frozenset(
    [
        "type",
        "object",
        "role",
        "author",
        "event",
        "event_type",
        "kind",
        "status",
        "code",
        "phase",
        "reason",
        "category",
        "probability",
        "severity",
        "state",
        "finish_reason",
        "finishReason",
        "stop_reason",
        "stopReason",
        "native_finish_reason",
        "done_reason",
        "blockReason",
        "block_reason",
        "finish_type",
        "completionReason",
        "stop_type",
        "model",
        "modelVersion",
        "model_version",
        "model_name",
        "model_id",
        "modelId",
        "deployment",
        "provider",
        "service_tier",
        "serviceTier",
        "system_fingerprint",
        "modality",
        "modalities",
        "output_modalities",
        "input_modalities",
        "responseModalities",
        "mime_type",
        "mimeType",
        "media_type",
        "format",
        "encoding_format",
        "response_format",
        "stream_format",
        "voice",
        "tool_choice",
        "effort",
        "verbosity",
        "truncation",
        "trafficType",
        "error_type",
        "error_code",
        "status_code",
        "@type",
        "exception",
        "latency",
        "execution",
        "turn_detection",
        "eagerness",
        "cache_control",
        "ttl",
        "incomplete_details",
        "interrupted",
        "generationComplete",
        "turnComplete",
        "is_finished",
        "event_name",
        "x-goog-api-client",
        "method",
        "jsonPath",
        "path_type",
        "quantization",
        "object_type",
        "content_type",
        "contentType",
    ]
)
"""Members whose values are kept where they look like names from a list."""
_ENUM = re.compile(r"[A-Za-z0-9$][A-Za-z0-9_.:/+@;=\[\]'-]{0,127}")
_FINISH = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/ -]{0,79}")
_FINISH_KEYS = frozenset({"finish_reason", "finishReason", "stop_reason", "stopReason", "native_finish_reason"})

_NAME = re.compile(r"[A-Za-z0-9_$.:/-]{1,128}")
_OF_TOOLS = frozenset(
    [
        "arguments",
        "parameters",
        "input",
        "input_schema",
        "inputSchema",
        "args",
        "partialArgs",
        "willContinue",
        "toolUseId",
        "function",
        "description",
    ]
)
_TOOL_KEYS = frozenset(
    ["function", "functionCall", "function_call", "toolUse", "tool_use", "tool_calls", "tool_plan", "functions", "tool"]
)
_TOOL_TYPES = re.compile(r"function|tool|mcp_call")

_ID_KEY = re.compile(r"(?:id|ID|Id|uuid)|.+(?:_id|Id|ID|_uuid)|traceparent|tracestate")
_ID = re.compile(r"[A-Za-z0-9_.:@/+=|~-]{1,256}")

_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.]+(?:Z|[+-][0-9:]+)?")
_COUNT = re.compile(r"[0-9.]+")
_USAGE = re.compile(r"usage|token|metrics|billed|timings", re.IGNORECASE)

_CONTENT_OBJECTS = frozenset({"args", "arguments", "metadata", "labels", "custom_metadata"})
_CONTENT_NUMBERS = frozenset({"numberValue", "logprob", "avgLogprobs", "logprobs", "token_id", "score", "prob"})
ARGUMENTS = frozenset({"arguments", "partial_json", "partialJson", "args"})
"""Members whose strings are pieces of JSON."""

KEPT, ID, CONTENT = "kept", "id", "content"
"""What to do with a value."""


def judge(token: Token, text: str) -> str:
    """What a string or number in an event is. `text` is its JSON form, without quotes."""
    inside = token.container
    if inside is None or _is_content(inside):
        # What a caller notes for himself may be how he tells responses apart.
        return ID if inside is not None and inside.key == "metadata" and _ID.fullmatch(text) else CONTENT
    key = token.key
    if token.kind == NUMBER:
        return CONTENT if not inside.is_object or key in _CONTENT_NUMBERS else KEPT
    if not text or _TIME.fullmatch(text):
        return KEPT
    if key in PROTOCOL and (_FINISH if key in _FINISH_KEYS else _ENUM).fullmatch(text):
        return KEPT
    if key == "name" and _NAME.fullmatch(text) and _names_a_tool(inside):
        return KEPT
    if _ID_KEY.fullmatch(key) and _ID.fullmatch(text):
        return ID
    if _COUNT.fullmatch(text) and (_USAGE.search(key) or _USAGE.search(inside.key)):
        return KEPT
    return CONTENT


def _names_a_tool(inside: Container) -> bool:
    kind = inside.members.get("type", "")
    return bool(inside.names & _OF_TOOLS or inside.key in _TOOL_KEYS or _TOOL_TYPES.search(kind))


def _is_content(inside: Container | None) -> bool:
    """Whether all in an object is content: the arguments of a call, what a caller noted for himself."""
    while inside is not None:
        if inside.key in _CONTENT_OBJECTS:
            return True
        holder = inside.parent
        if inside.key in ("input", "json", "response") and holder is not None and _holds_a_call(holder):
            return True
        inside = holder
    return False


def _holds_a_call(holder: Container) -> bool:
    kind = holder.members.get("type", "")
    return "toolUseId" in holder.names or kind.endswith(("tool_use", "tool_result")) or holder.key in _CALLS


_CALLS = frozenset({"functionCall", "functionResponse", "function_call", "toolUse", "toolResult"})
