"""Every known difference between a conversation with and without the proxy, with its reason, as docs/passivity.md lists it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """`keys`: what the comparison (`wire.differences`) finds where it shows."""

    name: str
    keys: frozenset[str]
    what: str
    reason: str


DIFFERENCES = (
    Difference(
        "empty reason",
        frozenset({"response start"}),
        "a status line without reason and without the blank before it (`HTTP/1.1 200`) gets the blank",
        "the blank is what RFC 9112 asks for; no status, reason or version changes",
    ),
    Difference(
        "chunk extensions",
        frozenset({"response extensions"}),
        "chunk extensions are dropped, and chunks may be cut otherwise; their bytes are the same, each as soon as it came",
        "they belong to one hop (RFC 9112, 7.1.1); no known client of an LLM reads them",
    ),
    Difference(
        "expect",
        frozenset({"request header expect"}),
        "`Expect: 100-continue` is answered by the proxy, and the upstream never sees it",
        "mitmproxy does so; an upstream that would refuse by the headers alone refuses when the body comes",
    ),
    Difference(
        "half-close",
        frozenset({"response body", "response complete"}),
        "a client that closes its sending half behind its request gets no more of the answer",
        "mitmproxy takes it for a client that leaves; HTTP clients and SDKs keep their half open",
    ),
    Difference(
        "reset",
        frozenset({"response ending"}),
        "a reset by the upstream arrives as a close",
        "mitmproxy closes; that the body is not complete shows by its framing, except where only the close ends it",
    ),
)

ROW_HEADER = "| difference | why it is so |\n| --- | --- |\n"


def rendered() -> str:
    """The table of docs/passivity.md."""
    return ROW_HEADER + "".join(f"| {each.what} | {each.reason} |\n" for each in DIFFERENCES)
