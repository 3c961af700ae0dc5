"""Every number of every alert, in one place. Change it here, run `make dashboards`, and commit what that writes."""

from dataclasses import dataclass, field


def _hung_for() -> dict[str, str]:
    return {
        "waiting_headers": "1m",
        "before_first_token": "1m",
        "mid_stream": "30s",
        "keepalive_only": "2m",
        "after_finish": "30s",
    }


@dataclass(frozen=True)
class Thresholds:
    """Durations are written as Prometheus writes them, shares are between 0 and 1.

    When a single stream counts as stalled is the sidecar's own setting (`[stalls]`), not one of these: what follows
    here comes on top of it.
    """

    job: str = "llm-sidecar"
    """The `job` label that your scrape configuration gives to sidecars."""
    runbooks: str = "https://runbooks.example/llm-sidecar"
    """Where `runbook_url` leads: the folder of docs/runbooks/ as you publish it. This one is a reserved name that leads
    nowhere; `--runbook-base` of `sidecar dashboards` and of this generator replaces it."""
    every: str = "30s"
    """How often the rules are evaluated."""

    hung_for: dict[str, str] = field(default_factory=_hung_for)
    """How long streams must have been stalled in a phase, by phase."""
    many_hung: int = 10
    """Stalled streams of one upstream at once that are worth waking somebody..."""
    many_hung_share: float = 0.2
    """...if they are also this share of what it has in flight."""
    many_hung_for: str = "1m"

    window: str = "15m"
    """Over which outcomes are compared with all exchanges."""
    window_for: str = "5m"
    """How long such a share must hold."""
    at_least: int = 20
    """Exchanges in that window below which a share says nothing."""

    no_terminator_share: float = 0.05
    no_terminators: int = 10
    """Missing terminators in `absolute_window` that are worth a look whatever their share."""
    absolute_window: str = "1h"
    truncated_share: float = 0.02
    error_event_share: float = 0.05
    broken_share: float = 0.05
    """Exchanges that the upstream reset, or to which it never answered."""

    first_token_seconds: float = 5
    """The objective's limit on the time to the first token; a bound of the histogram's buckets."""
    first_token_goal: float = 0.95
    """The share of exchanges that must keep it."""
    burn_fast: float = 14.4
    """Times the sustainable rate at which the budget burns: 2 % of a month's budget in one hour."""
    burn_slow: float = 6
    """5 % of a month's budget in six hours."""
    burn_at_least: int = 20
    """Exchanges in the long window below which nothing burns."""

    buffered_share: float = 0.2
    usage_missing_share: float = 0.1
    new_quirk_window: str = "1h"
    """How long a new quirk stays an alert."""

    disconnect_share: float = 0.2
    disconnect_times: float = 3
    """Times the share of the day before."""

    down_for: str = "2m"
    no_proxy_for: str = "5m"
    violation_window: str = "1h"
    """How long one exchange whose bytes were changed stays an alert; only a sample is checked."""
    dropping_window: str = "10m"
    analyzer_lag_seconds: float = 1
    """99th percentile; a bound of the histogram's buckets."""
    loop_lag_seconds: float = 0.1
    """Mean of the largest lag of each second: what the proxy adds to every read."""
    lag_for: str = "5m"


THRESHOLDS = Thresholds()
