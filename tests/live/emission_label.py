"""What buffering there was, from the emission log of the origin and the arrival log of the client: the truth to judge by.

The rules are those by which arrival traces are labelled: delays are relative to the smallest, so that constant latency
is no buffering; seconds throughout.
"""

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from sidecar.stream.buffering import Verdict

_FEW = 5
_SHORT = 0.05
_BURST = 0.02
_LONG = 0.3
_TOGETHER = 0.001


def label(emitted: Sequence[float], arrived: Sequence[float]) -> Verdict:
    """The verdict on one stream; both give a time per event, in order."""
    span = emitted[-1] - emitted[0]
    if len(emitted) < _FEW or span < _SHORT:
        return "inconclusive"
    last_burst = max(_BURST, 0.02 * (arrived[-1] - arrived[0]))
    in_burst = sum(at >= arrived[-1] - last_burst for at in arrived) / len(arrived)
    if in_burst > 0.9:
        return "buffered" if span >= _LONG else "inconclusive"
    delays = [came - went for went, came in zip(emitted, arrived, strict=True)]
    added = sorted(delay - min(delays) for delay in delays)
    interval = median(after - before for before, after in pairwise(emitted))
    if added[int(0.95 * (len(added) - 1))] < max(_BURST, interval):
        return "none"
    grouped = _in_groups(emitted, arrived)
    assert len(grouped) >= 2 and sum(grouped) >= len(emitted) / 2, "neither smooth nor coalesced: no clear truth"
    return "coalesced"


def _in_groups(emitted: Sequence[float], arrived: Sequence[float]) -> list[int]:
    """Sizes of the groups: four or more events that arrived together though emitted at three or more times."""
    groups: list[list[int]] = []
    for number, at in enumerate(arrived):
        if groups and at - arrived[groups[-1][-1]] <= _TOGETHER:
            groups[-1].append(number)
        else:
            groups.append([number])
    return [len(group) for group in groups if len(group) >= 4 and len({emitted[number] for number in group}) >= 3]
