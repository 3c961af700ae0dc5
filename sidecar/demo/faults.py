"""Rarer faults of real endpoints, for dashboards and alerts: what `sidecar demo` has no room for on a screen."""

import asyncio
from typing import Any

from sidecar.demo.upstream import LATE_HEAD, PLAYS, Answer, Play

_PING_SECONDS = 1.0
_LONG_THOUGHT_SECONDS = 65.0  # beyond the minute after which nginx and its like give up


async def no_head(answer: Answer) -> None:
    """Accepts the request and never answers."""
    await asyncio.Event().wait()


async def no_token(answer: Answer) -> None:
    """Sends the head and a role, then nothing."""
    await answer.send({"role": "assistant", "content": ""})
    await asyncio.Event().wait()


async def pings_only(answer: Answer) -> None:
    """Keeps the connection open with comments, for ever."""
    await answer.send({"role": "assistant", "content": ""})
    while True:
        answer.handler.write(": ping\n\n")
        await answer.handler.flush()
        await asyncio.sleep(_PING_SECONDS)


async def never_closes(answer: Answer) -> None:
    """Finishes and leaves the body open."""
    await answer.words(10)
    await answer.finish(tokens=10, done=False)
    await asyncio.Event().wait()


async def truncated(answer: Answer) -> None:
    """Ends cleanly in the middle of the answer."""
    await answer.words(12)


async def reset(answer: Answer) -> None:
    """Breaks the connection in the middle of the answer."""
    await answer.words(12)
    connection = answer.handler.request.connection
    assert connection is not None
    connection.stream.close()  # type: ignore[attr-defined]  # tornado's stubs know only the base class


async def rate_limited(answer: Answer) -> None:
    """Refuses with a 429."""
    await asyncio.sleep(0.05)
    _whole(answer, {"error": {"message": "slow down", "type": "rate_limit_error", "code": "rate_limited"}}, status=429)


async def not_streamed(answer: Answer) -> None:
    """Answers a request for a stream with one document."""
    await asyncio.sleep(1.0)
    message = {"role": "assistant", "content": "All at once."}
    usage = {"prompt_tokens": 12, "completion_tokens": 4, "total_tokens": 16}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    _whole(answer, {"id": "chatcmpl-whole", "object": "chat.completion", "choices": [choice], "usage": usage})


def _whole(answer: Answer, document: dict[str, Any], status: int = 200) -> None:
    answer.handler.set_status(status)
    answer.handler.set_header("Content-Type", "application/json")
    answer.handler.finish(document)


async def usage_dropped(answer: Answer) -> None:
    """Was asked for usage, sends none."""
    answer.include_usage = False
    await answer.words(15)
    await answer.finish(tokens=15)


async def broken_arguments(answer: Answer) -> None:
    """Calls a tool with arguments that are no JSON."""
    call = {"index": 0, "id": "call_demo", "type": "function", "function": {"name": "get_weather", "arguments": ""}}
    await answer.send({"role": "assistant", "content": None, "tool_calls": [call]})
    for piece in ('{"city"', ": Os", "lo}"):
        await asyncio.sleep(0.04)
        await answer.send({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
    await answer.finish("tool_calls", tokens=12)


async def cached_prompt(answer: Answer) -> None:
    """Thinks a little, about a long prompt that it has seen before."""
    await answer.send({"role": "assistant", "content": ""})
    for _ in range(6):
        await answer.send({"reasoning_content": "hm "})
        await asyncio.sleep(0.1)
    await answer.words(25)
    await answer.send({}, finish="stop")
    if answer.include_usage:
        counts = {"prompt_tokens": 1800, "completion_tokens": 31, "total_tokens": 1831}
        details = {
            "prompt_tokens_details": {"cached_tokens": 1536},
            "completion_tokens_details": {"reasoning_tokens": 6},
        }
        answer.event({"choices": [], "usage": counts | details})
    answer.handler.write("data: [DONE]\n\n")
    await answer.handler.flush()


async def deep_thinker(answer: Answer) -> None:
    """Is silent for longer than most hops bear, then answers as if nothing had been."""
    await answer.send({"role": "assistant", "content": ""})
    await asyncio.sleep(_LONG_THOUGHT_SECONDS)
    await answer.words(20)
    await answer.finish(tokens=20)


async def queued(answer: Answer) -> None:
    """Healthy, once it is its turn."""
    await answer.words(25)
    await answer.finish(tokens=25)


async def sometimes_new(answer: Answer) -> None:
    """Healthy at first; from its fourth answer on it forgets the terminator, as after a rollout."""
    _answers["sometimes-new"] = _answers.get("sometimes-new", 0) + 1
    await answer.words(20)
    await answer.finish(tokens=20, done=_answers["sometimes-new"] < 4)


_answers: dict[str, int] = {}

ALL_PLAYS: dict[str, Play] = {
    **PLAYS,
    "no-head": no_head,
    "no-token": no_token,
    "pings-only": pings_only,
    "never-closes": never_closes,
    "truncated": truncated,
    "reset": reset,
    "rate-limited": rate_limited,
    "not-streamed": not_streamed,
    "usage-dropped": usage_dropped,
    "broken-arguments": broken_arguments,
    "cached-prompt": cached_prompt,
    "deep-thinker": deep_thinker,
    "queued": queued,
    "changed-lately": sometimes_new,
}
ONE_AT_A_TIME = frozenset({"queued"})
"""Models that answer one request after the other."""
ALL_LATE_HEADS = LATE_HEAD | {"no-head", "rate-limited", "not-streamed"}
