"""Which dialect a WebSocket speaks: one literal ordered table, by the path of the upgrade."""

import re
from collections.abc import Callable

import msgspec

from sidecar.dialects import table
from sidecar.dialects.gemini_live import GeminiLive, LiveLanes
from sidecar.dialects.lanes import Lanes
from sidecar.dialects.openai_realtime import OpenAIRealtime
from sidecar.dialects.openai_realtime_lanes import RealtimeLanes
from sidecar.dialects.openai_responses_ws import OpenAIResponsesSocket, ResponsesLanes
from sidecar.dialects.request import Head


class SocketRow(msgspec.Struct, frozen=True):
    """One dialect: how each of its responses is read, and how they are told apart."""

    row: table.Row
    lanes: Callable[[Head], Lanes]


SOCKETS: tuple[SocketRow, ...] = (
    SocketRow(table.Row(OpenAIRealtime, "openai.realtime", "chat", r"/realtime/?$", by_path=True), RealtimeLanes),
    SocketRow(
        table.Row(OpenAIResponsesSocket, "openai.responses.ws", "chat", r"/responses/?$", by_path=True), ResponsesLanes
    ),
    SocketRow(
        table.Row(
            GeminiLive, "gemini.live", "generate_content", r"[./]BidiGenerateContent(?:Constrained)?/?$", by_path=True
        ),
        LiveLanes,
    ),
)
_PATHS = tuple((re.compile(each.row.path), each) for each in SOCKETS if each.row.path is not None)


def pick(head: Head) -> SocketRow | None:
    """The dialect of a socket by the target of its upgrade; None where none is known to live there."""
    return next((each for pattern, each in _PATHS if pattern.search(head.path)), None)


def row_of(head: Head) -> table.Row:
    """How what such an upgrade leads to is named and read."""
    found = pick(head)
    return table.UNKNOWN if found is None else found.row


def is_upgrade(head: Head) -> bool:
    """Whether a request asks for a WebSocket."""
    return head.headers.get("upgrade", "").lower() == "websocket"
