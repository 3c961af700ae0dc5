"""The registry is whole, its ids are permanent, and its page is fresh."""

from pathlib import Path

import pytest

from sidecar.quirks.document import markdown
from sidecar.quirks.quirk import Quirk, Severity
from sidecar.quirks.registry import BY_ID, QUIRKS

TESTS = Path(__file__).parents[1]
PERMANENT = TESTS / "fixtures" / "quirks" / "ids.txt"
PAGE = TESTS.parent / "docs" / "quirks.md"

# What well-formed streams show by their dialect's own habits: none of it may reach an alert.
SHOWN_BY_HEALTHY_STREAMS = (
    "azure_prompt_filter_chunk",
    "burst_delivery",
    "chunk_id_empty",
    "compressed_stream",
    "empty_choices_chunk",
    "empty_choices_usage_chunk",
    "empty_tool_calls_array",
    "event_split_across_reads",
    "finish_reason_on_content_chunk",
    "finish_reason_string_null",
    "json_array_stream",
    "line_ending_split_across_reads",
    "multiple_events_per_read",
    "named_ping_event",
    "reasoning_tokens_excluded_from_output",
    "role_prelude_chunk",
    "sse_comment",
    "sse_crlf_line_endings",
    "sse_no_space_after_colon",
    "thinking_field",
    "tool_arguments_empty",
    "usage_dual_counts",
    "usage_in_vendor_field",
    "usage_mid_stream",
    "usage_null_every_chunk",
    "usage_null_fields",
    "usage_on_finish_chunk",
    "usage_partial_fields",
    "utf8_split_across_reads",
)


def test_ids_are_unique() -> None:
    assert len(BY_ID) == len(QUIRKS)


def test_ids_are_permanent() -> None:
    permanent = PERMANENT.read_text().split()
    assert len(set(permanent)) == len(permanent), f"{PERMANENT.name} names an id twice"
    gone, new = set(permanent) - BY_ID.keys(), BY_ID.keys() - set(permanent)
    assert not gone, f"an id is never renamed or removed: {sorted(gone)}"
    assert not new, f"add new ids to {PERMANENT.name}: {sorted(new)}"


@pytest.mark.parametrize("quirk", QUIRKS, ids=lambda quirk: quirk.id)
def test_row_is_whole(quirk: Quirk) -> None:
    for name in ("id", "summary", "severity", "breaks", "guard", "reference"):
        assert getattr(quirk, name).strip(), f"{name} is empty"
    assert "\n" not in quirk.summary
    assert quirk.reference.startswith("https://")


@pytest.mark.parametrize("quirk", SHOWN_BY_HEALTHY_STREAMS)
def test_habits_of_healthy_streams_stay_information(quirk: str) -> None:
    assert BY_ID[quirk].severity is Severity.INFO


def test_page_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == markdown(), f"docs/{PAGE.name} is stale: run `make docs`"
