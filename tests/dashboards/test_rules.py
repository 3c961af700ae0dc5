"""The alert rules: fresh, sound, each with a test that fires, one that stays quiet, and one that resolves; a runbook."""

import re
import subprocess
from functools import cache
from typing import Any

import pytest
import yaml

from dashboards.generator.recording import recordings
from dashboards.generator.rules import groups, rule_files
from dashboards.generator.thresholds import THRESHOLDS
from sidecar.metrics import ANALYZER_LAG, MILESTONES
from sidecar.stream.phases import PHASES
from tests.dashboards.expressions import DASHBOARDS, PROJECT, RULE_FILES, RULE_TESTS, rules
from tests.parts import require_program

ALERTS = {rule["alert"]: rule for rule in rules("alert")}
HOW = "apt-get install prometheus"
SECTIONS = ["What it means for users", "Confirm", "Usual causes", "What to do"]
LAST = {"What to send to the provider", "What to send to the sidecar's maintainers"}


@cache
def _rule_cases() -> list[dict[str, Any]]:
    """All of promtool's tests, in all files; to read them takes a second."""
    return [test for path in RULE_TESTS for test in yaml.safe_load(path.read_text(encoding="utf-8"))["tests"]]


def _cases(alert: str) -> list[list[bool]]:
    """For each test of an alert: whether it is expected to fire, in the order of time."""
    found = []
    for test in _rule_cases():
        steps = [bool(step["exp_alerts"]) for step in test["alert_rule_test"] if step["alertname"] == alert]
        found += [steps] if steps else []
    return found


def test_the_files_are_fresh() -> None:
    committed = {path.name: path.read_text(encoding="utf-8") for path in RULE_FILES}
    assert committed == rule_files(THRESHOLDS), "dashboards/alerts is stale: run `make dashboards`"


def test_promtool_finds_nothing_to_say() -> None:
    promtool = require_program("promtool", HOW)
    answer = subprocess.run([promtool, "check", "rules", *map(str, RULE_FILES)], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.parametrize("path", RULE_TESTS, ids=lambda path: path.stem)
def test_rules_do_what_their_tests_say(path: Any) -> None:
    promtool = require_program("promtool", HOW)
    answer = subprocess.run([promtool, "test", "rules", path.name], cwd=path.parent, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.parametrize("alert", ALERTS)
def test_tests_show_each_alert_firing_quiet_and_resolved(alert: str) -> None:
    cases = _cases(alert)
    assert any(steps[0] is False and True in steps and steps[-1] is False for steps in cases), "fires and resolves"
    assert any(True not in steps for steps in cases), "stays quiet"


@pytest.mark.parametrize("alert", ALERTS)
def test_each_alert_has_a_runbook(alert: str) -> None:
    rule = ALERTS[alert]
    path = PROJECT / "docs" / "runbooks" / f"{alert}.md"
    assert rule["annotations"]["runbook_url"] == f"{THRESHOLDS.runbooks}/{path.name}"
    text = path.read_text(encoding="utf-8")
    assert text.startswith(f"# {alert}\n")
    *titles, last = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert titles == SECTIONS
    assert last in LAST
    assert f"Severity `{rule['labels']['severity']}`." in text
    assert "```promql" in text
    assert re.search(r"^(curl|sidecar|journalctl|top) ", text, re.MULTILINE), "a command to confirm it with"


def test_no_runbook_is_left_over() -> None:
    pages = {path.stem for path in (PROJECT / "docs" / "runbooks").glob("LLM*.md")}
    assert pages == set(ALERTS)
    index = (PROJECT / "docs" / "runbooks" / "README.md").read_text(encoding="utf-8")
    assert [alert for alert in ALERTS if f"({alert}.md)" not in index] == []


@pytest.mark.parametrize("alert", ALERTS)
def test_texts_name_only_labels_that_are_left(alert: str) -> None:
    rule = ALERTS[alert]
    named = set(re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())))
    tested = [
        step["exp_alerts"]
        for test in _rule_cases()
        for step in test["alert_rule_test"]
        if step["alertname"] == alert and step["exp_alerts"]
    ]
    assert any(named <= set(expected["exp_labels"]) for firing in tested for expected in firing)


def test_names_are_unique_and_severities_known() -> None:
    names = [alert.name for group in groups(THRESHOLDS) for alert in group.alerts]
    names += [rule.series.name for rule in recordings(THRESHOLDS)]
    assert len(names) == len(set(names))
    assert {rule["labels"]["severity"] for rule in ALERTS.values()} == {"critical", "warning", "info"}


def test_limits_are_bounds_of_the_buckets_they_are_compared_with() -> None:
    assert THRESHOLDS.first_token_seconds in MILESTONES.buckets
    assert THRESHOLDS.analyzer_lag_seconds in ANALYZER_LAG.buckets


def test_every_phase_has_an_alert() -> None:
    assert tuple(THRESHOLDS.hung_for) == PHASES
    hung = [rule["expr"] for rule in ALERTS.values()]
    assert [phase for phase in PHASES if not any(f'phase="{phase}"' in expr for expr in hung)] == []


def test_each_rule_group_has_a_test_file() -> None:
    alerting = {path.name.removesuffix(".rules.yml") for path in RULE_FILES} - {"llm-recording"}
    assert {path.name.partition(".")[0] for path in RULE_TESTS} == alerting
    assert (DASHBOARDS / "alerts").is_dir()
