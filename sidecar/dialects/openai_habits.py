"""The habits of chat chunks that the quirk registry names: what is odd about a chunk's shape, not what it says."""

import json
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from sidecar.dialects.openai_usage import states_usage
from sidecar.dialects.signals import Annotation, Signal

if TYPE_CHECKING:
    from sidecar.dialects.openai_chat import Choice, Chunk, Delta
    from sidecar.framing.frame import Frame

STANDARD_FINISH = frozenset({"stop", "length", "tool_calls", "content_filter", "function_call"})
_EMPTY: tuple[Any, ...] = (None, "", [], {})
_IDS_KEPT = 4
_NONE: frozenset[Any] = frozenset()  # shared: each empty set of its own would take 216 bytes of a stream in flight
_INDEXES_KEPT = 128


class ChatHabits:
    """What has to be remembered of a stream to name its habits; bounded."""

    __slots__ = ("_empty_content", "_finished", "_indexes", "_output", "_roles", "_went_on", "ids", "seen", "steady")

    def __init__(self) -> None:
        self.ids: tuple[str, ...] = ()
        self._roles: dict[int, int] = {}
        self._finished: frozenset[int] = _NONE
        self._output = False
        self._indexes: dict[int, int] = {}  # chunks per choice index
        self._went_on = False  # a choice had finished and a chunk of another came
        self._empty_content = False
        self.seen: frozenset[str] = _NONE
        """Habits of a choice that were named, by their ids."""
        self.steady = False
        """Whether one more chunk of choice 0 is no news."""

    def may_have_role(self, role: Any) -> bool:
        """Whether a role in a chunk of choice 0 that brings output is no news."""
        return role is None or (bool(role) and "role_repeated" in self.seen and 0 in self._roles)

    def is_settled(self, event: "Chunk", choice: "Choice") -> bool:
        """Whether a plain content chunk can have no habit that was not seen before: same id, same choice, no extras."""
        return (
            event.id.__class__ is str
            and event.id in self.ids
            and choice.index.__class__ is int
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
            names.append("empty_choices_usage_chunk" if states_usage(event.usage) else "empty_choices_chunk")
        if _given(event.prompt_filter_results) or _given(event.prompt_annotations):
            names.append("azure_prompt_filter_chunk")
        if _given(event.prompt_progress):
            names.append("progress_chunk")
        if event.id == "":
            names.append("chunk_id_empty")
        elif isinstance(event.id, str) and event.id not in self.ids and len(self.ids) < _IDS_KEPT:
            self.ids += (event.id,)
            if len(self.ids) > 1:
                names.append("chunk_id_changes")
        return [Annotation(name) for name in names]

    def of_indexes(self, *, asked: int | None) -> list[Signal]:
        """At the end: several completions, or one whose index wanders (no index in two chunks, one asked for).

        The chunks of the latter are then read as those of one choice.
        """
        if len(self._indexes) < 2:
            return []
        if (asked is not None and asked != 1) or max(self._indexes.values()) > 1:
            return [Annotation("multiple_choices")]
        names = ["choice_index_unstable"]
        if sum(self._roles.values()) > 1:
            names.append("role_repeated")
        if len(self._finished) > 1:
            names.append("finish_reason_repeated")
        if self._went_on:
            names.append("chunk_after_finish")
        return [Annotation(name) for name in names]

    def of_choice(
        self, event: "Chunk", choice: "Choice", index: int, frame: "Frame", *, has_output: bool
    ) -> list[Annotation]:
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
            if _given(choice.message):
                names.append("message_beside_delta")
            if "empty_content_delta" in names and not self._is_empty(event, choice, frame):
                names.remove("empty_content_delta")
        if _given(choice.content_filter_offsets):
            names.append("azure_async_filter_chunk")
        if index in self._finished:
            names.append("chunk_after_finish")
        self._went_on = self._went_on or bool(self._finished)
        self._of_finish(finish, index, names)
        self._output = self._output or has_output
        self.steady = self._output and self._indexes.get(0, 0) > 1
        if names:
            self.seen |= set(names)
        return [Annotation(name) for name in names]

    def _of_finish(self, finish: Any, index: int, names: list[str]) -> None:
        if finish is UNSET:
            names.append("finish_reason_key_absent")
        elif finish == "":
            names.append("finish_reason_empty_string")
        elif finish == "null":
            names.append("finish_reason_string_null")
        elif finish is not None:
            if len(self._finished) < _INDEXES_KEPT:
                self._finished |= {index}
            if not isinstance(finish, str) or finish not in STANDARD_FINISH:
                names.append("finish_reason_nonstandard")

    def _is_empty(self, event: "Chunk", choice: "Choice", frame: "Frame") -> bool:
        """Whether members of the delta that nobody reads are empty, too. Looked up until one delta was empty."""
        if not self._empty_content:
            position = next(number for number, one in enumerate(event.choices or ()) if one is choice)
            members = json.loads((frame.data or b"").decode("utf-8", "replace"))["choices"][position].get("delta") or {}
            self._empty_content = not any(value not in _EMPTY for name, value in members.items())
        return self._empty_content

    def _of_delta(
        self, event: "Chunk", choice: "Choice", delta: "Delta", index: int, names: list[str], *, has_output: bool
    ) -> None:
        reasoning = [value for value in (delta.reasoning_content, delta.reasoning) if isinstance(value, str) and value]
        if delta.role == "":
            names.append("role_empty_string")
        elif isinstance(delta.role, str):
            if index in self._roles:
                names.append("role_repeated")
            if index in self._roles or len(self._roles) < _INDEXES_KEPT:
                self._roles[index] = self._roles.get(index, 0) + 1
            busy = has_output or self._output or delta.tool_calls or _finishes(choice)
            if not busy and not _given(event.prompt_progress):
                names.append("role_prelude_chunk")
        if delta.content is None:
            names.append("null_content_delta")
        elif delta.content == "":
            if reasoning or details_of(delta):
                names.append("empty_content_with_reasoning")
            elif not _finishes(choice) and _is_empty(delta):
                names.append("empty_content_delta")
        elif delta.content is not UNSET and not isinstance(delta.content, str):
            names.append("content_not_string")
        if isinstance(delta.reasoning_content, str) and delta.reasoning_content:
            names.append("reasoning_content_field")
        if isinstance(delta.reasoning, str) and delta.reasoning:
            names.append("reasoning_field")
        if reasoning and (reasoning[1:] == reasoning[:1] or details_of(delta) in reasoning):
            names.append("reasoning_duplicated")
        if isinstance(delta.refusal, str) and delta.refusal:
            names.append("refusal_delta")
        if delta.tool_calls == []:
            names.append("empty_tool_calls_array")


def _finishes(choice: "Choice") -> bool:
    return choice.finish_reason not in (UNSET, None, "", "null")


def _given(value: Any) -> bool:
    """Whether a member is there and not null."""
    return value is not UNSET and value is not None


def details_of(delta: "Delta") -> str:
    """The reasoning text of `reasoning_details`; what is encrypted has none."""
    if not isinstance(delta.reasoning_details, list):
        return ""
    return "".join(
        text
        for item in delta.reasoning_details
        if isinstance(item, dict)
        for text in (item.get("text") or item.get("summary"),)
        if isinstance(text, str)
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
