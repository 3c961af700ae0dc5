"""What a dialect says of one frame: the vocabulary between `dialects` and `stream`.

Absent, null and empty are kept apart where a client would stumble over the difference: UNSET means the key was
not on the wire, None that it was null.
"""

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

Kind = Literal["text", "reasoning", "refusal", "transcript", "audio", "image", "tool_arguments"]
"""`transcript` is the text of what is spoken beside it."""


class Content(msgspec.Struct, gc=False):
    """Output. `text` is what a person would read of it; `size` its characters (audio, image: base64 characters)."""

    kind: Kind
    text: str
    choice: int = 0
    size: int = 0
    late: bool = False
    """Said only after the fact, in an event that sums up what no delta brought: content, but no output in time."""


class Role(msgspec.Struct, gc=False):
    """The author was announced; never output."""

    role: str
    choice: int = 0


class ToolCall(msgspec.Struct, gc=False):
    """One delta of a tool call, as it was on the wire; `stream.tools` puts the pieces together.

    `index` orders calls within a choice (chat's `index`, a content block's index). `key` names the call where the
    dialect says outright which one is meant (an item id); it overrides the merge rules. `whole` marks a call that
    its dialect always sends in one piece. `free_text` marks arguments that are not meant to be JSON.
    """

    index: int | UnsetType | None = UNSET
    id: Any = UNSET
    name: Any = UNSET
    arguments: Any = UNSET
    choice: int = 0
    key: str | None = None
    whole: bool = False
    free_text: bool = False
    final: bool = False
    """`arguments` are the complete ones, said again (a *.done event): taken only where no piece came before."""
    snapshot: bool = False
    """`arguments` are all there are so far and take the place of what came before (objects built up by path)."""


class Finish(msgspec.Struct, gc=False):
    """A finish reason, raw. `failed` where the reason itself means that generation failed."""

    reason: str
    choice: int = 0
    failed: bool = False
    revises: bool = False
    """Takes the place of the one before, as the dialect has it: no repetition."""


class Usage(msgspec.Struct, gc=False):
    """Token counts as reported, no arithmetic; None where a count was absent or null.

    `place` is where it stood: `event` (the dialect's own place), `choice`, `vendor` or `headers`.
    `fallback` counts are used only where no other usage object is there (llama.cpp's timings).
    """

    input: int | None = None
    output: int | None = None
    total: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None
    place: Literal["event", "choice", "vendor", "headers"] = "event"
    fallback: bool = False
    opening: bool = False
    """Stated when the answer began (Anthropic's message_start): no sign of mid-stream accounting."""
    audio: dict[str, int] | None = None
    """How many of these were audio tokens: `input`, `output`, `cache_read`, as far as it was said."""


class Terminator(msgspec.Struct, gc=False):
    """The event after which the dialect sends nothing more; names as in the corpus."""

    name: str


class InBandError(msgspec.Struct, gc=False):
    """An error inside a body of status 2xx (or the body of an HTTP error)."""

    message: str
    type: str | None = None


class KeepAlive(msgspec.Struct, gc=False):
    """Something that only keeps the connection open. `comment`, `ping` (a named event with data), `json`, `blank`."""

    kind: Literal["comment", "ping", "json", "blank"]


class Identity(msgspec.Struct, gc=False):
    """Names the answer gives itself. Ids never become labels."""

    id: str | None = None
    model: str | None = None
    service_tier: str | None = None
    system_fingerprint: str | None = None


class Annotation(msgspec.Struct, gc=False):
    """A habit of the wire by its name in the quirk registry; counted once per stream."""

    name: str


class Malformed(msgspec.Struct, gc=False):
    """A payload that could not be used, by its name in the quirk registry."""

    name: str


class WholeText(msgspec.Struct, gc=False):
    """The whole text once more, in an event that has no delta of its own (or in a body that never streamed)."""

    text: str
    choice: int = 0


class Boundary(msgspec.Struct, gc=False):
    """Between two events that were recovered from one frame (a forgotten blank line, concatenated values)."""


Signal = (
    Content
    | Role
    | ToolCall
    | Finish
    | Usage
    | Terminator
    | InBandError
    | KeepAlive
    | Identity
    | Annotation
    | Malformed
    | WholeText
    | Boundary
)
