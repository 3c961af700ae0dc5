"""What a model says, independent of any wire: the part of a well-formed stream that every dialect has in common."""

import json
from typing import Any, NamedTuple

from hypothesis import strategies as st

_UNUSUAL = "\u0085\u2028\u2029<["
"""Legal in JSON and a habit of their own, or the beginning of markup that is one: hypothesis finds it in our source."""
_CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters=_UNUSUAL)


class Call(NamedTuple):
    """A tool call: its arguments as the JSON text they are, and where that text is cut."""

    id: str
    name: str
    arguments: str
    pieces: list[str]


class Counts(NamedTuple):
    """Token counts, the cached and the reasoning ones among the others."""

    input: int
    output: int
    cached: int
    reasoning: int


class Answer(NamedTuple):
    """One answer in pieces, as a model produced it."""

    reasoning: list[str]
    text: list[str]
    calls: list[Call]
    counts: Counts

    @property
    def said(self) -> list[tuple[str, str]]:
        """Names and arguments of the calls."""
        return [(call.name, call.arguments) for call in self.calls]


def texts(min_pieces: int = 0) -> st.SearchStrategy[list[str]]:
    """Pieces of a text. None begins like the first, or all of them might be one text that grows."""
    first = st.text(_CHARACTERS, max_size=6).map("A".__add__)
    others = st.lists(st.text(_CHARACTERS, min_size=1, max_size=12).filter(lambda text: text[0] != "A"), max_size=6)
    some = st.builds(lambda head, tail: [head, *tail], first, others)
    return some if min_pieces else some | st.just([])


@st.composite
def _calls(draw: st.DrawFn, number: int) -> Call:
    values = st.none() | st.booleans() | st.integers(-99, 99) | st.text(_CHARACTERS, max_size=8)
    members = draw(
        st.dictionaries(st.text(_CHARACTERS, min_size=1, max_size=4), values | st.lists(values, max_size=2), max_size=3)
    )
    arguments = json.dumps(
        members, ensure_ascii=draw(st.booleans()), separators=draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    )
    cuts = sorted(draw(st.sets(st.integers(1, len(arguments) - 1), max_size=4)))
    pieces = [arguments[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(arguments)], strict=True)]
    return Call(f"call_{number}", draw(st.sampled_from(["get_weather", "f", "search-web"])), arguments, pieces)


@st.composite
def answers(draw: st.DrawFn, *, reasons: bool = True, calls: bool = True) -> Answer:
    """An answer with at least some text or a call."""
    reasoning = draw(texts()) if reasons else []
    called = [draw(_calls(number)) for number in range(draw(st.integers(0, 3)) if calls else 0)]
    text = draw(texts(0 if called else 1))
    thought = draw(st.integers(0, 40)) if reasoning else 0
    counts = Counts(draw(st.integers(1, 9999)), thought + draw(st.integers(1, 500)), 0, thought)
    return Answer(reasoning, text, called, counts._replace(cached=draw(st.integers(0, counts.input))))


def dumps(value: Any, *, ascii_only: bool) -> str:
    """JSON as a server writes it."""
    return json.dumps(value, ensure_ascii=ascii_only, separators=(",", ":"))
