"""What an upstream has shown before, and what is therefore new."""

import json
import logging
from pathlib import Path

import pytest

from sidecar import metrics as m
from sidecar.analyzer import Analyzer
from sidecar.config import Settings
from sidecar.quirks.memory import QuirkMemory
from tests.test_analyzer import Clock, whole

UPSTREAM = ("openai", "m", "host:443")


def test_the_first_exchange_is_the_baseline_and_each_later_quirk_is_new_once() -> None:
    memory = QuirkMemory()
    assert memory.learn(UPSTREAM, ("role_prelude_chunk",)) == []
    assert memory.learn(UPSTREAM, ("role_prelude_chunk", "terminator_missing", "null_delta")) == [
        "null_delta",
        "terminator_missing",
    ]
    assert memory.learn(UPSTREAM, ("terminator_missing",)) == []
    assert memory.learn(("openai", "m2", "host:443"), ("terminator_missing",)) == []


def test_upstreams_beyond_the_bound_are_forgotten_the_least_recent_first() -> None:
    memory = QuirkMemory(kept=2)
    for name in ("a", "b"):
        memory.learn(("p", name, "s"), ("null_delta",))
    memory.learn(("p", "a", "s"), ())
    memory.learn(("p", "c", "s"), ())
    assert memory.known(("p", "a", "s")) == {"null_delta"}
    assert memory.known(("p", "b", "s")) == frozenset()


def test_it_survives_a_restart_and_writes_only_what_changed(tmp_path: Path) -> None:
    memory = QuirkMemory(tmp_path / "state")
    memory.learn(UPSTREAM, ("null_delta",))
    memory.save()
    again = QuirkMemory(tmp_path / "state")
    assert again.known(UPSTREAM) == {"null_delta"}
    assert not again.changed
    assert again.learn(UPSTREAM, ("null_delta", "terminator_missing")) == ["terminator_missing"]
    assert again.changed


@pytest.mark.parametrize("damage", [b"", b"{", b'{"version":99,"upstreams":[]}', b"[]", b"\xff\xfe"])
def test_a_damaged_file_is_put_aside_and_said_so(
    tmp_path: Path, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "quirks.json").write_bytes(damage)
    memory = QuirkMemory(tmp_path)
    assert memory.learn(UPSTREAM, ()) == []
    assert "put aside" in caplog.text
    assert (tmp_path / "quirks.damaged").read_bytes() == damage
    memory.save()
    assert json.loads((tmp_path / "quirks.json").read_bytes())["version"] == 1


def test_a_disk_that_refuses_is_no_obstacle(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("in the way")
    memory = QuirkMemory(tmp_path / "file")
    memory.learn(UPSTREAM, ("null_delta",))
    memory.save()
    assert memory.changed
    assert "cannot save" in caplog.text


def test_a_new_quirk_is_counted_with_its_severity_and_logged_in_one_structured_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    analyzer = Analyzer(Settings(), clock)
    analyzer.receive(1, whole(clock, 1))
    without_done = [record for record in whole(clock, 2) if b"[DONE]" not in getattr(record, "data", b"")]
    with caplog.at_level(logging.WARNING):
        analyzer.receive(1, without_done)
        analyzer.receive(1, [record for record in whole(clock, 3) if b"[DONE]" not in getattr(record, "data", b"")])
    found = {labels[-2:]: value for labels, value, _ in analyzer.series.values(m.NEW_QUIRKS)}
    assert found == {("terminator_missing", "breaks_clients"): 1}
    (line,) = [json.loads(record.getMessage()) for record in caplog.records if "new_quirk" in record.getMessage()]
    assert (line["quirk"], line["model"], line["exchange"]) == ("terminator_missing", "m-test", "id-2")
