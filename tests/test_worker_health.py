"""What is left of processes that are gone."""

from sidecar import metrics as m
from sidecar.capture.records import Health
from sidecar.export.series import Series
from sidecar.worker_health import _REMEMBERED, Workers


def health(worker: int) -> Health:
    counts = [0] * (len(m.TEE_SECONDS.buckets) + 1)
    return Health(0, 1, worker, 0, 7, 100, 0, 0, 0.0, counts, 0.25)


def labels(series: Series, metric: m.Metric) -> list[str]:
    return [found[0] for found, *_ in series.values(metric)]


def test_a_process_that_is_gone_has_no_state_and_keeps_its_counters() -> None:
    series = Series()
    workers = Workers(series)
    workers.said(1, health(100))
    workers.said(2, health(200))
    workers.gone(1)
    workers.gone(3)
    assert labels(series, m.LOOP_LAG) == labels(series, m.OUTBOX_BYTES) == ["200"]
    assert labels(series, m.RECORDS_DROPPED) == ["100", "200"]


def test_one_that_connects_again_is_there_again() -> None:
    series = Series()
    workers = Workers(series)
    workers.said(1, health(100))
    workers.said(2, health(100))
    workers.gone(1)
    assert labels(series, m.LOOP_LAG) == ["100"]


def test_of_many_that_come_and_go_the_latest_are_remembered() -> None:
    series = Series()
    workers = Workers(series)
    for number in range(100):
        workers.said(number, health(number))
        workers.gone(number)
    latest = [str(number) for number in range(100 - _REMEMBERED, 100)]
    assert labels(series, m.RECORDS_DROPPED) == latest
    assert [found[0] for found, _ in series.distributions(m.TEE_SECONDS)] == latest
    assert labels(series, m.LOOP_LAG) == []
