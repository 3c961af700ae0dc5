"""The corpus as test data: captures, what a correct observer says of them, and the scoring of one against the other."""

import json
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from sidecar.capture.records import Chunk, Record
from sidecar.files.capture import Capture, CaptureError, end_at, read_captures, records_of
from sidecar.files.inspect import report, run
from sidecar.thresholds import QuirkThresholds

FIXTURES = Path(__file__).parent / "fixtures"
CORPUS = FIXTURES / "corpus"


@cache
def captures() -> dict[str, Capture]:
    """All captures of the corpus by id."""
    found: dict[str, Capture] = {}
    for capture in read_captures(CORPUS / "streams.jsonl"):
        assert not isinstance(capture, CaptureError), capture
        found[capture.id] = capture
    return found


@cache
def expectations() -> dict[str, dict[str, Any]]:
    """What is expected of each capture, by id."""
    lines = (CORPUS / "streams.expected.jsonl").read_bytes().split(b"\n")  # not splitlines: U+2028 is no line end here
    rows = (json.loads(line) for line in lines if line)
    return {row["id"]: row for row in rows}


@cache
def disagreements() -> dict[str, dict[str, str]]:
    """Fields in which we judge a case otherwise, each with the reason, by id."""
    found: dict[str, dict[str, str]] = tomllib.loads((CORPUS / "disagreements.toml").read_text())
    return found


def observed(capture: Capture, records: list[Record] | None = None) -> dict[str, Any]:
    """What `inspect --json --show-content` says of a capture (or of its records cut otherwise)."""
    summary = run(list(records_of(capture)) if records is None else records, end_at(capture), QuirkThresholds())
    said: dict[str, Any] = json.loads(msgspec.json.encode(report(summary, show_content=True)))
    return said


def wrong_fields(expected: dict[str, Any], said: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Fields in which the two differ: name, what is expected, what was said."""
    for field in ("dialect", "outcome", "terminator", "finish_reason", "output_chunks", "text", "heartbeats"):
        if field in expected and said[field] != expected[field]:
            yield field, expected[field], said[field]
    if _counts(said["usage"]) != _counts(expected["usage"]):
        yield "usage", expected["usage"], said["usage"]
    calls = [(call["name"], _json(call["arguments"])) for call in said["tool_calls"]]
    if calls != [(call["name"], _json(call["arguments"])) for call in expected["tool_calls"]]:
        yield "tool_calls", expected["tool_calls"], said["tool_calls"]
    for field in ("error", "error_type", "reasoning_text"):
        if field in expected and said[field] != expected[field]:
            yield field, expected[field], said[field]
    for field, milestone in (("ttft_ms", "first_token"), ("ttft_text_ms", "first_visible_token")):
        if field in expected and abs(said["milestones_ms"].get(milestone, -1) - expected[field]) > 0.5:
            yield field, expected[field], said["milestones_ms"].get(milestone)
    if set(said["quirks"]) != set(expected["quirks"]):
        yield "quirks", sorted(expected["quirks"]), said["quirks"]


def _counts(usage: dict[str, Any] | None) -> dict[str, int] | None:
    return {
        name: count for name, count in (usage or {}).items() if name.endswith("_tokens") and count is not None
    } or None


def _json(text: Any) -> Any:
    try:
        return json.loads(text)
    except (ValueError, TypeError):
        return text


def recut(records: list[Record], cuts: list[int]) -> list[Record]:
    """The same exchange with its reads cut further, at these offsets into the whole body."""
    found: list[Record] = []
    offset = 0
    for record in records:
        if not isinstance(record, Chunk):
            found.append(record)
            continue
        inside = sorted({cut - offset for cut in cuts if 0 < cut - offset < len(record.data)})
        for begin, end in zip([0, *inside], [*inside, len(record.data)], strict=True):
            found.append(Chunk(record.stream, record.at, record.data[begin:end]))
        offset += len(record.data)
    return found


def body_size(capture: Capture) -> int:
    """Bytes of the response body."""
    return sum(len(chunk.data()) for chunk in capture.chunks)
