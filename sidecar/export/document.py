"""`docs/metrics.md`, generated from the table of metrics."""

from sidecar.metrics import METRICS, STREAM_LABELS, Metric

_INTRO = f"""# Metrics

Generated from `sidecar/metrics.py`; do not edit. Run `make docs` after a change there.

Names that OpenTelemetry's GenAI conventions define are used in their Prometheus translation; `llm_stream_*` are ours,
`llm_sidecar_*` concern the sidecar itself. Every metric about streams has the labels
{", ".join(f"`{label}`" for label in STREAM_LABELS)}; below, only further labels are named. Label values are bounded:
what goes beyond a cap becomes `other` and is counted in `llm_sidecar_folded_label_values_total`. Seconds throughout.

All times count from the moment the last byte of the request was forwarded (t0), on the proxy's monotonic clock; for a
response in a WebSocket from the message that asked for it, or the server's commit of the audio where the voice detector
decides. A milestone that was not reached is absent, as all are where t0 is unknown; none is filled in from another one.
"""


def markdown() -> str:
    """The page."""
    return _INTRO + "".join(_section(metric) for metric in METRICS)


def _section(metric: Metric) -> str:
    labels = [label for label in metric.labels if label not in STREAM_LABELS]
    lines = [f"\n## `{metric.name}`\n", f"{metric.kind}. {metric.help}\n"]
    if labels:
        lines.append(f"Further labels: {', '.join(f'`{label}`' for label in labels)}.\n")
    if metric.buckets:
        lines.append(f"Buckets: {', '.join(f'{bound:g}' for bound in metric.buckets)}.\n")
    return "\n".join(lines)


if __name__ == "__main__":
    print(markdown(), end="")
