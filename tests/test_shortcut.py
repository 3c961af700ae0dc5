"""The shortcut for plain text in the middle of a stream tells the same as the long way, of every summary's every field."""

import re
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.capture.records import Chunk, Ended, Record
from sidecar.exchange import Exchange
from sidecar.files.capture import Capture, records_of
from sidecar.files.inspect import run
from sidecar.stream.arrivals import Arrivals
from sidecar.stream.gaps import Gaps
from sidecar.stream.summary import Summary
from sidecar.thresholds import QuirkThresholds
from tests.budget import budget
from tests.corpus import captures

_BLOCK = re.compile(rb".*?(?:\r\n\r\n|\n\n|\r\r|\Z)", re.DOTALL)
STEADY = ("openai.chat", "anthropic.messages", "openai.responses")
EVENTS = {
    "openai.chat": (
        b'data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":%s,"finish_reason":null}]}\n\n',
        [
            b'{"content":"word"}',
            b'{"content":" <think>","reasoning_content":null}',
            '{"content":"日本語"}'.encode(),
            b'{"content":"\\ud83d"}',
            b'{"content":"\\ude80 tail"}',
            b'{"content":""}',
            b'{"content":null,"reasoning_content":"hm"}',
            b'{"role":"assistant","content":"again"}',
            b'{"content":"x","tool_calls":[]}',
            b'{"content":"[TOOL_CALLS]","refusal":null}',
            '{"content":"a\u2028b"}'.encode(),
            b'{"content":"bad \xff"}',
            b'{"content":"cut',
        ],
    ),
    "anthropic.messages": (
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":%s}\n\n',
        [
            b'{"type":"text_delta","text":"word"}',
            '{"type":"text_delta","text":"日本"}'.encode(),
            b'{"type":"text_delta","text":""}',
            b'{"type":"thinking_delta","thinking":"hm"}',
            b'{"type":"input_json_delta","partial_json":"{"}',
            b'{"type":"text_delta","text":5}',
            b'{"text":"no type"}',
            b"null",
        ],
    ),
    "openai.responses": (
        b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","item_id":"i","output_index":0,"delta":%s}\n\n',
        [b'"word"', '"日本"'.encode(), b'""', b"5", b'{"text":"loose"}', b'"a","error":{"message":"x"}', b'"\\ud83d"'],
    ),
}
"""Events of each dialect that has a shortcut, plain ones and such as only look so."""
BETWEEN = [b": ping\n\n", b"\n", b"data: [DONE]\n\n", b"event: ping\ndata: {}\n\n", b"id: 7\n", b"data: {}\r\n\r\n"]


def told(records: list[Record], *, shortcut: bool, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Every field of the summary."""
    with monkeypatch.context() as patched:
        if not shortcut:
            patched.setattr(Exchange, "_passed", lambda *_: False)
        return fields(run(records, records[-1].at, QuirkThresholds()))


def fields(summary: Summary) -> dict[str, Any]:
    found = msgspec.structs.asdict(summary)
    for name, value in found.items():
        if isinstance(value, Gaps):
            found[name] = (value.count, value.total, value.longest, value.short, value.milliseconds())
        elif isinstance(value, Arrivals):
            found[name] = (value.reads, value.events, value.first, value.last, value.listed(), value.read_sizes)
    return found


def one_a_read(capture: Capture, repeats: list[int], step: int) -> list[Record]:
    """The records of a capture with each SSE block in a read of its own, some of them several times."""
    records = list(records_of(capture))
    chunks = [record for record in records if isinstance(record, Chunk)]
    if not chunks:
        return records
    before = [record for record in records if record.at <= chunks[0].at and not isinstance(record, (Chunk, Ended))]
    at, reads = chunks[0].at, []
    for number, block in enumerate(_BLOCK.findall(b"".join(chunk.data for chunk in chunks))):
        for _ in range(repeats[number % len(repeats)] if block else 0):
            reads.append(Chunk(chunks[0].stream, at, block))
            at += step
    ended = [msgspec.structs.replace(record, at=at) for record in records if isinstance(record, Ended)]
    return [*before, *reads, *ended]


@pytest.mark.parametrize("id", sorted(captures()))
def test_every_capture_with_an_event_a_read(id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for repeats, step in (([1], 20_000_000), ([4], 100_000), ([1, 1, 9, 2], 50_000_000)):
        records = one_a_read(captures()[id], repeats, step)
        assert told(records, shortcut=True, monkeypatch=monkeypatch) == told(
            records, shortcut=False, monkeypatch=monkeypatch
        )


@pytest.mark.parametrize("dialect", STEADY)
@budget(60)
@given(data=st.data())
def test_streams_of_plain_events_and_of_such_as_look_so(dialect: str, data: st.DataObject) -> None:
    frame, payloads = EVENTS[dialect]
    plain = frame % payloads[0]
    event = st.one_of(
        st.just(plain), st.just(plain), st.sampled_from([frame % one for one in payloads]), st.sampled_from(BETWEEN)
    )
    blocks = [plain] * 3 + data.draw(st.lists(event, max_size=40))
    cuts = data.draw(st.sets(st.integers(1, 3000), max_size=3))
    ends = [sum(map(len, blocks[: number + 1])) for number in range(len(blocks))]
    body = b"".join(blocks)
    edges = sorted({0, len(body), *ends, *(cut for cut in cuts if cut < len(body))})
    template = next(capture for capture in captures().values() if _speaks(capture, dialect))
    records: list[Record] = [record for record in records_of(template) if not isinstance(record, (Chunk, Ended))]
    at = max(record.at for record in records) + 1_000_000
    for begin, end in pairwise(edges):
        records.append(Chunk(records[0].stream, at, body[begin:end]))
        at += data.draw(st.sampled_from([0, 100_000, 20_000_000]))
    records.append(Ended(records[0].stream, at, data.draw(st.sampled_from(["eof", "upstream_reset"]))))
    with pytest.MonkeyPatch.context() as monkeypatch:
        assert told(records, shortcut=True, monkeypatch=monkeypatch) == told(
            records, shortcut=False, monkeypatch=monkeypatch
        )


def _speaks(capture: Capture, dialect: str) -> bool:
    path = {"openai.chat": "/chat/completions", "anthropic.messages": "/messages", "openai.responses": "/responses"}
    response = capture.response
    return (
        capture.request.url.endswith(path[dialect])
        and response is not None
        and response.status == 200
        and [*map(str.lower, dict(response.headers))] == ["content-type"]
        and dict(response.headers)["content-type"].startswith("text/event-stream")
    )


@pytest.mark.parametrize("dialect", STEADY)
def test_the_shortcut_is_taken(dialect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[bool] = []
    passed = Exchange._passed

    def noted(*arguments: Any) -> bool:
        taken.append(passed(*arguments))
        return taken[-1]

    monkeypatch.setattr(Exchange, "_passed", noted)
    frame, payloads = EVENTS[dialect]
    template = next(capture for capture in captures().values() if _speaks(capture, dialect))
    records: list[Record] = [record for record in records_of(template) if not isinstance(record, (Chunk, Ended))]
    at = max(record.at for record in records) + 1
    records += [Chunk(records[0].stream, at + number, frame % payloads[0]) for number in range(100)]
    summary = run([*records, Ended(records[0].stream, at + 101, "eof")], at + 101, QuirkThresholds())
    assert summary.output_chunks == 100
    assert sum(taken) > 85
