"""The golden reports under tests/fixtures/reports: the corpus's worst cases as `inspect` shows them to people.

`python -m tests.files.reports` writes them anew. Read what changed before it is committed: the advice has to be right.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from click.testing import CliRunner

from sidecar.cli import cli
from sidecar.files.replay.recordings import Recordings
from sidecar.files.sources import captures_of
from tests.corpus import CORPUS, FIXTURES

REPORTS = FIXTURES / "reports"
FORMS = {"text": "txt", "markdown": "md"}
STREAMS = CORPUS / "streams.jsonl"
WORST = (
    "a02-overloaded-mid-stream",
    "a08-message-stop-truncated",
    "f28-many-events-one-read",
    "n07-gzip-unflushed-buffers-all",
    "n13-nginx-buffers-whole-response",
    "n14-clumped-delivery",
    "n17-h2-rst-after-idle",
    "n21-upstream-hang",
    "n22-hang-after-headers",
    "n2-an-fine-grained-cut-by-max-tokens",
    "n2-re-reset-before-last-blank-line",
    "t13-fragment-with-null-function",
    "t15-tool-call-leaks-as-text",
    "x07-done-before-last-content",
)
SOCKETS = ("rt16-mid-response-tcp-reset", "rt23-second-create-rejected")
"""WebSockets of the same kind."""
WHOLE_FILES = {
    "curl": ["captures/transformers-chat.http"],
    "several": ["captures/transformers-chat.http", "captures/vllm-chat.http", "captures/litellm_mock-messages.http"],
}
"""Arguments of `inspect`, by the name of the report."""


def reports() -> Iterator[tuple[str, list[str]]]:
    """Names of the reports and the arguments of `inspect` that print them, relative to the fixtures."""
    for case in WORST:
        yield case, [f"corpus/streams.jsonl#{case}"]
    for case in SOCKETS:
        yield case, [f"websocket/sockets.jsonl#{case}"]
    yield from WHOLE_FILES.items()


def rendered(arguments: list[str], form: str, folder: Path) -> str:
    """What `inspect` prints; `FILE#ID` is one exchange of a file, copied out of it into `folder`."""
    files = [_one(argument, folder) if "#" in argument else argument for argument in arguments]
    with contextlib.chdir(FIXTURES):  # names of files are part of a report
        result = CliRunner().invoke(cli, ["inspect", f"--{form}", *files], standalone_mode=False)
    assert result.stderr == "", result.stderr
    return result.stdout


def _one(argument: str, folder: Path) -> str:
    file, _, case = argument.partition("#")
    (line,) = (line for line in (FIXTURES / file).read_bytes().split(b"\n") if f'"id": "{case}"'.encode() in line)
    target = folder / f"{case}.jsonl"
    target.write_bytes(line + b"\n")
    assert [capture.id for capture in Recordings(captures_of([target])).captures] == [case]
    return str(target)


def main() -> None:
    """Write all of them."""
    import tempfile

    REPORTS.mkdir(exist_ok=True)
    for old in REPORTS.iterdir():
        old.unlink()
    with tempfile.TemporaryDirectory() as folder:
        for name, arguments in reports():
            for form, ending in FORMS.items():
                (REPORTS / f"{name}.{ending}").write_text(rendered(arguments, form, Path(folder)), encoding="utf-8")


if __name__ == "__main__":
    main()
