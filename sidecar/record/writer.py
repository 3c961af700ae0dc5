"""The thread that writes recordings: a bounded queue in front, every line counted that was written or was not."""

import logging
import queue
import threading
import time
from collections.abc import Callable

from sidecar.failures import log_failure
from sidecar.record.draft import Draft
from sidecar.record.folder import Folder, TooLargeError

logger = logging.getLogger(__name__)

WAITING = 1024
"""Exchanges that wait to be written, at most."""
_SAY_AGAIN = 60.0  # seconds between two warnings that the disk takes nothing


class Writer:
    """Writes exchanges that are over. `line_of` makes their lines, in the thread.

    `offer` and the counts are for the event loop; nothing here ever blocks it.
    """

    def __init__(self, folder: Folder, line_of: Callable[[Draft], bytes]) -> None:
        self._folder = folder
        self._line_of = line_of
        self._queue: queue.Queue[Draft | None] = queue.Queue(WAITING)
        self._lock = threading.Lock()
        self._waiting_bytes = 0
        self._written = 0
        self._dropped: dict[str, int] = {"torn": folder.torn} if folder.torn else {}
        self._said_at = float("-inf")
        self._thread = threading.Thread(target=self._run, name="recordings", daemon=True)
        self._thread.start()

    @property
    def waiting_bytes(self) -> int:
        """Bytes of what waits, about."""
        with self._lock:
            return self._waiting_bytes

    @property
    def written(self) -> int:
        """Exchanges written."""
        with self._lock:
            return self._written

    @property
    def folder_bytes(self) -> int:
        """Bytes of all capture files in the directory."""
        return self._folder.bytes

    def dropped(self) -> dict[str, int]:
        """Exchanges that were not written, by reason."""
        with self._lock:
            return dict(self._dropped)

    def offer(self, draft: Draft) -> None:
        """Write it when there is time."""
        with self._lock:
            self._waiting_bytes += draft.size
        try:
            self._queue.put_nowait(draft)
        except queue.Full:
            with self._lock:
                self._waiting_bytes -= draft.size
            self.count("queue_full")

    def count(self, reason: str) -> None:
        """One exchange was dropped."""
        with self._lock:
            self._dropped[reason] = self._dropped.get(reason, 0) + 1

    def close(self, seconds: float) -> None:
        """Write what waits, for so long at most."""
        deadline = time.monotonic() + seconds
        try:
            self._queue.put(None, timeout=seconds)
        except queue.Full:
            pass
        else:
            self._thread.join(max(deadline - time.monotonic(), 0.0))
        if self._thread.is_alive():
            logger.warning("%s recordings could not be written in time", self._queue.qsize())

    def _run(self) -> None:
        while (draft := self._queue.get()) is not None:
            reason = self._write(draft)
            if reason:
                self.count(reason)
            with self._lock:
                self._written += not reason
                self._waiting_bytes -= draft.size
        self._folder.close()

    def _write(self, draft: Draft) -> str:
        """Why it was not written; empty where it was."""
        try:
            self._folder.append(self._line_of(draft))
        except TooLargeError:
            return "too_large"
        except OSError as error:
            now = time.monotonic()
            if now - self._said_at >= _SAY_AGAIN:
                self._said_at = now
                logger.warning("cannot record into %s: %s", self._folder.path, error.strerror or error)
            return "disk"
        except Exception as error:  # noqa: BLE001  # a bug costs this exchange its recording, the thread lives on
            log_failure(logger, "recording", error)
            return "failure"
        return ""
