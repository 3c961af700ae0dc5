"""What a hop did, told from two summaries."""

from typing import Any

import msgspec
import pytest

from sidecar.stream.buffering import Buffering
from sidecar.stream.gaps import Gaps
from sidecar.stream.hop import compare
from sidecar.stream.summary import Summary, ToolCallSummary
from sidecar.stream.usage import Tokens
from tests.taps import Tap, inside, summary_of

PACED = tuple(100.0 + 20 * number for number in range(20))
OUTER = summary_of(Tap(tokens=PACED, end=600))
INNER = summary_of(inside(Tap(tokens=PACED, end=600)))


def call(arguments: str, name: str = "f") -> tuple[ToolCallSummary, ...]:
    return (ToolCallSummary(name, "valid", True, len(arguments), arguments),)


def with_changes(summary: Summary, changes: dict[str, Any]) -> Summary:
    return msgspec.structs.replace(summary, **changes)


def test_a_hop_that_passes_everything_on_changes_nothing() -> None:
    hop = compare(OUTER, INNER, "response_id")
    assert (hop.changes, hop.quirks_added, hop.quirks_removed) == ((), (), ())
    assert hop.added_first_token == pytest.approx(0.001)
    assert hop.request_delay == pytest.approx(0.002)
    assert hop.added_end == pytest.approx(0.001)
    assert hop.gap_ratio == pytest.approx(1.0)
    assert hop.after_disconnect is None
    assert (hop.outer.id, hop.inner.id, hop.evidence) == ("outer-1", "inner-1", "response_id")


def test_a_hop_that_buffers_delays_the_first_token_and_compresses_the_gaps() -> None:
    held = summary_of(Tap(tokens=(600.0,) * 20, end=600))
    hop = compare(held, INNER, "response_id")
    assert hop.added_first_token == pytest.approx(0.501)
    assert (hop.gap_ratio, hop.outer.gaps_below_1ms, hop.inner.gaps_below_1ms) == (0.0, 1.0, 0.0)
    assert hop.inner.gap_p50 == hop.inner.gap_mean == pytest.approx(0.02)
    assert hop.changes == ("buffering_appeared", "gaps_compressed")
    assert hop.quirks_added == ("buffered_delivery",)


def test_few_gaps_say_nothing() -> None:
    short = summary_of(Tap(tokens=(100.0, 100.0, 100.0)))
    hop = compare(short, summary_of(inside(Tap())), "response_id")
    assert hop.gap_ratio is None
    assert "gaps_compressed" not in hop.changes


def test_gaps_that_the_upstream_compressed_are_not_put_down_to_the_hop() -> None:
    clumped = summary_of(inside(Tap(tokens=(550.0,) * 20, end=600)))
    assert compare(summary_of(Tap(tokens=(550.0,) * 20, end=600)), clumped, "response_id").changes == ()


