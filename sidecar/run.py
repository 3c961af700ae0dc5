"""The shortcut: plain events that came one a read, taken past the stages and told to them many at a time.

They are told before anything else is read, and before anybody looks.
"""

from itertools import pairwise

from sidecar.body import Body, is_clean
from sidecar.dialects.base import Dialect
from sidecar.dialects.plain import Plain
from sidecar.framing.sse import single
from sidecar.stream.stream import Stream

RUN = 16
"""Events that are held at most."""


class Run:
    """Plain events of one kind. `limit` bounds a read."""

    __slots__ = ("_dialect", "_limit", "_prefix", "_text", "ats", "plain", "sizes", "texts")

    def __init__(self, plain: Plain, dialect: Dialect, limit: int) -> None:
        self.plain = plain
        self.ats: list[int] = []
        self.sizes: list[int] = []
        self.texts: list[str] = []
        self._prefix = plain.prefix
        self._text = plain.text
        self._dialect = dialect
        self._limit = limit

    def take(self, data: bytes, at: int) -> int:
        """One read: the number of events held now, 0 where this is none of them, and nothing was done."""
        payload = single(data, self._prefix, self._limit)
        if payload is None or not (payload.isascii() or is_clean(payload)):
            return 0
        text = self._text(self._dialect, payload)
        if not text:
            return 0
        ats = self.ats
        ats.append(at)
        self.texts.append(text)
        self.sizes.append(len(data))
        return len(ats)

    def tell(self, body: Body, stream: Stream) -> tuple[int, int, int]:
        """Tell both of the events held, of which there is one at least, and hold none. Gives when the first and the last
        of them came, and the longest time between two of them."""
        ats = self.ats
        gaps = [later - earlier for earlier, later in pairwise(ats)]
        body.take_run(self.plain.prefix, self.sizes, ats)
        stream.take_run(self.plain.kind, self.texts, ats, gaps, self.plain.usage(self._dialect))
        first, last = ats[0], ats[-1]
        ats.clear()
        self.sizes.clear()
        self.texts.clear()
        return first, last, max(gaps, default=0)
