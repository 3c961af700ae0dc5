"""Every expression of every rule, panel and runbook parses, and uses only names and labels that exist."""

import re
import subprocess
from collections import Counter
from pathlib import Path

import promql_parser
import pytest
import yaml

from tests.dashboards.expressions import all_expressions, of_panels, of_rules, of_runbooks
from tests.dashboards.promql import FOREIGN, PUBLISHED, faults, labels_left
from tests.parts import require_program

ALL = all_expressions()


def test_there_are_expressions_everywhere() -> None:
    assert len(list(of_rules())) > 30
    assert len(list(of_panels())) > 60
    assert len(list(of_runbooks())) > 20


def test_prometheus_parses_all_of_them(tmp_path: Path) -> None:
    promtool = require_program("promtool", "apt-get install prometheus")
    rules = [{"record": f"test:number_{number}", "expr": each.text} for number, each in enumerate(ALL)]
    file = tmp_path / "all.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": rules}]}))
    answer = subprocess.run([promtool, "check", "rules", str(file)], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert f"{len(ALL)} rules found" in answer.stdout


def test_names_and_labels_exist() -> None:
    wrong = {each.where: found for each in ALL if (found := faults(each.text))}
    assert wrong == {}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("llm_streams", "nothing publishes llm_streams"),
        ('llm_streams_total{model="x"}', "llm_streams_total has no label model"),
        ("llm_stream_milestone_seconds", "nothing publishes llm_stream_milestone_seconds"),
        ("sum by (phase) (llm_streams_total)", "has the label phase"),
        ("llm_streams_total / on (quirk) llm_streams_stalled", "has the label quirk"),
        ('rate(llm_streams_total{le="5"}[5m])', "llm_streams_total has no label le"),
    ],
)
def test_the_linter_finds_what_is_wrong(text: str, fault: str) -> None:
    assert any(fault in found for found in faults(text)), faults(text)


def test_legends_name_labels_that_are_left() -> None:
    wrong = {
        each.where: names - labels_left(promql_parser.parse(each.text))
        for each in of_panels()
        if (names := set(re.findall(r"\{\{ *(\w+) *\}\}", each.legend)))
    }
    assert {where: names for where, names in wrong.items() if names} == {}


def test_every_foreign_name_is_used() -> None:
    used = " ".join(each.text for each in ALL)
    assert [name for name in FOREIGN if name not in used] == []


def test_every_recording_is_used() -> None:
    used = Counter(name for each in ALL for name in PUBLISHED if ":" in name and name in each.text)
    assert [name for name in PUBLISHED if ":" in name and name not in FOREIGN and not used[name]] == []
