"""Which quirks each upstream has shown so far, so that a change of behaviour is an event. Bounded, optionally on disk."""

import json
import logging
import os
from collections import OrderedDict
from pathlib import Path

import msgspec

from sidecar.quirks.registry import BY_ID

logger = logging.getLogger(__name__)

UPSTREAMS_KEPT = 2000
_FILE = "quirks.json"
_VERSION = 1

type Upstream = tuple[str, str, str]
"""Provider, model, server (address and port)."""


class _Entry(msgspec.Struct):
    provider: str
    model: str
    server: str
    quirks: list[str]


class _Stored(msgspec.Struct):
    version: int
    upstreams: list[_Entry]


class QuirkMemory:
    """Remembers quirks per upstream; the least recently seen upstream is forgotten beyond `kept`.

    The first exchange with an upstream is its baseline: what it shows is learnt and is not new. With a `directory`
    the memory survives restarts; a file that cannot be read is put aside and said so, never an obstacle.
    """

    def __init__(self, directory: Path | None = None, kept: int = UPSTREAMS_KEPT) -> None:
        self._kept = kept
        self._seen: OrderedDict[Upstream, set[str]] = OrderedDict()
        self._file = directory / _FILE if directory is not None else None
        self.changed = False
        """Whether there is something that `save` would write."""
        if self._file is not None:
            self._load(self._file)

    def learn(self, upstream: Upstream, quirks: tuple[str, ...]) -> list[str]:
        """Take the quirks of one exchange; those that are new for this upstream, sorted."""
        seen = self._seen.get(upstream)
        if seen is None:
            self._seen[upstream] = set(quirks)
            self.changed = True
            if len(self._seen) > self._kept:
                self._seen.popitem(last=False)
            return []
        self._seen.move_to_end(upstream)
        new = sorted(set(quirks) - seen)
        if new:
            seen.update(new)
            self.changed = True
        return new

    def known(self, upstream: Upstream) -> frozenset[str]:
        """What an upstream has shown so far."""
        return frozenset(self._seen.get(upstream, ()))

    def save(self) -> None:
        """Write what has changed, whole or not at all. A disk that refuses is logged, and tried again next time."""
        if self._file is None or not self.changed:
            return
        entries = [_Entry(*upstream, sorted(quirks)) for upstream, quirks in self._seen.items()]
        temporary = self._file.with_suffix(".new")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(msgspec.json.format(msgspec.json.encode(_Stored(_VERSION, entries))))
            os.replace(temporary, self._file)
        except OSError as error:
            logger.warning("cannot save the quirk memory to %s: %s", self._file, error)
        else:
            self.changed = False

    def _load(self, file: Path) -> None:
        try:
            stored = msgspec.json.decode(file.read_bytes(), type=_Stored)
            if stored.version != _VERSION:
                raise ValueError(f"it has version {stored.version}, this sidecar reads version {_VERSION}")
        except FileNotFoundError:
            return
        except (OSError, msgspec.MsgspecError, ValueError) as error:
            logger.warning("cannot use the quirk memory %s (%s); it is put aside and begun anew", file, error)
            self._put_aside(file)
            return
        for entry in stored.upstreams[-self._kept :]:
            known = {quirk for quirk in entry.quirks if quirk in BY_ID}
            self._seen[entry.provider, entry.model, entry.server] = known

    def _put_aside(self, file: Path) -> None:
        try:
            os.replace(file, file.with_suffix(".damaged"))
        except OSError as error:
            logger.warning("cannot put %s aside: %s", file, error)


def log_line(upstream: Upstream, quirk: str, exchange_id: str) -> str:
    """The structured line that tells of a new quirk."""
    provider, model, server = upstream
    return json.dumps(
        {
            "event": "new_quirk",
            "quirk": quirk,
            "severity": str(BY_ID[quirk].severity),
            "provider": provider,
            "model": model,
            "server": server,
            "exchange": exchange_id,
        }
    )
