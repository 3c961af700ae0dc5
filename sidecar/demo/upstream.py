"""A local upstream that plays chat completions with the faults of real endpoints. Which one, the model's name says."""

import asyncio
import contextlib
import json
import secrets
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.iostream import StreamClosedError
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from sidecar.demo.engine import Engine, EngineMetrics, Run
from sidecar.demo.realtime import Realtime

TOKEN_SECONDS = 0.04
_WORDS = [
    "The",
    "recorder",
    "keeps",
    "every",
    "byte",
    "and",
    "says",
    "what",
    "the",
    "stream",
    "did",
    "while",
    "it",
    "was",
    "doing",
    "it",
]

type Play = Callable[["Answer"], Awaitable[None]]


class Answer:
    """Writes one streamed chat completion; `send` puts out one event and flushes it."""

    def __init__(self, handler: RequestHandler, model: str, include_usage: bool, run: Run) -> None:
        self.handler = handler
        self._model = model
        self._run = run
        self._id = f"chatcmpl-{secrets.token_hex(8)}"
        self.include_usage = include_usage

    async def send(self, *deltas: dict[str, Any], finish: str | None = None, flush: bool = True) -> None:
        """One chunk per delta, each an event of its own."""
        for delta in deltas:
            if any(delta.get(kind) for kind in ("content", "reasoning_content", "tool_calls")):
                self._run.token()
            self.event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
        if flush:
            await self.handler.flush()

    async def words(self, count: int, *, pause: float = TOKEN_SECONDS, flush: bool = True) -> None:
        """So many words of text, a pause between them."""
        for number in range(count):
            await self.send({"content": _WORDS[number % len(_WORDS)] + " "}, flush=flush)
            await asyncio.sleep(pause)

    async def finish(self, reason: str = "stop", *, tokens: int = 0, done: bool = True, flush: bool = True) -> None:
        """Finish reason, usage where it was asked for, and the sentinel."""
        await self.send({}, finish=reason, flush=flush)
        if self.include_usage:
            counts = {"prompt_tokens": 12, "completion_tokens": tokens, "total_tokens": 12 + tokens}
            self.event({"choices": [], "usage": counts})
        if done:
            self.handler.write("data: [DONE]\n\n")
        await self.handler.flush()

    async def error(self, message: str, kind: str) -> None:
        """An error inside the stream."""
        self.event({"error": {"message": message, "type": kind, "code": 503}}, bare=True)
        await self.handler.flush()

    def event(self, event: dict[str, Any], *, bare: bool = False) -> None:
        """Put one event out, to be flushed."""
        envelope = {"id": self._id, "object": "chat.completion.chunk", "created": 0, "model": self._model}
        self.handler.write(f"data: {json.dumps(event if bare else envelope | event)}\n\n")


async def healthy(answer: Answer) -> None:
    """As it should be."""
    await answer.send({"role": "assistant", "content": ""})
    await asyncio.sleep(0.3)
    await answer.words(40)
    await answer.finish(tokens=40)


async def thinker(answer: Answer) -> None:
    """Thinks for seconds before the first visible token."""
    await answer.send({"role": "assistant", "content": ""})
    for _ in range(40):
        await answer.send({"reasoning_content": "hm "})
        await asyncio.sleep(0.1)
    await answer.words(20)
    await answer.finish(tokens=60)


async def no_terminator(answer: Answer) -> None:
    """Finishes, but never says [DONE]: clients that wait for it hang or fail."""
    await answer.send({"role": "assistant", "content": ""})
    await answer.words(20)
    await answer.finish(tokens=20, done=False)


async def buffered(answer: Answer) -> None:
    """Something held everything back until the end."""
    await answer.words(60, flush=False)
    await answer.finish(tokens=60, flush=False)


async def hung(answer: Answer) -> None:
    """Stops in the middle and never goes on."""
    await answer.send({"role": "assistant", "content": ""})
    await answer.words(8)
    await asyncio.Event().wait()


async def error_midway(answer: Answer) -> None:
    """Fails in the middle of a 200."""
    await answer.words(10)
    await answer.error("the model is overloaded", "overloaded_error")


async def tools(answer: Answer) -> None:
    """Calls a tool, its arguments in pieces."""
    call = {"index": 0, "id": "call_demo", "type": "function", "function": {"name": "get_weather", "arguments": ""}}
    await answer.send({"role": "assistant", "content": None, "tool_calls": [call]})
    for piece in ('{"city"', ": ", '"Os', 'lo"}'):
        await asyncio.sleep(TOKEN_SECONDS)
        await answer.send({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
    await answer.finish("tool_calls", tokens=16)


PLAYS: dict[str, Play] = {
    "healthy": healthy,
    "slow-thinker": thinker,
    "no-terminator": no_terminator,
    "buffered": buffered,
    "hung": hung,
    "error-midway": error_midway,
    "tool-calls": tools,
}
"""By the name of the model that a request asks for."""


LATE_HEAD = frozenset({"buffered"})
"""Plays before which no response head is sent."""


class _Chat(RequestHandler):
    _playing: "asyncio.Future[None] | None" = None

    def initialize(self, plays: Mapping[str, Play], late_head: frozenset[str], engine: Engine) -> None:
        self._plays = plays
        self._late_head = late_head
        self._engine = engine

    async def post(self) -> None:
        try:
            body = json.loads(self.request.body)
            model = body["model"]
            play = self._plays[model]
        except (ValueError, KeyError, TypeError):
            self.set_status(404)
            names = ", ".join(self._plays)
            self.finish({"error": {"message": f"models here: {names}", "type": "invalid_request_error", "code": None}})
            return
        options = body.get("stream_options") or {}
        self.set_header("Content-Type", "text/event-stream")
        with contextlib.suppress(StreamClosedError, asyncio.CancelledError):
            async with self._engine.run(model) as run:
                if model not in self._late_head:
                    self.set_header("X-Accel-Buffering", "no")
                    await self.flush()
                answer = Answer(self, model, bool(options.get("include_usage")), run)
                self._playing = asyncio.ensure_future(play(answer))
                await self._playing

    def on_connection_close(self) -> None:
        """The client left, which is its right: also in the middle of a hang."""
        if self._playing is not None:
            self._playing.cancel()


def serve(
    host: str,
    port: int,
    plays: Mapping[str, Play] = PLAYS,
    late_head: frozenset[str] = LATE_HEAD,
    tls: ssl.SSLContext | None = None,
    one_at_a_time: frozenset[str] = frozenset(),
) -> tuple[HTTPServer, int]:
    """Listen; the server and its port. Raises OSError where the address is taken."""
    engine = Engine(one_at_a_time)
    routes: list[Any] = [
        (r"/v1/chat/completions", _Chat, {"plays": plays, "late_head": late_head, "engine": engine}),
        (r"/v1/realtime", Realtime),
        (r"/metrics", EngineMetrics, {"engine": engine}),
    ]
    server = HTTPServer(Application(routes, log_function=lambda handler: None), ssl_options=tls)
    sockets = bind_sockets(port, address=host)
    server.add_sockets(sockets)
    return server, int(sockets[0].getsockname()[1])
