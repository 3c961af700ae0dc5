"""The first token's objective: two alerts over two windows each, by how fast the error budget burns."""

from dashboards.generator.alert import STREAM, Alert, Group, Severity
from dashboards.generator.recording import asked, slow
from dashboards.generator.thresholds import Thresholds

_PERCENT = "{{ $value | humanizePercentage }}"


def objective(thresholds: Thresholds) -> Group:
    """The short window makes an alert resolve soon, the long one keeps a blip from firing it."""
    t = thresholds
    return Group(
        "llm-streams-objective",
        (
            _burn(t, "LLMFirstTokenBudgetBurnFast", "critical", ("5m", "1h"), t.burn_fast, "2m"),
            _burn(t, "LLMFirstTokenBudgetBurnSlow", "warning", ("30m", "6h"), t.burn_slow, "15m"),
        ),
    )


def _burn(t: Thresholds, name: str, severity: Severity, windows: tuple[str, str], times: float, wait: str) -> Alert:
    short, long = windows
    limit = f"{times * (1 - t.first_token_goal):.4g}"
    return Alert(
        name,
        severity,
        f"{slow(long).name} > {limit}\nand\n{slow(short).name} > {limit}\nand\n{asked(long).name} >= {t.burn_at_least}",
        f"First tokens of {STREAM} come too late",
        f"{_PERCENT} of the exchanges in {long} got their first token later than {t.first_token_seconds:g} s or, by "
        f"the upstream's fault, never; {1 - t.first_token_goal:.0%} are allowed. The budget burns at {times:g} times "
        "the sustainable rate or faster.",
        wait,
    )
