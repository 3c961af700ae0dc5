"""Plain events: those in the middle of a stream that bring a piece of output and nothing else, which is nearly all.

A dialect names its own in `plains`, and `Exchange` takes them past the stages, many at a time. Whatever a reader declines
goes the long way, which `tests/test_shortcut.py` holds it equal to.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import UnsetType

from sidecar.dialects.signals import Usage

PlainKind = Literal["text", "reasoning"]

type Never = Literal["\0"] | UnsetType
"""A member that must not be there: msgspec refuses whatever its value is."""
type Empty = Literal["\0"] | UnsetType | None
"""A member that may be null."""


class Plain(NamedTuple):
    """One kind of plain event. What `read` and `usage` are given is the dialect."""

    kind: PlainKind
    prefix: bytes
    """What stands in its SSE block in front of the payload."""
    read: Callable[[Any, bytes], str | None]
    """The text of a payload of valid UTF-8, never empty; None for what is not plain. Where it gives a text, it has kept
    of the event what `JsonDialect.read` would have kept."""
    usage: Callable[[Any], Usage | None] = lambda dialect: None
    """The counts of the event that was read last, where each one states them; no event's are less than those before."""


def reader[Event](
    shape: type[Event], text_of: Callable[[Any, Event], str | None]
) -> Callable[[Any, bytes], str | None]:
    """A `Plain.read` for events that fit a shape; `text_of` is given the dialect, too."""
    decode = msgspec.json.Decoder(shape).decode

    def read(dialect: Any, payload: bytes) -> str | None:
        try:
            return text_of(dialect, decode(payload)) or None
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return None

    return read
