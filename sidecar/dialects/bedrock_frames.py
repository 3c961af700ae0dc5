"""What Bedrock's APIs share: exceptions in frames of the AWS event stream, and the counts that Bedrock adds itself.

https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html and
…/API_runtime_InvokeModelWithResponseStream.html name the exceptions; how a frame says that it is one:
https://smithy.io/2.0/aws/amazon-eventstream.html.
"""

import json
from typing import Any

from sidecar.dialects import errors
from sidecar.dialects.base import JsonDialect
from sidecar.dialects.openai_usage import count
from sidecar.dialects.signals import Annotation, InBandError, Signal, Usage
from sidecar.framing.frame import Frame

METRICS = "amazon-bedrock-invocationMetrics"


class BedrockDialect[Event](JsonDialect[Event]):
    """A dialect in AWS frames, whose headers say what a frame is."""

    def interpret(self, frame: Frame) -> list[Signal]:
        if frame.headers is None:
            return super().interpret(frame)
        kind = frame.headers.get(":message-type")
        if kind == "exception" or kind == "error":
            return exception_of(frame, frame.headers)
        return self._interpret(frame) if frame.data else []


def exception_of(frame: Frame, headers: dict[str, str]) -> list[Signal]:
    """The error of a frame of message type `exception` (modelled, its members in the payload) or `error` (not)."""
    try:
        found, _ = errors.find(json.loads((frame.data or b"{}").decode("utf-8", "replace")), named_error=True)
    except (ValueError, RecursionError):
        found = InBandError((frame.data or b"").decode("utf-8", "replace")[:2000])
    message = found.message if found else ""
    kind = headers.get(":exception-type") or headers.get(":error-code") or (found.type if found else None)
    return [
        InBandError(message or headers.get(":error-message", ""), kind),
        Annotation("stream_exception_frame"),
    ]


def metrics_of(value: Any) -> list[Signal]:
    """The counts that InvokeModel adds to the last event of a stream, whatever the model behind it."""
    if not isinstance(value, dict):
        return []
    usage = Usage(
        input=count(value.get("inputTokenCount")),
        output=count(value.get("outputTokenCount")),
        cache_read=count(value.get("cacheReadInputTokenCount")),
        cache_write=count(value.get("cacheWriteInputTokenCount")),
        place="vendor",
    )
    return [usage, Annotation("usage_in_vendor_field")] if usage.input is not None or usage.output is not None else []
