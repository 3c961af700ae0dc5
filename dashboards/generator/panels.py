"""The kinds of panels that the dashboards are made of, each with the look and the legend that it has everywhere."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grafana_foundation_sdk.builders import common as looks
from grafana_foundation_sdk.builders import dashboard as parts
from grafana_foundation_sdk.builders import heatmap, prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

DATASOURCE = model.DataSourceRef(type_val="prometheus", uid="${datasource}")
SECONDS = "s"
SHARE = "percentunit"
PER_SECOND = "/s"
PER_MINUTE = "/min"
COUNT = "short"
RATIO = "none"
BYTES = "bytes"
TOKENS_PER_SECOND = " tok/s"
_OWN_UNITS = (PER_SECOND, PER_MINUTE, TOKENS_PER_SECOND)  # Grafana shows these as suffixes: it has none for them
_SOFT_MAX = {PER_SECOND: 0.1, PER_MINUTE: 1, COUNT: 1, RATIO: 1, SHARE: 0.01, SECONDS: 0.01, TOKENS_PER_SECOND: 1}
"""Top of the axis where everything is zero; Grafana's own choice would be 100."""
_IN_FULL = "locale"  # 1,234 and not 1.23 K, where there is room for it
_WIDTHS = {
    "Model": 160,
    "Port": 75,
    "Port ": 75,
    "Severity": 120,
    "Alert": 270,
    "Quirk": 230,
    "Phase": 160,
    "Change": 90,
    "Instance": 150,
}
"""Widths of columns of texts, by their headings; without them long names are cut off."""

type Panel = Builder[model.Panel]
type Colours = Mapping[str, str]
"""Fixed colours by the names of series, so that an outcome looks the same everywhere."""


@dataclass(frozen=True)
class Query:
    """One target. `exemplar`: the links to traces that a histogram's buckets carry."""

    expr: str
    legend: str = ""
    exemplar: bool = False


@dataclass(frozen=True)
class Column:
    """A column of a table: the name it is shown by, its unit, and a limit from which it turns red."""

    name: str
    unit: str
    red_from: float | None = None


def unit_of(name: str) -> str:
    """The unit's id in Grafana."""
    return f"suffix:{name}" if name in _OWN_UNITS else name


def _targets(queries: tuple[Query, ...], *, instant: bool = False, form: PromQueryFormat | None = None) -> Any:
    found = []
    for number, query in enumerate(queries):
        target = prometheus.Dataquery().ref_id(chr(ord("A") + number)).expr(query.expr).datasource(DATASOURCE)
        target = target.instant() if instant else target.range()
        target = target.legend_format(query.legend or "__auto").exemplar(query.exemplar)
        found.append(target.format(form) if form is not None else target)
    return found


def _colour(name: str) -> list[model.DynamicConfigValue]:
    return [model.DynamicConfigValue("color", {"mode": "fixed", "fixedColor": name})]


def graph(
    title: str,
    text: str,
    unit: str,
    *queries: Query,
    width: int = 8,
    height: int = 8,
    stacked: bool = False,
    log: bool = False,
    colours: Colours | None = None,
    beside: bool = False,
) -> Panel:
    """Lines over time. `beside`: many series, with their last and largest values in a table on the right."""
    legend = looks.VizLegendOptions().show_legend(True)
    if beside:
        legend = legend.display_mode(common.LegendDisplayMode.TABLE).placement(common.LegendPlacement.RIGHT)
        legend = legend.calcs(["lastNotNull", "max"]).sort_by("Max").sort_desc(True)
    else:
        legend = legend.display_mode(common.LegendDisplayMode.LIST).placement(common.LegendPlacement.BOTTOM)
    panel = (
        timeseries.Panel()
        .title(title)
        .description(text)
        .datasource(DATASOURCE)
        .targets(_targets(queries))
        .unit(unit_of(unit))
        .span(width)
        .height(height)
        .legend(legend)
        .tooltip(looks.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI).sort(common.SortOrder.DESCENDING))
        .line_width(1)
        .fill_opacity(30 if stacked else 8 if len(queries) == 1 and "{{" not in queries[0].legend else 0)
        .show_points(common.VisibilityMode.NEVER)
        .span_nulls(False)
    )
    if log:
        panel = panel.scale_distribution(looks.ScaleDistributionConfig().type(common.ScaleDistribution.LOG).log(10))
    else:
        panel = panel.min(0).axis_soft_max(_SOFT_MAX.get(unit, 0))
    if stacked:
        panel = panel.stacking(looks.StackingConfig().mode(common.StackingMode.NORMAL).group("A"))
    for name, colour in (colours or {}).items():
        panel = panel.override_by_name(name, _colour(colour))
    return panel


