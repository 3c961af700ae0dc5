"""Headers of a request or response: by lower-case name, and those alone that anything looks at later."""

from collections.abc import Iterable
from sys import intern

OF_REQUEST = frozenset(
    {
        "accept",
        "anthropic-version",
        "content-encoding",
        "traceparent",
        "tracestate",
        "upgrade",
        "x-dashscope-sse",
    }
)
"""Headers of a request that are read after it was opened."""

OF_RESPONSE = frozenset(
    {
        "content-encoding",
        "content-length",
        "content-type",
        "server",
        "via",
        "x-accel-buffering",
        "x-cache",
    }
)
"""Headers of a response that are read after its head came."""


def lower(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Headers by lower-case name; repeated ones joined by a comma, as RFC 9110 has it."""
    values: dict[str, list[str]] = {}
    for name, value in headers:
        values.setdefault(name.lower(), []).append(value)
    return {name: ", ".join(found) for name, found in values.items()}


def only(names: frozenset[str], headers: dict[str, str]) -> dict[str, str]:
    """The headers of these names. They are kept for each stream in flight, so what many streams say is kept once."""
    return {intern(name): intern(value) for name, value in headers.items() if name in names}
