"""Writes everything that is generated into `dashboards/` of this checkout.

python -m dashboards.generator [--runbook-base URL]
"""

import argparse
from dataclasses import replace
from pathlib import Path

from dashboards.generator.board import board_json
from dashboards.generator.boards import BOARDS
from dashboards.generator.rules import rule_files
from dashboards.generator.thresholds import THRESHOLDS, Thresholds

HOME = Path(__file__).parents[1]


def generated(thresholds: Thresholds) -> dict[str, str]:
    """Paths below `dashboards/` and contents."""
    files = {f"alerts/{name}": text for name, text in rule_files(thresholds).items()}
    return files | {f"grafana/{board.uid}.json": board_json(board) for board in BOARDS}


def main() -> None:
    """Write them; what is no longer generated goes."""
    parser = argparse.ArgumentParser(description="Write the dashboards and rules of this checkout.")
    parser.add_argument("--runbook-base", metavar="URL", default=THRESHOLDS.runbooks, help="where runbook_url leads")
    base = parser.parse_args().runbook_base
    files = generated(replace(THRESHOLDS, runbooks=base.rstrip("/")))
    for folder, pattern in (("alerts", "*.rules.yml"), ("grafana", "*.json")):
        for path in (HOME / folder).glob(pattern):
            if f"{folder}/{path.name}" not in files:
                path.unlink()
    for name, text in files.items():
        path = HOME / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