@pytest.mark.parametrize(
    ("ours", "theirs", "changes"),
    [
        ({"usage": None, "tokens": None, "usage_state": "missing"}, {}, ["usage_lost"]),
        ({"usage": None, "tokens": None, "usage_state": "partial"}, {}, ["usage_lost"]),
        ({"usage": None, "tokens": None, "usage_state": "not_requested"}, {}, ["usage_withheld"]),
        ({}, {"usage": None, "tokens": None}, ["usage_added"]),
        ({"usage": None, "tokens": None}, {"usage": None, "tokens": None}, []),
        ({"usage": {"input": 5}}, {"usage": {"input": 5, "cache_read": 2}}, ["usage_changed"]),
        ({"finish_reason": None}, {}, ["finish_reason_lost"]),
        ({}, {"finish_reason": None}, ["finish_reason_added"]),
        ({"finish_reason": "length"}, {}, ["finish_reason_changed"]),
        ({"finish_reason": "end_turn"}, {}, ["finish_reason_changed"]),
        ({"terminator": None}, {}, ["terminator_lost"]),
        ({}, {"terminator": None}, ["terminator_added"]),
        ({"terminator": "eos"}, {}, ["terminator_changed"]),
        ({"text": "other"}, {}, ["text_changed"]),
        ({"text": ""}, {}, []),  # as far as it was kept
        ({"text": "", "text_chars": 0}, {}, ["text_changed"]),
        ({"text_chars": 7}, {}, ["text_changed"]),
        ({"reasoning_text": "hm"}, {}, ["reasoning_changed"]),
        ({"reasoning_text": "hm"}, {"reasoning_text": "so"}, ["reasoning_changed"]),
        ({"output_chunks": 3}, {}, ["events_changed"]),
        ({"response_bytes": 3}, {}, ["bytes_changed"]),
        ({"tool_calls": ()}, {"tool_calls": call("{}")}, ["tool_calls_changed"]),
        ({"tool_calls": call('{"a":1}')}, {"tool_calls": call('{"a":2}')}, ["tool_calls_changed"]),
        ({"tool_calls": call('{"a":1}')}, {"tool_calls": call('{"a":1}', "g")}, ["tool_calls_changed"]),
        ({"tool_calls": call('{"a":1,"b":2}')}, {"tool_calls": call('{ "b": 2, "a": 1 }')}, []),
        ({"heartbeats": 0}, {"heartbeats": 4}, ["keepalives_lost"]),
        ({"heartbeats": 4}, {"heartbeats": 0}, ["keepalives_added"]),
        ({"heartbeats": 4}, {"heartbeats": 3}, []),
        ({"status": 502}, {}, ["status_changed"]),
        ({"outcome": "truncated"}, {}, ["outcome_changed"]),
        ({"buffering": Buffering("coalesced", {})}, {}, []),  # with gaps like those of the other side: jitter
        ({"buffering": Buffering("coalesced", {}), "gaps": Gaps()}, {}, ["buffering_appeared"]),
        ({"buffering": Buffering("coalesced", {}), "gaps": Gaps()}, {"buffering": Buffering("buffered", {})}, []),
        ({"buffering": Buffering("inconclusive", {}), "gaps": Gaps()}, {}, []),
    ],
)
def test_what_differs_is_named(ours: dict[str, Any], theirs: dict[str, Any], changes: list[str]) -> None:
    hop = compare(with_changes(OUTER, ours), with_changes(INNER, theirs), "trace")
    assert list(hop.changes) == changes


def test_a_translated_dialect_is_compared_by_its_meaning() -> None:
    counts = Tokens(input=5, output=20)
    translated = {
        "dialect": "anthropic.messages",
        "finish_reason": "end_turn",
        "terminator": "message_stop",
        "usage": {"input": 5, "output": 20},
        "tokens": counts,
    }
    hop = compare(with_changes(OUTER, translated), with_changes(INNER, {"tokens": counts}), "trace")
    assert hop.changes == ("dialect_changed",)
    other = translated | {"finish_reason": "max_tokens", "outcome": "no_terminator", "terminator": None}
    hop = compare(with_changes(OUTER, other), with_changes(INNER, {"tokens": counts}), "trace")
    assert hop.changes == ("dialect_changed", "outcome_changed", "finish_reason_changed", "terminator_lost")


def test_quirks_of_one_side_only_are_added_or_removed() -> None:
    hop = compare(
        with_changes(OUTER, {"quirks": ("a", "b")}), with_changes(INNER, {"quirks": ("b", "c")}), "response_id"
    )
    assert (hop.quirks_added, hop.quirks_removed) == (("a",), ("c",))


def test_of_an_answer_that_the_client_left_only_what_came_is_compared() -> None:
    left = summary_of(
        Tap(tokens=PACED[:5], end=190, kind="client_disconnect", finish=None, done=False, usage=False),
    )
    hop = compare(left, INNER, "response_id")
    assert (hop.changes, hop.quirks_added, hop.quirks_removed) == ((), (), ())
    assert hop.after_disconnect == pytest.approx(0.409)
    assert hop.added_end == pytest.approx(-0.409)


def test_an_upstream_that_ended_before_the_client_left_was_not_read_on() -> None:
    late = summary_of(Tap(tokens=PACED, end=700, kind="client_disconnect", finish=None, done=False, usage=False))
    assert compare(late, INNER, "response_id").after_disconnect == 0.0


def test_without_a_first_token_nothing_is_said_of_it() -> None:
    failed = summary_of(Tap(status=502, tokens=()))
    hop = compare(failed, INNER, "response_id")
    assert hop.added_first_token is None
    assert {"status_changed", "outcome_changed", "usage_withheld", "finish_reason_lost"} <= set(hop.changes)
