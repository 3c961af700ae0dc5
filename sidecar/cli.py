"""The command line. Every mistake of a user is one line on standard error and exit code 2."""

import asyncio
import re
import sys
from collections.abc import Callable, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import click

from sidecar import file_commands, starting
from sidecar.config import ConfigError, load_settings
from sidecar.file_commands import CONFIG
from sidecar.start_error import StartError
from sidecar.stopping import stop_on_signals


def _options[F: Callable[..., Any]](*options: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator; the help has the last one first."""

    def decorate(command: F) -> F:
        return reduce(lambda decorated, option: option(decorated), options, command)

    return decorate


_METRICS = click.option(
    "--metrics-listen", metavar="HOST:PORT", help="/metrics, live page, health checks.  [default: 127.0.0.1:9464]"
)


_otel_options = _options(
    click.option("--capture-content", is_flag=True, default=None, help="Prompts and answers go into the spans."),
    click.option(
        "--otel-pending-spans",
        type=click.FloatRange(min=0),
        is_flag=False,
        flag_value=10.0,
        metavar="[SECONDS]",
        help="Mark exchanges in flight for so long (10 s) with a span.",
    ),
    click.option("--otel-metrics", is_flag=True, default=None, help="Send the metrics over OTLP, too."),
    click.option("--otel-endpoint", metavar="URL", help="OTLP collector; else as OTEL_EXPORTER_OTLP_* say."),
)


_access_options = _options(
    click.option("--metrics-certificate", metavar="PEM", help="Certificate and key: HTTPS for metrics and page."),
    click.option("--metrics-token-file", metavar="FILE", help="The token that readers of these have to show."),
)


_record_options = _options(
    click.option(
        "--record-total-mib", type=click.IntRange(min=1), metavar="N", help="All files together; the oldest go.  [1024]"
    ),
    click.option("--record-file-seconds", type=float, metavar="N", help="A new file after so long.  [3600]"),
    click.option(
        "--record-file-mib", type=click.IntRange(min=1), metavar="N", help="A new file after so many MiB.  [64]"
    ),
    click.option("--record-scrub", is_flag=True, default=None, help="Replace all content by filler."),
    click.option("--record-only", metavar="EXPR", help="Just those, e.g. 'outcome!=complete or ttft>5s'."),
    click.option("--record", metavar="DIR", help="Record exchanges into capture files."),
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="llm-sidecar")
def cli() -> None:
    """Flight recorder for LLM streams: watches traffic on the wire and says what each stream did."""


@cli.command()
@click.option("--upstream", metavar="URL", help="Reverse proxy to this URL.")
@click.option("--listen", metavar="HOST:PORT", help="Where the reverse proxy listens.  [default: 127.0.0.1:8080]")
@click.option("--mode", multiple=True, metavar="MODE", help="Any mitmproxy mode, repeated, instead of --upstream.")
@click.option("--workers", type=click.IntRange(min=1), metavar="N", help="Proxy processes that share the port.  [1]")
@_METRICS
@CONFIG
@click.option("--socket", metavar="PATH", help="Feed a running `sidecar analyzer` instead of starting one.")
@click.option("--state-dir", metavar="DIR", help="Where the memory of quirks survives restarts.")
@click.option("--estimate-tokens", is_flag=True, default=None, help="Estimate output tokens where none came.")
@_access_options
@_record_options
@_otel_options
@click.option("--set", multiple=True, metavar="NAME=VALUE", help="An option of mitmproxy's own, repeated.")
def run(config: Path | None, **flags: Any) -> None:
    """Run the proxy with its analyzer until interrupted."""
    settings = load_settings(file=config, flags=flags)

    def ready(listening: Sequence[str], analyzer: dict[str, str]) -> None:
        for address in listening:
            click.echo(f"proxy    {address}")
        for name in ("metrics", "page"):
            if name in analyzer:
                click.echo(f"{name:<8} {analyzer[name]}")
        sys.stdout.flush()

    try:
        if settings.workers > 1:
            from sidecar import workers

            asyncio.run(workers.run(settings, ready))
        else:
            asyncio.run(starting.run(settings, ready), loop_factory=starting.event_loop())
    except StartError as error:
        raise click.ClickException(str(error)) from error


@cli.command()
@click.option("--socket", metavar="PATH", help="Unix socket for proxies to connect to.")
@click.option("--envoy-listen", metavar="unix:PATH|HOST:PORT", help="Where Envoys tell of their traffic (docs/deploy).")
@click.option("--state-dir", metavar="DIR", help="Where the memory of quirks survives restarts.")
@_METRICS
@_access_options
@_record_options
@_otel_options
@CONFIG
def analyzer(config: Path | None, **flags: Any) -> None:
    """Run the analyzer alone; any number of proxies and Envoys may feed it."""
    from sidecar import service

    settings = load_settings(file=config, flags=flags)
    if settings.socket is None and settings.envoy_listen is None:
        raise click.UsageError("nothing to listen on: give --socket PATH, --envoy-listen unix:PATH|HOST:PORT, or both")

    def ready(addresses: dict[str, str]) -> None:
        for name, address in addresses.items():
            click.echo(f"{name:<8} {address}")
        sys.stdout.flush()

    async def serve() -> None:
        until: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        stop_on_signals(until)
        await service.run(settings, ready, until)

    try:
        asyncio.run(serve())
    except StartError as error:
        raise click.ClickException(str(error)) from error


@cli.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--confdir",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where mitmproxy keeps it.  [default: ~/.mitmproxy]",
)
def authority(directory: Path, confdir: Path | None) -> None:
    """Write what clients have to trust into DIRECTORY: the certificate of the proxy's authority, made where there is none.

    llm-sidecar.crt is the certificate, without its key; bundle.pem has it beside the usual public authorities, for
    SSL_CERT_FILE and the like.
    """
    from sidecar.authority import DEFAULT_CONFDIR, NoAuthority, hand_out

    try:
        written = hand_out(directory, confdir or Path(DEFAULT_CONFDIR))
    except NoAuthority as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"cannot write {error.filename or directory}: {error.strerror or error}") from error
    for file in written:
        click.echo(str(file))


for _command in (file_commands.inspect, file_commands.replay, file_commands.fixtures):
    cli.add_command(_command)


@cli.command()
@click.argument("quirk_id", required=False)
def quirks(quirk_id: str | None) -> None:
    """List the quirk registry, or one quirk of it in full."""
    from sidecar.quirks.registry import BY_ID, GROUPS

    if quirk_id is None:
        for group, rows in GROUPS.items():
            click.echo(f"\n{group}")
            for row in rows:
                click.echo(f"  {row.id:<40} {row.severity:<15} {row.summary}")
        return
    quirk = BY_ID.get(quirk_id)
    if quirk is None:
        raise click.ClickException(f"no quirk has the id {quirk_id!r}; `sidecar quirks` lists them")
    click.echo(f"{quirk.id} ({quirk.severity})\n{quirk.summary}\n\nbreaks  {quirk.breaks}\nguard   {quirk.guard}")
    click.echo(f"where   {', '.join(sorted(quirk.dialects)) or 'any dialect'}\nsee     {quirk.reference}")


@cli.command()
@click.option("--seconds", type=click.FloatRange(min=1), default=60.0, show_default=True, help="How long it runs.")
@_METRICS
def demo(seconds: float, metrics_listen: str | None) -> None:
    """Show it working: streams with typical faults through a real proxy, and what the sidecar says of them."""
    from sidecar.demo.show import DemoError, play

    settings = load_settings(flags={"metrics_listen": metrics_listen})
    try:
        asyncio.run(play(settings, seconds))
    except DemoError as error:
        raise click.ClickException(str(error)) from error


def _url(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """Refuses what would stand in alerts as a link and not be one."""
    if value is not None and not re.fullmatch(r"(https?|file)://[^\s'\"<>\\]+", value):
        raise click.BadParameter(f"{value!r} is no URL such as https://wiki.example.com/runbooks")
    return value


@cli.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--runbook-base",
    metavar="URL",
    callback=_url,
    help="Where alerts link to: the folder of runbooks as you publish it. Else the one that is written, as a file URL.",
)
def dashboards(directory: Path, runbook_base: str | None) -> None:
    """Write Grafana dashboards, Prometheus rules, provisioning and runbooks into DIRECTORY."""
    from sidecar.dashboards import NothingToWrite, runbooks_in, write

    base = runbook_base or runbooks_in(directory)
    try:
        written = write(directory, base)
    except NothingToWrite as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"cannot write {error.filename or directory}: {error.strerror or error}") from error
    click.echo(f"{len(written)} files in {directory}; alerts link to {base}")
    if runbook_base is None:
        click.echo("Publish its runbooks/ where whoever is on call can read it, and name that with --runbook-base URL.")


def main() -> None:
    """The console command: click's errors and ours on one line."""
    try:
        code = cli.main(standalone_mode=False)
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx is not None else "sidecar"
        _fail(f"{error.format_message().rstrip('.')} (see `{command} --help`)")
    except click.ClickException as error:
        _fail(error.format_message())
    except ConfigError as error:
        _fail(str(error))
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    else:
        sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str) -> None:
    click.echo(f"sidecar: {' '.join(message.split())}", err=True)
    sys.exit(2)
