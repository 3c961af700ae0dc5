"""What a scraper gets: valid in both formats, with hostile label values, checked by Prometheus's own parser."""

import asyncio
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from sidecar import metrics as m
from sidecar.analyzer import Analyzer
from sidecar.config import Settings
from sidecar.export import prometheus
from sidecar.export.labels import clean
from sidecar.export.prometheus import Exposition
from sidecar.files.capture import records_of
from sidecar.metrics import METRICS
from tests.corpus import captures
from tests.parts import require_program

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


@pytest.fixture(scope="module")
def fed() -> Analyzer:
    """An analyzer that has seen the whole corpus."""
    analyzer = Analyzer(Settings(max_models=20))
    for number, capture in enumerate(captures().values()):
        analyzer.receive(number, list(records_of(capture)))  # type: ignore[arg-type]  # all of them are records of the wire
    return analyzer


def test_every_declared_metric_is_there_in_the_text_format(fed: Analyzer) -> None:
    body, content_type = Exposition(fed.series, fed.refresh).render("")
    families = {family.name for family in parse_text(body.decode())}
    assert content_type.startswith("text/plain")
    assert families == {metric.name.removesuffix("_total") for metric in METRICS}


def test_the_openmetrics_format_parses_and_carries_exemplars_where_there_is_a_trace(fed: Analyzer) -> None:
    body, content_type = Exposition(fed.series, fed.refresh).render(OPENMETRICS)
    families = {family.name: family for family in parse_openmetrics(body.decode())}
    assert content_type.startswith("application/openmetrics-text")
    assert families["llm_streams"].samples


def test_counts_of_the_corpus_are_one_per_exchange(fed: Analyzer) -> None:
    counted = sum(value for _, value, _ in fed.series.values(m.STREAMS))
    in_flight = len(fed.exchanges)
    assert counted + in_flight == len(captures())


def test_promtool_accepts_it(fed: Analyzer, tmp_path: Path) -> None:
    promtool = require_program("promtool", "apt-get install prometheus")
    body, _ = Exposition(fed.series, fed.refresh).render("")
    checked = subprocess.run([promtool, "check", "metrics"], input=body, capture_output=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


async def test_scrapers_at_once_share_one_answer_and_do_not_hold_up_the_loop(
    fed: Analyzer, monkeypatch: pytest.MonkeyPatch
) -> None:
    refreshed: list[int] = []
    exposition, free = Exposition(fed.series, lambda: refreshed.append(1)), threading.Event()
    expected = exposition.render("")[0]
    refreshed.clear()
    encoded = prometheus._encoded

    def slow(*arguments: Any) -> bytes:
        assert free.wait(10)
        return encoded(*arguments)

    monkeypatch.setattr(prometheus, "_encoded", slow)
    asked = [asyncio.create_task(exposition.answer("")) for _ in range(50)]
    await asyncio.sleep(0.01)
    fed.series.add(m.STAGE_FAILURES, ("while it was written out",))
    free.set()
    assert {body for body, _ in await asyncio.gather(*asked)} == {expected}
    assert refreshed == [1]
    later, _ = await exposition.answer("")
    assert b"while it was written out" in later


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=300))
def test_any_text_becomes_a_valid_label_value(text: str) -> None:
    analyzer = Analyzer(Settings())
    analyzer.series.add(m.STAGE_FAILURES, (clean(text),))
    for accept, parse in (("", parse_text), (OPENMETRICS, parse_openmetrics)):
        body, _ = Exposition(analyzer.series, lambda: None).render(accept)
        (sample,) = (
            sample
            for family in parse(body.decode())
            if family.name == "llm_sidecar_stage_failures"
            for sample in family.samples
            if sample.name.endswith("_total")
        )
        assert sample.labels["stage"] == clean(text)
        assert len(sample.labels["stage"]) <= 128


def test_declarations_keep_to_prometheus_conventions() -> None:
    names = [metric.name for metric in METRICS]
    assert len(set(names)) == len(names)
    for metric in METRICS:
        assert (metric.kind == "counter") == metric.name.endswith("_total"), metric.name
        assert (metric.kind == "histogram") == bool(metric.buckets), metric.name
        assert list(metric.buckets) == sorted(set(metric.buckets)), metric.name
        assert metric.help.endswith("."), metric.name
        assert not {"id", "trace_id", "prompt", "user"} & set(metric.labels), metric.name
