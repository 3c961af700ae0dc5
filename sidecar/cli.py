"""The command line."""

import json
import sys
from pathlib import Path

import click

from sidecar.files.capture import CaptureError
from sidecar.files.inspect import inspect_file, report
from sidecar.quirks.quirk import QuirkThresholds


@click.group()
def main() -> None:
    """Flight recorder for LLM streams."""


@main.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line per exchange.")
@click.option("--show-content", is_flag=True, help="Include texts, tool arguments and error messages.")
def inspect(files: tuple[Path, ...], as_json: bool, show_content: bool) -> None:
    """What happened in recorded exchanges: capture files or the raw output of `curl -N -i`."""
    damaged = False
    for path in files:
        try:
            for summary in inspect_file(path, QuirkThresholds()):
                if isinstance(summary, CaptureError):
                    damaged = True
                    click.echo(f"sidecar: {summary}", err=True)
                else:
                    click.echo(json.dumps(report(summary, show_content=show_content)))
        except CaptureError as error:
            damaged = True
            click.echo(f"sidecar: {error}", err=True)
    sys.exit(2 if damaged else 0)
