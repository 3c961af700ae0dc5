"""Whatever types the members of an event have: a dialect says something or nothing, and never raises."""

import json
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.dialects import (
    cloudflare,
    cohere,
    dashscope,
    embeddings,
    llamacpp,
    ollama,
    openai_assistants,
    openai_media,
    openai_responses,
    table,
    tgi,
)
from sidecar.dialects.request import Head, Request
from sidecar.dialects.signals import Signal
from sidecar.framing.frame import Frame
from sidecar.stream.stream import Stream

SHAPES: dict[str, Any] = {
    "openai.responses": openai_responses.Event,
    "openai.assistants": openai_assistants.Event,
    "openai.speech": openai_media.Event,
    "openai.transcriptions": openai_media.Event,
    "openai.images": openai_media.Event,
    "openai.embeddings": embeddings.Body,
    "cohere.rerank": embeddings.Body,
    "ollama.chat": ollama.Line,
    "ollama.generate": ollama.Line,
    "cohere.v2": cohere.Event,
    "dashscope.native": dashscope.Event,
    "cloudflare.workers_ai": cloudflare.Event,
    "tgi.generate": tgi.Event,
    "llamacpp.completion": llamacpp.Event,
}
NESTED = [
    "action",
    "arguments",
    "choices",
    "code",
    "content",
    "details",
    "error",
    "finish_reason",
    "function",
    "generated_tokens",
    "id",
    "incomplete_details",
    "index",
    "input",
    "input_tokens",
    "item",
    "last_error",
    "message",
    "name",
    "output",
    "output_tokens",
    "reason",
    "refusal",
    "status",
    "step_details",
    "summary",
    "text",
    "thinking",
    "tokens",
    "tool_calls",
    "tool_plan",
    "type",
    "usage",
    "value",
]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "a", "{", "null"])
)
KINDS = ["message", "reasoning", "function_call", "output_text", "computer_call", "shell_call", "thread.run", "error"]
VALUES = st.recursive(
    SCALARS | st.sampled_from(KINDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NESTED), inner, max_size=4),
    max_leaves=12,
)


def events(name: str) -> st.SearchStrategy[dict[str, Any]]:
    dialect: Any = next(row.dialect for row in table.DIALECTS if row.name == name)
    members = st.dictionaries(st.sampled_from(SHAPES[name].__struct_fields__), VALUES, max_size=6)
    types = st.sampled_from(sorted(dialect.known) or ["", "error"])
    return st.builds(lambda event, kind: event | {"type": kind}, members, types) | members


@pytest.mark.parametrize("name", SHAPES)
def test_surprising_types_never_raise(name: str) -> None:
    row = next(row for row in table.DIALECTS if row.name == name)

    @settings(max_examples=150, deadline=None)
    @given(st.lists(events(name), min_size=1, max_size=5), st.sampled_from(["", "error", "thread.run.failed"]))
    def check(found: list[dict[str, Any]], label: str) -> None:
        dialect = row.dialect(Request(Head("POST", "host", 443, "/")))
        stream = Stream()
        for event in found:
            frame = Frame(json.dumps(event).encode(), 1, event=label)
            for signals in (dialect.interpret(frame), dialect.interpret_whole(frame)):
                assert all(isinstance(signal, get_args(Signal)) for signal in signals)
                stream.take(signals, 1)
            table.confirm(row, event, label)
        stream.take_habits(dialect.conclude())
        stream.tools.note_end(ended_well=True)
        assert stream.output_chunks <= 2 * len(found)

    check()
