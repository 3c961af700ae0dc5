"""Credentials inside bodies and messages: replaced by asterisks of the same length, whatever else is kept.

Heads and targets come redacted from the proxy. What stands in bodies is found by the names of members (an MCP server's
`authorization`) and by the shapes that vendors give their keys. A key that a model spells out token by token is not.
"""

import re
from collections.abc import Iterator

_NAMES = (
    rb"(?:proxy-)?authorization|(?:x-)?(?:goog-)?api[-_]?key|(?:access|refresh|id|auth|bearer|session|security)[-_]?token"
    rb"|client[-_]?secret|secret(?:[-_]?access)?(?:[-_]?key)?|password|passwd|private[-_]?key|(?:set-)?cookie"
)
_MEMBER = re.compile(
    rb'(\\*)"(?:' + _NAMES + rb')\1"\s*:\s*\1"(?P<secret>(?:(?!\1").){1,8192}?)\1"', re.IGNORECASE | re.DOTALL
)
_IN_MEMBERS = (
    *(b"authorization", b"api_key", b"api-key", b"apikey", b"_token", b"-token", b"esstoken", b"eshtoken", b"idtoken"),
    *(b"authtoken", b"rertoken", b"iontoken", b"itytoken", b"secret", b"password", b"passwd", b"private", b"cookie"),
)
"""One of these is in each of the names, in lower case."""

_KEY = re.compile(rb"(?<![A-Za-z0-9])(?P<secret>(?:sk|pk|rk|ek|gsk|xai|hf|nvapi|pplx)[-_][A-Za-z0-9_-]{16,})")
_SCHEME = re.compile(rb"\b(?:Bearer|Basic)[ \t]+(?P<secret>[A-Za-z0-9._~+/-]{12,}=*)", re.IGNORECASE)
_USER = re.compile(rb"://(?P<secret>[^\s/@\"'<>\\]{1,256}:[^\s/@\"'<>\\]{1,256})@")
_QUERY = re.compile(
    rb"[?&](?:key|api[-_]?key|access_token|token|sig|signature|X-Amz-(?:Signature|Credential|Security-Token))"
    rb"=(?P<secret>[^&\s\"'<>\\]+)",
    re.IGNORECASE,
)
_SHAPES: tuple[tuple[re.Pattern[bytes], tuple[bytes, ...]], ...] = (
    (_KEY, tuple(b"%s%s" % (name, mark) for name in b"sk pk rk ek xai hf nvapi pplx".split() for mark in (b"-", b"_"))),
    (_KEY, (b"gsk_", b"gsk-")),
    (_SCHEME, (b"bearer ", b"basic ", b"bearer\t", b"basic\t")),
    (re.compile(rb"(?P<secret>AIza[A-Za-z0-9_-]{30,})"), (b"aiza",)),
    (re.compile(rb"\b(?P<secret>(?:AKIA|ASIA)[A-Z0-9]{16})\b"), (b"akia", b"asia")),
    (re.compile(rb"(?P<secret>ya29\.[A-Za-z0-9_-]{20,})"), (b"ya29.",)),
    (re.compile(rb"(?P<secret>gh[pousr]_[A-Za-z0-9]{20,})"), (b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_")),
    (re.compile(rb"(?P<secret>xox[abprs]-[A-Za-z0-9-]{10,})"), (b"xoxa-", b"xoxb-", b"xoxp-", b"xoxr-", b"xoxs-")),
    (
        re.compile(rb"(?P<secret>eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,})"),
        (b"eyj",),
    ),
    (_USER, (b"://",)),
)
"""Shapes, and what each begins with, in lower case. Looked for one by one, because a search for a fixed text is quick,
and one for any of many holds up every thread of the process for as long as it takes."""
_IN_QUERIES = (b"key=", b"token=", b"sig=", b"signature=", b"credential=")
_LONGEST_NAME = 64


def redact_secrets(data: bytes) -> bytes:
    """The same bytes, of the same length, without what looks like a credential."""
    spans = sorted(_spans(data, data.lower()))
    if not spans:
        return data
    found = bytearray(data)
    for start, end in spans:
        found[start:end] = b"*" * (end - start)
    return bytes(found)


def _spans(data: bytes, lower: bytes) -> Iterator[tuple[int, int]]:
    for shape, beginnings in _SHAPES:
        for beginning in beginnings:
            for at in _places(lower, beginning):
                if match := shape.match(data, at):
                    yield match.span("secret")
    for part in _IN_QUERIES:
        for at in _places(lower, part):
            floor = max(at - _LONGEST_NAME, 0)
            begin = max(data.rfind(b"?", floor, at), data.rfind(b"&", floor, at))
            if begin >= 0 and (match := _QUERY.match(data, begin)):
                yield match.span("secret")
    for part in _IN_MEMBERS:
        for at in _places(lower, part):
            quote = data.rfind(b'"', max(at - _LONGEST_NAME, 0), at)
            if quote < 0:
                continue
            while quote > 0 and data[quote - 1 : quote] == b"\\":
                quote -= 1
            if match := _MEMBER.match(data, quote):
                yield match.span("secret")


def _places(data: bytes, part: bytes) -> Iterator[int]:
    at = data.find(part)
    while at >= 0:
        yield at
        at = data.find(part, at + 1)


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
