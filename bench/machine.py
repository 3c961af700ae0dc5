"""What it was measured on, how CPU is read, and who may run where."""

import contextlib
import datetime
import gc
import importlib.metadata
import os
import platform
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

PACKAGES = ("llm-sidecar", "mitmproxy", "msgspec", "orjson", "prometheus-client", "uvloop")


def about() -> dict[str, Any]:
    """The machine, versions, how busy it was, and which commit this is."""
    found: dict[str, Any] = {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_average": round(os.getloadavg()[0], 2),
        "date": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC",
        "commit": _commit(),
    }
    for package in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def _cpu_model() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def _commit() -> str:
    command = ("git", "describe", "--always", "--dirty")
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def cpu(pids: Iterable[int]) -> float:
    """Seconds of CPU that processes have used, all their threads, to the nanosecond (Linux's clock of a process)."""
    return sum(time.clock_gettime((~pid << 3) | 2) for pid in pids)


def resident(pid: int) -> int:
    """Bytes of memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def descendants(pid: int) -> list[int]:
    """The processes that a process started, and that those started."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            found += [child, *descendants(child)]
    return found


def command_line(pid: int) -> str:
    """How a process was started."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")


def cores() -> tuple[set[int], set[int]]:
    """The core for what is measured, and those for everything else; the same where there is only one."""
    allowed = sorted(os.sched_getaffinity(0) | _first_affinity)
    return {allowed[0]}, set(allowed[1:]) or {allowed[0]}


_first_affinity = os.sched_getaffinity(0)


def pin(pids: Iterable[int], where: set[int]) -> None:
    """Let processes with all their threads run on these cores only."""
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(task.name), where)


def best(rounds: int, *works: Any) -> list[float]:
    """Seconds of CPU of the best round of each; they take turns, so that all meet the same neighbours."""
    found: list[list[float]] = [[] for _ in works]
    gc.collect()
    for _ in range(rounds):
        for work, took in zip(works, found, strict=True):
            start = time.process_time()
            work()
            took.append(time.process_time() - start)
    return [min(took) for took in found]
