"""JSON taken apart without being believed: cut off anywhere, several values in a row, other text between them."""

import re
from collections.abc import Iterator

KEY, STRING, NUMBER, WORD = "key", "string", "number", "word"
"""Kinds of tokens; a word is a literal, or what is no JSON at all."""

_TOKEN = re.compile(
    r'"(?P<string>(?:[^"\\\r\n]|\\[^\r\n])*)(?P<closed>"?)'
    r"|(?P<mark>[{}\[\],])"
    r"|(?P<number>-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![A-Za-z0-9_.]))"
    r"|(?P<word>[^\s\"{}\[\],:]+)"
)
_COLON = re.compile(r"\s*:")
_SHORT = 128
_DEPTH = 200
_TELLING = frozenset(
    {"index", "output_index", "content_index", "contentBlockIndex", "item_id", "response_id", "type", "name", "role"}
)


class Container:
    """An object or array: where it stands, and those of its members that tell what it is."""

    __slots__ = ("count", "is_object", "key", "members", "names", "parent", "position")

    def __init__(self, parent: "Container | None", key: str, *, is_object: bool, position: int) -> None:
        self.parent = parent
        self.key = key
        """Name of the member that holds it, or its nearest array."""
        self.is_object = is_object
        self.position = position
        """Its place in an array; -1 in an object."""
        self.members: dict[str, str] = {}
        self.names: set[str] = set()
        self.count = 0


class Token:
    """`start` and `end` are those of the text, without quotes. `key` names the member that it belongs to."""

    __slots__ = ("container", "end", "key", "kind", "start")

    def __init__(self, kind: str, start: int, end: int, container: Container | None, key: str) -> None:
        self.kind = kind
        self.start = start
        self.end = end
        self.container = container
        self.key = key


def lex(text: str) -> Iterator[Token]:
    """The strings, keys, numbers and words of a text in their order; marks and white space are what is between them."""
    inside: Container | None = None
    depth = 0
    key = ""
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind == "mark":
            mark = match.group()
            if mark in "{[":
                depth += 1
                if depth <= _DEPTH:
                    inside = _opened(inside, key, is_object=mark == "{")
                    key = "" if inside.is_object else inside.key
            elif mark == ",":
                if inside is not None and inside.is_object:
                    key = ""
            else:
                if inside is not None and depth <= _DEPTH:
                    inside = inside.parent
                depth = max(depth - 1, 0)
                key = inside.key if inside is not None and not inside.is_object else ""
        elif kind == "closed":
            start, end = match.span("string")
            if inside is not None and inside.is_object and not key and _is_key(text, match):
                key = text[start:end]
                inside.names.add(key)
                yield Token(KEY, start, end, inside, key)
                continue
            yield _value(STRING, text, start, end, inside, key)
            if not match.group("closed") and match.end() < len(text):
                inside, depth, key = None, 0, ""  # a raw line break: whatever follows is another line
        else:
            assert kind is not None
            yield _value(NUMBER if kind == "number" else WORD, text, *match.span(kind), inside, key)


def _is_key(text: str, match: re.Match[str]) -> bool:
    return not match.group("closed") or match.end() == len(text) or _COLON.match(text, match.end()) is not None


def _opened(parent: Container | None, key: str, *, is_object: bool) -> Container:
    position = -1
    if parent is not None and not parent.is_object:
        position = parent.count
        parent.count += 1
    return Container(parent, key, is_object=is_object, position=position)


def _value(kind: str, text: str, start: int, end: int, inside: Container | None, key: str) -> Token:
    if inside is not None and inside.is_object and key in _TELLING and end - start <= _SHORT:
        inside.members.setdefault(key, text[start:end])
    return Token(kind, start, end, inside, key)
