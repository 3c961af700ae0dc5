"""The generated page of metrics is the table's."""

from pathlib import Path

from sidecar.export.document import markdown

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text(encoding="utf-8") == markdown(), "docs/metrics.md is stale: run `make docs`"
