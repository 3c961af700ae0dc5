"""A guard against getting slow, for CI: instructions, as Valgrind counts them, not seconds, so that no neighbour disturbs.

`python -m bench.guard [--update]`. Each work of bench/guarded.py is told as a multiple of a bare decode of the same events
with Python's own json in the same run, which makes it much the same on other machines. It fails where one is more than 30 %
above what is in bench/guard.json; one that is as much below asks for `--update`, so that what was won is kept.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from bench.guarded import WORKS
from bench.results import table

REFERENCE = Path(__file__).with_suffix(".json")
PROJECT = Path(__file__).parents[1]
TOLERANCE = 0.3
MEASURED = tuple(work for work in WORKS if work not in ("nothing", "decode"))
_COUNT = re.compile(r"==(\d+)== I +refs: +([\d,]+)")


class NoValgrind(RuntimeError):
    """Valgrind is missing; the text says how to get it."""


def instructions(*works: str) -> dict[str, int]:
    """How many instructions works take, beginning included. Raises NoValgrind."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise NoValgrind("valgrind is missing: apt-get install valgrind")
    program = (sys.executable, "-m", "bench.guarded", *works)
    options = ("--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")
    done = subprocess.run(
        (valgrind, *options, *program),
        cwd=PROJECT,
        env=os.environ | {"PYTHONHASHSEED": "0"},
        check=True,
        capture_output=True,
        text=True,
    )
    counts = {pid: int(count.replace(",", "")) for pid, count in _COUNT.findall(done.stderr)}
    return {work: counts[pid] for pid, work in map(str.split, done.stdout.splitlines())}


def measure(*works: str) -> dict[str, float]:
    """Works as multiples of the bare decode."""
    found = instructions("nothing", "decode", *works)
    nothing = found["nothing"]
    return {work: round((found[work] - nothing) / (found["decode"] - nothing), 3) for work in works}


def too_slow(found: Mapping[str, float], reference: Mapping[str, float]) -> list[str]:
    """The works that became slower than is tolerated."""
    return [work for work, value in found.items() if value > reference[work] * (1 + TOLERANCE)]


def reference(file: Path = REFERENCE) -> dict[str, float]:
    """What is committed."""
    found: dict[str, float] = json.loads(file.read_text())
    return found


def judge(found: Mapping[str, float], file: Path, headings: tuple[str, str], *, update: bool) -> None:
    """Say how what was found compares with what is committed, or commit it. Exits where something is too slow."""
    if update:
        file.write_text(json.dumps(found, indent=1) + "\n")
    known = reference(file)
    rows = ((what, found[what], known[what], f"{found[what] / known[what] - 1:+.1%}") for what in found)
    print(table((*headings, "reference", "change"), rows))
    if slow := too_slow(found, known):
        sys.exit(f"slower by more than {TOLERANCE:.0%}: {', '.join(slow)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--update", action="store_true")
    asked = parser.parse_args()
    try:
        found = measure(*MEASURED)
    except NoValgrind as error:
        sys.exit(str(error))
    judge(found, REFERENCE, ("work", "decodes"), update=asked.update)
    known = reference()
    if any(found[work] < known[work] * (1 - TOLERANCE) for work in found):
        print("faster by more than that: python -m bench.guard --update keeps it")


if __name__ == "__main__":
    main()
