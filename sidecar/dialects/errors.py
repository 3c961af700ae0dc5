"""Errors inside a body, in every shape seen in the wild: where the message and the type stand."""

from typing import Any

from sidecar.dialects.signals import Annotation, InBandError

_MESSAGE_KEYS = ("message", "details", "status_msg", "originalMessage", "error_message", "msg", "detail")
_TYPE_KEYS = ("type", "status", "code")
_FAILURES = frozenset(
    {
        "error",
        "error_limit",
        "error_toxic",
        "malformed_model_output",
        "malformed_response",
        "malformed_tool_use",
        "network_error",
        "unexpected_tool_call",
    }
)


def is_failure(reason: str) -> bool:
    """Whether a finish reason means that generation failed, in any dialect and case."""
    lower = reason.lower()
    return lower in _FAILURES or "malformed_function_call" in lower  # Gemini's compatible API puts words before it


def find(event: Any, *, named_error: bool = False) -> tuple[InBandError | None, tuple[Annotation, ...]]:
    """The error that a decoded JSON value states, and the habits of its shape; (None, ()) where it states none.

    `named_error` says that the framing already called it an error (`event: error`, an AWS exception frame).
    Messages and types are looked for in `error`, then in the event, then in its `data`; a `null` or empty `error`
    and a `base_resp` of status 0 (MiniMax) are no errors.
    """
    if isinstance(event, list) and len(event) == 1:
        event = event[0]  # Gemini wraps the error of a streamed array
    if not isinstance(event, dict):
        return (InBandError("" if event is None else str(event)[:2000]), ()) if named_error else (None, ())
    error = event.get("error")
    habits: tuple[Annotation, ...] = ()
    if isinstance(error, str) and error:
        kind = _first_type(event, ("error_type", *(_TYPE_KEYS if event.get("type") != "error" else ())))
        return InBandError(error, kind), (Annotation("error_is_string"),)
    if isinstance(error, dict) and error:
        return _stated(error, event), habits
    envelope = _envelope(event)
    if envelope is not None:
        return envelope, (Annotation("error_vendor_envelope"),)
    if event.get("object") == "error" or event.get("type") == "error" or named_error:
        return _stated(event, event), habits
    return None, habits


def _stated(error: dict[str, Any], event: dict[str, Any]) -> InBandError:
    message = _first_message(error) or _first_message(event) or _nested_message(event)
    skip = {"error"} if error is event else set()
    kind = _first_type(error, _TYPE_KEYS, skip) or _first_type(event, ("error_type",))
    if kind is None and isinstance(event.get("data"), dict):
        kind = _first_type(event["data"], _TYPE_KEYS)
    return InBandError(message or "", kind)


def _envelope(event: dict[str, Any]) -> InBandError | None:
    base = event.get("base_resp")
    if isinstance(base, dict) and base.get("status_code") not in (None, 0):
        return InBandError(_first_message(base) or "", str(base["status_code"]))
    if event.get("success") is False:
        data = event.get("data")
        inner = data if isinstance(data, dict) else event
        message = _first_message(inner) or _first_message(event) or _nested_message(event)
        return InBandError(message or "", _first_type(inner, _TYPE_KEYS))
    return None


def _nested_message(event: dict[str, Any]) -> str | None:
    errors = event.get("errors")
    if isinstance(errors, list) and errors:
        first = errors[0]
        return _first_message(first) if isinstance(first, dict) else str(first)[:2000]
    for key in ("last_error", "data"):
        inner = event.get(key)
        if isinstance(inner, dict) and (message := _first_message(inner)):
            return message
    return None


def _first_message(value: dict[str, Any]) -> str | None:
    for key in _MESSAGE_KEYS:
        found = value.get(key)
        if isinstance(found, str) and found:
            return found
    return None


def _first_type(value: dict[str, Any], keys: tuple[str, ...], skip: set[str] = frozenset()) -> str | None:  # type: ignore[assignment]
    for key in keys:
        found = value.get(key)
        if isinstance(found, (str, int)) and not isinstance(found, bool) and found != "" and found not in skip:
            return str(found)
    return None


def http_error(body: Any, status: int) -> InBandError:
    """The error that the body of a status of 400 or above states; `HTTP <status>` where it states none."""
    error, _ = find(body)
    if error is None and isinstance(body, dict) and (message := _first_message(body)):
        error = InBandError(message, _first_type(body, _TYPE_KEYS))
    if error is not None and error.message:
        return error
    return InBandError(f"HTTP {status}", error.type if error else None)
