"""What `inspect` prints for people: the golden reports, escaping, the sparkline, and the exit code for a CI."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from sidecar.cli import cli
from sidecar.files.findings import COLUMNS, MEANINGS, sparkline
from sidecar.files.markdown import block, code
from sidecar.files.plain import plain
from sidecar.stream.gaps import EXACT_LIMIT, Gaps
from sidecar.stream.outcome import Outcome
from tests.corpus import CORPUS, FIXTURES
from tests.files.reports import FORMS, REPORTS, rendered, reports


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("name", "arguments"), list(reports()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_reports_are_the_golden_ones(name: str, arguments: list[str], form: str, tmp_path: Path) -> None:
    golden = REPORTS / f"{name}.{FORMS[form]}"
    assert rendered(arguments, form, tmp_path) == golden.read_text(encoding="utf-8"), "python -m tests.files.reports"


def test_there_is_no_golden_report_of_nothing() -> None:
    names = {f"{name}.{ending}" for name, _ in reports() for ending in FORMS.values()}
    assert {path.name for path in REPORTS.iterdir()} == names


def inspect(*arguments: str | Path, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(cli, ["inspect", *map(str, arguments)], input=stdin, standalone_mode=False)


def exit_code(result: Result) -> Any:
    return result.exit_code if result.exception is None else getattr(result.exception, "code", result.exception)


def one(case: str, folder: Path, **changes: Any) -> Path:
    """One exchange of the corpus in a file of its own."""
    lines = (CORPUS / "streams.jsonl").read_bytes().split(b"\n")
    (line,) = (line for line in lines if f'"id": "{case}"'.encode() in line)
    target = folder / f"{case}.jsonl"
    target.write_text(json.dumps(json.loads(line) | changes))
    return target


@pytest.mark.parametrize(
    ("case", "fails"),
    [
        ("n14-clumped-delivery", ()),
        ("n13-nginx-buffers-whole-response", ("warning",)),
        ("x07-done-before-last-content", ("warning",)),
        ("n2-an-fine-grained-cut-by-max-tokens", ("warning", "breaks_clients")),
        ("a02-overloaded-mid-stream", ("warning", "breaks_clients", "outcome")),
    ],
)
@pytest.mark.parametrize("reason", ["warning", "breaks_clients", "outcome"])
def test_the_exit_code_says_whether_it_passed(case: str, fails: tuple[str, ...], reason: str, tmp_path: Path) -> None:
    result = inspect("--fail-on", reason, one(case, tmp_path))
    assert exit_code(result) == (1 if reason in fails else 0)
    assert (f"1 failed on {reason}: {case} (" in result.stderr) == (reason in fails)


def test_several_reasons_may_be_given(tmp_path: Path) -> None:
    file = one("n13-nginx-buffers-whole-response", tmp_path)
    result = inspect("--fail-on", "outcome", "--fail-on", "warning", file)
    assert exit_code(result) == 1
    assert "failed on warning: n13-nginx-buffers-whole-response (buffered_delivery)" in result.stderr


def test_what_could_not_be_read_is_worse_than_what_failed(tmp_path: Path) -> None:
    file = one("a02-overloaded-mid-stream", tmp_path)
    file.write_bytes(file.read_bytes() + b"\n{broken\n")
    result = inspect("--fail-on", "outcome", file)
    assert exit_code(result) == 2
    assert f"{file}:2: not an exchange of a capture file" in result.stderr
    assert "1 failed on outcome" in result.stderr


def test_several_files_are_compared_by_endpoint() -> None:
    files = sorted((FIXTURES / "captures").glob("*-chat.http"))
    said = inspect(*files)
    table = said.stdout[said.stdout.rindex("\nendpoint ") :].splitlines()
    assert "exchanges  complete  first token" in table[1]
    assert all(f"/{path.name} " in said.stdout for path in files)
    assert any("no_terminator 1" in line for line in table)
    assert "endpoint  " not in inspect(files[0]).stdout
    markdown = inspect("--markdown", *files).stdout
    assert sum(line.startswith("| `") for line in markdown.splitlines()) == len(files)
    assert [json.loads(line)["dialect"] for line in inspect("--json", *files).stdout.splitlines()]


def test_usage_is_counted_where_it_was_reported() -> None:
    said = inspect(FIXTURES / "captures" / "vllm-chat.http", FIXTURES / "captures" / "vllm-chat_usage.http").stdout
    rows = [line.split() for line in said[said.rindex("\nendpoint ") :].splitlines()[2:4]]
    assert [row[-1] for row in rows] == ["0", "1"]


HOSTILE = "m`|\n<img src=x onerror=alert(1)>\x1b[31m```"


def test_names_from_the_wire_stay_text(tmp_path: Path) -> None:
    body = {"text": json.dumps({"model": HOSTILE, "stream": True})}
    request = {"method": "POST", "url": "http://h/v1/chat/completions", "body": body}
    file = one("n14-clumped-delivery", tmp_path, request=request, id=HOSTILE)
    text, markdown = inspect(file).stdout, inspect("--markdown", file).stdout
    for said in (text, markdown):
        assert "\x1b" not in said
        assert "model m`|�<img" in said
    heading, *_ = markdown.splitlines()
    assert heading == ("### ```` m`|�<img src=x onerror=alert(1)>�[31m``` ````: complete")
    assert "\n````text\n" in markdown


@given(st.text())
def test_code_holds_any_text(text: str) -> None:
    shown = code(text)
    fence = shown[: len(shown) - len(shown.lstrip("`"))] if text else "``"
    assert len(fence) > max((len(run) for run in plain(text).split() if set(run) == {"`"}), default=0)
    assert plain(text) in shown
    lines = block([plain(text)])
    assert lines[0].removesuffix("text") not in lines[1]


def gaps_of(*milliseconds: float) -> Gaps:
    gaps = Gaps()
    for value in milliseconds:
        gaps.add(round(value * 1_000_000))
    return gaps


@pytest.mark.parametrize(
    ("gaps", "line"),
    [
        ((), ""),
        ((20,), ""),
        ((20, 20), "██"),
        ((0, 0.9, 1, 2), "▁▁▂█"),
        ((20, 20, 2000, 20), "▄▄█▄"),
        ((1,) * COLUMNS + (1000,) + (1,) * (COLUMNS - 1), "▂" * 30 + "█" + "▂" * 29),
    ],
)
def test_the_sparkline_shows_the_gaps_in_their_order(gaps: tuple[float, ...], line: str) -> None:
    assert sparkline(gaps_of(*gaps)) == line


def test_gaps_that_were_not_kept_make_no_line() -> None:
    assert sparkline(gaps_of(*[20.0] * (EXACT_LIMIT + 5))) == ""


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=500))
def test_a_sparkline_of_any_gaps_fits(values: list[float]) -> None:
    assert 2 <= len(sparkline(gaps_of(*values))) <= COLUMNS


def test_every_outcome_has_words() -> None:
    assert set(MEANINGS) == set(Outcome.__args__)  # type: ignore[attr-defined]  # a Literal has them
