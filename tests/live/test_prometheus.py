"""Hung streams and missing terminators as the on-call engineer meets them: in a real Prometheus, from its alerts, while
they last. Every phase is held over real sockets and ended in every way; alerts reach a real Alertmanager and resolve."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Literal

import pytest
import pytest_asyncio

from dashboards.generator.rules import rule_files
from dashboards.generator.thresholds import THRESHOLDS
from sidecar.stream.phases import PHASES, Phase
from tests.live.exchanges import End, Exchange, Piece, chat, chat_events
from tests.live.monitoring import JOB, Alertmanager, Prometheus, alertmanager, prometheus
from tests.live.player import Player
from tests.live.processes import Sidecar, sidecar_run
from tests.live.raw_client import Answer, Client
from tests.live.scrape import wait_until

pytestmark = pytest.mark.asyncio(loop_scope="module")

STALL_SECONDS = "1"
QUICK = replace(
    THRESHOLDS,
    every="1s",
    hung_for=dict.fromkeys(PHASES, "1s"),
    window="10s",
    window_for="1s",
    at_least=5,
    absolute_window="10s",
    no_terminators=5,
    down_for="2s",
)
"""The committed rules with short waits."""

ALERT_OF = {
    "waiting_headers": "LLMStreamsHungWaitingHeaders",
    "before_first_token": "LLMStreamsHungBeforeFirstToken",
    "mid_stream": "LLMStreamsHungMidStream",
    "keepalive_only": "LLMStreamsKeepaliveOnly",
    "after_finish": "LLMStreamsHungAfterFinish",
}
Way = Literal["goes on", "client leaves", "upstream breaks"]
WAYS: tuple[Way, ...] = ("goes on", "client leaves", "upstream breaks")
HELD = [(phase, way) for phase in PHASES for way in WAYS]
ENDS = {
    **{("client_disconnect", phase): 1.0 for phase in PHASES},
    **{("upstream_reset", phase): 1.0 for phase in PHASES},
}
ENDS["upstream_failed", "waiting_headers"] = ENDS.pop(("upstream_reset", "waiting_headers"))  # there is no head yet


@dataclass
class Watch:
    """A sidecar in front of a player, watched by Prometheus."""

    player: Player
    sidecar: Sidecar
    prometheus: Prometheus
    alertmanager: Alertmanager


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def watch(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Watch]:
    stalls = {f"SIDECAR_STALLS_{phase.upper()}": STALL_SECONDS for phase in PHASES}
    folder = tmp_path_factory.mktemp("monitoring")
    async with (
        Player().serving() as player,
        sidecar_run("--upstream", player.url, env=stalls) as sidecar,
        alertmanager(folder) as alerts,
        prometheus(folder, {JOB: sidecar.metrics}, rule_files(QUICK), notify=alerts) as metrics,
    ):

        async def scraped() -> bool:
            return await metrics.query(f'up{{job="{JOB}"}} == 1') != []

        await wait_until(scraped, 30, "Prometheus scrapes the sidecar")
        yield Watch(player, sidecar, metrics, alerts)


def _held(phase: Phase, way: Way) -> Exchange:
    """A stream that gets into a phase, and ends there when it is let."""
    role, text, finish, done = chat_events({"role": "assistant", "content": ""}, {"content": "Half"})
    ping = b": ping\n\n"
    events = {
        "waiting_headers": [],
        "before_first_token": [role],
        "mid_stream": [role, text],
        "keepalive_only": [role, *[ping] * 8],
        "after_finish": [role, text, finish],
    }[phase]
    end: End = "eof" if way != "upstream breaks" else "no_answer" if phase == "waiting_headers" else "reset"
    pieces = tuple(Piece(0.4 * number, event) for number, event in enumerate(events))
    model = f"{phase} {way}"
    return replace(chat(model, [done], model=model), pieces=pieces, end=end, end_at=0.0)


async def _stalled(watch: Watch) -> set[tuple[str, str]]:
    """Phase and model of the streams that Prometheus shows as stalled."""
    found = await watch.prometheus.query("llm_streams_stalled > 0")
    return {(labels["phase"], labels["gen_ai_request_model"]) for labels, _ in found}


def _hung_alerts(labels: list[dict[str, str]]) -> set[tuple[str, str, str]]:
    return {
        (alert["alertname"], alert["phase"], alert["gen_ai_request_model"])
        for alert in labels
        if alert["alertname"] in ALERT_OF.values()
    }


async def test_each_phase_is_seen_while_it_lasts_and_its_alert_fires_and_resolves(watch: Watch) -> None:
    exchanges = {(phase, way): _held(phase, way) for phase, way in HELD}
    watch.player.add(exchanges.values())
    watch.player.holds = {exchange.id: asyncio.Event() for exchange in exchanges.values()}
    clients = {key: await Client.connect(watch.sidecar.proxy) for key in exchanges}
    asking: dict[tuple[Phase, Way], asyncio.Task[Answer]] = {
        key: asyncio.create_task(clients[key].ask(exchange)) for key, exchange in exchanges.items()
    }
    expected = {(phase, exchange.id) for (phase, _), exchange in exchanges.items()}
    alerts = {(ALERT_OF[phase], phase, model) for phase, model in expected}

    async def all_stalled() -> bool:
        return await _stalled(watch) == expected

    async def all_fire() -> bool:
        return _hung_alerts(await watch.prometheus.firing()) == alerts

    async def all_arrived() -> bool:
        return _hung_alerts(await watch.alertmanager.active()) == alerts

    await wait_until(all_stalled, 30, f"Prometheus shows {expected}")
    in_flight = await watch.prometheus.query("sum by (phase) (llm_streams_in_flight) > 0")
    assert {labels["phase"]: value for labels, value in in_flight} == dict.fromkeys(PHASES, 3.0)
    silent = await watch.prometheus.query("min by (phase) (llm_stream_oldest_silence_seconds > 0)")
    assert all(seconds >= float(STALL_SECONDS) for _, seconds in silent), silent
    await wait_until(all_fire, 30, "every alert fires")
    await wait_until(all_arrived, 30, "every alert reaches Alertmanager")
    assert not any(task.done() for task in asking.values())

    for (phase, way), task in asking.items():
        if way == "client leaves":
            task.cancel()
            clients[phase, way].close()
        else:
            watch.player.holds[exchanges[phase, way].id].set()

    async def none_fires() -> bool:
        firing = _hung_alerts(await watch.prometheus.firing())
        return not firing and not _hung_alerts(await watch.alertmanager.active()) and not await _stalled(watch)

    async def all_resolved() -> bool:
        return _hung_alerts(watch.alertmanager.told("resolved")) == alerts

    await wait_until(none_fires, 40, "no alert fires any more")
    await wait_until(all_resolved, 40, "Alertmanager says of each that it is resolved")
    assert _hung_alerts(watch.alertmanager.told("firing")) == alerts


async def test_each_end_is_counted_with_the_phase_it_came_in(watch: Watch) -> None:
    """Of the streams of the test before: five phases, ended by the client and by the upstream."""

    async def ends() -> bool:
        found = await watch.prometheus.query("sum by (end, phase) (llm_stream_early_ends_total)")
        return {(labels["end"], labels["phase"]): value for labels, value in found} == ENDS

    await wait_until(ends, 15, f"the ends are {ENDS}")
    stalls = await watch.prometheus.query("sum by (phase) (llm_stream_stalls_total)")
    assert {labels["phase"]: value for labels, value in stalls} == dict.fromkeys(PHASES, 3.0)
    in_flight = await watch.prometheus.query("sum(llm_streams_in_flight)")
    assert in_flight[0][1] == 0


async def test_missing_terminators_fire_and_resolve(watch: Watch) -> None:
    names = {"LLMTerminatorsMissing", "LLMTerminatorsMissingShare"}
    events = chat_events({"role": "assistant", "content": ""}, {"content": "Whole"})
    exchange = chat("unterminated", events[:-1], every=0.001, model="unterminated")
    watch.player.add([exchange])

    async def fire() -> bool:
        client = await Client.connect(watch.sidecar.proxy)
        assert (await client.ask(exchange)).ending == "eof"
        client.close()
        await asyncio.sleep(0.2)
        firing = {alert["alertname"] for alert in await watch.prometheus.firing()}
        active = {alert["alertname"] for alert in await watch.alertmanager.active()}
        return names <= firing and names <= active

    async def resolved() -> bool:
        return names <= {labels["alertname"] for labels in watch.alertmanager.told("resolved")}

    await wait_until(fire, 30, "the alerts fire and reach Alertmanager")
    (labels,) = [
        each for each in await watch.alertmanager.active() if each["alertname"] == "LLMTerminatorsMissingShare"
    ]
    assert labels["gen_ai_request_model"] == "unterminated"
    assert labels["dialect"] == "openai.chat"
    await wait_until(resolved, 40, "the alerts resolve once streams are terminated again")


async def test_nothing_else_fired(watch: Watch) -> None:
    """What the faults of this module do not cause stays quiet; resets and a new upstream's habits may alert."""
    seen = {labels["alertname"] for labels in watch.alertmanager.told("firing")}
    allowed = {*ALERT_OF.values(), "LLMTerminatorsMissing", "LLMTerminatorsMissingShare"}
    assert seen == allowed


async def test_a_dead_sidecar_is_noticed(watch: Watch) -> None:
    await watch.sidecar.program.stop()

    async def down() -> bool:
        return "LLMSidecarDown" in {alert["alertname"] for alert in await watch.alertmanager.active()}

    await wait_until(down, 30, "LLMSidecarDown reaches Alertmanager")
