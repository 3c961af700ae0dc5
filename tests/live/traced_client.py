"""A client as an application has it: the openai SDK with its OpenTelemetry instrumentation, spans exported over OTLP.

Arguments: base URL, model, case of the upstream, URL of the collector's traces. Run as a process of its own: instrumentation patches modules.
"""

import sys

from openai import OpenAI
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.httpx import HTTPX2ClientInstrumentor
from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor


def main() -> None:
    """One streamed chat completion, read to its end."""
    base_url, model, case, traces = sys.argv[1:]
    provider = TracerProvider(resource=Resource.create({"service.name": "application"}))
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(traces)))
    OpenAIInstrumentor().instrument(tracer_provider=provider)
    HTTPX2ClientInstrumentor().instrument(tracer_provider=provider)
    with OpenAI(base_url=base_url, api_key="none", max_retries=0, default_headers={"x-case": case}) as client:
        for _ in client.chat.completions.create(model=model, messages=[{"role": "user", "content": "hi"}], stream=True):
            pass
    provider.shutdown()


if __name__ == "__main__":
    main()
