"""What a request asks for, as its body and target say it."""

import json

import pytest

from sidecar.dialects.request import Head, read_request


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, None),
        ({"response_format": {"type": "text"}}, "text"),
        ({"response_format": {"type": "json_object"}}, "json"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}}}, "json"),
        ({"response_format": "verbose_json"}, None),
        ({"response_format": "json"}, "json"),
        ({"text": {"format": {"type": "json_schema", "name": "x"}}}, "json"),
        ({"text": {"verbosity": "low"}}, None),
        ({"text": "what is to be spoken"}, None),
        ({"format": "json"}, "json"),
        ({"format": {"type": "object", "properties": {}}}, "json"),
        ({"format": ""}, None),
        ({"modalities": ["text", "audio"]}, "speech"),
        ({"modalities": ["text"], "response_format": {"type": "text"}}, "text"),
        ({"generationConfig": {"responseMimeType": "application/json"}}, "json"),
        ({"generationConfig": {"responseModalities": ["TEXT", "IMAGE"]}}, "image"),
        ({"generationConfig": 5, "modalities": [5], "format": [], "text": {"format": []}}, None),
    ],
)
def test_output_type(body: dict[str, object], expected: str | None) -> None:
    head = Head.of("POST", "host", 443, "/v1/x", {})
    assert read_request(head, json.dumps(body).encode()).output_type == expected


@pytest.mark.parametrize(
    ("body", "target", "expected"),
    [
        ({}, "/v1/responses", None),
        ({"conversation": "conv_1"}, "/v1/responses", "conv_1"),
        ({"conversation": {"id": "conv_2"}}, "/v1/responses", "conv_2"),
        ({"conversation": {"id": 7}}, "/v1/responses", None),
        ({"conversation_id": "c"}, "/v1/chat", "c"),
        ({"conversation_id": ""}, "/v1/chat", None),
        ({}, "/v1/threads/thread%5f1/runs?stream=true", "thread_1"),
        ({}, "/v1/threads/runs", None),
    ],
)
def test_conversation_id(body: dict[str, object], target: str, expected: str | None) -> None:
    head = Head.of("POST", "host", 443, target, {})
    assert read_request(head, json.dumps(body).encode()).conversation_id == expected
