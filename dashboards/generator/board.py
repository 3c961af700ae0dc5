"""A dashboard: its rows of panels, the variables and links that all of them share, and the JSON that Grafana imports."""

import json
from dataclasses import dataclass
from typing import Any

from grafana_foundation_sdk.builders import dashboard as parts
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as model

from dashboards.generator.panels import DATASOURCE, Panel
from dashboards.generator.promql import Series

TAG = "llm-sidecar"
_EVERY_STREAM = '{__name__=~"llm_streams_total|llm_streams_in_flight"'


@dataclass(frozen=True)
class Variable:
    """A filter: its name, what it is called, the label it filters, and what narrows its values."""

    name: str
    title: str
    label: str
    within: str = ""


VARIABLES = (
    Variable("provider", "Provider", "gen_ai_provider_name"),
    Variable("model", "Model", "gen_ai_request_model", 'gen_ai_provider_name=~"$provider"'),
    Variable("upstream", "Upstream", "server_address", 'gen_ai_provider_name=~"$provider"'),
    Variable("dialect", "Dialect", "dialect", 'gen_ai_provider_name=~"$provider"'),
)


def filters(series: Series) -> str:
    """The matchers of every variable that series can obey."""
    return ", ".join(f'{each.label}=~"${each.name}"' for each in VARIABLES if each.label in series.labels)


@dataclass(frozen=True)
class Row:
    """Panels under a heading."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Board:
    """One dashboard. `uid` is permanent: links and bookmarks use it."""

    uid: str
    title: str
    text: str
    rows: tuple[Row, ...]
    variables: tuple[Variable, ...] = VARIABLES


def board_json(board: Board) -> str:
    """The JSON as it is committed; panels are numbered in the order of reading."""
    builder = (
        parts.Dashboard(board.title)
        .uid(board.uid)
        .description(board.text)
        .tags([TAG])
        .time("now-1h", "now")
        .refresh("30s")
        .timezone("browser")
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .editable()
        .link(
            parts.DashboardLink("LLM streams")
            .type(model.DashboardLinkType.DASHBOARDS)
            .tags([TAG])
            .as_dropdown(True)
            .include_vars(True)
            .keep_time(True)
        )
        .variables([_datasource(), *(_variable(each) for each in board.variables)])
    )
    for row in board.rows:
        builder = builder.with_row(parts.Row(row.title))
        for panel in row.panels:
            builder = builder.with_panel(panel)
    document: dict[str, Any] = json.loads(JSONEncoder(sort_keys=True, indent=2).encode(builder.build()))
    for number, panel in enumerate(document["panels"], start=1):
        panel["id"] = number
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def _datasource() -> parts.DatasourceVariable:
    return parts.DatasourceVariable("datasource").label("Prometheus").type("prometheus").include_all(False)


def _variable(variable: Variable) -> parts.QueryVariable:
    within = f"{_EVERY_STREAM}, {variable.within}}}" if variable.within else _EVERY_STREAM + "}"
    return (
        parts.QueryVariable(variable.name)
        .label(variable.title)
        .datasource(DATASOURCE)
        .query(f"label_values({within}, {variable.label})")
        .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(model.VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(".*")
        .current(model.VariableOption(text="All", value="$__all"))
    )
