"""Captured content of an answer, in the JSON form of OpenTelemetry's `gen_ai.output.messages`."""

import contextlib
import json
from typing import Any

from sidecar.stream.summary import Summary, ToolCallSummary

ARGUMENTS_KEPT = 64 * 1024
"""Characters of arguments of one tool call; longer ones are cut and no JSON any more."""


def output_messages(summary: Summary) -> str | None:
    """What the model said, as one message: reasoning, text, tool calls; None where nothing was kept.

    JSON in ASCII, so that no half of a surrogate pair can spoil a batch. Of several choices, the first one's text.
    """
    parts: list[dict[str, Any]] = []
    if summary.reasoning_text:
        parts.append({"type": "reasoning", "content": summary.reasoning_text})
    if summary.text:
        parts.append({"type": "text", "content": summary.text})
    parts += map(_tool_call, summary.tool_calls)
    if not parts:
        return None
    message: dict[str, Any] = {"role": "assistant", "parts": parts}
    if summary.finish_reason is not None:
        message["finish_reason"] = summary.finish_reason
    return json.dumps([message], separators=(",", ":"))


def truncated(summary: Summary) -> bool | None:
    """True where content was cut; None where all of it is there."""
    request = summary.request_content
    cut = (
        (request is not None and request.truncated)
        or len(summary.text) < summary.text_chars
        or any(len(call.arguments[:ARGUMENTS_KEPT]) < call.arguments_chars for call in summary.tool_calls)
    )
    return cut or None


def _tool_call(call: ToolCallSummary) -> dict[str, Any]:
    arguments: Any = call.arguments[:ARGUMENTS_KEPT]
    with contextlib.suppress(ValueError, RecursionError):  # as they came, where they are no JSON
        arguments = json.loads(arguments)
    part: dict[str, Any] = {"type": "tool_call", "name": call.name, "arguments": arguments}
    return part | ({"id": call.id} if call.id else {})
