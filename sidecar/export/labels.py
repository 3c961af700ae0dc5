"""Label values within bounds: known ones pass, the first so many of an open set pass, the rest becomes `other`."""

import re
from collections.abc import Callable

import msgspec

from sidecar.stream.summary import Summary

OTHER = "other"
NONE = ""
_LONGEST = 128
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

FINISH_REASONS = frozenset(
    [
        "stop",
        "length",
        "tool_calls",
        "content_filter",
        "function_call",
        "end_turn",
        "max_tokens",
        "stop_sequence",
        "tool_use",
        "pause_turn",
        "refusal",
        "STOP",
        "MAX_TOKENS",
        "SAFETY",
        "RECITATION",
        "MALFORMED_FUNCTION_CALL",
        "COMPLETE",
        "ERROR",
        "completed",
        "incomplete",
        "failed",
        "cancelled",
        "max_output_tokens",
        "guardrail_intervened",
        "content_filtered",
        "eos_token",
        "load",
        "unload",
        "error",
        "requires_action",
        "client_cancelled",
        "turn_detected",
        "generationComplete",
        "interrupted",
    ]
)


class Caps(msgspec.Struct, frozen=True):
    """How many values of an open set become labels."""

    model: int = 100
    server_address: int = 100
    server_port: int = 50
    error_type: int = 50
    close_code: int = 30


class LabelValues:
    """Bounds label values; `folded` is told the label whose value had to become `other`.

    `models`: the only model names that may become labels, where the operator listed them.
    """

    def __init__(self, caps: Caps, folded: Callable[[str], None], models: tuple[str, ...] = ()) -> None:
        self._caps = caps
        self._folded = folded
        self._models = frozenset(models)
        self._seen: dict[str, set[str]] = {}

    def of_stream(self, summary: Summary) -> tuple[str, ...]:
        """The values of `metrics.STREAM_LABELS`."""
        return self.base(
            summary.operation,
            summary.provider,
            summary.request_model or summary.response_model,
            summary.server_address,
            summary.server_port,
            summary.dialect,
        )

    def base(
        self, operation: str, provider: str, model: str | None, address: str, port: int, dialect: str
    ) -> tuple[str, ...]:
        """The same from their parts."""
        return (
            operation,
            provider,
            self._model(model),
            *self.server(address, port),
            dialect,
        )

    def server(self, address: str, port: int) -> tuple[str, str]:
        """Address and port of a server."""
        return (
            self._open("server_address", address, self._caps.server_address),
            self._open("server_port", str(port), self._caps.server_port),
        )

    def _model(self, model: str | None) -> str:
        if model is None:
            return NONE
        if self._models:
            if model in self._models:
                return clean(model)
            self._folded("gen_ai_request_model")
            return OTHER
        return self._open("gen_ai_request_model", model, self._caps.model)

    def error_type(self, value: str) -> str:
        """An error type as the provider put it, or one of ours."""
        return self._open("error_type", value, self._caps.error_type)

    def close_code(self, code: int) -> str:
        """The close code of a WebSocket; applications have four thousand of their own."""
        return self._open("close_code", str(code), self._caps.close_code)

    def finish_reason(self, reason: str) -> str:
        """A finish reason that somebody documents, else `other`."""
        if reason in FINISH_REASONS:
            return reason
        self._folded("reason")
        return OTHER

    def _open(self, label: str, value: str, cap: int) -> str:
        value = clean(value)
        seen = self._seen.setdefault(label, set())
        if value in seen:
            return value
        if len(seen) >= cap:
            self._folded(label)
            return OTHER
        seen.add(value)
        return value


def clean(value: str) -> str:
    """A label value without control characters and halves of surrogate pairs, of bounded length."""
    return _CONTROL.sub("\ufffd", value[:_LONGEST])
