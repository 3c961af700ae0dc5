"""Which exchanges are copied: a table over request heads, and what the response's content type confirms."""

import re
from enum import Enum

import msgspec


class Interest(Enum):
    """What the request alone says."""

    YES = "yes"
    MAYBE = "maybe"
    """Held back until the response says that it streams; of a WebSocket, counted and not copied."""
    NO = "no"


class Row(msgspec.Struct, frozen=True):
    """A kind of request that asks an LLM for something."""

    path: str
    """Regular expression, searched in the path (without query)."""
    what: str


KNOWN: tuple[Row, ...] = (
    Row(r"/completions?$|/infill$", "chat and text completions, llama.cpp's own, DashScope's apps"),
    Row(r"/messages$", "Anthropic messages"),
    Row(r"/responses(/[^/]+(/cancel)?)?$", "OpenAI responses"),
    Row(r":(stream)?[gG]enerateContent$|:(stream)?[rR]awPredict$", "Gemini and Vertex AI"),
    Row(r"/model/[^/]+/(converse|invoke)(-stream|-with-response-stream)?$", "Bedrock"),
    Row(r"/api/(chat|generate)$", "Ollama"),
    Row(r"/v2/chat$", "Cohere"),
    Row(r"/generate(_stream)?$", "text-generation-inference"),
    Row(r"/(ai/run|workers-ai)/@", "Cloudflare Workers AI"),
    Row(r"/services/aigc/", "DashScope"),
    Row(r"/threads/(runs|[^/]+/runs)(/[^/]+/submit_tool_outputs)?$", "OpenAI assistants"),
    Row(r"/audio/(speech|transcriptions|translations)$", "OpenAI audio"),
    Row(r"/images/(generations|edits|variations)$", "OpenAI images"),
    Row(r"/embeddings?$|/api/embed$", "embeddings"),
    Row(r"/rerank$", "rerank"),
)

SOCKETS: tuple[Row, ...] = (
    Row(r"/realtime$", "OpenAI Realtime, and what is compatible with it"),
    Row(r"/responses$", "OpenAI responses"),
    Row(r"[./]BidiGenerateContent(Constrained)?$", "Gemini Live"),
)
"""WebSockets in which LLMs answer, by the path of the upgrade."""

CONFIRMING_TYPES = frozenset(
    {
        "text/event-stream",
        "application/x-ndjson",
        "application/ndjson",
        "application/jsonl",
        "application/stream+json",
        "application/vnd.amazon.eventstream",
    }
)
"""Content types of responses that are streams, whatever was asked."""


class Chooser:
    """Decides what is copied. `include` and `exclude` are regular expressions over `host/path`; exclude wins.

    Raises ValueError naming the expression that is none.
    """

    def __init__(self, include: tuple[str, ...] = (), exclude: tuple[str, ...] = ()) -> None:
        self._include = _compile(include)
        self._exclude = _compile(exclude)
        self._known = re.compile("|".join(f"(?:{row.path})" for row in KNOWN))
        self._sockets = re.compile("|".join(f"(?:{row.path})" for row in SOCKETS))

    def of_request(self, method: str, host: str, target: str, *, upgrade: bool = False) -> Interest:
        """What the request head says. `target` may carry a query, which is not looked at."""
        path = target.partition("?")[0]
        place = host + path
        if upgrade or method in ("CONNECT", "OPTIONS", "HEAD") or _matches(self._exclude, place):
            return Interest.NO
        if _matches(self._include, place):
            return Interest.YES
        if method == "POST" and self._known.search(path.rstrip("/")):
            return Interest.YES
        return Interest.MAYBE

    def of_socket(self, host: str, target: str) -> Interest:
        """What the upgrade to a WebSocket says."""
        path = target.partition("?")[0]
        place = host + path
        if _matches(self._exclude, place):
            return Interest.NO
        known = _matches(self._include, place) or self._sockets.search(path.rstrip("/")) is not None
        return Interest.YES if known else Interest.MAYBE

    @staticmethod
    def confirmed_by(content_type: str) -> bool:
        """Whether the response to a MAYBE makes it one to copy."""
        return content_type.partition(";")[0].strip().lower() in CONFIRMING_TYPES


def _compile(expressions: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    compiled = []
    for expression in expressions:
        try:
            compiled.append(re.compile(expression))
        except re.error as error:
            raise ValueError(f"not a regular expression: {expression!r} ({error})") from error
    return tuple(compiled)


def _matches(expressions: tuple[re.Pattern[str], ...], place: str) -> bool:
    return any(expression.search(place) for expression in expressions)
