"""Filler for texts that come in pieces: pieces of one text get filler of one piece, and what is said twice stays equal.

A lane holds the pieces of one text in the order of their arrival. Where each piece repeats the one before and goes on,
the last one is the text. A text that was said before, in part or with more around it (a snapshot of what was streamed,
a prompt that is echoed), keeps its filler.
"""

import itertools
from collections import deque
from collections.abc import Hashable

from sidecar.record.scrub.filler import fill_id, fill_json, fill_text, seeded

_TELLING_CHARS = 8
"""Characters from which on a text inside another one is no coincidence."""
_COMPARED = 64  # texts that a further one is compared with


class Strand:
    """A piece of text; `filled` once the loom has woven."""

    __slots__ = ("filled", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.filled = text


class _Lane:
    __slots__ = ("is_json", "strands")

    def __init__(self) -> None:
        self.strands: list[Strand] = []
        self.is_json = False


class Loom:
    """Pieces in, in the order of the wire; filler out. `key` is secret: equal texts have equal filler under one key."""

    def __init__(self, key: bytes) -> None:
        self.key = key
        self._lanes: dict[Hashable, _Lane] = {}
        self._filled: dict[str, str] = {}
        self._latest: deque[str] = deque(maxlen=_COMPARED)

    def note(self, lane: Hashable, text: str, *, is_json: bool = False) -> Strand:
        """A further piece of a lane. `is_json`: the lane is JSON, whatever it begins with."""
        strand = Strand(text)
        found = self._lanes.get(lane)
        if found is None:
            found = self._lanes[lane] = _Lane()
        found.strands.append(strand)
        found.is_json = found.is_json or is_json
        return strand

    def id(self, text: str) -> str:
        """Filler for an id."""
        return fill_id(text, self.key)

    def weave(self) -> None:
        """Fill all pieces."""
        for lane in self._lanes.values():
            texts = [strand.text for strand in lane.strands]
            if _grows(texts):
                whole = self._fill(texts[-1], is_json=lane.is_json)
                for strand in lane.strands:
                    strand.filled = whole[: len(strand.text)]
                continue
            whole = self._fill("".join(texts), is_json=lane.is_json)
            at = 0
            for strand in lane.strands:
                strand.filled = whole[at : at + len(strand.text)]
                at += len(strand.text)

    def _fill(self, text: str, *, is_json: bool) -> str:
        known = self._filled.get(text)
        if known is not None:
            return known
        chance = seeded(self.key, text)
        if is_json or text.lstrip()[:1] in ("{", "["):
            filled = fill_json(text, chance)
        else:
            filled = self._as_before(text, fill_text(text, chance))
        self._filled[text] = filled
        self._latest.append(text)
        return filled

    def _as_before(self, text: str, filled: str) -> str:
        for before in self._latest:
            then = self._filled[before]
            if len(before) > 1 and text.startswith(before):
                filled = then + filled[len(before) :]
            if min(len(text), len(before)) < _TELLING_CHARS:
                continue
            if (at := before.find(text)) >= 0:
                return then[at : at + len(text)]
            if (at := text.find(before)) >= 0:
                filled = filled[:at] + then + filled[at + len(before) :]
        return filled


def _grows(texts: list[str]) -> bool:
    """Whether each piece repeats the one before, and at least one goes on from there."""
    if len(texts) < 2 or len(texts[-1]) <= len(texts[0]) or not texts[0]:
        return False
    return all(later.startswith(before) for before, later in itertools.pairwise(texts))
