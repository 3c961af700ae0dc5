"""Settings: frozen, and from one declaration for the file (TOML), the environment, the flags and mitmproxy's options.

Precedence: flags, then `SIDECAR_…` in the environment, then the file, then the defaults.
"""

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, get_args

import msgspec
from msgspec import Meta

from sidecar.thresholds import Limits, QuirkThresholds, StallThresholds

ENVIRONMENT_PREFIX = "SIDECAR_"
OPTION_PREFIX = "sidecar_"


class ConfigError(ValueError):
    """A setting that cannot be used; the text is one line that says which and what to do."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All settings. Field names are those of the file; upper-case behind `SIDECAR_` in the environment."""

    upstream: Annotated[
        str | None, Meta(description="Where a reverse proxy sends its traffic: http(s)://host[:port]")
    ] = None
    listen: Annotated[str, Meta(description="Address of the reverse proxy")] = "127.0.0.1:8080"
    mode: Annotated[tuple[str, ...], Meta(description="mitmproxy modes, instead of upstream and listen")] = ()
    workers: Annotated[int, Meta(ge=1, description="Proxy processes that share the port")] = 1
    set: Annotated[tuple[str, ...], Meta(description="Options of mitmproxy's own, NAME=VALUE")] = ()
    metrics_listen: Annotated[str, Meta(description="Address of /metrics, the live page and the health checks")] = (
        "127.0.0.1:9464"
    )
    metrics_token_file: Annotated[
        str | None, Meta(description="File with the token that readers of these have to show; none: no token")
    ] = None
    metrics_certificate: Annotated[
        str | None, Meta(description="PEM file with certificate and key for HTTPS there; none: HTTP")
    ] = None
    socket: Annotated[str | None, Meta(description="Unix socket of a running analyzer to use; none: start one")] = None
    envoy_listen: Annotated[
        str | None,
        Meta(
            description="Where an Envoy tells of its traffic: unix:PATH or HOST:PORT (needs the envoy extra); none: nowhere"
        ),
    ] = None
    include: Annotated[tuple[str, ...], Meta(description="Regular expressions over host/path: always copied")] = ()
    exclude: Annotated[tuple[str, ...], Meta(description="Regular expressions over host/path: never copied")] = ()
    allow_headers: Annotated[tuple[str, ...], Meta(description="Further header names whose values may be copied")] = ()
    outbox_mib: Annotated[int, Meta(ge=1, description="MiB of records the proxy holds for a slow analyzer")] = 16
    websocket_history: Annotated[
        str,
        Meta(
            description="Messages mitmproxy keeps of a WebSocket: keep, drop, or auto (kept where it shows or saves them)"
        ),
    ] = "auto"
    idle_timeout: Annotated[
        int, Meta(ge=1, description="Seconds without a byte after which the proxy closes a connection")
    ] = 3600
    models: Annotated[
        tuple[str, ...], Meta(description="Model names that may become labels; empty: the first max_models")
    ] = ()
    max_models: Annotated[int, Meta(ge=1, description="Model names that may become labels, at most")] = 100
    max_streams: Annotated[int, Meta(ge=1, description="Exchanges in flight that are followed, at most")] = 20_000
    retry_window: Annotated[
        float, Meta(ge=0, description="Seconds after a failure in which the same request again is a retry")
    ] = 60.0
    ready_lag: Annotated[float, Meta(gt=0, description="Seconds of analyzer lag beyond which /readyz says no")] = 5.0
    otel_endpoint: Annotated[
        str | None, Meta(description="OTLP collector for spans: http(s)://host[:port]; none: as OTEL_* says")
    ] = None
    otel_metrics: Annotated[bool, Meta(description="Send the metrics to the OTLP collector, too")] = False
    otel_sample_ratio: Annotated[
        float, Meta(ge=0, le=1, description="Share of exchanges that get a span; failures always do")
    ] = 1.0
    otel_pending_spans: Annotated[
        float, Meta(ge=0, description="Seconds in flight after which a marker span is sent; 0: never")
    ] = 0.0
    otel_flush_seconds: Annotated[
        float, Meta(ge=0, description="Seconds that the last spans and metrics may take at shutdown")
    ] = 5.0
    capture_content: Annotated[bool, Meta(description="Put prompts, completions and tool arguments into the spans")] = (
        False
    )
    record: Annotated[str | None, Meta(description="Directory into which exchanges are recorded as capture files")] = (
        None
    )
    record_only: Annotated[
        str | None, Meta(description="Which exchanges are recorded: an expression like outcome!=complete; none: all")
    ] = None
    record_scrub: Annotated[bool, Meta(description="Replace all content in recordings by filler of the same shape")] = (
        False
    )
    record_file_mib: Annotated[int, Meta(ge=1, description="MiB of one capture file, after which another is begun")] = (
        64
    )
    record_file_seconds: Annotated[
        float, Meta(gt=0, description="Age in seconds of a capture file, after which another is begun")
    ] = 3600.0
    record_total_mib: Annotated[
        int, Meta(ge=1, description="MiB of all capture files in the directory; the oldest are deleted")
    ] = 1024
    record_exchange_mib: Annotated[int, Meta(ge=1, description="MiB of one recorded exchange, at most")] = 32
    record_memory_mib: Annotated[
        int, Meta(ge=1, description="MiB of exchanges held in memory for recording, at most")
    ] = 256
    log_level: Annotated[str, Meta(description="debug, info, warning or error")] = "warning"
    providers: Annotated[
        dict[str, str], Meta(description="Host suffixes to provider names, before the built-in ones")
    ] = {}
    stalls: Annotated[StallThresholds, Meta(description="Seconds without progress until a stream is stalled")] = (
        StallThresholds()
    )
    estimate_tokens: Annotated[
        bool, Meta(description="Estimate output tokens where none were reported (needs the tokens extra)")
    ] = False
    stall_models: Annotated[
        dict[str, dict[str, float]],
        Meta(description="Changes to stalls by model name (shell wildcards), the first match counts"),
    ] = {}
    state_dir: Annotated[str | None, Meta(description="Directory in which the memory of quirks survives restarts")] = (
        None
    )
    quirks: Annotated[QuirkThresholds, Meta(description="Where observations become quirks")] = QuirkThresholds()
    limits: Annotated[Limits, Meta(description="What is kept of one exchange, at most")] = Limits()


