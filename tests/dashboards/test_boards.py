"""The dashboards: fresh, as Grafana's typed model has them, and as the linter of our own wants them."""

import json
import re
from collections import Counter
from itertools import combinations
from typing import Any

import promql_parser
import pytest
from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards.generator.board import VARIABLES, board_json
from dashboards.generator.boards import BOARDS
from sidecar.metrics import METRICS
from tests.dashboards.expressions import BOARD_FILES, all_expressions, board_panels, filled_in, of_panels
from tests.dashboards.promql import FOREIGN, labels_of, selectors
from tests.dashboards.zeros import HEALTHY, OTHER_ENGINE

DOCUMENTS: dict[str, dict[str, Any]] = {path.stem: json.loads(path.read_text()) for path in BOARD_FILES}
PANELS = [
    pytest.param(panel, id=f"{name}: {panel['title']}")
    for name, board in DOCUMENTS.items()
    for panel in board_panels(board)
    if panel["type"] != "row"
]
SHOWN_ELSEWHERE = {
    "gen_ai_client_operation_time_to_first_chunk_seconds": "the milestone first_byte and first_token stand around it",
    "llm_hop_request_delay_seconds": "part of the first token that a hop adds; for a closer look by hand",
}
"""Metrics that no panel, rule or runbook reads, and why."""


def test_the_files_are_fresh() -> None:
    committed = {path.stem: path.read_text(encoding="utf-8") for path in BOARD_FILES}
    assert committed == {board.uid: board_json(board) for board in BOARDS}, "stale: run `make dashboards`"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_typed_model_takes_it(name: str) -> None:
    document = DOCUMENTS[name]
    read = Dashboard.from_json(document)
    assert read.uid == name
    assert len(read.panels or ()) == len(document["panels"])


@pytest.mark.parametrize("name", DOCUMENTS)
def test_variables_and_links(name: str) -> None:
    document = DOCUMENTS[name]
    variables = {variable["name"]: variable for variable in document["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    others = {variable.name for variable in VARIABLES} if name != "llm-sidecar" else set()
    assert variables.keys() == {"datasource", *others}
    for variable in others:
        assert variables[variable]["datasource"]["uid"] == "${datasource}"
        assert variables[variable]["allValue"] == ".*"
    assert document["links"][0]["includeVars"]
    assert document["description"]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_ids_and_titles_are_unique(name: str) -> None:
    for key in ("id", "title"):
        kinds = Counter(
            (panel["type"] == "row" and key == "title", panel[key]) for panel in board_panels(DOCUMENTS[name])
        )
        assert [value for value, times in kinds.items() if times > 1] == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_nothing_overlaps_or_sticks_out(name: str) -> None:
    places = [panel["gridPos"] for panel in board_panels(DOCUMENTS[name])]
    assert all(place["x"] >= 0 and place["x"] + place["w"] <= 24 for place in places)
    for one, other in combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or above, (one, other)


@pytest.mark.parametrize("panel", PANELS)
def test_each_panel_says_what_it_means(panel: dict[str, Any]) -> None:
    assert len(panel["description"]) >= 30
    assert panel["description"].endswith(".")


def test_where_zero_is_healthy_the_panel_draws_it_and_says_so() -> None:
    expressions = {each.where: each.text for each in of_panels()}
    texts = {f"{name}: {panel['title']}": panel["description"] for name in DOCUMENTS for panel in _panels(name)}
    assert HEALTHY.keys() | OTHER_ENGINE.keys() <= expressions.keys(), "excuses for what is no panel"
    assert [where for where in HEALTHY if "vector(0)" not in expressions[where]] == []
    assert [where for where in HEALTHY if "0 is healthy" not in texts[where.rpartition(": ")[0]]] == []


def _panels(name: str) -> list[dict[str, Any]]:
    return [panel for panel in board_panels(DOCUMENTS[name]) if panel["type"] != "row"]


@pytest.mark.parametrize("panel", PANELS)
def test_each_number_has_a_unit(panel: dict[str, Any]) -> None:
    if panel["type"] == "table":
        units = [
            next((each["value"] for each in override["properties"] if each["id"] == "unit"), None)
            for override in panel["fieldConfig"]["overrides"]
        ]
        assert len([unit for unit in units if unit]) == len(panel["targets"])
    elif panel["type"] == "heatmap":
        assert panel["options"]["yAxis"]["unit"]
    else:
        assert panel["fieldConfig"]["defaults"]["unit"]


@pytest.mark.parametrize("panel", PANELS)
def test_each_target_is_of_the_chosen_data_source(panel: dict[str, Any]) -> None:
    for place in (panel, *panel["targets"]):
        assert place["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    letters = [target["refId"] for target in panel["targets"]]
    assert len(set(letters)) == len(letters)


@pytest.mark.parametrize("panel", PANELS)
def test_series_have_readable_names(panel: dict[str, Any]) -> None:
    if panel["type"] in ("timeseries", "heatmap"):
        assert all(target["legendFormat"] != "__auto" for target in panel["targets"])
        names = Counter(target["legendFormat"] for target in panel["targets"])
        assert max(names.values()) == 1


@pytest.mark.parametrize("panel", PANELS)
def test_selectors_obey_every_variable_they_can(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        for selector in selectors(promql_parser.parse(filled_in(target["expr"]))):
            if selector.name in FOREIGN:
                continue
            matched = {matcher.name: matcher.value for matcher in selector.matchers.matchers}
            expected = {each.label: f"${each.name}" for each in VARIABLES if each.label in labels_of(selector)}
            assert expected.items() <= matched.items(), selector.prettify()


@pytest.mark.parametrize("panel", PANELS)
def test_exemplars_are_asked_for_where_there_are_some(panel: dict[str, Any]) -> None:
    """Recorded series carry none, and neither do gauges."""
    for target in panel["targets"]:
        if target.get("exemplar"):
            assert re.search(r"\b(llm_|gen_ai_)\w+_bucket\b", target["expr"])


def test_some_panels_lead_to_traces() -> None:
    panels = [panel for board in DOCUMENTS.values() for panel in board_panels(board)]
    assert any(target.get("exemplar") for panel in panels for target in panel.get("targets", ()))


def test_every_metric_is_read_somewhere() -> None:
    text = " ".join(each.text for each in all_expressions())
    unread = {metric.name for metric in METRICS if not re.search(rf"\b{metric.name}(_bucket|_sum|_count)?\b", text)}
    assert unread == set(SHOWN_ELSEWHERE)
