"""The published JSON Schema of capture files: it is that of the types, and whatever we read or write validates."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from sidecar.files.capture import Capture, CaptureError, read_captures
from sidecar.files.fixtures import line_of
from sidecar.files.schema import schema
from sidecar.files.sources import captures_of
from tests.corpus import CORPUS, FIXTURES

DOCS = Path(__file__).parents[2] / "docs"
PUBLISHED = json.loads((DOCS / "capture.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(PUBLISHED)


def lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_bytes().split(b"\n"):
        if line.strip():
            found = json.loads(line)
            yield found.get("capture", found)


def every_capture() -> Iterator[dict[str, Any]]:
    """All captures among the fixtures."""
    for path in sorted(FIXTURES.rglob("*.jsonl")):
        yield from (found for found in lines(path) if "request" in found and "end" in found and "v" in found)


def test_it_is_the_schema_of_the_types() -> None:
    assert schema() == PUBLISHED, "make docs"
    jsonschema.Draft202012Validator.check_schema(PUBLISHED)


def test_every_capture_among_the_fixtures_is_valid() -> None:
    found = list(every_capture())
    assert len(found) > 400
    for capture in found:
        VALIDATOR.validate(capture)


def test_what_we_write_is_valid_and_read_as_it_was() -> None:
    sources = [
        CORPUS / "streams.jsonl",
        FIXTURES / "websocket" / "sockets.jsonl",
        FIXTURES / "captures" / "vllm-chat.http",
    ]
    written = 0
    for capture in captures_of(sources):
        line = line_of(capture)
        VALIDATOR.validate(json.loads(line))
        written += 1
    assert written > 300


CAPTURE = {
    "v": 1,
    "id": "x",
    "request": {"method": "POST", "url": "http://h/"},
    "chunks": [{"at_ms": 1, "text": "a"}],
    "end": {"kind": "eof"},
}


@pytest.mark.parametrize(
    "wrong",
    [
        {"v": 2},
        {"id": None},
        {"request": {"method": "POST"}},
        {"chunks": [{"text": "a"}]},
        {"chunks": [{"at_ms": 1, "b64": 7}]},
        {"messages": [{"at_ms": 1, "text": "a", "from": "somebody"}]},
        {"end": {"kind": "finished"}},
    ],
)
def test_what_the_schema_refuses_the_reader_refuses_too(wrong: dict[str, Any], tmp_path: Path) -> None:
    VALIDATOR.validate(CAPTURE)
    assert not VALIDATOR.is_valid(CAPTURE | wrong)
    file = tmp_path / "file"
    file.write_text(json.dumps(CAPTURE) + "\n" + json.dumps(CAPTURE | wrong))
    good, bad = read_captures(file)
    assert isinstance(good, Capture)
    assert isinstance(bad, CaptureError)


def test_the_words_name_every_member() -> None:
    text = (DOCS / "capture.md").read_text()
    for part in PUBLISHED["$defs"].values():
        assert [name for name in part["properties"] if f"`{name}`" not in text] == []
    for kind in PUBLISHED["$defs"]["EndPart"]["properties"]["kind"]["enum"]:
        assert f"`{kind}`" in text
    example = text.partition("```json\n")[2].partition("```")[0]
    for line in example.splitlines():
        VALIDATOR.validate(json.loads(line))
