"""Filler: characters of the same kind and the same length in bytes, in place of what was said.

White space, punctuation and marks that a client or the sidecar looks for stay; letters and digits are drawn at random,
under a key that no recording holds. Zero stays zero, so that no number becomes longer or shorter than it was.
"""

import re
import unicodedata
from collections.abc import Callable
from hashlib import blake2b
from random import Random

from sidecar.record.scrub.lexer import KEY, NUMBER, STRING, WORD, lex
from sidecar.stream.text import THINK_CLOSE, THINK_OPEN, TOOL_MARKUP

KEY_SHAPE = re.compile(r"[A-Za-z_$@][A-Za-z0-9_$@.:/-]{0,63}")
"""Names of members that are kept; what else stands there is content (a map by names of people)."""
LITERALS = frozenset({"true", "false", "null"})

_MARKS = re.compile("|".join(map(re.escape, (THINK_OPEN, THINK_CLOSE, *TOOL_MARKUP, "[DONE]"))))
_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})|\\.|[^\\]+|\\", re.DOTALL)
_EXPONENT = re.compile("[eE]")
_LOWER, _UPPER = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DIGITS = "123456789"
_TWO_BYTES = "àáâãäåæçèéêëìíîïðñòóôõöøùúûüýþ"
_THREE_BYTES = "".join(map(chr, range(0x4E00, 0x4E80)))
_FOUR_BYTES = "".join(map(chr, range(0x1F600, 0x1F640)))
_KEPT_CATEGORIES = ("Z", "C")  # spaces, controls, formats, lone surrogates
_ID_PREFIX = re.compile(
    r"(?:chatcmpl|cmpl|msg|toolu|call|resp|fc|fco|rs|ws|ctc|item|sess|conv|run|step|thread|asst|file|gen|req|event|evt"
    r"|srvtoolu|tooluse|org|proj|user|mcp|mcpl|fs|ci|cu|ig|batch|embd|modr|trace)[-_]"
)
_HEX = re.compile(r"[0-9a-f-]{16,}")
_COUNTED = re.compile(r"[0-9]{0,4}")


def seeded(key: bytes, text: str) -> Random:
    """Chance that is always the same for one text, and that nobody without the key can repeat."""
    digest = blake2b(text.encode("utf-8", "surrogatepass"), key=key, digest_size=32).digest()
    return Random(digest)  # noqa: S311  # filler, seeded by a keyed hash; nothing is derived from what it gives


def fill_text(text: str, chance: Random, marks: re.Pattern[str] = _MARKS) -> str:
    """Filler for plain text; `marks` in it stay."""
    found: list[str] = []
    at = 0
    for mark in marks.finditer(text):
        found += [_fill(text[at : mark.start()], chance), mark.group()]
        at = mark.end()
    return "".join((*found, _fill(text[at:], chance)))


def _fill(text: str, chance: Random) -> str:
    return "".join([_filler(char, chance) for char in text])


def _filler(char: str, chance: Random) -> str:
    if char.isascii():
        if "a" <= char <= "z":
            return _draw(_LOWER, chance)
        if "A" <= char <= "Z":
            return _draw(_UPPER, chance)
        return _draw(_DIGITS, chance) if "1" <= char <= "9" else char
    if char == "\ufffd" or unicodedata.category(char)[0] in _KEPT_CATEGORIES:
        return char
    size = ord(char)
    return _draw(_TWO_BYTES if size < 0x800 else _THREE_BYTES if size < 0x10000 else _FOUR_BYTES, chance)


def _draw(letters: str, chance: Random) -> str:
    return letters[int(chance.random() * len(letters))]


def fill_escaped(text: str, chance: Random) -> str:
    """Filler for what stands between the quotes of a JSON string: escapes stay escapes."""

    def one(match: re.Match[str]) -> str:
        whole = match.group()
        if match.group(1):
            return escape(_filler(chr(int(match.group(1), 16)), chance), whole)
        return whole if whole[0] == "\\" else fill_text(whole, chance)

    return _ESCAPED.sub(one, text)


def escape(char: str, like: str) -> str:
    r"""A character of the basic plane as `\uXXXX`, its digits in the case of another one."""
    digits = f"{ord(char):04x}"
    return "\\u" + (digits.upper() if like[2:] != like[2:].lower() else digits)


def fill_number(text: str, chance: Random) -> str:
    """Filler for a JSON number: as long, as precise, of the same order."""
    exponent = _EXPONENT.search(text)
    end = exponent.start() if exponent else len(text)
    return _fill(text[:end], chance) + text[end:]


def fill_json(text: str, chance: Random) -> str:
    """Filler for JSON, whole or cut off, valid or not: structure, keys and literals stay, and so does validity."""
    fillers: dict[str, Callable[[str, Random], str]] = {
        STRING: fill_escaped,
        KEY: lambda key, chance: key if KEY_SHAPE.fullmatch(key) else fill_escaped(key, chance),
        NUMBER: fill_number,
        WORD: lambda word, chance: word if word in LITERALS else fill_text(word, chance),
    }
    found: list[str] = []
    at = 0
    for token in lex(text):
        found += [text[at : token.start], fillers[token.kind](text[token.start : token.end], chance)]
        at = token.end
    return "".join((*found, text[at:]))


def fill_id(text: str, key: bytes) -> str:
    """Another id of the same shape, always the same for one id; a well-known prefix and a bare count stay."""
    prefix = _ID_PREFIX.match(text)
    begin = prefix.end() if prefix else 0
    rest = text[begin:]
    if _COUNTED.fullmatch(rest):
        return text
    chance = seeded(key, text)
    if _HEX.fullmatch(rest):
        return text[:begin] + "".join(char if char == "-" else _draw("123456789abcdef", chance) for char in rest)
    return text[:begin] + _fill(rest, chance)
