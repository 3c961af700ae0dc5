"""What the observer needs to know of a request: its target, and a few members of its body."""

import re
from typing import Any
from urllib.parse import parse_qs, unquote

import msgspec
from msgspec import UNSET

_ENOUGH = 200
_LONGEST_NAME = 1024
_FORM_FIELD = re.compile(rb'name="(model|stream|response_format)"\r?\n(?:[^\r\n]+\r?\n)*\r?\n([^\r\n]{0,256})')


class Head(msgspec.Struct, frozen=True):
    """A request head as dialects and providers look at it. Header names in lower case."""

    method: str
    host: str
    port: int
    path: str
    query: dict[str, list[str]] = {}
    headers: dict[str, str] = {}

    @classmethod
    def of(cls, method: str, host: str, port: int, target: str, headers: dict[str, str]) -> "Head":
        """From a request target (path and query)."""
        path, _, query = target.partition("?")
        return cls(method, host, port, path, parse_qs(query, keep_blank_values=True) if query else {}, headers)


class StreamOptions(msgspec.Struct):
    include_usage: Any = UNSET


class _Body(msgspec.Struct):
    """The members read of a JSON request; Any where endpoints differ."""

    model: Any = UNSET
    stream: Any = UNSET
    stream_options: Any = UNSET
    stream_format: Any = UNSET
    n: Any = UNSET
    tools: Any = UNSET
    max_tokens: Any = UNSET
    max_completion_tokens: Any = UNSET
    max_output_tokens: Any = UNSET
    temperature: Any = UNSET
    top_p: Any = UNSET
    top_k: Any = UNSET
    seed: Any = UNSET
    stop: Any = UNSET
    stop_sequences: Any = UNSET
    echo: Any = UNSET
    prompt: Any = UNSET
    return_progress: Any = UNSET
    anthropic_version: Any = UNSET
    incremental_output: Any = UNSET
    response_format: Any = UNSET
    text: Any = UNSET
    format: Any = UNSET
    modalities: Any = UNSET
    generation_config: Any = msgspec.field(default=UNSET, name="generationConfig")
    conversation: Any = UNSET
    conversation_id: Any = UNSET


class Request(msgspec.Struct, frozen=True):
    """What a request asked for. None is unknown or absent."""

    head: Head
    model: str | None = None
    stream: bool | None = None
    """As the body says; None where it says nothing."""
    asked_stream: bool = False
    """Whether streaming was asked for in any way: body, form part, query, path."""
    include_usage: bool = False
    n: int | None = None
    tools: int = 0
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: float | None = None
    seed: int | None = None
    stop_sequences: tuple[str, ...] = ()
    output_type: str | None = None
    """`text`, `json`, `image` or `speech`, where the request names it."""
    conversation_id: str | None = None
    echoed_prompt: str | None = None
    body_parsed: bool = False


_STREAMING_PATHS = re.compile(
    r"(?::streamGenerateContent|:streamRawPredict|/converse-stream|/invoke-with-response-stream|/generate_stream)$"
)
_MODEL_IN_PATH = re.compile(
    r"/models?/(?P<model>[^/:?]+(?::[^/?]*?)?)(?::[a-zA-Z]+|/(?:converse|invoke)[a-z-]*)$|/deployments/(?P<deployment>[^/?]+)/"
)
_CLOUDFLARE_MODEL = re.compile(r"/ai/run/(?P<model>@[^?]+)$")
_decode = msgspec.json.Decoder(_Body).decode


def read_request(head: Head, body: bytes) -> Request:
    """Facts of a request; `body` is decoded of its content coding and may be cut short. Never raises."""
    values = _members(body)
    stream = values.stream if isinstance(values.stream, bool) else None
    options = values.stream_options
    asked = bool(
        stream
        or values.stream_format == "sse"
        or head.query.get("stream") == ["true"]
        or head.query.get("alt") == ["sse"]
        or _STREAMING_PATHS.search(head.path)
        or head.headers.get("x-dashscope-sse", "").lower() == "enable"
        or ("/services/aigc/" in head.path and "text/event-stream" in head.headers.get("accept", ""))
    )
    prompt = values.prompt
    return Request(
        head,
        model=_cut(_model(values.model, head)),
        stream=stream,
        asked_stream=asked,
        include_usage=isinstance(options, dict) and options.get("include_usage") is True,
        n=_int(values.n),
        tools=len(values.tools) if isinstance(values.tools, list) else 0,
        max_tokens=_int(values.max_tokens) or _int(values.max_completion_tokens) or _int(values.max_output_tokens),
        temperature=_float(values.temperature),
        top_p=_float(values.top_p),
        top_k=_float(values.top_k),
        seed=_int(values.seed),
        stop_sequences=_stops(values),
        output_type=_output_type(values),
        conversation_id=_cut(_conversation_id(values, head)),
        echoed_prompt=prompt[:_ENOUGH] if values.echo is True and isinstance(prompt, str) else None,
        body_parsed=values is not _NOTHING,
    )


