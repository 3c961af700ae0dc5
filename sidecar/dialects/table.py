"""Which dialect an exchange speaks: one literal ordered table, by the request first, then by the first event."""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from sidecar.dialects import (
    anthropic,
    bedrock_converse,
    bedrock_invoke,
    cloudflare,
    cohere,
    dashscope,
    embeddings,
    gemini,
    llamacpp,
    ollama,
    openai_assistants,
    openai_media,
    openai_responses,
    tgi,
)
from sidecar.dialects.base import Dialect
from sidecar.dialects.openai_chat import OpenAIChat
from sidecar.dialects.openai_completions import OpenAICompletions
from sidecar.dialects.request import Head, Request
from sidecar.dialects.unknown import Unknown

type Event = dict[str, Any]


class Row(msgspec.Struct, frozen=True):
    """One dialect: how its requests look, and how its events do."""

    dialect: Callable[[Request], Dialect]
    name: str
    operation: str
    """`gen_ai.operation.name` of OpenTelemetry's conventions."""
    path: str | None
    """Regular expression that is searched in the request's path."""
    signs: Callable[[Event, str], bool] | None = None
    """Whether a decoded event (with its SSE event name) can only be of this dialect."""
    streams_by_default: bool = False
    """Whether a request that does not mention streaming gets a stream (Ollama)."""
    stream_verdict: bool = True
    """Whether answers are judged as generation; embeddings and the like are only timed."""
    lines: bool = False
    """Whether its streams are lines of JSON, whatever their content type says (Ollama)."""
    opaque: bool = False
    """Whether a body that is no JSON is a proper answer (audio, plain text)."""
    when: Callable[[Head], bool] | None = None
    """A further condition on the request head."""
    by_path: bool = False
    """Whether the path settles it, for the bodies there are those of other dialects (InvokeModel)."""


def _first_choice(event: Event) -> Event:
    choices = event.get("choices")
    return choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}


def _is_chat(event: Event, name: str) -> bool:
    kind = event.get("object")
    named = isinstance(kind, str) and kind.startswith("chat.completion") and "choices" in event
    return named or bool({"delta", "message"} & _first_choice(event).keys())


def _is_completion(event: Event, name: str) -> bool:
    choice = _first_choice(event)
    return event.get("object") == "text_completion" or ("text" in choice and not {"delta", "message"} & choice.keys())


DIALECTS: tuple[Row, ...] = (
    Row(
        bedrock_invoke.BedrockInvoke,
        "bedrock.invoke",
        "chat",
        r"/model/.+/invoke(?:-with-response-stream)?/?$",
        bedrock_invoke.signs,
        by_path=True,
    ),
    Row(
        bedrock_converse.BedrockConverse,
        "bedrock.converse",
        "chat",
        r"/model/.+/converse(?:-stream)?/?$",
        bedrock_converse.signs,
    ),
    Row(
        gemini.GeminiGenerate,
        "gemini.generate",
        "generate_content",
        r":(?:g|streamG)enerateContent/?$",
        gemini.signs,
    ),
    Row(
        anthropic.AnthropicMessages,
        "anthropic.messages",
        "chat",
        r"/messages/?$|:(?:r|streamR)awPredict$",
        anthropic.signs,
        when=anthropic.is_messages_path,
    ),
    Row(OpenAIChat, "openai.chat", "chat", r"/chat/completions/?$", _is_chat),
    Row(OpenAICompletions, "openai.completions", "text_completion", r"(?<!chat)/completions/?$", _is_completion),
    Row(
        openai_responses.OpenAIResponses,
        "openai.responses",
        "chat",
        r"/responses(?:/[^/]+(?:/cancel)?)?/?$",
        openai_responses.is_responses,
    ),
    Row(
        openai_assistants.OpenAIAssistants,
        "openai.assistants",
        "chat",
        r"/threads/(?:[^/]+/)?runs(?:/|$)",
        openai_assistants.is_assistants,
    ),
    Row(
        openai_media.OpenAISpeech,
        "openai.speech",
        "text_to_speech",
        r"/audio/speech/?$",
        openai_media.is_speech,
        opaque=True,
    ),
    Row(
        openai_media.OpenAITranscriptions,
        "openai.transcriptions",
        "transcription",
        r"/audio/(?:transcriptions|translations)/?$",
        openai_media.is_transcription,
        opaque=True,
    ),
    Row(
        openai_media.OpenAIImages,
        "openai.images",
        "image_generation",
        r"/images/(?:generations|edits|variations)/?$",
        openai_media.is_image,
    ),
    Row(
        embeddings.OpenAIEmbeddings,
        "openai.embeddings",
        "embeddings",
        r"/embeddings/?$",
        embeddings.is_embeddings,
        stream_verdict=False,
    ),
    Row(
        embeddings.CohereRerank,
        "cohere.rerank",
        "rerank",
        r"/rerank/?$",
        embeddings.is_rerank,
        stream_verdict=False,
    ),
    Row(
        ollama.OllamaChat,
        "ollama.chat",
        "chat",
        r"/api/chat/?$",
        ollama.is_chat,
        streams_by_default=True,
        lines=True,
    ),
    Row(
        ollama.OllamaGenerate,
        "ollama.generate",
        "text_completion",
        r"/api/generate/?$",
        ollama.is_generate,
        streams_by_default=True,
        lines=True,
    ),
    Row(cohere.CohereChat, "cohere.v2", "chat", r"/v2/chat/?$", cohere.is_cohere),
    Row(
        dashscope.DashScope,
        "dashscope.native",
        "chat",
        r"/services/aigc/[^/]+/generation/?$|/api/v1/apps/[^/]+/completion/?$",
        dashscope.is_dashscope,
    ),
    Row(
        cloudflare.WorkersAI,
        "cloudflare.workers_ai",
        "chat",
        r"/(?:ai/run|workers-ai)/@(?:cf|hf)/",
        cloudflare.is_workers_ai,
    ),
    # Triton's endpoint of the same name speaks something else.
    Row(
        tgi.TextGenerationInference,
        "tgi.generate",
        "text_completion",
        r"^(?!.*/v2/models/).*/generate_stream/?$",
        tgi.is_tgi,
    ),
    Row(
        llamacpp.LlamaCpp,
        "llamacpp.completion",
        "text_completion",
        r"/(?:completion|infill)/?$",
        llamacpp.is_llamacpp,
    ),
)
_PATHS = tuple((re.compile(row.path), row) for row in DIALECTS if row.path is not None)
UNKNOWN = Row(Unknown, "unknown", "unknown", None)


def pick(head: Head) -> Row:
    """The dialect that a request asks for by its target; UNKNOWN where none is known to live there."""
    for pattern, row in _PATHS:
        if pattern.search(head.path) and (row.when is None or row.when(head)):
            return row
    return UNKNOWN


def confirm(row: Row, event: Any, name: str) -> tuple[Row, bool]:
    """The dialect as an event shows it, and whether the event settles it.

    The picked dialect stays wherever the event could be its own.
    """
    if row.by_path:
        return row, True
    if not isinstance(event, dict):
        return row, False
    if row.signs is not None and row.signs(event, name):
        return row, True
    for other in DIALECTS:
        if other is not row and other.signs is not None and other.signs(event, name):
            return other, True
    return row, False
