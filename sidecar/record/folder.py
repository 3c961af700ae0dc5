"""The directory of capture files: one open at a time, rotated by size and age, bounded in total, whole lines only."""

import contextlib
import errno
import fcntl
import logging
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

logger = logging.getLogger(__name__)

PREFIX, SUFFIX = "sidecar-", ".jsonl"
_BLOCK = 64 * 1024


class Bounds(msgspec.Struct, frozen=True):
    """Bytes of one file and of all of them together, and the age in seconds beyond which another file is begun."""

    file_bytes: int
    file_seconds: float
    total_bytes: int


class TooLargeError(ValueError):
    """A line is longer than all files together may be."""


class Folder:
    """Appends lines to capture files of its own. Files can be read by their owner only.

    A line is in the directory whole or not at all: what a full disk or a killed process left of one is taken back, by
    whoever comes next. Not safe for use by several threads; several processes may share a directory.
    """

    def __init__(self, path: Path, bounds: Bounds, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self.torn = 0
        """Lines that killed processes had left unfinished, and that were taken back."""
        self.bytes = 0
        """Bytes of all capture files here, as far as this process knows."""
        self._bounds = bounds
        self._file_bytes = min(bounds.file_bytes, max(bounds.total_bytes // 2, 1))
        self._clock = clock
        self._file: Path | None = None
        self._fd = -1
        self._size = 0
        self._opened = 0.0
        self._number = 0

    def prepare(self) -> None:
        """Make the directory, and clear up behind writers that were killed. Raises OSError where it cannot be used."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self.path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(self.path))
        if not os.access(self.path, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self.path))
        if stat.S_IMODE(self.path.stat().st_mode) & 0o077:
            logger.warning("others may look into %s; recordings in it are readable by you only (chmod 700)", self.path)
        for file in self._files():
            with contextlib.suppress(OSError):  # somebody else's; it costs them nothing
                self.torn += _mend(file)
        self._make_room(0)

    def append(self, line: bytes) -> None:
        """One line, its line break included. Raises TooLargeError, or OSError, after which nothing of it is there."""
        if len(line) > self._bounds.total_bytes:
            raise TooLargeError
        if self._file is not None and self._is_over(len(line)):
            self.close()
        if self._file is None or self.bytes + len(line) > self._bounds.total_bytes:
            self._make_room(len(line))
        if self._file is None:
            self._open()
        self._write(line)
        self._size += len(line)
        self.bytes += len(line)

    def _is_over(self, more: int) -> bool:
        if self._size + more > self._file_bytes or self._clock() - self._opened >= self._bounds.file_seconds:
            return True
        return os.fstat(self._fd).st_nlink == 0  # somebody has deleted it

    def _open(self) -> None:
        now = self._clock()
        stamp = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime(now))}.{int(now * 1000) % 1000:03}Z"
        while True:
            self._number += 1
            file = self.path / f"{PREFIX}{stamp}-{os.getpid()}-{self._number:04}{SUFFIX}"
            try:
                self._fd = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            except FileExistsError:
                continue
            break
        with contextlib.suppress(OSError):  # not every file system has locks; then nobody mends behind us either
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._file, self._size, self._opened = file, 0, now

    def _write(self, line: bytes) -> None:
        rest = memoryview(line)
        try:
            while rest:
                written = os.write(self._fd, rest)
                if not written:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
                rest = rest[written:]
        except OSError:
            self._take_back()
            raise

    def _take_back(self) -> None:
        """The disk is full, or broken: the next line goes into another file, this one ends where it was whole."""
        with contextlib.suppress(OSError):
            os.ftruncate(self._fd, self._size)
        self.close()

    def close(self) -> None:
        """No more lines go into the file that is open."""
        if self._file is None:
            return
        os.close(self._fd)
        if self._size == 0:
            with contextlib.suppress(OSError):
                self._file.unlink()
        self._file, self._fd = None, -1

    def _files(self) -> list[Path]:
        """The capture files of all recorders here, those first to which nothing was written for longest."""
        found: list[tuple[int, Path]] = []
        with os.scandir(self.path) as entries:
            for entry in entries:
                ours = entry.name.startswith(PREFIX) and entry.name.endswith(SUFFIX)
                if ours and entry.is_file(follow_symlinks=False):
                    with contextlib.suppress(FileNotFoundError):  # another recorder has deleted it
                        found.append((entry.stat().st_mtime_ns, self.path / entry.name))
        return [file for _, file in sorted(found)]

    def _make_room(self, more: int) -> None:
        """Delete the oldest files until so many bytes fit beside the rest."""
        sizes: dict[Path, int] = {}
        for file in self._files():
            with contextlib.suppress(FileNotFoundError):
                sizes[file] = file.stat().st_size
        total = sum(sizes.values())
        for file, size in sizes.items():
            if total + more <= self._bounds.total_bytes:
                break
            if file == self._file:
                continue
            with contextlib.suppress(FileNotFoundError):
                file.unlink()
            total -= size
        self.bytes = total


def _mend(file: Path) -> int:
    """Take back a last line that was not finished, unless its writer lives; how many there were."""
    with file.open("r+b") as opened:
        size = opened.seek(0, os.SEEK_END)
        if size == 0 or _last_byte_is_break(opened.fileno(), size):
            return 0
        fcntl.flock(opened.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        size = opened.seek(0, os.SEEK_END)
        if _last_byte_is_break(opened.fileno(), size):
            return 0
        whole = 0
        end = size
        while end > 0 and not whole:
            begin = max(end - _BLOCK, 0)
            whole = begin + os.pread(opened.fileno(), end - begin, begin).rfind(b"\n") + 1
            whole = 0 if whole == begin else whole
            end = begin
        if whole:
            opened.truncate(whole)
        else:
            file.unlink()
        return 1


def _last_byte_is_break(fd: int, size: int) -> bool:
    return size > 0 and os.pread(fd, 1, size - 1) == b"\n"
