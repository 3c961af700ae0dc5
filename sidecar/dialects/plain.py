"""Plain events: those in the middle of a stream that bring a piece of output and nothing else, which is nearly all.

A dialect names its own in `plains`, and `Exchange` takes them past the stages, many at a time. Whatever a reader declines
goes the long way, which `tests/test_shortcut.py` holds it equal to.
"""

from collections.abc import Callable
from typing import Any, Literal

import msgspec
from msgspec import UnsetType

from sidecar.dialects.signals import Usage

PlainKind = Literal["text", "reasoning"]

type Never = Literal["\0"] | UnsetType
"""A member that must not be there: msgspec refuses whatever its value is."""
type Empty = Literal["\0"] | UnsetType | None
"""A member that may be null."""


class Plain:
    """One kind of plain event: a shape that each fits, and what gives its text; empty or None for one that is not plain
    all the same. What `text_of` and `usage` are given first is the dialect."""

    __slots__ = ("_decode", "_text_of", "kind", "name", "prefix", "usage")

    def __init__[Event](
        self,
        kind: PlainKind,
        shape: type[Event],
        text_of: Callable[[Any, Event], str | None],
        *,
        name: str = "",
        usage: Callable[[Any], Usage | None] = lambda dialect: None,
    ) -> None:
        self.kind = kind
        self._decode: Callable[[bytes], Any] = msgspec.json.Decoder(shape).decode
        self._text_of: Callable[[Any, Any], str | None] = text_of
        self.name = name
        """Its SSE event name."""
        self.prefix = f"event: {name}\ndata: ".encode() if name else b"data: "
        """What stands in its SSE block in front of the payload."""
        self.usage = usage
        """The counts of the event that was read last, where each one states them; no event's are less than those
        before."""

    def text(self, dialect: Any, payload: bytes) -> str | None:
        """The text of a payload of valid UTF-8; empty or None for what is not plain. Where it gives a text, the dialect
        has kept of the event what `JsonDialect.read` would have kept."""
        try:
            return self._text_of(dialect, self._decode(payload))
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return None
