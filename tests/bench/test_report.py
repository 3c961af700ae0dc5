"""docs/performance.md is what the benches found, section by section."""

from typing import Any

import pytest

from bench import report, results

FOUND = {
    "decode_us": 1.5,
    "event_us": 18.0,
    "ratio": 12.0,
    "quirks_add": 0.1,
    "events_per_second": 55556,
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "FOLDER", tmp_path / "results")


def test_what_was_measured_is_told_with_its_command_and_machine() -> None:
    results.save("analyzer", {"openai.chat": FOUND}, "python -m bench.analyzer", ["some version"])
    page = report.page("")
    assert "`python -m bench.analyzer` on " in page
    assert "some version." in page
    assert "55,556" in page


def test_what_was_not_measured_anew_stays() -> None:
    results.save("analyzer", {"openai.chat": FOUND}, "python -m bench.analyzer")
    before = report.page("")
    (results.FOLDER / "analyzer.json").unlink()
    assert report.page(before) == before


def test_few_samples_say_nothing_of_a_tail() -> None:
    assert results.percentile(list(range(100)), 0.99) is None
    assert results.percentile(list(range(300)), 0.99) == 297
    assert results.percentile([], 0.5) is None


def test_what_is_less_than_without_a_proxy_adds_nothing() -> None:
    assert results.difference(1.0, 1.5) == 0.0
    assert results.difference(None, 1.5) is None
    assert results.ratio(1.0, 0.0) is None
