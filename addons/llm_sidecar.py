"""For a plain mitmproxy: `mitmdump -s addons/llm_sidecar.py`, `mitmweb -s …`. Options: `--set sidecar_…=…`."""

import sys
from pathlib import Path

try:
    import sidecar  # noqa: F401  # installed beside mitmproxy
except ImportError:  # a checkout, under a mitmproxy installed elsewhere
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from sidecar.addon import addons as addons
