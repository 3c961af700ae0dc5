"""Every known difference between a conversation over HTTP/2 with and without the proxy, as docs/passivity.md lists it."""

from tests.live.differences import ROW_HEADER, Difference

ALWAYS = "order of pseudo-headers"

DIFFERENCES = (
    Difference(
        ALWAYS,
        frozenset({"request pseudo-headers order"}),
        "in requests `:authority` comes last of the pseudo-headers",
        "mitmproxy writes them anew; they have no order (RFC 9113, 8.3), and the same values",
    ),
    Difference(
        "interim",
        frozenset({"response interim"}),
        "interim responses (103) are dropped",
        "mitmproxy drops those of HTTP/2; they are hints",
    ),
    Difference(
        "large request",
        frozenset(
            {
                "connection of the client closed",
                "goaway to the client",
                "response data",
                "response ended",
                "response pseudo-headers",
                "response headers",
                "request count",
            }
        ),
        "a request whose headers are over 64 KiB ends the connection of the client",
        "the limit of hyper-h2, which mitmproxy does not change; servers have one of their own, often lower",
    ),
    Difference(
        "refused answer",
        frozenset({"goaway to the upstream", "response data", "response pseudo-headers", "response headers"}),
        "an answer whose headers are over 64 KiB, or break the rules (blanks around a value), becomes a 502",
        "hyper-h2 takes both for an error of the whole connection",
    ),
    Difference(
        "goaway of the upstream",
        frozenset({"goaway to the client"}),
        "an upstream that ends its connection in order (GOAWAY) ends only that one: its streams go on, new ones get another",
        "connections belong to one hop; the client's stays",
    ),
    Difference(
        "goaway of the client",
        frozenset({"goaway to the upstream"}),
        "a client that says GOAWAY says it to the proxy only; its streams go on",
        "connections belong to one hop",
    ),
    Difference(
        "broken connection",
        frozenset({"connection of the client closed", "response reset"}),
        "where the upstream's connection breaks, or is ended with an error, its streams are reset (INTERNAL_ERROR)",
        "the client's connection has other streams, so that it stays",
    ),
)


def rendered() -> str:
    """The table of docs/passivity.md."""
    return ROW_HEADER + "".join(f"| {each.what} | {each.reason} |\n" for each in DIFFERENCES)
