"""Every capture of the corpora recorded again: word for word the same; scrubbed, the same but for what was said."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sidecar.files.capture import Capture
from sidecar.record.folder import TooLargeError
from tests import corpus, sockets
from tests.record.recordings import again, scrubbed

TEXTS = frozenset({"text", "reasoning_text", "transcript", "error", "arguments"})
"""Fields that are content."""
IDS = frozenset({"response_id"})
"""Fields that get another value of the same shape."""
OF_CODING = frozenset({"compressed_stream", "decompression_ratio_high"})
"""Quirks of the compression, which a scrubbed recording does not have: its bodies are decoded, and it says so."""

STREAMS = corpus.captures()
BOMB = "n26-decompression-bomb"
"""Decoded it is longer than what is scrubbed."""
SCRUBBED = [case for case in STREAMS if case != BOMB]
SOCKETS = sockets.captures()


def verdicts(value: Any) -> Any:
    """What may not change: all but texts, ids and what compression shows."""
    if isinstance(value, dict):
        kept = {key: verdicts(item) for key, item in value.items() if key not in TEXTS | IDS | {"content_coding"}}
        return kept | ({"quirks": sorted({*kept["quirks"]} - OF_CODING)} if "quirks" in kept else {})
    return [verdicts(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("case", STREAMS)
def test_a_recording_says_the_same(case: str, tmp_path: Path) -> None:
    capture = STREAMS[case]
    assert corpus.observed(again(capture, tmp_path)) == corpus.observed(capture)


@pytest.mark.parametrize("case", SOCKETS)
def test_a_recording_of_a_socket_says_the_same(case: str, tmp_path: Path) -> None:
    """Its audio is silence of the same length."""
    capture = SOCKETS[case]
    assert sockets.observed(again(capture, tmp_path)) == sockets.observed(capture)


@pytest.mark.parametrize("case", SCRUBBED)
def test_a_scrubbed_recording_gets_the_same_verdicts(case: str, tmp_path: Path) -> None:
    capture = STREAMS[case]
    assert verdicts(corpus.observed(scrubbed(capture, tmp_path))) == verdicts(corpus.observed(capture))


@pytest.mark.parametrize("case", SOCKETS)
def test_a_scrubbed_recording_of_a_socket_gets_the_same_verdicts(case: str, tmp_path: Path) -> None:
    capture = SOCKETS[case]
    assert verdicts(sockets.observed(scrubbed(capture, tmp_path))) == verdicts(sockets.observed(capture))


def test_a_decompression_bomb_is_not_scrubbed(tmp_path: Path) -> None:
    with pytest.raises(TooLargeError):
        scrubbed(STREAMS[BOMB], tmp_path)


@pytest.mark.parametrize("case", SCRUBBED)
def test_scrubbing_keeps_every_boundary(case: str, tmp_path: Path) -> None:
    capture = STREAMS[case]
    found = scrubbed(capture, tmp_path)
    assert found.recorded is not None
    assert found.recorded.scrubbed
    if "response" not in found.recorded.decoded:
        assert [len(chunk.data()) for chunk in found.chunks] == [len(chunk.data()) for chunk in capture.chunks]
    assert [chunk.at_ms for chunk in found.chunks] == pytest.approx([chunk.at_ms for chunk in capture.chunks])
    if capture.request.body is not None and capture.request.body.data() and "request" not in found.recorded.decoded:
        assert found.request.body is not None
        assert len(found.request.body.data()) == len(capture.request.body.data())


def words_of(capture: Capture, objects: list[dict[str, Any]]) -> Iterator[str]:
    """What was said in it: by the answer, and in the messages of the request."""
    texts: list[str] = []
    for found in objects:
        texts += [found.get(field) or "" for field in ("text", "reasoning_text", "transcript", "error")]
        texts += [text for call in found.get("tool_calls", ()) for text in strings_of(call["arguments"])]
    if capture.request.body is not None:
        texts += strings_of(capture.request.body.data(), only="content")
    for text in texts:
        yield from re.findall(r"[^\W\d_]{5,}", text)


def strings_of(data: bytes | str, only: str = "") -> list[str]:
    try:
        value = json.loads(data)
    except ValueError:
        return []
    found: list[str] = []

    def walk(value: Any, key: str) -> None:
        if isinstance(value, dict):
            for name, item in value.items():
                walk(item, name)
        elif isinstance(value, list):
            for item in value:
                walk(item, key)
        elif isinstance(value, str) and (not only or key == only):
            found.append(value)

    walk(value, "")
    return found


PROTOCOL_WORDS = frozenset({"model", "response"})
"""Of a role, and of a type; said in error messages, too."""


@pytest.mark.parametrize("case", [*SCRUBBED, *SOCKETS])
def test_no_word_that_was_said_survives(case: str, tmp_path: Path) -> None:
    """Unless the protocol says it, too: in a name of a member, an event, a tool, an error type."""
    capture = STREAMS.get(case) or SOCKETS[case]
    objects = [corpus.observed(capture)] if case in STREAMS else sockets.observed(capture)
    named = [str(found.get(field)) for found in objects for field in ("error_type", "finish_reason", "model")]
    named += [call["name"] for found in objects for call in found.get("tool_calls", ())]
    words = {*words_of(capture, objects)} - {*re.findall(r"[^\W\d_]+", " ".join(named))} - PROTOCOL_WORDS
    found = scrubbed(capture, tmp_path)
    bodies = [b"".join(chunk.data() for chunk in found.chunks), *(message.data() for message in found.messages)]
    bodies += [found.request.body.data()] if found.request.body is not None else []
    text = b"\n".join(bodies).decode("utf-8", "replace")
    kept = {word for word in words if re.search(rf'(?<![\w</.]){re.escape(word)}(?![\w>.])(?!\\*"\s*:)', text)}
    assert kept == set()
