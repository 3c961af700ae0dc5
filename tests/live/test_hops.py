"""A real proxy between two taps of the sidecar: client > tap > hop > tap > upstream. What the hop did is measured."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.live.exchanges import Exchange, chat, chat_events
from tests.live.player import Player
from tests.live.processes import sidecar_analyzer, sidecar_run
from tests.live.raw_client import Address, ask, ask_all
from tests.live.relays import free_port, relay
from tests.live.scrape import Samples, counted, scrape, streams, wait_until

TOKENS = 120
EVERY = 0.015
JITTER = {"multiple_events_per_read", "event_split_across_reads"}
"""Quirks that come and go with how busy the machine is."""


@dataclass
class Way:
    """Where the client's requests go, and where the analyzer says what became of them."""

    outer: Address
    inner: Address
    metrics: str
    player: Player
    relay_port: int

    @property
    def hop(self) -> dict[str, str]:
        """The labels of its hop."""
        return {"outer_server_port": str(self.relay_port), "inner_server_port": str(self.player.port)}

    async def row(self) -> dict[str, Any]:
        """What the live API says of the outer side of an exchange, once it was joined."""

        async def find() -> list[dict[str, Any]]:
            port = f":{self.relay_port}"
            return [
                row for row in (await streams(self.metrics))["recent"] if row["server"].endswith(port) and "hop" in row
            ]

        (row,) = await wait_until(find, what="the hop is known")
        return row


def _reverse(upstream: int, listen: int) -> tuple[str, str]:
    return "--mode", f"reverse:http://127.0.0.1:{upstream}@127.0.0.1:{listen}"


@contextlib.asynccontextmanager
async def way(options: str, kind: str = "nginx") -> AsyncIterator[Way]:
    """One sidecar with two listeners, a proxy between them."""
    player = Player()
    outer, inner, between = free_port(), free_port(), free_port()
    async with player.serving():
        modes = (*_reverse(between, outer), *_reverse(player.port, inner))
        async with sidecar_run(*modes) as sidecar, relay(kind, options, f"127.0.0.1:{inner}", between):
            yield Way(("127.0.0.1", outer), ("127.0.0.1", inner), sidecar.metrics, player, between)


@contextlib.asynccontextmanager
async def way_of_two_proxies(folder: Path) -> AsyncIterator[Way]:
    """A sidecar on either side of nginx, both feeding one analyzer."""
    player = Player()
    outer, inner, between = free_port(), free_port(), free_port()
    path = folder / "records"
    feed = ("--socket", str(path))
    async with (
        player.serving(),
        sidecar_analyzer(path) as (_, metrics),
        sidecar_run(*feed, *_reverse(between, outer)),
        sidecar_run(*feed, *_reverse(player.port, inner)),
        relay("nginx", "proxy_buffering off;", f"127.0.0.1:{inner}", between),
    ):
        yield Way(("127.0.0.1", outer), ("127.0.0.1", inner), metrics, player, between)


def paced(id: str, every: float = EVERY) -> Exchange:
    """A stream of many tokens, with an id and a prompt of its own."""
    events = chat_events({"role": "assistant", "content": ""}, *({"content": f" word{n}"} for n in range(TOKENS)))
    exchange = chat(id, [event.replace(b"chatcmpl-1", id.encode()) for event in events], every=every)
    return replace(exchange, request_body=exchange.request_body.replace(b"hi", id.encode()))


async def test_a_hop_that_passes_each_event_on_adds_nearly_nothing() -> None:
    exchange = paced("unbuffered")
    async with way("proxy_buffering off;") as through:
        through.player.add([exchange])
        answer = await ask(through.outer, exchange)
        row = await through.row()
        samples = await scrape(through.metrics)
    assert answer.body == exchange.body
    hop = row["hop"]
    assert hop["joined_by"] == "response_id"
    assert hop["outer"]["server"] == f"127.0.0.1:{through.relay_port}"
    assert hop["inner"]["server"] == f"127.0.0.1:{through.player.port}"
    assert hop["changes"] == []
    assert {*hop["quirks_added"], *hop["quirks_removed"]} <= JITTER
    assert 0 < hop["added_first_token_ms"] < 80
    assert 0 < hop["request_delay_ms"] < 250  # connections are made on the way
    assert hop["gap_ratio"] == pytest.approx(1, abs=0.2)
    assert hop["outer"]["response_bytes"] == hop["inner"]["response_bytes"] == len(exchange.body)
    assert samples.value("llm_hop_streams_total", evidence="response_id", **through.hop) == 1
    assert samples.value("llm_hop_added_first_token_seconds_count", **through.hop) == 1
    assert samples.value("llm_hop_gap_ratio_sum", **through.hop) == pytest.approx(hop["gap_ratio"], abs=0.001)


