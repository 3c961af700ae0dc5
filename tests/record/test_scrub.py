"""What scrubbing keeps and what it replaces, framing by framing; and that no cut of the bytes lets content through."""

import base64
import json
import re
from typing import Any

import pytest
from botocore.eventstream import EventStreamBuffer, ParserError
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.capture.records import Headers, Message
from sidecar.record.draft import Said
from sidecar.record.line import Bodies
from sidecar.record.scrub.scrubber import Scrubber
from tests.corpus import captures as corpus
from tests.record.recordings import KEY
from tests.sockets import captures as socket_corpus

CANARY = "Zqcanary"
SSE, NDJSON, JSON = "text/event-stream", "application/x-ndjson", "application/json"
FRAMES = "application/vnd.amazon.eventstream"


def scrub(
    *chunks: bytes | str,
    kind: str = SSE,
    request: bytes = b"",
    request_kind: str = JSON,
    messages: list[Message] | None = None,
    headers: Headers | None = None,
) -> Bodies:
    pieces = [chunk.encode() if isinstance(chunk, str) else chunk for chunk in chunks]
    bodies = Bodies(
        "/v1/chat/completions",
        [("content-type", request_kind)],
        request,
        [("content-type", kind), *(headers or [])],
        pieces,
        [Said(message) for message in messages or []],
    )
    Scrubber(KEY).scrub(bodies)
    assert [len(chunk) for chunk in bodies.chunks] == [len(piece) for piece in pieces]
    assert len(bodies.request) == len(request)
    return bodies


def response(*chunks: bytes | str, kind: str = SSE) -> str:
    return b"".join(scrub(*chunks, kind=kind).chunks).decode()


def events(text: str) -> list[Any]:
    return [json.loads(line[5:]) for line in text.splitlines() if line.startswith("data:") and "[DONE]" not in line]


def shape(text: str) -> str:
    return re.sub("[1-9]", "1", re.sub("[A-Z]", "A", re.sub("[a-z]", "a", text)))


def delta(**members: Any) -> str:
    choice = {"index": 0, "delta": members, "finish_reason": None}
    return f"data: {json.dumps({'id': 'chatcmpl-abc123XYZ9', 'model': 'gpt-4o', 'choices': [choice]})}\n\n"


def test_words_white_space_and_punctuation_keep_their_shape() -> None:
    said = "Dear Ms. O'Neil,\n\n\tyour order #4711 (2 kites) ships on May 3rd!"
    (event,) = events(response(delta(content=said)))
    filled = event["choices"][0]["delta"]["content"]
    assert shape(filled) == shape(said)
    assert not set(re.findall(r"\w{3,}", said)) & set(re.findall(r"\w{3,}", filled))


def test_what_is_the_protocols_own_stays() -> None:
    end = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1767225600, "model": "gpt-4o"}
    end["choices"] = [{"index": 0, "delta": {"role": "assistant"}, "finish_reason": "stop"}]
    end["usage"] = {"prompt_tokens": 12, "completion_tokens": 34, "total_tokens": 46}
    text = f": OPENROUTER PROCESSING\n\nevent: message\nretry: 3000\ndata: {json.dumps(end)}\n\ndata: [DONE]\n\n"
    assert response(text) == text


def test_an_id_is_another_one_and_the_same_everywhere() -> None:
    found = scrub(delta(content="a"), delta(content="b"), headers=[("x-request-id", "req_abc123")])
    ids = {event["id"] for event in events(b"".join(found.chunks).decode())}
    assert len(ids) == 1
    (filled,) = ids
    assert filled.startswith("chatcmpl-")
    assert filled != "chatcmpl-abc123XYZ9"
    assert shape(filled) == shape("chatcmpl-abc123XYZ9")
    assert dict(found.response_headers)["x-request-id"] not in ("req_abc123", "")


def test_equal_ids_of_two_exchanges_stay_equal_under_one_key_and_differ_under_another() -> None:
    one, other = response(delta(content="a")), response(delta(content="a"))
    assert one == other
    bodies = Bodies("/", [], b"", [("content-type", SSE)], [delta(content="a").encode()], [])
    Scrubber().scrub(bodies)
    assert bodies.chunks[0].decode() != one


def test_arguments_in_pieces_stay_valid_json() -> None:
    arguments = json.dumps({"city": 'Zürich "A"', "n": -10.50, "deep": [True, None, {"x": 1e-7}], "e": "\u2028\n"})
    pieces = [arguments[i : i + 3] for i in range(0, len(arguments), 3)]
    calls = [delta(tool_calls=[{"index": 0, "function": {"arguments": piece}}]) for piece in pieces]
    calls.insert(0, delta(tool_calls=[{"index": 0, "id": "call_1", "type": "function", "function": {"name": "f"}}]))
    found = events(response(*calls))
    functions = [event["choices"][0]["delta"]["tool_calls"][0]["function"] for event in found]
    assert functions[0]["name"] == "f"
    filled = "".join(function.get("arguments", "") for function in functions)
    value = json.loads(filled)
    assert list(value) == ["city", "n", "deep", "e"]
    assert value["deep"][:2] == [True, None]
    assert isinstance(value["n"], float)
    assert "rich" not in filled
    assert len(filled) == len(arguments)


