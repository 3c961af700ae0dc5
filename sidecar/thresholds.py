"""Where observations become findings, and how much is kept: the settings that stages take. Imports nothing of ours."""

import msgspec


class StallThresholds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Seconds without progress after which a stream is stalled, by phase."""

    waiting_headers: float = 60.0
    before_first_token: float = 60.0
    mid_stream: float = 15.0
    keepalive_only: float = 60.0
    after_finish: float = 5.0


class QuirkThresholds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where an observation becomes a quirk; seconds and bytes. Defaults are the registry's."""

    long_gap: float = 30.0
    long_prefill: float = 30.0
    delayed_close: float = 5.0
    buffered_within: float = 0.005
    oversized_event: int = 1024 * 1024


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is kept of one exchange, at most."""

    event_bytes: int = 16 * 1024 * 1024
    request_bytes: int = 4 * 1024 * 1024
    text_chars: int = 1024
