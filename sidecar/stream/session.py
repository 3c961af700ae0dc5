"""What is known of one WebSocket beside the responses in it."""

import msgspec


class Counts(msgspec.Struct):
    """Messages of one socket; all but `client_messages` and `bytes` are about those of the server."""

    responses: int = 0
    server_messages: int = 0
    client_messages: int = 0
    bytes: int = 0
    """Of both sides."""
    binary_messages: int = 0
    malformed_messages: int = 0
    """Text that is no JSON."""
    unknown_events: int = 0
    """JSON without a type that is known."""
    heartbeats: int = 0
    """JSON that only keeps the connection open."""
    go_away: int = 0
    """Announcements of the server that it will close."""
    unattributed_errors: int = 0
    """Errors that ended no response."""


class SessionSummary(msgspec.Struct, frozen=True):
    """One WebSocket. `close_reason` is content."""

    id: str
    dialect: str
    operation: str
    provider: str
    model: str | None
    server_address: str
    server_port: int
    seconds: float | None
    """From the answer to the upgrade to the close; None where no end was seen."""
    close_code: int | None
    close_reason: str
    closed_by: str | None
    """`client`, `server`, or `network` where the connection to the server broke."""
    counts: Counts
