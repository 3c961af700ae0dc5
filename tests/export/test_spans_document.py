"""The generated page of spans is the table's."""

from pathlib import Path

from sidecar.export.spans_document import markdown

PAGE = Path(__file__).parents[2] / "docs" / "spans.md"


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == markdown(), "docs/spans.md is stale: run `make docs`"