def test_invalid_arguments_stay_invalid() -> None:
    call = delta(tool_calls=[{"index": 0, "function": {"name": "f", "arguments": "{'city': Paris"}}])
    (event,) = events(response(call))
    filled = event["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"]
    assert shape(filled) == shape("{'city': Paris")
    with pytest.raises(ValueError):
        json.loads(filled)


def test_a_snapshot_agrees_with_what_was_streamed_and_an_echo_with_the_prompt() -> None:
    prompt = "Once upon a time there was"
    deltas = [
        {"type": "response.output_text.delta", "output_index": 0, "delta": part} for part in ("Red ki", "tes fly")
    ]
    done = {"type": "response.output_text.done", "output_index": 0, "text": "Red kites fly"}
    echo = {"type": "echo", "text": prompt + " a kite"}
    text = "".join(f"data: {json.dumps(event)}\n\n" for event in (*deltas, done, echo))
    found = scrub(text, request=json.dumps({"prompt": prompt}).encode())
    one, two, whole, echoed = events(found.chunks[0].decode())
    assert whole["text"] == one["delta"] + two["delta"]
    assert echoed["text"].startswith(json.loads(found.request)["prompt"])
    assert "kite" not in found.chunks[0].decode()


def test_text_that_grows_goes_on_growing() -> None:
    found = events(response(*(delta(content="Red kites fly"[:size]) for size in (3, 7, 13))))
    texts = [event["choices"][0]["delta"]["content"] for event in found]
    assert texts[2].startswith(texts[1])
    assert texts[1].startswith(texts[0])


@pytest.mark.parametrize("mark", ["<think>", "</think>", "<tool_call>", "<｜tool▁calls▁begin｜>", "[TOOL_CALLS]"])
def test_marks_that_clients_stumble_over_stay_also_in_pieces(mark: str) -> None:
    half = len(mark) // 2
    found = events(response(delta(content="secret " + mark[:half]), delta(content=mark[half:] + " secret")))
    texts = "".join(event["choices"][0]["delta"]["content"] for event in found)
    assert mark in texts
    assert "secret" not in texts


def test_escapes_and_characters_keep_their_length() -> None:
    raw = '{"a":"\\u00fcber \\ud83d\\ude00 \\ud83d 日本語 Привет 😀 \\"x\\" \\n\\\\ \\u0041"}'
    text = f"data: {raw}\n\n"
    filled = response(text)
    assert "über" not in json.loads(filled[6:])["a"]
    assert "日本語" not in filled
    assert "Привет" not in filled
    assert re.sub(r"\\u[0-9a-f]{4}", "U", filled).count("U") == 5
    assert len(json.loads(filled[6:])["a"]) == len(json.loads(raw)["a"])


def test_frames_of_aws_have_right_checksums_again() -> None:
    cases = [
        capture
        for name, capture in corpus().items()
        if dict(capture.response.headers if capture.response else []).get("content-type") == FRAMES
    ]
    decoded = 0
    for capture in cases:
        data = b"".join(chunk.data() for chunk in capture.chunks)
        if capture.end.kind != "eof" or not readable(data):
            continue
        filled = b"".join(scrub(data, kind=FRAMES).chunks)
        assert readable(filled) == readable(data), capture.id
        decoded += 1
    assert decoded > 5


def readable(data: bytes) -> int:
    """Frames that AWS's own parser reads; none where it refuses any."""
    buffer = EventStreamBuffer()
    buffer.add_data(data)
    try:
        return sum(1 for _ in buffer)
    except ParserError:
        return 0


def test_json_in_base64_inside_a_frame_is_scrubbed_too() -> None:
    inner = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Zqcanary flies"}}
    coded = base64.b64encode(json.dumps(inner).encode()).decode()
    filled = json.loads(response(json.dumps({"bytes": coded, "p": "abc"}), kind=JSON))
    value = json.loads(base64.b64decode(filled["bytes"]))
    assert value["delta"]["type"] == "text_delta"
    assert shape(value["delta"]["text"]) == shape("Zqcanary flies")
    assert CANARY not in value["delta"]["text"]


def test_lines_arrays_and_documents() -> None:
    line = json.dumps({"model": "llama3", "message": {"role": "assistant", "content": CANARY}, "done": False})
    for text, kind in ((f"{line}\n{line}\n", NDJSON), (f"[{line},\n{line}]", JSON), (line, JSON)):
        filled = response(text, kind=kind)
        assert CANARY not in filled
        assert filled.count('"model": "llama3"') == text.count('"model": "llama3"')
        assert filled.count('"role": "assistant"') == text.count('"role": "assistant"')


def test_token_ids_and_vectors_are_content() -> None:
    filled = json.loads(
        response(json.dumps({"context": [4711, 815, 10], "data": [{"embedding": [0.12345, -0.6]}]}), kind=JSON)
    )
    assert filled["context"] != [4711, 815, 10]
    assert [len(str(number)) for number in filled["context"]] == [4, 3, 2]
    assert filled["data"][0]["embedding"] != [0.12345, -0.6]


