"""How the processes that capture are, as metrics by process."""

from collections import deque

from sidecar import metrics as m
from sidecar.capture.records import Health
from sidecar.export.series import Series

_GAUGES = (m.OUTBOX_BYTES, m.LOOP_LAG)
_COUNTED = (m.RECORDS_DROPPED, m.TEE_FAILURES, m.PASSIVITY_CHECKS, m.PASSIVITY_VIOLATIONS, m.TEE_SECONDS)
_REMEMBERED = 32  # processes that are gone, whose counters are still there for scrapes to come


class Workers:
    """Each connection is that of one process. One that is gone has no state any more; its counters stay for a while."""

    def __init__(self, series: Series) -> None:
        self._series = series
        self._by_connection: dict[int, str] = {}
        self._gone: deque[str] = deque()

    def said(self, connection: int, record: Health) -> None:
        """What a process says of itself."""
        worker = str(record.worker)
        self._by_connection[connection] = worker
        labels, series = (worker,), self._series
        series.set(m.OUTBOX_BYTES, labels, record.outbox_bytes)
        series.set(m.LOOP_LAG, labels, record.loop_lag_seconds)
        series.set(m.RECORDS_DROPPED, labels, record.records_dropped)
        series.set(m.TEE_FAILURES, labels, record.failures)
        series.set(m.PASSIVITY_CHECKS, labels, record.checks)
        series.set(m.PASSIVITY_VIOLATIONS, labels, record.violations)
        if len(record.tee_buckets) == len(m.TEE_SECONDS.buckets) + 1:
            series.replace_counts(m.TEE_SECONDS, labels, record.tee_buckets, record.tee_seconds)

    def gone(self, connection: int) -> None:
        """A connection ended."""
        worker = self._by_connection.pop(connection, None)
        if worker is None or worker in self._by_connection.values():
            return
        for metric in _GAUGES:
            self._series.forget(metric, (worker,))
        self._gone.append(worker)
        while len(self._gone) > _REMEMBERED:
            oldest = self._gone.popleft()
            if oldest not in self._by_connection.values() and oldest not in self._gone:
                for metric in _COUNTED:
                    self._series.forget(metric, (oldest,))
