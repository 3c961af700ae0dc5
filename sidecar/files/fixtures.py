"""Recorded exchanges as fixtures for tests: a file for each with a name that says what it is, and an index."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec

from sidecar.capture.records import Headers
from sidecar.capture.redaction import redact_headers, redact_target
from sidecar.files.capture import Capture
from sidecar.files.inspect import inspect_capture
from sidecar.stream.summary import Summary
from sidecar.thresholds import QuirkThresholds

INDEX = "index.json"
_FIRST = ("v", "id", "started_at", "timed")
_LAST = ("request", "response", "chunks", "messages", "end")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]+", re.IGNORECASE)
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")
_NAME_CHARS = 90


class FixturesError(ValueError):
    """Nothing was written; the text says why and what to do."""


def write_fixtures(
    captures: Iterable[Capture],
    directory: Path,
    thresholds: QuirkThresholds,
    *,
    overwrite: bool = False,
    allow_headers: frozenset[str] = frozenset(),
) -> list[str]:
    """Write the exchanges; the names of the files. Header values and query parameters that may hold secrets are redacted,
    bodies stay as they are.

    `overwrite`: what an earlier call wrote there is removed first. Raises FixturesError where the folder holds anything
    else, OSError where it cannot be written.
    """
    _make_room(directory, overwrite)
    entries: list[dict[str, Any]] = []
    for capture in captures:
        entry = _entry(capture, thresholds)
        entry = {"file": _name(entry, {each["file"] for each in entries}), **entry}
        (directory / entry["file"]).write_bytes(line_of(_redacted(capture, allow_headers)) + b"\n")
        entries.append(entry)
    (directory / INDEX).write_text(json.dumps({"v": 1, "exchanges": entries}, indent=1) + "\n", encoding="utf-8")
    return [entry["file"] for entry in entries]


def _make_room(directory: Path, overwrite: bool) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    present = {path.name for path in directory.iterdir()}
    if not present:
        return
    written = _written(directory) if overwrite else set()
    foreign = present - written
    if foreign:
        hint = "holds files that `sidecar fixtures` did not write there" if overwrite else "is not empty"
        more = "" if overwrite else ", or --overwrite what an earlier run wrote there"
        raise FixturesError(f"{directory} {hint} ({min(foreign)}); name a new folder{more}")
    for name in written & present:
        (directory / name).unlink()


def _written(directory: Path) -> set[str]:
    """What the index of a folder says was written there."""
    try:
        entries = json.loads((directory / INDEX).read_bytes())["exchanges"]
        return {INDEX, *(Path(entry["file"]).name for entry in entries)}
    except (OSError, ValueError, TypeError, KeyError):
        return set()


def line_of(capture: Capture) -> bytes:
    """An exchange as a line of a capture file, what is absent left out."""
    given: dict[str, Any] = msgspec.to_builtins(capture)
    others = [name for name in given if name not in _FIRST + _LAST]
    value = {name: given[name] for name in (*_FIRST, *others, *_LAST) if given[name] not in (None, "", [])}
    if capture.timed:
        del value["timed"]
    for part in (value["request"], value.get("response", {}), value["end"]):
        for name in [name for name, held in part.items() if held is None or held == ""]:
            del part[name]
    return msgspec.json.encode(value)


def _redacted(capture: Capture, allowed: frozenset[str]) -> Capture:
    url = urlsplit(capture.request.url)
    target = redact_target((url.path or "/") + (f"?{url.query}" if url.query else ""))
    path, _, query = target.partition("?")
    request = msgspec.structs.replace(
        capture.request,
        url=urlunsplit((url.scheme, url.netloc.rpartition("@")[2], path, query, "")),
        headers=_of_allowed(capture.request.headers, allowed),
    )
    response = capture.response
    if response is not None:
        response = msgspec.structs.replace(response, headers=_of_allowed(response.headers, allowed))
    return msgspec.structs.replace(capture, request=request, response=response)


def _of_allowed(headers: Headers, allowed: frozenset[str]) -> Headers:
    raw = [(name.encode("latin-1", "replace"), value.encode("latin-1", "replace")) for name, value in headers]
    return redact_headers(raw, allowed)


def _entry(capture: Capture, thresholds: QuirkThresholds) -> dict[str, Any]:
    """What the index says of an exchange; of a WebSocket with several responses, of the first that is not complete."""
    found = inspect_capture(capture, thresholds)
    about: dict[str, Any] = {
        "id": capture.id,
        "method": capture.request.method,
        "path": urlsplit(capture.request.url).path or "/",
        "seconds": round(capture.end.at_ms / 1000, 3) if capture.timed else None,
    }
    if isinstance(found, Summary):
        return about | _verdict(found)
    responses = found.responses
    if not responses:
        return about | {"dialect": found.session.dialect, "outcome": "socket", "responses": 0}
    shown = next((each for each in responses if each.outcome != "complete"), responses[0])
    return about | _verdict(shown) | {"responses": len(responses)}


def _verdict(summary: Summary) -> dict[str, Any]:
    return {
        "dialect": summary.dialect,
        "model": summary.request_model or summary.response_model,
        "status": summary.status,
        "outcome": summary.outcome,
        "finish_reason": summary.finish_reason,
        "terminator": summary.terminator,
        "quirks": list(summary.quirks),
        "tool_calls": len(summary.tool_calls),
    }


def _name(entry: dict[str, Any], taken: set[str]) -> str:
    id = entry["id"][:8] if _UUID.fullmatch(entry["id"]) else entry["id"]
    name = _UNFIT.sub("-", f"{entry['dialect']}-{entry['outcome']}-{id}")[:_NAME_CHARS].strip("-.")
    number, found = 1, f"{name}.jsonl"
    while found in taken:
        number += 1
        found = f"{name}-{number}.jsonl"
    return found
