"""Writes docs/performance.md out of what the benches left in bench/results/: `python -m bench.report` (or `make bench-report`).

The text stands here, the figures come from the results; a bench that was not run keeps the section it has.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import accuracy, analyzer, analyzer_load, growth, path, proxy, ticks
from bench.results import load

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
PICTURE = PAGE.parent / "images" / "growth.svg"

INTRODUCTION = """# Performance

What the sidecar costs, measured. `make bench` runs everything in about ten minutes and prints these tables, `make bench-full`
takes its time over it, `make bench-report` writes this page from the results; each bench is one command, too, and has
`--json`. LiteLLM is installed by `make bench-litellm`, in an environment of its own.

Seconds depend on the machine, ratios hardly do: what is compared was measured in one run, taking turns. The process that is
measured has a core for itself; the load and the sidecar's analyzer share the others. The load is written in Python, too;
where it was `busy` near 1 (of one core) it was the limit, and what was measured could have done more. "Added" is what is
measured less what it is without any proxy. – stands for what so few samples cannot tell.

CI fails where an event, a short stream, a scrape or the tee needs 30 % more instructions than what is committed, as Valgrind
counts them (`python -m bench.guard`), or where the proxy needs 30 % more of mitmdump's CPU for a chunk or a request
(`python -m bench.guard_proxy`). With `--update` they take what they find for the new measure.
"""

SECTIONS: tuple[tuple[str, str, str, Callable[[dict[str, Any]], str]], ...] = (
    (
        "proxy",
        "The proxy",
        "`sidecar run` against plain `mitmdump --set stream_large_bodies=1 --set flow_detail=0`, which has its default "
        "addons and does nothing but stream. CPU is that of the proxy's process for each chunk between the first and the "
        "last of a stream, or for each short request. *Saturated*: 50 streams whose next chunk follows when the client has "
        "the last. *Full speed*: 8 streams that send what is taken, many events in one read.",
        proxy.tables,
    ),
    (
        "path",
        "The path",
        "The same upstream and clients through what a user would pick instead. LiteLLM's proxy runs with one worker and its "
        "Prometheus callback; the sidecar's CPU includes its analyzer. nginx and Envoy observe nothing, they are the floor.",
        path.tables,
    ),
    (
        "analyzer",
        "The analyzer: an event",
        "From a record to the metrics, against a bare `orjson` decode of the same payload.",
        analyzer.tables,
    ),
    (
        "analyzer_load",
        "The analyzer: under load",
        "A `sidecar analyzer` on its own core, told of chunks of 200 chat streams by a bench that stands for the proxy. "
        "Lag is from sending a batch to the analyzer's word that it is in the metrics.",
        analyzer_load.tables,
    ),
    ("ticks", "The analyzer: what stands", "CPU of ticks and scrapes, best of several rounds.", ticks.tables),
    (
        "accuracy",
        "Accuracy",
        "Errors of the sidecar's times, in milliseconds, against the upstream's log of its writes; *client later* is how much "
        "later than the sidecar the client had the same bytes. *Outside* counts chunks whose time was not between the "
        "upstream's write and the client's read: a clock that lies would be there.",
        accuracy.tables,
    ),
    (
        "growth",
        "Growth",
        "![Cost of an event against the number of streams, of series, of events per stream](images/growth.svg)",
        growth.tables,
    ),
)


def section(name: str, title: str, text: str, tables: Callable[[dict[str, Any]], str]) -> str | None:
    """A section between its marks; None where there are no results."""
    found = load(name)
    if found is None:
        return None
    about = found["about"]
    versions = ", ".join(
        f"{package} {about[package]}"
        for package in ("llm-sidecar", "mitmproxy", "uvloop", "orjson")
        if package in about
    )
    machine = f"{about['cpu']}, {about['cores']} cores, Linux {about['kernel']}, Python {about['python']}; {versions}"
    when = f"{about['date']}, commit {about['commit']}, load average {about['load_average']} at the end of it"
    lines = [f"`{found['command']}` on {machine}. {when}.", *(f"{note}." for note in found["notes"])]
    body = "\n\n".join([f"## {title}", text, "\n".join(lines), tables(found["results"])])
    return f"{_begin(name)}\n{body}\n{_END}\n"


_END = "<!-- end -->"


def _begin(name: str) -> str:
    return f"<!-- measured: {name} -->"


def goals() -> str:
    """What is reached and what is missed, of those that were measured."""
    rows: list[str] = []
    for name, verdicts in (("proxy", proxy.verdicts), ("path", path.verdicts)):
        found = load(name)
        for what, where, value, goal, reached in verdicts(found["results"]) if found else ():
            if reached is not None:
                rows.append(f"- {'Reached' if reached else '**Missed**'}: {what} ({where}): {value:g}, goal {goal:g}.")
    found = load("analyzer_load")
    if found:
        kib = found["results"]["memory"]["kib_per_stream"]
        said = "Reached" if kib <= analyzer_load.MEMORY_GOAL_KIB else "**Missed**"
        rows.append(f"- {said}: memory of a stream in flight: {kib:g} KiB, goal {analyzer_load.MEMORY_GOAL_KIB:g}.")
    rows.sort()
    return "\n".join(["<!-- measured: goals -->", "## Goals", "", *rows, _END, ""])


def page(before: str) -> str:
    """The whole page; sections that were not measured anew are as they were `before`."""
    parts = [INTRODUCTION, goals()]
    for name, title, text, tables in SECTIONS:
        made = section(name, title, text, tables)
        kept = re.search(rf"{re.escape(_begin(name))}\n.*?{re.escape(_END)}\n", before, re.S)
        if made is None and kept is not None:
            made = kept[0]
        if made is not None:
            parts.append(made)
        else:
            print(f"{name}: not measured", file=sys.stderr)
    return "\n".join(parts)


def main() -> None:
    before = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    PAGE.write_text(page(before), encoding="utf-8")
    found = load("growth")
    if found:
        PICTURE.write_text(growth.picture(found["results"]), encoding="utf-8")


if __name__ == "__main__":
    main()