class Option(msgspec.Struct, frozen=True):
    """A setting as mitmproxy's options have it."""

    name: str
    type: Any
    default: Any
    help: str


def _options() -> tuple[Option, ...]:
    found = [Option(OPTION_PREFIX + "config", str, "", "Configuration file of the sidecar (TOML)")]
    for field in msgspec.structs.fields(Settings):
        kind, meta = get_args(field.type)
        if field.name in _NO_OPTIONS or kind not in _OPTION_TYPES:
            continue
        kind = _OPTION_TYPES[kind]
        default = (
            {Sequence[str]: [], str: ""}.get(kind, field.default) if field.default in (None, ()) else field.default
        )
        if kind is str and not isinstance(default, str):
            default = str(default)
        found.append(Option(OPTION_PREFIX + field.name, kind, default, meta.description))
    return tuple(found)


_NO_OPTIONS = (
    "upstream",
    "listen",
    "mode",
    "workers",
    "set",
    "idle_timeout",
    "envoy_listen",
)  # mitmproxy has its own, or no use for it
_OPTION_TYPES: dict[Any, Any] = {
    str: str,
    str | None: str,
    int: int,
    bool: bool,
    float: str,  # mitmproxy knows no float
    tuple[str, ...]: Sequence[str],
}
OPTIONS: tuple[Option, ...] = _options()


def load_settings(
    *, file: Path | None = None, environment: Mapping[str, str] | None = None, flags: Mapping[str, Any] | None = None
) -> Settings:
    """Settings from all sources. Flags that are None or empty were not given. Raises ConfigError."""
    values: dict[str, Any] = {}
    if file is not None:
        values = _read_file(file)
    _merge(values, _from_environment(os.environ if environment is None else environment))
    _merge(values, {name: value for name, value in (flags or {}).items() if value not in (None, (), [], "")})
    return _convert(values)


