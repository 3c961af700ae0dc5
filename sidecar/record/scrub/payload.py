"""One payload (an event, a message, a whole body): what of it is content, and the payload with filler in its place.

Lengths in bytes stay as they are. Payloads are handled as Latin-1 text, in which one character is one byte.
"""

import base64
import binascii
import re
from collections.abc import Callable

from sidecar.record.scrub.filler import KEY_SHAPE, LITERALS, escape, fill_number, seeded
from sidecar.record.scrub.lexer import KEY, NUMBER, WORD, Container, Token, lex
from sidecar.record.scrub.loom import Loom, Strand
from sidecar.record.scrub.vocabulary import ARGUMENTS, ID, KEPT, judge

type Edit = tuple[int, int, Callable[[], str]]
"""Start, end, and what takes the place of what is between, once the loom has woven."""

_ATOM = re.compile(
    r"(?P<pair>\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|\\u(?P<code>[0-9a-fA-F]{4})"
    r"|(?P<escape>\\.?)"
    r"|(?P<wide>[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3})"
    r"|(?P<plain>[\x00-\x5b\x5d-\x7f]+)"
    r"|(?P<bad>.)",
    re.DOTALL,
)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
_BASE64 = re.compile(r"[A-Za-z0-9+/]{8,}={0,2}")
_FOREIGN = frozenset({"DONE", "data", "event", "id", "retry", "error", "message", "ping"})
"""Words outside of JSON that are kept: a sentinel, names of fields that strayed into the data."""
_INDEXES = ("index", "output_index", "content_index", "contentBlockIndex", "item_id", "response_id")


class Payload:
    """Finds the content of one payload and notes it at the loom. `origin` tells streams of payloads apart."""

    def __init__(self, data: bytes, loom: Loom, origin: str) -> None:
        self._text = data.decode("latin-1")
        self._loom = loom
        self._origin = origin
        self._edits: list[Edit] = []
        for token in list(lex(self._text)):
            self._look_at(token)

    def filled(self) -> bytes:
        """The payload with filler, of the same length. Only after the loom has woven."""
        found: list[str] = []
        at = 0
        for start, end, edit in self._edits:
            found += [self._text[at:start], edit()]
            at = end
        return "".join((*found, self._text[at:])).encode("latin-1")

    def _look_at(self, token: Token) -> None:
        raw = self._text[token.start : token.end]
        if token.kind == KEY:
            if not KEY_SHAPE.fullmatch(raw):
                self._note(token, raw, ("key",))
        elif token.kind == WORD:
            if raw not in LITERALS and not self._is_sentinel(token, raw):
                self._note(token, raw, ("word",))
        else:
            self._value(token, raw)

    def _is_sentinel(self, token: Token, raw: str) -> bool:
        cut = bool(raw) and "DONE".startswith(raw) and self._text[token.start - 1 : token.start] == "["
        return raw in _FOREIGN or cut

    def _value(self, token: Token, raw: str) -> None:
        what = judge(token, raw)
        if what == KEPT:
            return
        if token.kind == NUMBER:
            chance = seeded(self._loom.key, f"{token.start} {raw}")
            self._edits.append((token.start, token.end, lambda: fill_number(raw, chance)))
        elif what == ID:
            self._edits.append((token.start, token.end, lambda: self._loom.id(raw)))
        elif token.key == "bytes" and (inner := _base64_json(raw)) is not None:
            nested = Payload(inner, self._loom, f"{self._origin} bytes")
            self._edits.append((token.start, token.end, lambda: base64.b64encode(nested.filled()).decode("ascii")))
        else:
            self._note(token, raw, _lane(token))

    def _note(self, token: Token, raw: str, lane: tuple[str, ...]) -> None:
        atoms = _atoms(raw)
        text = "".join(char for _, char in atoms)
        spelled = lane[0] if lane else ""
        is_json = token.key in ARGUMENTS or (token.key == "delta" and "arguments" in spelled)
        strand = self._loom.note((self._origin, *lane), text, is_json=is_json)
        self._edits.append((token.start, token.end, lambda: _spell(atoms, strand)))


def _lane(token: Token) -> tuple[str, ...]:
    """Where a text stands, so that its pieces in later events are found to be of it."""
    path: list[str] = [token.key]
    inside: Container | None = token.container
    root = inside
    while inside is not None:
        root = inside
        indexes = [f"{name}={inside.members[name]}" for name in _INDEXES if name in inside.members]
        path += indexes or ([str(inside.position)] if inside.position >= 0 else [])
        path.append(inside.key)
        inside = inside.parent
    kind = root.members.get("type", "") if root is not None else ""
    return (kind, *path)


def _atoms(raw: str) -> list[tuple[str, str]]:
    """What a string consists of: each piece as it is spelled, and the characters that it stands for."""
    found: list[tuple[str, str]] = []
    for match in _ATOM.finditer(raw):
        spelled = match.group()
        kind = match.lastgroup
        if kind == "plain":
            found.append((spelled, spelled))
        elif kind == "pair":
            high, low = int(spelled[2:6], 16), int(spelled[8:12], 16)
            found.append((spelled, chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))))
        elif kind == "code":
            found.append((spelled, chr(int(match.group("code"), 16))))
        elif kind == "escape":
            found.append((spelled, _ESCAPES.get(spelled[1:], spelled[1:] if spelled[1:] in '"\\/' else "") or "\ufffd"))
        elif kind == "wide":
            try:
                found.append((spelled, spelled.encode("latin-1").decode()))
            except UnicodeDecodeError:
                found.append((spelled, "\ufffd" * len(spelled)))
        else:
            found.append((spelled, "\ufffd"))
    return found


def _spell(atoms: list[tuple[str, str]], strand: Strand) -> str:
    """The filler, spelled as the text was."""
    filled = strand.filled
    found: list[str] = []
    at = 0
    for spelled, chars in atoms:
        new = filled[at : at + len(chars)]
        at += len(chars)
        if new == chars:
            found.append(spelled)
        elif spelled[0] != "\\":
            found.append(new if new.isascii() else new.encode().decode("latin-1"))
        elif len(spelled) == 6:
            found.append(escape(new, spelled))
        else:
            code = ord(new) - 0x10000
            pair = chr(0xD800 + (code >> 10)), chr(0xDC00 + (code & 0x3FF))
            found.append(escape(pair[0], spelled[:6]) + escape(pair[1], spelled[6:]))
    return "".join(found)


def _base64_json(raw: str) -> bytes | None:
    """The JSON that a string holds in base64; None where it holds none."""
    if not _BASE64.fullmatch(raw):
        return None
    try:
        data = base64.b64decode(raw, validate=True)
    except binascii.Error:
        return None
    return data if data[:1] in (b"{", b"[") and base64.b64encode(data).decode("ascii") == raw else None
