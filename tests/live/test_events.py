"""The stream of events behind the page, over real sockets: what it says, to how many, and to whom not."""

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import httpx
from httpx_sse import aconnect_sse

from tests.live.flood import flood
from tests.live.processes import sidecar_analyzer
from tests.live.scrape import streams, wait_until


async def test_a_reader_is_told_all_at_once_and_then_what_is_new(short_path: Path) -> None:
    path = short_path / "s"
    async with sidecar_analyzer(path) as (_, metrics), flood(path, 150):

        async def all_there() -> bool:
            return len((await streams(metrics))["in_flight"]) == 150

        await wait_until(all_there)
        heard: list[tuple[str, dict[str, Any]]] = []
        async with (
            httpx.AsyncClient(trust_env=False, timeout=10) as client,
            aconnect_sse(client, "GET", metrics.replace("/metrics", "/api/events")) as source,
        ):
            async for event in source.aiter_sse():
                heard.append((event.event, json.loads(event.data)))
                if len(heard) == 4:
                    break
            assert [name for name, _ in heard] == ["ended", "live", "live", "live"]
            live = heard[-1][1]
            assert (live["total"], live["stalled"], live["proxies"], live["behind"]) == (150, 0, 1, False)
            assert len(live["in_flight"]) == 100
            one = live["in_flight"][0]
            assert len(one["strip"]) == 48
            assert set(one["strip"]) <= set("0123456789")
            assert "1" in one["strip"]
            url = metrics.replace("/metrics", f"/api/streams/{one['id']}")
            found = (await client.get(url)).json()
            assert (found["state"], found["exchange"]["id"]) == ("in_flight", one["id"])
            assert found["events"] == sum(count for _, count in found["arrivals"]) > 1
            assert (await client.get(f"{url}-none")).status_code == 404


async def test_readers_are_bounded_and_give_their_place_back(short_path: Path) -> None:
    async with sidecar_analyzer(short_path / "s") as (_, metrics), httpx.AsyncClient(trust_env=False) as client:
        url = metrics.replace("/metrics", "/api/events")

        async def status() -> int:
            async with client.stream("GET", url) as answer:
                return answer.status_code

        async with contextlib.AsyncExitStack() as held:
            for _ in range(16):
                answer = await held.enter_async_context(client.stream("GET", url))
                assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream")
            assert await status() == 503

        async def free_again() -> bool:
            return await status() == 200

        await wait_until(free_again, 10)


async def test_another_site_takes_no_place(short_path: Path) -> None:
    async with sidecar_analyzer(short_path / "s") as (_, metrics), httpx.AsyncClient(trust_env=False) as client:
        url = metrics.replace("/metrics", "/api/events")
        for site in ("cross-site", "same-site"):
            assert (await client.get(url, headers={"sec-fetch-site": site})).status_code == 403


async def test_an_analyzer_ends_quietly_while_a_proxy_and_a_reader_are_connected(short_path: Path) -> None:
    path = short_path / "s"
    async with httpx.AsyncClient(trust_env=False) as client, sidecar_analyzer(path) as (analyzer, metrics):
        async with flood(path, 10), client.stream("GET", metrics.replace("/metrics", "/api/events")) as answer:
            assert answer.status_code == 200
            assert await analyzer.stop() == 0
            await asyncio.sleep(0)
        assert analyzer.stderr == ""


async def test_everything_the_page_loads_is_under_a_strict_policy(short_path: Path) -> None:
    async with sidecar_analyzer(short_path / "s") as (_, metrics), httpx.AsyncClient(trust_env=False) as client:
        for path in ("", "page.js", "rows.js", "timeline.js", "page.css", "icon.svg"):
            answer = await client.get(metrics.replace("metrics", path))
            assert answer.status_code == 200, path
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert answer.headers["x-content-type-options"] == "nosniff"
