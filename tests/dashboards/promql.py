"""Which names and labels an expression uses, and whether anything publishes them."""

from collections.abc import Iterator

import promql_parser as ast

from dashboards.generator.promql import UPSTREAM
from dashboards.generator.recording import recordings
from dashboards.generator.thresholds import THRESHOLDS
from sidecar.metrics import METRICS

TARGET = frozenset({"job", "instance"})
"""What Prometheus adds to all that it scrapes."""

_ENGINE = frozenset({"model_name", "engine", "le"})
FOREIGN: dict[str, frozenset[str]] = {
    "up": frozenset(),  # Prometheus' own
    "ALERTS": frozenset({"alertname", "alertstate", "severity", *UPSTREAM}),  # Prometheus' own, with the rules' labels
    "vllm:time_to_first_token_seconds_bucket": _ENGINE,  # as vLLM publishes them
    "vllm:inter_token_latency_seconds_bucket": _ENGINE,
    "vllm:e2e_request_latency_seconds_bucket": _ENGINE,
    "vllm:request_queue_time_seconds_bucket": _ENGINE,
    "vllm:num_requests_running": _ENGINE - {"le"},
    "vllm:num_requests_waiting": _ENGINE - {"le"},
    "sglang:time_to_first_token_seconds_bucket": _ENGINE,  # as SGLang publishes them
    "sglang:inter_token_latency_seconds_bucket": _ENGINE,
    "sglang:e2e_request_latency_seconds_bucket": _ENGINE,
    "sglang:num_running_reqs": _ENGINE - {"le"},
    "sglang:num_queue_reqs": _ENGINE - {"le"},
}
"""Names that are not ours, with the labels that we use of them."""


def _published() -> dict[str, frozenset[str]]:
    found = dict(FOREIGN)
    for metric in METRICS:
        labels = frozenset(metric.labels)
        if metric.kind == "histogram":
            found |= {
                f"{metric.name}_bucket": labels | {"le"},
                f"{metric.name}_count": labels,
                f"{metric.name}_sum": labels,
            }
        else:
            found[metric.name] = labels
    for rule in recordings(THRESHOLDS):
        found[rule.series.name] = frozenset(rule.series.labels)
    return found


PUBLISHED = _published()
"""Every name that an expression may use, and its labels."""


def selectors(expression: ast.Expr) -> list[ast.VectorSelector]:
    """All selectors in an expression."""
    found: list[ast.VectorSelector] = []

    def visit(node: ast.Expr) -> None:
        if isinstance(node, ast.VectorSelector):
            found.append(node)
        elif isinstance(node, ast.MatrixSelector):
            found.append(node.vector_selector)

    ast.walk(expression, visit)
    unique = {id(each): each for each in found}
    return list(unique.values())


def labels_of(selector: ast.VectorSelector) -> frozenset[str]:
    """The labels of the series of a selector."""
    return PUBLISHED.get(selector.name or "", frozenset()) | TARGET


def faults(text: str) -> list[str]:
    """What is wrong with the names and labels of an expression."""
    return list(_faults(ast.parse(text)))


def _faults(expression: ast.Expr) -> Iterator[str]:
    for selector in selectors(expression):
        if selector.name not in PUBLISHED:
            yield f"nothing publishes {selector.name}"
            continue
        for matcher in selector.matchers.matchers:
            if matcher.name not in labels_of(selector):
                yield f"{selector.name} has no label {matcher.name}"
    for node, names in _groupings(expression):
        known = frozenset[str]().union(*(labels_of(each) for each in selectors(node)))
        for name in names:
            if name not in known:
                yield f"nothing in {node.prettify()} has the label {name}"


def _groupings(expression: ast.Expr) -> list[tuple[ast.Expr, list[str]]]:
    """Aggregations and vector matchings with the labels that they name."""
    found: list[tuple[ast.Expr, list[str]]] = []

    def visit(node: ast.Expr) -> None:
        if isinstance(node, ast.AggregateExpr) and node.modifier is not None:
            found.append((node, node.modifier.labels))
        elif isinstance(node, ast.BinaryExpr) and node.modifier is not None and node.modifier.matching is not None:
            found.append((node, node.modifier.matching.labels))

    ast.walk(expression, visit)
    return found


def labels_left(node: ast.Expr) -> frozenset[str]:
    """The labels that the result of an expression can have."""
    match node:
        case ast.VectorSelector():
            return labels_of(node)
        case ast.MatrixSelector():
            return labels_of(node.vector_selector)
        case ast.AggregateExpr():
            inner = labels_left(node.expr)
            if node.modifier is None:
                # topk and bottomk keep their series as they are, sum and its like keep nothing
                return inner if node.param is not None else frozenset()
            named = frozenset(node.modifier.labels)
            return inner & named if node.modifier.type == ast.AggModifierType.By else inner - named
        case ast.BinaryExpr():
            return labels_left(node.lhs) | labels_left(node.rhs)
        case ast.Call():
            kept = frozenset[str]().union(*(labels_left(each) for each in node.args))
            if node.func.name == "label_replace":
                kept |= {_string(node.args[1])}
            return kept - {"le"} if node.func.name == "histogram_quantile" else kept
        case ast.ParenExpr() | ast.UnaryExpr() | ast.SubqueryExpr():
            return labels_left(node.expr)
    return frozenset()


def _string(node: ast.Expr) -> str:
    assert isinstance(node, ast.StringLiteral)
    return node.val
