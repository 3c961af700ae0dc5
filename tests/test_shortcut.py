"""The shortcut for plain text in the middle of a stream tells the same as the long way, of every summary's every field."""

import re
from collections.abc import Sequence
from itertools import cycle, pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.analyzer import Analyzer
from sidecar.body import Body
from sidecar.capture.records import Chunk, Ended, Opened, Record, RequestBody, RequestSent, ResponseHead
from sidecar.config import Settings
from sidecar.exchange import Exchange
from sidecar.files.capture import Capture, records_of
from sidecar.files.inspect import run
from sidecar.framing.frame import Frame
from sidecar.stream.arrivals import Arrivals
from sidecar.stream.gaps import Gaps
from sidecar.stream.summary import Summary
from sidecar.thresholds import QuirkThresholds
from tests.budget import budget
from tests.corpus import captures

_BLOCK = re.compile(rb".*?(?:\r\n\r\n|\n\n|\r\r|\Z)", re.DOTALL)
_CHAT = (
    b'data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,%s,"finish_reason":null}]}\n\n'
)
_GEMINI = b'data: {"candidates":[{"content":{"parts":[%s],"role":"model"},"index":0}]%s}\n\n'
_COUNTED = (
    b',"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":%d,"totalTokenCount":%d%s},"modelVersion":"m"'
)


def _blocks(frame: bytes, pieces: Sequence[Any]) -> list[bytes]:
    return [frame % piece for piece in pieces]


def _named(name: bytes, members: bytes) -> bytes:
    return b'event: %s\ndata: {"type":"%s",%s}\n\n' % (name, name, members)


EVENTS: dict[str, list[bytes]] = {
    "openai.chat": [
        *_blocks(
            _CHAT,
            [
                b'"delta":{"content":"word"}',
                b'"delta":{"reasoning_content":"hm"}',
                b'"delta":{"content":" <think>","reasoning_content":null}',
                '"delta":{"content":"日本語"}'.encode(),
                b'"delta":{"content":"\\ud83d"}',
                b'"delta":{"content":"\\ude80 tail"}',
                b'"delta":{"content":""}',
                b'"delta":{"content":null,"reasoning_content":"hm"}',
                b'"delta":{"content":"","reasoning":"hm"}',
                b'"delta":{"content":"","reasoning":"hm","reasoning_content":"hm"}',
                b'"delta":{"reasoning":"hm","reasoning_details":[{"text":"hm"}]}',
                b'"delta":{"reasoning":"hm"}',
                b'"delta":{"role":"assistant","content":"again"}',
                b'"delta":{"role":"","content":"again"}',
                b'"delta":{"role":"assistant","content":null,"reasoning_content":"hm"}',
                b'"delta":{"content":"x","tool_calls":[]}',
                b'"delta":{"content":"[TOOL_CALLS]","refusal":null}',
                b'"delta":{"content":":tool"}',
                b'"delta":{"content":"_call>"}',
                '"delta":{"content":"a\u2028b"}'.encode(),
                b'"delta":{"content":"bad \xff"}',
                b'"delta":{"content":"unread"},"logprobs":"\xff"',
                b'"delta":{"content":"cut',
                b'"delta":{"content":"spent"},"usage":{"prompt_tokens":1}',
                b'"index":1,"delta":{"content":"other"}',
            ],
        ),
        b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"no"},"finish_reason":null}],"usage":null}\n\n',
        b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"no"},"finish_reason":null}],"object":"error"}\n\n',
        b'data: {"id":"d","choices":[{"index":0,"delta":{"content":"id"},"finish_reason":null}]}\n\n',
        b'data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n',
    ],
    "openai.completions": _blocks(
        b'data: {"id":"c","object":"text_completion","model":"m","choices":[{"index":0,%s,"finish_reason":null}]}\n\n',
        [
            b'"text":"word"',
            b'"text":""',
            b'"text":null',
            b'"text":5',
            b'"text":"x","delta":{}',
            b'"text":"x","message":1',
        ],
    ),
    "anthropic.messages": _blocks(
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":%s}\n\n',
        [
            b'{"type":"text_delta","text":"word"}',
            b'{"type":"thinking_delta","thinking":"hm"}',
            '{"type":"text_delta","text":"日本"}'.encode(),
            b'{"type":"text_delta","text":""}',
            b'{"type":"input_json_delta","partial_json":"{"}',
            b'{"type":"text_delta","text":5}',
            b'{"text":"no type"}',
            b"null",
        ],
    ),
    "openai.responses": [
        *(
            _named(b"response.output_text.delta", b'"item_id":"i","output_index":0,"delta":%s' % delta)
            for delta in (
                b'"word"',
                '"日本"'.encode(),
                b'""',
                b"5",
                b'{"text":"loose"}',
                b'"a","error":{"message":"x"}',
                b'"\\ud83d"',
            )
        ),
        _named(b"response.reasoning_text.delta", b'"delta":"hm"'),
        _named(b"response.reasoning_summary_text.delta", b'"delta":"hm"'),
        _named(b"response.reasoning_text.delta", b'"delta":"hm","success":false,"message":"x"'),
        _named(b"response.reasoning_text.done", b'"text":"late"'),
    ],
    "gemini.generate": [
        *_blocks(
            _GEMINI,
            [
                (b'{"text":"word"}', _COUNTED % (count, count + 9, more))
                for count in (9, 5, 12)
                for more in (b"", b',"thoughtsTokenCount":3', b',"promptTokensDetails":[{"modality":"TEXT"}]')
            ],
        ),
        _GEMINI % (b'{"text":"bare"}', b""),
        _GEMINI % (b'{"text":"hm","thought":true}', _COUNTED % (9, 18, b',"thoughtsTokenCount":4')),
        _GEMINI % (b'{"text":"hm","thought":true}', b""),
        _GEMINI % (b'{"text":""}', _COUNTED % (9, 18, b"")),
        _GEMINI % (b'{"text":"word"},{"text":"two"}', _COUNTED % (9, 18, b"")),
        _GEMINI % (b'{"functionCall":{"name":"f","args":{}}}', _COUNTED % (9, 18, b"")),
        _GEMINI % (b'{"text":"word"}', _COUNTED % (9, 18, b',"cachedContentTokenCount":2')),
        _GEMINI
        % (b'{"text":"w"}', _COUNTED % (9, 9, b',"candidatesTokensDetails":[{"modality":"AUDIO","tokenCount":2}]')),
        _GEMINI % (b'{"text":"end"}', b',"usageMetadata":{"promptTokenCount":9,"totalTokenCount":8}'),
    ],
}
"""Events of each dialect that has plain ones, those and such as only look so; the first is plain where it comes again."""
STEADY = tuple(EVENTS)
BETWEEN = [b": ping\n\n", b"\n", b"data: [DONE]\n\n", b"event: ping\ndata: {}\n\n", b"id: 7\n", b"data: {}\r\n\r\n"]


