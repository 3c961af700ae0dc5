"""Recordings of both sides of a hop, compared by `inspect`."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sidecar.capture.records import Chunk, Opened, RequestBody, ResponseHead
from sidecar.cli import cli
from sidecar.files.hops import several_servers
from tests.taps import MS, START, Tap, inside

PACED = tuple(100.0 + 20 * number for number in range(20))
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
OUTER = Tap(tokens=(600.0,) * 20, end=600)
INNER = inside(Tap(tokens=PACED, end=600), usage=False)


def line(tap: Tap, **changes: Any) -> str:
    """A tap as a line of a capture file."""
    records = list(tap.records())
    opened = next(record for record in records if isinstance(record, Opened))
    head = next(record for record in records if isinstance(record, ResponseHead))
    body = b"".join(record.data for record in records if isinstance(record, RequestBody))
    capture = {
        "v": 1,
        "id": tap.id,
        "started_at": (BEGAN + timedelta(milliseconds=tap.opened)).isoformat(),
        "request": {
            "method": "POST",
            "url": f"http://{opened.host}:{opened.port}{opened.target}",
            "headers": opened.headers,
            "body": {"text": body.decode()},
        },
        "response": {"status": head.status, "headers": head.headers},
        "chunks": [
            {"at_ms": (record.at - START) / MS - tap.opened, "text": record.data.decode()}
            for record in records
            if isinstance(record, Chunk)
        ],
        "end": {"kind": tap.kind, "at_ms": tap.end - tap.opened},
    }
    return json.dumps(capture | changes)


def inspect(*arguments: str | Path) -> str:
    result = CliRunner().invoke(cli, ["inspect", *map(str, arguments)], standalone_mode=False)
    assert result.exception is None or result.exception.code == 0, result.output  # type: ignore[attr-defined]  # SystemExit
    return result.output


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    file = tmp_path / "both.jsonl"
    file.write_text("\n".join([line(INNER), line(OUTER)]))
    return file


def test_the_outer_side_says_what_the_hop_did(recording: Path) -> None:
    inner, outer = (json.loads(row) for row in inspect("--json", recording).splitlines())
    assert (inner["id"], outer["id"]) == ("inner-1", "outer-1")
    assert "hop" not in inner
    hop = outer.pop("hop")
    assert outer.keys() == inner.keys()
    assert hop["joined_by"] == "response_id"
    assert hop["added_first_token_ms"] == pytest.approx(501, abs=0.01)
    assert hop["request_delay_ms"] == pytest.approx(2, abs=0.01)
    assert hop["gap_ratio"] == 0
    assert hop["outer"]["server"] == "gateway:8000"
    assert (hop["inner"]["id"], hop["inner"]["server"]) == ("inner-1", "upstream:9000")
    assert (hop["inner"]["gaps_ms"]["p50"], hop["inner"]["gaps_below_1ms"]) == (20.0, 0.0)
    assert {"usage_added", "bytes_changed", "buffering_appeared", "gaps_compressed"} == set(hop["changes"])
    assert hop["quirks_added"] == ["buffered_delivery", "empty_choices_usage_chunk"]


def test_the_text_report_has_it_below_the_outer_side(recording: Path) -> None:
    said = inspect(recording)
    assert said.index("inner-1  COMPLETE") < said.index("outer-1  COMPLETE") < said.index("  hop gateway:8000 > ")
    assert "upstream's side inner-1 (by the response id): first token +501.0 ms, request +2.0 ms, end +1.0 ms" in said
    assert "gaps p50 20.0 > 0.0 ms, below 1 ms 0% > 100%, buffering none > buffered" in said
    assert "quirks added: buffered_delivery" in said


def test_both_sides_may_be_in_files_of_their_own(tmp_path: Path) -> None:
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    one.write_text(line(OUTER))
    other.write_text(line(INNER))
    assert not several_servers([one])
    assert several_servers([one, other])
    outer, _ = (json.loads(row) for row in inspect("--json", one, other).splitlines())
    assert outer["hop"]["inner"]["id"] == "inner-1"


def test_recordings_of_unknown_date_or_of_another_day_are_not_joined(tmp_path: Path) -> None:
    file = tmp_path / "both.jsonl"
    for changes in ({"started_at": ""}, {"started_at": "2026-01-02T00:00:00Z"}):
        file.write_text("\n".join([line(INNER, **changes), line(OUTER)]))
        assert '"hop"' not in inspect("--json", file)


def test_one_id_in_several_exchanges_is_no_obstacle(tmp_path: Path) -> None:
    file = tmp_path / "both.jsonl"
    file.write_text("\n".join([line(INNER, id="same"), line(OUTER, id="same")]))
    _, outer = (json.loads(row) for row in inspect("--json", file).splitlines())
    assert outer["hop"]["inner"]["id"] == "same"


def test_a_damaged_line_is_no_server(tmp_path: Path) -> None:
    file = tmp_path / "both.jsonl"
    file.write_text("{}\nnope\n" + '{"request":{"url":"http://[broken"}}\n' + line(OUTER))
    assert not several_servers([file, tmp_path, tmp_path / "missing"])
