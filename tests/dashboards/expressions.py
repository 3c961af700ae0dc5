"""Every PromQL expression that the project ships: in rules, panels and runbooks, with where it stands."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

PROJECT = Path(__file__).parents[2]
DASHBOARDS = PROJECT / "dashboards"
RULE_FILES = sorted((DASHBOARDS / "alerts").glob("*.rules.yml"))
RULE_TESTS = sorted((DASHBOARDS / "alerts" / "tests").glob("*.test.yml"))
BOARD_FILES = sorted((DASHBOARDS / "grafana").glob("*.json"))
RUNBOOKS = sorted((PROJECT / "docs" / "runbooks").glob("LLM*.md"))

_PROMQL_BLOCK = re.compile(r"^```promql\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INTERVALS = {"$__rate_interval": "1m", "$__interval": "1m", "$__range": "15m"}


@dataclass(frozen=True)
class Expression:
    """One expression as Prometheus takes it: variables that stand for durations are filled in."""

    where: str
    text: str
    legend: str = ""


def rules(kind: str) -> list[dict[str, Any]]:
    """All rules that have this key: `alert` or `record`."""
    found = []
    for path in RULE_FILES:
        for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]:
            found += [rule for rule in group["rules"] if kind in rule]
    return found


def of_rules() -> Iterator[Expression]:
    """Expressions of recording and alerting rules."""
    for kind in ("record", "alert"):
        for rule in rules(kind):
            yield Expression(rule[kind], rule["expr"])


def board_panels(board: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The panels of a dashboard, those of collapsed rows included."""
    for panel in board["panels"]:
        yield panel
        yield from panel.get("panels", ())


def of_panels() -> Iterator[Expression]:
    """Expressions of the panels of all dashboards, and of their variables."""
    for path in BOARD_FILES:
        board = json.loads(path.read_text(encoding="utf-8"))
        for panel in board_panels(board):
            for target in panel.get("targets", ()):
                where = f"{path.stem}: {panel['title']}: {target['refId']}"
                yield Expression(where, filled_in(target["expr"]), target.get("legendFormat") or "")


def of_runbooks() -> Iterator[Expression]:
    """Expressions in blocks marked promql; a blank line stands between two."""
    for path in RUNBOOKS:
        for block in _PROMQL_BLOCK.findall(path.read_text(encoding="utf-8")):
            for text in block.strip().split("\n\n"):
                yield Expression(path.name, text)


def filled_in(text: str) -> str:
    """An expression of a panel with durations in the place of variables; matchers keep theirs, inside quotes."""
    for variable, value in _INTERVALS.items():
        text = text.replace(variable, value)
    return text


def all_expressions() -> list[Expression]:
    """All of them."""
    return [*of_rules(), *of_panels(), *of_runbooks()]
