"""Output items of the Responses API: which are tool calls, which text they hold, and what was said before.

Item types: https://platform.openai.com/docs/api-reference/responses/object
"""

from collections.abc import Iterator
from typing import Any

from msgspec import UNSET

from sidecar.dialects.envelope import dict_of, list_of, text_of
from sidecar.dialects.signals import Kind, Signal, ToolCall

_KEYS_KEPT = 1024
_ID_KEPT = 256  # characters
_NAMED_CALLS = ("function_call", "custom_tool_call", "mcp_call", "mcp_approval_request")
_CLIENT_TOOLS: dict[str, tuple[str, ...]] = {
    "computer_call": ("action", "actions"),
    "local_shell_call": ("action",),
    "shell_call": ("action",),
    "apply_patch_call": ("operation",),
    "tool_search_call": ("arguments",),
}
"""Built-in tools that the client runs, with the members that say what to do. Their names are their item types'."""
_TEXT_PARTS: dict[str, tuple[Kind, str]] = {
    "output_text": ("text", "text"),
    "text": ("text", "text"),
    "refusal": ("refusal", "refusal"),
    "reasoning_text": ("reasoning", "text"),
    "summary_text": ("reasoning", "text"),
}
_FINISHED = frozenset({"completed", "incomplete", "failed", "cancelled"})


def finish_of(response: dict[str, Any]) -> str | None:
    """The incomplete reason, else the status; None while the response is not over."""
    reason = dict_of(response.get("incomplete_details")).get("reason")
    if isinstance(reason, str) and reason:
        return reason
    status = response.get("status")
    return status if isinstance(status, str) and status in _FINISHED else None


def parts_of(parts: list[Any]) -> list[tuple[Kind, str]]:
    """Texts of content parts and summary parts, with their kinds."""
    found: list[tuple[Kind, str]] = []
    for part in map(dict_of, parts):
        kind, member = _TEXT_PARTS.get(text_of(part.get("type")), ("text", ""))
        if text := text_of(part.get(member)):
            found.append((kind, text))
    return found


def texts_of(item: dict[str, Any]) -> list[tuple[Kind, str]]:
    """Texts of a message or reasoning item."""
    if item.get("type") == "message":
        return parts_of(list_of(item.get("content")))
    if item.get("type") == "reasoning":
        return parts_of([*list_of(item.get("summary")), *list_of(item.get("content"))])
    return []


class Repeats:
    """Which kinds of text came as deltas, so that an event that sums up is taken only where no delta brought its kind.

    Told by kind and not by item: endpoints leave `output_index` and `item_id` out, or change them from event to event.
    """

    def __init__(self) -> None:
        self.kinds: set[Kind] = set()
        """Those of which a delta came."""
        self._sources: dict[Kind, str] = {}

    def streamed(self, kind: Kind) -> None:
        """A delta came."""
        self.kinds.add(kind)

    def is_news(self, kind: Kind, source: str) -> bool:
        """Whether no delta brought this kind. Of the event types that sum up, the first to come counts."""
        return kind not in self.kinds and self._sources.setdefault(kind, source) == source

    def only_late(self, kind: Kind) -> bool:
        """Whether something of this kind was said, but not by a delta."""
        return kind in self._sources and kind not in self.kinds


def _kept(place: Any) -> Any:
    """What is remembered of an id."""
    return place[:_ID_KEPT] if isinstance(place, str) else place


class ToolItems:
    """Tool calls among the items. A call is known by its item id, its call id and its output index."""

    def __init__(self) -> None:
        self._keys: dict[int | str, str] = {}

    def key(self, item_id: Any, output_index: Any) -> str:
        """The call that a delta belongs to; where nothing says which, the last one opened."""
        item_id = _kept(item_id)
        for place in (item_id, output_index):
            if isinstance(place, (int, str)) and place in self._keys:
                return self._keys[place]
        if isinstance(item_id, str) and item_id:
            return self._remember(item_id, item_id)
        if isinstance(output_index, int):
            return self._remember(f"#{output_index}", output_index)
        return next(reversed(self._keys.values()), "?")

    def _remember(self, key: str, *places: Any) -> str:
        for place in map(_kept, places):
            if isinstance(place, (int, str)) and place != "" and len(self._keys) < _KEYS_KEPT:
                self._keys[place] = key
        return key

    def added(self, item: dict[str, Any], output_index: Any) -> Iterator[Signal]:
        """An item was opened."""
        if is_call(item):
            own = _kept(text_of(item.get("id")) or text_of(item.get("call_id")))
            key = own or (f"#{output_index}" if isinstance(output_index, int) else f"?{len(self._keys)}")
            yield _call(item, self._remember(key, key, item.get("id"), item.get("call_id"), output_index))

    def done(self, item: dict[str, Any], output_index: Any) -> Iterator[Signal]:
        """An item was closed: its arguments once more, or for the first time."""
        if is_call(item):
            given = (_kept(text_of(item.get("id"))), _kept(text_of(item.get("call_id"))))
            known = next((place for place in given if place in self._keys), None)
            yield _call(item, self.key(known or given[0] or given[1], output_index), final=True)

    def in_terminal(self, items: list[dict[str, Any]]) -> Iterator[Signal]:
        """The items of the terminal event: calls are news only where no event before it spoke of any."""
        if not self._keys:
            yield from (_call(item, None, final=True) for item in items if is_call(item))

    def in_whole(self, items: list[dict[str, Any]]) -> Iterator[Signal]:
        """The items of a whole body."""
        yield from (_call(item, None) for item in items if is_call(item))


def is_call(item: dict[str, Any]) -> bool:
    """Whether an item is a tool call: of the client's tools, or of the provider's if its name is on the wire."""
    kind = text_of(item.get("type"))
    if kind == "shell_call":
        return not text_of(dict_of(item.get("environment")).get("type")).startswith("container")
    if kind == "tool_search_call":
        return item.get("execution") == "client"
    return kind in _NAMED_CALLS or kind in _CLIENT_TOOLS


def _call(item: dict[str, Any], key: str | None, *, final: bool = False) -> ToolCall:
    """One call; `key` None for one that stands there whole, outside of any order of deltas."""
    kind = text_of(item.get("type"))
    name: Any = item.get("name", UNSET)
    arguments: Any = item.get("input" if kind == "custom_tool_call" else "arguments", UNSET)
    if kind in _CLIENT_TOOLS:
        name = kind.removesuffix("_call")
        # While the item is open its action may be half written.
        given = [item.get(member) for member in _CLIENT_TOOLS[kind]] if final or key is None else []
        arguments = next((value for value in given if value), UNSET)
    return ToolCall(
        id=item.get("call_id") or item.get("id", UNSET),
        name=name,
        arguments=arguments,
        key=key,
        whole=key is None,
        free_text=kind == "custom_tool_call",
        final=final,
    )
