"""How far estimated output tokens are off the reported ones: `python -m bench.estimates FILE…` (captures or curl output)."""

import statistics
import sys
from pathlib import Path

from sidecar.export.estimate import TokenEstimator
from sidecar.files.inspect import inspect_file
from sidecar.stream.summary import Summary
from sidecar.thresholds import QuirkThresholds


def main(paths: list[Path]) -> None:
    estimator = TokenEstimator(lambda summary, tokens: None)
    print(f"{'files':28} {'streams':>8} {'p10':>6} {'median':>7} {'p90':>6}   estimated / reported output tokens")
    groups: dict[str, list[float]] = {}
    for path in paths:
        group = path.name if path.suffix == ".jsonl" else path.stem.partition("-")[0]
        for summary in inspect_file(path, QuirkThresholds()):
            if not isinstance(summary, Summary) or not summary.usage or summary.outcome != "complete":
                continue
            reported = (summary.usage.get("output") or 0) + (
                (summary.usage.get("reasoning") or 0)
                if "reasoning_tokens_excluded_from_output" in summary.quirks
                else 0
            )
            if reported and summary.output_chunks:
                groups.setdefault(group, []).append(estimator.count(summary) / reported)
    for group, ratios in sorted(groups.items()):
        ratios.sort()
        low, high = ratios[len(ratios) // 10], ratios[-1 - len(ratios) // 10]
        print(f"{group:28} {len(ratios):8} {low:6.2f} {statistics.median(ratios):7.2f} {high:6.2f}")


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
