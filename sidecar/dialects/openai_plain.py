"""The plain events of OpenAI's chat completions and completions: chunks that bring a piece of text or of reasoning."""

from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from sidecar.dialects.plain import Empty, Never, Plain

if TYPE_CHECKING:
    from sidecar.dialects.openai_chat import OpenAIChat


class _Text(msgspec.Struct, gc=False):
    content: str
    role: str | Empty = UNSET
    tool_calls: Empty = UNSET
    reasoning_content: Empty = UNSET
    reasoning: Empty = UNSET
    refusal: Empty = UNSET
    function_call: Empty = UNSET
    audio: Empty = UNSET
    images: Empty = UNSET
    reasoning_details: Empty = UNSET


class _Reasoning(msgspec.Struct, gc=False):
    content: Literal[""] | UnsetType | None = UNSET
    role: str | Empty = UNSET
    tool_calls: Empty = UNSET
    reasoning_content: str | UnsetType | None = UNSET
    reasoning: str | UnsetType | None = UNSET
    refusal: Empty = UNSET
    function_call: Empty = UNSET
    audio: Empty = UNSET
    images: Empty = UNSET
    reasoning_details: Empty = UNSET


class _Choice[Delta](msgspec.Struct, gc=False):
    index: Literal[0]
    finish_reason: None
    delta: Delta
    message: Never = UNSET
    usage: Never = UNSET
    error: Never = UNSET
    content_filter_offsets: Never = UNSET


class _Completion(msgspec.Struct, gc=False):
    index: Literal[0]
    finish_reason: None
    text: str
    delta: Never = UNSET
    message: Never = UNSET
    usage: Never = UNSET
    error: Never = UNSET
    content_filter_offsets: Never = UNSET


class _Chunk[Choice](msgspec.Struct, gc=False):
    id: str
    choices: tuple[Choice]
    object: Literal["chat.completion.chunk", "chat.completion", "text_completion", ""] | UnsetType | None = UNSET
    usage: UnsetType | None = UNSET
    type: Never = UNSET
    error: Never = UNSET
    x_groq: Never = UNSET
    timings: Never = UNSET
    prompt_progress: Never = UNSET
    prompt_filter_results: Never = UNSET
    prompt_annotations: Never = UNSET
    base_resp: Never = UNSET
    success: Never = UNSET


def _is_settled(dialect: "OpenAIChat", chunk: "_Chunk[Any]") -> bool:
    """Whether the chunk around a choice can show no habit that was not seen before."""
    return (
        dialect.habits.steady and chunk.id in dialect.habits.ids and (chunk.usage is UNSET or dialect.null_usages > 1)
    )


def _text(dialect: "OpenAIChat", chunk: "_Chunk[_Choice[_Text]]") -> str | None:
    delta = chunk.choices[0].delta
    if not _is_settled(dialect, chunk) or not (delta.role is UNSET or dialect.habits.may_have_role(delta.role)):
        return None
    return delta.content


def _reasoning(dialect: "OpenAIChat", chunk: "_Chunk[_Choice[_Reasoning]]") -> str | None:
    delta = chunk.choices[0].delta
    habits = dialect.habits
    if not _is_settled(dialect, chunk) or not (delta.role is UNSET or habits.may_have_role(delta.role)):
        return None
    if delta.content is not UNSET and _EMPTY[delta.content] not in habits.seen:
        return None
    one, other = delta.reasoning_content or None, delta.reasoning or None
    if one and not other and "reasoning_content_field" in habits.seen:
        return one
    return other if other and not one and "reasoning_field" in habits.seen else None


def _completion(dialect: "OpenAIChat", chunk: "_Chunk[_Completion]") -> str | None:
    return chunk.choices[0].text if _is_settled(dialect, chunk) else None


_EMPTY = {None: "null_content_delta", "": "empty_content_with_reasoning"}
"""The habit that a content beside reasoning is."""

CHAT = (
    Plain("text", _Chunk[_Choice[_Text]], _text),
    Plain("reasoning", _Chunk[_Choice[_Reasoning]], _reasoning),
)
COMPLETIONS = (Plain("text", _Chunk[_Completion], _completion),)
