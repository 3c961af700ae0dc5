"""The OpenTelemetry names of our metrics and labels, by rule from the declarations.

The rule is the reverse of Prometheus' translation: what a collector makes of these names for Prometheus are the names
of `/metrics` again, so that dashboards and alerts hold on either way.
"""

from sidecar.export.labels import NONE
from sidecar.metrics import Metric

_NAMESPACES = ("gen_ai.client.operation.", "gen_ai.client.token.", "llm_stream.", "llm_sidecar.")
_UNITS = {"_seconds": "s", "_bytes": "By"}


def name_of(metric: Metric) -> str:
    """Without the suffixes that Prometheus adds, name spaces set off by dots."""
    name = metric.name.removesuffix("_total")
    for suffix in _UNITS:
        name = name.removesuffix(suffix)
    for namespace in _NAMESPACES:
        translated = namespace.replace(".", "_")
        if name.startswith(translated):
            return namespace + name.removeprefix(translated)
    return name


def unit_of(metric: Metric) -> str:
    """In UCUM: s, By, {token}, or nothing for mere counts."""
    for suffix, unit in _UNITS.items():
        if metric.name.removesuffix("_total").endswith(suffix):
            return unit
    return "{token}" if metric.name in ("gen_ai_client_token_usage", "llm_stream_tokens_total") else ""


def attribute_of(label: str) -> str:
    """The convention's attribute behind a translated label; labels of our own stay as they are."""
    if label.startswith("gen_ai_"):
        return f"gen_ai.{label.removeprefix('gen_ai_').replace('_', '.')}"
    return label.replace("_", ".") if label in ("server_address", "server_port", "error_type") else label


def attributes_of(metric: Metric, values: tuple[str, ...]) -> dict[str, str | int]:
    """Attributes of one series; an empty label is an absent attribute."""
    found: dict[str, str | int] = {
        attribute_of(label): value for label, value in zip(metric.labels, values, strict=True) if value != NONE
    }
    port = found.get("server.port")
    if isinstance(port, str) and port.isdecimal():
        found["server.port"] = int(port)
    return found
