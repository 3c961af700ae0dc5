"""Retries are told from records: who sent what again, how soon after which failure."""

from collections.abc import Sequence
from typing import Any

import pytest

from sidecar import metrics as m
from sidecar.analyzer import Analyzer
from sidecar.attempts import Attempts
from sidecar.capture.records import Opened, RequestBody, RequestSent
from sidecar.config import Settings
from sidecar.exchange import Exchange
from sidecar.thresholds import Limits
from tests.taps import MS, START, Tap

BROKEN_EARLY: dict[str, Any] = {"tokens": (), "kind": "upstream_reset", "finish": None, "done": False, "usage": False}
BROKEN_LATE: dict[str, Any] = BROKEN_EARLY | {"tokens": (100.0, 120.0)}
FAILURES = {
    "http error": {"status": 503},
    "no head": BROKEN_EARLY | {"kind": "upstream_failed"},
    "reset before the first token": BROKEN_EARLY,
    "reset midway": BROKEN_LATE,
    "truncated": BROKEN_LATE | {"kind": "eof"},
    "error event": BROKEN_LATE | {"kind": "eof", "extra": b'data: {"error":{"message":"no","type":"overloaded"}}\n\n'},
}


def retries(taps: Sequence[Tap], settings: Settings | None = None) -> dict[str, float]:
    """What is counted when these exchanges come one after the other."""
    analyzer = Analyzer(settings or Settings(), lambda: START)
    for tap in taps:
        analyzer.receive(1, list(tap.records()))
    assert not list(analyzer.series.values(m.STAGE_FAILURES))
    return {labels[-1]: value for labels, value, _ in analyzer.series.values(m.RETRIES)}


def again(first: Tap, **changes: Any) -> Tap:
    """The same request, a second after the first one ended."""
    same: dict[str, Any] = {"client": first.client, "body": first.body, "listener": first.listener}
    return Tap(**(same | {"stream": first.stream + 1, "opened": first.end + 1000, "tokens": (), "end": 9e5} | changes))


@pytest.mark.parametrize("failure", FAILURES)
def test_the_same_request_after_a_failure_is_a_retry(failure: str) -> None:
    first = Tap(**FAILURES[failure])
    after = "after_first_token" if first.tokens and first.status == 200 else "before_first_token"
    assert retries([first, again(first)]) == {after: 1}


@pytest.mark.parametrize(
    "fine", [{}, {"kind": "client_disconnect", "finish": None, "done": False, "usage": False}, {"done": False}]
)
def test_what_did_not_fail_is_not_retried(fine: dict[str, Any]) -> None:
    first = Tap(**fine)
    assert retries([first, again(first)]) == {}


@pytest.mark.parametrize(
    "other",
    [
        {"client": "c2"},
        {"client": ""},
        {"body": b'{"model":"m","stream":true,"seed":1}'},
        {"body": b""},
        {"listener": "other"},
        {"server": ("other", 8000)},
    ],
)
def test_another_request_is_no_retry(other: dict[str, Any]) -> None:
    first = Tap(**BROKEN_EARLY)
    assert retries([first, again(first, **other)]) == {}


def test_a_retry_comes_within_the_window() -> None:
    first = Tap(**BROKEN_EARLY)
    assert retries([first, again(first, opened=first.end + 60_000)]) == {"before_first_token": 1}
    assert retries([first, again(first, opened=first.end + 60_001)]) == {}
    assert retries([first, again(first, opened=first.end + 2001)], Settings(retry_window=2)) == {}


def test_a_failure_is_answered_by_one_retry_and_a_failed_retry_by_the_next() -> None:
    first = Tap(**BROKEN_LATE)
    second = again(first, **BROKEN_EARLY | {"end": first.end + 1100})
    third = again(second)
    assert retries([first, second, third, again(third, opened=third.opened + 1)]) == {
        "after_first_token": 1,
        "before_first_token": 1,
    }


def test_requests_that_fail_together_are_retried_together() -> None:
    failed = [Tap(stream=number, **BROKEN_EARLY) for number in range(5)]
    assert retries([*failed, *(again(failed[0], stream=10 + number) for number in range(7))]) == {
        "before_first_token": 5
    }


def test_a_retry_is_counted_when_its_request_is_complete_and_not_before() -> None:
    analyzer = Analyzer(Settings(), lambda: START)
    first = Tap(**BROKEN_EARLY)
    opened, body, sent, *_ = again(first).records()
    analyzer.receive(1, [*first.records(), opened, body])
    assert not list(analyzer.series.values(m.RETRIES))
    analyzer.receive(1, [sent])
    ((labels, value, _),) = analyzer.series.values(m.RETRIES)
    assert (labels[2:], value) == (("m", "gateway", "8000", "openai.chat", "before_first_token"), 1)


def test_the_memory_of_failures_is_bounded() -> None:
    attempts = Attempts(60, limit=3)
    exchanges = [_exchange(b"%d" % number) for number in range(5)]
    for exchange in exchanges:
        attempts.ended(exchange, "http_error", START)
    assert len(attempts) == 3
    assert [attempts.requested(exchange, START) for exchange in exchanges] == [None] * 2 + ["before_first_token"] * 3
    assert len(attempts) == 0


def test_a_body_is_kept_as_a_hash_that_only_its_analyzer_can_make() -> None:
    one, same, other = _exchange(b"secret"), _exchange(b"secret"), _exchange(b"secret", salt=b"other")
    assert one.body_digest == same.body_digest != other.body_digest
    assert b"secret" not in one.body_digest.encode()


def test_of_a_body_beyond_what_is_copied_nothing_is_said() -> None:
    assert _exchange(b"x" * (4 * 1024 * 1024)).body_digest == ""
    assert _exchange(b"").body_digest == ""


def _exchange(body: bytes, salt: bytes = b"salt") -> Exchange:
    opened = next(Tap().records())
    assert isinstance(opened, Opened)
    exchange = Exchange(opened, Limits(), salt=salt)
    exchange.request_body(RequestBody(1, START, body))
    assert exchange.body_digest == ""
    exchange.request_sent(RequestSent(1, START + MS))
    return exchange
