"""docs/quirks.md, generated from the registry: `python -m sidecar.quirks.document > docs/quirks.md`."""

import re
from collections import Counter

from sidecar.quirks.quirk import Quirk, Severity
from sidecar.quirks.registry import GROUPS, QUIRKS

_LEGEND = {
    Severity.INFO: "normal somewhere, worth knowing; healthy streams show it, and it stays out of alerts",
    Severity.WARNING: "departs from the dialect; a client may read something else than what was meant",
    Severity.BREAKS_CLIENTS: "known to crash, hang or corrupt common clients",
}

_INTRODUCTION = """\
# Quirks

<!-- Generated from sidecar/quirks by `make docs`: change the rows there, not this page. -->

A quirk is one habit of an endpoint, or of a hop before it, that a client can stumble over. Ids are permanent: some may
be added, none is renamed or used again.

A stream counts once for each quirk that it shows, however often it shows it, both in `llm_stream_quirks_total` (label
`quirk`) and in the output of `sidecar inspect`. A stream of which telemetry was dropped shows none, since what is
missing may be our own loss. What needs the reads or the clock of the wire is not judged for a file without timing.

Each entry gives the severity, the dialects it is looked for in, the definition, what breaks, what a client's author
does about it, and a public report or document that shows it. Times and sizes are the defaults of settings.
"""


def markdown() -> str:
    """The whole page."""
    parts = [_INTRODUCTION, _legend(), _contents()]
    for title, rows in GROUPS.items():
        parts += [f"## {title}\n", *(_entry(quirk) for quirk in rows)]
    return "\n".join(parts)


def _legend() -> str:
    counts = Counter(quirk.severity for quirk in QUIRKS)
    lines = ["| severity | meaning | quirks |", "| --- | --- | --- |"]
    lines += [f"| `{severity}` | {meaning} | {counts[severity]} |" for severity, meaning in _LEGEND.items()]
    return "\n".join(lines) + "\n"


def _contents() -> str:
    lines = ["## Contents\n"]
    for title, rows in GROUPS.items():
        lines.append(f"- [{title}](#{_anchor(title)})")
        lines += [f"  - [`{quirk.id}`](#{quirk.id}), {_spoken(quirk.severity)}" for quirk in rows]
    return "\n".join(lines) + "\n"


def _entry(quirk: Quirk) -> str:
    dialects = ", ".join(f"`{name}`" for name in sorted(quirk.dialects)) or "every dialect"
    return (
        f"### `{quirk.id}`\n\n"
        f"**{_spoken(quirk.severity)}**, looked for in {dialects}.\n\n"
        f"{quirk.summary}\n\n"
        f"- What breaks: {quirk.breaks}\n"
        f"- Guard: {quirk.guard}\n"
        f"- Reference: <{quirk.reference}>\n"
    )


def _spoken(severity: Severity) -> str:
    return severity.value.replace("_", " ")


def _anchor(title: str) -> str:
    """The fragment that Markdown renderers give a heading."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


if __name__ == "__main__":
    print(markdown(), end="")
