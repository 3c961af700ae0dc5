"""The habits of chat chunks that the quirk registry names: what is odd about a chunk's shape, not what it says."""

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from sidecar.dialects.signals import Annotation, Signal

if TYPE_CHECKING:
    from sidecar.dialects.openai_chat import Choice, Chunk, Delta

STANDARD_FINISH = frozenset({"stop", "length", "tool_calls", "content_filter", "function_call"})
_IDS_KEPT = 4
_INDEXES_KEPT = 128


class ChatHabits:
    """What has to be remembered of a stream to name its habits; bounded."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._roles: dict[int, int] = {}
        self._finished: set[int] = set()
        self._output = False
        self._indexes: dict[int, int] = {}  # chunks per choice index

    def is_settled(self, event: "Chunk", choice: "Choice") -> bool:
        """Whether a plain content chunk can have no habit that was not seen before: same id, same choice, no extras."""
        return (
            event.id in self._ids
            and self._indexes.get(choice.index, 0) > 1
            and choice.index not in self._finished
            and self._output
            and event.timings is UNSET
            and event.x_groq is UNSET
            and event.prompt_progress is UNSET
            and event.base_resp is UNSET
            and event.prompt_filter_results is UNSET
            and choice.content_filter_offsets is UNSET
            and choice.usage is UNSET
            and choice.error is UNSET
            and choice.message is UNSET
        )

    def of_chunk(self, event: "Chunk") -> list[Annotation]:
        names: list[str] = []
        if event.choices is UNSET or event.choices is None:
            names.append("null_choices")
        elif not event.choices:
            names.append("empty_choices_usage_chunk" if isinstance(event.usage, dict) else "empty_choices_chunk")
        if event.prompt_filter_results is not UNSET or event.prompt_annotations is not UNSET:
            names.append("azure_prompt_filter_chunk")
        if event.prompt_progress is not UNSET and event.prompt_progress is not None:
            names.append("progress_chunk")
        if event.id == "":
            names.append("chunk_id_empty")
        elif isinstance(event.id, str) and event.id not in self._ids and len(self._ids) < _IDS_KEPT:
            self._ids.add(event.id)
            if len(self._ids) > 1:
                names.append("chunk_id_changes")
        return [Annotation(name) for name in names]

    def of_indexes(self, *, asked: int | None) -> list[Signal]:
        """At the end: several completions, or one whose index wanders (no index in two chunks, one asked for)."""
        if len(self._indexes) < 2:
            return []
        unstable = (asked is None or asked == 1) and max(self._indexes.values()) == 1
        return [Annotation("choice_index_unstable" if unstable else "multiple_choices")]

    def of_choice(self, event: "Chunk", choice: "Choice", index: int, *, has_output: bool) -> list[Annotation]:
        names: list[str] = []
        if index in self._indexes or len(self._indexes) < _INDEXES_KEPT:
            self._indexes[index] = self._indexes.get(index, 0) + 1
        finish = choice.finish_reason
        if choice.delta is UNSET:
            names.append("missing_delta")
        elif choice.delta is None:
            names.append("null_delta")
        else:
            self._of_delta(event, choice, choice.delta, index, names, has_output=has_output)
            if choice.message is not UNSET:
                names.append("message_beside_delta")
        if choice.content_filter_offsets is not UNSET:
            names.append("azure_async_filter_chunk")
        if index in self._finished:
            names.append("chunk_after_finish")
        self._of_finish(finish, index, names)
        self._output = self._output or has_output
        return [Annotation(name) for name in names]

    def _of_finish(self, finish: Any, index: int, names: list[str]) -> None:
        if finish is UNSET:
            names.append("finish_reason_key_absent")
        elif finish == "":
            names.append("finish_reason_empty_string")
        elif finish == "null":
            names.append("finish_reason_string_null")
        elif finish is not None:
            self._finished.add(index)
            if finish not in STANDARD_FINISH:
                names.append("finish_reason_nonstandard")

    def _of_delta(
        self, event: "Chunk", choice: "Choice", delta: "Delta", index: int, names: list[str], *, has_output: bool
    ) -> None:
        reasoning = [value for value in (delta.reasoning_content, delta.reasoning) if isinstance(value, str) and value]
        if delta.role == "":
            names.append("role_empty_string")
        elif isinstance(delta.role, str):
            self._roles[index] = self._roles.get(index, 0) + 1
            if self._roles[index] > 1:
                names.append("role_repeated")
            if not (has_output or self._output or delta.tool_calls or _finishes(choice)) and (
                event.prompt_progress is UNSET or event.prompt_progress is None
            ):
                names.append("role_prelude_chunk")
        if delta.content is None:
            names.append("null_content_delta")
        elif delta.content == "":
            if reasoning or _has_details(delta):
                names.append("empty_content_with_reasoning")
            elif not _finishes(choice) and _is_empty(delta):
                names.append("empty_content_delta")
        elif delta.content is not UNSET and not isinstance(delta.content, str):
            names.append("content_not_string")
        if isinstance(delta.reasoning_content, str) and delta.reasoning_content:
            names.append("reasoning_content_field")
        if isinstance(delta.reasoning, str) and delta.reasoning:
            names.append("reasoning_field")
        if len(reasoning) > 1 or (reasoning and _has_details(delta)):
            names.append("reasoning_duplicated")
        if isinstance(delta.refusal, str) and delta.refusal:
            names.append("refusal_delta")
        if delta.tool_calls == []:
            names.append("empty_tool_calls_array")


def _finishes(choice: "Choice") -> bool:
    return choice.finish_reason not in (UNSET, None, "", "null")


def _has_details(delta: "Delta") -> bool:
    details = delta.reasoning_details
    return isinstance(details, list) and any(
        isinstance(item, dict) and (item.get("text") or item.get("summary")) for item in details
    )


def _is_empty(delta: "Delta") -> bool:
    """Whether every member but the content is absent, null or empty, the role included."""
    return not any(
        value is not UNSET and value
        for value in (
            delta.role,
            delta.refusal,
            delta.reasoning_content,
            delta.reasoning,
            delta.reasoning_details,
            delta.tool_calls,
            delta.function_call,
            delta.audio,
            delta.images,
        )
    )
