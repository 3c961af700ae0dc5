"""Raw responses of real servers, each read completely: no event that is malformed or unknown."""

from pathlib import Path

import pytest

from sidecar.files.inspect import inspect_file
from sidecar.stream.summary import Summary
from sidecar.thresholds import QuirkThresholds
from tests.corpus import FIXTURES

CAPTURES = sorted((FIXTURES / "captures").glob("*.http"))
UNREAD = {
    "malformed_json_event",
    "truncated_json_event",
    "truncated_frame",
    "non_json_data_event",
    "unknown_event_type",
}
OFF_SPEC = {"aimock-bedrock_converse_stream"}
"""Its frames are refused by AWS's own SDK, so ours may refuse them, too."""


def read(path: Path) -> Summary:
    (summary,) = inspect_file(path, QuirkThresholds())
    assert isinstance(summary, Summary), summary
    return summary


@pytest.mark.parametrize("path", [path for path in CAPTURES if path.stem not in OFF_SPEC], ids=lambda path: path.stem)
def test_a_real_response_is_read_completely(path: Path) -> None:
    summary = read(path)
    assert not UNREAD & set(summary.quirks)
    assert summary.status is not None
    if summary.status >= 400:
        assert summary.outcome == "http_error"
        assert summary.error
    else:
        assert summary.dialect != "unknown"
        assert summary.outcome in ("complete", "no_terminator", "error_event"), summary.outcome


WITH_USAGE = [path for path in CAPTURES if "usage" in path.stem]
DROPS_USAGE = {"fakellm-chat_usage"}
"""Endpoints that were asked for usage and did not deliver it: absent, not zero."""


@pytest.mark.parametrize("path", WITH_USAGE, ids=lambda path: path.stem)
def test_usage_that_was_asked_for_is_found(path: Path) -> None:
    usage = read(path).usage
    if path.stem in DROPS_USAGE:
        assert usage is None
        return
    assert usage is not None
    assert usage["input"] > 0
    assert usage["output"] > 0


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_a_response_without_timing_gets_no_timing(path: Path) -> None:
    summary = read(path)
    assert summary.milestones == {}
    assert summary.buffering.verdict == "inconclusive"
    assert not {"buffered_delivery", "multiple_events_per_read", "long_gap"} & set(summary.quirks)
