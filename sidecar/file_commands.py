"""The commands that read recorded exchanges: inspect, replay, fixtures."""

import asyncio
import ssl
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sidecar.capture.interest import Chooser
from sidecar.config import Settings, host_port, load_settings
from sidecar.files.capture import Capture, CaptureError

if TYPE_CHECKING:
    from sidecar.files.conformance import Reason
    from sidecar.files.inspect import Form

_FILES = click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
CONFIG = click.option(
    "--config", type=click.Path(path_type=Path), envvar="SIDECAR_CONFIG", help="TOML file of settings."
)


def _warn(said: object) -> None:
    click.echo(f"sidecar: {said}", err=True)


@click.command()
@_FILES
@click.option("--json", "form", flag_value="json", help="One JSON object a line per exchange.")
@click.option("--markdown", "form", flag_value="markdown", help="Markdown, to be pasted into an issue.")
@click.option("--text", "form", flag_value="text", default="text", help="For a terminal: the default.")
@click.option("--show-content", is_flag=True, help="Include texts, tool arguments and error messages.")
@click.option(
    "--fail-on",
    type=click.Choice(["warning", "breaks_clients", "outcome"]),
    multiple=True,
    help="Exit with 1 if any exchange shows a quirk of at least this severity, or an outcome but `complete`; repeatable.",
)
@CONFIG
def inspect(
    files: tuple[Path, ...], form: "Form", show_content: bool, fail_on: tuple["Reason", ...], config: Path | None
) -> None:
    """Say what happened in recorded exchanges, verdict first.

    FILE is a capture file, what `curl -N` prints (with -i or without), a HAR or a mitmproxy flow file; a folder stands
    for the capture files in it, - for standard input. Of several files a comparison by endpoint is added. Streams that
    were recorded on both sides of a hop are compared, also across files.

    Exit code: 0; 1 if --fail-on found what it looks for; 2 where something could not be read, or for a mistake in the
    command itself.
    """
    from sidecar.files.reporting import report_files

    settings = load_settings(file=config)
    sys.exit(
        report_files(files, form, settings, fail_on=fail_on, show_content=show_content, echo=click.echo, warn=_warn)
    )


@click.command()
@_FILES
@click.option(
    "--listen", metavar="HOST:PORT", default="127.0.0.1:9000", show_default=True, help="Where to serve; port 0: any."
)
@click.option(
    "--speed",
    type=click.FloatRange(min=0),
    default=1.0,
    show_default=True,
    help="How many times as fast as recorded; 0: at once.",
)
@click.option("--loop", is_flag=True, help="After the last of several recordings of one request begin with the first.")
@click.option("--id", "ids", multiple=True, metavar="ID", help="Serve this exchange only; may be repeated.")
@click.option("--list", "only_list", is_flag=True, help="Show what would be served, and serve nothing.")
@click.option("--certificate", type=click.Path(path_type=Path), help="PEM file with certificate and key: serve HTTPS.")
@CONFIG
def replay(
    files: tuple[Path, ...],
    listen: str,
    speed: float,
    loop: bool,
    ids: tuple[str, ...],
    only_list: bool,
    certificate: Path | None,
    config: Path | None,
) -> None:
    """Serve recorded exchanges: their bytes, timing, chunk boundaries and endings, at the paths they were recorded at.

    A request gets the recording of its method and path; query, model, and the body decide between several. The header
    `x-replay-id` names one outright. WebSockets are played in step with the client.
    """
    from sidecar.files.replay import NothingToReplay, Recordings

    try:
        recordings = Recordings(_read_all(files, load_settings(file=config)), ids=ids, loop=loop)
        if only_list:
            _list(recordings.captures)
            return
        asyncio.run(_serve(recordings, host_port(listen, "listen"), speed, certificate))
    except (NothingToReplay, CaptureError) as error:
        raise click.ClickException(str(error)) from error


def _read_all(files: Iterable[Path], settings: Settings) -> Iterator[Capture]:
    """The exchanges of files; what is damaged is said and left out."""
    from sidecar.files.sources import exchanges_of, sources

    chooser = Chooser(settings.include, settings.exclude)
    with sources(files) as found:
        for source in found:
            for capture in exchanges_of(source, chooser, _warn):
                if isinstance(capture, CaptureError):
                    _warn(capture)
                else:
                    yield capture


async def _serve(recordings: object, where: tuple[str, int], speed: float, certificate: Path | None) -> None:
    from sidecar.files.replay import Recordings, Served, Server
    from sidecar.stopping import stop_on_signals

    assert isinstance(recordings, Recordings)

    def told(served: Served) -> None:
        click.echo(f"{served.method} {served.path}  {served.id or 'no recording'}: {served.how}")
        sys.stdout.flush()

    server = Server(recordings, speed=speed, tls=_tls(certificate), told=told)
    until: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    stop_on_signals(until)
    try:
        async with server.listening(*where):
            click.echo(f"replay   {server.url}  ({len(recordings.captures)} exchanges)")
            sys.stdout.flush()
            await until
    except OSError as error:
        raise click.ClickException(f"cannot listen at {where[0]}:{where[1]}: {error.strerror or error}") from error


def _tls(certificate: Path | None) -> ssl.SSLContext | None:
    if certificate is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate)
    except (OSError, ssl.SSLError) as error:
        raise click.ClickException(f"--certificate {certificate}: {error.strerror or error}") from error
    return context


def _list(captures: Iterable[Capture]) -> None:
    from sidecar.files.replay.listing import listing

    for line in listing(captures):
        click.echo(line)


@click.command()
@_FILES
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--id", "ids", multiple=True, metavar="ID", help="Write this exchange only; may be repeated.")
@click.option("--overwrite", is_flag=True, help="Replace what an earlier run wrote there.")
@CONFIG
def fixtures(
    files: tuple[Path, ...], directory: Path, ids: tuple[str, ...], overwrite: bool, config: Path | None
) -> None:
    """Write recorded exchanges as fixtures for tests: one file for each into DIRECTORY, and an index.json.

    Header values and query parameters that may hold secrets are redacted; bodies stay as they are. Serve them with
    `sidecar replay DIRECTORY`, or in tests with sidecar.files.replay.Replay.
    """
    from sidecar.files.fixtures import FixturesError, write_fixtures
    from sidecar.files.replay import NothingToReplay, Recordings

    settings = load_settings(file=config)
    try:
        captures = Recordings(_read_all(files, settings), ids=ids).captures
        allowed = frozenset(name.lower() for name in settings.allow_headers)
        written = write_fixtures(captures, directory, settings.quirks, overwrite=overwrite, allow_headers=allowed)
    except (FixturesError, NothingToReplay, CaptureError) as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:
        raise click.ClickException(f"cannot write {error.filename or directory}: {error.strerror or error}") from error
    click.echo(f"{len(written)} exchanges and index.json in {directory}")
