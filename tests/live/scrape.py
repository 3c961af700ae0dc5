"""What the analyzer publishes, parsed: samples of /metrics, and waiting for them."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample


class Samples:
    """One scrape, or the difference of two."""

    def __init__(self, rows: dict[tuple[str, frozenset[tuple[str, str]]], float]) -> None:
        self._rows = rows

    @classmethod
    def of(cls, samples: Iterable[Sample]) -> "Samples":
        """From the parser's samples."""
        return cls({(sample.name, frozenset(sample.labels.items())): sample.value for sample in samples})

    def __sub__(self, before: "Samples") -> "Samples":
        return Samples({key: value - before._rows.get(key, 0.0) for key, value in self._rows.items()})

    def only(self, **labels: str) -> "Samples":
        """The series with these labels."""
        return Samples({key: value for key, value in self._rows.items() if labels.items() <= dict(key[1]).items()})

    def by(self, name: str, *by: str, **labels: str) -> dict[Any, float]:
        """The sums of a metric by the values of these labels, zeros left out; a single label gives plain keys."""
        found: dict[Any, float] = {}
        for (row, pairs), value in self._rows.items():
            has = dict(pairs)
            if row == name and value and labels.items() <= has.items():
                key = has[by[0]] if len(by) == 1 else tuple(has[label] for label in by)
                found[key] = found.get(key, 0.0) + value
        return found

    def total(self, name: str, **labels: str) -> float:
        """The sum of a metric over all series with these labels."""
        return sum(value for _, value in self._matching(name, labels))

    def value(self, name: str, **labels: str) -> float:
        """The one series of a metric with these labels."""
        ((_, value),) = self._matching(name, labels)
        return value

    def _matching(self, name: str, labels: dict[str, str]) -> list[tuple[dict[str, str], float]]:
        return [
            (dict(pairs), value)
            for (row, pairs), value in self._rows.items()
            if row == name and labels.items() <= dict(pairs).items()
        ]


async def scrape(url: str, prefix: str = "") -> Samples:
    """The samples of /metrics, as Prometheus would read them; with a prefix only those, which is quicker."""
    async with httpx.AsyncClient(trust_env=False) as client:
        answer = await client.get(url, timeout=10)
    answer.raise_for_status()
    text = answer.text
    if prefix:
        text = "".join(line for line in text.splitlines(keepends=True) if line.startswith(prefix))
    families = text_string_to_metric_families(text)
    return Samples.of(sample for family in families for sample in family.samples)


async def streams(url: str) -> dict[str, Any]:
    """What /api/streams says; `url` is that of the metrics."""
    async with httpx.AsyncClient(trust_env=False) as client:
        answer = await client.get(url.removesuffix("/metrics") + "/api/streams", timeout=10)
    answer.raise_for_status()
    found: dict[str, Any] = answer.json()
    return found


async def wait_until[T](find: Callable[[], Awaitable[T | None]], seconds: float = 30.0, what: str = "") -> T:
    """Poll until something true is found, and return it. What is not up yet (no connection) is not found."""
    deadline = asyncio.get_running_loop().time() + seconds
    while True:
        try:
            found = await find()
        except httpx.TransportError:
            pass
        else:
            if found:
                return found
        assert asyncio.get_running_loop().time() < deadline, f"not within {seconds} s: {what or find}"
        await asyncio.sleep(0.05)


async def counted(
    url: str, number: int, *, since: Samples | None = None, seconds: float = 30.0, **labels: str
) -> Samples:
    """Wait until exactly so many exchanges (with these labels) were counted (since then); their samples."""
    before = since or Samples({})

    def count(samples: Samples) -> float:
        return (samples.only(**labels) - before).total("llm_streams_total")

    async def enough() -> bool:
        return count(await scrape(url, "llm_streams_total")) >= number

    await wait_until(enough, seconds, f"{number} exchanges counted at {url}")
    samples = (await scrape(url)).only(**labels) - before
    assert samples.total("llm_streams_total") == number, samples.by("llm_streams_total", "outcome", "dialect")
    return samples


async def assert_sound(url: str) -> None:
    """No exception was caught anywhere: the sidecar swallows them for the traffic's sake, a test must not."""
    samples = await scrape(url, "llm_sidecar_")
    assert samples.total("llm_sidecar_tee_failures_total") == 0
    assert samples.total("llm_sidecar_passivity_violations_total") == 0
    assert samples.by("llm_sidecar_stage_failures_total", "stage") == {}
