"""Every quirk has a capture that shows it and near misses that must not, each said why, however its reads are cut.

`tests/fixtures/quirks/*.jsonl`: `shows` or `not` names the quirk, `quirks` is the exact set that the capture shows, and
`expect` holds further fields of the report. `corpus` refers to a capture of the corpus, whose set is checked there.
"""

from typing import Any

import msgspec
import pytest

from sidecar.files.capture import Capture, records_of
from sidecar.quirks.registry import BY_ID
from tests.corpus import FIXTURES, body_size, captures, observed, recut
from tests.test_corpus import LARGEST_RECUT, READ_DEPENDENT

QUIRKS = FIXTURES / "quirks"


class Case(msgspec.Struct, forbid_unknown_fields=True):
    """A line of the files."""

    why: str
    shows: str | None = None
    misses: str | None = msgspec.field(default=None, name="not")
    corpus: str | None = None
    quirks: list[str] | None = None
    expect: dict[str, Any] = {}
    capture: Capture | None = None

    @property
    def quirk(self) -> str:
        """The quirk it is about."""
        return self.shows or self.misses or ""

    @property
    def exchange(self) -> Capture:
        """Its own capture or the one it refers to."""
        if self.capture is not None:
            return self.capture
        return captures()[self.corpus or ""]


def _read() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    decode = msgspec.json.Decoder(Case, strict=False).decode
    for path in sorted(QUIRKS.glob("*.jsonl")):
        for line in path.read_bytes().split(b"\n"):  # not splitlines: U+2028 is no line end here
            if line:
                case = decode(line)
                name = case.exchange.id if case.capture else f"{case.quirk}-{case.corpus}"
                assert name not in cases, name
                cases[name] = case
    return cases


CASES = _read()
OWN = {name: case for name, case in CASES.items() if case.capture is not None}
RECUTTABLE = [name for name, case in OWN.items() if 1 < body_size(case.exchange) <= LARGEST_RECUT]


@pytest.mark.parametrize("quirk", BY_ID)
def test_a_quirk_has_a_case_that_shows_it_and_a_near_miss(quirk: str) -> None:
    assert any(case.shows == quirk for case in CASES.values())
    assert any(case.misses == quirk for case in CASES.values())


@pytest.mark.parametrize("name", CASES)
def test_a_case_is_about_one_quirk_and_says_why(name: str) -> None:
    case = CASES[name]
    assert (case.shows is None) != (case.misses is None)
    assert case.quirk in BY_ID
    assert case.why.strip()
    assert (case.capture is None) == (case.quirks is None) == (case.corpus is not None)


@pytest.mark.parametrize("name", CASES)
def test_a_case_shows_what_it_shall_and_nothing_else(name: str) -> None:
    case = CASES[name]
    said = observed(case.exchange)
    assert (case.quirk in said["quirks"]) == (case.shows is not None), case.why
    if case.quirks is not None:
        assert said["quirks"] == sorted(case.quirks), case.why
    assert {field: _comparable(field, said[field]) for field in case.expect} == case.expect, case.why


def _comparable(field: str, value: Any) -> Any:
    if field == "usage" and value is not None:
        return {name: count for name, count in value.items() if name != "source" and count is not None}
    if field == "tool_calls":
        return [{"name": call["name"], "arguments": call["arguments"]} for call in value]
    return value


@pytest.mark.parametrize("name", RECUTTABLE)
def test_a_case_read_byte_by_byte_shows_the_same(name: str) -> None:
    capture = CASES[name].exchange
    every_byte = recut(list(records_of(capture)), list(range(1, body_size(capture))))
    found = set(observed(capture, every_byte)["quirks"])
    assert found - READ_DEPENDENT == set(observed(capture)["quirks"]) - READ_DEPENDENT
