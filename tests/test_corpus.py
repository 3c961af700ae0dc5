"""Every capture of the corpus through the pipeline: all that is expected of it, however its reads are cut."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sidecar.files.capture import records_of
from tests.corpus import body_size, captures, disagreements, expectations, observed, recut, wrong_fields

READ_DEPENDENT = {
    "buffered_delivery",
    "burst_delivery",
    "decompression_ratio_high",
    "event_split_across_reads",
    "line_ending_split_across_reads",
    "multiple_events_per_read",
    "utf8_split_across_reads",
}
LARGEST_RECUT = 20_000  # bytes; byte by byte is slow beyond, and cuts nothing new


@pytest.mark.parametrize("case", sorted(expectations()))
def test_everything_expected_of_a_capture_is_said(case: str) -> None:
    allowed = disagreements().get(case, {})
    wrong = {field: (want, got) for field, want, got in wrong_fields(expectations()[case], observed(captures()[case]))}
    assert wrong.keys() == allowed.keys(), wrong


def test_every_disagreement_has_a_reason_and_is_not_about_a_case_of_high_confidence() -> None:
    for case, fields in disagreements().items():
        assert expectations()[case]["confidence"] != "high", case
        assert all(len(reason) > 20 for reason in fields.values()), case


def test_score_by_field(capsys: pytest.CaptureFixture[str]) -> None:
    """Prints the score; fails only where a field falls below what the disagreements explain."""
    right: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for case, expected in expectations().items():
        differing = {field for field, _, _ in wrong_fields(expected, observed(captures()[case]))}
        for field in {"dialect", "outcome", "terminator", "finish_reason", "usage", "tool_calls", "text", "quirks"}:
            (wrong if field in differing else right)[field] += 1
    with capsys.disabled():
        print()
        for field in sorted(right):
            print(f"  {field:15} {right[field]:4}/{right[field] + wrong[field]}")
    explained = Counter(field for fields in disagreements().values() for field in fields)
    assert all(wrong[field] <= explained[field] for field in wrong)


def _stable(said: dict[str, object]) -> dict[str, object]:
    """What may not depend on how the body was cut into reads."""
    quirks = said["quirks"]
    assert isinstance(quirks, list)
    kept = {key: value for key, value in said.items() if key not in ("quirks", "gaps_ms", "buffering")}
    return kept | {"quirks": sorted(set(quirks) - READ_DEPENDENT)}


RECUTTABLE = sorted(case for case, capture in captures().items() if 1 < body_size(capture) <= LARGEST_RECUT)


@pytest.mark.parametrize("case", RECUTTABLE)
def test_a_capture_read_byte_by_byte_says_the_same(case: str) -> None:
    capture = captures()[case]
    records = list(records_of(capture))
    every_byte = recut(records, list(range(1, body_size(capture))))
    assert _stable(observed(capture, every_byte)) == _stable(observed(capture))


@pytest.mark.parametrize("case", RECUTTABLE)
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_capture_cut_at_random_says_the_same(case: str, data: st.DataObject) -> None:
    capture = captures()[case]
    cuts = data.draw(st.lists(st.integers(1, body_size(capture) - 1), max_size=8))
    assert _stable(observed(capture, recut(list(records_of(capture)), cuts))) == _stable(observed(capture))
