"""Which recording answers which request."""

import gzip
import json
from typing import Any

import msgspec
import pytest

from sidecar.files.capture import Capture, ChunkPart
from sidecar.files.curl import read_bare_body, read_curl
from sidecar.files.replay.recordings import BY_ID, Asked, NothingToReplay, Recordings
from tests.files.recordings import recording

CHAT = "/v1/chat/completions"


def asked(target: str = CHAT, *, method: str = "POST", headers: Any = (), **body: Any) -> Asked:
    return Asked(method, target, headers, json.dumps(body).encode() if body else b"")


def picked(recordings: Recordings, request: Asked) -> str | None:
    found = recordings.pick(request)
    return None if found is None else found.id


MANY = (
    recording("small", model="small", stream=True, messages=["hi"]),
    recording("small-whole", model="small", messages=["hi"]),
    recording("small-other", model="small", stream=True, messages=["bye"]),
    recording("large", model="large", stream=True, messages=["hi"]),
    recording("elsewhere", "http://host/v1/messages", model="small"),
    recording("listing", "http://host/v1/chat/completions", method="GET"),
)


@pytest.mark.parametrize(
    ("request_", "id"),
    [
        (asked(model="large", stream=True, messages=["whatever"]), "large"),
        (asked(model="small", stream=True, messages=["bye"]), "small-other"),
        (asked(model="small", messages=["bye"]), "small-whole"),
        (asked(messages=["hi"], stream=True, model="small"), "small"),
        (asked("/v1/messages", model="unheard-of"), "elsewhere"),
        (asked("/v1%2Fmessages"), "elsewhere"),
        (asked(method="GET"), "listing"),
        (asked(method="HEAD"), "listing"),
        (asked("/v1/nothing", headers=[(BY_ID, "large")]), "large"),
        (asked("/v1/nothing"), None),
        (asked(method="PUT"), None),
        (asked(headers=[(BY_ID, "nobody")]), None),
    ],
)
def test_method_and_path_then_model_stream_and_body_decide(request_: Asked, id: str | None) -> None:
    assert picked(Recordings(MANY), request_) == id


def test_a_compressed_request_is_read() -> None:
    body = gzip.compress(json.dumps({"model": "large"}).encode())
    request = Asked("POST", CHAT, [("content-encoding", "gzip")], body)
    assert picked(Recordings(MANY), request) == "large"


def test_redacted_values_of_a_query_fit_any() -> None:
    recordings = Recordings(
        [
            recording("array", "http://host/v1:stream?key=[redacted]"),
            recording("sse", "http://host/v1:stream?alt=sse&key=[redacted]"),
        ]
    )
    assert picked(recordings, asked("/v1:stream?key=my%20key&alt=sse")) == "sse"
    assert picked(recordings, asked("/v1:stream?key=my")) == "array"
    assert picked(recordings, asked("/v1:stream?alt=other")) == "array"  # none fits: the first of that path


SAME = [recording(str(number), model="m") for number in range(3)]


@pytest.mark.parametrize(("loop", "order"), [(False, "01222"), (True, "01201")])
def test_recordings_of_one_request_are_served_in_turn(loop: bool, order: str) -> None:
    recordings = Recordings(SAME, loop=loop)
    assert "".join(picked(recordings, asked(model="m")) or "" for _ in order) == order


def test_each_kind_of_request_has_turns_of_its_own() -> None:
    recordings = Recordings([*SAME, recording("n", model="n")])
    assert [picked(recordings, asked(model=name)) for name in "mnmn"] == ["0", "n", "1", "n"]


def test_a_response_without_its_request_answers_anything() -> None:
    head = read_curl("a", b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: [DONE]\n\n")
    bare = read_bare_body("b", b"data: [DONE]\n\n")
    for capture in (head, bare):
        found = Recordings([capture]).pick(asked("/any/where", model="m"))
        assert found is not None
        assert found.response is not None
        assert (found.response.status, found.response.headers) == (200, [("content-type", "text/event-stream")])
        assert [chunk.data() for chunk in found.chunks] == [b"data: [DONE]\n\n"]


def test_it_says_why_nothing_matched() -> None:
    recordings = Recordings([*MANY, _socket()])
    assert recordings.why_not(asked("/v1/x?key=secret")) == "nothing was recorded of POST /v1/x"
    assert recordings.why_not(asked(method="PUT")) == f"{CHAT} was recorded with GET, POST, not with PUT"
    assert "is a WebSocket" in recordings.why_not(asked("/socket", method="GET"))
    assert "has the id 'nobody'" in recordings.why_not(asked(headers=[(BY_ID, "nobody")]))
    assert f"POST {CHAT}" in recordings.places


def _socket() -> Capture:
    plain = recording("socket", "ws://host/socket", method="GET")
    assert plain.response is not None
    return msgspec.structs.replace(plain, response=msgspec.structs.replace(plain.response, status=101))


@pytest.mark.parametrize(
    ("captures", "ids", "said"),
    [
        ([], (), "there is no recorded exchange to serve"),
        (MANY, ("large", "nobody"), "no recording has the id nobody"),
        ([msgspec.structs.replace(SAME[0], chunks=[ChunkPart(b64="%", at_ms=1)])], (), "exchange 0: bad base64"),
    ],
)
def test_what_cannot_be_served_is_refused(captures: list[Capture], ids: tuple[str, ...], said: str) -> None:
    with pytest.raises(NothingToReplay, match=said):
        Recordings(captures, ids=ids)
