"""The line of an exchange: what is written how, what is decoded, and what is cut."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from sidecar.capture.records import Chunk, Ended, Message, Opened, Record, RequestBody, RequestSent, ResponseHead
from sidecar.capture.tap import REQUEST_COPY_LIMIT
from sidecar.files.capture import Capture, CaptureError, read_captures, records_of
from sidecar.record import line as lines
from sidecar.record.folder import TooLargeError
from sidecar.record.line import line_of
from sidecar.record.scrub.scrubber import Scrubber
from tests.record.recordings import draft_of

WALL = 1_767_225_600_123_456_789


def records(*chunks: bytes, coding: str = "", request: bytes = b"{}", port: int = 443) -> list[Record]:
    headers = [("content-type", "text/event-stream"), *([("content-encoding", coding)] if coding else [])]
    return [
        Opened(1, 1000, "an-id", WALL, "POST", "https", "host", port, "/v1/chat/completions", "HTTP/1.1", []),
        RequestBody(1, 1100, request),
        RequestSent(1, 2_001_000),
        ResponseHead(1, 3_001_001, 200, "HTTP/1.1", headers),
        *(Chunk(1, 4_001_000 + number, data) for number, data in enumerate(chunks)),
        Ended(1, 9_001_000, "eof"),
    ]


def written(*records: Record, scrub: bool = False) -> dict[str, Any]:
    line = line_of(draft_of(records), by="test", scrubber=Scrubber() if scrub else None)
    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1
    found: dict[str, Any] = json.loads(line)
    return found


def read(line: bytes, folder: Path) -> Capture | CaptureError:
    (folder / "f").write_bytes(line)
    (found,) = read_captures(folder / "f")
    return found


def test_the_form_of_a_line() -> None:
    assert written(*records("data: ü\n\n".encode(), b"\xff")) == {
        "v": 1,
        "id": "an-id",
        "started_at": "2026-01-01T00:00:00.125456Z",
        "request": {
            "method": "POST",
            "url": "https://host/v1/chat/completions",
            "http_version": "HTTP/1.1",
            "headers": [],
            "body": {"text": "{}"},
        },
        "response": {
            "status": 200,
            "http_version": "HTTP/1.1",
            "headers": [["content-type", "text/event-stream"]],
            "at_ms": 1.000001,
        },
        "chunks": [{"at_ms": 2.0, "text": "data: ü\n\n"}, {"at_ms": 2.000001, "b64": "/w=="}],
        "end": {"kind": "eof", "at_ms": 7.0},
        "recorded": {"by": "test"},
    }


def test_what_is_read_back_are_the_records(tmp_path: Path) -> None:
    given = records(b"data: a\n\n", b"\x80", port=8443)
    capture = read(line_of(draft_of(given), by="test"), tmp_path)
    assert isinstance(capture, Capture)
    again = list(records_of(capture))
    assert [type(record) for record in again] == [type(record) for record in given]
    sent = next(record.at for record in again if isinstance(record, RequestSent))
    assert [record.at - sent for record in again[3:]] == [record.at - 2_001_000 for record in given[3:]]
    assert [record.data for record in again if isinstance(record, Chunk)] == [b"data: a\n\n", b"\x80"]
    assert isinstance(again[0], Opened)
    assert again[0].port == 8443


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85"])
def test_no_reader_tears_a_line_apart(mark: str) -> None:
    line = line_of(draft_of(records(f"data: {mark}\n\n".encode())), by="test")
    assert len(line.decode().splitlines()) == 1
    assert json.loads(line)["chunks"][0]["text"] == f"data: {mark}\n\n"


def test_a_compressed_body_is_kept_as_it_came() -> None:
    body = gzip.compress(b"data: fine\n\n")
    found = written(*records(body[:10], body[10:], coding="gzip"))
    assert ["content-encoding", "gzip"] in found["response"]["headers"]
    assert "decoded" not in found["recorded"]


@pytest.mark.parametrize("scrub", [True, False])
def test_a_compressed_body_with_a_credential_is_kept_decoded(scrub: bool) -> None:
    body = gzip.compress(b'data: {"api_key": "CANARY"}\n\n', mtime=0)
    found = written(*records(body[:10], body[10:], coding="gzip"), scrub=scrub)
    assert found["recorded"]["decoded"] == {"response": "gzip"}
    assert not any("content-encoding" in header for header in found["response"]["headers"])
    assert [chunk["at_ms"] for chunk in found["chunks"]] == [2.0, 2.000001]
    text = "".join(chunk["text"] for chunk in found["chunks"])
    assert len(text) == len('data: {"api_key": "CANARY"}\n\n')
    assert "CANARY" not in text


def test_a_coding_that_is_only_claimed_changes_nothing() -> None:
    found = written(*records(b"data: plain text\n\n", coding="gzip"), scrub=True)
    assert ["content-encoding", "gzip"] in found["response"]["headers"]
    assert "plain" not in found["chunks"][0]["text"]


def test_what_decodes_to_more_than_memory_may_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "DECODED_LIMIT", 100_000)
    with pytest.raises(TooLargeError):
        written(*records(gzip.compress(b"x" * 200_000), coding="gzip"))
    monkeypatch.setattr(lines, "SCRUBBED_LIMIT", 1000)
    with pytest.raises(TooLargeError):
        written(*records(b"x" * 2000), scrub=True)
    assert written(*records(b"x" * 2000))


def test_a_request_of_which_only_the_beginning_was_copied_says_so() -> None:
    found = written(*records(request=b"x" * REQUEST_COPY_LIMIT))
    assert found["recorded"]["cut"] == ["request_body"]


def test_a_message_of_which_only_the_beginning_was_copied_keeps_its_size(tmp_path: Path) -> None:
    upgrade = ResponseHead(1, 3_000_000, 101, "HTTP/1.1", [])
    size = REQUEST_COPY_LIMIT + 1
    given = [*records()[:3], upgrade, Message(1, 4_000_000, b'{"type":"x"', False, True, size), Ended(1, 5, "eof")]
    capture = read(line_of(draft_of(given), by="test"), tmp_path)
    assert isinstance(capture, Capture)
    assert capture.recorded is not None
    assert capture.recorded.cut == ["messages"]
    (message,) = (record for record in records_of(capture) if isinstance(record, Message))
    assert message.size == size


def test_a_wall_clock_from_nowhere_is_left_out() -> None:
    opened, *rest = records()
    assert isinstance(opened, Opened)
    opened = Opened(1, 1000, "x", 10**30, *(getattr(opened, name) for name in opened.__struct_fields__[4:]))
    assert written(opened, *rest)["started_at"] == ""


def test_a_line_that_is_cut_off_says_so(tmp_path: Path) -> None:
    line = line_of(draft_of(records(b"data: a\n\n")), by="test")
    found = read(line[:-20], tmp_path)
    assert isinstance(found, CaptureError)
    assert "cut off: what wrote it was killed" in str(found)
