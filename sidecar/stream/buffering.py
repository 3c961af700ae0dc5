"""Whether something on the path held the stream back, judged from when its events arrived."""

from typing import Literal

import msgspec

from sidecar.stream.arrivals import Arrivals

Verdict = Literal["none", "coalesced", "buffered", "inconclusive"]


class Buffering(msgspec.Struct, frozen=True):
    """A verdict and the figures it rests on."""

    verdict: Verdict
    evidence: dict[str, float | int | str | bool]


def judge(arrivals: Arrivals | None) -> Buffering:
    """The verdict on one stream; None or too little evidence is inconclusive."""
    if arrivals is None or arrivals.events < 5:
        return Buffering("inconclusive", {"events": arrivals.events if arrivals else 0})
    return Buffering("inconclusive", {"events": arrivals.events})
