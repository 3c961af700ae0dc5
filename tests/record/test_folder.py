"""Capture files on a real disk: whole lines, bounds, and what a killed writer left behind."""

import fcntl
import os
import resource
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sidecar.record.folder import Bounds, Folder, TooLargeError

WIDE = Bounds(1_000_000, 3600.0, 10_000_000)


class Clock:
    def __init__(self) -> None:
        self.now = 1_767_225_600.0

    def __call__(self) -> float:
        return self.now


def prepared(path: Path, bounds: Bounds = WIDE, clock: Clock | None = None) -> Folder:
    folder = Folder(path, bounds, clock or Clock())
    folder.prepare()
    return folder


def files(path: Path) -> list[Path]:
    return sorted(path.glob("sidecar-*.jsonl"))


def lines(path: Path) -> list[bytes]:
    return b"".join(file.read_bytes() for file in files(path)).splitlines(keepends=True)


def test_directory_and_files_are_for_their_owner(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        folder = prepared(tmp_path / "a" / "b")
        folder.append(b"x\n")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700
    assert [stat.S_IMODE(file.stat().st_mode) for file in files(tmp_path / "a" / "b")] == [0o600]


def test_a_directory_that_others_may_look_into_is_used_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tmp_path.chmod(0o755)
    prepared(tmp_path)
    assert "others may look into" in caplog.text


def test_no_file_before_there_is_a_line(tmp_path: Path) -> None:
    folder = prepared(tmp_path)
    folder.close()
    assert files(tmp_path) == []


def test_a_new_file_by_size_and_by_age(tmp_path: Path) -> None:
    clock = Clock()
    folder = prepared(tmp_path, Bounds(100, 60.0, 100_000), clock)
    for _ in range(5):
        folder.append(b"x" * 39 + b"\n")
    assert [file.stat().st_size for file in files(tmp_path)] == [80, 80, 40]
    clock.now += 60
    folder.append(b"y\n")
    assert files(tmp_path)[-1].read_bytes() == b"y\n"


def test_a_line_longer_than_a_file_has_one_of_its_own(tmp_path: Path) -> None:
    folder = prepared(tmp_path, Bounds(100, 60.0, 100_000))
    for line in (b"a\n", b"b" * 500 + b"\n", b"c\n"):
        folder.append(line)
    assert [file.stat().st_size for file in files(tmp_path)] == [2, 501, 2]


def test_the_oldest_files_are_deleted_and_nothing_else(tmp_path: Path) -> None:
    foreign = [tmp_path / "notes.txt", tmp_path / "sidecar-mine.txt", tmp_path / "other.jsonl"]
    for file in foreign:
        file.write_bytes(b"z" * 10_000)
    folder = prepared(tmp_path, Bounds(100, 60.0, 1000))
    for number in range(100):
        folder.append(b"%03d" % number + b"x" * 36 + b"\n")
        ours = [file for file in files(tmp_path) if file not in foreign]
        assert sum(file.stat().st_size for file in ours) <= 1000
        assert folder.bytes == sum(file.stat().st_size for file in ours)
    kept = [line[:3] for line in lines(tmp_path) if line.endswith(b"\n")]
    assert kept == [b"%03d" % number for number in range(100 - len(kept), 100)]
    assert len(kept) >= 20
    assert all(file.exists() for file in foreign)


def test_what_was_there_before_counts(tmp_path: Path) -> None:
    first = prepared(tmp_path)
    first.append(b"x" * 899 + b"\n")
    first.close()
    second = prepared(tmp_path, Bounds(500, 60.0, 1000))
    second.append(b"y" * 199 + b"\n")
    assert [line[:1] for line in lines(tmp_path)] == [b"y"]


def test_a_line_larger_than_everything_may_be_is_refused(tmp_path: Path) -> None:
    folder = prepared(tmp_path, Bounds(100, 60.0, 1000))
    folder.append(b"kept\n")
    with pytest.raises(TooLargeError):
        folder.append(b"x" * 1000 + b"\n")
    assert lines(tmp_path) == [b"kept\n"]


def test_a_file_that_somebody_deleted_is_begun_anew(tmp_path: Path) -> None:
    folder = prepared(tmp_path)
    folder.append(b"gone\n")
    files(tmp_path)[0].unlink()
    folder.append(b"here\n")
    assert lines(tmp_path) == [b"here\n"]


@contextmanager
def full_at(size: int) -> Iterator[None]:
    """Files of this process cannot grow beyond some bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_what_a_full_disk_took_of_a_line_is_taken_back(tmp_path: Path) -> None:
    folder = prepared(tmp_path)
    folder.append(b"before\n")
    with full_at(1000):
        for _ in range(3):
            with pytest.raises(OSError, match="too large"):
                folder.append(b"x" * 2000 + b"\n")
        folder.append(b"small\n")
    folder.append(b"y" * 2000 + b"\n")
    folder.close()
    assert [line[:6] for line in lines(tmp_path)] == [b"before", b"small\n", b"yyyyyy"]
    assert all(file.stat().st_size for file in files(tmp_path))


def test_a_directory_that_went_away_is_an_error_each_time_and_no_more(tmp_path: Path) -> None:
    folder = prepared(tmp_path / "r")
    (tmp_path / "r").rmdir()
    for _ in range(2):
        with pytest.raises(OSError):
            folder.append(b"x\n")
    (tmp_path / "r").mkdir()
    folder.append(b"y\n")
    assert lines(tmp_path / "r") == [b"y\n"]


@pytest.mark.parametrize(
    ("left", "mended", "torn"),
    [
        (b"one\ntwo\n", b"one\ntwo\n", 0),
        (b"one\ntw", b"one\n", 1),
        (b"one\n" + b"t" * 200_000, b"one\n", 1),
        (b"a" * 65_535 + b"\n" + b"t" * 65_536, b"a" * 65_535 + b"\n", 1),
        (b"t" * 200_000, None, 1),
        (b"", b"", 0),
    ],
)
def test_the_torn_line_of_a_killed_writer_is_taken_back(
    left: bytes, mended: bytes | None, torn: int, tmp_path: Path
) -> None:
    file = tmp_path / "sidecar-20260101T000000.000Z-1-0001.jsonl"
    file.write_bytes(left)
    folder = prepared(tmp_path)
    assert folder.torn == torn
    assert (file.read_bytes() if file.exists() else None) == mended


def test_the_file_of_a_writer_that_lives_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "sidecar-20260101T000000.000Z-1-0001.jsonl"
    with file.open("wb") as living:
        living.write(b"being writ")
        living.flush()
        fcntl.flock(living, fcntl.LOCK_EX)
        assert prepared(tmp_path).torn == 0
        assert file.read_bytes() == b"being writ"
    assert prepared(tmp_path).torn == 1


WRITER = """
import sys
from pathlib import Path
from sidecar.record.folder import Bounds, Folder
folder = Folder(Path(sys.argv[1]), Bounds(50_000_000, 3600.0, 500_000_000))
folder.prepare()
print("ready", flush=True)
while True:
    folder.append(b"x" * 5_000_000 + b"\\n")
"""


def test_a_writer_that_is_killed_leaves_whole_lines_to_the_next(tmp_path: Path) -> None:
    for round in range(4):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"ready\n"
        with pytest.raises(subprocess.TimeoutExpired):
            writer.wait(0.02 + 0.013 * round)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
    folder = Folder(tmp_path, Bounds(50_000_000, 3600.0, 500_000_000))
    folder.prepare()
    folder.append(b"last\n")
    found = lines(tmp_path)
    assert found[-1] == b"last\n"
    assert {len(line) for line in found[:-1]} <= {5_000_001}
