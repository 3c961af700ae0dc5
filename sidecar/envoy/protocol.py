"""The messages of Envoy's external processing and access log, as far as they are read, and the two services.

https://www.envoyproxy.io/docs/envoy/latest/api-v3/service/ext_proc/v3/external_processor.proto and
…/service/accesslog/v3/als.proto. Declared here instead of taken from xds-protos, because that package brings modules of
OpenTelemetry's protocol under the names of opentelemetry-proto, older ones, and whichever is installed last breaks the
other. On the wire only numbers and types count, so that these messages may have names of their own; what Envoy sends
beside them is skipped.
"""

from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, struct_pb2, timestamp_pb2

_PACKAGE = "sidecar.envoy"
_BOOL, _STRING, _BYTES, _UINT32, _MESSAGE = 8, 9, 12, 13, 11

type _Field = tuple[str, int, int | str]
"""Name, number, and a scalar's type, or the name of a message; one that begins with `*` is repeated."""

_MESSAGES: dict[str, tuple[_Field, ...]] = {
    "HeaderValue": (("key", 1, _STRING), ("value", 2, _STRING), ("raw_value", 3, _BYTES)),
    "HeaderMap": (("headers", 1, "*HeaderValue"),),
    "HttpHeaders": (("headers", 1, "HeaderMap"), ("end_of_stream", 3, _BOOL)),
    "HttpBody": (("body", 1, _BYTES), ("end_of_stream", 2, _BOOL)),
    "HttpTrailers": (("trailers", 1, "HeaderMap"),),
    "ProcessingRequest": (
        ("request_headers", 2, "HttpHeaders"),
        ("response_headers", 3, "HttpHeaders"),
        ("request_body", 4, "HttpBody"),
        ("response_body", 5, "HttpBody"),
        ("request_trailers", 6, "HttpTrailers"),
        ("response_trailers", 7, "HttpTrailers"),
        ("attributes", 9, "*ProcessingRequest.AttributesEntry"),
    ),
    "SocketAddress": (("address", 2, _STRING), ("port_value", 3, _UINT32)),
    "Address": (("socket_address", 1, "SocketAddress"),),
    "ResponseFlags": (
        ("failed_local_healthcheck", 1, _BOOL),
        ("no_healthy_upstream", 2, _BOOL),
        ("upstream_request_timeout", 3, _BOOL),
        ("local_reset", 4, _BOOL),
        ("upstream_remote_reset", 5, _BOOL),
        ("upstream_connection_failure", 6, _BOOL),
        ("upstream_connection_termination", 7, _BOOL),
        ("upstream_overflow", 8, _BOOL),
        ("no_route_found", 9, _BOOL),
        ("delay_injected", 10, _BOOL),
        ("fault_injected", 11, _BOOL),
        ("rate_limited", 12, _BOOL),
        ("rate_limit_service_error", 14, _BOOL),
        ("downstream_connection_termination", 15, _BOOL),
        ("upstream_retry_limit_exceeded", 16, _BOOL),
        ("stream_idle_timeout", 17, _BOOL),
        ("invalid_envoy_request_headers", 18, _BOOL),
        ("downstream_protocol_error", 19, _BOOL),
        ("upstream_max_stream_duration_reached", 20, _BOOL),
        ("response_from_cache_filter", 21, _BOOL),
        ("no_filter_config_found", 22, _BOOL),
        ("duration_timeout", 23, _BOOL),
        ("upstream_protocol_error", 24, _BOOL),
        ("no_cluster_found", 25, _BOOL),
        ("overload_manager", 26, _BOOL),
        ("dns_resolution_failure", 27, _BOOL),
        ("downstream_remote_reset", 28, _BOOL),
    ),
    "AccessLogCommon": (
        ("downstream_remote_address", 2, "Address"),
        ("start_time", 5, ".google.protobuf.Timestamp"),
        ("response_flags", 16, "ResponseFlags"),
        ("upstream_transport_failure_reason", 18, _STRING),
    ),
    "HTTPAccessLogEntry": (("common_properties", 1, "AccessLogCommon"),),
    "HTTPAccessLogEntries": (("log_entry", 1, "*HTTPAccessLogEntry"),),
    "StreamAccessLogsMessage": (("http_logs", 2, "HTTPAccessLogEntries"),),
    "Nothing": (),
}
_ONE_OF = {"ProcessingRequest": ("request", range(2, 8))}
"""Of a message: the name of its one-of, and the numbers of its fields."""


def _declare() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name="sidecar/envoy/protocol.proto",
        package=_PACKAGE,
        syntax="proto3",
        dependency=[struct_pb2.DESCRIPTOR.name, timestamp_pb2.DESCRIPTOR.name],
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        one_of, members = _ONE_OF.get(name, ("", range(0)))
        if one_of:
            message.oneof_decl.add(name=one_of)
        for field, number, kind in fields:
            _add(message, field, number, kind)
            if number in members:
                message.field[-1].oneof_index = 0
        if name == "ProcessingRequest":
            entry = message.nested_type.add(name="AttributesEntry")
            entry.options.map_entry = True
            _add(entry, "key", 1, _STRING)
            _add(entry, "value", 2, ".google.protobuf.Struct")
    return file


def _add(message: descriptor_pb2.DescriptorProto, name: str, number: int, kind: int | str) -> None:
    repeated = isinstance(kind, str) and kind.startswith("*")
    field = message.field.add(name=name, number=number, label=3 if repeated else 1)
    if isinstance(kind, str):
        field.type = _MESSAGE
        field.type_name = kind if kind.startswith(".") else f".{_PACKAGE}.{kind.lstrip('*')}"
    else:
        field.type = kind


_pool = descriptor_pool.Default()
_pool.Add(_declare())


def message(name: str) -> Any:
    """The class of a message."""
    return message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


ProcessingRequest = message("ProcessingRequest")
StreamAccessLogsMessage = message("StreamAccessLogsMessage")
Nothing = message("Nothing")
"""The answer to a log; on the wire it is empty."""


def handlers(process: Any, log: Any) -> list[Any]:
    """gRPC's handlers of the two services. `process(messages, context)` is an async generator of answers,
    `log(messages, context)` a coroutine."""
    return [
        grpc.method_handlers_generic_handler(
            "envoy.service.ext_proc.v3.ExternalProcessor",
            {
                "Process": grpc.stream_stream_rpc_method_handler(
                    process, ProcessingRequest.FromString, Nothing.SerializeToString
                )
            },
        ),
        grpc.method_handlers_generic_handler(
            "envoy.service.accesslog.v3.AccessLogService",
            {
                "StreamAccessLogs": grpc.stream_unary_rpc_method_handler(
                    log, StreamAccessLogsMessage.FromString, Nothing.SerializeToString
                )
            },
        ),
    ]
