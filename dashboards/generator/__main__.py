"""Writes everything that is generated into `dashboards/` of this checkout."""

from pathlib import Path

from dashboards.generator.rules import rule_files
from dashboards.generator.thresholds import THRESHOLDS

HOME = Path(__file__).parents[1]


def main() -> None:
    """Write the rule files."""
    for name, text in rule_files(THRESHOLDS).items():
        (HOME / "alerts" / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
