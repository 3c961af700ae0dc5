"""Captured requests in the form of the conventions: every dialect's shapes, bounded, never a crash."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.dialects.request_content import TEXTS_KEPT, read_content

TEXT = {"type": "text", "content": "hi"}
CALL = {"type": "tool_call", "id": "c1", "name": "f", "arguments": {"a": 1}}
ANSWER = {"type": "tool_call_response", "id": "c1", "response": "sunny"}
USER = {"role": "user", "parts": [TEXT]}


def read(body: Any, text_chars: int = 1000) -> tuple[Any, Any, Any]:
    content = read_content(json.dumps(body).encode(), text_chars)
    assert content is not None
    return tuple(json.loads(text) if text else None for text in (content.messages, content.system, content.tools))  # type: ignore[return-value]  # three of them


@pytest.mark.parametrize(
    ("body", "messages"),
    [
        ({"messages": [{"role": "user", "content": "hi"}]}, [USER]),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]}, [USER]),
        ({"messages": [{"role": "user", "content": [{"text": "hi"}]}]}, [USER]),  # Bedrock Converse
        ({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}, [USER]),
        ({"contents": [{"role": "model", "parts": [{"text": "hi"}]}]}, [{"role": "assistant", "parts": [TEXT]}]),
        ({"input": "hi"}, [USER]),
        ({"input": ["hi", "hi"]}, [USER, USER]),
        ({"input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}]}, [USER]),
        ({"input": {"messages": [{"role": "user", "content": "hi"}]}}, [USER]),  # DashScope
        ({"prompt": "hi"}, [USER]),
        ({"prompt": ["hi"]}, [USER]),
        ({"inputs": "hi"}, [USER]),
        ({"inputText": "hi"}, [USER]),
        ({"message": "hi"}, [USER]),
        ({"messages": []}, None),
        ({"messages": [None, 3, "hi"]}, [USER]),
        ({"messages": [{"role": "system", "content": "hi"}]}, [{"role": "system", "parts": [TEXT]}]),
        (
            {"messages": [{"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
            ]}]},
            [{"role": "assistant", "parts": [{"type": "reasoning", "content": "hm"}, CALL]}],
        ),
        (
            {"messages": [{"role": "tool", "tool_call_id": "c1", "content": "sunny"}]},
            [{"role": "tool", "parts": [ANSWER]}],
        ),
        (
            {"messages": [{"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm"}, {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}
            ]}]},
            [{"role": "assistant", "parts": [{"type": "reasoning", "content": "hm"}, CALL]}],
        ),
        (
            {"messages": [{"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "sunny"}
            ]}]},
            [{"role": "user", "parts": [ANSWER]}],
        ),
        (
            {"messages": [{"role": "assistant", "content": [
                {"toolUse": {"toolUseId": "c1", "name": "f", "input": {"a": 1}}}
            ]}]},
            [{"role": "assistant", "parts": [CALL]}],
        ),
        (
            {"contents": [{"role": "function", "parts": [{"functionResponse": {"name": "f", "response": {"b": 2}}}]}]},
            [{"role": "tool", "parts": [{"type": "tool_call_response", "response": {"b": 2}}]}],
        ),
        (
            {"input": [
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
                {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a": 1}'},
                {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
            ]},
            [
                {"role": "assistant", "parts": [{"type": "reasoning", "content": "hm"}]},
                {"role": "assistant", "parts": [CALL]},
                {"role": "tool", "parts": [ANSWER]},
            ],
        ),
        (
            {"messages": [{"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}, {"inlineData": {"data": "AAAA"}}
            ]}]},
            [{"role": "user", "parts": [{"type": "image_url"}, {"type": "inlineData"}]}],
        ),
    ],
)  # fmt: skip
def test_messages_of_every_dialect(body: Any, messages: Any) -> None:
    assert read(body)[0] == messages


@pytest.mark.parametrize(
    "body",
    [
        {"system": "hi"},
        {"system": [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}]},
        {"instructions": "hi"},
        {"systemInstruction": {"parts": [{"text": "hi"}]}},
        {"system_instruction": {"parts": {"text": "hi"}}},
    ],
)
def test_instructions_beside_the_messages(body: Any) -> None:
    assert read(body)[1] == [TEXT]


@pytest.mark.parametrize(
    ("tools", "found"),
    [
        ({"tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"x": 1}}}]}, "function"),
        ({"tools": [{"type": "function", "name": "f", "description": "d", "parameters": {"x": 1}}]}, "function"),
        ({"tools": [{"name": "f", "description": "d", "input_schema": {"x": 1}}]}, "function"),
        ({"tools": [{"functionDeclarations": [{"name": "f", "description": "d", "parameters": {"x": 1}}]}]}, "function"),
        ({"toolConfig": {"tools": [{"toolSpec": {"name": "f", "description": "d", "inputSchema": {"json": {"x": 1}}}}]}}, "function"),
    ],
)  # fmt: skip
def test_tools_of_every_dialect(tools: Any, found: str) -> None:
    assert read(tools)[2] == [{"type": found, "name": "f", "description": "d", "parameters": {"x": 1}}]


def test_a_tool_of_the_providers_keeps_its_type() -> None:
    assert read({"tools": [{"type": "web_search"}]})[2] == [{"type": "web_search", "name": "web_search"}]


def test_texts_are_cut_and_the_latest_messages_kept() -> None:
    asked = [{"role": "user", "content": f"{number} " + "x" * 500} for number in range(200)]
    content = read_content(json.dumps({"messages": asked}).encode(), 100)
    assert content is not None
    assert content.truncated
    messages = json.loads(content.messages)
    texts = [message["parts"][0]["content"] for message in messages]
    assert len(texts) == TEXTS_KEPT
    assert [text.split()[0] for text in texts] == [str(number) for number in range(200 - TEXTS_KEPT, 200)]
    assert all(len(text) == 100 for text in texts)


def test_a_long_schema_is_left_out_and_long_arguments_are_cut() -> None:
    body = {
        "tools": [{"name": "f", "input_schema": {"x": "y" * 500}}],
        "messages": [{"role": "user", "content": [{"type": "tool_use", "name": "f", "input": {"a": "b" * 500}}]}],
    }
    messages, _, tools = read(body, 100)
    assert tools == [{"type": "function", "name": "f"}]
    assert messages[0]["parts"][0]["arguments"] == '{"a": "' + "b" * 93


@pytest.mark.parametrize("body", [b"", b"[]", b"nope", b'{"messages": [', b"[" * 100_000, b"\xff\xfe", b"3"])
def test_what_is_no_json_object_has_no_content(body: bytes) -> None:
    assert read_content(body, 100) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.sampled_from(["role", "content", "parts", "text", "type", "tool_calls", "function", "name", "arguments", "toolUse", "thinking"]), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(
    st.dictionaries(st.sampled_from(["messages", "contents", "input", "prompt", "system", "tools", "toolConfig"]), JSON)
)
def test_whatever_stands_there_what_comes_out_has_the_form(body: Any) -> None:
    messages, system, tools = read(body, 20)
    for message in messages or []:
        assert isinstance(message["role"], str)
        assert all(isinstance(part["type"], str) for part in message["parts"])
    assert all(isinstance(part["type"], str) for part in system or [])
    assert all(isinstance(tool["name"], str) and isinstance(tool["type"], str) for tool in tools or [])