def test_a_form_keeps_how_it_asks() -> None:
    form = (
        b'--xyz\r\nContent-Disposition: form-data; name="model"\r\n\r\nwhisper-1\r\n'
        b'--xyz\r\nContent-Disposition: form-data; name="prompt"\r\n\r\nZqcanary speaks\r\n'
        b'--xyz\r\nContent-Disposition: form-data; name="file"; filename="Zqcanary.wav"\r\n'
        b"Content-Type: audio/wav\r\n\r\nRIFF\x00\x01Zqcanary\xff\r\n--xyz--\r\n"
    )
    filled = scrub(request=form, request_kind="multipart/form-data; boundary=xyz").request
    assert b"whisper-1" in filled
    assert filled.count(b"--xyz") == 4
    assert b'name="prompt"' in filled
    assert CANARY.encode() not in filled


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"ID3\x04\x00Zqcanary\xff\xfb\x90", "audio/mpeg"),
        (b"\x00\x01\x02Zqcanary\xfe", "application/octet-stream"),
        (b"\x1f\x8b\x08Zqcanary\xff\xfe\xfd", ""),
    ],
)
def test_of_what_is_no_text_only_the_size_stays(body: bytes, kind: str) -> None:
    assert CANARY.encode() not in scrub(body, kind=kind).chunks[0]


def test_a_web_page_stays_one() -> None:
    filled = response("<!DOCTYPE html>\n<html><head><title>Zqcanary</title></head></html>", kind="text/html")
    assert filled.startswith("<!DOCTYPE html>\n<html><head><title>")
    assert CANARY not in filled


def test_headers_that_the_operator_let_pass_are_filled() -> None:
    found = scrub(
        headers=[("x-team", "Zqcanary"), ("server", "nginx"), ("traceparent", f"00-{'ab12' * 8}-{'cd34' * 4}-01")]
    )
    headers = dict(found.response_headers)
    assert headers["server"] == "nginx"
    assert headers["x-team"] != CANARY
    assert re.fullmatch("00-[0-9a-f]{32}-[0-9a-f]{16}-01", headers["traceparent"])
    assert "ab12ab12" not in headers["traceparent"]


values = st.recursive(
    st.just(CANARY) | st.just(f"say {CANARY}!") | st.integers() | st.booleans() | st.none() | st.just(""),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["content", "text", "delta", "x", "value", "choices", "parts", "Peter M\u00fcller", "args", "name"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(deadline=None)
@given(values, st.sampled_from([SSE, NDJSON, JSON]), st.data())
def test_no_cut_lets_content_through(value: Any, kind: str, data: st.DataObject) -> None:
    """Whatever the event, wherever the body ends, wherever its reads are cut."""
    if isinstance(value, dict) and value.get("name") == CANARY:
        value["name"] = None  # a name of a tool is kept, if it looks like one
    text = json.dumps({"payload": value}, ensure_ascii=data.draw(st.booleans()))
    text = f"data: {text}\n\ndata: {text}\n\n" if kind == SSE else f"{text}\n{text}\n"
    whole = text.encode()[: data.draw(st.integers(1, len(text)))]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    filled = b"".join(scrub(*pieces, kind=kind).chunks).decode("utf-8", "replace")
    for part in re.findall(r"(?<!\"name\": \")canary", filled):
        raise AssertionError(f"{part} in {filled}")


@settings(deadline=None, max_examples=300)
@given(
    st.one_of(
        st.binary(max_size=300),
        st.text(st.sampled_from('{}[]",:\\ \n\r0u19eEdata:canary.-ü😀\u2028'), max_size=200).map(str.encode),
    ),
    st.sampled_from([SSE, NDJSON, JSON, FRAMES, "text/html", "audio/mpeg", "", "multipart/form-data; boundary=x"]),
)
def test_nothing_raises_and_nothing_changes_its_length(body: bytes, kind: str) -> None:
    half = len(body) // 2
    scrub(body[:half], body[half:], kind=kind, request=body, request_kind=kind)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(sorted(corpus())), st.data())
def test_a_spoiled_body_keeps_its_length(case: str, data: st.DataObject) -> None:
    capture = corpus()[case]
    body = bytearray(b"".join(chunk.data() for chunk in capture.chunks)[:5000])
    for _ in range(3 if body else 0):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    kind = dict(capture.response.headers if capture.response else []).get("content-type", "")
    scrub(bytes(body), kind=kind)


def test_messages_of_a_socket_are_scrubbed_and_stay_json() -> None:
    for capture in socket_corpus().values():
        messages = [
            Message(1, number, message.data(), message.sender == "client", not message.binary, len(message.data()))
            for number, message in enumerate(capture.messages)
        ]
        for before, after in zip(messages, scrub(messages=messages).messages, strict=True):
            assert len(after.data) + sum(size for _, size in after.audio) == before.size
            assert isjson(after.data) == isjson(Said(before).data)


def isjson(data: bytes) -> bool:
    try:
        json.loads(data)
    except ValueError:
        return False
    return True
