"""How exchanges ended that broke off. External processing does not say: it only goes silent. Envoy's access log does."""

from collections import OrderedDict
from datetime import datetime
from typing import Any

import msgspec

from sidecar.capture.records import EndedKind

KEPT = 16_384
"""Entries that wait for their exchange, at most; the oldest go first."""

_BY_CLIENT = frozenset({"downstream_connection_termination", "downstream_remote_reset", "downstream_protocol_error"})
_BY_FLAG = (
    (0x1, "failed_local_healthcheck"),
    (0x2, "no_healthy_upstream"),
    (0x4, "upstream_request_timeout"),
    (0x8, "local_reset"),
    (0x10, "upstream_remote_reset"),
    (0x20, "upstream_connection_failure"),
    (0x40, "upstream_connection_termination"),
    (0x80, "upstream_overflow"),
    (0x8000, "upstream_retry_limit_exceeded"),
    (0x800000, "upstream_protocol_error"),
    (0x1000000, "no_cluster_found"),
    (0x4000000, "dns_resolution_failure"),
)
"""Bits of the attribute `response.flags` that say that the upstream did not answer."""

type Key = tuple[str, int]
"""The client's address with its port, and when the request began, Unix microseconds."""


class End(msgspec.Struct, frozen=True):
    """How an exchange ended, in Envoy's words, and when that was heard (CLOCK_MONOTONIC nanoseconds)."""

    kind: EndedKind
    error: str
    at: int


def key_of(source: str, began: str) -> Key | None:
    """The key of an exchange from the attributes `source.address` and `request.time`; None without them."""
    try:
        moment = datetime.fromisoformat(began)
    except ValueError:
        return None
    if not source or moment.tzinfo is None:
        return None
    return source, int(moment.timestamp()) * 1_000_000 + moment.microsecond


def unanswered(flags: int, details: str) -> str:
    """Why the answer is Envoy's own because none came from the upstream; empty where it is no such answer."""
    if not details or details.startswith("via_upstream"):
        return ""
    named = [name for bit, name in _BY_FLAG if flags & bit]
    return f"{', '.join(named)}: {details}" if named else ""


def entry_of(entry: Any, at: int) -> tuple[Key, End] | None:
    """What an entry of the access log (`HTTPAccessLogEntry`) says; None where nothing went wrong, or nobody knows for
    whom."""
    common = entry.common_properties
    flags = [field.name for field, value in common.response_flags.ListFields() if value is True]
    address = common.downstream_remote_address.socket_address
    if not flags or not address.address:
        return None
    host = f"[{address.address}]" if ":" in address.address else address.address
    began = common.start_time.seconds * 1_000_000 + common.start_time.nanos // 1000
    words = ", ".join(flags)
    if common.upstream_transport_failure_reason:
        words += f": {common.upstream_transport_failure_reason}"
    kind: EndedKind = "client_disconnect" if _BY_CLIENT.intersection(flags) else "upstream_reset"
    return (f"{host}:{address.port_value}", began), End(kind, words, at)


class Ends:
    """Entries that wait for their exchanges, at most `kept`: Envoy closes those a little after it has logged them."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._waiting: OrderedDict[Key, End] = OrderedDict()

    def note(self, key: Key, end: End) -> None:
        """The log has told of an end."""
        self._waiting[key] = end
        if len(self._waiting) > self._kept:
            self._waiting.popitem(last=False)

    def take(self, key: Key | None) -> End | None:
        """The end of an exchange, if it was told; it is forgotten."""
        return None if key is None else self._waiting.pop(key, None)
