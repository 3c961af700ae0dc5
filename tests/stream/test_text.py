"""Text in pieces: characters counted, and surrogate pairs that an endpoint cut in two."""

import pytest

from sidecar.stream.text import TextLog


@pytest.mark.parametrize(
    ("pieces", "text", "chars"),
    [
        (["caf", "é 🪁"], "café 🪁", 6),
        (["a\ud83e", "\ude81b"], "a🪁b", 3),
        (["a\ud83e", "", "\ude81b"], "a🪁b", 3),
        (["\ud83e", "\ude81\ud83e", "\ude81"], "🪁🪁", 2),
        (["a\ud83e", "b"], "a�b", 3),
        (["a\ud83e", "！"], "a�！", 3),
        (["a", "\ude81b"], "a�b", 3),
    ],
)
def test_characters_are_those_of_the_joined_text(pieces: list[str], text: str, chars: int) -> None:
    log = TextLog(limit=100)
    for piece in pieces:
        log.add(piece, 0)
    assert (log.text(), log.chars()) == (text, chars)


def test_halves_in_different_choices_are_no_pair() -> None:
    log = TextLog(limit=100)
    log.add("\ud83e", 0)
    log.add("\ude81", 1)
    assert (log.chars(0), log.chars(1)) == (1, 1)
    assert "lone_surrogate" in log.marks