async def test_a_hop_that_buffers_is_shown_to_do_so() -> None:
    exchange = paced("buffered")
    async with way("proxy_buffering on;") as through:
        through.player.add([exchange])
        answer = await ask(through.outer, exchange)
        row = await through.row()
        samples = await scrape(through.metrics)
    assert answer.body == exchange.body
    first = len(exchange.pieces[0].data) + len(exchange.pieces[1].data)
    late = (answer.arrived(first) - through.player.play("buffered").pieces[1].before) / 1e6
    hop = row["hop"]
    assert hop["added_first_token_ms"] == pytest.approx(late, abs=30)
    assert hop["added_first_token_ms"] > 100
    assert hop["gap_ratio"] < 0.1
    assert hop["inner"]["gaps_below_1ms"] < 0.1 < 0.9 < hop["outer"]["gaps_below_1ms"]
    assert hop["outer"]["reads"] < hop["inner"]["reads"]
    assert (hop["inner"]["buffering"], hop["outer"]["buffering"]) == ("none", "coalesced")
    assert set(hop["changes"]) == {"buffering_appeared", "gaps_compressed"}
    assert samples.by("llm_hop_changes_total", "change", **through.hop) == dict.fromkeys(hop["changes"], 1)


@pytest.mark.parametrize(
    ("kind", "options", "reads_on"), [("nginx", "proxy_buffering off;", False), ("node", "false", True)]
)
async def test_how_long_the_upstream_is_read_after_the_client_left(kind: str, options: str, reads_on: bool) -> None:
    """nginx leaves when its client does; a relay that looks only at its upstream goes on to the end."""
    exchange = paced("left")
    async with way(options, kind) as through:
        through.player.add([exchange])
        answer = await ask(through.outer, replace(exchange, pieces=exchange.pieces[:30], end="client_leaves"))
        row = await through.row()
        samples = await scrape(through.metrics)
    after = row["hop"]["after_disconnect_ms"] / 1000
    assert row["outcome"] == "client_disconnect"
    ended = through.player.play("left").end
    truth = (ended.before - answer.ended_at) / 1e9 if reads_on and ended is not None else 0.0
    assert after == pytest.approx(truth, abs=0.3)
    assert (after > 0.5) == reads_on
    assert row["hop"]["inner"]["outcome"] == ("complete" if reads_on else "client_disconnect")
    seconds = samples.by("llm_stream_after_disconnect_seconds_sum", "server_port")
    assert seconds == {str(through.relay_port): pytest.approx(after, abs=0.001)}


async def test_what_a_hop_takes_out_of_a_stream_is_named() -> None:
    exchange = paced("edited", every=0.002)
    edit = "sub_filter_types text/event-stream; sub_filter_once off; sub_filter 'data: [DONE]' ': gone';"
    async with way(f"proxy_buffering off; {edit}") as through:
        through.player.add([exchange])
        await ask(through.outer, exchange)
        row = await through.row()
        samples = await scrape(through.metrics)
    assert {"terminator_lost", "outcome_changed", "bytes_changed"} <= set(row["hop"]["changes"])
    assert row["hop"]["outer"]["outcome"] == "no_terminator"
    assert "terminator_missing" in row["hop"]["quirks_added"]
    added = samples.by("llm_hop_quirks_total", "quirk", change="added", **through.hop)
    assert added["terminator_missing"] == 1


async def test_many_streams_at_once_find_each_its_other_side() -> None:
    exchanges = [paced(f"stream-{n}", every=0.005) for n in range(24)]
    async with way("proxy_buffering off;") as through:
        through.player.add(exchanges)
        answers = await ask_all(through.outer, exchanges, at_once=12)
        samples = await counted(through.metrics, 48)
    assert {answer.ending for answer in answers.values()} == {"eof"}
    assert samples.by("llm_hop_streams_total", "evidence", **through.hop) == {"response_id": 24}
    assert samples.by("llm_hop_changes_total", "change") == {}
    assert samples.total("llm_hop_unjoined_total") == 0


async def test_fixed_ids_on_two_ways_without_a_hop_are_no_hop() -> None:
    """Two demos with one id for all answers, each behind its listener, asked at the same time by the same client."""
    events = chat_events(*({"content": f" word{n}"} for n in range(40)))
    async with way("proxy_buffering off;") as one, way("proxy_buffering off;") as other:
        exchanges = [chat(f"one-{n}", events, first=0.05 * n) for n in range(6)]
        for through in (one, other):
            through.player.add(exchanges)
        await ask_all(one.inner, exchanges, at_once=6)
        samples = await counted(one.metrics, 6)
    assert samples.total("llm_hop_streams_total") == 0


async def test_two_proxies_that_feed_one_analyzer_are_two_taps(short_path: Path) -> None:
    exchange = paced("two proxies", every=0.005)
    async with way_of_two_proxies(short_path) as through:
        through.player.add([exchange])
        await ask(through.outer, exchange)
        row = await through.row()
    assert row["hop"]["changes"] == []
    assert 0 < row["hop"]["added_first_token_ms"] < 80


async def test_a_client_that_asks_again_after_a_failure_is_seen_to_retry() -> None:
    refused = replace(paced("refused"), status=503, headers=(("content-type", "application/json"),), pieces=())
    whole = paced("broken", every=0.001)
    broken = replace(whole, pieces=whole.pieces[:30], end="reset")
    player = Player()
    player.add([refused, broken])
    async with player.serving(), sidecar_run("--upstream", player.url) as sidecar:
        for _ in range(3):
            await ask(sidecar.proxy, refused)
        for _ in range(2):
            await ask(sidecar.proxy, broken)
        samples = await counted(sidecar.metrics, 5)
    assert _retries(samples) == {"before_first_token": 2, "after_first_token": 1}


def _retries(samples: Samples) -> dict[str, float]:
    found: dict[str, float] = samples.by("llm_stream_retries_total", "after")
    return found
