"""The documents: every link leads somewhere, every command line is one that the program takes, every example is accepted by
what it is for."""

import re
import shlex
import subprocess
from pathlib import Path
from urllib.parse import unquote

import click
import pytest
import yaml

from sidecar.cli import cli
from sidecar.config import load_settings
from sidecar.modes import modes_of
from tests.documents import PROJECT, Block, anchors, blocks, command_lines, links, markdown
from tests.parts import require_program

FILES = markdown()
BLOCKS = [block for file in FILES for block in blocks(file)]
DEPLOY = PROJECT / "docs" / "deploy"


def name_of(value: object) -> str:
    file = value.file if isinstance(value, Block) else value
    return str(file.relative_to(PROJECT)) if isinstance(file, Path) else ""


def test_links_and_anchors_are_found_where_they_are() -> None:
    text = "# Über `a_b` & [c](d.md)\n# Twice\n## Twice\n```sh\n# no heading [x](gone.md)\n```\n[a](b.md#c) `[x](gone.md)` ![p](i.png)\n[r]: e.md\n"
    assert links(text) == ["d.md", "b.md#c", "i.png", "e.md"]
    assert anchors(text) == {"über-a_b--c", "twice", "twice-1"}


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_every_link_leads_somewhere(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    broken = []
    for target in links(text):
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        path, _, anchor = unquote(target).partition("#")
        found = (file.parent / path).resolve() if path else file
        known = anchors(found.read_text(encoding="utf-8")) if found.suffix == ".md" and found.exists() else set()
        if not found.exists() or not found.is_relative_to(PROJECT) or (anchor and anchor not in known):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("file", [file for file in FILES if file.is_relative_to(PROJECT / "docs")], ids=name_of)
def test_every_page_that_is_named_in_passing_is_there(file: Path) -> None:
    """Runbooks are read where links do not work, and name pages by their path in the project."""
    named = re.findall(r"(?<![\w/.])(docs/[\w./-]*[\w/])", file.read_text(encoding="utf-8"))
    assert [path for path in named if not (PROJECT / path).exists()] == []


LINES = [
    pytest.param(block.file, line, id=f"{name_of(block)}: {line[:60]}")
    for block in BLOCKS
    if block.language in ("sh", "bash", "console")
    for line in command_lines(block)
    if re.match(r"(sudo (-u \S+ )?)?sidecar ", line)
]


@pytest.mark.parametrize(("file", "line"), LINES)
def test_the_program_takes_every_command_line(file: Path, line: str) -> None:
    words = shlex.split(line, comments=True)
    words = words[words.index("sidecar") + 1 :]
    words = words[: next((at for at, word in enumerate(words) if word in ("|", "&", ">", "&&")), len(words))]
    name, *arguments = words
    command = cli.get_command(click.Context(cli), name)
    assert command is not None, f"there is no `sidecar {name}`"
    try:
        flags = command.make_context(name, arguments).params
    except click.exceptions.Exit:  # --help
        return
    if name == "run":
        assert all("=" in option for option in flags["set"] or ())
        if flags.pop("config") is None:
            assert modes_of(load_settings(environment={}, flags=flags))


def test_there_are_command_lines() -> None:
    assert len(LINES) > 15


OF_PROMETHEUS = [block for block in BLOCKS if block.language == "yaml" and block.mark in ("prometheus", "rules")]


@pytest.mark.parametrize("block", OF_PROMETHEUS, ids=name_of)
def test_prometheus_takes_its_examples(block: Block, tmp_path: Path) -> None:
    promtool = require_program("promtool", "apt-get install prometheus")
    file = tmp_path / "example.yml"
    # Debian builds its Prometheus without this discovery; the rest of the example is looked at.
    file.write_text(
        block.text.replace("kubernetes_sd_configs:\n      - role: pod\n", "static_configs: [targets: ['a:1']]\n")
    )
    kind = "rules" if block.mark == "rules" else "config"
    answer = subprocess.run([promtool, "check", kind, str(file)], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_all_examples_in_yaml_parse() -> None:
    found = [block for block in BLOCKS if block.language == "yaml"]
    assert len(OF_PROMETHEUS) >= 5
    for block in found:
        assert yaml.safe_load(block.text)


def test_the_unit_starts_what_the_page_starts() -> None:
    unit = (DEPLOY / "llm-sidecar.service").read_text()
    (start,) = re.findall(r"^ExecStart=/opt/llm-sidecar/bin/sidecar run (.*)$", unit, re.M)
    (page,) = [block for block in BLOCKS if block.mark == "start-output"]
    assert set(shlex.split(page.text)[2:]) <= set(start.split())
    command = cli.get_command(click.Context(cli), "run")
    assert command is not None
    assert command.make_context("run", start.split()).params["state_dir"] == "/var/lib/llm-sidecar"
    assert re.findall(r"^ExecStopPost=-\+/usr/sbin/(.*)$", unit, re.M) == [
        block.text.strip() for block in BLOCKS if block.mark == "undo-nft"
    ]
