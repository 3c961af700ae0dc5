"""Expressions of `--record-only`: what they say yes to, and where they say that something is wrong."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.files.capture import records_of
from sidecar.quirks.quirk import SEVERITIES
from sidecar.record.expression import ExpressionError, compile_expression
from sidecar.record.facts import BY_NAME, FIELDS, facts_of
from tests.record.recordings import draft_of
from tests.sockets import captures as sockets
from tests.taps import Tap, summary_of

FACTS: dict[str, Any] = dict.fromkeys(BY_NAME) | {
    "outcome": "truncated",
    "dialect": "openai.chat",
    "model": "gpt-4o (preview)",
    "status": 200,
    "streaming": True,
    "websocket": False,
    "quirk": ("terminator_missing", "compressed_stream"),
    "quirk.severity": ("breaks_clients", "info"),
    "buffering": "none",
    "duration": 12.5,
    "output_tokens": 0,
}


def matches(expression: str, **facts: Any) -> bool:
    return compile_expression(expression)(FACTS | facts)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("outcome!=complete or quirk.severity>=warning", True),
        ("outcome==truncated", True),
        ("outcome = truncated", True),
        ("outcome!=truncated", False),
        ("status>=400", False),
        ("status<400 and status>=200", True),
        ("duration>12s", True),
        ("duration>12500ms", False),
        ("duration>=12500ms", True),
        ("duration<1m", True),
        ("duration>.5", True),
        ("ttft>5", False),
        ("ttft<5", False),
        ("not ttft<5", True),
        ("ttft==none", True),
        ("ttft!=none", False),
        ("duration!=none", True),
        ("ttft!=5", True),
        ("error_type!=overloaded", True),
        ("output_tokens==0", True),
        ("streaming", True),
        ("websocket", False),
        ("not websocket", True),
        ("streaming==false", False),
        ("buffering==none", True),
        ("buffering!=none", False),
        ("quirk==terminator_missing", True),
        ("quirk==buffered_delivery or quirk==compressed_stream", True),
        ("quirk!=terminator_missing", False),
        ("quirk=~'^term'", True),
        ("quirk!~'^term'", False),
        ("quirk.severity>info", True),
        ("quirk.severity==warning", False),
        ("quirk.severity<warning", True),
        ("model=='gpt-4o (preview)'", True),
        ('model=~"GPT"', False),
        ('model=~"(?i)GPT"', True),
        ("model!~gpt", False),
        ("outcome==complete and outcome==truncated or streaming", True),
        ("outcome==complete and (outcome==truncated or streaming)", False),
        ("not outcome==complete and streaming", True),
        ("not (streaming and outcome==truncated)", False),
        ("NOT outcome==complete AND Streaming", True),
        ("not not streaming", True),
        ("(((streaming)))", True),
    ],
)
def test_what_matches(expression: str, expected: bool) -> None:
    assert matches(expression) is expected


def test_no_quirk_is_none() -> None:
    assert matches("quirk==none", quirk=())
    assert not matches("quirk.severity>=info", **{"quirk.severity": ()})


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("", "at character 1, empty: expected a field. Fields: outcome, dialect,"),
        (
            "outcom==complete",
            "at character 1, at 'outcom==complete': no field is called 'outcom'; did you mean outcome?",
        ),
        ("status>=400 and colour==red", "at character 17, at 'colour==red': no field is called 'colour'; Fields:"),
        ("outcome==complet", "at character 10, at 'complet': outcome is never 'complet'; did you mean complete?"),
        ("quirk==terminator_mising", "did you mean terminator_missing?"),
        ("quirk.severity>=bad", "Values: info, warning, breaks_clients"),
        ("outcome", "at character 8, behind 'outcome': expected a comparison of outcome, like outcome=="),
        ("outcome==", "at character 10, behind 'outcome==': expected a value for outcome"),
        ("outcome>complete", "at character 8, at '>complete': outcome has no order"),
        ("model<m", "model has no order"),
        ("status=~4", "at character 7, at '=~4': status is no text"),
        ("status==4xx", "at character 9, at '4xx': status is a number"),
        ("status==4s", "status is a number"),
        ("ttft>fast", "ttft is seconds, like 2.5, 500ms or 2m"),
        ("ttft>none", "none can only be equal"),
        ("streaming==maybe", "streaming is true or false"),
        ("model=~'('", "at character 8, at \"'('\": no regular expression"),
        ("model=='x", 'at character 8, at "\'x": a quotation mark without its other one'),
        ("(status==1", "at character 11, behind '(status==1': expected ) for the ( at character 1"),
        ("status==1)", "at character 10, at ')': expected and, or, or the end"),
        ("status==1 status==2", "expected and, or, or the end"),
        ("status==1 or", "at character 13, behind 'status==1 or': expected a field"),
        ("and status==1", "at character 1, at 'and status==1': expected a field"),
        ("status ! 1", "at character 8, at '! 1': not understood"),
        ("(" * 60 + "streaming" + ")" * 60, "nested deeper than"),
        ("streaming or " * 1000 + "streaming", "longer than"),
    ],
)
def test_an_error_points_at_its_place(expression: str, says: str) -> None:
    with pytest.raises(ExpressionError) as error:
        compile_expression(expression)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def comparisons() -> st.SearchStrategy[tuple[str, bool]]:
    """Comparisons, with what they are of FACTS."""
    known = [("outcome==truncated", True), ("status>300", False), ("quirk.severity>=warning", True), ("ttft<1", False)]
    return st.sampled_from([*known, ("streaming", True), ('model=~"^x"', False)])


def joined(inner: st.SearchStrategy[tuple[str, bool]]) -> st.SearchStrategy[tuple[str, bool]]:
    space = st.sampled_from([" ", "  ", "\t"])

    def both(word: str, one: tuple[str, bool], other: tuple[str, bool], gap: str) -> tuple[str, bool]:
        value = one[1] and other[1] if word == "and" else one[1] or other[1]
        return f"({one[0]}){gap}{word}{gap}({other[0]})", value

    return st.builds(both, st.sampled_from(["and", "or"]), inner, inner, space) | inner.map(
        lambda one: (f"not ({one[0]})", not one[1])
    )


@settings(deadline=None)
@given(st.recursive(comparisons(), joined, max_leaves=15))
def test_it_is_boolean_algebra(pair: tuple[str, bool]) -> None:
    expression, expected = pair
    if expression.count("(") < 45:
        assert matches(expression) is expected


@settings(deadline=None, max_examples=400)
@given(
    st.text(max_size=60)
    | st.lists(
        st.sampled_from(
            [*BY_NAME, "and", "or", "not", "(", ")", "==", ">=", "=~", "!", "'", '"', "5s", "none", "\\", "x"]
        )
    ).map(" ".join)
)
def test_anything_is_an_expression_or_a_clear_error(text: str) -> None:
    try:
        found = compile_expression(text)
    except ExpressionError as error:
        said = str(error)
    else:
        assert found(FACTS) in (True, False)
        return
    assert re.match(r"at character \d+|longer than", said)


def test_every_field_can_be_read_of_an_exchange_and_of_a_socket_without_responses() -> None:
    of_exchange = facts_of(summary_of(Tap()))
    socket = next(iter(sockets().values()))
    of_socket = facts_of(draft_of(list(records_of(socket))))
    for field in FIELDS:
        for facts in (of_exchange, of_socket):
            value = facts[field.name]
            if field.kind in ("number", "seconds") and value is not None:
                assert isinstance(value, (int, float))
            if field.values and isinstance(value, str):
                assert value in field.values
    assert of_exchange["outcome"] == "complete"
    assert of_socket["websocket"] is True
    assert of_socket["outcome"] is None
    severities = of_exchange["quirk.severity"]
    assert isinstance(severities, tuple)
    assert set(severities) <= set(SEVERITIES)
