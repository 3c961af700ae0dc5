"""Recordings as fixtures of a client's tests, and the example in the documentation."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from click.testing import CliRunner, Result

from sidecar.cli import cli
from sidecar.files.capture import Capture, ResponsePart, read_captures
from sidecar.files.curl import read_bare_body
from sidecar.files.fixtures import line_of, write_fixtures
from sidecar.files.replay import NothingToReplay, Replay
from sidecar.thresholds import QuirkThresholds
from tests import sockets
from tests.corpus import CORPUS, captures
from tests.files.recordings import recording

DOCUMENT = Path(__file__).parents[2] / "docs" / "replay.md"
IN_THE_EXAMPLE = (
    "e02-top-level-object-error",
    "n11-gzip-truncated-reset",
    "n14-clumped-delivery",
    "t13-fragment-with-null-function",
    "x05-no-finish-no-done",
)


def fixtures(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["fixtures", *map(str, arguments)], standalone_mode=False)


def index(folder: Path) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads((folder / "index.json").read_text())["exchanges"]
    return entries


@pytest.mark.parametrize("source", [captures, sockets.captures])
def test_every_exchange_becomes_a_file_that_holds_the_same(source: Any, tmp_path: Path) -> None:
    written = write_fixtures(source().values(), tmp_path, QuirkThresholds())
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*written, "index.json"])
    entries = index(tmp_path)
    assert [entry["file"] for entry in entries] == written
    for entry, capture in zip(entries, source().values(), strict=True):
        (read,) = read_captures(tmp_path / entry["file"])
        assert isinstance(read, Capture)
        assert (read.id, read.chunks, read.messages, read.end) == (
            entry["id"],
            capture.chunks,
            capture.messages,
            capture.end,
        )
        assert entry["file"].startswith(f"{entry['dialect']}-{entry['outcome']}-")


def test_secrets_are_redacted_and_what_is_not_known_stays_so(tmp_path: Path) -> None:
    secret = recording("a", "http://user:hunter2@host/v1/chat/completions?key=hunter2&alt=sse", model="m")
    headers = [("Authorization", "Bearer hunter2"), ("Cookie", "hunter2"), ("X-Mine", "kept"), ("accept", "x")]
    secret = msgspec.structs.replace(
        secret,
        request=msgspec.structs.replace(secret.request, headers=headers),
        response=ResponsePart(200, headers=[("set-cookie", "hunter2")]),
    )
    bare = read_bare_body("b", b"data: [DONE]\n\n")
    chunk = b'data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"x"}}]}\n\n'
    names = write_fixtures(
        [secret, read_bare_body("b", chunk)], tmp_path, QuirkThresholds(), allow_headers=frozenset({"x-mine"})
    )
    one, other = (json.loads((tmp_path / name).read_text()) for name in names)
    assert "hunter2" not in json.dumps(one)
    assert one["request"]["url"] == "http://host/v1/chat/completions?key=[redacted]&alt=sse"
    assert ["x-mine", "kept"] in one["request"]["headers"]
    assert (other["timed"], "response" in other) == (False, False)
    assert json.loads(line_of(bare))["timed"] is False


def test_a_folder_that_holds_anything_else_is_left_alone(tmp_path: Path) -> None:
    source, folder = CORPUS / "streams.jsonl", tmp_path / "streams"
    ids = ("--id", IN_THE_EXAMPLE[0])
    assert fixtures(*ids, source, folder).output == f"1 exchanges and index.json in {folder}\n"
    assert "is not empty" in str(fixtures(source, folder).exception)
    assert fixtures("--overwrite", *ids, source, folder).exception is None
    (folder / "mine.txt").write_text("mine")
    refused = fixtures("--overwrite", *ids, source, folder)
    assert "holds files that `sidecar fixtures` did not write there (mine.txt)" in str(refused.exception)
    assert len([*folder.iterdir()]) == 3


def test_names_are_safe_and_no_two_are_the_same(tmp_path: Path) -> None:
    hostile = [recording(id, model="m") for id in ("../../etc/passwd", "a b", "a/b", "x" * 300, "é")]
    names = write_fixtures(hostile, tmp_path, QuirkThresholds())
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9._-]{1,110}\.jsonl", name) for name in names)


def test_a_uuid_is_shortened_in_the_name(tmp_path: Path) -> None:
    (name,) = write_fixtures(
        [recording("0d13617f-d71e-40de-9119-610c4763326f", model="m")], tmp_path, QuirkThresholds()
    )
    assert name.endswith("-0d13617f.jsonl")


def test_a_replay_in_a_test_serves_files_and_folders(tmp_path: Path) -> None:
    write_fixtures([recording("a", model="a"), recording("b", model="b")], tmp_path, QuirkThresholds())
    with Replay(tmp_path) as replay, httpx.Client(base_url=replay.url, trust_env=False) as client:
        assert client.post("/v1/chat/completions", json={"model": "b"}).json() == {"from": "b"}
        assert client.get("/nothing?key=secret").status_code == 404
        served = replay.served
    assert [(each.method, each.path, each.id) for each in served] == [
        ("POST", "/v1/chat/completions", "b"),
        ("GET", "/nothing", None),
    ]
    assert json.loads(served[0].body) == {"model": "b"}
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{replay.url}/", trust_env=False)


def test_a_replay_says_why_it_cannot_begin(tmp_path: Path) -> None:
    write_fixtures([recording("a")], tmp_path, QuirkThresholds())
    with Replay(tmp_path) as first, pytest.raises(OSError, match="address already in use"):
        Replay(tmp_path, port=int(first.url.rpartition(":")[2])).__enter__()
    with pytest.raises(NothingToReplay, match="no recording has the id b"):
        Replay(tmp_path, ids=["b"])


def test_the_documented_example_works(tmp_path: Path) -> None:
    text = DOCUMENT.read_text()
    tests = tmp_path / "tests"
    tests.mkdir()
    for name in ("conftest.py", "test_client.py"):
        code = re.search(rf"`tests/{name}`:\n\n```python\n(.*?)```", text, re.DOTALL)
        assert code is not None
        (tests / name).write_text(code.group(1))
    ids = [flag for case in IN_THE_EXAMPLE for flag in ("--id", case)]
    assert fixtures(*ids, CORPUS / "streams.jsonl", tests / "streams").exception is None
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tmp_path, tests],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        check=False,
    )
    assert f"{len(IN_THE_EXAMPLE)} passed" in ran.stdout, ran.stdout + ran.stderr
