"""A row of the quirk registry, and what its detector looks at."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any

import msgspec

from sidecar.body import Body
from sidecar.dialects.request import Request
from sidecar.dialects.table import Row
from sidecar.stream.outcome import Ending, Outcome
from sidecar.stream.stream import Stream
from sidecar.thresholds import QuirkThresholds

CHAT = frozenset({"openai.chat", "openai.completions"})
SECOND = 1_000_000_000


class Severity(StrEnum):
    """How much it matters to a client."""

    INFO = "info"
    """Normal somewhere, worth knowing; stays out of alerts."""
    WARNING = "warning"
    """Departs from the dialect."""
    BREAKS_CLIENTS = "breaks_clients"
    """Known to crash, hang or corrupt common clients."""


SEVERITIES = tuple(Severity)
"""From the least to the worst."""


class Evidence(msgspec.Struct, frozen=True):
    """One exchange that is over, as detectors see it. Times are nanoseconds of the proxy's clock."""

    notes: frozenset[str]
    """Habits already named on the way, by the same ids."""
    dialect: Row
    request: Request
    stream: Stream
    body: Body | None
    response_headers: dict[str, str]
    status: int | None
    ending: Ending
    outcome: Outcome
    t0: int | None
    ended_at: int
    usage: dict[str, int] | None
    thresholds: QuirkThresholds
    timed: bool = True
    """Whether reads and times are those of the wire."""
    document: str = ""
    """What a whole body is: `json`, `html` or neither."""

    @property
    def is_chat(self) -> bool:
        return self.dialect.name in CHAT

    @property
    def streamed(self) -> bool:
        """Whether a stream came (status below 400, not one whole document)."""
        return self.status is not None and self.status < 400 and self.body is not None and not self.ending.whole

    def reported(self, name: str) -> Any:
        """A reported token count or None."""
        return None if self.usage is None else self.usage.get(name)


type Detector = Callable[[Evidence], bool]


class Quirk(msgspec.Struct, frozen=True, kw_only=True):
    """One habit of an endpoint. `id` is permanent: never renamed, never reused."""

    id: str
    summary: str
    """One line that defines it."""
    severity: Severity
    breaks: str
    """Which kind of client stumbles, and how."""
    guard: str
    """What a client's author does about it."""
    reference: str
    """A public report or document that shows it."""
    dialects: frozenset[str] = frozenset()
    """Dialects it applies to; empty for all."""
    on: Detector | None = None
    """Whether an exchange shows it; None where an earlier stage names it in passing (`Evidence.notes`)."""

    def shows(self, evidence: Evidence) -> bool:
        """Whether this exchange has the habit."""
        if self.dialects and evidence.dialect.name not in self.dialects:
            return False
        return self.id in evidence.notes if self.on is None else self.on(evidence)
