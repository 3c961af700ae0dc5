"""Random well-formed streams of every dialect: read as they were meant, whatever the cut, and nothing to complain of."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.quirks.quirk import Severity
from sidecar.quirks.registry import BY_ID
from tests.budget import budget
from tests.wellformed import openai, others, plain
from tests.wellformed.wire import Written, played, said

DIALECTS: dict[str, st.SearchStrategy[Written]] = {
    "openai.chat": openai.chat(),
    "openai.completions": openai.completions(),
    "openai.responses": openai.responses(),
    "anthropic.messages": others.anthropic(),
    "gemini.generate": others.gemini(),
    "bedrock.converse": others.converse(),
    "bedrock.invoke": others.invoke(),
    "ollama": others.ollama(),
    "cohere.v2": others.cohere(),
    "dashscope.native": plain.dashscope(),
    "cloudflare.workers_ai": plain.workers_ai(),
    "tgi.generate": plain.tgi(),
    "llamacpp.completion": plain.llamacpp(),
    "openai.assistants": plain.assistants(),
    "openai media": plain.media(),
}


@pytest.mark.parametrize("dialect", DIALECTS)
@budget(25)
@given(data=st.data())
def test_a_well_formed_stream_is_read_as_it_was_meant(dialect: str, data: st.DataObject) -> None:
    written = data.draw(DIALECTS[dialect])
    found = said(data.draw(played(written)))
    assert [quirk for quirk in found["quirks"] if BY_ID[quirk].severity is not Severity.INFO] == []
    assert _told(found) == {
        "dialect": dialect if "." in dialect else found["dialect"],
        "outcome": "complete",
        "terminator": written.terminator,
        "finish_reason": written.finish,
        "text": written.text,
        "reasoning_text": written.reasoning,
        "tool_calls": list(written.calls),
        "usage": written.usage,
        "error": None,
    }
    assert all(call["arguments_valid"] for call in found["tool_calls"])


def _told(found: dict[str, Any]) -> dict[str, Any]:
    told = {name: found[name] for name in ("dialect", "outcome", "terminator", "finish_reason", "text", "error")}
    usage = {name: count for name, count in (found["usage"] or {}).items() if name != "source" and count is not None}
    calls = [(call["name"], call["arguments"]) for call in found["tool_calls"]]
    return told | {"usage": usage or None, "tool_calls": calls, "reasoning_text": found["reasoning_text"]}
