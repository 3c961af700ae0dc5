"""Hostile bodies through the whole pipeline, by framing, by coding and by dialect: nothing raises, whatever they are.

A fixed budget by default; `SIDECAR_FUZZ_EXAMPLES=20000 pytest tests/fuzz` searches longer.
"""

import zlib
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from random import Random

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.files.capture import Capture
from tests.budget import budget
from tests.corpus import body_size, captures, expectations
from tests.fuzz.mutate import SPOILERS, spoil_bytes
from tests.fuzz.pipeline import Target, survives
from tests.zstandard import zstd

SEEDS = st.integers(0, 2**32 - 1)
CHAT = "/v1/chat/completions"
CONTENT_TYPES = {
    "sse": "text/event-stream",
    "ndjson": "application/x-ndjson",
    "eventstream": "application/vnd.amazon.eventstream",
    "json_array": "application/json",
    "whole": "application/json",
    "undeclared": "",
    "binary": "application/octet-stream",
    "html": "text/html",
}
PATHS = (
    CHAT,
    "/v1/completions",
    "/v1/messages",
    "/v1/responses",
    "/api/chat",
    "/v2/chat",
    "/v1beta/models/m:streamGenerateContent",
    "/model/m/converse-stream",
    "/model/m/invoke-with-response-stream",
    "/generate_stream",
    "/v1/audio/speech",
    "/nowhere",
)
TOKENS = (
    *(
        b"data: ",
        b"data:",
        b"data",
        b"event: ",
        b"event: message_start\n",
        b"id: ",
        b"retry: 5\n",
        b": ",
        b"error: ",
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
    ),
    *(
        b"[DONE]",
        b"[",
        b"]",
        b"{",
        b"}",
        b",",
        b":",
        b'"',
        b"\\",
        b"\\ud83d",
        b"null",
        b"true",
        b"-1",
        b"1e999",
        b"\0",
        b"\xff",
        b"\xe2\x80",
        b"\xef\xbb\xbf",
    ),
    *(
        b'{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}',
        b'{"error":{"message":"x"}}',
        b'{"type":"ping"}',
        b"<html>",
    ),
    *(b'{"done":true}', b'{"candidates":[]}', b"\0\0\0\x10\0\0\0\0\x05\xc2\x48\xeb", b"\0\0\0\x10"),
)
SOUP = st.lists(st.sampled_from(TOKENS) | st.binary(max_size=12), max_size=40).map(b"".join)


@pytest.mark.parametrize("framing", CONTENT_TYPES)
@budget(60)
@given(body=SOUP, path=st.sampled_from(PATHS), seed=SEEDS)
def test_any_bytes_in_a_framing(framing: str, body: bytes, path: str, seed: int) -> None:
    random = Random(seed)
    status = random.choice((200, 200, 200, 429))
    request = random.choice((b'{"stream":true}', b'{"stream":true}', b"{}", b"", b"\xff{"))
    survives(Target(path, CONTENT_TYPES[framing], status=status, request=request), body, random)


def _zlib(window_bits: int) -> Callable[[bytes], bytes]:
    def encode(body: bytes) -> bytes:
        coder = zlib.compressobj(wbits=window_bits)
        return coder.compress(body) + coder.flush()

    return encode


ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": _zlib(31),
    "deflate": _zlib(-15),
    "br": brotli.compress,
    "zstd": zstd.compress,
}


@pytest.mark.parametrize("coding", [*ENCODERS, "gzip, br", "zstd, gzip, deflate", "unheard-of"])
@budget(40)
@given(body=SOUP, seed=SEEDS)
def test_any_bytes_in_a_coding(coding: str, body: bytes, seed: int) -> None:
    random = Random(seed)
    coded = body * random.choice((1, 1, 50))
    for name in coding.split(", "):
        coded = ENCODERS[name](coded) if name in ENCODERS else coded
    if random.random() < 0.7:
        coded = spoil_bytes(coded, random)
    survives(Target(CHAT, content_encoding=coding), coded, random)


@cache
def _seeds() -> dict[str, list[Capture]]:
    """Captures of the corpus by dialect; not the large ones, which are slow and say nothing more."""
    found: defaultdict[str, list[Capture]] = defaultdict(list)
    for name, expected in sorted(expectations().items()):
        if captures()[name].response is not None and body_size(captures()[name]) < 6000:
            found[expected["dialect"]].append(captures()[name])
    return dict(found)


@pytest.mark.parametrize("dialect", sorted({expected["dialect"] for expected in expectations().values()}))
@budget(120)
@given(seed=SEEDS)
def test_spoiled_bodies_of_a_dialect(dialect: str, seed: int) -> None:
    random = Random(seed)
    seeds = _seeds().get(dialect)
    if not seeds:
        pytest.skip("only captures without a body")
    capture = random.choice(seeds)
    assert capture.response is not None
    headers = {name.lower(): value for name, value in capture.response.headers}
    content_type = headers.get("content-type", "")
    body = b"".join(chunk.data() for chunk in capture.chunks)
    spoiled = random.choice(SPOILERS)(body, content_type, random)
    path = capture.request.url.split("/", 3)[-1]
    request = capture.request.body.data() if capture.request.body else b""
    target = Target(
        f"/{path}",
        content_type,
        headers.get("content-encoding", ""),
        capture.response.status,
        request if random.random() < 0.8 else spoil_bytes(request, random),
        tuple(capture.request.headers),
        capture.request.method,
    )
    survives(target, spoiled, random)
