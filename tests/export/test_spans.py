"""One honest span per exchange: names, types, times, status, parent, sampling, and nothing that anybody said."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from opentelemetry.trace import SpanKind, StatusCode, format_span_id, format_trace_id

from sidecar.documents import loads
from sidecar.export import span_attributes as table
from sidecar.export.observe import error_type
from sidecar.export.spans import ids_of
from sidecar.files.capture import Capture, Payload
from sidecar.stream.summary import Summary
from tests.collector import attributes, kind_of
from tests.corpus import captures
from tests.export.spans import Caught, encoded, summary_of

FAILED = {"error_event", "upstream_reset", "upstream_failed", "truncated", "http_error"}
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CANARY = "canary-7f3a9c"


def record(summary: Summary, **options: Any) -> Caught:
    caught = Caught(**options)
    caught.spans.record(summary)
    return caught


def with_headers(capture: Capture, *headers: tuple[str, str]) -> Capture:
    request = msgspec.structs.replace(capture.request, headers=[*capture.request.headers, *headers])
    return msgspec.structs.replace(capture, request=request)


@pytest.fixture
def healthy() -> Capture:
    return captures()["n2-xai-usage-each-chunk"]


@pytest.mark.parametrize("case", captures())
def test_every_capture_gives_a_span_that_keeps_to_the_table(case: str) -> None:
    summary = summary_of(captures()[case])
    wire = encoded(record(summary).only())
    for pair in wire.attributes:
        assert pair.key in {row.name for row in table.SPAN}
        assert kind_of(pair.value) == table.KINDS[pair.key], pair.key
    declared = {event.name: {row.name for row in event.attributes} for event in table.EVENTS}
    for event in wire.events:
        assert set(attributes(event)) <= declared[event.name]
        assert all(kind_of(pair.value) == table.KINDS[pair.key] for pair in event.attributes)
        assert wire.start_time_unix_nano <= event.time_unix_nano <= wire.end_time_unix_nano
    said = attributes(wire)
    model = summary.request_model
    assert wire.name == (f"{summary.operation} {model}" if model else summary.operation)
    assert wire.kind == wire.SPAN_KIND_CLIENT
    assert said["llm_stream.outcome"] == summary.outcome
    assert said.get("gen_ai.response.time_to_first_chunk") == summary.milestones.get("first_event")
    assert (wire.status.code == wire.status.STATUS_CODE_ERROR) == (summary.outcome in FAILED)
    assert ("error.type" in said) == (summary.outcome in FAILED)
    if summary.t0 is not None:
        assert wire.start_time_unix_nano == summary.wall_ns + summary.t0 - summary.opened_at
    assert wire.end_time_unix_nano == summary.wall_ns + summary.ended_at - summary.opened_at


def texts(value: Any) -> Iterator[str]:
    """Every text that a JSON value holds."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from texts(one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from texts(one)


@pytest.mark.parametrize("case", captures())
def test_no_span_of_the_corpus_holds_content(case: str) -> None:
    capture = captures()[case]
    summary = summary_of(capture)
    wire = encoded(record(summary).only()).SerializeToString()
    content = [summary.text, summary.reasoning_text, *(call.arguments for call in summary.tool_calls)]
    content.append(summary.error or "")
    body = loads(capture.request.body.data()) if capture.request.body else None
    for name in ("messages", "contents", "input", "prompt", "inputs", "system", "tools", "instructions"):
        content += texts(body.get(name)) if isinstance(body, dict) else ()
    # What is as short proves nothing, and some errors have no text but a finish reason, a type or the status.
    known = {*summary.finish_reasons, summary.error_type, f"HTTP {summary.status}"}
    for text in content:
        if len(text) >= 8 and text not in known:
            assert text.encode("utf-8", "replace") not in wire


def canaried(capture: Capture) -> Capture:
    """The same exchange with a secret in every place where content stands."""
    body = {
        "model": "m-test",
        "stream": True,
        "messages": [{"role": "user", "content": CANARY}],
        "tools": [{"type": "function", "function": {"name": "f", "description": CANARY}}],
        "user": CANARY,
        "metadata": {"note": CANARY},
    }
    request = msgspec.structs.replace(
        capture.request,
        url=f"https://user:{CANARY}@upstream.example/v1/chat/completions?key={CANARY}",
        headers=[("authorization", f"Bearer {CANARY}"), ("x-note", CANARY), ("cookie", CANARY)],
        body=Payload(text=json.dumps(body)),
    )
    delta = {"content": CANARY, "reasoning_content": CANARY, "refusal": CANARY}
    call = {"index": 0, "id": "c", "function": {"name": "f", "arguments": json.dumps({"a": CANARY})}}
    events = [
        {"choices": [{"index": 0, "delta": delta | {"tool_calls": [call]}}]},
        {"error": {"message": CANARY, "type": "overloaded"}},
    ]
    data = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    chunk = msgspec.structs.replace(capture.chunks[0], text=data, b64=None)
    return msgspec.structs.replace(capture, request=request, chunks=[chunk])


def test_a_secret_in_any_place_stays_there_until_capture_is_switched_on(healthy: Capture) -> None:
    summary = summary_of(canaried(healthy))
    assert (summary.outcome, summary.error) == ("error_event", CANARY)
    assert CANARY.encode() not in encoded(record(summary).only()).SerializeToString()
    wire = encoded(record(summary, content=True).only())
    (message,) = json.loads(attributes(wire)["gen_ai.output.messages"])
    assert [part["type"] for part in message["parts"]] == ["reasoning", "text", "tool_call"]
    assert message["parts"][2] == {"type": "tool_call", "name": "f", "id": "c", "arguments": {"a": CANARY}}
    (error,) = (event for event in wire.events if event.name == "error")
    assert attributes(error) == {"error.type": "overloaded", "error.message": CANARY}
    assert {pair.key for pair in wire.attributes} <= {row.name for row in (*table.SPAN, *table.CONTENT)}


