"""Which exchanges are copied."""

import re

import pytest

from sidecar.capture.interest import Chooser, Interest
from sidecar.dialects.request import Head
from sidecar.dialects.table import UNKNOWN, pick
from tests.corpus import captures


@pytest.mark.parametrize(
    ("method", "target", "expected"),
    [
        ("POST", "/v1/chat/completions", Interest.YES),
        ("POST", "/gateway/openai/v1/chat/completions?x=1", Interest.YES),
        ("POST", "/v1/messages", Interest.YES),
        ("POST", "/v1/messages/count_tokens", Interest.MAYBE),
        ("GET", "/v1/models", Interest.MAYBE),
        ("POST", "/login", Interest.MAYBE),
        ("OPTIONS", "/v1/chat/completions", Interest.NO),
        ("CONNECT", "host:443", Interest.NO),
    ],
)
def test_the_request_decides_where_it_can(method: str, target: str, expected: Interest) -> None:
    assert Chooser().of_request(method, "host", target) is expected


@pytest.mark.parametrize("case", sorted(captures()))
def test_every_post_of_the_corpus_whose_dialect_is_known_is_copied(case: str) -> None:
    request = captures()[case].request
    target = re.sub(r"^https?://[^/]+", "", request.url)
    head = Head.of(request.method, "upstream.example", 443, target, {})
    if request.method == "POST" and pick(head) is not UNKNOWN:
        assert Chooser().of_request(request.method, "upstream.example", target) is Interest.YES


def test_the_operator_has_the_last_word_and_exclude_wins() -> None:
    chooser = Chooser(include=(r"^inference\.local/",), exclude=(r"/v1/chat",))
    assert chooser.of_request("GET", "inference.local", "/anything") is Interest.YES
    assert chooser.of_request("POST", "inference.local", "/v1/chat/completions") is Interest.NO


def test_a_bad_expression_is_named() -> None:
    with pytest.raises(ValueError, match=r"not a regular expression: '\('"):
        Chooser(include=("(",))


@pytest.mark.parametrize(
    ("content_type", "confirmed"),
    [
        ("text/event-stream; charset=utf-8", True),
        ("Application/X-NDJSON", True),
        ("application/json", False),
        ("", False),
    ],
)
def test_the_response_confirms_a_maybe(content_type: str, confirmed: bool) -> None:
    assert Chooser.confirmed_by(content_type) is confirmed


def test_an_upgrade_is_left_alone() -> None:
    assert Chooser().of_request("GET", "host", "/v1/realtime", upgrade=True) is Interest.NO
