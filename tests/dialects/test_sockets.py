"""Whose a message is: cases that the corpus of sockets does not have, and what no message may do."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sidecar import metrics as m
from sidecar.analyzer import Analyzer
from sidecar.capture.records import Message, Record
from sidecar.config import Settings
from sidecar.dialects.mend import mend
from sidecar.files.capture import Capture, EndPart, MessagePart, RequestPart, ResponsePart, records_of
from tests.sockets import captures, observed

REALTIME = "/v1/realtime?model=m"
RESPONSES = "/v1/responses"
LIVE = "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"

type Said = tuple[str, dict[str, Any]]


def client(event: dict[str, Any]) -> Said:
    return "client", event


def server(event: dict[str, Any]) -> Said:
    return "server", event


def play(path: str, *said: Said, end: EndPart | None = None) -> list[dict[str, Any]]:
    """What is said of a socket in which a message goes every 100 ms."""
    messages = [
        MessagePart(at_ms=100.0 * number, sender=who, text=json.dumps(event))  # type: ignore[arg-type]  # one of the two
        for number, (who, event) in enumerate(said, 1)
    ]
    upgrade = [("connection", "Upgrade"), ("upgrade", "websocket")]
    capture = Capture(
        1,
        "s",
        RequestPart("GET", f"wss://host{path}", headers=upgrade),
        end or EndPart("client_disconnect", 100.0 * len(messages) + 50, code=1000),
        response=ResponsePart(101, headers=upgrade),
        messages=messages,
    )
    return observed(capture)


def facts(found: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(one[name] for name in names) for one in found if "socket" in one]


CREATE: dict[str, Any] = {"type": "response.create"}


def created(response_id: str, **more: Any) -> Said:
    return server({"type": "response.created", "response": {"id": response_id, **more}})


def delta(text: str, **more: Any) -> Said:
    return server({"type": "response.output_text.delta", "delta": text, **more})


def done(response_id: str, **more: Any) -> Said:
    return server({"type": "response.done", "response": {"id": response_id, "status": "completed", **more}})


def completed(response_id: str, **more: Any) -> Said:
    return server({"type": "response.completed", "response": {"id": response_id, "status": "completed"}, **more})


def error(code: str | None = None, **more: Any) -> Said:
    return server({"type": "error", "error": {"type": "invalid_request_error", "code": code, "message": "no", **more}})


# Realtime


def test_an_error_without_a_name_rejects_the_newest_request_that_is_unanswered() -> None:
    found = play(
        REALTIME,
        client(CREATE),
        created("a"),
        client(CREATE),
        error("conversation_already_has_active_response", event_id=None),
        delta("x", response_id="a"),
        done("a"),
    )
    assert facts(found, "response_id", "outcome", "text") == [("a", "complete", "x"), (None, "error_event", "")]
    assert found[0]["session"]["unattributed_errors"] == 0


@pytest.mark.parametrize("code", ["session_expired", "input_audio_buffer_commit_empty", "response_cancel_not_active"])
def test_an_error_of_something_else_leaves_a_request_alone(code: str) -> None:
    found = play(REALTIME, client(CREATE), error(code), created("a"), delta("x", response_id="a"), done("a"))
    assert facts(found, "outcome", "t0_source") == [("complete", "response.create")]
    assert found[0]["session"]["unattributed_errors"] == 1


def test_a_session_that_expires_truncates_what_it_was_saying() -> None:
    end = EndPart("eof", 900, code=1001)
    found = play(REALTIME, client(CREATE), created("a"), delta("x", response_id="a"), error("session_expired"), end=end)
    assert facts(found, "outcome") == [("truncated",)]


def test_a_commit_of_the_clients_own_is_no_t0_where_the_client_asks() -> None:
    commit = {"type": "input_audio_buffer.committed", "item_id": "i"}
    found = play(
        REALTIME,
        client({"type": "input_audio_buffer.commit"}),
        server(commit),
        client(CREATE),
        created("a"),
        done("a"),
        created("b"),
        done("b"),
    )
    assert facts(found, "response_id", "t0_source") == [("a", "response.create"), ("b", "response.created")]


def test_the_voice_detector_and_a_request_apart_are_told_from_each_other() -> None:
    apart = {"type": "response.create", "response": {"conversation": "none"}}
    found = play(
        REALTIME,
        server({"type": "input_audio_buffer.committed", "item_id": "i"}),
        client(apart),
        created("voice", conversation_id="c1"),
        created("apart", conversation_id=None),
        done("apart"),
        done("voice"),
    )
    assert facts(found, "response_id", "t0_source") == [
        ("voice", "input_audio_buffer.committed"),
        ("apart", "response.create"),
    ]


def test_a_response_that_was_running_when_the_socket_was_joined_has_no_t0() -> None:
    found = play("/v1/realtime?call_id=rtc_1", delta("rest", response_id="a"), done("a"))
    assert facts(found, "t0_source", "text", "outcome") == [(None, "rest", "complete")]
    assert "first_token" not in found[0]["milestones_ms"]


def test_what_comes_of_a_response_that_is_over_opens_no_other() -> None:
    stopped = server({"type": "output_audio_buffer.stopped", "response_id": "a"})
    late = server({"type": "response.output_audio.done", "response_id": "a"})
    found = play(REALTIME, client(CREATE), created("a"), done("a"), stopped, late, done("a"))
    assert facts(found, "response_id", "outcome") == [("a", "complete")]


def test_a_function_call_is_put_together_from_its_events() -> None:
    item = {"id": "i", "type": "function_call", "name": "roll", "call_id": "c", "arguments": ""}
    of = {"response_id": "a", "item_id": "i", "output_index": 0}
    whole = {**item, "arguments": '{"n":6}'}
    found = play(
        REALTIME,
        client(CREATE),
        created("a"),
        server({"type": "response.output_item.added", "response_id": "a", "output_index": 0, "item": item}),
        server({"type": "response.function_call_arguments.delta", "delta": '{"n":', **of}),
        server({"type": "response.function_call_arguments.delta", "delta": "6}", **of}),
        server({"type": "response.function_call_arguments.done", "arguments": '{"n":6}', **of}),
        server({"type": "response.output_item.done", "response_id": "a", "output_index": 0, "item": whole}),
        done("a", output=[whole]),
    )
    (said,) = found
    assert [(call["name"], call["arguments"]) for call in said["tool_calls"]] == [("roll", '{"n":6}')]
    assert said["output_chunks"] == 3


def test_text_that_no_delta_brought_is_taken_from_the_end() -> None:
    content = [{"type": "output_audio", "transcript": "Said"}, {"type": "output_text", "text": "Written"}]
    found = play(REALTIME, client(CREATE), created("a"), done("a", output=[{"type": "message", "content": content}]))
    assert facts(found, "text", "transcript", "output_chunks") == [("Written", "Said", 0)]


def test_sockets_of_transcription_have_no_responses() -> None:
    found = play(
        "/v1/realtime?intent=transcription",
        server({"type": "transcription_session.created", "session": {}}),
        server({"type": "input_audio_buffer.committed", "item_id": "i"}),
        server({"type": "conversation.item.input_audio_transcription.delta", "item_id": "i", "delta": "hm"}),
        server({"type": "transcription.delta", "delta": "hm"}),
    )
    assert facts(found, "outcome") == []
    assert found[0]["session"]["unknown_events"] == 0


# Responses


def test_lanes_that_run_at_once_are_told_apart_by_their_names() -> None:
    lane_a, lane_b = {"stream_id": "a"}, {"stream_id": "b"}
    found = play(
        RESPONSES,
        client({**CREATE, "model": "m", **lane_a}),
        client({**CREATE, "model": "m", **lane_b}),
        server({"type": "response.created", "response": {"id": "r2"}, **lane_b}),
        server({"type": "response.created", "response": {"id": "r1"}, **lane_a}),
        delta("1", **lane_a),
        delta("2", **lane_b),
        completed("r2", **lane_b),
        delta("1", **lane_a),
        completed("r1", **lane_a),
    )
    assert facts(found, "response_id", "text", "model") == [("r1", "11", "m"), ("r2", "2", "m")]


def test_a_server_that_echoes_no_lanes_answers_in_the_order_of_the_requests() -> None:
    found = play(
        RESPONSES,
        client({**CREATE, "stream_id": "a"}),
        client({**CREATE, "stream_id": "b"}),
        created("r1"),
        delta("1"),
        completed("r1"),
        created("r2"),
        delta("2"),
        completed("r2"),
    )
    assert facts(found, "response_id", "text", "t0_source") == [
        ("r1", "1", "response.create"),
        ("r2", "2", "response.create"),
    ]


def test_the_rest_of_an_abandoned_response_is_not_the_next_ones() -> None:
    found = play(
        RESPONSES,
        client(CREATE),
        created("r1"),
        delta("old"),
        client(CREATE),
        delta("er"),
        completed("r1"),
        created("r2"),
        delta("new"),
        completed("r2"),
    )
    assert facts(found, "response_id", "text") == [("r1", "older"), ("r2", "new")]


def test_an_error_in_a_response_and_its_own_end_are_one_failure() -> None:
    failed = {"id": "r1", "status": "failed", "error": {"code": "server_error", "message": "died"}}
    found = play(
        RESPONSES,
        client(CREATE),
        created("r1"),
        delta("Red"),
        server({"type": "error", "error": {"type": "server_error", "message": "broke"}}),
        server({"type": "response.failed", "response": failed}),
        client(CREATE),
        created("r2"),
        completed("r2"),
    )
    assert facts(found, "response_id", "outcome", "terminator", "error") == [
        ("r1", "error_event", "response.failed", "broke"),
        ("r2", "complete", "response.completed", None),
    ]


def test_an_error_with_its_status_and_headers_beside_it() -> None:
    limited = {
        "type": "error",
        "status_code": 429,
        "headers": {},
        "error": {"type": "usage_limit_reached", "message": "x"},
    }
    found = play(RESPONSES, client(CREATE), server(limited))
    assert facts(found, "outcome", "error", "error_type") == [("error_event", "x", "usage_limit_reached")]


# Gemini Live


def turn(**content: Any) -> Said:
    return server({"serverContent": content})


def parts(*given: dict[str, Any]) -> dict[str, Any]:
    return {"parts": list(given)}


ASK = {"clientContent": {"turnComplete": True}}


@pytest.mark.parametrize(
    "spelling", [{"client_content": {"turn_complete": True}}, {"client_content": {"turnComplete": True}}]
)
def test_the_python_sdks_spelling_asks_as_well(spelling: dict[str, Any]) -> None:
    found = play(LIVE, client(spelling), turn(modelTurn=parts({"text": "x"})), turn(turnComplete=True))
    assert facts(found, "t0_source", "text") == [("clientContent", "x")]


def test_content_that_is_not_complete_asks_for_nothing() -> None:
    found = play(LIVE, client({"clientContent": {"turns": []}}), client({"realtimeInput": {"audio": {"data": "AA"}}}))
    assert facts(found, "outcome") == []


def test_a_tool_is_run_within_one_turn() -> None:
    found = play(
        LIVE,
        client(ASK),
        server({"toolCall": {"functionCalls": [{"id": "1", "name": "roll", "args": {"n": 6}}]}}),
        client({"toolResponse": {"functionResponses": [{"id": "1", "response": {}}]}}),
        turn(modelTurn=parts({"text": "Six"})),
        turn(generationComplete=True),
        turn(turnComplete=True),
    )
    (said,) = found
    assert [(call["name"], call["arguments"]) for call in said["tool_calls"]] == [("roll", '{"n":6}')]
    assert (said["output_chunks"], said["text"], said["finish_reason"]) == (2, "Six", "generationComplete")


def test_the_reason_of_a_turns_end_comes_before_the_flags() -> None:
    found = play(
        LIVE,
        client(ASK),
        turn(modelTurn=parts({"text": "x"})),
        turn(generationComplete=True),
        turn(turnComplete=True, turnCompleteReason="NEED_MORE_INPUT"),
    )
    assert facts(found, "finish_reason", "outcome") == [("NEED_MORE_INPUT", "complete")]
    assert "finish_reason_repeated" not in found[0]["quirks"]


def test_a_reason_that_means_a_failure_is_an_error_as_without_a_socket() -> None:
    found = play(LIVE, client(ASK), turn(turnComplete=True, turnCompleteReason="MALFORMED_FUNCTION_CALL"))
    assert facts(found, "finish_reason", "outcome", "error") == [
        ("MALFORMED_FUNCTION_CALL", "error_event", "MALFORMED_FUNCTION_CALL")
    ]


def test_what_the_user_is_heard_to_say_is_no_answer() -> None:
    found = play(
        LIVE,
        turn(inputTranscription={"text": "hello"}),
        turn(outputTranscription={"text": "Hi"}),
        turn(turnComplete=True),
    )
    assert facts(found, "transcript", "t0_source", "output_chunks") == [("Hi", None, 1)]


def test_audio_tokens_are_told_apart() -> None:
    counts = {
        "promptTokenCount": 5,
        "responseTokenCount": 7,
        "totalTokenCount": 12,
        "responseTokensDetails": [{"modality": "AUDIO", "tokenCount": 6}, {"modality": "TEXT", "tokenCount": 1}],
    }
    found = play(LIVE, client(ASK), server({"serverContent": {"turnComplete": True}, "usageMetadata": counts}))
    assert found[0]["usage_audio"] == {"output": 6}


def test_the_project_of_a_vertex_model_is_no_part_of_its_name() -> None:
    path = "/ws/google.cloud.aiplatform.v1.LlmBidiService/BidiGenerateContent"
    name = "projects/p-secret/locations/us/publishers/google/models/gem-live"
    found = play(path, client({"setup": {"model": name}}), client(ASK), turn(turnComplete=True))
    assert found[0]["model"] == "models/gem-live"


def test_an_announced_end_is_counted() -> None:
    found = play(LIVE, server({"goAway": {"timeLeft": "10s"}}))
    assert found[0]["session"]["go_away"] == 1


# Whatever comes

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def _spoilt(value: Any, data: st.DataObject) -> Any:
    """A JSON value with one of its members replaced by anything, or without it."""
    if not isinstance(value, dict) or not value or data.draw(st.integers(0, 3)) == 0:
        return data.draw(VALUES)
    name = data.draw(st.sampled_from(sorted(value)))
    if data.draw(st.booleans()):
        return {**value, name: _spoilt(value[name], data)}
    return {key: member for key, member in value.items() if key != name}


@pytest.mark.parametrize("case", sorted(captures()))
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_no_message_makes_a_stage_fail(case: str, data: st.DataObject) -> None:
    records: list[Record] = []
    for record in records_of(captures()[case]):
        if not isinstance(record, Message) or record.size > 100_000:
            records.append(record)
            continue
        match data.draw(st.integers(0, 5)):
            case 0:
                continue
            case 1:
                records += [record, record]
            case 2:
                cut = record.data[: data.draw(st.integers(0, len(record.data)))]
                records.append(Message(1, record.at, cut, record.from_client, record.text, record.size))
            case 3:
                try:
                    spoilt = json.dumps(_spoilt(json.loads(record.data), data)).encode()
                except ValueError:
                    continue
                records.append(Message(1, record.at, spoilt, record.from_client, record.text, len(spoilt)))
            case _:
                records.append(record)
    analyzer = Analyzer(Settings())
    analyzer.receive(1, records)  # type: ignore[arg-type]  # all of them are records that an analyzer takes
    analyzer.stop()
    assert not list(analyzer.series.values(m.STAGE_FAILURES))
    assert analyzer.in_flight() == []


@given(
    value=st.dictionaries(st.text(max_size=5), VALUES, max_size=4),
    text=st.text(min_size=50, max_size=200),
    kept=st.floats(0.05, 0.95),
)
def test_a_text_that_breaks_off_in_its_long_string_is_mended(value: dict[str, Any], text: str, kept: float) -> None:
    whole = json.dumps({**value, "delta": text}, ensure_ascii=False).encode()
    string = json.dumps(text, ensure_ascii=False).encode()
    begin = whole.rindex(string) + 1
    cut = begin + int((len(string) - 2) * kept)
    mended = json.loads(mend(whole[:cut]))
    assert mended.keys() == {*value, "delta"}
    assert text.startswith(mended["delta"])
