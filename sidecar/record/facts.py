"""What `--record-only` can ask about an exchange: the fields, what each may be compared with, and where it comes from."""

from collections.abc import Callable, Mapping
from typing import Literal, get_args

import msgspec

from sidecar.quirks.quirk import SEVERITIES
from sidecar.quirks.registry import BY_ID
from sidecar.record.draft import Draft
from sidecar.stream.buffering import Verdict
from sidecar.stream.outcome import Outcome
from sidecar.stream.summary import Summary

type Value = str | float | bool | tuple[str, ...] | None
"""Of an exchange; None where it has none."""
type Facts = Mapping[str, Value]

Kind = Literal["text", "number", "seconds", "flag"]


class Field(msgspec.Struct, frozen=True):
    """A field of the expressions. `values`: all there are, in rising order where it is `ordered`."""

    name: str
    help: str
    kind: Kind
    of: Callable[[Summary], Value]
    values: tuple[str, ...] = ()
    ordered: bool = False


def _literals(alias: object) -> tuple[str, ...]:
    return tuple(get_args(alias))


FIELDS: tuple[Field, ...] = (
    Field("outcome", "how it ended", "text", lambda s: s.outcome, _literals(Outcome)),
    Field("dialect", "API, e.g. openai.chat", "text", lambda s: s.dialect),
    Field("operation", "e.g. chat, embeddings", "text", lambda s: s.operation),
    Field("provider", "e.g. openai, anthropic", "text", lambda s: s.provider),
    Field("model", "as requested, else as answered", "text", lambda s: s.request_model or s.response_model),
    Field("server", "host:port", "text", lambda s: f"{s.server_address}:{s.server_port}"),
    Field("path", "of the request, without its query", "text", lambda s: s.path),
    Field("status", "of the response", "number", lambda s: s.status),
    Field("streaming", "whether it was, or should have been, a stream", "flag", lambda s: s.streaming),
    Field("websocket", "whether it was in a WebSocket", "flag", lambda s: s.socket is not None),
    Field("terminator", "event that ended the stream", "text", lambda s: s.terminator),
    Field("finish_reason", "as sent", "text", lambda s: s.finish_reason),
    Field("error_type", "of an error inside the body", "text", lambda s: s.error_type),
    Field("quirk", "ids of its quirks", "text", lambda s: s.quirks, tuple(BY_ID)),
    Field(
        "quirk.severity",
        "of its quirks: info < warning < breaks_clients",
        "text",
        lambda s: tuple(str(BY_ID[quirk].severity) for quirk in s.quirks),
        tuple(map(str, SEVERITIES)),
        ordered=True,
    ),
    Field("buffering", "verdict on it", "text", lambda s: s.buffering.verdict, _literals(Verdict)),
    Field("duration", "from the request to the end", "seconds", lambda s: s.milestones.get("end")),
    Field("ttft", "time to the first token", "seconds", lambda s: s.milestones.get("first_token")),
    Field("ttft_visible", "the same without reasoning", "seconds", lambda s: s.milestones.get("first_visible_token")),
    Field("longest_gap", "between outputs", "seconds", lambda s: s.gaps.longest / 1e9 if s.gaps.count else None),
    Field("longest_silence", "without any byte", "seconds", lambda s: s.byte_silence),
    Field("stalls", "how often it stalled", "number", lambda s: sum(s.stalls.values())),
    Field("output_chunks", "events with output", "number", lambda s: s.output_chunks),
    Field("input_tokens", "as reported", "number", lambda s: s.tokens.input if s.tokens else None),
    Field("output_tokens", "as reported", "number", lambda s: s.tokens.output if s.tokens else None),
    Field("tool_calls", "how many", "number", lambda s: len(s.tool_calls)),
    Field("response_bytes", "as they came", "number", lambda s: s.response_bytes),
)
BY_NAME = {field.name: field for field in FIELDS}

_LONGEST = 1024


class _OfSummary(dict[str, Value]):
    """Fields are looked up when they are asked for."""

    def __init__(self, summary: Summary) -> None:
        super().__init__()
        self._summary = summary

    def __missing__(self, name: str) -> Value:
        value = BY_NAME[name].of(self._summary)
        # Names come from the wire: a regular expression shall not be given a megabyte.
        self[name] = value = value[:_LONGEST] if isinstance(value, str) else value
        return value


def facts_of(found: Summary | Draft) -> Facts:
    """What is known of an exchange, or of a WebSocket in which there was no response."""
    if isinstance(found, Summary):
        return _OfSummary(found)
    opened, ended = found.opened, found.ended
    facts: dict[str, Value] = dict.fromkeys(BY_NAME)
    facts |= {
        "server": f"{opened.host}:{opened.port}",
        "path": opened.target.partition("?")[0],
        "status": found.head.status if found.head is not None else None,
        "websocket": True,
        "streaming": False,
        "quirk": (),
        "quirk.severity": (),
        "duration": None if ended is None else (ended.at - opened.at) / 1e9,
    }
    return facts
