"""Endpoints that answer with vectors or scores: whole bodies, timed and counted, never judged as generation."""

from typing import Any, ClassVar

import msgspec
from msgspec import UNSET

from sidecar.dialects.envelope import Envelope, EnvelopeDialect, dict_of, list_of, text_of
from sidecar.dialects.openai_usage import count, parse_usage
from sidecar.dialects.signals import Identity, Signal, Usage
from sidecar.framing.frame import Frame


class Body(Envelope, gc=False):
    model: Any = UNSET
    usage: Any = UNSET
    meta: Any = UNSET
    prompt_eval_count: Any = UNSET


class _Timed(EnvelopeDialect[Body]):
    has_finish: ClassVar[bool] = False
    shape = Body
    decode = staticmethod(msgspec.json.Decoder(Body).decode)

    def read_event(self, event: Body, kind: str, frame: Frame) -> list[Signal]:
        signals: list[Signal] = [Identity(None, text_of(event.model) or None)]
        if isinstance(event.usage, dict):
            signals.append(parse_usage(event.usage))
        elif isinstance(event.meta, dict):
            signals += _billed(event.meta)
        elif (prompt := count(event.prompt_eval_count)) is not None:
            signals.append(Usage(input=prompt))
        return signals


class OpenAIEmbeddings(_Timed):
    """`POST …/embeddings` (https://platform.openai.com/docs/api-reference/embeddings)."""

    name: ClassVar[str] = "openai.embeddings"


class CohereRerank(_Timed):
    """`POST …/rerank` (https://docs.cohere.com/reference/rerank), which others serve the same way."""

    name: ClassVar[str] = "cohere.rerank"


def _billed(meta: dict[str, Any]) -> list[Signal]:
    """Cohere's accounting: billed tokens win over counted ones; search units are no tokens."""
    for member in ("billed_units", "tokens"):
        units = dict_of(meta.get(member))
        given, produced = count(units.get("input_tokens")), count(units.get("output_tokens"))
        if given is not None or produced is not None:
            return [Usage(input=given, output=produced)]
    return []


def is_embeddings(event: dict[str, Any], name: str) -> bool:
    """A list of embeddings."""
    first = next(iter(list_of(event.get("data"))), None)
    return event.get("object") == "list" and dict_of(first).get("object") == "embedding"


def is_rerank(event: dict[str, Any], name: str) -> bool:
    """A list of results with relevance scores."""
    return "relevance_score" in dict_of(next(iter(list_of(event.get("results"))), None))
