"""Under the demo's traffic, in a real Prometheus: every line of every panel is above zero at some time, but where zero is
healthy; every expression of rules and runbooks has data, but for what the demo does not provoke; every alert on streams
fires, and none on the sidecar itself; what the demo exports and records arrives; every panel draws."""

import asyncio
import math
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from dashboards.generator.board import VARIABLES
from dashboards.generator.rules import groups
from dashboards.generator.thresholds import THRESHOLDS
from dashboards.render.drawing import BOARDS, BUILT, HOW, browser, draw
from sidecar.stream.phases import PHASES
from tests.dashboards.expressions import Expression, of_panels, of_rules, of_runbooks
from tests.dashboards.zeros import HEALTHY, OTHER_ENGINE
from tests.live.monitoring import Prometheus
from tests.live.scrape import wait_until
from tests.live.stage import Stage, stage
from tests.parts import require_path, require_program

pytestmark = pytest.mark.asyncio(loop_scope="module")

_SECONDS = 240.0  # 40 are enough where nothing else runs
_AT_ONCE = 8
QUICK = replace(
    THRESHOLDS,
    every="1s",
    hung_for=dict.fromkeys(PHASES, "1s"),
    many_hung=1,
    many_hung_for="1s",
    window="5m",
    window_for="1s",
    at_least=3,
    no_terminators=3,
)
"""The committed rules with short waits, for the little traffic of the demo."""

NOT_PROVOKED = {
    "llm_sidecar_records_dropped_total": "nothing is dropped",
    "llm_sidecar_streams_lost_total": "nothing is lost",
    'outcome="lost"': "nothing is lost",
    "llm_sidecar_stage_failures_total": "no bug shows",
    "llm_sidecar_tee_failures_total": "no bug shows",
    "llm_sidecar_passivity_violations_total": "nobody changes bytes",
    'reason="error_event"': "the demo's error comes after tokens",
}
"""Parts of expressions of rules and runbooks that have no data in a demo that works, with the reason."""

NOT_FIRING = {
    "LLMClientDisconnectSpike": "the demo has no day before that it could be compared with",
    "LLMFirstTokenBudgetBurnFast": "the demo's upstream owes no first token so often",
    "LLMFirstTokenBudgetBurnSlow": "the demo's upstream owes no first token so often",
}
"""Alerts on streams that the demo does not provoke, with the reason."""


def _under_all_filters(text: str) -> str:
    for variable in VARIABLES:
        text = text.replace(f"${variable.name}", ".*")
    return text


async def _values(prometheus: Prometheus, expressions: Iterable[Expression]) -> dict[Expression, list[float]]:
    turn = asyncio.Semaphore(_AT_ONCE)

    async def ask(expression: Expression) -> list[float]:
        async with turn:
            return [value for _, value in await prometheus.query(_under_all_filters(expression.text))]

    asked = list(expressions)
    return dict(zip(asked, await asyncio.gather(*map(ask, asked)), strict=True))


async def _without_data(prometheus: Prometheus, expressions: Iterable[Expression]) -> list[Expression]:
    return [each for each, values in (await _values(prometheus, expressions)).items() if not values]


async def _only_zero(prometheus: Prometheus, expressions: Iterable[Expression]) -> list[Expression]:
    """Those with no value but zeros, if any."""
    found = await _values(prometheus, expressions)
    return [each for each, values in found.items() if not any(value and not math.isnan(value) for value in values)]


def _excused(expression: Expression) -> set[str]:
    return {part for part in NOT_PROVOKED if part in expression.text}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    async with stage(tmp_path_factory.mktemp("demo"), QUICK, every="1s") as running:
        yield running