def number(
    title: str,
    text: str,
    unit: str,
    query: Query,
    *,
    width: int = 4,
    orange: float | None = None,
    red: float | None = None,
    red_below: float | None = None,
) -> Panel:
    """One number with its course, coloured from its limits on."""
    steps = [model.Threshold(None, "text" if red_below is None else "red")]
    steps += [model.Threshold(red_below, "text")] if red_below is not None else []
    steps += [model.Threshold(orange, "orange")] if orange is not None else []
    steps += [model.Threshold(red, "red")] if red is not None else []
    panel = (
        stat.Panel()
        .title(title)
        .description(text)
        .datasource(DATASOURCE)
        .targets(_targets((query,)))
        .unit(unit_of(unit))
        .span(width)
        .height(4)
        .no_value("0")
        .graph_mode(common.BigValueGraphMode.AREA)
        .color_mode(common.BigValueColorMode.VALUE)
        .reduce_options(looks.ReduceDataOptions().calcs(["lastNotNull"]))
        .color_scheme(parts.FieldColor().mode(model.FieldColorModeId.THRESHOLDS))
        .thresholds(parts.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps(steps))
    )
    return panel.decimals(0) if unit == COUNT else panel  # what `increase` extrapolates is no whole number


def heat(title: str, text: str, unit: str, query: Query, *, width: int = 8, height: int = 8) -> Panel:
    """A histogram's buckets over time; a target of buckets by `le`."""
    return (
        heatmap.Panel()
        .title(title)
        .description(text)
        .datasource(DATASOURCE)
        .targets(_targets((query,), form=PromQueryFormat.HEATMAP))
        .span(width)
        .height(height)
        .calculate(False)
        .y_axis(heatmap.YAxisConfig().unit(unit))
        .cell_gap(1)
        .color(heatmap.HeatmapColorOptions().mode(HeatmapColorMode.SCHEME).scheme("Oranges").steps(64).exponent(0.5))
        .filter_values(heatmap.FilterValueRange().le(1e-9))
        .show_legend()
        .mode(common.TooltipDisplayMode.SINGLE)
        .exemplars_color("rgba(255,0,255,0.7)")
    )


def rows(
    title: str,
    text: str,
    labels: Mapping[str, str],
    columns: tuple[tuple[Column, str], ...],
    *,
    width: int = 24,
    height: int = 9,
    sort_by: str = "",
    ascending: bool = False,
) -> Panel:
    """A table of what is now: a row per combination of `labels` (name to heading), a column per expression."""
    queries = tuple(Query(expr) for _, expr in columns)
    letters = [chr(ord("A") + position) for position in range(len(columns))]
    values = ["Value"] if len(columns) == 1 else [f"Value #{letter}" for letter in letters]
    names = dict(labels) | {value: column.name for value, (column, _) in zip(values, columns, strict=True)}
    order = {name: position for position, name in enumerate([*labels, *values])}
    panel = (
        table.Panel()
        .title(title)
        .description(text)
        .datasource(DATASOURCE)
        .targets(_targets(queries, instant=True, form=PromQueryFormat.TABLE))
        .span(width)
        .height(height)
        .show_header(True)
        .cell_height(common.TableCellHeight.SM)
        .min_width(80)
        .with_transformation(model.DataTransformerConfig(id_val="merge", options={}))
        .with_transformation(
            model.DataTransformerConfig(
                id_val="organize",
                options={"excludeByName": {"Time": True}, "indexByName": order, "renameByName": names},
            )
        )
    )
    for heading in labels.values():
        if heading in _WIDTHS:
            panel = panel.override_by_name(heading, [model.DynamicConfigValue("custom.width", _WIDTHS[heading])])
    if sort_by:
        panel = panel.sort_by([looks.TableSortByFieldState().display_name(sort_by).desc(not ascending)])
    for column, _ in columns:
        panel = panel.override_by_name(column.name, _of_column(column))
    return panel


def _of_column(column: Column) -> list[model.DynamicConfigValue]:
    unit = _IN_FULL if column.unit == COUNT else unit_of(column.unit)
    found = [model.DynamicConfigValue("unit", unit)]
    if column.unit == COUNT:
        found.append(model.DynamicConfigValue("decimals", 0))  # what `increase` extrapolates is no whole number
    if column.red_from is not None:
        steps = [{"value": None, "color": "text"}, {"value": column.red_from, "color": "red"}]
        found += [
            model.DynamicConfigValue("thresholds", {"mode": "absolute", "steps": steps}),
            model.DynamicConfigValue("custom.cellOptions", {"type": "color-text"}),
        ]
    return found
