"""Every socket of the corpus through the pipeline: all that is expected of it and of each response in it."""

from collections import Counter

import pytest

from sidecar.files.capture import Capture, end_at, records_of
from sidecar.files.inspect import WHOLE_FILE
from sidecar.files.sockets import run_socket
from sidecar.files.text import session_report, text_report
from sidecar.thresholds import QuirkThresholds
from tests.sockets import captures, disagreements, expectations, observed, wrong_fields

SCORED = ("outcome", "terminator", "finish_reason", "output_chunks", "text", "transcript", "t0_source", "usage",
          "error", "tool_calls", "first_token", "first_visible_token", "first_audio", "terminator")  # fmt: skip


def _allowed(case: str) -> set[str]:
    return {*disagreements().get(case, {}), *disagreements()["*"]}


@pytest.mark.parametrize("case", sorted(expectations()))
def test_everything_expected_of_a_socket_is_said(case: str) -> None:
    wrong = {field: (want, got) for field, want, got in wrong_fields(expectations()[case], observed(captures()[case]))}
    assert {field for field in wrong if field not in _allowed(case)} == set(), wrong


def test_only_the_name_of_responses_in_sockets_is_judged_otherwise() -> None:
    found = {
        (want, got)
        for case in expectations()
        for field, want, got in wrong_fields(expectations()[case], observed(captures()[case]))
        if field == "dialect"
    }
    assert found == {("openai.responses", "openai.responses.ws")}
    assert all(len(reason) > 20 for fields in disagreements().values() for reason in fields.values())


def test_score_by_field(capsys: pytest.CaptureFixture[str]) -> None:
    """Prints the score; fails where a field falls below all of them."""
    turns = sum(len(expected["streams"]) for expected in expectations().values())
    wrong: Counter[str] = Counter()
    for case, expected in expectations().items():
        wrong.update(field.partition("[")[0] for field, _, _ in wrong_fields(expected, observed(captures()[case])))
    with capsys.disabled():
        print()
        for field in sorted(set(SCORED)):
            print(f"  {field:20} {turns - wrong[field]:4}/{turns}")
    assert not any(wrong[field] for field in SCORED)


@pytest.mark.parametrize("case", sorted(expectations()))
def test_responses_come_in_the_order_of_their_opening(case: str) -> None:
    found = [said for said in observed(captures()[case]) if "socket" in said]
    expected = [stream["response_id"] for stream in expectations()[case]["streams"]]
    assert [said["response_id"] for said in found] == expected


def _report(capture: Capture) -> str:
    found = run_socket(list(records_of(capture)), end_at(capture), QuirkThresholds(), WHOLE_FILE)
    above = session_report(found.session, show_content=False)
    return "\n".join([above, *(text_report(summary, show_content=False) for summary in found.responses)])


def test_the_report_for_a_terminal_tells_of_the_socket_and_its_responses_without_content() -> None:
    report = _report(captures()["rt29-unknown-malformed-binary"])
    assert "WEBSOCKET openai.realtime, 1 responses, 14 messages, closed by the client with code 1000" in report
    assert "unknown events 4, malformed messages 2" in report
    assert "asked for by response.create" in report
    assert "fine" not in report


def test_nothing_is_made_of_sockets_that_speak_no_known_dialect() -> None:
    for case in ("ot01-deepgram-agent-binary", "ot02-plain-websocket"):
        (said,) = observed(captures()[case])
        assert said["dialect"] == "unknown"
        assert said["session"]["responses"] == said["session"]["unknown_events"] == 0


def test_an_upgrade_that_fails_is_an_exchange_like_any_other() -> None:
    (said,) = observed(captures()["rt37-handshake-no-answer"])
    assert (said["dialect"], said["outcome"], "socket" in said) == ("openai.realtime", "upstream_failed", False)
