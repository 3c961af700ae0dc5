"""Gemini: what the corpus does not show."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sidecar.dialects.gemini import GeminiGenerate, signs
from sidecar.dialects.gemini_arguments import PathWriter
from sidecar.framing.frame import Frame
from sidecar.stream.stream import Stream
from tests.dialects.exchanges import JSON, answer, sse
from tests.dialects.reading import REQUEST, calls_of, stream_of, whole_of


def read(*events: dict[str, Any]) -> Stream:
    return stream_of(
        GeminiGenerate(REQUEST), *(Frame(json.dumps(event).encode(), at) for at, event in enumerate(events, 1))
    )


def parts(*items: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": list(items), "role": "model"}, **members}]}


def call(**members: Any) -> dict[str, Any]:
    return parts({"functionCall": members})


def by_path(path: str, *, more: bool = True, goes_on: bool = False, **value: Any) -> dict[str, Any]:
    arg = {"jsonPath": path, **value} | ({"willContinue": True} if goes_on else {})
    return call(partialArgs=[arg], **({"willContinue": True} if more else {}))


def test_arguments_by_path_are_put_together() -> None:
    stream = read(
        call(name="light", id="f1", willContinue=True),
        by_path("$.level", numberValue=50),
        by_path("$.place.name", stringValue='New "', goes_on=True),
        by_path("$.place.name", stringValue="Delhi"),
        by_path("$.hours[0].from", numberValue=0.5),
        by_path("$.hours[1].from", nullValue="NULL_VALUE"),
        call(),
        call(name="now", args={}),
        parts(finishReason="STOP"),
    )
    assert calls_of(stream) == [
        ("light", '{"level":50,"place":{"name":"New \\"Delhi"},"hours":[{"from":0.5},{"from":null}]}'),
        ("now", "{}"),
    ]
    assert stream.output_chunks == 7  # the empty part that closes the call is none
    assert "tool_call_fragment_nameless" not in stream.notes


def test_last_value_without_will_continue_closes_the_call() -> None:
    stream = read(call(name="f", willContinue=True), by_path("$.a[0]", numberValue=1, more=False))
    assert calls_of(stream) == [("f", '{"a":[1]}')]


def test_call_that_seemed_closed_goes_on() -> None:
    stream = read(
        call(name="f"),
        by_path("$.a", numberValue=1, more=False),
        by_path("$.b", numberValue=2),
        by_path("$.c", numberValue=3),
    )
    assert calls_of(stream) == [("f", '{"a":1,"b":2,"c":3')]
    stream = read(call(name="f"), by_path("$.a", numberValue=1, more=False), by_path("$.b", numberValue=2), call())
    assert calls_of(stream) == [("f", '{"a":1,"b":2}')]


def test_arguments_that_are_cut_off_are_no_json() -> None:
    stream = read(call(name="f", willContinue=True), by_path("$.a", stringValue="x", goes_on=True))
    assert calls_of(stream) == [("f", '{"a":"x')]
    assert "tool_arguments_invalid_json" in stream.tools.notes


def test_code_assist_envelope() -> None:
    stream = read({"response": parts({"text": "Red"}, finishReason="STOP"), "traceId": "t"})
    assert (stream.text.text(), stream.finish_reason()) == ("Red", "STOP")


def test_candidate_after_its_finish() -> None:
    stream = read(parts({"text": "Red"}, finishReason="STOP"), parts({"text": ""}))
    assert "chunk_after_finish" in stream.notes


def test_whole_answer() -> None:
    body = parts(
        {"text": "Hm", "thought": True},
        {"text": "Red"},
        {"functionCall": {"name": "f", "args": {"a": 1}}},
        finishReason="STOP",
    )
    body["usageMetadata"] = {"promptTokenCount": 1, "cachedContentTokenCount": 1, "candidatesTokenCount": 2}
    stream = whole_of(GeminiGenerate(REQUEST), body)
    assert (stream.text.text(), stream.reasoning.text(), calls_of(stream)) == ("Red", "Hm", [("f", '{"a":1}')])
    assert stream.usage.merged() == {"input": 1, "output": 2, "cache_read": 1}


_TREES = st.dictionaries(
    st.sampled_from(["a", "b", "c d", "é"]),
    st.recursive(
        st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, min_size=1, max_size=3)
            | st.dictionaries(st.sampled_from(["x", "y", "z"]), inner, min_size=1)
        ),
        max_leaves=6,
    ),
    min_size=1,
)


def leaves(value: Any, path: str = "$") -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [leaf for key, inner in value.items() for leaf in leaves(inner, f"{path}['{key}']")]
    if isinstance(value, list):
        return [leaf for index, inner in enumerate(value) for leaf in leaves(inner, f"{path}[{index}]")]
    return [(path, value)]


@given(_TREES)
def test_values_by_path_give_the_object_again(tree: dict[str, Any]) -> None:
    writer = PathWriter()
    for path, value in leaves(tree):
        kind = "stringValue" if isinstance(value, str) else "boolValue" if isinstance(value, bool) else "numberValue"
        writer.add({"jsonPath": path, kind: value})
        writer.take()
    assert json.loads(writer.so_far(closed=True)) == tree


@given(paths=st.lists(st.text("$.ab[]01'\"", max_size=8), max_size=6))
def test_paths_of_any_kind_do_not_raise(paths: list[str]) -> None:
    writer = PathWriter()
    for path in paths:
        writer.add({"jsonPath": path, "stringValue": "x", "willContinue": True})
    writer.take()
    text = writer.so_far(closed=True)
    assert text == "" or json.loads(text) is not None


_NAMES = [
    "text",
    "thought",
    "functionCall",
    "name",
    "args",
    "partialArgs",
    "jsonPath",
    "id",
    "code",
    "data",
    "blockReason",
]
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 9) | st.sampled_from(["", "x", "$.a", "STOP"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(_NAMES), inner, max_size=3),
    max_leaves=8,
)
_CANDIDATE = st.dictionaries(st.sampled_from(["index", "content", "finishReason"]), _VALUES, max_size=3)


@given(
    st.dictionaries(
        st.sampled_from(["candidates", "promptFeedback", "usageMetadata", "modelVersion", "error", "response"]),
        _VALUES | st.lists(_CANDIDATE, max_size=2),
        max_size=4,
    )
)
def test_surprising_types_do_not_raise(event: dict[str, Any]) -> None:
    assert read(event, event).output_chunks <= 2
    assert whole_of(GeminiGenerate(REQUEST), event).output_chunks == 0
    assert isinstance(signs(event, ""), bool)


def test_array_is_ended_by_its_bracket_alone() -> None:
    target = "/v1beta/models/m:streamGenerateContent"
    reads = ["[", json.dumps(parts({"text": "Red"})), ",\r\n", json.dumps(parts(finishReason="STOP")), "\n]\n"]
    ended = answer(target, reads, request={}, content_type=JSON)
    assert (ended["outcome"], ended["terminator"], ended["milestones_ms"]["terminator"]) == (
        "complete",
        "array_close",
        100,
    )
    cut = answer(target, reads[:-1], request={}, content_type=JSON)
    assert (cut["outcome"], cut["terminator"]) == ("no_terminator", None)
    assert "terminator_missing" in cut["quirks"]
    over_sse = answer(f"{target}?alt=sse", sse(parts({"text": "Red"}, finishReason="STOP"), named=False), request={})
    assert over_sse["outcome"] == "complete"