def told(
    records: list[Record], *, shortcut: bool, monkeypatch: pytest.MonkeyPatch, looks: Sequence[bool] = (False,)
) -> dict[str, Any]:
    """Every field of the summary. `looks`: after which reads, over and over, somebody looks at the stream."""
    looking = cycle(looks)
    chunk = Exchange.chunk

    def looked_at(exchange: Exchange, record: Chunk) -> None:
        chunk(exchange, record)
        if next(looking):
            exchange.settle()

    with monkeypatch.context() as patched:
        patched.setattr(Exchange, "chunk", looked_at)
        if not shortcut:
            patched.setattr(Exchange, "_begins", lambda *_: False)
            patched.setattr(Exchange, "_takes", lambda *_: False)
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
    events = EVENTS[dialect]
    again = data.draw(st.sampled_from(events))
    event = st.one_of(st.just(events[0]), st.just(again), st.sampled_from(events), st.sampled_from(BETWEEN))
    blocks = [events[0]] * 3 + data.draw(st.lists(event, max_size=60))
    cuts = data.draw(st.sets(st.integers(1, 3000), max_size=3))
    together = data.draw(st.sampled_from([1, 1, 2, 5]))
    ends = [sum(map(len, blocks[: number + 1])) for number in range(0, len(blocks), together)]
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
        expected = told(records, shortcut=False, monkeypatch=monkeypatch)
        assert told(records, shortcut=True, monkeypatch=monkeypatch) == expected
        looks = data.draw(st.lists(st.booleans(), min_size=1, max_size=20))
        assert told(records, shortcut=True, monkeypatch=monkeypatch, looks=looks) == expected


def test_who_looks_sees_all_that_was_read() -> None:
    events = EVENTS["openai.chat"]
    template = next(capture for capture in captures().values() if _speaks(capture, "openai.chat"))
    analyzer = Analyzer(Settings(), clock=lambda: 10**18)
    heads = (Opened, RequestBody, RequestSent, ResponseHead)
    analyzer.receive(1, [record for record in records_of(template) if isinstance(record, heads)])
    for number in range(1, 50):
        analyzer.receive(1, [Chunk(1, number * 20_000_000, events[0])])
        (exchange,) = analyzer.in_flight()
        assert exchange.body is not None
        assert exchange.stream.output_chunks == exchange.body.arrivals.events == number
        assert exchange.stream.progress.last == number * 20_000_000


def _speaks(capture: Capture, dialect: str) -> bool:
    path = {
        "openai.chat": "/chat/completions",
        "openai.completions": "/v1/completions",
        "anthropic.messages": "/messages",
        "openai.responses": "/responses",
        "gemini.generate": ":streamGenerateContent?alt=sse",
    }
    response = capture.response
    return (
        capture.request.url.endswith(path[dialect])
        and response is not None
        and response.status == 200
        and [*map(str.lower, dict(response.headers))] == ["content-type"]
        and dict(response.headers)["content-type"].startswith("text/event-stream")
    )


@pytest.mark.parametrize(
    ("dialect", "event"),
    [
        *((dialect, events[0]) for dialect, events in EVENTS.items()),
        *(("openai.chat", event) for event in EVENTS["openai.chat"] if event.count(b'"hm"') == 1 and b"[{" in event),
        ("anthropic.messages", EVENTS["anthropic.messages"][1]),
        *(("openai.responses", event) for event in EVENTS["openai.responses"] if b'"hm"}' in event),
        ("gemini.generate", EVENTS["gemini.generate"][10]),
    ],
)
def test_the_shortcut_is_taken(dialect: str, event: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    fed: list[bytes] = []
    feed = Body.feed

    def noted(body: Body, data: bytes, at: int) -> Sequence[Frame]:
        fed.append(data)
        return feed(body, data, at)

    monkeypatch.setattr(Body, "feed", noted)
    template = next(capture for capture in captures().values() if _speaks(capture, dialect))
    records: list[Record] = [record for record in records_of(template) if not isinstance(record, (Chunk, Ended))]
    at = max(record.at for record in records) + 1
    records += [Chunk(records[0].stream, at + number, event) for number in range(100)]
    summary = run([*records, Ended(records[0].stream, at + 101, "eof")], at + 101, QuirkThresholds())
    assert summary.output_chunks == 100
    assert len(fed) < 15
