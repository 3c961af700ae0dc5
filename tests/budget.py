"""How long property-based tests search: a fixed, repeatable budget, or a longer random search by hand."""

import os

from hypothesis import HealthCheck, settings

_BY_HAND = int(os.environ.get("SIDECAR_FUZZ_EXAMPLES", "0"))


def budget(examples: int) -> settings:
    """Settings for so many examples, always the same ones; `SIDECAR_FUZZ_EXAMPLES=5000` searches that many new ones."""
    return settings(
        max_examples=_BY_HAND or examples,
        derandomize=not _BY_HAND,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
