"""The corpus of WebSockets as test data: captures, and what a correct observer says of them."""

import json
import tomllib
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec

from sidecar.files.capture import Capture, CaptureError, end_at, read_captures, records_of
from sidecar.files.inspect import WHOLE_FILE, lines_of, run
from sidecar.files.sockets import is_socket, run_socket
from sidecar.thresholds import QuirkThresholds
from tests.corpus import FIXTURES

SOCKETS = FIXTURES / "websocket"

_SAME = ("response_id", "outcome", "terminator", "finish_reason", "output_chunks", "text", "transcript", "t0_source")
_TIMES = {
    "ttft_ms": "first_token",
    "ttft_text_ms": "first_visible_token",
    "ttft_audio_ms": "first_audio",
}


@cache
def captures() -> dict[str, Capture]:
    """All captures by id."""
    found: dict[str, Capture] = {}
    for capture in read_captures(SOCKETS / "sockets.jsonl"):
        assert not isinstance(capture, CaptureError), capture
        found[capture.id] = capture
    return found


@cache
def expectations() -> dict[str, dict[str, Any]]:
    """What is expected of each capture, by id."""
    lines = (SOCKETS / "sockets.expected.jsonl").read_bytes().split(b"\n")
    return {row["id"]: row for row in (json.loads(line) for line in lines if line)}


@cache
def disagreements() -> dict[str, dict[str, str]]:
    """Fields that we judge otherwise, each with the reason, by id or `*`."""
    found: dict[str, dict[str, str]] = tomllib.loads((SOCKETS / "disagreements.toml").read_text())
    return found


def observed(capture: Capture) -> list[dict[str, Any]]:
    """The objects that `inspect --json --show-content` prints of a capture."""
    records = list(records_of(capture))
    thresholds = QuirkThresholds()
    found = (
        run_socket(records, end_at(capture), thresholds, WHOLE_FILE)
        if is_socket(records)
        else run(records, end_at(capture), thresholds)
    )
    lines = [said for _, said in lines_of(found, "json", show_content=True)]
    objects: list[dict[str, Any]] = json.loads(msgspec.json.encode(lines))
    return objects


def wrong_fields(expected: dict[str, Any], said: list[dict[str, Any]]) -> Iterator[tuple[str, Any, Any]]:
    """Fields in which the two differ: name, what is expected, what was said."""
    yield from _wrong_of_socket(expected, said)
    turns = [one for one in said if "socket" in one]
    if len(turns) != len(expected["streams"]):
        yield "streams", len(expected["streams"]), len(turns)
        return
    for number, (want, got) in enumerate(zip(expected["streams"], turns, strict=True)):
        assert got["socket"] == expected["id"]
        for field, (wanted, have) in wrong_of_turn(want, got):
            yield f"{field}[{number}]", wanted, have
        for field in ("dialect", "model"):
            if got[field] != expected[field]:
                yield field, expected[field], got[field]


def _wrong_of_socket(expected: dict[str, Any], said: list[dict[str, Any]]) -> Iterator[tuple[str, Any, Any]]:
    socket = dict(expected["socket"])
    outcome = socket.pop("outcome")
    if outcome is not None:
        (upgrade,) = said
        if upgrade["outcome"] != outcome:
            yield "socket.outcome", outcome, upgrade["outcome"]
        return
    facts = said[0]["session"]
    for name, want in socket.items():
        if facts[name] != want:
            yield f"socket.{name}", want, facts[name]


def wrong_of_turn(
    want: dict[str, Any], got: dict[str, Any], *, timed: bool = True
) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Fields in which a report differs from what is expected of a response. `timed`: whether its times are known."""
    for field in _SAME:
        if got[field] != want[field]:
            yield field, (want[field], got[field])
    for field in ("error", "error_type", "reasoning_text"):
        if field in want and got[field] != want[field]:
            yield field, (want[field], got[field])
    if _counts(got["usage"]) != _counts(want["usage"]):
        yield "usage", (want["usage"], got["usage"])
    if want.get("usage_audio") != got.get("usage_audio"):
        yield "usage_audio", (want.get("usage_audio"), got.get("usage_audio"))
    calls = [(call["name"], call["arguments"]) for call in got["tool_calls"]]
    if calls != [(call["name"], call["arguments"]) for call in want["tool_calls"]]:
        yield "tool_calls", (want["tool_calls"], got["tool_calls"])
    if not timed:
        return
    reached = got["milestones_ms"]
    times: dict[str, float | None] = {name: want.get(field) for field, name in _TIMES.items()}
    if want["t0_at_ms"] is not None and "terminator_at_ms" in want:
        times["terminator"] = want["terminator_at_ms"] - want["t0_at_ms"]
    for name, at in times.items():
        if (at is None) != (name not in reached) or (at is not None and abs(reached[name] - at) > 0.5):
            yield name, (at, reached.get(name))


def _counts(usage: dict[str, Any] | None) -> dict[str, int] | None:
    return {name: count for name, count in (usage or {}).items() if name.endswith("_tokens")} or None
