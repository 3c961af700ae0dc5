"""What an alert is, and the labels and links that all of them have."""

from dataclasses import dataclass
from typing import Literal

from dashboards.generator.thresholds import Thresholds

Severity = Literal["critical", "warning", "info"]
"""critical: wakes somebody. warning: somebody looks today. info: shown beside the others."""

STREAM = "{{ $labels.gen_ai_request_model }} at {{ $labels.server_address }}:{{ $labels.server_port }}"
"""How texts name what an alert about streams is about."""
SIDECAR = "{{ $labels.instance }}"


@dataclass(frozen=True)
class Alert:
    """One alert. `wait` is Prometheus' `for`; empty: at once."""

    name: str
    severity: Severity
    expr: str
    summary: str
    description: str
    wait: str = ""


@dataclass(frozen=True)
class Group:
    """Alerts that are evaluated together and share a test file."""

    name: str
    alerts: tuple[Alert, ...]


def runbook(thresholds: Thresholds, alert: Alert) -> str:
    """Where its `runbook_url` leads."""
    return f"{thresholds.runbooks}/{alert.name}.md"
