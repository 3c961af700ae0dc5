"""Estimates: only where nothing was reported, only when asked for, never mixed with reported counts."""

import importlib
from typing import Any

import msgspec
import pytest

from sidecar import metrics as m
from sidecar.analyzer import Analyzer
from sidecar.config import Settings
from sidecar.export.estimate import TokenEstimator, TokenizerMissing
from sidecar.stream.summary import Summary
from tests.parts import require_module
from tests.test_analyzer import BASE, Clock, whole

HOW = "pip install 'llm-sidecar[tokens]'"


def test_the_text_of_a_stream_without_usage_is_counted_as_estimated() -> None:
    require_module("bpe_openai", HOW)
    clock = Clock()
    analyzer = Analyzer(Settings(estimate_tokens=True), clock)
    estimator = TokenEstimator(analyzer.count_estimate)
    analyzer.listeners.append(estimator.offer)
    analyzer.receive(1, whole(clock))
    estimator.close()
    found = {labels[-2:]: value for labels, value, _ in analyzer.series.values(m.TOKENS)}
    assert found == {("output", "estimated"): 1}  # "ab" is one token of o200k_base
    assert not list(analyzer.series.distributions(m.TOKEN_USAGE))
    assert analyzer.series.value(m.STREAMS, (*BASE, "complete", "true")) == 1


def test_reported_usage_is_never_estimated_again() -> None:
    require_module("bpe_openai", HOW)
    estimates: list[int] = []
    estimator = TokenEstimator(lambda summary, tokens: estimates.append(tokens))
    clock = Clock()
    analyzer = Analyzer(Settings(), clock)
    analyzer.listeners.append(estimator.offer)
    records: list[Any] = whole(clock)
    usage = b'data: {"id":"c","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}\n\n'
    records[-2] = type(records[-2])(1, records[-2].at, usage + records[-2].data)
    analyzer.receive(1, records)
    estimator.close()
    assert estimates == []


def test_a_text_that_was_kept_only_in_part_is_scaled() -> None:
    require_module("bpe_openai", HOW)
    clock = Clock()
    seen: list[Summary] = []
    analyzer = Analyzer(Settings(), clock)
    analyzer.listeners.append(seen.append)
    analyzer.receive(1, whole(clock))
    half = msgspec.structs.replace(seen[0], text="word " * 100, text_chars=1000)
    full = msgspec.structs.replace(seen[0], text="word " * 100, text_chars=500)
    estimator = TokenEstimator(lambda summary, tokens: None)
    assert estimator.count(half) == 2 * estimator.count(full)


def test_without_the_extra_the_operator_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(TokenizerMissing, match=r"pip install 'llm-sidecar\[tokens\]'"):
        TokenEstimator(lambda summary, tokens: None)
