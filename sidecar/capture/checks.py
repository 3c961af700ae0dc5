"""Whether what went to the client is what came from the upstream, for a sample of the exchanges that are copied.

Both are read inside mitmproxy's HTTP layer: body pieces as they come in, before any addon, and as they go out, behind all
of them. So this finds what our own callable could not: another addon or script that changes, drops or repeats bytes, and
a callable that raised, whose piece mitmproxy silently drops.
"""

import logging
from collections.abc import Callable
from functools import wraps
from hashlib import blake2b
from typing import Any

from mitmproxy.proxy.commands import Command
from mitmproxy.proxy.layer import CommandGenerator
from mitmproxy.proxy.layers import http
from mitmproxy.proxy.layers.http._events import ResponseData, ResponseEndOfMessage

logger = logging.getLogger(__name__)

_FIRST = 16
"""So many exchanges are all checked, so that a fault shows at once..."""
_EVERY = 16
"""...and of those that follow one in so many."""
_AT_ONCE = 256
_LOGGED = 10  # violations that are logged; the metric counts on

type _State = Callable[[Any], CommandGenerator[None]]


class Checks:
    """Chooses exchanges to be checked and counts what came of it. Used from the proxy's event loop."""

    def __init__(self) -> None:
        self.settled = 0
        """Exchanges whose bytes were compared."""
        self.violations = 0
        """Of those, exchanges whose bytes were not the same."""
        self._seen = 0
        self._open: dict[str, Check] = {}

    def response_head(self, flow: str) -> None:
        """The body of a copied exchange is about to come; `flow` is the id of mitmproxy's flow."""
        self._seen += 1
        if (self._seen <= _FIRST or self._seen % _EVERY == 0) and len(self._open) < _AT_ONCE:
            self._open[flow] = _AWAITED[flow] = Check(flow, self)

    def over(self, flow: str, *, broken_off: bool) -> None:
        """The exchange is over. In one that was broken off, all that had come has gone on, or it never will."""
        check = self._open.pop(flow, None)
        if check is not None:
            _AWAITED.pop(flow, None)
            if broken_off:
                check.settle()

    def so_far(self) -> tuple[int, int]:
        """How many were compared, and how many of them were not the same."""
        return self.settled, self.violations

    def stop(self) -> None:
        """The proxy shuts down: what is in flight is not compared."""
        for flow in list(self._open):
            self.over(flow, broken_off=False)


class Check:
    """One exchange: what came and what went, as hashes, because pieces may be cut otherwise."""

    __slots__ = ("_came", "_checks", "_flow", "_settled", "_went", "came", "went")

    def __init__(self, flow: str, checks: Checks) -> None:
        self.came = 0
        """Bytes of the body that the upstream sent."""
        self.went = 0
        """Bytes of it that went on to the client."""
        self._came = blake2b(digest_size=16)
        self._went = blake2b(digest_size=16)
        self._flow = flow
        self._checks = checks
        self._settled = False

    def piece_came(self, data: bytes) -> None:
        """A piece as the HTTP layer read it."""
        self.came += len(data)
        self._came.update(data)

    def piece_went(self, data: bytes) -> None:
        """A piece as it is written to the client."""
        try:
            self.went += len(data)
            self._went.update(data)
        except TypeError:  # a script made something of it that mitmproxy cannot write, either
            self.went = -1

    def settle(self) -> None:
        """Compare, once."""
        if self._settled:
            return
        self._settled = True
        checks = self._checks
        checks.settled += 1
        if self.came == self.went and self._came.digest() == self._went.digest():
            return
        checks.violations += 1
        if checks.violations <= _LOGGED:
            logger.warning(
                "exchange %s: what went to the client is not what came from the upstream (%d and %d bytes); "
                "does a script or another addon change bodies?",
                self._flow,
                self.went,
                self.came,
            )


_AWAITED: dict[str, Check] = {}
"""By flow: checks that no stream of mitmproxy's has taken up yet; its HTTP layer knows nothing of us."""


def watch_http() -> None:
    """Let mitmproxy's HTTP layer show the bodies of chosen exchanges; once per process. Others cost a look-up each."""
    head = http.HttpStream.state_wait_for_response_headers
    if hasattr(head, "__wrapped_for_checks__"):
        return

    @wraps(head)
    def wait_for_response_headers(self: http.HttpStream, event: Any) -> CommandGenerator[None]:
        yield from head(self, event)
        if _AWAITED and (check := _AWAITED.pop(self.flow.id, None)) is not None:
            _follow(self, check)

    wait_for_response_headers.__wrapped_for_checks__ = True  # type: ignore[attr-defined]  # a mark of ours
    http.HttpStream.state_wait_for_response_headers = wait_for_response_headers  # type: ignore[method-assign]


def _follow(stream: http.HttpStream, check: Check) -> None:
    """Put the check around the state that handles the body, streamed or (if an addon wants it so) buffered."""
    if stream.server_state in (stream.state_stream_response_body, stream.state_consume_response_body):
        stream.server_state = _checked(stream, stream.server_state, check)


def _checked(stream: http.HttpStream, state: _State, check: Check) -> _State:
    @wraps(state)
    def checked(event: Any) -> CommandGenerator[None]:
        if isinstance(event, ResponseData):
            check.piece_came(event.data)
        inner = state(event)
        reply: Any = None
        while True:
            try:
                command: Command = inner.send(reply)
            except StopIteration:
                break
            if isinstance(command, http.SendHttp) and isinstance(command.event, ResponseData):
                check.piece_went(command.event.data)
            reply = yield command
        if isinstance(event, ResponseEndOfMessage):
            check.settle()
        else:
            _follow(stream, check)  # mitmproxy may have gone from one state to the other

    checked.check = check  # type: ignore[attr-defined]  # for `check_of`
    return checked


def check_of(stream: http.HttpStream) -> Check | None:
    """The check that follows a stream, for who takes its body past the state that handles it."""
    return getattr(stream.server_state, "check", None)