_NOTHING = _Body()


def _cut(name: str | None) -> str | None:
    """A name is remembered for longer than the body that it came in."""
    return name if name is None else name[:_LONGEST_NAME]


def _members(body: bytes) -> _Body:
    if not body:
        return _NOTHING
    try:
        return _decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        pass
    start = body[:1]
    if start == b"-" or b"form-data" in body[:512]:
        found = {name.decode(): value.decode("utf-8", "replace") for name, value in _FORM_FIELD.findall(body)}
        return _Body(model=found.get("model", UNSET), stream=True if found.get("stream") == "true" else UNSET)
    if start == b"{":
        return _scan(body)
    return _NOTHING


_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)
_MEMBER = re.compile(rb'\s*:\s*("(?:[^"\\]|\\.){0,256}"|true|false)')
_SCANNED = {b'"model"': "model", b'"stream"': "stream", b'"stream_format"': "stream_format"}


def _scan(body: bytes) -> _Body:
    """Of a JSON body that is cut short or damaged: the members that matter, where they stand at its top level."""
    found = _Body()
    depth = 0
    for match in _TOKEN.finditer(body):
        mark = match.group()
        if mark in (b"{", b"["):
            depth += 1
        elif mark in (b"}", b"]"):
            depth -= 1
        elif depth == 1 and mark in _SCANNED and (value := _MEMBER.match(body, match.end())):
            text = value.group(1)
            setattr(
                found, _SCANNED[mark], text[1:-1].decode("utf-8", "replace") if text[:1] == b'"' else text == b"true"
            )
    return found


def _model(value: Any, head: Head) -> str | None:
    if isinstance(value, str) and value:
        return value
    match = _MODEL_IN_PATH.search(head.path) or _CLOUDFLARE_MODEL.search(head.path)
    if match:
        return unquote(next(group for group in match.groups() if group))
    return model_in_query(head)


def model_in_query(head: Head) -> str | None:
    """The model that the URL of a WebSocket names, or the deployment of one (Azure)."""
    for name in ("model", "deployment"):
        found = head.query.get(name)
        if found and found[0]:
            return found[0]
    return None


def _int(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _float(value: Any) -> float | None:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:  # an integer of more than 308 digits is JSON, too
        return None


def _stops(values: _Body) -> tuple[str, ...]:
    stops = values.stop if values.stop is not UNSET else values.stop_sequences
    if isinstance(stops, str):
        return (stops,)
    return tuple(stop for stop in stops if isinstance(stop, str))[:16] if isinstance(stops, list) else ()


_FORMATS = {"text": "text", "json": "json", "json_object": "json", "json_schema": "json", "application/json": "json"}
_MODALITIES = {"audio": "speech", "image": "image"}


def _output_type(values: _Body) -> str | None:
    """Of OpenAI's `response_format`, `text.format` and `modalities`, Ollama's `format`, Gemini's `generationConfig`."""
    settings = values.generation_config if isinstance(values.generation_config, dict) else {}
    modalities = settings.get("responseModalities", values.modalities)
    if isinstance(modalities, list):
        for modality in modalities:
            if isinstance(modality, str) and modality.lower() in _MODALITIES:
                return _MODALITIES[modality.lower()]
    if isinstance(values.format, dict):  # Ollama's is a schema
        return "json"
    for asked in (values.response_format, values.text, values.format, settings.get("responseMimeType")):
        if isinstance(asked, dict):
            within = asked.get("format")
            asked = within.get("type") if isinstance(within, dict) else asked.get("type")
        if isinstance(asked, str) and asked in _FORMATS:
            return _FORMATS[asked]
    return None


_THREAD = re.compile(r"/threads/(?P<id>[^/?]+)/")


def _conversation_id(values: _Body, head: Head) -> str | None:
    """Of OpenAI's `conversation`, the thread of an assistant's run, Cohere's and others' `conversation_id`."""
    asked = values.conversation if values.conversation is not UNSET else values.conversation_id
    if isinstance(asked, dict):
        asked = asked.get("id")
    if isinstance(asked, str) and asked:
        return asked
    thread = _THREAD.search(head.path)
    return unquote(thread["id"]) if thread else None
