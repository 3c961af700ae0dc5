"""Conversations that a proxy can get wrong, each a client's part and an upstream's part, in raw bytes."""

import asyncio
import gzip

from tests.live.wire import Conversation, End, Part

EVENTS = (b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n', b"data: [DONE]\n\n")
_HEAD = (
    b"HTTP/1.1 200 Quite All Right\r\ncontent-type: text/event-stream\r\nX-Mixed-CASE: kept\r\nset-cookie: a=1\r\n"
    b"Set-Cookie: b=2\r\nx-empty:\r\nx-latin: gr\xfc\xdfe\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nserver: none\r\n"
)


def chunk(data: bytes, extension: bytes = b"") -> bytes:
    """One chunk of a body."""
    return b"%x%s\r\n%s\r\n" % (len(data), extension, data)


def post(body: bytes, *headers: bytes, target: bytes = b"/v1/chat/completions") -> bytes:
    """A request with its length."""
    lines = [b"POST %s HTTP/1.1" % target, b"Host: {host}", *headers, b"content-length: %d" % len(body)]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def ok(body: bytes, *headers: bytes) -> bytes:
    """An answer with its length."""
    return b"\r\n".join([b"HTTP/1.1 200 OK", *headers, b"content-length: %d" % len(body)]) + b"\r\n\r\n" + body


CHUNKED = _HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
ASK = post(b'{"model":"m","stream":true}', b"Content-Type: application/json", b"X-Odd: 1", b"accept:  */*")
GET = b"GET /a%20b//c?x=%2F&y HTTP/1.1\r\nHost: {host}\r\nAccept: */*\r\naccept-encoding: gzip, br\r\n\r\n"


def says(*pieces: bytes) -> Part:
    """A client that writes this and leaves when it has read what there is."""

    async def part(end: End) -> None:
        await end.write(*(piece.replace(b"{host}", end.host) for piece in pieces))

    return part


def answers(*pieces: bytes, after: bytes = b"\r\n\r\n", close: bool = False) -> Part:
    """An upstream that answers when it has read this."""

    async def part(end: End) -> None:
        await end.until(after)
        await end.write(*pieces)
        if close:
            end.writer.write_eof()

    return part


def _for_each(*answers: bytes) -> Part:
    """An upstream that answers the first request with the first of these, and so on."""

    async def part(end: End) -> None:
        for number, answer in enumerate(answers, 1):
            await end.until(b"\r\n\r\n", number)
            await end.write(answer)

    return part


async def _one_after_the_other(end: End) -> None:
    for number in (1, 2, 3):
        await says(b"GET /%d HTTP/1.1\r\nHost: {host}\r\n\r\n" % number)(end)
        await end.until(b"body %d" % number)


async def _waits_for_100(end: End) -> None:
    head, _, body = post(b"x" * 1000, b"Expect: 100-continue").partition(b"\r\n\r\n")
    await says(head + b"\r\n\r\n")(end)
    await end.until(b" 100 Continue\r\n\r\n")
    await end.write(body)


async def _grants_100(end: End) -> None:
    await end.until(b"\r\n\r\n")
    if b"100-continue" in end.seen:
        await end.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    await end.until(b"x" * 1000)
    await end.write(ok(b"taken"))


async def _stops_when_refused(end: End) -> None:
    await says(b"POST /v1/files HTTP/1.1\r\nHost: {host}\r\ncontent-length: 1000000\r\n\r\n" + b"x" * 1000)(end)
    await end.until(b"too large")


async def _refuses(end: End) -> None:
    await end.until(b"x" * 1000)
    await end.write(b"HTTP/1.1 413 Too Big\r\nconnection: close\r\ncontent-length: 9\r\n\r\ntoo large")


async def _half_closes(end: End) -> None:
    await says(ASK)(end)
    await end.until(b"\n\n")
    end.writer.write_eof()


async def _goes_on_behind_a_half_close(end: End) -> None:
    await answers(CHUNKED, chunk(EVENTS[0]))(end)
    await end.to_the_end()
    await end.write(chunk(EVENTS[1]) + b"0\r\n\r\n")


async def _leaves_in_the_middle(end: End) -> None:
    await says(ASK)(end)
    await end.until(b"\n\n")
    end.writer.close()


async def _resets(end: End) -> None:
    await end.until(b"stream")
    await end.write(CHUNKED + chunk(EVENTS[0]))
    await asyncio.sleep(0.1)
    end.reset()


async def _takes_up(end: End) -> None:
    await says(b"GET /up HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: other/1\r\n\r\n")(end)
    await end.until(b"hello")
    await end.write(b"\x00over\xff")
    await end.until(b"over and out")


async def _switches(end: End) -> None:
    await end.until(b"\r\n\r\n")
    await end.write(b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: other/1\r\n\r\n", b"\x01hello")
    await end.until(b"\x00over\xff")
    await end.write(b"over and out")


_GZIPPED = gzip.compress(b"".join(EVENTS), mtime=0)
_KEPT = [ok(b"body %d" % number, b"x-n: %d" % number) for number in (1, 2, 3)]

CONVERSATIONS = (
    Conversation("status line and headers", says(ASK), answers(CHUNKED, *map(chunk, EVENTS), b"0\r\n\r\n")),
    Conversation("get", says(GET), answers(ok(b"page", b"ETag: W/x", b"Via: 1.1 other")), method="GET"),
    Conversation(
        "no reason",
        says(ASK),
        answers(b"HTTP/1.1 200\r\ncontent-length: 2\r\n\r\nok"),
        differs=frozenset({"empty reason"}),
    ),
    Conversation("http 1.0", says(GET), answers(b"HTTP/1.0 200 OK\r\n\r\nuntil the end", close=True), method="GET"),
    Conversation(
        "chunk extensions",
        says(ASK),
        answers(CHUNKED, chunk(EVENTS[0], b";sig=1"), chunk(EVENTS[1], b";sig=2;q"), b"0\r\n\r\n"),
        differs=frozenset({"chunk extensions"}),
    ),
    Conversation("trailers", says(ASK), answers(CHUNKED, chunk(EVENTS[0]), b"0\r\nx-sum: 1\r\n\r\n")),
    Conversation(
        "trailers of a request",
        says(
            b"POST /up HTTP/1.1\r\nHost: {host}\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nx-sum: 1\r\n\r\n"
        ),
        answers(ok(b"taken"), after=b"x-sum: 1\r\n\r\n"),
    ),
    Conversation(
        "head",
        says(GET.replace(b"GET", b"HEAD")),
        answers(ok(b"", b"x-y: z").replace(b" 0\r", b" 99\r")),
        method="HEAD",
    ),
    Conversation("204", says(ASK), answers(b"HTTP/1.1 204 No Content\r\nx-y: z\r\n\r\n")),
    Conversation(
        "304", says(GET), answers(b"HTTP/1.1 304 Same\r\netag: x\r\ncontent-length: 12\r\n\r\n"), method="GET"
    ),
    Conversation("103", says(ASK), answers(b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n", ok(b"page"))),
    Conversation(
        "103 in pieces",
        says(ASK),
        answers(b"HTTP/1.1 103 Early", b" Hints\r\nlink: x\r", b"\n\r\nHTTP/1.1 103 More\r\n\r\nHTT", ok(b"page")[3:]),
    ),
    Conversation("100 unasked", says(ASK), answers(b"HTTP/1.1 100 Continue\r\n\r\n", ok(b"page"))),
    Conversation("expect", _waits_for_100, _grants_100, differs=frozenset({"expect"})),
    Conversation("kept alive", _one_after_the_other, _for_each(*_KEPT), method="GET"),
    Conversation(
        "pipelined",
        says(b"".join(b"GET /%d HTTP/1.1\r\nHost: {host}\r\n\r\n" % number for number in (1, 2, 3))),
        _for_each(*_KEPT),
        method="GET",
    ),
    Conversation("early response", _stops_when_refused, _refuses),
    Conversation(
        "half-closed by the client",
        _half_closes,
        _goes_on_behind_a_half_close,
        differs=frozenset({"half-close"}),
        over_tls=False,
    ),
    Conversation("cut by the upstream", says(ASK), answers(CHUNKED, chunk(EVENTS[0]), after=b"true}", close=True)),
    Conversation("reset by the upstream", says(ASK), _resets, differs=frozenset({"reset"})),
    Conversation("client leaves", _leaves_in_the_middle, answers(CHUNKED, chunk(EVENTS[0]))),
    Conversation("compressed", says(ASK), answers(ok(_GZIPPED, b"Content-Encoding: gzip", b"Vary: x"))),
    Conversation(
        "large headers",
        says(post(b"hi", *(b"x-%d: %s" % (n, b"y" * 8000) for n in range(32)))),
        answers(ok(b"page", *(b"x-%d: %s" % (n, b"y" * 8000) for n in range(32)))),
    ),
    Conversation(
        "headers of 1 MB",
        says(post(b"hi", *(b"x-%d: %s" % (n, b"y" * 8000) for n in range(128)))),
        answers(ok(b"page", *(b"x-%d: %s" % (n, b"y" * 8000) for n in range(128)))),
    ),
    Conversation(
        "one header of 1 MB",
        says(post(b"hi", b"x-long: " + b"y" * 1_000_000)),
        answers(ok(b"page", b"x-long: " + b"z" * 1_000_000)),
    ),
    Conversation("another protocol", _takes_up, _switches, method="GET"),
    Conversation(
        "close asked for",
        says(post(b"{}", b"Connection: close", b"Keep-Alive: 5", b"TE: trailers", b"Proxy-X: 1")),
        answers(ok(b"page", b"Connection: close"), after=b"{}", close=True),
    ),
)
