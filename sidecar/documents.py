"""Bodies that are one document: their first JSON value, the error they state, and whether they are a web page."""

import json
from typing import Any, Literal

from sidecar.dialects import errors
from sidecar.dialects.signals import InBandError
from sidecar.framing.table import media_type

Kind = Literal["json", "html", ""]


def loads(data: bytes) -> Any:
    """A JSON value or None, bad UTF-8 replaced."""
    try:
        return json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def first_value(data: bytes) -> tuple[Any, int]:
    """The first JSON value of a body and the byte offset behind it; (None, 0) where it does not begin with one."""
    text = data.decode("utf-8", "replace")
    begin = len(text) - len(text.lstrip("\ufeff \t\r\n"))
    try:
        value, end = json.JSONDecoder().raw_decode(text, begin)
    except (ValueError, RecursionError):
        return None, 0
    return value, len(text[:end].encode("utf-8"))


def is_html(data: bytes, headers: dict[str, str]) -> bool:
    """Whether a body is a web page."""
    start = data[:256].lstrip().lower()
    declared = media_type(headers.get("content-type", "")) == "text/html" and not start.startswith((b"{", b"["))
    return declared or start.startswith((b"<!doctype html", b"<html"))


def kind_of(data: bytes, headers: dict[str, str]) -> Kind:
    """What a body is, whatever its content type says; empty for one that is neither (or cut off)."""
    if is_html(data, headers):
        return "html"
    return "json" if isinstance(first_value(data)[0], (dict, list)) else ""


def error_in(data: bytes, status: int) -> InBandError:
    """The error of a body of status 400 or above, which may be JSON or the first event of a stream."""
    value = loads(data)
    if value is None:
        lines = (line[5:] for line in data.splitlines() if line.startswith(b"data:"))
        value = next((found for line in lines if (found := loads(line)) is not None), None)
    return errors.http_error(value, status)
