"""Under the demo's traffic, in a real Prometheus: every expression of every panel, rule and runbook has data, but for
what the demo does not provoke."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dashboards.generator.board import VARIABLES
from dashboards.generator.thresholds import THRESHOLDS
from tests.dashboards.expressions import Expression, of_panels, of_rules, of_runbooks
from tests.live.monitoring import Prometheus
from tests.live.scrape import wait_until
from tests.live.stage import stage

_SECONDS = 120.0
NOT_PROVOKED: dict[str, str] = {
    "sglang:": "the demo's engine speaks as vLLM",
    "absent(up": "the sidecar is up",
    "llm_sidecar_records_dropped_total": "nothing is dropped",
    "llm_sidecar_streams_lost_total": "nothing is lost",
    'outcome="lost"': "nothing is lost",
    "llm_sidecar_stage_failures_total": "no bug shows",
    "llm_sidecar_tee_failures_total": "no bug shows",
    "llm_sidecar_proxies_connected) == 0": "the proxy is there",
    'reason="error_event"': "the demo's error comes after tokens",
}
"""Parts of expressions that have no data in a demo that works, with the reason."""


def _under_all_filters(expression: Expression) -> str:
    text = expression.text
    for variable in VARIABLES:
        text = text.replace(f"${variable.name}", ".*")
    return text


async def _without_data(prometheus: Prometheus, expressions: list[Expression]) -> set[str]:
    empty = set()
    for each in expressions:
        text = _under_all_filters(each)
        if not await prometheus.query(text) and not any(part in text for part in NOT_PROVOKED):
            empty.add(each.where)
    return empty


@pytest.fixture
def quick() -> Callable[[str], bool]:
    """Which alerts are expected of the demo: those of what it plays."""
    played = ("Hung", "Keepalive", "Terminators", "Truncated", "ErrorsInside", "UpstreamBroken", "NewBreaking")
    return lambda alert: any(part in alert for part in played)


async def test_every_expression_has_data_under_the_demo(tmp_path: Path, quick: Callable[[str], bool]) -> None:
    thresholds = replace(
        THRESHOLDS, every="1s", window="1m", window_for="1s", at_least=3, no_terminators=3, many_hung=1
    )
    always = [*of_panels(), *(each for each in of_rules() if ":" in each.where)]  # recordings have a colon
    pages = [each for each in of_runbooks() if "> 0" not in each.text]  # what is rare may be empty there
    alerts = {each.where for each in of_rules() if quick(each.where)}
    seen: set[str] = set()
    async with stage(tmp_path, thresholds, every="1s") as running:

        async def complete() -> bool:
            await asyncio.sleep(2)
            seen.update(alert["alertname"] for alert in await running.prometheus.firing())
            return not await _without_data(running.prometheus, [*always, *pages])

        try:
            await wait_until(complete, _SECONDS, "every expression has data")
        except AssertionError:
            pytest.fail(f"without data: {sorted(await _without_data(running.prometheus, [*always, *pages]))}")

        async def fired() -> bool:
            seen.update(alert["alertname"] for alert in await running.prometheus.firing())
            await asyncio.sleep(0.5)
            return alerts <= seen

        try:
            await wait_until(fired, _SECONDS, "the demo's faults fire their alerts")
        except AssertionError:
            pytest.fail(f"never fired: {sorted(alerts - seen)}")
