"""What `inspect` can read, and what it says of what it cannot."""

import base64
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sidecar.capture.interest import Chooser
from sidecar.cli import cli
from sidecar.files.capture import Capture, CaptureError
from sidecar.files.sources import Source, exchanges_of
from tests.corpus import CORPUS, FIXTURES

CAPTURES = FIXTURES / "captures"
WITH_BODY = sorted(CAPTURES.glob("*.http"))
OF_THE_HEAD = {
    "compressed_stream",
    "content_length_on_stream",
    "content_type_missing",
    "content_type_unexpected",
    "error_event_in_200_stream",
    "http_error_status",
    "sse_without_stream_request",
    "stream_not_honored",
}


def inspect(*arguments: str | Path, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(cli, ["inspect", *map(str, arguments)], input=stdin, standalone_mode=False)


def said(*arguments: str | Path, stdin: bytes | None = None) -> list[dict[str, Any]]:
    result = inspect("--json", "--show-content", *arguments, stdin=stdin)
    assert result.stderr == ""
    return [json.loads(line) for line in result.stdout.splitlines()]


def body_of(path: Path) -> bytes:
    data = path.read_bytes()
    mark = b"\r\n\r\n" if b"\r\n\r\n" in data.partition(b"\n\n")[0] else b"\n\n"
    return data.partition(mark)[2]


def is_plain(path: Path) -> bool:
    """Whether the response is a 200; of an error's body alone nothing shows that it is one by status."""
    return b" 200" in path.read_bytes()[:16]


@pytest.mark.parametrize("path", [path for path in WITH_BODY if is_plain(path)], ids=lambda path: path.stem)
def test_a_body_without_its_head_gets_the_verdict_that_it_has_with_it(path: Path) -> None:
    (want,), (got,) = said(path), said("-", stdin=body_of(path))
    assert (got["id"], got["status"], got["milestones_ms"]) == ("stdin", None, {})
    same = ("dialect", "outcome", "terminator", "finish_reason", "text", "usage", "tool_calls", "error_type")
    assert {name: got[name] for name in same} == {name: want[name] for name in same}
    assert set(got["quirks"]) == set(want["quirks"]) - OF_THE_HEAD


def test_standard_input_may_hold_anything() -> None:
    for path in (CORPUS / "streams.jsonl", WITH_BODY[0]):
        (first, *_), (other, *_) = said(path), said("-", stdin=path.read_bytes())
        assert {**first, "id": ""} == {**other, "id": ""}


def test_a_report_of_a_body_alone_says_what_is_not_known() -> None:
    text = inspect("-", stdin=body_of(CAPTURES / "vllm-chat.http")).stdout
    assert "from unknown, model tiny, status unknown" in text
    assert "no timing: the file does not say when chunks came" in text


# HAR of a browser's developer tools

SSE = 'data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"hé"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'  # fmt: skip
HEADERS = [
    {"name": ":status", "value": "200"},
    {"name": "content-type", "value": "text/event-stream"},
    {"name": "content-encoding", "value": "br"},
]


def entry(url: str = "https://api.example/v1/chat/completions", **response: Any) -> dict[str, Any]:
    body = {"mimeType": "application/json", "text": '{"model":"m","stream":true}'}
    return {
        "_resourceType": "fetch",
        "startedDateTime": "2026-01-01T00:00:00.000Z",
        "time": 1234.5,
        "request": {"method": "POST", "url": url, "httpVersion": "h2", "headers": [], "postData": body},
        "response": {"status": 200, "httpVersion": "h2", "headers": HEADERS, "content": {"text": SSE}} | response,
        "timings": {"send": 1, "wait": 200, "receive": 1033.5},
    }


def har(folder: Path, *entries: dict[str, Any], bom: bool = False) -> Path:
    path = folder / "page.har"
    text = json.dumps({"log": {"version": "1.2", "creator": {"name": "WebInspector"}, "entries": entries}}, indent=2)
    path.write_bytes((b"\xef\xbb\xbf" if bom else b"") + text.encode())
    return path


@pytest.mark.parametrize(
    "content",
    [{"text": SSE}, {"text": base64.b64encode(SSE.encode()).decode(), "encoding": "base64"}],
    ids=["text", "base64"],
)
@pytest.mark.parametrize("bom", [False, True])
def test_a_har_has_bodies_and_no_times(tmp_path: Path, content: dict[str, str], bom: bool) -> None:
    (found,) = said(har(tmp_path, entry(content=content), bom=bom))
    assert (found["id"], found["dialect"], found["model"]) == ("page-1", "openai.chat", "m")
    assert (found["outcome"], found["text"]) == ("complete", "hé")
    assert (found["milestones_ms"], found["gaps_ms"]["max"]) == ({}, None)
    assert found["buffering"]["evidence"]["why"] == "recorded without times"
    assert "content_encoding_mismatch" not in found["quirks"]  # a HAR holds the decoded body


@pytest.mark.parametrize(
    ("response", "outcome"),
    [
        ({"_error": "net::ERR_INCOMPLETE_CHUNKED_ENCODING", "content": {"text": SSE[:40]}}, "upstream_reset"),
        ({"_error": "net::ERR_ABORTED", "content": {"text": SSE[:40]}}, "client_disconnect"),
        ({"_error": "net::ERR_CONNECTION_REFUSED", "status": 0, "content": {}}, "upstream_failed"),
        ({"status": 429, "content": {"text": '{"error":{"type":"rate"}}'}}, "http_error"),
    ],
)
def test_a_har_says_how_it_ended(tmp_path: Path, response: dict[str, Any], outcome: str) -> None:
    assert [found["outcome"] for found in said(har(tmp_path, entry(**response)))] == [outcome]


def test_of_a_har_only_the_traffic_of_llms_is_told(tmp_path: Path) -> None:
    page = entry("https://app.example/index.html", headers=[], content={"text": "<html>"})
    page["request"]["method"] = "GET"
    result = inspect(har(tmp_path, page, entry(), page))
    assert result.stdout.startswith("page-1  COMPLETE") or result.stdout.startswith("page-2  COMPLETE")
    assert "2 of 3 exchanges are no LLM's and were left out" in result.stderr
    none = inspect(har(tmp_path, page))
    assert "none of its 1 exchanges is an LLM's; `include` names others (--config)" in none.stderr
    config = tmp_path / "c.toml"
    config.write_text("include = ['app.example/']")
    assert "UNPARSED" in inspect("--config", config, har(tmp_path, page)).stdout


def test_sockets_of_a_har_have_their_times(tmp_path: Path) -> None:
    session = json.dumps({"type": "session.created", "event_id": "e", "session": {"id": "s", "model": "m"}})
    socket = entry("wss://api.openai.com/v1/realtime?model=m", status=101, content={})
    socket["request"]["method"] = "GET"
    asked = json.dumps({"type": "response.create"})
    socket["_webSocketMessages"] = [
        {"type": "receive", "time": 1767225600.05, "opcode": 1, "data": session},
        {"type": "send", "time": 1767225600.2, "opcode": 1, "data": asked},
        {"type": "receive", "time": 1767225600.9, "opcode": 9, "data": ""},
    ]
    text = inspect(har(tmp_path, socket)).stdout
    assert text.startswith("page-1  WEBSOCKET openai.realtime, 1 responses, 2 messages, open")


def test_a_damaged_entry_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    broken = entry(content={"text": "%", "encoding": "base64"})
    result = inspect(har(tmp_path, {"request": 1}, broken, entry(), entry(content={})))
    errors = result.stderr.splitlines()
    assert result.stdout.startswith("page-3  COMPLETE")
    assert [error.partition("page.har: ")[2][:9] for error in errors] == ["entry 1: ", "entry 2: ", "entry 4: "]
    assert "bad base64" in errors[1]
    assert "it has no body; export the HAR with content" in errors[2]


# What cannot be read

GOOD = (CORPUS / "streams.jsonl").read_bytes().split(b"\n")[0]


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", "FILE: empty; give a capture file"),
        (b"nonsense", "FILE: not a capture file, what `curl -N` prints"),
        (b"\x1f\x8b\x08\0" + GOOD, "it is compressed: gunzip it first"),
        (b'{"some": "json"}', "FILE: not a capture file, what `curl -N` prints"),
        (b'{\n "some": "json",\n "more": "of it"\n}', "FILE: not a capture file, what `curl -N` prints"),
        (b'{"v":1,"x":' + b"[" * 99_999, "FILE:1: not an exchange of a capture file: maximum recursion depth"),
        (b'{"log":{"entries":[' + b"[" * 99_999, "FILE: begins like a HAR file, but is none: maximum recursion depth"),
        (b'{\n "v": 1,\n "id": 7\n}', "FILE: not an exchange of a capture file"),
        (b'{"log": {}}', "FILE: begins like a HAR file, but is none"),
        (b'{"log": {"entries": [', "FILE: begins like a HAR file, but is none"),
        (b"12:nonsense,", "FILE: flow 1: "),
        (b"data: hello\n\n", "a body without its head, of no known dialect; record it with `curl -N -i`"),
        (b'{"v": 2, "id": "x"}', "FILE:1: capture file version 2, this sidecar reads version 1; upgrade it"),
        (b'{"v": 2, "chunks": 7}', "FILE:1: capture file version 2, this sidecar reads version 1; upgrade it"),
        (b'{"v":1,"id":"x","request":{"method":"GE', "FILE:1: not an exchange of a capture file: Input data was truncated"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_told(tmp_path: Path, data: bytes, error: str) -> None:
    file = tmp_path / "file"
    file.write_bytes(data)
    result = inspect(file)
    assert error.replace("FILE", str(file)) in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""
    assert getattr(result.exception, "code", None) == 2


def test_damaged_lines_are_told_by_number_and_the_rest_is_read(tmp_path: Path) -> None:
    file = tmp_path / "file.jsonl"
    future = json.dumps(json.loads(GOOD) | {"v": 9}).encode()
    damaged = json.dumps(json.loads(GOOD) | {"chunks": [{"at_ms": 1, "b64": "%"}]}).encode()
    file.write_bytes(b"\n".join([b'{"v":1,', GOOD, b"", b"\xff\xfe", future, damaged, GOOD[:-1], GOOD]))
    result = inspect("--json", file)
    assert len(result.stdout.splitlines()) == 2
    where = [line.removeprefix(f"sidecar: {file}:").partition(":")[0] for line in result.stderr.splitlines()]
    assert where == ["1", "4", "5", " exchange a02-overloaded-mid-stream", "7"]
    assert getattr(result.exception, "code", None) == 2


def test_an_exchange_that_was_spread_over_many_lines_is_read(tmp_path: Path) -> None:
    file = tmp_path / "pretty.json"
    file.write_text(json.dumps(json.loads(GOOD), indent=2))
    assert [found["id"] for found in said(file)] == ["a02-overloaded-mid-stream"]


def test_folders_and_files_that_are_not_there(tmp_path: Path) -> None:
    assert f"{tmp_path}: no capture file (*.jsonl) in this folder" in inspect(tmp_path).stderr
    assert "No such file or directory" in inspect(tmp_path / "missing").stderr
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "one.jsonl").write_bytes(GOOD)
    assert [found["id"] for found in said(tmp_path)] == ["a02-overloaded-mid-stream"]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.binary(max_size=300)
    | st.builds(
        bytes.__add__, st.sampled_from([b"HTTP/1.1 200 OK\r\n", b'{"log":', b"4:", b'{"v":1,', b"data: "]), st.binary()
    )
)
@example(data=b"HTTP/1.1 200 OK\r\n")
@example(data=b"12345678901:")
@example(
    data=b'{"log":{"entries":[{"request":{"method":"","url":"http://["},"response":{"status":200,"content":{"text":"x"}}}]}}'
)
def test_no_file_raises_anything_but_its_error(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "file"
    file.write_bytes(data)
    found: list[object] = []
    with contextlib.suppress(CaptureError):
        found += exchanges_of(Source(file, "file"), Chooser())
    assert all(isinstance(each, Capture | CaptureError) for each in found)
    result = inspect(file)
    assert result.exit_code in (0, 2), result.exception
    assert all(line.startswith("sidecar: ") for line in result.stderr.splitlines())
