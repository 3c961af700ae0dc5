"""Conversations over HTTP/2 that a proxy can get wrong, each a client's part and an upstream's part."""

import asyncio

from h2.errors import ErrorCodes

from tests.live.h2_wire import End, Fields, Part, Talk

EVENTS = (b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n', b"data: [DONE]\n\n")
BODY = b'{"model":"m","stream":true}'
HEAD = (
    ("content-type", "text/event-stream"),
    ("set-cookie", "a=1"),
    ("set-cookie", "b=2"),
    ("x-empty", ""),
    ("x-latin", "gr\xfc\xdfe"),
    ("date", "Thu, 01 Jan 1970 00:00:00 GMT"),
    ("server", "none"),
)
ASK = (
    ("content-type", "application/json"),
    ("x-twice", "1"),
    ("accept", "*/*"),
    ("x-twice", "2"),
    ("cookie", "a=1"),
    ("cookie", "b=2"),
    ("te", "trailers"),
)


def asks(*fields: tuple[str, str], body: bytes | None = BODY) -> Part:
    """A client that asks once, and reads to the end of the stream."""

    async def part(end: End) -> None:
        stream = await end.ask(*(fields or ASK), body=body)
        await end.over(stream)

    return part


def answers(*pieces: bytes, head: Fields = HEAD, status: int = 200, trailers: Fields = ()) -> Part:
    async def part(end: End) -> None:
        stream = await end.request()
        await end.answer(stream, *head, status=status, end=not pieces and not trailers)
        if pieces or trailers:
            await end.say(stream, *pieces, end=True, trailers=trailers)

    return part


def resets(code: ErrorCodes, *, after: bool = True) -> Part:
    """An upstream that resets the stream, in the middle of its answer or instead of one."""

    async def part(end: End) -> None:
        stream = await end.request()
        if after:
            await end.answer(stream, *HEAD)
            await end.say(stream, EVENTS[0])
            await asyncio.sleep(0.1)
        await end.reset(stream, code)

    return part


def cancels(code: ErrorCodes) -> Part:
    async def part(end: End) -> None:
        stream = await end.ask(*ASK, body=BODY)
        await end.until(lambda: bool(end.streams[stream].data))
        await end.reset(stream, code)
        await end.rest()

    return part


async def _begins(end: End) -> None:
    stream = await end.request()
    await end.answer(stream, *HEAD)
    await end.say(stream, EVENTS[0])


async def _asks_with_trailers(end: End) -> None:
    stream = await end.ask(*ASK, body=BODY, end=False)
    await end.say(stream, b" ", trailers=[("x-sum", "1"), ("x-sum", "2")])
    await end.over(stream)


async def _two_at_once(end: End) -> None:
    streams = [await end.ask(("x-n", str(number)), body=BODY) for number in (1, 2)]
    for stream in streams:
        await end.over(stream)


async def _interleaves(end: End) -> None:
    one, two = await end.request(1), await end.request(2)
    for stream in (two, one):
        await end.answer(stream, ("x-for", str(dict(end.streams[stream].headers)[b"x-n"])))
    for number in range(5):
        for stream in (one, two):
            await end.say(stream, b"%d" % number)
    await end.say(two, end=True)
    await end.say(one, end=True)


async def _uploads(end: End) -> None:
    stream = await end.ask(*ASK, body=b"x" * 1000, end=False)
    await end.until(lambda: end.streams[stream].data == b"too large")
    await end.say(stream, b"x" * 1000, end=True)
    await end.over(stream)


async def _refuses(end: End) -> None:
    stream = await end.request(whole=False)
    await end.until(lambda: len(end.streams[stream].data) == 1000)
    await end.answer(stream, ("x-y", "z"), status=413)
    await end.say(stream, b"too large", end=True)
    await end.until(lambda: end.streams[stream].ended)


def goes_away(code: ErrorCodes) -> Part:
    """An upstream that announces its end in the middle of an answer, and finishes the answer if it ends well."""

    async def part(end: End) -> None:
        await _begins(end)
        stream = next(iter(end.streams))
        await end.leave(code, stream)
        if code is ErrorCodes.NO_ERROR:
            await asyncio.sleep(0.1)
            await end.say(stream, EVENTS[1], end=True)
        else:
            end.writer.close()

    return part


async def _announces_its_end(end: End) -> None:
    """A client that wants nothing more but what it has asked for."""
    stream = await end.ask(*ASK, body=BODY)
    await end.until(lambda: bool(end.streams[stream].data))
    await end.leave(ErrorCodes.NO_ERROR)
    await end.over(stream)


async def _goes_on(end: End) -> None:
    await _begins(end)
    await asyncio.sleep(0.2)
    await end.say(next(iter(end.streams)), EVENTS[1], end=True)


async def _closes(end: End) -> None:
    await _begins(end)
    end.writer.close()


async def _hints(end: End) -> None:
    stream = await end.request()
    await end.answer(stream, ("link", "x"), status=103)
    await end.answer(stream, *HEAD)
    await end.say(stream, EVENTS[0], end=True)


def many(kilobytes: int) -> Fields:
    return [(f"x-{number}", "y" * 1000) for number in range(kilobytes)]


TALKS = (
    Talk("headers", asks(), answers(*EVENTS)),
    Talk(
        "a value between blanks",
        asks(),
        answers(b"page", head=[("x-odd", " value ")]),
        differs=frozenset({"refused answer"}),
    ),
    Talk("get", asks(("accept", "*/*"), (":path", "/a%20b//c?x=%2F&y"), body=None), answers(b"page")),
    Talk("head", asks((":method", "HEAD"), body=None), answers(head=[("content-length", "99")])),
    Talk("204", asks(), answers(head=[("x-y", "z")], status=204)),
    Talk("empty body", asks(), answers(b"")),
    Talk("error", asks(), answers(b"{}", status=429, head=[("retry-after", "1")])),
    Talk("trailers", asks(), answers(EVENTS[0], trailers=[("x-sum", "1"), ("x-sum", "2")])),
    Talk("trailers alone", asks(), answers(trailers=[("grpc-status", "5")])),
    Talk("trailers of a request", _asks_with_trailers, answers(b"taken")),
    Talk("103", asks(), _hints, differs=frozenset({"interim"})),
    Talk("two at once", _two_at_once, _interleaves),
    Talk("headers of 60 KB", asks(*many(60)), answers(b"page", head=many(60))),
    Talk("headers of 1 MB", asks(*many(1000)), answers(b"page"), differs=frozenset({"large request"})),
    Talk(
        "headers of 1 MB in the answer",
        asks(),
        answers(b"page", head=many(1000)),
        differs=frozenset({"refused answer"}),
    ),
    Talk("early response", _uploads, _refuses),
    *(
        Talk(f"reset with {code.name}", asks(), resets(code))
        for code in (
            ErrorCodes.INTERNAL_ERROR,
            ErrorCodes.CANCEL,
            ErrorCodes.REFUSED_STREAM,
            ErrorCodes.ENHANCE_YOUR_CALM,
        )
    ),
    *(
        Talk(f"no answer but {code.name}", asks(), resets(code, after=False))
        for code in (ErrorCodes.INTERNAL_ERROR, ErrorCodes.REFUSED_STREAM, ErrorCodes.HTTP_1_1_REQUIRED)
    ),
    *(
        Talk(f"client resets with {code.name}", cancels(code), _begins)
        for code in (ErrorCodes.CANCEL, ErrorCodes.NO_ERROR, ErrorCodes.INTERNAL_ERROR)
    ),
    Talk("goaway", asks(), goes_away(ErrorCodes.NO_ERROR), differs=frozenset({"goaway of the upstream"})),
    Talk(
        "goaway with an error",
        asks(),
        goes_away(ErrorCodes.INTERNAL_ERROR),
        differs=frozenset({"goaway of the upstream", "broken connection"}),
    ),
    Talk("goaway of the client", _announces_its_end, _goes_on, differs=frozenset({"goaway of the client"})),
    Talk("closed by the upstream", asks(), _closes, differs=frozenset({"broken connection"})),
)
