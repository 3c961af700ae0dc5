"""The project's Markdown as data: what is linked, which headings there are, which blocks of code."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).parents[1]
_ELSEWHERE = {".venv", "node_modules", ".git", ".pytest_cache", ".hypothesis", "build", "dist"}
_FENCE = re.compile(r"^(`{3,}|~{3,})([^\n`]*)\n(.*?)^\1[ ]*$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
_LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^()\s<>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
_DEFINED = re.compile(r"^\[[^\]]+\]:\s*(\S+)", re.MULTILINE)
_HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*$", re.MULTILINE)
_ANCHOR = re.compile(r"<a\s+(?:id|name)=\"([^\"]+)\"")


def markdown() -> list[Path]:
    """All of them."""
    found = []
    for folder, folders, files in PROJECT.walk():
        folders[:] = [name for name in folders if name not in _ELSEWHERE and not name.endswith(".egg-info")]
        found += [folder / name for name in files if name.endswith(".md")]
    return sorted(found)


@dataclass(frozen=True)
class Block:
    """A fenced block of code: its first word, the rest of the line, and the text."""

    file: Path
    language: str
    mark: str
    text: str


def blocks(file: Path) -> Iterator[Block]:
    """The blocks of code of a file."""
    for found in _FENCE.finditer(file.read_text(encoding="utf-8")):
        language, _, mark = found[2].strip().partition(" ")
        yield Block(file, language, mark, found[3])


def links(text: str) -> list[str]:
    """Targets of the links in it; in code there are none."""
    prose = _INLINE.sub("`code`", _FENCE.sub("", text))
    return _LINK.findall(prose) + _DEFINED.findall(prose)


def anchors(text: str) -> set[str]:
    """What a link may name behind `#`, as GitHub makes it from the headings."""
    found: set[str] = set()
    prose = _FENCE.sub("", text)
    for _, heading in _HEADING.findall(prose):
        plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")
        again = slug
        number = 0
        while again in found:
            number += 1
            again = f"{slug}-{number}"
        found.add(again)
    return found | set(_ANCHOR.findall(prose))


def command_lines(block: Block) -> list[str]:
    """The lines of a shell block, continued ones joined."""
    return [line.strip() for line in block.text.replace("\\\n", " ").splitlines() if line.strip()]
