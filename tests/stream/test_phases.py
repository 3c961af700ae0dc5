"""Silence, stalls and thresholds by model."""

import pytest

from sidecar.stream.phases import Progress, StallPolicy
from sidecar.thresholds import StallThresholds

SECOND = 1_000_000_000


def test_a_model_pattern_changes_only_what_it_names_and_the_first_match_counts() -> None:
    policy = StallPolicy(
        StallThresholds(),
        {"o3*": {"before_first_token": 600.0}, "o*": {"before_first_token": 300.0, "mid_stream": 60.0}},
    )
    assert policy.of("o3-pro") == StallThresholds(before_first_token=600.0)
    assert policy.of("o1") == StallThresholds(before_first_token=300.0, mid_stream=60.0)
    assert policy.of("gpt-5") == policy.of(None) == StallThresholds()


def test_a_stall_is_told_once_per_phase_and_again_after_progress() -> None:
    progress = Progress()
    thresholds = StallThresholds(before_first_token=10, mid_stream=5)
    progress.start(0)
    progress.head(0)
    assert progress.check(9 * SECOND, thresholds) is None
    assert progress.check(10 * SECOND, thresholds) == "before_first_token"
    assert progress.check(11 * SECOND, thresholds) is None
    progress.event(12 * SECOND)
    progress.output(12 * SECOND)
    assert progress.check(16 * SECOND, thresholds) is None
    assert progress.check(17 * SECOND, thresholds) == "mid_stream"
    assert progress.stalls == {"before_first_token": 1, "mid_stream": 1}


@pytest.mark.parametrize("heartbeats", [0, 3])
def test_a_silence_with_keepalives_is_told_from_real_silence(heartbeats: int) -> None:
    progress = Progress()
    progress.start(0)
    progress.head(SECOND)
    for number in range(heartbeats):
        progress.keep_alive((2 + number) * SECOND)
    progress.event(9 * SECOND)
    phase = "keepalive_only" if heartbeats else "before_first_token"
    assert progress.silences == {"waiting_headers": SECOND, phase: 8 * SECOND}


def test_keepalives_are_no_progress() -> None:
    progress = Progress()
    progress.start(0)
    progress.head(0)
    for second in range(100):
        progress.keep_alive(second * SECOND)
    assert progress.silence(100 * SECOND) == 100 * SECOND
    assert progress.phase() == "keepalive_only"
