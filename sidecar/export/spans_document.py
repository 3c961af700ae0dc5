"""`docs/spans.md`, generated from the table of span attributes."""

from collections.abc import Iterable

from sidecar.export import span_attributes as table
from sidecar.export.span_attributes import Attribute

_INTRO = """# Spans

Generated from `sidecar/export/span_attributes.py`; do not edit. Run `make docs` after a change there.

Each exchange gives one span of kind CLIENT, named `{operation} {request model}`, when it is over. Names that
OpenTelemetry's GenAI conventions define are used as they are there; the rest is `llm_stream.*`. An attribute that the
wire did not state is absent, never zero. Seconds are doubles and count from t0, the moment at which the last byte of the
request was forwarded.

## Switching it on

    sidecar run --upstream https://api.openai.com --otel-endpoint http://127.0.0.1:4318

Without `--otel-endpoint` (`otel_endpoint`), the standard `OTEL_EXPORTER_OTLP_ENDPOINT` or
`OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` switches it on, and without any of them nothing is sent. The rest comes from the
standard environment: protocol (`http/protobuf`, the default, or `grpc`), headers, certificates, compression, time-outs,
`OTEL_SERVICE_NAME` (default `llm-sidecar`), `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_BSP_*`, span limits, `OTEL_SDK_DISABLED`.

| setting | flag | default | what it does |
| --- | --- | --- | --- |
| `otel_endpoint` | `--otel-endpoint` | none | where spans (and metrics) go; a shorthand for `OTEL_EXPORTER_OTLP_ENDPOINT` |
| `otel_sample_ratio` | | 1 | share of the exchanges that get a span, see below |
| `otel_metrics` | `--otel-metrics` | off | the metrics of docs/metrics.md over OTLP, too |
| `otel_pending_spans` | `--otel-pending-spans` | off | seconds in flight after which a marker span is sent, see below |
| `otel_flush_seconds` | | 5 | what the last spans may take at shutdown |
| `capture_content` | `--capture-content` | off | prompts and answers in the spans, see below |

![Spans of the demo in Arize Phoenix](images/phoenix-spans.png)

![One of them: an error in the middle of a stream](images/phoenix-span.png)

A collector that is absent, slow or refusing costs spans and nothing else: they wait in a queue of
`OTEL_BSP_MAX_QUEUE_SIZE` (2048), and those that find it full or are refused are counted in
`llm_sidecar_span_export_failures_total`.

## Time, identity, status, sampling

- Start is t0, end the end of the exchange, both from the proxy: its wall clock is read once per exchange, everything
  after that is an offset on its monotonic clock.
- The parent is the span that the request names in `traceparent` and `tracestate`; neither is added to a request or
  changed in one. Without it the exchange is the root of a new trace. Exemplars of the metrics point to the span.
- Status is ERROR for the outcomes error_event, upstream_reset, upstream_failed, truncated and http_error, and unset for
  all others: a client that left is no error of the upstream.
- A caller's trace that is not sampled gets no span, one that is sampled gets it always. Of the others,
  `otel_sample_ratio` of them get one, and always those that failed or showed a quirk of severity breaks_clients.
  `OTEL_TRACES_SAMPLER`, where set, takes the place of the ratio; `always_off` switches failures off, too.
"""

_PENDING = """
## Pending spans

With `otel_pending_spans`, an exchange that has been in flight for so many seconds is announced by a span without a
duration, named `{operation} {request model} (pending)`, of kind INTERNAL: the child of the span that the exchange will
have, whose id is known by then. Back ends show it at once, at first as a span whose parent has not come (Phoenix: with
the filter `parent_id is None` cleared). Its attributes:
"""
_CONTENT = """
## Content

Only with `--capture-content`, which warns at start. JSON texts in the form of the conventions; images, audio and files
are left out. A text has at most `limits.text_chars` characters (1024 by default, 64 Ki where tokens are estimated), a
request 32 times that, of which the latest messages are kept.
"""
_METRICS = """
## Metrics over OTLP

The same metrics under their OpenTelemetry names, such that Prometheus' translation gives the names of docs/metrics.md.
Histograms are exponential (`OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION=explicit_bucket_histogram` gives the
declared buckets). Two kinds always have their declared buckets, because they exist as counts per bucket only:
`gen_ai.client.operation.time_per_output_chunk` (a stream has thousands of gaps) and `llm_sidecar.tee` (counted in the
proxy).
"""


def markdown() -> str:
    """The page."""
    events = "".join(
        f"\n### `{event.name}`\n\n{event.meaning}.\n" + (_rows(event.attributes) if event.attributes else "")
        for event in table.EVENTS
    )
    return "".join(
        (
            _INTRO,
            "\n## Attributes of the conventions\n",
            _rows((*table.REQUESTED, *table.ANSWERED)),
            "\n## Attributes of our own\n",
            _rows((*table.EXCHANGE, *table.JUDGED)),
            "\nAn exchange of which the sidecar lost telemetry (`lost`) has no events, and of all these only: ",
            f"{', '.join(f'`{row.name}`' for row in table.ALWAYS)}.\n",
            f"\n## Events\n{events}",
            _PENDING,
            _rows(row for row in (*table.PENDING, *table.SPAN) if row.live is not None),
            _CONTENT,
            _rows((*table.CONTENT, table.ERROR_MESSAGE)),
            _METRICS,
        )
    )


def _rows(rows: Iterable[Attribute]) -> str:
    lines = ["\n| attribute | type | meaning | from |\n| --- | --- | --- | --- |\n"]
    lines += (f"| `{row.name}` | {row.kind} | {row.meaning} | {row.source} |\n" for row in rows)
    return "".join(lines)


if __name__ == "__main__":
    print(markdown(), end="")
