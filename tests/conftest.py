"""Which tests run only when asked for: `SIDECAR_LONG_TESTS=1 make test`."""

import os

# Not finished: the dashboards' queries against a real Prometheus have not been seen passing as a whole.
UNFINISHED = ["live/test_dashboards.py"]

collect_ignore = [] if os.environ.get("SIDECAR_LONG_TESTS") else UNFINISHED
