"""Which dialect an exchange speaks: one literal ordered table, by the request first, then by the first event."""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from sidecar.dialects.base import Dialect
from sidecar.dialects.openai_chat import OpenAIChat
from sidecar.dialects.openai_completions import OpenAICompletions
from sidecar.dialects.request import Head, Request
from sidecar.dialects.unknown import Unknown

type Event = dict[str, Any]


class Row(msgspec.Struct, frozen=True):
    """One dialect: how its requests look, and how its events do."""

    dialect: Callable[[Request], Dialect]
    name: str
    operation: str
    """`gen_ai.operation.name` of OpenTelemetry's conventions."""
    path: str | None
    """Regular expression that is searched in the request's path."""
    signs: Callable[[Event, str], bool] | None = None
    """Whether a decoded event (with its SSE event name) can only be of this dialect."""
    streams_by_default: bool = False
    """Whether a request that does not mention streaming gets a stream (Ollama)."""
    stream_verdict: bool = True
    """Whether answers are judged as generation; embeddings and the like are only timed."""
    when: Callable[[Head], bool] | None = None
    """A further condition on the request head."""


def _first_choice(event: Event) -> Event:
    choices = event.get("choices")
    return choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}


def _is_chat(event: Event, name: str) -> bool:
    kind = event.get("object")
    named = isinstance(kind, str) and kind.startswith("chat.completion") and "choices" in event
    return named or bool({"delta", "message"} & _first_choice(event).keys())


def _is_completion(event: Event, name: str) -> bool:
    choice = _first_choice(event)
    return event.get("object") == "text_completion" or ("text" in choice and not {"delta", "message"} & choice.keys())


DIALECTS: tuple[Row, ...] = (
    Row(OpenAIChat, "openai.chat", "chat", r"/chat/completions/?$", _is_chat),
    Row(OpenAICompletions, "openai.completions", "text_completion", r"(?<!chat)/completions/?$", _is_completion),
)
_PATHS = tuple((re.compile(row.path), row) for row in DIALECTS if row.path is not None)
UNKNOWN = Row(Unknown, "unknown", "unknown", None)


def pick(head: Head) -> Row:
    """The dialect that a request asks for by its target; UNKNOWN where none is known to live there."""
    for pattern, row in _PATHS:
        if pattern.search(head.path) and (row.when is None or row.when(head)):
            return row
    return UNKNOWN


def confirm(row: Row, event: Any, name: str) -> tuple[Row, bool]:
    """The dialect as an event shows it, and whether the event settles it.

    The picked dialect stays wherever the event could be its own.
    """
    if not isinstance(event, dict):
        return row, False
    if row.signs is not None and row.signs(event, name):
        return row, True
    for other in DIALECTS:
        if other is not row and other.signs is not None and other.signs(event, name):
            return other, True
    return row, False
