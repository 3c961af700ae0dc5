"""All that `sidecar inspect` prints of files, and the exit code it ends with."""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from sidecar.capture.interest import Chooser
from sidecar.config import Settings
from sidecar.files.capture import CaptureError
from sidecar.files.comparison import Comparison
from sidecar.files.conformance import Conformance, Reason
from sidecar.files.hops import HeldReports, several_servers
from sidecar.files.inspect import Form, inspect_source, lines_of
from sidecar.files.markdown import markdown_hop
from sidecar.files.sockets import SocketReport
from sidecar.files.sources import Source, sources
from sidecar.files.text import hop_report
from sidecar.stream.summary import Summary

FAILED, UNREAD = 1, 2


def report_files(
    files: Iterable[str | Path],
    form: Form,
    settings: Settings,
    *,
    fail_on: Iterable[Reason] = (),
    show_content: bool,
    echo: Callable[[str], None],
    warn: Callable[[object], None],
) -> int:
    """Print the reports in the order of the files; 0, `FAILED` where something gave a reason to fail, `UNREAD` where not
    all could be read: then passing would mean nothing."""
    comparison, conformance = Comparison(), Conformance(fail_on)
    code = 0
    show = _Printer(echo)
    try:
        with sources(files) as given:
            held = HeldReports() if several_servers(source.path for source in given) else None
            for source in given:
                for found in _found(source, settings, warn):
                    if isinstance(found, CaptureError):
                        code = UNREAD
                        warn(found)
                        continue
                    for summary, said in lines_of(found, form, show_content=show_content):
                        if summary is not None:
                            comparison.add(summary, source.name)
                            conformance.add(summary)
                        if held is None:
                            show(said)
                        else:
                            held.add(summary, said)
            for said in held.with_hops(markdown_hop if form == "markdown" else hop_report) if held is not None else ():
                show(said)
            if len(given) > 1 and form != "json":
                show(comparison.text() if form == "text" else comparison.markdown())
    except CaptureError as error:  # of the arguments as a whole
        code = UNREAD
        warn(error)
    for failure in conformance.failures():
        warn(failure)
        code = code or FAILED
    return code


def _found(
    source: Source, settings: Settings, warn: Callable[[object], None]
) -> Iterator[Summary | SocketReport | CaptureError]:
    chooser = Chooser(settings.include, settings.exclude)
    try:
        yield from inspect_source(source, settings.quirks, chooser, warn)
    except CaptureError as error:
        yield error


class _Printer:
    """Prints reports, an empty line between those for people."""

    def __init__(self, echo: Callable[[str], None]) -> None:
        self._echo = echo
        self._between = ""

    def __call__(self, said: dict[str, object] | str) -> None:
        # ASCII only in JSON: readers that split at U+2028 would tear a line apart.
        self._echo(self._between + said if isinstance(said, str) else json.dumps(said))
        self._between = "\n"
