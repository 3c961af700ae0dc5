"""The report of one exchange for an issue: GitHub's Markdown, nothing from the wire outside of code."""

from collections.abc import Iterator, Sequence

from sidecar.files.findings import advice, usage, verdict
from sidecar.files.plain import plain
from sidecar.files.text import facts, hop_report, timeline
from sidecar.quirks.quirk import Quirk, Severity
from sidecar.quirks.registry import worst_first
from sidecar.stream.hop import Hop
from sidecar.stream.session import SessionSummary
from sidecar.stream.summary import Summary


def markdown_report(summary: Summary, *, show_content: bool) -> str:
    """A section without a line break at its end."""
    lines = [f"### {code(summary.id)}: {summary.outcome}", "", f"**{verdict(summary)}**", ""]
    if todo := advice(summary):
        lines += [todo, ""]
    about = [*facts(summary, show_content=show_content), "", *timeline(summary)]
    if summary.usage is not None:
        about.append(f"usage ({summary.usage_source}): {usage(summary)}")
    for call in summary.tool_calls:
        arguments = f" {plain(call.arguments)}" if show_content else ""
        about.append(f"tool call {plain(call.name)}: {call.verdict}, {call.arguments_chars} characters{arguments}")
    for name in ("reasoning_text", "text", "transcript"):
        if show_content and (said := getattr(summary, name)):
            about.append(f"{name.removesuffix('_text')}: {plain(said)}")
    lines += block(about)
    rows = worst_first(summary.quirks)
    lines += _quirks([row for row in rows if row.severity is not Severity.INFO])
    notes = [row for row in rows if row.severity is Severity.INFO]
    if notes:
        lines += ["", f"Also seen, harmless by itself: {', '.join(code(row.id) for row in notes)}."]
    return "\n".join(lines)


def markdown_session(session: SessionSummary, line: str) -> str:
    """A WebSocket as a heading above the responses in it; `line` is what the terminal says of it."""
    return "\n".join([f"## {code(session.id)}: WebSocket", "", *block(line.splitlines())])


def markdown_hop(hop: Hop) -> str:
    """What the hop behind an exchange did."""
    return "\n".join(["", *block([line.removeprefix("  ") for line in hop_report(hop).splitlines()])])


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; cells are put into code where they hold anything but plain words."""
    lines = [head, ["---"] * len(head), *([_cell(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    return text if text.replace(" ", "").replace(".", "").isalnum() else code(text).replace("|", "\\|") if text else ""


def _quirks(rows: Sequence[Quirk]) -> Iterator[str]:
    for row in rows:
        yield ""
        yield f"- **{row.severity}** [{code(row.id)}]({row.reference}): {row.summary}"
        yield f"  - breaks: {row.breaks}"
        yield f"  - guard: {row.guard}"


def code(text: str) -> str:
    """Text as inline code, whatever backticks it holds."""
    shown = plain(text)
    fence = "`" * (_longest_run(shown) + 1)
    space = " " if shown[:1] == "`" or shown[-1:] == "`" else ""
    return f"{fence}{space}{shown}{space}{fence}"


def block(lines: Sequence[str]) -> list[str]:
    """Lines as a block of code, whatever backticks they hold."""
    fence = "`" * max(3, *(_longest_run(line) + 1 for line in lines))
    return [f"{fence}text", *lines, fence]


def _longest_run(text: str) -> int:
    longest = run = 0
    for character in text:
        run = run + 1 if character == "`" else 0
        longest = max(longest, run)
    return longest
