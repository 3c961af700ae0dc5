"""Credentials inside bodies and messages: replaced by asterisks of the same length, whatever else is kept.

Heads and targets come redacted from the proxy. What stands in bodies is found by the names of members (an MCP server's
`authorization`) and by the shapes that vendors give their keys. A key that a model spells out token by token is not.
"""

import re

_NAMES = (
    rb"(?:proxy-)?authorization|(?:x-)?(?:goog-)?api[-_]?key|(?:access|refresh|id|auth|bearer|session|security)[-_]?token"
    rb"|client[-_]?secret|secret(?:[-_]?access)?(?:[-_]?key)?|password|passwd|private[-_]?key|(?:set-)?cookie"
)
_MEMBER = re.compile(rb'(\\*)"(?:' + _NAMES + rb')\1"\s*:\s*\1"((?:(?!\1").){1,8192}?)\1"', re.IGNORECASE | re.DOTALL)
_SHAPES = re.compile(
    rb"\b(?:sk|pk|rk|ek|gsk|xai|hf|nvapi|pplx)[-_][A-Za-z0-9_-]{16,}"
    rb"|\b(?:Bearer|Basic)[ \t]+(?P<scheme>[A-Za-z0-9._~+/-]{12,}=*)"
    rb"|\bAIza[A-Za-z0-9_-]{30,}|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bya29\.[A-Za-z0-9_-]{20,}"
    rb"|\bgh[pousr]_[A-Za-z0-9]{20,}|\bxox[abprs]-[A-Za-z0-9-]{10,}"
    rb"|\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"
    rb"|://(?P<user>[^\s/@\"'<>\\]{1,256}:[^\s/@\"'<>\\]{1,256})@"
    rb"|[?&](?:key|api[-_]?key|access_token|token|sig|signature|X-Amz-(?:Signature|Credential|Security-Token))"
    rb"=(?P<query>[^&\s\"'<>\\]+)",
    re.IGNORECASE,
)


def redact_secrets(data: bytes) -> bytes:
    """The same bytes, of the same length, without what looks like a credential."""
    found = _SHAPES.sub(_starred, data)
    return _MEMBER.sub(lambda match: _blank(match, 2), found)


def _starred(match: re.Match[bytes]) -> bytes:
    return _blank(match, match.lastgroup or 0)


def _blank(match: re.Match[bytes], group: int | str) -> bytes:
    start, end = match.span(group)
    whole, offset = match.group(), match.start()
    return whole[: start - offset] + b"*" * (end - start) + whole[end - offset :]


def redact_pieces(pieces: list[bytes]) -> list[bytes]:
    """The same of a body in pieces: a credential that is cut by a boundary is found, too."""
    whole = b"".join(pieces)
    clean = redact_secrets(whole)
    return pieces if clean == whole else cut_like(clean, pieces)


def cut_like(whole: bytes, pieces: list[bytes]) -> list[bytes]:
    """A body cut where the pieces of another one of the same length are."""
    found: list[bytes] = []
    at = 0
    for piece in pieces:
        found.append(whole[at : at + len(piece)])
        at += len(piece)
    return found