def _convert(values: dict[str, Any]) -> Settings:
    try:
        settings = msgspec.convert(values, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"bad setting: {error}") from error
    for name in ("listen", "metrics_listen"):
        host_port(getattr(settings, name), name)
    if settings.envoy_listen is not None:
        _check_envoy_listen(settings.envoy_listen)
    for name in ("include", "exclude"):
        _check_expressions(getattr(settings, name), name)
    for pattern, changes in settings.stall_models.items():
        unknown = changes.keys() - set(StallThresholds.__struct_fields__)
        if unknown:
            raise ConfigError(
                f"bad setting: stall_models.{pattern!r} has {', '.join(sorted(unknown))}, which is no phase"
            )
    if settings.otel_endpoint is not None and not settings.otel_endpoint.startswith(("http://", "https://")):
        raise ConfigError(f"bad setting: otel_endpoint is {settings.otel_endpoint!r}, not a URL like http://host:4318")
    if settings.websocket_history not in ("auto", "keep", "drop"):
        raise ConfigError(f"bad setting: websocket_history is {settings.websocket_history!r}, not auto, keep or drop")
    if settings.log_level.upper() not in ("DEBUG", "INFO", "WARNING", "ERROR"):
        raise ConfigError(f"bad setting: log_level is {settings.log_level!r}, not debug, info, warning or error")
    return settings


def _check_envoy_listen(text: str) -> None:
    if text.startswith("unix:"):
        if not text.removeprefix("unix:"):
            raise ConfigError("bad setting: envoy_listen is 'unix:' without a path: unix:PATH or HOST:PORT")
        return
    try:
        host_port(text, "envoy_listen")
    except ConfigError:
        raise ConfigError(f"bad setting: envoy_listen is {text!r}, neither unix:PATH nor HOST:PORT") from None


def _check_expressions(expressions: Sequence[str], name: str) -> None:
    for expression in expressions:
        try:
            re.compile(expression)
        except re.error as error:
            raise ConfigError(f"bad setting: {name} has {expression!r}, no regular expression: {error}") from error


def _read_file(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {file}: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"the configuration {file} is no TOML: {error}") from error


def _merge(values: dict[str, Any], more: Mapping[str, Any]) -> None:
    for name, value in more.items():
        if isinstance(value, dict) and isinstance(values.get(name), dict):
            values[name] = {**values[name], **value}
        else:
            values[name] = value


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """`SIDECAR_NAME`, lists separated by white space, members of tables as `SIDECAR_STALLS_MID_STREAM`."""
    values: dict[str, Any] = {}
    known = {field.name: get_args(field.type)[0] for field in msgspec.structs.fields(Settings)}
    for variable, text in environment.items():
        if not variable.startswith(ENVIRONMENT_PREFIX) or not text:
            continue
        name = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
        table, _, member = name.partition("_")
        if name in known:
            values[name] = tuple(text.split()) if known[name] == tuple[str, ...] else text
        elif table in known and member:
            values.setdefault(table, {})[member] = text
        elif name != "config":
            raise ConfigError(f"unknown setting in the environment: {variable}")
    return values


def from_proxy_options(options: Any) -> Settings:
    """Settings out of mitmproxy's `sidecar_…` options (and the file they name). Raises ConfigError."""
    flags: dict[str, Any] = {}
    for option in OPTIONS:
        value = getattr(options, option.name)
        if option.name == OPTION_PREFIX + "config" or value == option.default:
            continue
        flags[option.name.removeprefix(OPTION_PREFIX)] = value
    file = getattr(options, OPTION_PREFIX + "config")
    return load_settings(file=Path(file) if file else None, flags=flags)


def host_port(text: str, name: str) -> tuple[str, int]:
    """`host:port` or `[v6]:port` apart. Raises ConfigError naming the setting."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535 or not host:
        raise ConfigError(f"bad setting: {name} is {text!r}, not HOST:PORT")
    return host.strip("[]"), int(port)
