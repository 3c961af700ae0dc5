"""The records that cross from the proxy to the analyzer. Times are CLOCK_MONOTONIC nanoseconds read in the proxy.

On the wire each is a msgpack array, its tag first; `stream` numbers the exchanges of one connection of one proxy.
A change that an older reader would misread raises VERSION.
"""

from typing import Literal

import msgspec

VERSION = 2

EndedKind = Literal["eof", "upstream_reset", "upstream_failed", "client_disconnect"]

RESET = "connection reset by peer"
"""How the error of an end begins that was a reset, whatever else was said of it."""
NO_CLOSE_FRAME = 1006
"""Close code of a WebSocket that was not closed: its connection broke."""

type Headers = list[tuple[str, str]]


class Record(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Common to all records: the exchange it belongs to and when."""

    stream: int
    at: int


class Opened(Record, tag="o", frozen=True):
    """A request head came. Target and headers are redacted already."""

    id: str
    wall_ns: int
    """Wall clock in Unix nanoseconds, read together with `at`."""
    method: str
    scheme: str
    host: str
    port: int
    target: str
    http_version: str
    headers: Headers
    worker: int = 0
    listener: str = ""
    client: str = ""
    """A salted hash of the client's address, for comparing within one worker; empty where it is unknown."""


class RequestBody(Record, tag="b", frozen=True):
    """A piece of the request body."""

    data: bytes


class RequestSent(Record, tag="s", frozen=True):
    """The last byte of the request was forwarded: t0."""


class ResponseHead(Record, tag="h", frozen=True):
    """The response head came."""

    status: int
    http_version: str
    headers: Headers


class Chunk(Record, tag="c", frozen=True):
    """One read of the response body, bytes exactly as forwarded."""

    data: bytes


class Ended(Record, tag="e", frozen=True):
    """The exchange is over."""

    kind: EndedKind
    error: str = ""
    """The proxy's own words where it did not end well; of a WebSocket, the reason it was closed with."""
    code: int | None = None
    """The close code of a WebSocket."""


class Lost(Record, tag="l", frozen=True):
    """Telemetry of this exchange was dropped: it gets no verdict."""

    records: int = 0
    bytes: int = 0


class Health(Record, tag="p", frozen=True):
    """How the proxy process itself is; `stream` is 0. Counters since its start."""

    worker: int
    streams_lost: int
    records_dropped: int
    outbox_bytes: int
    failures: int
    """Exceptions inside the tee, swallowed so that traffic goes on."""
    tee_count: int
    """Tee calls that were timed (a sample)."""
    tee_seconds: float
    tee_buckets: list[int]
    loop_lag_seconds: float
    """Largest lag of the event loop since the last report."""
    told: dict[str, int] = {}
    """Exchanges that Envoy began to tell of, by how that went."""
    checks: int = 0
    """Exchanges of which what came from the upstream was compared with what went to the client."""
    violations: int = 0
    """Of those, exchanges in which it was not the same."""


class Message(Record, tag="m", frozen=True):
    """One whole WebSocket message as it was forwarded, its fragments joined and its compression undone."""

    data: bytes
    """All of it, or of a very long one the beginning."""
    from_client: bool
    text: bool
    """Whether it came in text frames, else in binary ones."""
    size: int
    """Its length in bytes."""


PAYLOADS = (RequestBody, Chunk, Message)
"""Records that carry what went over the wire; all others are control records."""

AnyRecord = Opened | RequestBody | RequestSent | ResponseHead | Chunk | Ended | Lost | Health | Message


class Hello(msgspec.Struct, frozen=True, array_like=True, tag="hello"):
    """First message of a proxy on a connection."""

    version: int
    worker: int


class Welcome(msgspec.Struct, frozen=True, array_like=True, tag="welcome"):
    """The analyzer's answer: the version it reads. They must be equal."""

    version: int


class Acknowledged(msgspec.Struct, frozen=True, array_like=True, tag="ack"):
    """What the analyzer says from then on: what was in the first so many batches of the connection is in its metrics."""

    batches: int
