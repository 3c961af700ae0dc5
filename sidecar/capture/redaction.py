"""What of a head leaves the proxy process: values come from an allow-list, everything else keeps only its name."""

import re
from collections.abc import Iterable
from hashlib import blake2b

from sidecar.capture.records import Headers

REDACTED = "[redacted]"

HEADER_VALUES = frozenset(
    {
        "accept",
        "accept-encoding",
        "cache-control",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "date",
        "expect",
        "keep-alive",
        "openai-beta",
        "openai-model",
        "openai-processing-ms",
        "openai-version",
        "anthropic-beta",
        "anthropic-version",
        "retry-after",
        "sec-websocket-extensions",
        "sec-websocket-version",
        "server",
        "traceparent",
        "tracestate",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
        "vary",
        "via",
        "x-accel-buffering",
        "x-amzn-bedrock-cache-read-input-token-count",
        "x-amzn-bedrock-cache-write-input-token-count",
        "x-amzn-bedrock-input-token-count",
        "x-amzn-bedrock-invocation-latency",
        "x-amzn-bedrock-output-token-count",
        "x-amzn-bedrock-content-type",
        "x-amzn-requestid",
        "x-cache",
        "x-dashscope-sse",
        "x-envoy-upstream-service-time",
        "x-inference-provider",
        "x-request-id",
        "request-id",
    }
)
"""Headers whose values are copied, request and response."""

SUBPROTOCOLS = frozenset({"realtime", "openai-beta.realtime-v1"})
"""WebSocket subprotocols that are copied; browsers, which can set no header, put credentials beside them."""

QUERY_VALUES = frozenset({"alt", "stream", "stream_format", "api-version", "model", "deployment", "beta", "intent"})
"""Query parameters whose values are copied; credentials travel in others (`key`, `access_token`, signatures)."""


_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9a-z]+")


def pseudonym(address: str, salt: bytes) -> str:
    """A client's address as a hash: it tells clients apart, and nobody who reads it can tell who they are."""
    return blake2b(address.encode("utf-8", "replace"), key=salt, digest_size=8).hexdigest()


def redact_headers(headers: Iterable[tuple[bytes, bytes]], extra: frozenset[str] = frozenset()) -> Headers:
    """Headers with the values of all but allowed names replaced; `extra` names are allowed, too."""
    kept: Headers = []
    for raw_name, raw_value in headers:
        name = raw_name.decode("latin-1").lower()
        value = raw_value.decode("latin-1")
        if name in HEADER_VALUES or name in extra:
            kept.append((name, value))
        elif name == "sec-websocket-protocol":
            kept.append((name, _known_of(value)))
        else:  # what cannot be a name is a line with its colon somewhere else
            kept.append((name if _NAME.fullmatch(name) else REDACTED, REDACTED))
    return kept


def _known_of(protocols: str) -> str:
    """A list of subprotocols with all but known ones replaced."""
    names = (name.strip() for name in protocols.split(","))
    return ", ".join(name if name in SUBPROTOCOLS else REDACTED for name in names)


def redact_target(target: str) -> str:
    """A request target with the values of all but allowed query parameters replaced, the fragment dropped."""
    path, question, query = target.partition("#")[0].partition("?")
    if not question:
        return path
    parts = []
    for part in query.split("&"):
        name, equals, value = part.partition("=")
        parts.append(f"{name}={value if name.lower() in QUERY_VALUES else REDACTED}" if equals else name)
    return f"{path}?{'&'.join(parts)}"


_QUOTED = re.compile(
    r"""(?:\bb|(?<=header:\ ))(?:'(?:[^'\\]|\\.)*(?:'|\Z)|"(?:[^"\\]|\\.)*(?:"|\Z))""", re.VERBOSE | re.DOTALL
)


def without_quotes(message: str) -> str:
    """mitmproxy's words on what it could not read, less the bytes that they quote: request lines, headers, bodies."""
    return _QUOTED.sub(REDACTED, message)