async def test_every_line_of_every_panel_is_above_zero_but_where_zero_is_healthy(running: Stage) -> None:
    excused = HEALTHY.keys() | OTHER_ENGINE.keys()
    panels = {each.where: each for each in of_panels()}
    zero = list(panels.values())

    async def complete() -> bool:
        nonlocal zero
        await asyncio.sleep(1)
        zero = await _only_zero(running.prometheus, zero)
        return {each.where for each in zero} <= excused

    try:
        await wait_until(complete, _SECONDS)
    except AssertionError:
        silent = {f"{each.where}: {each.text}" for each in zero if each.where not in excused}
        raise AssertionError(f"nothing but zeros, if any: {silent}") from None

    assert {each.where for each in zero} == excused, "excuses that nothing needs"
    lines = await _values(running.prometheus, (panels[where] for where in HEALTHY))
    assert {each.where: set(values) for each, values in lines.items()} == {where: {0.0} for where in HEALTHY}, (
        "no line at 0"
    )


async def test_what_the_demo_exports_and_records_arrives(running: Stage) -> None:
    """The figures of these panels are of something: the back end counts the spans, too, and the files hold exchanges."""
    exported = sum(value for _, value in await running.prometheus.query("llm_sidecar_spans_exported_total"))
    recorded = sum(value for _, value in await running.prometheus.query("llm_sidecar_recordings_total"))
    async with httpx.AsyncClient(trust_env=False) as client:
        assert (await client.get(running.collector)).json()["spans"] >= exported > 0
    lines = sum(len(path.read_bytes().splitlines()) for path in running.recordings.glob("*.jsonl"))
    assert lines > 0
    assert recorded > 0


async def test_every_expression_has_data_and_every_alert_on_streams_fires(running: Stage) -> None:
    recordings = (each for each in of_rules() if ":" in each.where)  # of alerts the firing is what counts
    empty = [*recordings, *of_runbooks()]
    *on_streams, on_sidecar = groups(QUICK)
    expected = {alert.name for group in on_streams for alert in group.alerts} - NOT_FIRING.keys()
    fired: set[str] = set()

    async def complete() -> bool:
        nonlocal empty
        await asyncio.sleep(1)
        empty = await _without_data(running.prometheus, empty)
        fired.update(labels["alertname"] for labels in await running.prometheus.firing())
        return all(map(_excused, empty)) and expected <= fired

    try:
        await wait_until(complete, _SECONDS)
    except AssertionError:
        silent = {f"{each.where}: {each.text}" for each in empty if not _excused(each)}
        raise AssertionError(f"without data: {silent}; never fired: {expected - fired}") from None

    assert NOT_PROVOKED.keys() == set().union(*map(_excused, empty)), "excuses that nothing needs"
    assert not fired & NOT_FIRING.keys()
    overloaded = {"LLMSidecarLoopLag", "LLMSidecarAnalyzerLag"}  # of a busy machine, and rightly so
    assert fired & {alert.name for alert in on_sidecar.alerts} <= overloaded


async def test_every_panel_draws_and_nothing_overlaps_or_is_cut_off(running: Stage, tmp_path: Path) -> None:
    """As Grafana's own libraries draw it; `make screenshots` does the same in both themes, and keeps the pictures."""
    require_program("node", HOW)
    require_path(Path(browser() or "chromium"), "chromium", HOW)
    require_path(BUILT, "dashboards/render", HOW)
    drawn: set[str] = set()
    faults: dict[str, list[str]] = {}

    async def without_fault() -> bool:
        pictures = await draw(
            running.prometheus.url,
            tmp_path,
            themes=("dark",),
            seconds=60,
            scrape_seconds=1,
            boards=[path for path in BOARDS if path.stem not in drawn],
        )
        assert all(picture.path.stat().st_size > 20_000 for picture in pictures)
        drawn.update(picture.uid for picture in pictures if not picture.faults)
        faults.update({picture.uid: picture.faults for picture in pictures})
        return len(drawn) == len(BOARDS)

    try:
        await wait_until(without_fault, _SECONDS)
    except AssertionError:
        raise AssertionError({uid: found for uid, found in faults.items() if found}) from None
