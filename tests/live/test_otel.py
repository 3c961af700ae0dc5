"""Spans of real traffic as real collectors receive them: rotel says what came, a collector of the stubs has the values."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from time import monotonic_ns, time_ns
from typing import Any

import httpx
import pytest
import pytest_asyncio

from sidecar.export import span_attributes as table
from tests.collector import Collector, attributes
from tests.live.exchanges import Exchange, Piece, chat, chat_events
from tests.live.player import Play, Player
from tests.live.processes import program, sidecar_run
from tests.live.raw_client import Answer, ask
from tests.live.rotel import Rotel, rotel
from tests.live.scrape import counted, scrape, wait_until
from tests.parts import require_module

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
QUICK = {"OTEL_BSP_SCHEDULE_DELAY": "50", "OTEL_METRIC_EXPORT_INTERVAL": "300"}
MILLISECOND = 1_000_000


def traced(exchange: Exchange, flags: str = "01") -> Exchange:
    headers = (("traceparent", f"00-{TRACE}-{PARENT}-{flags}"), ("tracestate", "vendor=x"))
    return replace(exchange, request_headers=(*exchange.request_headers, *headers))


GREETING = traced(
    chat("greeting", chat_events({"role": "assistant"}, {"content": "Hel"}, {"content": "lo"}), every=0.1)
)


@dataclass
class Seen:
    """One exchange as everybody saw it."""

    rotel: Rotel
    play: Play
    answer: Answer
    wall: int
    """What to add to the monotonic clock for Unix time, nanoseconds."""


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["http/protobuf", "grpc"])
async def seen(request: pytest.FixtureRequest) -> AsyncIterator[Seen]:
    """A streamed answer through a sidecar that exports to rotel."""
    player = Player()
    player.add([GREETING])
    async with rotel() as collector, player.serving():
        endpoint = collector.grpc if request.param == "grpc" else collector.http
        options = ("--otel-endpoint", endpoint, "--otel-metrics")
        env = QUICK | {"OTEL_EXPORTER_OTLP_PROTOCOL": request.param, "OTEL_SERVICE_NAME": "staging-sidecar"}
        async with sidecar_run("--upstream", player.url, *options, env=env) as sidecar:
            answer = await ask(sidecar.proxy, GREETING)
            wall = time_ns() - monotonic_ns()

            async def spans() -> bool:
                return bool(collector.spans())

            await wait_until(spans, what="a span at rotel")
            yield Seen(collector, player.play("greeting"), answer, wall)


in_module_loop = pytest.mark.asyncio(loop_scope="module")


@in_module_loop
async def test_rotel_received_the_span_as_it_is_declared(seen: Seen) -> None:
    (span,) = seen.rotel.spans()
    assert (span.fields["Name"], span.fields["Kind"]) == ("chat m-test", "SPAN_KIND_CLIENT")
    assert (span.fields["Trace ID"], span.fields["Parent ID"]) == (TRACE, PARENT)
    assert span.kinds == {name: table.KINDS[name] for name in span.attributes}
    expected = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "m-test",
        "gen_ai.response.id": "chatcmpl-1",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.request.stream": True,
        "llm_stream.dialect": "openai.chat",
        "llm_stream.outcome": "complete",
        "llm_stream.terminator": "done_sentinel",
        "llm_stream.output_chunks": 2,
        "llm_stream.quirks": ["role_prelude_chunk"],
        "http.response.status_code": 200,
    }
    assert {name: span.attributes.get(name) for name in expected} == expected
    assert "service.name: Str(staging-sidecar)" in seen.rotel.log()


@in_module_loop
async def test_times_are_those_of_the_wire(seen: Seen) -> None:
    (span,) = seen.rotel.spans()
    play, answer = seen.play, seen.answer
    slack = 20 * MILLISECOND
    start, end = int(span.fields["Start time"]) - seen.wall, int(span.fields["End time"]) - seen.wall
    assert answer.sent_at - slack <= start <= play.request_at + slack
    assert play.end is not None
    assert play.end.before - slack <= end <= answer.ended_at + slack
    (first, visible) = span.events
    assert (first.fields["Name"], visible.fields["Name"]) == ("first_token", "first_visible_token")
    assert first.fields["Timestamp"] == visible.fields["Timestamp"]
    token = int(first.fields["Timestamp"]) - seen.wall
    assert play.pieces[1].before - slack <= token <= answer.arrived(len(GREETING.pieces[0].data) + 1) + slack
    took = span.attributes["llm_stream.milestone.first_token"]
    assert took == pytest.approx((token - start) / 1e9, abs=1e-6)
    assert 0.05 < took < 0.5


@in_module_loop
async def test_rotel_received_the_metrics(seen: Seen) -> None:
    async def metrics() -> bool:
        log = seen.rotel.log()
        return "gen_ai.client.operation.duration" in log and "llm_sidecar.spans_exported" in log

    await wait_until(metrics, what="metrics at rotel")
    assert "ExponentialHistogram" in seen.rotel.log()


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector().over_http() as collector:
        yield collector


async def through(collector: Collector, exchange: Exchange, *arguments: str) -> str:
    """One exchange through a sidecar that exports to the collector and has ended then; what it printed as errors."""
    player = Player()
    player.add([exchange])
    options = ("--otel-endpoint", collector.url, *arguments)
    async with player.serving(), sidecar_run("--upstream", player.url, *options, env=QUICK) as sidecar:
        await ask(sidecar.proxy, exchange)
        await counted(sidecar.metrics, 1)
        return sidecar.program.stderr


async def test_values_and_times_fit_together(collector: Collector) -> None:
    before = time_ns()
    await through(collector, chat("plain", chat_events({"content": "a"}, {"content": "b"}), every=0.05))
    (span,) = collector.spans
    said = attributes(span)
    assert before <= span.start_time_unix_nano < span.end_time_unix_nano <= time_ns()
    assert said["llm_stream.milestone.end"] == (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9
    assert said["llm_stream.gap.count"] == 1
    assert said["llm_stream.gap.max"] == pytest.approx(0.05, abs=0.03)
    assert not span.parent_span_id


async def test_the_caller_and_the_upstream_see_the_same_trace_context(collector: Collector) -> None:
    exchange = traced(chat("context", chat_events({"content": "a"})))
    player = Player()
    player.add([exchange, replace(exchange, id="none", request_headers=())])
    options = ("--otel-endpoint", collector.url)
    async with player.serving(), sidecar_run("--upstream", player.url, *options, env=QUICK) as sidecar:
        await ask(sidecar.proxy, exchange)
        await ask(sidecar.proxy, player.exchanges["none"])
        await counted(sidecar.metrics, 2)
    headers = dict(player.play("context").headers)
    assert (headers["traceparent"], headers["tracestate"]) == (f"00-{TRACE}-{PARENT}-01", "vendor=x")
    assert "traceparent" not in dict(player.play("none").headers)
    traces = [(span.trace_id.hex(), span.parent_span_id.hex(), span.trace_state) for span in collector.spans]
    assert traces[0] == (TRACE, PARENT, "vendor=x")
    assert traces[1][0] != TRACE
    assert traces[1][1:] == ("", "")


async def test_a_trace_that_is_not_sampled_gets_no_span(collector: Collector) -> None:
    await through(collector, traced(chat("unsampled", chat_events({"content": "a"})), flags="00"))
    assert not collector.spans


async def test_a_client_that_leaves_is_no_error_and_a_reset_is(collector: Collector) -> None:
    events = chat_events({"content": "a"}, {"content": "b"})[:2]
    await through(collector, chat("left", events, end="client_leaves", model="left"))
    await through(collector, chat("reset", events, end="reset", model="reset"))
    left, reset = collector.span("chat left"), collector.span("chat reset")
    assert attributes(left)["llm_stream.outcome"] == "client_disconnect"
    assert (left.status.code, "error.type" in attributes(left)) == (left.status.STATUS_CODE_UNSET, False)
    assert reset.status.code == reset.status.STATUS_CODE_ERROR
    assert attributes(reset)["error.type"]


async def test_content_leaves_only_where_it_was_switched_on(collector: Collector) -> None:
    exchange = chat("said", chat_events({"content": "the answer is canary"}))
    await through(collector, exchange)
    assert b"canary" not in collector.spans[0].SerializeToString()
    collector.spans.clear()
    assert "content capture is on" in await through(collector, exchange, "--capture-content")
    said = attributes(collector.spans[0])
    assert json.loads(said["gen_ai.input.messages"]) == [{"role": "user", "parts": [{"type": "text", "content": "hi"}]}]
    (message,) = json.loads(said["gen_ai.output.messages"])
    assert message["parts"] == [{"type": "text", "content": "the answer is canary"}]


async def test_a_long_stream_is_visible_before_it_ends(collector: Collector) -> None:
    events = chat_events({"content": "a"}, {"content": "b"})
    exchange = Exchange(
        "long",
        request_body=json.dumps({"model": "m-test", "stream": True}).encode(),
        pieces=(Piece(0.0, events[0]), *(Piece(2.5, event) for event in events[1:])),
        end_at=2.5,
    )
    player = Player()
    player.add([exchange])
    options = ("--otel-endpoint", collector.url, "--otel-pending-spans=0.5")
    async with player.serving(), sidecar_run("--upstream", player.url, *options, env=QUICK) as sidecar:
        asking = asyncio.create_task(ask(sidecar.proxy, exchange))
        await asyncio.to_thread(collector.wait_for, lambda found: found.spans)
        assert not asking.done()
        await asking
        await counted(sidecar.metrics, 1)
    marker, span = collector.span("chat m-test (pending)"), collector.span("chat m-test")
    assert (marker.trace_id, marker.parent_span_id) == (span.trace_id, span.span_id)
    assert span.start_time_unix_nano + 500 * MILLISECOND <= marker.start_time_unix_nano < span.end_time_unix_nano
    assert attributes(marker)["llm_stream.phase"] == "mid_stream"


async def test_exemplars_lead_to_the_span(collector: Collector) -> None:
    player = Player()
    player.add([chat("exemplar", chat_events({"content": "a"}))])
    options = ("--otel-endpoint", collector.url)
    async with player.serving(), sidecar_run("--upstream", player.url, *options, env=QUICK) as sidecar:
        await ask(sidecar.proxy, player.exchanges["exemplar"])
        await counted(sidecar.metrics, 1)
        page = await open_metrics(sidecar.metrics)
    (span,) = collector.spans
    assert f'trace_id="{span.trace_id.hex()}"' in page
    assert f'span_id="{span.span_id.hex()}"' in page


async def open_metrics(url: str) -> str:
    """The page with exemplars."""
    async with httpx.AsyncClient(trust_env=False, headers={"accept": "application/openmetrics-text"}) as client:
        return (await client.get(url)).text


async def test_exported_spans_are_counted(collector: Collector) -> None:
    player = Player()
    player.add([chat("counted", chat_events({"content": "a"}))])
    options = ("--otel-endpoint", collector.url)
    async with player.serving(), sidecar_run("--upstream", player.url, *options, env=QUICK) as sidecar:
        await ask(sidecar.proxy, player.exchanges["counted"])

        async def exported() -> Any:
            return (await scrape(sidecar.metrics)).total("llm_sidecar_spans_exported_total")

        assert await wait_until(exported) == 1


async def test_the_span_is_a_child_of_an_instrumented_clients(collector: Collector) -> None:
    require_module("opentelemetry.instrumentation.openai_v2", "pip install opentelemetry-instrumentation-openai-v2")
    require_module("opentelemetry.instrumentation.httpx", "pip install opentelemetry-instrumentation-httpx")
    player = Player()
    player.add([chat("joined", chat_events({"content": "a"}, {"content": "b"}))])
    options = ("--otel-endpoint", collector.url)
    async with player.serving(), sidecar_run("--upstream", player.url, *options, env=QUICK) as sidecar:
        command = (sys.executable, "-m", "tests.live.traced_client", f"{sidecar.url}/v1", "m-test", "joined")
        async with program("application", *command, f"{collector.url}/v1/traces") as application:
            assert await application.finish() == 0, application.stderr
        await counted(sidecar.metrics, 1)
    ours = next(span for span in collector.spans if "llm_stream.id" in attributes(span))
    theirs = {span.span_id: span for span in collector.spans if span is not ours}
    parent = theirs[ours.parent_span_id]
    assert parent.kind == parent.SPAN_KIND_CLIENT
    root = theirs[parent.parent_span_id]
    assert (root.name, ours.name) == ("chat m-test", "chat m-test")
    assert {span.trace_id for span in collector.spans} == {root.trace_id}
    assert root.start_time_unix_nano < ours.start_time_unix_nano < root.end_time_unix_nano
    # A client is through with [DONE], the stream with its last byte: either may be first.
    assert abs(ours.end_time_unix_nano - root.end_time_unix_nano) < 200 * MILLISECOND
    senders = {sender["service.name"] for sender in collector.resources}
    assert senders == {"application", "llm-sidecar"}