def test_milestones_are_events_on_the_proxys_clock(healthy: Capture) -> None:
    summary = summary_of(healthy)
    span = record(summary).only()
    events = {event.name: event.timestamp for event in span.events}
    assert span.start_time is not None
    assert events["first_token"] - span.start_time == round(summary.milestones["first_token"] * 1e9)
    assert span.kind is SpanKind.CLIENT
    assert span.status.status_code is StatusCode.UNSET


def test_a_callers_span_becomes_the_parent_and_its_state_goes_on(healthy: Capture) -> None:
    asked = with_headers(healthy, ("traceparent", f"00-{TRACE}-{PARENT}-01"), ("tracestate", "vendor=x,other=y"))
    caught = Caught()
    ids = caught.spans.record(summary_of(asked))
    span = caught.only()
    assert ids == {"trace_id": TRACE, "span_id": format_span_id(span.context.span_id)}
    assert format_trace_id(span.context.trace_id) == TRACE
    assert span.parent is not None
    assert format_span_id(span.parent.span_id) == PARENT
    assert span.parent.is_remote
    assert encoded(span).trace_state == "vendor=x,other=y"


@pytest.mark.parametrize(
    "traceparent",
    [
        "",
        "garbage",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{TRACE}",
    ],
)
def test_without_a_usable_parent_an_exchange_is_a_new_trace(healthy: Capture, traceparent: str) -> None:
    summary = summary_of(with_headers(healthy, ("traceparent", traceparent)))
    span = record(summary).only()
    assert span.parent is None
    assert (span.context.trace_id, span.context.span_id) == ids_of(summary.id, summary.wall_ns)


@pytest.mark.parametrize(("flags", "ratio", "spans"), [("01", 0.0, 1), ("00", 1.0, 0)])
def test_the_callers_choice_of_sampling_stands(healthy: Capture, flags: str, ratio: float, spans: int) -> None:
    for case in (healthy, captures()["a09-eof-mid-tool-input"]):
        asked = with_headers(case, ("traceparent", f"00-{TRACE}-{PARENT}-{flags}"))
        assert len(record(summary_of(asked), ratio=ratio).all()) == spans


def test_a_ratio_keeps_every_fault_and_about_its_share_of_the_rest(healthy: Capture) -> None:
    caught = Caught(ratio=0.25)
    for number in range(400):
        caught.spans.record(msgspec.structs.replace(summary_of(healthy), id=f"id-{number}"))
    assert 60 <= len(caught.all()) <= 140
    kept = Caught(ratio=0.0)
    summaries = [summary_of(capture) for capture in captures().values()]
    faults = [
        summary.id
        for summary in summaries
        if error_type(summary) or table.of_summary(table.SPAN, summary).get(table.WORST_SEVERITY) == "breaks_clients"
    ]
    for summary in summaries:
        kept.spans.record(summary)
    assert [span.attributes and span.attributes["llm_stream.id"] for span in kept.all()] == faults
    assert 0 < len(faults) < len(summaries)


@pytest.mark.parametrize(
    ("variable", "argument", "spans"),
    [("always_off", "", 0), ("parentbased_always_off", "", 0), ("traceidratio", "0", 1), ("always_on", "", 2)],
)
def test_the_standard_sampler_takes_the_place_of_the_ratio(
    healthy: Capture, monkeypatch: pytest.MonkeyPatch, variable: str, argument: str, spans: int
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", variable)
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", argument)
    caught = Caught(ratio=1.0, environment={"OTEL_TRACES_SAMPLER": variable})
    caught.spans.record(summary_of(healthy))
    caught.spans.record(summary_of(captures()["a09-eof-mid-tool-input"]))
    assert len(caught.all()) == spans


def test_hostile_values_cost_their_attribute_and_no_batch(healthy: Capture) -> None:
    huge = 10**30
    body = (
        f'{{"model":"{"x" * 5000}","stream":true,"seed":{huge},"max_tokens":{huge},"temperature":1{"0" * 400},'
        f'"top_k":1.5,"stop":["\\u0000{"y" * 500}"]}}'
    )
    events = [
        {"id": "\ud800", "choices": [{"index": 0, "delta": {"content": "\ud83d"}, "finish_reason": "\udc00"}]},
        {"choices": [], "usage": {"prompt_tokens": huge, "completion_tokens": 2}},
        {"error": {"message": "\ud800 odd", "type": "\ud800" * 900}},
    ]
    data = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    request = msgspec.structs.replace(healthy.request, body=Payload(text=body))
    chunk = msgspec.structs.replace(healthy.chunks[0], text=data)
    summary = summary_of(msgspec.structs.replace(healthy, request=request, chunks=[chunk]))
    wire = encoded(record(summary, content=True).only())
    said = attributes(wire)
    assert not {"gen_ai.request.seed", "gen_ai.request.max_tokens", "gen_ai.usage.input_tokens"} & set(said)
    assert said["gen_ai.usage.output_tokens"] == 2
    assert said["gen_ai.request.model"] == "x" * 128
    assert said["gen_ai.request.stop_sequences"] == ["\ufffd" + "y" * 127]
    assert said["error.type"] == "\ufffd" * 128
    json.loads(said["gen_ai.output.messages"])
