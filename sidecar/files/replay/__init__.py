"""Serves recorded exchanges again: with their timing, chunk boundaries and endings."""

from sidecar.files.replay.recordings import NothingToReplay, Recordings
from sidecar.files.replay.server import Served, Server
from sidecar.files.replay.threaded import Replay

__all__ = ["NothingToReplay", "Recordings", "Replay", "Served", "Server"]
